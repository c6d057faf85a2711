#!/usr/bin/env python3
"""Writes the seed corpus of the frame target into the folder given."""
import pathlib
import struct
import sys

MAGIC = 0x6D6C7543
out = pathlib.Path(sys.argv[1])


def frame(kind, meta=b"", payload=b"", magic=MAGIC, zero=0, meta_bytes=None, payload_bytes=None):
    # The checksums are put right by the target itself.
    return struct.pack("<IHHIIQQ", magic, kind, zero, len(meta) if meta_bytes is None else meta_bytes, 0,
                       len(payload) if payload_bytes is None else payload_bytes, 0) + meta + payload


def text(value):
    return struct.pack("<I", len(value)) + value


def hello(caller=3, listener=2, nonce=b"a" * 32):
    return struct.pack("<ii", caller, listener) + nonce


def challenge(nonce=b"b" * 32, mac=b"m" * 32):
    return nonce + mac


def proof(address=b"unix:culm-0123", name=b"host", role=0, mac=b"m" * 32):
    return text(address) + text(name) + struct.pack("<I", role) + mac


def welcome(pid=77, node=3, role=0):
    return struct.pack("<QiI", pid, node, role)


def address(node, where):
    return struct.pack("<i", node) + text(where)


def ready(status=0, signature=b"sig", why=b""):
    return struct.pack("<i", status) + text(signature) + text(why)


cases = {
    "empty-frame": frame(1),
    "several": frame(1, b"abc", b"payload") + frame(2) + frame(3, b"", b"x" * 300) + frame(4, b"m"),
    "hello": frame(0xFF00, hello()),
    "hello-node-negative": frame(0xFF00, hello(caller=-2)),
    "hello-for-another": frame(0xFF00, hello(listener=-1)),
    "hello-cut": frame(0xFF00, hello()[:-3]),
    "hello-newcomer": frame(0xFF00, hello(caller=-2, listener=-1)),
    "welcome": frame(0xFF01, welcome(), b"{}"),
    "welcome-node-negative": frame(0xFF01, welcome(node=-2)),
    "welcome-node-huge": frame(0xFF01, welcome(node=100000)),
    "welcome-cut": frame(0xFF01, welcome()[:-1]),
    "preparing": frame(0xFF05),
    "ready": frame(0xFF06, ready()),
    "ready-not": frame(0xFF06, ready(3, b"", b"'x' is not what it was")),
    "ready-status-unknown": frame(0xFF06, ready(1000)),
    "ready-status-negative": frame(0xFF06, ready(-1)),
    "ready-text-long": frame(0xFF06, ready(3, b"", b"x" * 600)),
    "ready-cut": frame(0xFF06, ready()[:-1]),
    "challenge": frame(0xFF04, challenge()),
    "challenge-cut": frame(0xFF04, challenge(mac=b"m" * 31)),
    "handshake": frame(0xFF00, hello()) + frame(0xFF07, proof()),
    "proof": frame(0xFF07, proof()),
    "proof-address-long": frame(0xFF07, proof(address=b"unix:" + b"x" * 300)),
    "proof-length-huge": frame(0xFF07, struct.pack("<I", 0xFFFFFFFF) + b"x"),
    "proof-of-newcomer": frame(0xFF00, hello(caller=-2, listener=-1)) + frame(0xFF07, proof(role=7)),
    "proof-cut": frame(0xFF07, proof()[:-1]),
    "book": frame(0xFF03, address(0, b"unix:culm-0") + address(1, b"tcp:127.0.0.1:5001")),
    "book-hosts": frame(0xFF03, address(2, b"tcp:[0::1]:7") + address(3, b"tcp:n-1.example:5000") + address(4, b"unix:/run/s")
                        + address(5, b"") + address(6, b"tcp:[::1%lo]:99999")),
    "book-odd": frame(0xFF03, address(0, b"unix:culm-0") + b"\1\0"),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zero-not-zero": frame(1, b"a", zero=1),
    "meta-over": frame(1, b"a", meta_bytes=4097),
    "meta-most": frame(1, b"a" * 4096),
    "payload-over": frame(1, b"a", b"b", payload_bytes=65537),
    "payload-huge": frame(1, payload_bytes=2**64 - 1),
    "payload-cut": frame(1, b"a", b"b" * 10, payload_bytes=20),
    "good-then-garbage": frame(1, b"abc", b"payload") + b"\x00" * 40,
}
for name, data in cases.items():
    for chunk in (0, 6, 255):
        (out / f"{name}-{chunk + 1}").write_bytes(bytes([chunk]) + data)
