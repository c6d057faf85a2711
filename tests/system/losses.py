#!/usr/bin/env python3
"""Losses of several workers on real processes: neighbours, losses during recovery and transfer, and everything at once.

As long as a copy of each stage lives there is no roll-back; when none does there is one, and the run says so. The
result is that of the undisturbed run in any case.
"""
import os
import random
import signal

from harness import (EVERYTHING, Cases, changed, check, check_fired, check_recovered, check_whole, equal, fault, read_events,
                     tiny_config, wait_until)

cases = Cases()
BASE = changed(tiny_config(cases.text), steps=60)
STEP = 3
IN_ORDER = ["forward", "send", "backward", "reduce", "commit", "step"]


def words_of(faults):
    return [word for one in faults for word in fault(*one)]


def faulted(bench, config, faults):
    return bench.train(config, "run", *words_of(faults))


def pair(bench, first, second, redundancy):
    """Two neighbours die in one step: the second often while the first is being recovered. Both come back as new workers."""
    config = changed(BASE, redundancy=redundancy)
    faults = [(worker, STEP, phase) for worker, phase in (first, second)]
    held = ((first[0] // 3 * 3 + 3) % 6, 20, "forward")  # of the other pipeline
    run = bench.train_and_join([6, 7], held, config, "run", *words_of(faults))
    check_whole(run, cases.reference(config))
    check_fired(run, [*faults, held])
    check_recovered(run)
    equal({event["node"] for event in run.all("lost")}, {first[0], second[0]}, "workers lost")
    equal(sorted(event["node"] for event in run.all("joined"))[6:], [6, 7], "replacements joined")


for redundancy in ("eager", "lazy"):
    for base in (0, 3):
        for a in range(3):
            for b in range(3):
                for x, one in enumerate(IN_ORDER):
                    for y, two in enumerate(IN_ORDER):
                        # A third of them for the first pipeline and eager; elsewhere one in twelve.
                        one_in = 1 if EVERYTHING else 3 if base == 0 and redundancy == "eager" else 12
                        if a != b and (x * 7 + y * 5 + a * 3 + b) % one_in == 0:
                            cases.add(f"{redundancy}: worker {base + a} at {one}, its neighbour {base + b} at {two}", pair,
                                      (base + a, one), (base + b, two), redundancy)


def both_pipelines(bench, phase, redundancy):
    """The owner of one stage in both pipelines at once."""
    config = changed(BASE, redundancy=redundancy)
    faults = [(1, STEP, phase), (4, STEP, phase)]
    run = faulted(bench, config, faults)
    check_whole(run, cases.reference(config))
    check_fired(run, faults)
    check_recovered(run)


for phase in IN_ORDER:
    cases.add(f"eager: both owners of a stage at {phase}", both_pipelines, phase, "eager")


def no_pipeline_whole(bench, again):
    """Without redundancy both pipelines lose a stage, each another: everyone waits for copies, and nothing is lost."""
    config = changed(BASE, redundancy="none", cluster__replace_ms=0 if again is None else -1)
    faults = [(1, STEP, "forward"), (5, STEP, "forward")]
    if again is not None:
        faults.append((again, STEP, "transfer"))
    run = faulted(bench, config, faults)
    check_whole(run, cases.reference(config))
    check_fired(run, faults)
    check_recovered(run)
    equal({event["source"] for event in run.all("recovered")}, {"peer"}, "sources of recovery where there is no shadow")


cases.add("none: no pipeline whole, copies bring it on", no_pipeline_whole, None)
cases.add("none: no pipeline whole, and whoever gets a copy dies", no_pipeline_whole, 0)


def replacement_dies(bench, redundancy, how, fenced):
    """A replacement meets a fault while it gets its copies. Nobody knows at which step: a fault waits at each. Frozen it is put out; then it
    is killed, or thawed by us and fenced."""
    config = changed(BASE, redundancy=redundancy, steps=250)
    if how == "stop":
        config = changed(config, cluster__suspect_ms=1500, cluster__kill_suspect_ms=60000 if fenced else 300)
    words = list(fault(1, STEP, "backward"))
    for step in range(STEP + 1, 100):
        words += fault(6, step, "transfer", how)
    run = bench.train_and_thaw(6, config, "run", *words, code=1) if fenced else bench.train(config, "run", *words, code=1)
    check("never fired" in run.err, "the faults that could not fire are not told")
    check_whole(run, cases.reference(config))
    check_recovered(run)
    fired = [(event["node"], event["phase"]) for event in run.all("fault")]
    equal(fired, [(1, "backward"), (6, "transfer")], "faults that fired")
    equal([event["node"] for event in run.all("lost")], [1, 6], "workers lost")
    equal(sorted(event["node"] for event in run.all("joined")), list(range(8)), "workers joined")
    equal([event["node"] for event in run.all("fenced")], [6] if fenced else [], "workers fenced")


for redundancy in ("eager", "lazy", "none"):
    cases.add(f"{redundancy}: the replacement dies during its transfer", replacement_dies, redundancy, "kill", False)
    cases.add(f"{redundancy}: the replacement freezes during its transfer", replacement_dies, redundancy, "stop", False)
    cases.add(f"{redundancy}: the replacement freezes during its transfer and is fenced", replacement_dies, redundancy,
              "stop", True)


def rolled_back(bench, config, faults, step=5):
    """No copy is left: one roll-back, reported, and the same bits in the end."""
    run = faulted(bench, config, faults)
    check_whole(run, cases.reference(config), rollbacks=1)
    check_fired(run, faults)
    check_recovered(run)
    check("checkpoint" in {event["source"] for event in run.all("recovered")}, "nobody recovered from the checkpoint")
    rollback = run.one("rollback")
    written = [0] + [event["step"] for event in run.all("checkpoint") if event["ok"] and event["step"] < step + 1]
    check(rollback["to_step"] in written, f"rolled back to step {rollback['to_step']}, and checkpoints are {written}")
    check(rollback["to_step"] <= rollback["from_step"], "rolled back forwards")
    check(rollback["reason"], "no reason was given")
    equal(run.one("done")["steps_redone"], rollback["from_step"] - rollback["to_step"], "steps_redone")


one_pipeline = changed(BASE, pipelines=1, redundancy="none", steps=10, checkpoint__every=2)
for worker in range(3):
    for phase in ("forward", "backward", "send", "reduce", "commit", "step"):
        cases.add(f"none, one pipeline: worker {worker} at {phase} rolls back", rolled_back, one_pipeline,
                  [(worker, 5, phase)])
cases.add("none, one process: rolls back", rolled_back, changed(one_pipeline, stages=1), [(0, 5, "backward")])
everyone = changed(BASE, steps=10, checkpoint__every=2)
cases.add("all workers at once roll back", rolled_back, everyone, [(worker, 5, "step") for worker in range(6)])
cases.add("all workers at once before the first checkpoint", rolled_back, changed(everyone, checkpoint__every=0),
          [(worker, 5, "step") for worker in range(6)])


def all_copies_of_a_stage(bench):
    """Owner and shadow of stage 1 in both pipelines."""
    config = changed(everyone, steps=12)
    faults = [(worker, 5, "step") for worker in (0, 1, 3, 4)]
    run = faulted(bench, config, faults)
    check_whole(run, cases.reference(config), rollbacks=1)
    check_fired(run, faults)


cases.add("all four copies of a stage", all_copies_of_a_stage)


def out_of_the_blue(bench, seed):
    """SIGKILL from outside, at moments of no plan; replacements die as well."""
    draw = random.Random(seed)
    config = changed(BASE, steps=150, redundancy=draw.choice(["eager", "lazy", "none"]),
                     cluster__replace_ms=draw.choice([0, 50]))
    process = bench.start(*bench.train_words(config))
    events = bench.path("run", "events.jsonl")
    wait_until(lambda: os.path.exists(events) and b'"step":1,' in open(events, "rb").read(), 120, "the first step")
    killed = 0
    for _ in range(6):
        seen = read_events(events)
        step = max([event["step"] for event in seen if event["event"] == "step"], default=0)
        gone = {event["node"] for event in seen if event["event"] == "lost"}
        alive = [event["pid"] for event in seen if event["event"] == "joined" and event["node"] not in gone]
        if process.poll() is not None or not alive:
            break
        try:
            os.kill(draw.choice(alive), signal.SIGKILL)
            killed += 1
        except ProcessLookupError:
            pass
        goal = step + draw.randint(0, 15)
        wait_until(lambda: process.poll() is not None or max(
            [event["step"] for event in read_events(events) if event["event"] == "step"], default=0) >= goal, 60,
                   f"step {goal}")
    run = bench.end(process)
    equal(run.code, 0, "exit code")
    run.events = read_events(events)
    check(killed > 0 and run.all("lost"), "nobody was killed")
    check_whole(run, cases.reference(config), rollbacks=None)


for seed in range(12):
    cases.add(f"killed from outside, seed {seed}", out_of_the_blue, seed)
cases.run()
