#!/usr/bin/env python3
"""Runs that go on while they can, and end with one line when they cannot: slow tasks, starts that fail, one worker's trouble."""
import os
import resource
import signal

import families
from harness import Cases, changed, check, check_goodput, check_whole, equal, hold, killed_at_birth, pauses, tiny_config, workers_of
from train_harness import Watched

cases = Cases(job="train")
BAD, FAILS = "21.png", 12  # of families.image_folder, and the step in which its turn comes
LONG = changed(tiny_config(cases.text), steps=130, checkpoint__every=10, cluster__suspect_ms=120000, cluster__orphan_ms=600000)


# --- tasks longer than stuck_ms ---------------------------------------------------------------------------------------------


def slow_tasks(bench, losses_max):
    """Every task of this model takes longer than the limit that the run begins with; on a fast machine, than a lower one."""
    for stuck_ms in (20, 5):
        config = changed(tiny_config(cases.text), model__layers=4, model__width=192, model__heads=4, model__context=128,
                         batch__global=16, batch__micro=4, batch__lanes=4, stages=2, steps=3, checkpoint__every=0,
                         cluster__heartbeat_ms=20 if stuck_ms == 20 else 10, cluster__stuck_ms=stuck_ms)
        run = bench.train(config, f"run-{stuck_ms}")
        check_whole(run, cases.reference(config), rollbacks=None)
        stuck = [event for event in run.all("lost") if event["cause"] == "stuck"]
        if stuck:
            break
    check(stuck, "no task took longer than stuck_ms: the test proves nothing")
    check(all("the limit was" in event["message"] for event in stuck), "a loss without its reason")
    check(len(stuck) <= losses_max, f"{len(stuck)} workers were put out")
    bench.note(f"{len(stuck)} workers put out with {stuck_ms} ms, {run.seconds:.1f} s")


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


def hangs(bench):
    """A worker lives on, but no task of it ever ends."""
    config = changed(tiny_config(cases.text), cluster__stuck_ms=5000)  # nobody else takes that long because the machine is busy
    run = bench.train(config, "run", "--fault", "worker=1,step=3,phase=backward,how=stuck")
    check_whole(run, cases.reference(config))
    equal([event["cause"] for event in run.all("lost")], ["stuck"], "why it was lost")
    paused = check_goodput(bench)["paused_ms"]
    check(run.one("lost")["for_ms"] > 5000 and paused > 4000, f"{paused} ms were paused: {run.one('lost')}")


cases.add("a task that hangs", hangs, kind="waits", first=True)
cases.add("tasks longer than stuck_ms", slow_tasks, 40, kind="alone", seconds=8)
cases.add("a warning of long tasks", warned_beforehand, kind="alone")

# --- one worker's trouble ---------------------------------------------------------------------------------------------------


def starts_killed(bench):
    """Those who start are killed before they join, again and again, while the others train: slowly, and not to the end before it was often
    enough. Then one comes through."""
    process = bench.start(*bench.train_words(LONG, "run", *pauses(0, range(10, 100, 5), 300), *hold(0, 100)))
    run = Watched(bench, process)
    run.until(lambda: any(event["step"] >= 5 for event in run.told("step")), "step 5")
    with killed_at_birth(process.pid):
        known = len(run.logs())
        os.kill(run.told("joined", 5)[0]["pid"], signal.SIGKILL)
        run.until(lambda: len(run.logs()) >= known + 7, "seven were killed before they joined")
        run.until(lambda: sum(event["node"] == 0 for event in run.told("fault")) == 19, "step 100")
        joined = len(run.told("joined"))
    run.until(lambda: len(run.told("joined")) > joined, "one that comes through")
    run.thaw(0)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = bench.events()
    check_whole(ended, cases.reference(LONG), rollbacks=None)
    equal(joined, 6, "how many had joined")


def stopped_without(bench, redundancy):
    """Nobody comes in place of a lost worker for an hour. A stop does not wait for it: what is committed is saved."""
    config = changed(LONG, redundancy=redundancy, steps=100000, checkpoint__every=0, cluster__replace_ms=3600000, cluster__wait_ms=3600000)
    process = bench.start(*bench.train_words(config, "run"))
    run = Watched(bench, process)
    run.until(lambda: any(event["step"] >= 5 for event in run.told("step")), "step 5")
    os.kill(run.told("joined", 1)[0]["pid"], signal.SIGKILL)
    run.until(lambda: run.told("lost"), "its loss")
    process.send_signal(signal.SIGTERM)
    ended = bench.end(process)
    equal(ended.code, 75, "exit code")
    events = bench.events()
    steps = [event["step"] for event in events if event["event"] == "step"]
    equal(steps, list(range(1, steps[-1] + 1)), "steps")
    equal([event["step"] for event in events if event["event"] == "checkpoint" and event["ok"]], steps[-1:], "checkpoints")


def damaged_checkpoint(bench, keep):
    """The newest checkpoint has another bit when it is needed: the one before is as good, or the seed."""
    config = changed(LONG, redundancy="none", checkpoint__every=50, checkpoint__keep=keep)
    process = bench.start(*bench.train_words(config, "run", *hold(3, 51), *hold(3, 101)))
    held = Watched(bench, process)

    def checkpoints(events):
        return [event for event in events if event["event"] == "checkpoint" and event["ok"]]

    held.wait(lambda events: len(checkpoints(events)) == 1, "a checkpoint")
    held.go_on()
    held.wait(lambda events: len(checkpoints(events)) == 2, "another one")  # and no other comes while it stands still
    before, newest = checkpoints(held.events())
    piece = os.path.join(bench.folder, newest["path"], "stage-1.safetensors")
    with open(piece, "r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 8]))
    process.send_signal(signal.SIGSTOP)  # which sees them all gone at once
    for pid in workers_of(bench.path("run")):
        os.kill(pid, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = bench.events()
    check_whole(ended, cases.reference(config), rollbacks=None)
    equal([event["to_step"] for event in ended.all("rollback")],
          [newest["step"], before["step"] if keep > 1 else 0], "where the run went back to")
    broken = [event for event in ended.all("checkpoint") if not event["ok"] and event["step"] == newest["step"]]
    check(any("damaged" in event["message"] for event in broken), "nobody said that the checkpoint is damaged")


def out_of_memory(bench):
    """One worker may take no more memory: it is replaced."""
    process = bench.start(*bench.train_words(LONG, "run", *hold(3, 4)))
    held = Watched(bench, process)
    held.wait()
    pids = {event["node"]: event["pid"] for event in held.events() if event["event"] == "joined"}
    pid = pids[1]
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
    # It takes no new memory while nothing changes: the loss of its neighbour gives it more to hold.
    os.kill(pids[2], signal.SIGKILL)
    held.go_on()
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = bench.events()
    check_whole(ended, cases.reference(LONG), rollbacks=None)
    lost = [event for event in ended.all("lost") if event["pid"] == pid]
    check(lost, "the worker without memory was not lost: the test proves nothing")
    bench.note(f"{lost[0]['cause']}: {lost[0].get('message')}")


def bad_picture(bench, pipelines, stages, redundancy):
    """A picture that cannot be decoded fails for every worker at the same step; what is done again after a roll-back is no progress."""
    folder = families.image_folder(bench)
    model = {"name": "resnet18", "width": 4, "small_stem": True, "image": 32, "channels": 3, "classes": 2}
    config = changed(tiny_config(cases.text), model=model, data={"kind": "images", "path": folder, "check_s": 0}, optimizer=families.SGD,
                     batch={"global": 4, "micro": 2, "lanes": 2}, steps=12, pipelines=pipelines, stages=stages, redundancy=redundancy,
                     checkpoint__every=4)
    bad = os.path.join(folder, "class-1", BAD)
    os.truncate(bad, os.path.getsize(bad) // 2)
    run = bench.run(*bench.train_words(config, "run"))
    equal(run.code, 3, "exit code")
    check(BAD in run.err and f"step {FAILS}" in run.err and len(run.err.splitlines()) == 1, f"not one line that names it: {run.err!r}")
    events = bench.events()
    steps = [event["step"] for event in events if event["event"] == "step"]
    equal(max(steps), FAILS - 1, "the last step done")
    rolled = [event for event in events if event["event"] == "rollback"]
    check(all(event["from_step"] == FAILS - 1 for event in rolled), "it was rolled back from elsewhere")
    check(rolled or pipelines > 1 or redundancy == "eager", "nothing was done again: the test proves nothing")
    equal(len([event for event in events if event["event"] == "lost" and event["cause"] == "failed"]), 3, "workers that failed")


cases.add("a bad picture ends the run: 1 x 1", bad_picture, 1, 1, "none", first=True)
for shape in ((1, 2, "eager"), (1, 2, "none"), (2, 1, "eager"), (2, 2, "eager")):
    cases.add(f"a bad picture ends the run: {shape[0]} x {shape[1]}, {shape[2]}", bad_picture, *shape)
cases.add("starting workers are killed while the others train", starts_killed, kind="waits")
for how in "eager", "none":
    cases.add(f"a stop while nobody comes in place of a lost worker: {how}", stopped_without, how, kind="waits", first=how == "eager")
cases.add("a damaged checkpoint, two kept", damaged_checkpoint, 2, first=True)
cases.add("a damaged checkpoint, one kept", damaged_checkpoint, 1)
cases.add("one worker without memory", out_of_memory, first=True)

if __name__ == "__main__":
    cases.run()
