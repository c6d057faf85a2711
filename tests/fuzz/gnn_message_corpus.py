#!/usr/bin/env python3
"""Writes corpus/gnn_message: one whole message of each kind of graph networks, and some with a wrong number in them."""
import pathlib
import struct

INTERVALS, STAGES, STEPS, STALENESS_MAX = 70, 3, 8, 8
SLICE, WARM, GRADIENT, VERSION, HELD, TASK, PART, RESULT, DONE, SAVED, FAILED, PEER, VIEW, COMMIT, ASK, ANSWER, SAVE, REPORT, CURVE, NOTICE = range(20)


VIEW_NUMBER = struct.pack("<Q", 9)


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def some(bits=3):
    return struct.pack("<iiQQ", 0, 2, 1 << 63 | 5, bits)


def task(interval=69, step=2):
    return struct.pack("<IQQii", 1, 3, 2, interval, step)


TOTALS = struct.pack("<dQQQ", 1.5, 3, 2, 1)


def done(trained=1, tasks=5):
    work = struct.pack("<QQQQQ", tasks, 0, 800, 40, 60) + struct.pack(f"<{STALENESS_MAX + 1}Q", *range(STALENESS_MAX + 1))
    return struct.pack("<IQiB", 1, 3, 7, trained) + TOTALS + work + struct.pack("<QQQQ", 2, 3, 4, 1)


def course(epoch=4, train=1, evaluate=0):
    return struct.pack("<QBB", epoch, train, evaluate)


def outcome(epoch=3, evaluated=1):
    return struct.pack("<QfB", epoch, 0.5, evaluated) + (struct.pack("<QdQdQd", 9, 0.75, 2, -1, 1, -1) if evaluated else b"")


BALANCE = struct.pack("<QQQ", 4, 1, 2) + struct.pack("<BddQB", 1, 0.5, 0.25, 3, 0) + struct.pack("<dd", 1.5, 60)


def report(number=9, epoch=4, holds=1):
    return struct.pack("<QI", number, 1) + course(epoch) + struct.pack("<BBQQQQ", holds, 0, 3, 77, 1, 2) + outcome() + BALANCE


def curve(*epochs, count=None):
    return struct.pack("<i", len(epochs) if count is None else count) + b"".join(outcome(e, e % 2) for e in epochs)


def view(holders=2, owners=INTERVALS, loaded=1):
    held = b"".join(struct.pack("<iiQ", 4 + h, -1, 1) for h in range(holders))
    return (struct.pack("<QQIIQ", 9, 0, 1, loaded, 0) + text("checkpoints/step-00000003") + course() + struct.pack("<i", holders) + held
            + outcome() + BALANCE
            + b"".join(struct.pack("<i", i % 3) for i in range(owners)))


def answer(count=2):
    return struct.pack("<Qi", 7, count) + b"".join(struct.pack("<iQQ", n, 10, 9) for n in range(2))


CORPUS = {
    "slice": (SLICE, struct.pack("<IQii", 1, 3, 0, 69) + some() + VIEW_NUMBER),
    "slice-beyond": (SLICE, struct.pack("<IQii", 1, 3, 0, 69) + some(1 << 6) + VIEW_NUMBER),
    "slice-gather": (SLICE, struct.pack("<IQii", 1, 3, 99, 69) + some() + VIEW_NUMBER),
    "warm": (WARM, some()),
    "gradient": (GRADIENT, struct.pack("<IQii", 1, 3, 2, 138)),
    "gradient-node": (GRADIENT, struct.pack("<IQii", 1, 3, 2, 139)),
    "version": (VERSION, struct.pack("<IQQ", 1, 3, 2)),
    "version-turned": (VERSION, struct.pack("<IQQ", 1, 2, 3)),
    "held": (HELD, struct.pack("<IQQQB", 1, 3, 77, 9, 1)),
    "held-diverged": (HELD, struct.pack("<IQQQB", 1, 3, 77, 9, 2)),
    "task": (TASK, task()),
    "task-interval": (TASK, task(interval=INTERVALS)),
    "task-step": (TASK, task(step=-1)),
    "part": (PART, task() + struct.pack("<ii", 7, 8)),
    "part-block": (PART, task(interval=0) + struct.pack("<ii", 2, 2)),
    "part-blocks": (PART, task() + struct.pack("<ii", 0, 9)),
    "result": (RESULT, task() + TOTALS),
    "done": (DONE, done()),
    "done-bool": (DONE, done(trained=2)),
    "done-count": (DONE, done(tasks=1 << 63)),
    "saved": (SAVED, struct.pack("<QQi", 3, 2, 0) + text("weights-0 4 weights-0.node-4.safetensors") + text("")),
    "saved-long": (SAVED, struct.pack("<QQI", 3, 2, 1 << 31) + b"x"),
    "save": (SAVE, struct.pack("<IQQB", 1, 3, 2, 1) + text("/elsewhere")),
    "save-bool": (SAVE, struct.pack("<IQQB", 1, 3, 2, 2) + text("")),
    "failed": (FAILED, struct.pack("<i", 3) + text("no space left on device")),
    "peer": (PEER, struct.pack("<i", 5)),
    "view": (VIEW, view()),
    "view-loaded": (VIEW, view(loaded=2)),
    "view-holders": (VIEW, view(holders=17)),
    "view-short": (VIEW, view(owners=INTERVALS - 1)),
    "commit": (COMMIT, struct.pack("<IQ", 1, 3) + course() + outcome() + BALANCE),
    "commit-bool": (COMMIT, struct.pack("<IQ", 1, 3) + course(train=2) + outcome() + BALANCE),
    "report": (REPORT, report()),
    "report-none": (REPORT, report(number=0)),
    "report-bool": (REPORT, report(holds=2)),
    "curve": (CURVE, curve(7, 8, 9)),
    "curve-gap": (CURVE, curve(7, 9)),
    "curve-count": (CURVE, curve(7, count=1025)),
    "ask": (ASK, struct.pack("<Q", 7)),
    "answer": (ANSWER, answer()),
    "answer-count": (ANSWER, answer(count=4113)),
    "answer-lies": (ANSWER, answer(count=-1)),
    "notice": (NOTICE, struct.pack("<Q", 25000)),
    "notice-never": (NOTICE, struct.pack("<Q", 1 << 48 | 1)),
}

folder = pathlib.Path(__file__).parent / "corpus" / "gnn_message"
folder.mkdir(parents=True, exist_ok=True)
for name, (kind, content) in CORPUS.items():
    (folder / name).write_bytes(bytes([kind]) + content)
