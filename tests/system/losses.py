#!/usr/bin/env python3
"""Losses of several workers on real processes: neighbours, losses during recovery and transfer, and everything at once.

As long as a copy of each stage lives there is no roll-back; when none does there is one, and the run says so. The
result is that of the undisturbed run in any case.
"""
import os
import random
import signal

from harness import Cases, changed, check, check_fired, check_goodput, check_recovered, check_whole, equal, fault, hold, tiny_config, wait_until
from train_harness import Watched

cases = Cases(kind="waits", job="train")
BASE = changed(tiny_config(cases.text), steps=30, cluster__suspect_ms=60000)
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
                for one in IN_ORDER:
                    for two in IN_ORDER:
                        if a != b:
                            cases.add(f"{redundancy}: worker {base + a} at {one}, its neighbour {base + b} at {two}", pair,
                                      (base + a, one), (base + b, two), redundancy, product=True,
                                      first=(redundancy, base, a, b, one, two) == ("eager", 0, 1, 0, "backward", "reduce"))


def both_pipelines(bench, phase, redundancy):
    """The owner of one stage in both pipelines at once."""
    config = changed(BASE, redundancy=redundancy)
    faults = [(1, STEP, phase), (4, STEP, phase)]
    run = faulted(bench, config, faults)
    check_whole(run, cases.reference(config))
    check_fired(run, faults)
    check_recovered(run)


for phase in IN_ORDER:
    cases.add(f"eager: both owners of a stage at {phase}", both_pipelines, phase, "eager", first=phase == "commit")


def exits(bench):
    """A worker that ends by itself is lost as any other."""
    run = faulted(bench, BASE, [(1, STEP, "backward", "exit")])
    check_whole(run, cases.reference(BASE))
    check_fired(run, [(1, STEP, "backward")])
    check_recovered(run)
    check(run.one("lost")["cause"] in ("eof", "exit"), f"cause {run.one('lost')['cause']}")


cases.add("eager: a worker exits", exits, first=True)


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


cases.add("none: no pipeline whole, copies bring it on", no_pipeline_whole, None, first=True)
cases.add("none: no pipeline whole, and whoever gets a copy dies", no_pipeline_whole, 0)


def replacement_dies(bench, redundancy, how, fenced):
    """A replacement meets a fault while it gets its copies. Nobody knows at which step: a fault waits at each. Frozen it is put out; then it
    is killed, or thawed by us and fenced. Of the other pipeline somebody keeps the run in step 20 until the replacement is there, and from
    its end until the next one is, for less than what makes a suspect."""
    config = changed(BASE, redundancy=redundancy, steps=60)
    if how == "stop":
        config = changed(config, cluster__suspect_ms=30000, cluster__kill_suspect_ms=60000 if fenced else 300)
    words = [*fault(1, STEP, "backward"), *hold(4, 20), *hold(5, 50)]
    for step in range(STEP + 1, 50):
        words += fault(6, step, "transfer", how)
    process = bench.start(*bench.train_words(config, "run", *words))
    watched = Watched(bench, process)
    watched.until(lambda: watched.stands(4) and watched.told("joined", 6), "the replacement came")
    watched.thaw(4)
    if fenced:
        watched.until(lambda: watched.told("lost", 6), "the loss of the replacement")
        watched.thaw(6)
        watched.until(lambda: watched.told("fenced", 6), "the replacement was fenced")
    watched.until(lambda: watched.stands(5) and watched.told("joined", 7), "its replacement came")
    watched.thaw(5)
    run = bench.trained(process, code=1)
    check("never fired" in run.err, "the faults that could not fire are not told")
    check_whole(run, cases.reference(config))
    check_recovered(run)
    fired = [(event["node"], event["phase"]) for event in run.all("fault")]
    equal(sorted(fired), [(1, "backward"), (4, "forward"), (5, "forward"), (6, "transfer")], "faults that fired")
    equal([event["node"] for event in run.all("lost")], [1, 6], "workers lost")
    equal(sorted(event["node"] for event in run.all("joined")), list(range(8)), "workers joined")
    equal([event["node"] for event in run.all("fenced")], [6] if fenced else [], "workers fenced")


for redundancy in ("eager", "lazy", "none"):
    cases.add(f"{redundancy}: the replacement dies during its transfer", replacement_dies, redundancy, "kill", False,
              first=redundancy == "eager")
    cases.add(f"{redundancy}: the replacement freezes during its transfer", replacement_dies, redundancy, "stop", False,
              seconds=32)
    cases.add(f"{redundancy}: the replacement freezes during its transfer and is fenced", replacement_dies, redundancy,
              "stop", True, seconds=32)


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
    goodput = check_goodput(bench)
    ends = [event["t_ms"] for event in run.events[:run.events.index(rollback)]
            if event["event"] == "step" and event["step"] >= rollback["to_step"] or event.get("phase") == "run" and event["view"] == 2]
    check(goodput["redone_ms"] > ends[-1] - ends[-1 - rollback["from_step"] + rollback["to_step"]] - 0.01, f"{goodput}: steps that were rolled back ended at {ends}")
    check(min(goodput[kind] for kind in ("useful_ms", "paused_ms", "waiting_ms", "saving_ms")) > 0, f"{goodput}")


one_pipeline = changed(BASE, pipelines=1, redundancy="none", steps=10, checkpoint__every=2)
for worker in range(3):
    for phase in ("forward", "backward", "send", "reduce", "commit", "step"):
        cases.add(f"none, one pipeline: worker {worker} at {phase} rolls back", rolled_back, one_pipeline,
                  [(worker, 5, phase)], first=(worker, phase) == (1, "backward"))
cases.add("none, one process: rolls back", rolled_back, changed(one_pipeline, stages=1), [(0, 5, "backward")])
everyone = changed(BASE, steps=10, checkpoint__every=2)
cases.add("all workers at once roll back", rolled_back, everyone, [(worker, 5, "step") for worker in range(6)], first=True)
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
    """SIGKILL from outside, at moments of no plan; replacements die as well. Worker 5 keeps the run from its end until the first is dead."""
    draw = random.Random(seed)
    config = changed(BASE, steps=110, redundancy=draw.choice(["eager", "lazy", "none"]),
                     cluster__replace_ms=draw.choice([0, 50]))
    process = bench.start(*bench.train_words(config, "run", *hold(5, 90)))
    watched = Watched(bench, process)
    watched.until(lambda: watched.told("step"), "the first step")
    killed, keeps = 0, True

    def reached(goal):
        """Whether the run has come to that step, or ended. Where it stands still on its way it is let go on."""
        nonlocal keeps
        if keeps and watched.stands(5):
            keeps = False
            watched.thaw(5)
        return process.poll() is not None or watched.step() >= goal

    for _ in range(6):
        gone = {event["node"] for event in watched.told("lost")} | ({5} if keeps else set())
        alive = [event["pid"] for event in watched.told("joined") if event["node"] not in gone]
        if process.poll() is not None or not alive:
            break
        goal = watched.step() + draw.randint(0, 15)
        try:
            os.kill(draw.choice(alive), signal.SIGKILL)
            killed += 1
        except ProcessLookupError:
            pass
        wait_until(lambda goal=goal: reached(goal), 120, f"step {goal}")
    wait_until(lambda: reached(config["steps"] + 1), 120, "the end")
    run = bench.end(process)
    equal(run.code, 1 if "never fired" in run.err else 0, "exit code")  # worker 5 may have had nothing to do in that step
    run.events = watched.events()
    check(killed > 0 and run.all("lost"), "nobody was killed")
    check_whole(run, cases.reference(config), rollbacks=None)


for seed in range(12):
    cases.add(f"killed from outside, seed {seed}", out_of_the_blue, seed)

if __name__ == "__main__":
    cases.run()
