#!/usr/bin/env python3
"""Writes what is large in corpus/message: whole messages, and some with a wrong number in them. The others there are kept as they are."""
import pathlib
import struct

STAGES, MICROS, GRADS, PARAMS, PIPELINES, LANES = 3, 8, 11, 7, 2, 4
HAVE, VIEW, COMMIT, PREPARED, DIGESTS, WAITS, WANT, LEARN = 1, 2, 3, 4, 6, 7, 25, 26  # the places of their decoders in message.c


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def flags(values):
    """A bit each, in words of 64."""
    return b"".join(struct.pack("<Q", sum(1 << i for i, v in enumerate(values[at:at + 64]) if v)) for at in range(0, len(values), 64))


def have(micros=MICROS):
    cells = [i % 2 for i in range(STAGES * MICROS)]
    lanes = struct.pack(f"<iQ{GRADS - 2}Q", 1, (1 << GRADS) - 4, *(1 << g % LANES for g in range(2, GRADS)))
    return (struct.pack("<QQiii", 4, 3, STAGES, micros, GRADS) + flags(cells) + flags(cells[::-1])
            + flags([g % 3 == 0 for g in range(GRADS)]) + lanes)


def varint(value):
    data = b""
    while value > 127:
        data, value = data + bytes([value % 128 + 128]), value // 128
    return data + bytes([value])


def listed(items):
    """Items of rising numbers with what follows each, by their distances; 0 ends the list."""
    data, last = b"", -1
    for item, rest in items:
        data, last = data + varint(item - last) + rest, item
    return data + varint(0)


def node(slot, holds):
    return (varint(slot) if slot < 2 else varint(2 + (slot - 2) // STAGES) + varint((slot - 2) % STAGES)) + listed((s, b"") for s in holds)


def view(phase=1, base=0, gone=(), changed=(), came=(), roles=(), lanes=(), copies=b"", reason="node 1 was lost (eof)"):
    """Of the nodes that have come, ids with slots (2 + the number) and stages; of those that have changed, places."""
    return (varint(7) + varint(base) + bytes([phase]) + varint(4) + varint(1) + b"\1" + varint(PIPELINES) + varint(STAGES)
            + varint(LANES) + b"\0" + listed((n, b"") for n in gone) + listed((n, node(*of)) for n, *of in changed)
            + listed((n, node(*of)) for n, *of in came)
            + listed((slot, varint(owner + 1) + varint(shadow + 1)) for slot, owner, shadow in roles)
            + listed((lane, varint(pipeline + 1)) for lane, pipeline in lanes) + copies + varint(0)
            + text(reason) + text("checkpoints/step-00000002"))


def copy(stage=2):
    """A new one, from node 0 to node 1."""
    return varint(2) + varint(2) + varint(0) + varint(stage) + varint(0)


def commit(clip=0.5):
    return struct.pack("<QQdd", 5, 3, clip, 1.25)


def prepared(params=PARAMS):
    told = (1 << params) - 2
    return (struct.pack("<QQ", 5, 3) + listed([(1, b""), (2, b"")]) + struct.pack("<dQdi", 1.25, 32, 1.0, params)
            + struct.pack(f"<Q{params - 1}d2Q", told, *range(1, params), 7, 8))


def digests(params=PARAMS):
    told = (1 << params) - 2
    return struct.pack("<QQ", 5, 3) + listed([(1, b""), (2, b"")]) + struct.pack("<i", params) + struct.pack(f"<{params}Q", told, *range(1, params))


def waits(silent=2):
    return (struct.pack("<Qi", 9, STAGES) + struct.pack(f"<{STAGES}Q", *range(STAGES))
            + struct.pack("<i", silent) + struct.pack(f"<{silent}i", *range(silent)) + have())


def learn(grads=GRADS):
    return struct.pack("<QQi", 5, 12, grads) + flags([g % 3 == 0 for g in range(grads)])


NODES = [(n, 2 + n, [n % STAGES, (n + 1) % STAGES] if n % STAGES < STAGES - 1 else [0, n % STAGES]) for n in range(PIPELINES * STAGES)]

CORPUS = {
    "have": (HAVE, have()),
    "have-other-run": (HAVE, have(micros=MICROS + 1)),
    "have-beyond": (HAVE, have().replace(flags([g % 3 == 0 for g in range(GRADS)]), flags([1] * (GRADS + 1)))),
    "view": (VIEW, view(came=NODES, copies=copy())),
    "view-load": (VIEW, view(phase=0, came=NODES)),
    "view-phase": (VIEW, view(phase=2, came=NODES)),
    "view-lane": (VIEW, view(came=NODES, lanes=[(3, PIPELINES)])),
    "view-stage": (VIEW, view(came=NODES, copies=copy(stage=STAGES))),
    "view-many-nodes": (VIEW, view(came=[(n, 0, ()) for n in range(4097)])),
    "view-many-copies": (VIEW, view(copies=copy() * 8193)),
    "view-long-reason": (VIEW, view(came=NODES, reason="x" * 192)),
    "view-changes": (VIEW, view(base=6, gone=[2], changed=[(1, 0, [1])], came=[(17, 1, ())], copies=varint(4) + copy(1))),
    "view-exceptions": (VIEW, view(base=6, gone=[2, 3], roles=[(1, 99, -1), (4, -1, -1)], lanes=[(0, -1), (3, 1)])),
    "view-of-another": (VIEW, view(base=5, gone=[2])),
    "commit": (COMMIT, commit()),
    "commit-nan": (COMMIT, commit(clip=float("nan"))),
    "prepared": (PREPARED, prepared()),
    "prepared-other-model": (PREPARED, prepared(params=PARAMS + 1)),
    "digests": (DIGESTS, digests()),
    "digests-other-model": (DIGESTS, digests(params=PARAMS - 1)),
    "want": (WANT, struct.pack("<QIii", 5, 77, 3, 2)),
    "want-below": (WANT, struct.pack("<QIii", 5, 77, 3, -1)),
    "learn": (LEARN, learn()),
    "learn-other-model": (LEARN, learn(grads=GRADS + 1)),
    "waits": (WAITS, waits()),
    "waits-many-silent": (WAITS, waits(silent=4097)),
}

folder = pathlib.Path(__file__).parent / "corpus" / "message"
folder.mkdir(parents=True, exist_ok=True)
for name, (kind, data) in CORPUS.items():
    (folder / name).write_bytes(bytes([kind]) + data)
