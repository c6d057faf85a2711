#!/usr/bin/env python3
"""A bit flips in the memory of one worker: of a parameter, of a gradient before its norm is taken or before it is applied, or of a state
that is half written. The worker is put out, and the result is the bits of the undisturbed run."""
from harness import Cases, changed, check, check_fired, check_whole, equal, fault, tiny_config
from train_harness import Watched, idle_of

cases = Cases(kind="waits", job="train")
BASE = changed(tiny_config(cases.text), cluster__suspect_ms=60000)


def flip(bench, changes, worker, step, phase, rollbacks):
    config = changed(BASE, **changes)
    idle = idle_of(worker, step) if phase == "frc" else None
    words = [*fault(worker, step, phase, how="flip"), *(fault(*idle, "stop") if idle else [])]
    process = bench.start(*bench.train_words(config, "run", *words))
    if idle:
        watched = Watched(bench, process)
        watched.until(lambda: watched.stands(idle[0]) and watched.stands(worker), "the redundant forward")
        watched.thaw(idle[0])
    run = bench.trained(process)
    check_fired(run, [(worker, step, phase)] + ([idle] if idle else []))
    check_whole(run, cases.reference(config), rollbacks)
    lost = run.one("lost")
    equal((lost["node"], lost["cause"]), (worker, "differs"), "who was put out, and why")
    differs = run.all("differs")
    check(differs and all(event["message"] for event in differs), "nothing says what differs")
    check(all(worker in event["nodes"] for event in differs), "the worker is not among those that differ")


for phase in ("forward", "backward", "frc", "reduce", "commit", "step"):
    for worker, step in ((0, 3), (5, 8)):
        cases.add(f"2 x 3: worker {worker}, step {step}, {phase}", flip, {}, worker, step, phase, 0, first=(phase, worker) == ("backward", 5))
TWO = {"pipelines": 1, "stages": 2}
for phase in ("forward", "reduce", "commit", "step"):
    cases.add(f"two copies: {phase}", flip, TWO, 1, 4, phase, 0)
SGD = {"optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.0, "clip_norm": 1.0}}
for phase in ("backward", "reduce", "commit", "step"):
    cases.add(f"SGD: {phase}", flip, SGD, 3, 2, phase, 0)
ONE = {"pipelines": 1, "stages": 2, "redundancy": "none"}
for phase in ("forward", "commit", "step"):
    cases.add(f"one copy, rolled back: {phase}", flip, ONE, 0, 6, phase, 1, first=phase == "step")
# Somebody else, or a replacement, writes what it wrote.
cases.add("2 x 3: worker 1, half a checkpoint", flip, {}, 1, 4, "checkpoint", 0, first=True)
cases.add("one copy, rolled back: half a checkpoint", flip, ONE, 1, 4, "checkpoint", 1)

if __name__ == "__main__":
    cases.run()
