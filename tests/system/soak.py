#!/usr/bin/env python3
"""Fifty losses of the main model, and what each cost.

usage: soak.py CULM SOURCE [KILLS]

Trains examples/main.yaml longer, kills a random worker with SIGKILL whenever all six work again, compares the
result with the undisturbed run, and prints pause per loss (median, max) and tokens/s of both runs.
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

STEPS_PER_KILL = 2
SEED = int(os.environ.get("CULM_SOAK_SEED", "1"))


def train(culm, config, out, steps, words=()):
    command = [culm, "train", config, "--out", out, "--json", "--set", f"steps={steps}", "--set", "cluster.replace_ms=0",
               *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def undisturbed(culm, config, out, steps):
    process = train(culm, config, out, steps)
    events = [json.loads(line) for line in process.stdout]
    if process.wait():
        sys.exit("the undisturbed run failed")
    return events


def disturbed(culm, config, out, steps, kills):
    """Kills when a whole set has worked for some steps; the events are read as they come."""
    draw = random.Random(SEED)
    process = train(culm, config, out, steps)
    events, alive, left, calm_since = [], {}, kills, None
    for line in process.stdout:
        event = json.loads(line)
        events.append(event)
        if event["event"] == "joined":
            alive[event["node"]] = event["pid"]
        elif event["event"] == "lost":
            alive.pop(event["node"], None)
            calm_since = None
        elif event["event"] == "view":
            roles = event["map"]
            whole = len({part["owner"] for part in roles}) == len(roles) and all(part["shadow"] >= 0 for part in roles)
            calm_since = (calm_since if calm_since is not None else 0) if whole else None
        elif event["event"] == "step" and calm_since is not None:
            calm_since += 1
            if calm_since >= STEPS_PER_KILL and left:
                time.sleep(draw.random() * event["step_ms"] / 1000)  # anywhere in a step
                os.kill(alive[draw.choice(sorted(alive))], signal.SIGKILL)
                left -= 1
                calm_since = None
    if process.wait():
        sys.exit("the disturbed run failed")
    return events, kills - left


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    culm, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    steps = kills * (STEPS_PER_KILL + 3)
    folder = tempfile.mkdtemp(prefix="culm-soak-")
    text = os.path.join(folder, "text")
    if not shutil.which("bible"):
        sys.exit("soak: needs 'bible' (package bible-kjv)")
    with open(text, "wb") as file:
        subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=file, check=True)
    config = os.path.join(folder, "main.yaml")
    with open(os.path.join(source, "examples", "main.yaml"), encoding="utf-8") as file:
        content = file.read()
    with open(config, "w", encoding="utf-8") as file:
        file.write(content.replace("build/data/kjv.txt", text))
    print(f"seed {SEED} (CULM_SOAK_SEED), {kills} kills, {steps} steps", flush=True)
    events, killed = disturbed(culm, config, os.path.join(folder, "disturbed"), steps, kills)
    plain = undisturbed(culm, config, os.path.join(folder, "undisturbed"), steps)
    done, wanted = events[-1], plain[-1]
    recovered = [event for event in events if event["event"] == "recovered"]
    pauses = [event["pause_ms"] for event in recovered]
    print(f"kills {killed}, losses {done['losses']}, roll-backs {done['rollbacks']}, "
          f"samples lost {done['samples_lost']}, repeated {done['samples_repeated']}")
    print(f"pause per loss: median {statistics.median(pauses):.1f} ms, longest {max(pauses):.1f} ms, over {len(pauses)}")
    for source_name in ("shadow", "peer", "checkpoint"):
        some = [event["pause_ms"] for event in recovered if event["source"] == source_name]
        if some:
            print(f"  from {source_name}: {len(some)}, median {statistics.median(some):.1f} ms, longest {max(some):.1f} ms")
    for name, run in (("disturbed", events), ("undisturbed", plain)):
        times = [event["step_ms"] for event in run if event["event"] == "step"]
        rates = [event["tokens_per_s"] for event in run if event["event"] == "step"]
        print(f"{name}: {sum(times) / 1000:.1f} s, median {statistics.median(times):.1f} ms a step, {statistics.median(rates):.0f} tokens/s")
    same = (done["weights_sha256"], done["state_sha256"]) == (wanted["weights_sha256"], wanted["state_sha256"])
    print(f"identical: {'yes' if same else 'no'}")
    ok = (same and killed == kills == done["losses"] and not done["rollbacks"] and not done["samples_lost"]
          and not done["samples_repeated"])
    if ok:
        shutil.rmtree(folder)
    else:
        print(f"files: {folder}")
    sys.exit(0 if ok else 1)


main()
