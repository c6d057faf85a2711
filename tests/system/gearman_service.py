"""A Gearman job server, a real one, and workers that ask it."""
import contextlib
import os
import random
import socket
import subprocess

from harness import Skipped, check, wait_until

SERVER = "/usr/sbin/gearmand"


def free_port():
    """One that nobody listens at, and that no connection is given for its own end: a job server that is killed finds it free again."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    while True:
        port = random.randrange(max(1024, end // 2), max(2048, end))
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class Service:
    """A job server, and workers that ask it."""

    def __init__(self, bench, workers=0):
        if not os.path.exists(SERVER):
            raise Skipped(f"{SERVER} is not here")
        self.bench, self.workers = bench, []
        for _ in range(20):  # somebody else may take a port that is free
            self.port = free_port()
            if self.start():
                break
        check(self.process.poll() is None, "the job server does not start")
        self.address = f"127.0.0.1:{self.port}"
        for _ in range(workers):
            self.add()

    def start(self):
        """Whether it runs."""
        self.process = subprocess.Popen([SERVER, "--listen", "127.0.0.1", "--port", str(self.port), "--log-file", "none",
                                         "--pid-file", self.bench.path("gearmand.pid")], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.answers(), 120, "a job server")
        return self.process.poll() is None

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
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
        for worker in self.workers:
            worker.kill()
            self.bench.end(worker)
