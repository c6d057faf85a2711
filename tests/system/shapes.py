#!/usr/bin/env python3
"""The same bits whatever the shape: pipelines, stages, redundancy, threads, and a resume under another shape."""
import signal

from harness import Cases, changed, check, check_whole, equal, hold, read_events, tiny_config
from train_harness import Watched

cases = Cases(job="train")
BASE = changed(tiny_config(cases.text), steps=10, batch={"global": 24, "micro": 2, "lanes": 6}, model__layers=4, cluster__suspect_ms=60000)
SHAPES = [(1, 1), (1, 3), (2, 3), (3, 2), (1, 4), (2, 1)]


def shaped(shape, lanes, redundancy, threads, **more):
    return changed(BASE, pipelines=shape[0], stages=shape[1], batch__lanes=lanes, redundancy=redundancy, threads=threads,
                   **more)


def whole(bench, config):
    run = bench.train(config)
    check_whole(run, cases.reference(config))
    equal(run.one("done")["losses"], 0, "losses")
    plan = run.one("plan")
    equal(len(plan["stages"]), config["stages"], "stages of the plan")


for shape in SHAPES:
    for lanes in (6, 12):
        for redundancy in ("eager", "lazy", "none"):
            for threads in (1, 2):
                if threads == 1 or redundancy == "eager":
                    cases.add(f"{shape[0]} x {shape[1]}, {lanes} lanes, {redundancy}, {threads} threads", whole,
                              shaped(shape, lanes, redundancy, threads), first=(shape, lanes, threads) == ((3, 2), 12, 2))


def resumed(bench, first, second, every):
    """Stopped by a signal in the middle, then under another shape to the end."""
    long = {"steps": 40, "checkpoint__every": every}
    before = shaped(*first, **long)
    after = shaped(*second, **long)
    process = bench.start(*bench.train_words(before, "run", *hold(0, 6)))
    held, events = Watched(bench, process), bench.path("run", "events.jsonl")
    held.wait()
    process.send_signal(signal.SIGTERM)
    held.go_on()
    stopped = bench.end(process)
    equal(stopped.code, 75, "exit code of the run that was stopped")
    at = max(event["step"] for event in read_events(events) if event["event"] == "step")
    check(5 <= at < 40, f"it was stopped after step {at}")
    run = bench.train(after, "run", "--resume")
    equal([event["step"] for event in run.all("step")], list(range(at + 1, 41)), "steps after the resume")
    equal(run.hashes(), cases.reference(after), "weights_sha256 and state_sha256")
    done = run.one("done")
    equal((done["samples_lost"], done["samples_repeated"], done["steps"]), (0, 0, 40), "samples lost, repeated, steps")


SHAPE = {"1x1": ((1, 1), 6, "none", 1), "1x3": ((1, 3), 6, "eager", 2), "2x3": ((2, 3), 6, "eager", 1),
         "3x2": ((3, 2), 6, "lazy", 1), "2x3 none": ((2, 3), 6, "none", 2)}
for first in SHAPE:
    for second in SHAPE:
        if first != second:
            cases.add(f"{first}, stopped, resumed as {second}", resumed, SHAPE[first], SHAPE[second], 0,
                      first=(first, second) == ("2x3", "1x3"))

if __name__ == "__main__":
    cases.run()
