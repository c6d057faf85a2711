#!/usr/bin/env python3
"""Whole runs of a culm that was built with sanitizers: undisturbed, with losses, stopped and resumed.

usage: train.py CULM THREADS [PART OF A CASE'S NAME]...

The results are those of the system tests, which see the same without sanitizers; what counts here is that no process, the
workers included, has anything reported by a sanitizer.
"""
import functools
import glob
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import harness  # noqa: E402
from harness import check, equal  # noqa: E402

REPORT = re.compile(r"(Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer|runtime error:")


def check_silent(folder):
    """No log of a worker and no standard error under the folder holds a report."""
    files = glob.glob(f"{folder}/**/err-*", recursive=True) + glob.glob(f"{folder}/**/logs/*.log", recursive=True)
    for path in files:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        found = REPORT.search(text)
        check(not found, f"'{path}': {text[found.start() if found else 0:][:3000]}")
    check(len(files) > 1, f"no logs in '{folder}'")


def silently(case):
    @functools.wraps(case)
    def checked(bench, *args):
        try:
            case(bench, *args)
        finally:
            check_silent(bench.folder)  # says more than what follows from it
    return checked


def whole(run):
    harness.check_whole(run, cases.reference(config))


@silently
def undisturbed(bench):
    whole(bench.train(config))
    for reference in glob.glob(os.path.join(cases.folder, "reference-*")):
        check_silent(reference)


@silently
def killed_in_backward(bench):
    run = bench.train(config, "run", *harness.fault(1, 3, "backward"))
    whole(run)
    harness.check_fired(run, [(1, 3, "backward")])
    equal([event["node"] for event in run.all("lost")], [1], "nodes lost")
    harness.check_recovered(run)


@silently
def frozen_for_a_while(bench):
    run = bench.train(config, "run", *harness.fault(4, 4, "forward", how="stop", for_ms=400))
    whole(run)
    harness.check_fired(run, [(4, 4, "forward")])
    equal(run.all("lost"), [], "nodes lost")


@silently
def stopped_and_resumed(bench):
    """SIGTERM while worker 2 is frozen, so that the run is certainly not over."""
    process = bench.start(*bench.train_words(config, "run", *harness.hold(2, 6)))
    held = harness.Held(bench, process)
    held.wait()
    os.kill(process.pid, signal.SIGTERM)
    held.go_on()
    first = bench.end(process)
    equal(first.code, 75, "exit code")
    steps = [event["step"] for event in events_of(process) if event["event"] == "step"]
    check(max(steps) < config["steps"], "the run was not over")
    second = bench.train(config, "run", "--resume")
    equal(second.hashes(), cases.reference(config), "weights_sha256 and state_sha256")
    check(second.all("step")[0]["step"] > 4, "it went on from a checkpoint")


def events_of(process):
    return harness.read_events(process.out_path)


os.environ.setdefault("TSAN_OPTIONS", "atexit_sleep_ms=0")  # a worker that ends must not take a second more
threads = int(sys.argv.pop(2))
cases = harness.Cases(job="train")
config = harness.changed(harness.tiny_config(cases.text), threads=threads)
for function in (undisturbed, killed_in_backward, frozen_for_a_while, stopped_and_resumed):
    cases.add(function.__name__.replace("_", " "), function)
cases.run()
