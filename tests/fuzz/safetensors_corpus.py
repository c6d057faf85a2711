#!/usr/bin/env python3
"""Writes corpus/safetensors: good-* must be read, bad-* must be refused. Needs Python alone."""
import json
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "safetensors")


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def put(name, header, data=b"", length=None, pad=True):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + data)


os.makedirs(FOLDER, exist_ok=True)
EIGHT = struct.pack("<8f", *range(8))
TWO = {"b": tensor([2, 3], 0, 24), "a": tensor([2], 24, 32)}
put("good-two", {"__metadata__": {"format": "pt"}, **TWO}, EIGHT)
put("good-none", {})
put("good-scalar", {"x": tensor([], 0, 4)}, EIGHT[:4])
put("good-zero-size", {"x": tensor([0, 5], 0, 0), "y": tensor([1], 0, 4), "z": tensor([0], 4, 4)}, EIGHT[:4])
put("good-unpadded", {"x": tensor([1], 0, 4)}, EIGHT[:4], pad=False)
put("good-dtypes", {"h": tensor([2], 0, 4, "BF16"), "i": tensor([1], 4, 12, "I64"), "u": tensor([3], 12, 15, "U8")},
    bytes(15))
put("good-utf8", {"gewicht.ü": tensor([1], 0, 4)}, EIGHT[:4])
put("bad-truncated-data", TWO, EIGHT[:-1])
put("bad-truncated-header", TWO, b"", length=100000)
put("bad-left-over", TWO, EIGHT + b"x")
put("bad-length-huge", TWO, EIGHT, length=2**64 - 1)
put("bad-length-zero", b"", EIGHT, length=0)
put("bad-not-json", b"{\"a\": ", EIGHT)
put("bad-list", b"[1, 2]", EIGHT)
put("bad-nul", b"{\"a\\u0000b\": 1}", EIGHT)
put("bad-not-utf8", b"{\"\xff\xfe\": {}}", EIGHT)
put("bad-newline-name", {"a\nb": tensor([1], 0, 4)}, EIGHT[:4])
put("bad-empty-name", {"": tensor([1], 0, 4)}, EIGHT[:4])
put("bad-twice", b'{"a": %s, "a": %s}' % ((json.dumps(tensor([1], 0, 4)).encode(),) * 2), EIGHT[:4])
put("bad-overlap", {"a": tensor([4], 0, 16), "b": tensor([5], 12, 32)}, EIGHT)
put("bad-hole", {"a": tensor([4], 0, 16), "b": tensor([3], 20, 32)}, EIGHT)
put("bad-late-start", {"a": tensor([7], 4, 32)}, EIGHT)
put("bad-backwards", {"a": tensor([8], 32, 0)}, EIGHT)
put("bad-size", {"a": tensor([3, 3], 0, 32)}, EIGHT)
put("bad-overflow", {"a": tensor([2**62, 2**62], 0, 32)}, EIGHT)
put("bad-overflow-dtype", {"a": tensor([2**62 + 8], 0, 32)}, EIGHT)
put("bad-negative", {"a": tensor([-8], 0, 32)}, EIGHT)
put("bad-fraction", {"a": tensor([8.0], 0, 32)}, EIGHT)
put("bad-dtype", {"a": tensor([8], 0, 32, "F33")}, EIGHT)
put("bad-no-dtype", {"a": {"shape": [8], "data_offsets": [0, 32]}}, EIGHT)
put("bad-no-offsets", {"a": {"shape": [8], "dtype": "F32"}}, EIGHT)
put("bad-three-offsets", {"a": {"shape": [8], "dtype": "F32", "data_offsets": [0, 32, 32]}}, EIGHT)
put("bad-rank", {"a": tensor([1] * 9 + [8], 0, 32)}, EIGHT)
put("bad-entry", {"a": 5}, EIGHT)
put("bad-metadata", {"__metadata__": {"format": 5}, **TWO}, EIGHT)
put("bad-metadata-list", {"__metadata__": [], **TWO}, EIGHT)
put("bad-deep", b'{"a":' + b"[" * 5000, EIGHT)
with open(os.path.join(FOLDER, "bad-empty"), "wb"):
    pass
with open(os.path.join(FOLDER, "bad-seven-bytes"), "wb") as short:
    short.write(bytes(7))
