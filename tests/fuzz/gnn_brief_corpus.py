#!/usr/bin/env python3
"""Writes corpus/gnn_brief: what a node of a run on a graph is told, with a cut and without one, and some that are wrong."""
import json
import pathlib
import struct

PLAN = {"vertices": 5, "edges": 7, "columns": 4, "classes": 2, "train": 2, "rows_max": 3, "directed": False, "sparse": True,
        "aggregated": False, "multiply_first": [True, True]}


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def brief(tail, plan=PLAN):
    return text("epochs: 3\n") + text(json.dumps(plan)) + text("{}") + text("ab" * 32) + struct.pack("<Q", 4096) + tail


def cut(vertices=5, there=1):
    return struct.pack("<B", there) + struct.pack(f"<{vertices}H", *(v % 3 for v in range(vertices)))


CORPUS = {
    "cut": brief(cut()),
    "no-cut": brief(b"\0"),
    "no-tail": brief(b""),
    "cut-short": brief(cut()[:-1]),
    "cut-none": brief(cut(vertices=0)),
    "cut-long": brief(cut(vertices=6)),
    "cut-neither": brief(cut(there=2)),
    "vertices": brief(cut(), {**PLAN, "vertices": (1 << 63) - 1}),
    "vertices-none": brief(cut(), {**PLAN, "vertices": -5}),
    "layers": brief(cut(), {**PLAN, "multiply_first": [True] * 99}),
    "columns": brief(cut(), {**PLAN, "columns": (1 << 63) - 1}),
    "classes": brief(cut(), {**PLAN, "classes": (1 << 61) + 1}),
    "edges": brief(cut(), {**PLAN, "edges": (1 << 63) - 1}),
    "plan": brief(cut(), []),
}

folder = pathlib.Path(__file__).parent / "corpus" / "gnn_brief"
folder.mkdir(parents=True, exist_ok=True)
for name, content in CORPUS.items():
    (folder / name).write_bytes(content)
