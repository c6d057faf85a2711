#!/usr/bin/env python3
"""What many workers on one machine cost: the start, a step, and the pause after a loss.

usage: crowd.py CULM [WORKERS...]

Trains a tiny model with so many workers (16, 64 and 192 unless said otherwise; multiples of 4, up to 192), in pipelines of four stages. A
step is the same for all: 48 lanes with one sample each. Three workers are killed, one after the other, and replaced at once. Prints a line for each number:
milliseconds from the start to the first step, the median of a step in which nobody was missing, and the median and the longest pause:
from a loss to the next step, less a step. The machine is to be idle.
"""
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

STAGES, LANES = 4, 48
KILLS, CALM = 3, 6  # steps with everybody between two kills


def config_of(folder, workers):
    text = os.path.join(folder, "text")
    draw = random.Random(7)
    with open(text, "w", encoding="ascii") as file:
        file.write("".join(draw.choice("abcdefgh \n") for _ in range(100000)))
    pipelines = workers // STAGES
    config = {
        "model": {"arch": "gpt2", "layers": STAGES, "width": 32, "heads": 2, "context": 16, "vocab": 256, "dropout": 0.1},
        "data": {"kind": "text", "path": text},
        "batch": {"global": LANES, "micro": 1, "lanes": LANES},
        "pipelines": pipelines, "stages": STAGES, "redundancy": "eager", "precision": "f32", "threads": 1, "seed": 3, "steps": 100000,
        "optimizer": {"name": "adamw", "lr": 0.002}, "checkpoint": {"every": 0},
        "cluster": {"suspect_ms": 60000, "replace_ms": 0, "join_ms": 60000, "max_nodes": workers + 8},
    }
    path = os.path.join(folder, f"{workers}.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return path


def measure(culm, folder, workers):
    """Milliseconds: to the first step, of a step, of the pauses."""
    draw = random.Random(workers)
    began = time.monotonic()
    process = subprocess.Popen([culm, "train", config_of(folder, workers), "--out", os.path.join(folder, f"run-{workers}"), "--json"],
                               stdout=subprocess.PIPE, text=True)
    alive, joined, steps, pauses = {}, 0, [], []
    first = lost = None
    calm = 0
    for line in process.stdout:
        event, now = json.loads(line), time.monotonic()
        if event["event"] == "joined":
            alive[event["node"]] = event["pid"]
            joined += 1
        elif event["event"] == "lost":
            alive.pop(event["node"], None)
        elif event["event"] == "step":
            first = first or now
            if lost is not None:
                pauses.append(1000 * (now - lost))
                lost, calm = None, 0
            elif len(alive) == workers:
                calm += 1
                if calm > 1:
                    steps.append(event["step_ms"])
                if calm == CALM and len(pauses) == KILLS:
                    process.send_signal(signal.SIGTERM)
                elif calm == CALM:
                    victim = draw.choice(sorted(alive))
                    lost = time.monotonic()
                    os.kill(alive[victim], signal.SIGKILL)
    if process.wait() != 75:
        sys.exit(f"{workers} workers: exit code {process.returncode}")
    step = statistics.median(steps)
    return 1000 * (first - began), step, [max(0.0, pause - step) for pause in pauses]


def main(culm, *counts):
    print(f"{'workers':>8} {'start':>9} {'step':>9} {'pause':>9} {'longest':>9}   ms")
    folder = tempfile.mkdtemp(prefix="culm-crowd-")
    try:
        for workers in map(int, counts or ("16", "64", "192")):
            start, step, pauses = measure(os.path.abspath(culm), folder, workers)
            print(f"{workers:8} {start:9.0f} {step:9.1f} {statistics.median(pauses):9.1f} {max(pauses):9.1f}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
