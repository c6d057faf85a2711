#!/usr/bin/env python3
"""Writes corpus/message: one whole message of each kind, and some with a wrong number in them."""
import pathlib
import struct

STAGES, MICROS, GRADS, PARAMS, PIPELINES, LANES = 3, 8, 11, 7, 2, 4
KEY, HAVE, VIEW, COMMIT, PREPARED, NOTE, DIGESTS, WAITS = range(8)


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def key(iteration=3, where=1, which=2):
    return struct.pack("<QiiIQ", iteration, where, which, 1, 0x0123456789ABCDEF)


def have(micros=MICROS):
    cells = bytes(i % 2 for i in range(STAGES * MICROS))
    lanes = b"".join(struct.pack("<Q", 1 << g) for g in range(GRADS))
    return (struct.pack("<QQiii", 4, 3, STAGES, micros, GRADS) + cells + cells[::-1]
            + bytes(g % 3 == 0 for g in range(GRADS)) + lanes)


def view(phase=1, lane=1, nodes=3, transfers=1, stage=2, reason="node 1 was lost (eof)"):
    roles = b"".join(struct.pack("<ii", i, i - 1) for i in range(PIPELINES * STAGES))
    lanes = struct.pack("<4i", 0, 0, -1, lane)
    members = b"".join(struct.pack("<iiiQ", i, i % 2, i % STAGES, 7) for i in range(nodes))
    copies = b"".join(struct.pack("<Iiii", 9 + i, 0, 1, stage) for i in range(transfers))
    return (struct.pack("<QBQIBiii", 5, phase, 3, 1, 1, PIPELINES, STAGES, LANES) + roles + lanes
            + struct.pack("<i", nodes) + members + struct.pack("<i", transfers) + copies
            + text(reason) + text("checkpoints/step-00000002"))


def commit(clip=0.5):
    return struct.pack("<QQdd", 5, 3, clip, 1.25)


def prepared(params=PARAMS):
    return struct.pack("<QQQdQi", 5, 3, 6, 1.25, 32, params) + struct.pack(f"<{params}d2Q",
                                                                          *range(params), 7, 8)


def digests(params=PARAMS):
    return struct.pack("<QQQi", 5, 3, 6, params) + struct.pack(f"<{params}Q", *range(params))


def waits(silent=2):
    return (struct.pack("<Qi", 9, STAGES) + struct.pack(f"<{STAGES}Q", *range(STAGES))
            + struct.pack("<i", silent) + struct.pack(f"<{silent}i", *range(silent)) + have())


def note(words="no space left on device"):
    return struct.pack("<QQiiQ", 5, 3, 1, 2, 9) + text(words)


CORPUS = {
    "key": (KEY, key()),
    "key-negative": (KEY, key(where=-1)),
    "have": (HAVE, have()),
    "have-other-run": (HAVE, have(micros=MICROS + 1)),
    "view": (VIEW, view()),
    "view-load": (VIEW, view(phase=0)),
    "view-phase": (VIEW, view(phase=2)),
    "view-lane": (VIEW, view(lane=2)),
    "view-stage": (VIEW, view(stage=STAGES)),
    "view-many-nodes": (VIEW, view(nodes=257)),
    "view-many-copies": (VIEW, view(transfers=257)),
    "view-long-reason": (VIEW, view(reason="x" * 192)),
    "commit": (COMMIT, commit()),
    "commit-nan": (COMMIT, commit(clip=float("nan"))),
    "prepared": (PREPARED, prepared()),
    "prepared-other-model": (PREPARED, prepared(params=PARAMS + 1)),
    "digests": (DIGESTS, digests()),
    "digests-other-model": (DIGESTS, digests(params=PARAMS - 1)),
    "waits": (WAITS, waits()),
    "waits-many-silent": (WAITS, waits(silent=257)),
    "note": (NOTE, note()),
    "note-long": (NOTE, note("x" * 1023)),
    "note-too-long": (NOTE, note("x" * 1024)),
    "note-nul": (NOTE, note("a\0b")),
    "note-tail": (NOTE, note() + b"!"),
}

folder = pathlib.Path(__file__).parent / "corpus" / "message"
folder.mkdir(parents=True, exist_ok=True)
for name, (kind, data) in CORPUS.items():
    (folder / name).write_bytes(bytes([kind]) + data)
