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


def hello(token=b"t" * 32, node=3, port=4000, pid=77, name=b"host"):
    return text(token) + struct.pack("<iiQ", node, port, pid) + text(name)


def ready(status=0, signature=b"sig", why=b""):
    return struct.pack("<i", status) + text(signature) + text(why)


cases = {
    "empty-frame": frame(1),
    "several": frame(1, b"abc", b"payload") + frame(2) + frame(3, b"", b"x" * 300) + frame(4, b"m"),
    "hello": frame(0xFF00, hello()),
    "hello-token-long": frame(0xFF00, hello(token=b"t" * 200)),
    "hello-node-negative": frame(0xFF00, hello(node=-2)),
    "hello-port-0": frame(0xFF00, hello(port=0)),
    "hello-cut": frame(0xFF00, hello()[:-3]),
    "hello-length-huge": frame(0xFF00, struct.pack("<I", 0xFFFFFFFF) + b"x"),
    "welcome": frame(0xFF01, struct.pack("<Q", 77), b"{}"),
    "preparing": frame(0xFF05),
    "ready": frame(0xFF06, ready()),
    "ready-not": frame(0xFF06, ready(3, b"", b"'x' is not what it was")),
    "ready-status-unknown": frame(0xFF06, ready(1000)),
    "ready-status-negative": frame(0xFF06, ready(-1)),
    "ready-text-long": frame(0xFF06, ready(3, b"", b"x" * 600)),
    "ready-cut": frame(0xFF06, ready()[:-1]),
    "book": frame(0xFF03, struct.pack("<iiii", 0, 5000, 1, 5001)),
    "book-odd": frame(0xFF03, struct.pack("<iii", 0, 5000, 1)),
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
