#!/usr/bin/env python3
"""Runs that go on while they can, and end with one line when they cannot: slow tasks, starts that fail, one worker's trouble."""
import os
import resource
import signal
import time

from harness import Cases, Held, changed, check, check_whole, children_of, equal, hold, read_events, tiny_config, wait_until, workers_of

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
               process.poll() is not None, 120, f"step {step}")
    check(process.poll() is None, "the run ended before the test could disturb it")
    return process


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
    config = changed(tiny_config(cases.text), cluster__stuck_ms=500)
    run = bench.train(config, "run", "--fault", "worker=1,step=3,phase=backward,how=stuck")
    check_whole(run, cases.reference(config))
    equal([event["cause"] for event in run.all("lost")], ["stuck"], "why it was lost")


cases.add("a task that hangs", hangs)
cases.add("tasks longer than stuck_ms", slow_tasks, 40)
cases.add("a warning of long tasks", warned_beforehand)

# --- one worker's trouble ---------------------------------------------------------------------------------------------------


def starts_killed(bench):
    """Those who start are killed before they join, again and again, while the others train."""
    config = changed(LONG, steps=1400)
    process = started(bench, config, 5)
    known = children_of(process.pid)
    os.kill(max(known), signal.SIGKILL)
    killed, end = set(), time.monotonic() + 60
    while len(killed) < 7 and process.poll() is None and time.monotonic() < end:
        for pid in children_of(process.pid) - known:
            known.add(pid)
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    equal(len(killed), 7, "starts killed")
    ended.events = events_of(bench)
    joined = {event["pid"] for event in ended.all("joined")}
    check(len(killed - joined) >= 5, f"only {len(killed - joined)} were killed before they joined")
    check_whole(ended, cases.reference(config), rollbacks=None)


def damaged_checkpoint(bench, keep):
    """The newest checkpoint has another bit when it is needed: the one before is as good, or the seed."""
    config = changed(LONG, redundancy="none", checkpoint__every=50, checkpoint__keep=keep, cluster__suspect_ms=60000)
    process = bench.start(*bench.train_words(config, "run", *hold(3, 51), *hold(3, 101)))
    held = Held(bench, process)

    def checkpoints(events):
        return [event for event in events if event["event"] == "checkpoint" and event["ok"]]

    held.wait(lambda events: len(checkpoints(events)) == 1, "a checkpoint")
    held.go_on()
    held.wait(lambda events: len(checkpoints(events)) == 2, "another one")  # and no other comes while it stands still
    workers = workers_of(bench.path("run"))
    before, newest = checkpoints(held.events())
    piece = os.path.join(bench.folder, newest["path"], "stage-1.safetensors")
    with open(piece, "r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 8]))
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = events_of(bench)
    check_whole(ended, cases.reference(config), rollbacks=None)
    equal([event["to_step"] for event in ended.all("rollback")],
          [newest["step"], before["step"] if keep > 1 else 0], "where the run went back to")
    broken = [event for event in ended.all("checkpoint") if not event["ok"] and event["step"] == newest["step"]]
    check(any("damaged" in event["message"] for event in broken), "nobody said that the checkpoint is damaged")


def out_of_memory(bench):
    """One worker may take no more memory: it is replaced."""
    process = started(bench, LONG, 3)
    pid = workers_of(bench.path("run"))[1]
    resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
    # It takes no new memory while nothing changes: the loss of its neighbour gives it more to hold.
    os.kill(workers_of(bench.path("run"))[2], signal.SIGKILL)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = events_of(bench)
    check_whole(ended, cases.reference(LONG), rollbacks=None)
    lost = [event for event in ended.all("lost") if event["pid"] == pid]
    check(lost, "the worker without memory was not lost: the test proves nothing")
    bench.note(f"{lost[0]['cause']}: {lost[0].get('message')}")


cases.add("starting workers are killed while the others train", starts_killed)
cases.add("a damaged checkpoint, two kept", damaged_checkpoint, 2)
cases.add("a damaged checkpoint, one kept", damaged_checkpoint, 1)
cases.add("one worker without memory", out_of_memory)

if __name__ == "__main__":
    cases.run()
