"""Who calls the listening addresses of a run without being of it: frames and handshakes as docs/formats.md has them, right and wrong ones.

Between processes of one machine there is no TLS, so that all of it can be said from here. Frames have the checksum of src/base/checksum.c.
"""
import contextlib
import hmac
import os
import resource
import socket
import struct

LEADER, NEWCOMER, VISITOR = -1, -2, -2147483648
HELLO, WELCOME, REFUSED, CHALLENGE, PROOF, TAKE_OVER, PROMISED, DEPOSED = (0xff00 + n for n in (0, 1, 2, 4, 7, 12, 13, 14))
MAGIC, ODD, WORD = 0x6d6c7543, 0x9FB21C651E98DF25, (1 << 64) - 1
LIMIT_S = 60


def mix(lane, word):
    return (((lane << 23 | lane >> 41) & WORD) ^ word) * ODD & WORD


def checksum(data):
    lanes = [1, 2, 3, 4]
    padded = data + b"\0" * (-len(data) % 32)
    for at, word in enumerate(struct.unpack(f"<{len(padded) // 8}Q", padded)):
        lanes[at % 4] = mix(lanes[at % 4], word)
    value = mix(5, len(data))
    for lane in lanes:
        value = mix(value, lane)
    value ^= value >> 32
    value = value * ODD & WORD
    return value ^ value >> 29


def frame(kind, meta, payload=b""):
    def header(own):
        return struct.pack("<IHHIIQQ", MAGIC, kind, 0, len(meta), own, len(payload), checksum(meta + payload))

    return header(checksum(header(0)) & 0xffffffff) + meta + payload


def text(value):
    return struct.pack("<I", len(value)) + value


def introduction(role=0, name=b"intruder"):
    """Address, name, role, host, zone."""
    return text(b"") + text(name) + struct.pack("<I", role) + text(b"elsewhere") + text(b"")


class Shut(Exception):
    """The other side has ended the connection."""


class Call:
    """A connection to such an address, as events have it; what it has sent is kept."""

    def __init__(self, address):
        host, port = address.removeprefix("tcp:").rsplit(":", 1)
        self.socket, self.sent = socket.create_connection((host, int(port)), timeout=LIMIT_S), b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.sent += data
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Shut from None

    def receive(self, count):
        data = b""
        while len(data) < count:
            try:
                some = self.socket.recv(count - len(data))
            except ConnectionResetError:
                some = b""
            if not some:
                raise Shut
            data += some
        return data

    def frame(self):
        """The next one: what it is, and its fields."""
        _, kind, _, meta, _, payload, _ = struct.unpack("<IHHIIQQ", self.receive(32))
        fields = self.receive(meta)
        self.receive(payload)
        return kind, fields

    def greet(self, caller, listener, nonce=None):
        """HELLO; what the other side proves with CHALLENGE: (our nonce, its own, the MAC)."""
        nonce = nonce or os.urandom(32)
        self.send(frame(HELLO, struct.pack("<ii", caller, listener) + nonce))
        kind, fields = self.frame()
        if kind != CHALLENGE:
            raise Shut
        return nonce, fields[:32], fields[32:]

    def get_in(self, token, caller, listener, role=0):
        """The whole handshake; what comes after it."""
        ours, theirs, proof = self.greet(caller, listener)
        ids = struct.pack("<ii", caller, listener) + ours + theirs
        if token and proof != hmac.digest(token, text(b"culm handshake 1, listener") + ids, "sha256"):
            raise AssertionError("the listener has not that token")  # a caller of the run would end here; whoever attacks does not
        said = introduction(role)
        self.send(frame(PROOF, said + hmac.digest(token, text(b"culm handshake 1, caller") + ids + said, "sha256")))
        return self.frame()

    def ended(self):
        """Waits until the other side ends it; whatever it says before."""
        with contextlib.suppress(Shut):
            while True:
                self.receive(1)


class Crowd:
    """So many connections that say nothing, as many as one process may have, all open until the end."""

    def __init__(self, address, count):
        host, port = address.removeprefix("tcp:").rsplit(":", 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.sockets = []
        for number in range(min(count, hard - 500)):
            one = socket.socket()
            # Of one address there are not as many ports.
            one.bind((f"127.0.{1 + number % 200}.1", 0))
            one.setblocking(False)
            one.connect_ex((host, int(port)))
            self.sockets.append(one)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.close()


def listeners(pids):
    """Of these processes, and all that they have started: (address, pid) of each TCP socket at which one listens."""
    inodes = {}
    for name in "/proc/net/tcp", "/proc/net/tcp6":
        with open(name, encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == "0A":
                    inodes[words[9]] = words[1]
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                    if link.startswith("socket:[") and link[8:-1] in inodes:
                        found.append((inodes[link[8:-1]], pid))
    return sorted(set(found))
