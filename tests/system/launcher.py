#!/usr/bin/env python3
"""The launcher: its death, signals to it and to workers, frozen workers, and preemption traces."""
import contextlib
import json
import multiprocessing
import os
import pty
import random
import resource
import select
import signal
import socket
import threading
import time

from harness import (Cases, Skipped, changed, check, check_goodput, check_recovered, check_whole, equal, fault, hold, pauses, sha256_of, signal_all,
                     tiny_config, wait_until, workers_of)
from train_harness import Watched

cases = Cases(job="train")
# Nobody is missed while a run stands still, nor is the launcher; where somebody is to be missed, a case says after how long.
LONG = changed(tiny_config(cases.text), steps=90, checkpoint__every=10, cluster__suspect_ms=120000, cluster__orphan_ms=600000)


def started(bench, config, step, *words):
    """A run that has done so many steps. Words hold it in some later one, to which it comes if we are slow."""
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *words)))
    if step >= 0:
        run.until(lambda: os.path.exists(run.path) and run.step() >= step, f"step {step}")
    return run


def standing(bench, config, worker, step):
    """A run that stands still in that step, because that worker is frozen."""
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *hold(worker, step))))
    run.wait()
    return run


def go_on_if_standing(run):
    """Waits for the end of a run that was told to end; where it stands still by then, it is let go on."""
    wait_until(lambda: run.process.poll() is not None or run.told("fault"), 120, "its end")
    if run.process.poll() is None:
        run.go_on()


def goes_on(bench, config):
    """Resumes, and the result is that of the undisturbed run."""
    run = bench.train(config, "run", "--resume")
    equal(run.hashes(), cases.reference(config), "weights_sha256 and state_sha256 after the resume")
    done = run.one("done")
    equal((done["samples_lost"], done["samples_repeated"]), (0, 0), "samples lost and repeated")
    return run


def all_gone(bench):
    """Long before they would miss a launcher that says nothing, which is after ten minutes."""
    wait_until(lambda: not workers_of(bench.path("run")), 120, "all workers gone")


def times_of_launches(bench):
    """What a killed launcher did since the step from which the next one went on was for nothing."""
    launches = []
    for event in bench.events():
        launches += [[]] if event["event"] == "start" else []
        launches[-1].append(event)
    told = check_goodput(bench)["launches"]
    for i, events in enumerate(launches):
        ends = {event.get("step"): event["t_ms"] for event in events if event["event"] == "step"}
        began = next((event["t_ms"] for event in events if event.get("phase") == "run"), events[-1]["t_ms"])
        next_step = next((event["step"] for later in launches[i + 1:] for event in later if event["event"] in ("view", "step")), None)
        lost = events[-1]["t_ms"] - ends.get(next_step - 1, began) if next_step else 0.0
        check(abs(told[i]["redone_ms"] + told[i]["paused_ms"] - lost) < 0.01, f"launch {i + 1}: {lost} ms were for nothing: {told[i]}")


# --- the death of the launcher ----------------------------------------------------------------------------------------------


def launcher_killed(bench, seed):
    draw = random.Random(seed)
    step = draw.choice([-1, 0, 1, 9, 10, 11, 35, 60])
    process = started(bench, LONG, step, *hold(0, step + 30)).process  # to which it comes if we are slow
    time.sleep(draw.random() * 0.03)  # a moment of no plan, not a wait for something
    workers = workers_of(bench.path("run"))
    process.kill()
    bench.end(process)
    all_gone(bench)
    model = bench.path("run", "model.safetensors")
    check(not os.path.exists(model), "a killed run has a model.safetensors")
    if not os.path.exists(bench.path("run", "config.yaml")):
        check(not workers, "workers before the run directory was claimed")
        return
    goes_on(bench, LONG)
    times_of_launches(bench)


def launcher_killed_with_a_frozen_worker(bench):
    """A frozen worker cannot end by itself: the kernel must do it."""
    process = started(bench, LONG, 5, *hold(0, 35)).process
    os.kill(pids(bench)[3], signal.SIGSTOP)
    process.kill()
    bench.end(process)
    all_gone(bench)
    goes_on(bench, LONG)


def killed_again_and_again(bench):
    process = started(bench, LONG, 12, *hold(0, 16)).process
    for _ in range(5):
        process.kill()
        bench.end(process)
        all_gone(bench)
        told = [event["step"] for event in bench.events() if event["event"] == "step"]
        mark, last = len(told), told[-1]
        process = bench.start(*bench.train_words(LONG, "run", "--resume", *hold(0, last + 14)))
        watched = Watched(bench, process)
        watched.until(lambda: len(watched.told("step")) > mark + 10, "10 more steps")
    process.kill()
    bench.end(process)
    all_gone(bench)
    goes_on(bench, LONG)
    times_of_launches(bench)


def two_launchers(bench):
    held = standing(bench, LONG, 0, 4)
    second = bench.run(*bench.train_words(LONG, "run", "--resume"))
    equal(second.code, 3, "exit code of a second launcher")
    equal(len(second.err.splitlines()), 1, "lines on stderr")
    equal(second.out, "", "standard output of the second launcher")
    held.go_on()
    run = bench.end(held.process)
    equal(run.code, 0, "exit code of the first launcher")
    run.events = bench.events()
    check_whole(run, cases.reference(LONG))


for seed in range(12):
    cases.add(f"launcher killed, seed {seed}", launcher_killed, seed, first=seed == 0)
cases.add("launcher killed while a worker is frozen", launcher_killed_with_a_frozen_worker)
cases.add("launcher killed again and again", killed_again_and_again)
cases.add("a second launcher in the same directory", two_launchers, first=True)

# --- signals to the launcher ------------------------------------------------------------------------------------------------


def taken(process, number):
    """Whether it has read that signal; two of the same that wait for it are one."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        pending = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return not any(one >> (number - 1) & 1 for one in pending)


def pids(bench):
    return {event["node"]: event["pid"] for event in bench.events() if event["event"] == "joined"}


STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


def to_launcher(process, number):
    process.send_signal(number)


def to_group(process, number):
    os.killpg(process.pid, number)


def to_all(process, number, killed=0):
    """The launcher and its six workers, but for those that were killed, whom it may have missed by now."""
    check(len(signal_all(process.pid, number)) >= 7 - killed, "somebody was not there to be signalled")


def stopped_by(bench, number, step, send, every):
    config = changed(LONG, checkpoint__every=every)
    run = started(bench, config, step, *hold(3, step + 30))
    send(run.process, number)
    go_on_if_standing(run)
    ended = bench.end(run.process)
    equal(ended.code, 75, "exit code")
    whole_after_stop(bench, config)


def whole_after_stop(bench, config):
    """Nobody is left, no worker was lost, and what was done lies in a checkpoint, with which the run goes on."""
    equal(workers_of(bench.path("run")), [], "workers left behind")
    events = bench.events()
    last = max((event["step"] for event in events if event["event"] == "step"), default=0)
    if last > 0:
        written = [event["step"] for event in events if event["event"] == "checkpoint" and event["ok"]]
        check(last in written, f"stopped after step {last}, and the checkpoints are of {written}")
    equal([event for event in events if event["event"] in ("lost", "done", "rollback")], [], "losses, ends and roll-backs")
    resumed = goes_on(bench, config)
    equal(min(event["step"] for event in resumed.all("step")), last + 1, "first step after the resume")
    stopped = check_goodput(bench)["launches"][0]
    check(last == 0 or stopped["redone_ms"] == 0 and stopped["saving_ms"] > 0, f"a run that was stopped does nothing again, and saved: {stopped}")


for number in (signal.SIGINT, signal.SIGTERM):
    for step in (0, 1, 25):
        for every in (0, 10):
            cases.add(f"{number.name} after step {step}, checkpoints every {every}", stopped_by, number, step, to_launcher, every,
                      first=(number, step, every) == (signal.SIGTERM, 1, 0))
cases.add("SIGINT to the whole group, as Ctrl-C sends it", stopped_by, signal.SIGINT, 25, to_group, 10, first=True)
cases.add("SIGTERM to the whole group, as timeout sends it", stopped_by, signal.SIGTERM, 25, to_group, 10)
for number in STOPS:
    cases.add(f"{number.name} to every process, as a scheduler sends it", stopped_by, number, 25, to_all, 0, first=number == signal.SIGTERM)
for number in STOPS[2:]:
    cases.add(f"{number.name} to the launcher alone", stopped_by, number, 25, to_launcher, 0, first=number == signal.SIGHUP)


def stopped_for_people(bench):
    """Without --json, a line says how to go on: people look at no exit code."""
    words = [word for word in bench.train_words(LONG, "run", *hold(3, 25)) if word != "--json"]
    run = Watched(bench, bench.start(*words))
    run.wait()
    run.process.send_signal(signal.SIGINT)
    run.go_on()
    ended = bench.end(run.process)
    equal((ended.code, ended.err), (75, "culm train: stopped; continue with --resume\n"), "exit code, standard error")


cases.add("SIGINT of a run that is watched: how to go on", stopped_for_people, first=True)


def stopped_in(bench, worker, step, phase, config):
    """Every process gets the signal while a worker stands still in that phase, or is lost there."""
    config = changed(LONG, **config)
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *fault(worker, step, phase, "stop"))))
    run.wait()
    to_all(run.process, signal.SIGTERM)
    run.go_on()
    equal(bench.end(run.process).code, 75, "exit code")
    whole_after_stop(bench, config)


for phase, step in (("load", 1), ("backward", 25), ("reduce", 25), ("step", 25), ("checkpoint", 30)):
    cases.add(f"every process is told to stop while a worker is at: {phase}", stopped_in, 1, step, phase, {})


def stopped_at_evaluation(bench):
    """The evaluation beside training gets the signal, too, and is none of those that end by it."""
    config = changed(LONG, checkpoint__every=20, eval={"every": 20, "samples": 64}, data__held_out=0.2)
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *hold(4, 21))))
    run.wait()  # the checkpoint of step 20 may be under way, or evaluated
    run.until(lambda: saved(run.events()), "a checkpoint")
    to_all(run.process, signal.SIGTERM)
    run.go_on()
    ended = bench.end(run.process)
    equal(ended.code, 75, "exit code")
    evaluated = [event for event in bench.events() if event["event"] == "eval"]
    check(all(event.get("ok", True) for event in evaluated), f"an evaluation failed: {evaluated}")


cases.add("every process is told to stop beside an evaluation", stopped_at_evaluation)


def stopped_in_recovery(bench):
    """A worker is killed, and every process is told to stop before the run has got over it."""
    run = Watched(bench, bench.start(*bench.train_words(LONG, "run", *hold(0, 25))))
    run.wait()
    os.kill(pids(bench)[4], signal.SIGKILL)
    to_all(run.process, signal.SIGTERM, killed=1)
    run.go_on()
    equal(bench.end(run.process).code, 75, "exit code")
    equal(workers_of(bench.path("run")), [], "workers left behind")
    last = run.step()
    check(last in [event["step"] for event in run.told("checkpoint") if event["ok"]], f"no checkpoint of step {last}")
    goes_on(bench, LONG)


cases.add("every process is told to stop while a loss is made up for", stopped_in_recovery, first=True)


def stopped_without_copy(bench, every):
    """All copies of a stage are lost behind the checkpoint, if there is one: what the line says is what --resume does."""
    config = changed(LONG, redundancy="none", pipelines=1, checkpoint__every=every, cluster__replace_ms=600000)
    words = []
    if every:  # by a stop, which waits for it: who is frozen for the test may not have written its piece of another one
        first = standing(bench, config, 0, 12)
        first.process.send_signal(signal.SIGTERM)
        first.go_on()
        equal(bench.end(first.process).code, 75, "exit code of the first part")
        words = ["--resume"]
    faults = sum(event["event"] == "fault" for event in bench.events()) if every else 0
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *words, *hold(0, 25))))
    run.number = faults
    run.wait()
    os.kill(pids(bench)[1], signal.SIGKILL)
    run.go_on()
    run.until(lambda: run.told("rollback"), "a roll-back")
    run.process.send_signal(signal.SIGTERM)
    ended = bench.end(run.process)
    check_lost_steps(bench, ended, 24)
    newest = saved(run.events())
    resumed = goes_on(bench, changed(config, cluster__replace_ms=0))
    equal(min(event["step"] for event in resumed.all("step")), newest + 1, "first step after the resume")


def saved(events):
    """The step of the newest checkpoint, if there is one: a machine that writes slowly leaves some out."""
    return max((event["step"] for event in events if event["event"] == "checkpoint" and event["ok"]), default=0)


def check_lost_steps(bench, ended, last):
    equal(ended.code, 1, "exit code")
    equal(workers_of(bench.path("run")), [], "workers left behind")
    newest = saved(bench.events())
    check(len(ended.err.splitlines()) == 1 and f"without a checkpoint of step {last}" in ended.err and
          (f"the newest is of step {newest}" if newest else "there is none, so --resume begins anew") in ended.err and f"{last - newest} steps are done again" in ended.err, f"not one line that says so: {ended.err!r}")
    equal([event["message"] in ended.err for event in bench.events() if event["event"] == "error"], [True], "the event that says so")


cases.add("a stop when no copy of what was done is left", stopped_without_copy, 100, first=True)
cases.add("a stop when no copy is left, nor a checkpoint", stopped_without_copy, 0)


def ignored_at_start(bench):
    """As nohup starts it: SIGHUP is nobody's business."""
    had = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which the child inherits
    try:
        process = bench.start(*bench.train_words(LONG, "run", *hold(0, 25)))
    finally:
        signal.signal(signal.SIGHUP, had)
    run = Watched(bench, process)
    run.wait()
    to_all(process, signal.SIGHUP)
    run.go_on()
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    ended.events = bench.events()
    check_whole(ended, cases.reference(LONG))


cases.add("SIGHUP where it was ignored at the start, as by nohup", ignored_at_start, first=True)


class InTerminal:
    """A process in the foreground of a terminal of its own, as far as `Watched` looks at processes."""

    def __init__(self, command):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.returncode, self.closes = None, False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """Nobody waits for a reader that is slow. The end of all that have it open is an error."""
        os.set_blocking(self.terminal, False)
        while not self.closes:
            if select.select([self.terminal], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    os.read(self.terminal, 65536)
        os.close(self.terminal)

    def close(self):
        self.closes = True
        self.reader.join()

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def terminal_closes(bench):
    """The terminal goes away in which it runs in the foreground."""
    words = bench.train_words(LONG, bench.path("run"), *hold(0, 25))
    process = InTerminal([bench.culm, *map(str, words)])
    run = Watched(bench, process)
    try:
        run.wait()
    finally:
        process.close()
    wait_until(lambda: taken(process, signal.SIGHUP), 120, "it to take the signal")
    run.go_on()
    wait_until(lambda: process.poll() is not None, 120, "its end")
    equal(process.returncode, 75, "exit code")
    whole_after_stop(bench, LONG)


cases.add("the terminal closes", terminal_closes, first=True)


def second_signal(bench, first, second):
    """With a worker that is frozen before it says what its state is, no checkpoint can be published; whoever insists does not wait for it."""
    config = changed(LONG, cluster__suspect_ms=600000, checkpoint__every=0)
    run = Watched(bench, bench.start(*bench.train_words(config, "run", *fault(5, 25, "commit", "stop"))))
    run.wait()
    process = run.process
    for number in first, signal.SIGUSR1, first:  # the last is an echo of the first
        process.send_signal(number)
        wait_until(lambda number=number: taken(process, number), 120, "it to take the signal")
    time.sleep(ECHO_S)
    process.send_signal(signal.SIGUSR1)  # a scheduler may warn as often as it likes
    wait_until(lambda: taken(process, signal.SIGUSR1), 120, "it to take the signal")
    check(process.poll() is None, "ended although a worker is frozen")
    process.send_signal(second)
    check_lost_steps(bench, bench.end(process), 25)  # before the frozen one is missed
    goes_on(bench, LONG)


ECHO_S = 1.1  # a second signal that comes within a second is an echo
cases.add("second SIGINT ends at once", second_signal, signal.SIGINT, signal.SIGINT)
cases.add("SIGTERM after SIGINT ends at once", second_signal, signal.SIGINT, signal.SIGTERM, first=True)


def stopped_while_a_worker_is_lost(bench):
    config = changed(LONG, cluster__suspect_ms=10000)
    process = standing(bench, config, 1, 26).process
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 75, "exit code")
    equal(workers_of(bench.path("run")), [], "workers left behind")
    goes_on(bench, config)


cases.add("SIGTERM, then a worker is lost before the checkpoint", stopped_while_a_worker_is_lost, kind="waits", seconds=12)

# --- signals to workers -----------------------------------------------------------------------------------------------------


def worker_signalled(bench, number, worker):
    """A worker that is ended by a signal is a plain loss, as is any other end."""
    held = started(bench, LONG, 8, *hold(0, 60))
    os.kill(pids(bench)[worker], number)
    held.wait(lambda events: any(event["event"] == "joined" and event["node"] == 6 for event in events), "a replacement")
    held.go_on()
    run = bench.end(held.process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(LONG))
    check_recovered(run)
    equal([event["node"] for event in run.all("lost")], [worker], "workers lost")
    check(run.one("lost")["cause"] in ("eof", "exit"), f"cause {run.one('lost')['cause']}")
    equal([event["node"] for event in run.all("joined")][6:], [6], "replacements")


for number in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
    cases.add(f"{number.name} to one worker", worker_signalled, number, 4, first=number == signal.SIGKILL)


def left_to_the_launcher(bench):
    """What schedulers send to end a run is not for workers to hear."""
    held = started(bench, LONG, 8, *hold(0, 25))
    for number in STOPS:
        os.kill(pids(bench)[4], number)
    held.wait()
    held.go_on()
    run = bench.end(held.process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(LONG))
    equal(run.all("lost"), [], "losses")


cases.add("SIGTERM and its like to one worker", left_to_the_launcher, first=True)


def frozen(bench, thaw):
    """Found by heartbeat, put out first; thawed it is fenced, else it is killed kill_suspect_ms later."""
    # It is lost in step 9; in step 30 another one keeps the run from its end until all is seen, for less than what makes a suspect. Where
    # that comes late, at kill_suspect_ms, the steps between take as long.
    suspect_ms, kill_ms, slow = (30000, 60000, []) if thaw else (15000, 15000, range(10, 30))
    config = changed(LONG, steps=40, cluster__suspect_ms=suspect_ms, cluster__kill_suspect_ms=kill_ms)
    words = [*hold(2, 9), *pauses(5, slow, kill_ms // 20), *hold(5, 30)]
    process = bench.start(*bench.train_words(config, "run", *words))
    held = Watched(bench, process)
    held.wait()
    pid = pids(bench)[2]

    def told(name):
        return bool(held.told(name, 2))

    wait_until(lambda: told("lost"), 120, "the frozen worker is lost")
    check(os.path.exists(f"/proc/{pid}"), "the suspect was killed at once")
    lost_at = time.monotonic()
    if thaw:
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: told("fenced"), 120, "the thawed worker is fenced")
    wait_until(lambda: pid not in workers_of(bench.path("run")), 120, "the suspect is gone")
    if not thaw:
        check(time.monotonic() - lost_at > 1.0, "the suspect was killed before kill_suspect_ms")
    held.number += len(slow)
    held.wait()
    held.go_on()
    run = bench.end(process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(config))
    check_recovered(run)
    equal(run.one("lost")["cause"], "heartbeat", "cause")
    check(run.one("lost")["for_ms"] > config["cluster"]["suspect_ms"], f"for how long it was silent: {run.one('lost')}")
    equal(len(run.all("fenced")), 1 if thaw else 0, "events fenced")
    if thaw:
        with open(bench.path("run", "logs", "node-2.log"), encoding="utf-8") as file:
            check("fenced" in file.read(), "the fenced worker's log does not say so")


cases.add("a frozen worker is found, put out, and killed later", frozen, False, kind="waits", seconds=33)
cases.add("a frozen worker that wakes up is fenced", frozen, True, kind="waits", seconds=32)


def all_frozen(bench):
    """Everyone is silent at once: nobody holds a copy in time, so it rolls back, and goes on with new workers."""
    config = changed(LONG, cluster__suspect_ms=15000)  # in which we stop them all
    process = standing(bench, config, 0, 13).process
    for pid in workers_of(bench.path("run")):
        os.kill(pid, signal.SIGSTOP)
    run = bench.end(process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(config), rollbacks=1)


cases.add("all workers freeze", all_frozen, kind="waits", seconds=18)


def launcher_frozen(bench):
    """A launcher that was frozen longer than suspect_ms must not take everyone for dead."""
    config = changed(LONG, cluster__suspect_ms=10000)
    held = standing(bench, config, 0, 13)
    process = held.process
    process.send_signal(signal.SIGSTOP)
    held.go_on()
    time.sleep(12)  # how long it is frozen: more than suspect_ms
    process.send_signal(signal.SIGCONT)
    run = bench.end(process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(config))
    equal(run.all("lost"), [], "losses")


cases.add("a launcher that was frozen loses nobody", launcher_frozen, kind="waits", seconds=14)


def launcher_frozen_for_long(bench):
    """Workers do not wait for ever for a launcher that says nothing; when it wakes, the run goes on with others."""
    config = changed(LONG, cluster__suspect_ms=10000, cluster__orphan_ms=10000)
    held = standing(bench, config, 5, 13)
    process = held.process
    process.send_signal(signal.SIGSTOP)
    held.go_on()
    wait_until(lambda: not workers_of(bench.path("run")), 120, "the end of all workers")
    process.send_signal(signal.SIGCONT)
    run = bench.end(process)
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    equal(run.one("done")["weights_sha256"], cases.reference(config)[0], "weights_sha256")
    with open(bench.path("run", "logs", "node-0.log"), encoding="utf-8") as file:
        check("the leader has said nothing for 10000 ms" in file.read(), "node 0 does not say why it ended")


cases.add("workers of a launcher that stays frozen end themselves", launcher_frozen_for_long, kind="waits", seconds=14)

# --- a crowd at the door ----------------------------------------------------------------------------------------------------

NOBODY = 65534


def hold_doors(address, user, count, ready):
    """Keeps `count` idle connections, opening others for those that were closed, until it is killed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if user is not None:
        os.setresuid(user, user, user)
    held = []
    while True:
        while len(held) < count:
            knock = socket.socket(socket.AF_UNIX)
            knock.setblocking(False)
            try:
                knock.connect("\0" + address.removeprefix("unix:"))
            except BlockingIOError:  # its queue is full
                knock.close()
                break
            except ConnectionRefusedError:  # the run has ended
                return
            held.append(knock)
        ready.set()
        time.sleep(0.001)
        gone = [knock for knock in held if closed(knock)]
        for knock in gone:
            held.remove(knock)
            knock.close()


def closed(knock):
    try:
        return knock.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def crowd(bench, user):
    """Connections without a word, more than a leader keeps: whom it waits for comes in all the same."""
    if user is not None and os.geteuid() != 0:
        raise Skipped("not root: another user cannot be had here")
    process = bench.start(*bench.train_words(LONG, "run", *hold(5, 6), *hold(5, 60)))
    held = Watched(bench, process)
    held.wait()
    worker = pids(bench)[0]
    with open(f"/proc/{worker}/cmdline", encoding="utf-8") as file:
        address = file.read().split("\0")[4]
    forked = multiprocessing.get_context("fork")
    ready = forked.Event()
    others = forked.Process(target=hold_doors, args=(address, user, 1100, ready), daemon=True)
    others.start()
    try:
        check(ready.wait(120), "the crowd did not come")
        os.kill(worker, signal.SIGKILL)
        held.go_on()
        held.wait(lambda events: sum(event["event"] == "joined" for event in events) > 6, "a replacement")
        held.go_on()
        run = bench.end(process)
    finally:
        others.kill()
        others.join()
    equal(run.code, 0, "exit code")
    run.events = bench.events()
    check_whole(run, cases.reference(LONG))


cases.add("1100 idle connections of the same user", crowd, None)
cases.add("1100 idle connections of another user", crowd, NOBODY)

# --- traces -----------------------------------------------------------------------------------------------------------------


def traced(bench, config, lines, until, scale=1):
    """A run to which all of a trace comes. until: how many events of which kinds that means."""
    path = bench.path("trace.csv")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(line + "\n" for line in lines))
    lasts_ms = max(int(line.split(",")[0]) for line in lines) // scale
    slow = pauses(5, PAUSED, lasts_ms // len(PAUSED) + 20)
    process = bench.start(*bench.train_words(config, "run", "--preempt-trace", path, "--time-scale", scale, *slow, *hold(5, 200)))
    held = Watched(bench, process)
    held.number = len(PAUSED)
    held.wait(lambda events: all(sum(event["event"] == name for event in events) >= count for name, count in until.items()),
              f"what the trace brings: {until}")
    held.go_on()
    run = bench.trained(process)
    check_whole(run, cases.reference(config))
    return run


ADDS = [f"0,add,node{k}" for k in range(6)]
# The clock of a trace starts with the run, and a worker that is taken away before it has joined was never there: the first removal leaves
# six of them time to start, also beside many other cases. Steps are slow while the trace plays; if they were not slow enough, the run
# stands still in step 200 until all has come.
FIRST_MS = 30000
JOIN_MS = 20000  # the same for two more
TRACED = changed(LONG, steps=220)
PAUSED = range(5, 200, 5)


def trace_plain(bench):
    """workers come and go"""
    t = FIRST_MS
    lines = ADDS + [f"{t},remove,node1", f"{t + 100},add,node6", f"{t + 200},remove,node3", f"{t + 300},remove,node2",
                    f"{t + 400},add,node7", f"{t + 500},add,node8"]
    run = traced(bench, TRACED, lines, {"lost": 3, "joined": 9})
    check_recovered(run)
    equal([event["node"] for event in run.all("lost")], [1, 3, 2], "workers lost")
    equal({event["cause"] for event in run.all("lost")} - {"removed", "eof", "exit"}, set(), "other causes")
    equal({event["name"] for event in run.all("joined")}, {f"node{k}" for k in range(9)}, "names")


def trace_standby(bench):
    """eight come, six train, two stand by and take over"""
    t = FIRST_MS
    lines = ADDS + [f"{t},add,node6", f"{t},add,node7", f"{t + JOIN_MS},remove,node0", f"{t + JOIN_MS + 200},remove,node4"]
    run = traced(bench, TRACED, lines, {"lost": 2, "joined": 8})
    idle = [event["node"] for event in run.all("joined") if event["pipeline"] is None]
    equal(len(run.all("joined")), 8, "workers joined")
    equal(len(idle), 2, "workers standing by")
    check_recovered(run)
    roles = {part["owner"] for part in run.all("view")[-1]["map"]}
    check(roles >= set(idle) and len(roles) == 6, f"the owners at the end are {sorted(roles)}")


def trace_queue(bench):
    """two more than may live come when a place is free"""
    lines = [f"0,add,node{k}" for k in range(8)] + [f"{FIRST_MS},remove,node0", f"{FIRST_MS + 200},remove,node1"]
    run = traced(bench, changed(TRACED, cluster__max_nodes=6), lines, {"lost": 2, "joined": 8})
    at = {event["name"]: event["t_ms"] for event in run.all("joined")}
    equal(set(at), {f"node{k}" for k in range(8)}, "names that joined")
    lost = sorted(event["t_ms"] for event in run.all("lost"))
    check(at["node6"] > lost[0] and at["node7"] > lost[1], "a queued worker joined before a place was free")


def trace_scaled(bench):
    """twenty times as fast"""
    lines = ADDS + [f"{20 * FIRST_MS},remove,node1", f"{21 * FIRST_MS},add,node6"]
    run = traced(bench, TRACED, lines, {"lost": 1, "joined": 7}, scale=20)
    equal(run.one("lost")["node"], 1, "worker lost")
    at = run.one("lost")["t_ms"]
    check(0.95 * FIRST_MS < at < 10 * FIRST_MS, f"removed at {at} ms, not near {FIRST_MS}")


def trace_late(bench):
    """training starts when pipelines x stages are there"""
    run = traced(bench, TRACED, [f"{100 * k},add,node{k}" for k in range(6)], {"joined": 6})
    first = run.all("step")[0]["t_ms"]
    check(first > 500, f"the first step at {first} ms, before the last worker came at 500")
    waiting = run.all("waiting")
    equal((waiting[0]["need"], waiting[0]["have"]), (6, 0), "need and have of the first waiting")


def trace_everyone_leaves(bench):
    """all leave, others come: a roll-back to the last checkpoint"""
    t = FIRST_MS
    lines = ADDS + [f"{t},remove,node{k}" for k in range(6)] + [f"{t + 200},add,node{k + 6}" for k in range(6)]
    path = bench.path("trace.csv")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(line + "\n" for line in lines))
    # It stands still until all have left: of one who leaves, too.
    run = bench.train(changed(TRACED, checkpoint__every=2), "run", "--preempt-trace", path, *hold(5, 5))
    check_whole(run, cases.reference(TRACED), rollbacks=1)
    back = run.one("rollback")
    written = [event["step"] for event in run.events[:run.events.index(back)] if event["event"] == "checkpoint" and event["ok"]]
    equal(back["to_step"], max(written, default=0), "where it went back to")


def trace_too_few(bench):
    """who waits too long is told so"""
    path = bench.path("trace.csv")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(line + "\n" for line in ADDS[:3]))
    ended = bench.run(*bench.train_words(changed(LONG, cluster__wait_ms=1000), "run", "--preempt-trace", path))
    equal(ended.code, 4, "exit code")
    check("waited 1000 ms" in ended.err, f"stderr: {ended.err}")
    equal(workers_of(bench.path("run")), [], "workers left behind")
    check(not os.path.exists(bench.path("run", "model.safetensors")), "a model was written")
    equal(json.loads(ended.out.splitlines()[-1])["event"], "error", "last event")
    goes_on(bench, LONG)


for function, lasts_ms in ((trace_plain, FIRST_MS), (trace_standby, FIRST_MS + JOIN_MS), (trace_queue, FIRST_MS), (trace_scaled, FIRST_MS),
                           (trace_late, 0), (trace_everyone_leaves, FIRST_MS), (trace_too_few, 0)):
    cases.add(f"trace: {function.__doc__}", function, kind="waits", seconds=lasts_ms / 1000 + 4, first=function is trace_plain)


def plan_of_another_run(bench):
    """--plan takes plan.json of another run, and the model is the same file."""
    short = changed(LONG, steps=10)
    bench.train(short, "a")
    bench.train(changed(short, threads=2), "b", "--plan", bench.path("a", "plan.json"))
    equal(sha256_of(bench.path("b", "model.safetensors")), sha256_of(bench.path("a", "model.safetensors")), "models")
    plans = []
    for name in ("a", "b"):
        with open(bench.path(name, "plan.json"), encoding="utf-8") as file:
            plans.append(json.load(file))
        for stage in plans[-1]["stages"]:
            stage.pop("memory_bytes")  # a second thread has scratch of its own
    equal(plans[1], plans[0], "plans")


cases.add("--plan of another run", plan_of_another_run, first=True)

if __name__ == "__main__":
    cases.run()
