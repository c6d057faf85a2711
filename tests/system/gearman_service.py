"""A Gearman job server, a real one, and workers that ask it."""
import os
import socket
import subprocess

from harness import Skipped, check, wait_until

SERVER = "/usr/sbin/gearmand"


class Service:
    """A job server, and workers that ask it."""

    def __init__(self, bench, workers=0):
        if not os.path.exists(SERVER):
            raise Skipped(f"{SERVER} is not here")
        self.bench, self.workers = bench, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.start()
        for _ in range(workers):
            self.add()

    def start(self):
        self.process = subprocess.Popen([SERVER, "--listen", "127.0.0.1", "--port", str(self.port), "--log-file", "none",
                                         "--pid-file", self.bench.path("gearmand.pid")], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.answers(), 30, "a job server")
        check(self.process.poll() is None, "the job server does not start")

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
