"""What the system tests of graph networks share: a graph, runs on it, and what every run must come to.

Whatever the shape and whoever is lost, a run in step has the bits of one server and one parameter server without workers.
Two ways to hold that against it: a run to its end has their hashes; and a run that goes on until what it is about has
happened, and is then stopped, has their losses, each to the bit, up to there. The second depends on no speed.
"""
import contextlib
import hashlib
import json
import os
import re
import signal
import time

from harness import RUN_LIMIT_S, Failed, changed, check, equal, read_events, stands_still, wait_until, workers_of

ONE = {"servers": 1, "parameter_servers": 1, "workers": 0}
ENDLESS = {"epochs": 200000, "eval": {"every": 0}, "checkpoint": {"every": 0}}
# Nobody is missed because the machine is busy, or stood still for seconds: who is killed is missed at once all the same.
PATIENT = {"heartbeat_ms": 50, "suspect_ms": 60000}
# Where one freezes: it is missed only by its silence, which is longer than a busy machine makes of anybody.
SILENT_MS = 6000
# What a run says that has come to its end without the fault of a worker, or of a parameter server that is not the first one.
UNFIRED = re.compile(r"culm gnn train: --fault 'node=(worker:\d+|parameter:1),[^']*' never fired")
# What does not change what is learned; `epochs` only says for how long.
SHAPE = (*ONE, "cluster", "engine", "lambda", "gearman", "tune", "max_workers", "checkpoint")


class Graphs:
    """Runs on one graph, made once, as `culm gnn make sbm` makes it of these words."""

    def __init__(self, cases, *words):
        self.cases, self.words, self.path = cases, words, os.path.join(cases.folder, "graph")

    def make(self, bench):
        def graph():
            ended = bench.run("gnn", "make", "sbm", *self.words, "--out", self.path)
            equal((ended.code, ended.err), (0, ""), "making a graph")
            return self.path

        return self.cases.once(f"graph {self.path}", graph)

    def words_of(self, bench, config, out):
        self.make(bench)
        return ["gnn", "train", bench.config(config, f"{out}.yaml"), "--out", bench.path(out), "--json"]

    def train(self, bench, config, out="run", *words, code=0, env=None, limit_s=RUN_LIMIT_S):
        """A whole run; its events are read from standard output, pure JSON lines."""
        return self.ended(bench, bench.run(*self.words_of(bench, config, out), *words, env=env, limit_s=limit_s), out, code)

    @staticmethod
    def ended(bench, ended, out, code):
        ended.dir = bench.path(out)
        equal(ended.code, code, f"exit code; {ended.err.strip()[-300:]}")
        ended.events = [json.loads(line) for line in ended.out.splitlines()]
        equal(workers_of(ended.dir), [], "processes left behind")
        return ended

    def with_workers(self, bench, config, out, faults, fired):
        """A run that is under way, with these faults and, from its first epoch on, with all its workers, however long the machine takes to
        start them: the first parameter server stands still while it loads, until they have come. That is not among its faults. If they take
        so long that it may be missed, there is another run, in which nobody is missed as soon.

        A worker that has come must still be heard of by servers, and of several workers one may get no task in an epoch, where
        others are quicker; of several parameter servers another one may be the next to save. Then a fault does not fire: such a run
        shows nothing, and there is another one, too. fired(run) waits until that is known."""
        hold = config["workers"] > 0 and not any(node == "parameter:0" and phase == "load" for node, _, phase, *_ in faults)
        for number in range(20):
            began = time.monotonic()
            run = self.going(bench, config, f"{out}-{number}", *faults_of([*([("parameter:0", 1, "load", "stop")] if hold else []), *faults]))
            if hold:
                run.hold_until(lambda one=run: len(one.came()) >= config["workers"], "all workers")
                suspect_ms = config["cluster"]["suspect_ms"]
                if 1000 * (time.monotonic() - began) > suspect_ms - SILENT_MS:
                    run.kill_all()
                    config = changed(config, cluster__suspect_ms=2 * suspect_ms)
                    continue
                run.let_go()
            if fired(run):
                return run
        raise Failed(f"none of 20 runs has had all its workers and the faults {faults}")

    def train_with_workers(self, bench, config, out, faults):
        """A whole run that has all its workers (with_workers), in which these faults fire."""
        def fired(run):
            run.ended = bench.end(run.process)
            said = run.ended.err.splitlines()
            return not (run.ended.code == 1 and said and all(UNFIRED.fullmatch(line) for line in said))

        run = self.with_workers(bench, config, out, faults, fired)
        ended = self.ended(bench, run.ended, os.path.basename(run.out), 0)
        ended.events = run.without_hold(ended.events)
        return ended

    def going_with_workers(self, bench, config, out, faults):
        """A run without end that has all its workers (with_workers), when these faults have fired."""
        of_workers = [epoch for node, epoch, *_ in faults if node.startswith("worker")]

        def fired(run):
            def all_of_them():
                return len(run.told("fault")) >= len(faults)

            def too_late():
                passed = run.told("epoch") and of_workers and run.told("epoch")[-1]["epoch"] > max(of_workers) + 20
                return passed and sum(event["role"] == "worker" for event in run.told("fault")) < len(of_workers)

            run.wait(lambda: all_of_them() or too_late(), "the faults")
            if not all_of_them():
                run.kill_all()
                return False
            return True

        return self.with_workers(bench, config, out, faults, fired)

    def reference(self, bench, config):
        """The undisturbed run with one server and one parameter server: hashes, and the bits of each loss."""
        same = {key: value for key, value in config.items() if key not in SHAPE}
        key = json.dumps(same, sort_keys=True)

        def undisturbed():
            run = self.train(bench, {**same, **ONE, "cluster": PATIENT}, f"reference-{hashlib.sha256(key.encode()).hexdigest()[:16]}")
            equal(run.all("lost"), [], "losses of an undisturbed run")
            return run.hashes(), [event["loss_bits"] for event in run.all("epoch")]

        hashes, losses = self.cases.once(f"reference {key}", undisturbed)
        return tuple(hashes), losses

    def check_whole(self, bench, run, config, rollbacks=0):
        """Each epoch once, and the bits of the undisturbed run."""
        hashes, losses = self.reference(bench, config)
        last = {event["epoch"]: event["loss_bits"] for event in run.all("epoch")}
        equal(sorted(last), list(range(1, config["epochs"] + 1)), "epochs")
        equal([last[epoch] for epoch in sorted(last)], losses, "losses")
        equal(run.hashes(), hashes, "weights_sha256 and state_sha256")
        if rollbacks is not None:
            equal(run.one("done")["rollbacks"], rollbacks, "roll-backs")
        if not rollbacks and rollbacks is not None:
            equal(len(run.all("epoch")), config["epochs"], "epochs told")

    def check_losses(self, bench, going, config, again=False):
        """Of a run that was stopped: each epoch once (`again`: at least), and the loss of each."""
        told = [(event["epoch"], event["loss_bits"]) for event in going.told("epoch")]
        check(told, "it had no epoch")
        told = sorted(set(told)) if again else told
        equal([epoch for epoch, _ in told], list(range(1, len(told) + 1)), "epochs")
        length = 256
        while length < len(told):
            length *= 2
        equal([bits for _, bits in told], self.reference(bench, changed(config, epochs=length))[1][:len(told)], "losses")

    def going(self, bench, config, out="run", *words, env=None):
        return Going(bench, bench.path(out), *self.words_of(bench, config, out), *words, env=env)


class Going:
    """A run that is under way."""

    def __init__(self, bench, out, *words, env=None):
        self.bench, self.out = bench, out
        self.held = None  # the node that a fault has only held up while it loaded: that is not told
        self.process = bench.start(*words, env=env)

    def without_hold(self, events):
        return [event for event in events if event["event"] != "fault" or (event["node"], event["phase"]) != (self.held, "load")]

    def hold_until(self, condition, what):
        """A fault stops a parameter server while it loads: until then, and until the condition holds."""
        def stopped():
            return [event["node"] for event in self.told("fault") if (event["role"], event["phase"]) == ("parameter", "load")]

        self.wait(lambda: stopped() and condition(), what)
        self.held = stopped()[0]

    def let_go(self):
        os.kill(self.stands_still(self.held), signal.SIGCONT)

    def told(self, name):
        """Its events of that name, so far."""
        events = read_events(os.path.join(self.out, "events.jsonl"))
        return [event for event in self.without_hold(events) if event["event"] == name]

    def came(self, role="worker"):
        return [event for event in self.told("joined") if event["role"] == role]

    def lost(self):
        return [event["role"] for event in self.told("lost")]

    def logs(self):
        """The logs of those that the run has started; of one that was killed at once, too."""
        return os.listdir(os.path.join(self.out, "logs"))

    def pid(self, role, number):
        """Of the one of that role that joined as number `number` among those that the run has started: others may have come before."""
        pid = [event for event in self.came(role) if "pid" in event][number]["pid"]
        check(pid > 1, f"{role} {number} is not ours: pid {pid}")
        return pid

    def kill(self, role, number):
        os.kill(self.pid(role, number), signal.SIGKILL)

    def kill_together(self, *nodes):
        """None of them does anything more once the first is gone, however long it takes to kill the others."""
        pids = [self.pid(*node) for node in nodes]
        for number in signal.SIGSTOP, signal.SIGKILL:
            for pid in pids:
                os.kill(pid, number)

    def kill_all(self):
        self.process.kill()
        for pid in workers_of(self.out):  # one may stand still
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.end(-signal.SIGKILL)

    def address(self):
        self.wait(lambda: self.told("start"), "the start")
        return self.told("start")[0]["address"]

    def stands_still(self, node=None):
        """The pid of a node that a fault has stopped, the last one if none is named, when it has: it says so just before."""
        node = self.told("fault")[-1]["node"] if node is None else node
        pid = next(event["pid"] for event in self.told("joined") if event["node"] == node)
        self.wait(lambda: stands_still(pid), f"process {pid} to stand still")
        return pid

    def thaw(self):
        os.kill(self.stands_still(), signal.SIGCONT)

    def wait(self, condition, what, limit_s=RUN_LIMIT_S):
        wait_until(lambda: condition() or self.process.poll() is not None, limit_s, what)
        if not condition():
            raise Failed(f"it was over before {what}")

    def more_epochs(self, count=5):
        before = len(self.told("epoch"))
        self.wait(lambda: len(self.told("epoch")) >= before + count, "more epochs")

    def end(self, code=0):
        ended = self.bench.end(self.process)
        equal(ended.code, code, f"exit code; {ended.err.strip()[-300:]}")
        wait_until(lambda: not workers_of(self.out), 120, "the end of all processes")
        ended.dir, ended.events = self.out, [json.loads(line) for line in ended.out.splitlines()]
        return ended

    def stop(self):
        """Ends it as a user does, so that it could be resumed."""
        self.process.send_signal(signal.SIGTERM)
        return self.end(75)


def fault(node, epoch, phase, how="kill", **more):
    """Words for it; more: interval, for_ms."""
    words = [f"node={node}", f"epoch={epoch}", f"phase={phase}", f"how={how}", *(f"{key}={value}" for key, value in more.items())]
    return "--fault", ",".join(words)


def faults_of(faults):
    return [word for one in faults for word in fault(*one)]
