#!/usr/bin/env python3
"""Runs that go on while they can, and end with one line when they cannot: slow tasks, starts that fail, one worker's trouble."""
import os
import signal
import time

from harness import Cases, changed, check, check_whole, equal, read_events, tiny_config, wait_until, workers_of

cases = Cases()
LONG = changed(tiny_config(cases.text), steps=250, checkpoint__every=10)


def events_of(bench):
    try:
        return read_events(bench.path("run", "events.jsonl"))
    except OSError:
        return []


def started(bench, config, step, *words):
    process = bench.start(*bench.train_words(config, "run", *words))
    wait_until(lambda: any(event["event"] == "step" and event["step"] >= step for event in events_of(bench)) or
               process.poll() is not None, 60, f"step {step}")
    check(process.poll() is None, "the run ended before the test could disturb it")
    return process


# --- tasks longer than stuck_ms ---------------------------------------------------------------------------------------------


def slow_tasks(bench, stuck_ms, losses_max):
    """Every task of this model takes longer than the limit that the run begins with."""
    config = changed(tiny_config(cases.text), model__layers=4, model__width=192, model__heads=4, model__context=128,
                     batch__global=16, batch__micro=4, batch__lanes=4, stages=2, steps=3, checkpoint__every=0,
                     cluster__heartbeat_ms=20, cluster__stuck_ms=stuck_ms)
    run = bench.train(config)
    check_whole(run, cases.reference(config), rollbacks=None)
    stuck = [event for event in run.all("lost") if event["cause"] == "stuck"]
    check(stuck, "no task took longer than stuck_ms: the test proves nothing")
    check(all("the limit was" in event["message"] for event in stuck), "a loss without its reason")
    check(len(stuck) <= losses_max, f"{len(stuck)} workers were put out")
    bench.note(f"{len(stuck)} workers put out, {run.seconds:.1f} s")


def warned_beforehand(bench):
    config = changed(tiny_config(cases.text), model__width=512, model__heads=8, model__context=256, batch__micro=8,
                     batch__lanes=2, steps=1, cluster__stuck_ms=1)
    dry = bench.run(*bench.train_words(config, "run", "--dry-run"))
    equal(dry.code, 0, "exit code")
    check("task of stage" in dry.err and "cluster.stuck_ms is 1" in dry.err, f"no warning: {dry.err!r}")
    run = bench.train(changed(config, cluster__stuck_ms=20, model__width=256, model__context=128))
    check("cluster.stuck_ms is 20" in run.one("warning")["message"], "no warning among the events")
    none = bench.train(changed(tiny_config(cases.text), steps=1), "other")
    equal(none.all("warning"), [], "warnings of a run without long tasks")


cases.add("tasks longer than stuck_ms", slow_tasks, 20, 40)
cases.add("a warning of long tasks", warned_beforehand)

if __name__ == "__main__":
    cases.run()
