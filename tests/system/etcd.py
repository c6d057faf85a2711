"""A real etcd for a test: Debian's package etcd-server, one member or several, on ports and in folders of their own."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request


class Unavailable(Exception):
    """Why there is none here."""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


MEMORY, ROOM = "/dev/shm", 2 << 30


def place_of_data(folder):
    """In memory, where there is room: a server that waits for a busy disk answers nobody for as long. It outlives the server all the same."""
    try:
        room = os.statvfs(MEMORY)
        if room.f_bavail * room.f_frsize >= ROOM:
            return tempfile.mkdtemp(prefix="culm-etcd-", dir=MEMORY)
    except OSError:
        pass
    return folder


class Etcd:
    """`members` of them, which have begun when this is entered; each can be killed, and started again on its data. `host`: where they listen;
    `on`: what runs a command line there. `spread`: both for each member, where each has a host of its own, with nothing else at its ports."""

    def __init__(self, folder, members=1, *, scheme="http", words=(), host="127.0.0.1", on=(), spread=()):
        if not shutil.which("etcd"):
            raise Unavailable("etcd is not installed (Debian's etcd-server)")
        self.folder, self.scheme, self.words = folder, scheme, words
        self.hosts, self.ons = [[one[which] for one in spread] or [(host, on)[which]] * members for which in (0, 1)]
        os.makedirs(folder)
        self.data = place_of_data(folder)
        ports = [2379] * members + [2380] * members if spread else free_ports(2 * members)
        self.ports, self.peers = ports[:members], [f"http://{self.hosts[i] if spread else '127.0.0.1'}:{ports[members + i]}" for i in range(members)]
        self.process = [None] * members

    def start(self, number):
        cluster = ",".join(f"m{i}={peer}" for i, peer in enumerate(self.peers))
        here, peer = f"{self.scheme}://{self.hosts[number]}:{self.ports[number]}", self.peers[number]
        with open(os.path.join(self.folder, f"m{number}.log"), "ab") as log:
            self.process[number] = subprocess.Popen(
                [*self.ons[number], "etcd", "--name", f"m{number}", "--data-dir", os.path.join(self.data, f"m{number}"), "--listen-client-urls", here,
                 "--advertise-client-urls", here, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
                 "--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap", "--log-level", "warn", *self.words],
                stdout=log, stderr=log, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))

    def kill(self, number):
        self.process[number].kill()
        self.process[number].wait()

    def post(self, path, body, number=0, token=None):
        """The JSON gateway's answer, as bytes."""
        url = f"{self.scheme}://{self.hosts[number]}:{self.ports[number]}/v3/{path}"
        if self.ons[number]:
            asked = subprocess.run([*self.ons[number], sys.executable, __file__, url, body], capture_output=True, check=False)
            if asked.returncode:
                raise OSError(asked.stderr.decode()[-200:])
            return asked.stdout
        request = urllib.request.Request(url, body.encode(), method="POST", headers={"Authorization": token} if token else {})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def wait(self):
        """Until a change can be made, which takes a leader among them."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for number in range(len(self.ports)):
                try:
                    self.post("kv/put", '{"key":"cmVhZHk=","value":"eA=="}', number)
                    return self
                except (urllib.error.URLError, OSError):
                    time.sleep(0.05)
        raise Unavailable(f"etcd does not begin; see {self.folder}")

    def place(self, prefix, *more):
        return f"etcd{'s' if self.scheme == 'https' else ''}://" + ",".join([*more, *(f"{host}:{port}" for host, port in zip(self.hosts, self.ports))]) + f"/{prefix}"

    def __enter__(self):
        for number in range(len(self.ports)):
            self.start(number)
        return self.wait() if self.scheme == "http" else self

    def __exit__(self, *_):
        for process in self.process:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        if self.data != self.folder:
            shutil.rmtree(self.data, ignore_errors=True)


if __name__ == "__main__":  # on another host: prints the answer to a question
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), method="POST"), timeout=10) as said:
        sys.stdout.buffer.write(said.read())
