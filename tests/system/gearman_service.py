"""A Gearman job server, a real one, and workers that ask it."""
import contextlib
import glob
import os
import random
import socket
import subprocess

from harness import Skipped, check, wait_until

SERVER = "/usr/sbin/gearmand"


def reserved_port():
    """A port that nobody listens at, and that no connection is given for its own end: a job server that is killed finds it free again. With
    it comes what keeps the other tests of this machine from it as long as it is open: a name that only one can have."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    while True:
        port = random.randrange(max(1024, end // 2), max(2048, end))
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as one, contextlib.suppress(OSError):
            name.bind(f"\0culm-test-port-{port}")
            one.bind(("127.0.0.1", port))
            return port, name
        name.close()


class Service:
    """A job server, and workers that ask it."""

    def __init__(self, bench, workers=0):
        if not os.path.exists(SERVER):
            raise Skipped(f"{SERVER} is not here")
        self.bench, self.workers = bench, []
        for _ in range(20):  # a program that is no test may take a port that is free
            self.port, self.reserved = reserved_port()
            if self.start():
                break
            self.reserved.close()
        check(self.process.poll() is None, "the job server does not start")
        self.address = f"127.0.0.1:{self.port}"
        for _ in range(workers):
            self.add()

    def start(self):
        """Whether it runs."""
        self.process = subprocess.Popen([SERVER, "--listen", "127.0.0.1", "--port", str(self.port), "--log-file", "none",
                                         "--pid-file", self.bench.path("gearmand.pid")], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.listens(), 300, "a job server")
        return self.process.poll() is None

    def listens(self):
        """Whether it is this one, and not another process, that listens at the port."""
        with open("/proc/net/tcp", encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{self.port:04X}") and row[3] == "0A"}
        with contextlib.suppress(OSError):  # it has ended, or just closes one
            return any(os.readlink(link) in sockets for link in glob.glob(f"/proc/{self.process.pid}/fd/*"))
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def add(self):
        self.workers.append(self.bench.start("gnn", "worker", "--gearman", self.address))
        return self.workers[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.reserved.close()
        for worker in self.workers:
            worker.kill()
            self.bench.end(worker)
