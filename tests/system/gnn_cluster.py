#!/usr/bin/env python3
"""Graph networks that no machine has to stay for: `culm gnn train --cluster`, `culm node --join etcd://... --role ROLE`, with a real etcd.

What a run computed is compared with one server and one parameter server, undisturbed, epoch by epoch.
"""
import json
import os
import shutil
import signal

from cluster_harness import ClusterRun
from gnn_harness import ENDLESS, Going, Graphs
from harness import Cases, changed, check, children_of, equal, read_events, tiny_config
from s3_standin import ENVIRONMENT, S3

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CONFIG = {
    "graph": {"path": "graph", "features": "as-is"},
    "model": {"layers": 2, "width": 16, "dropout": 0.5},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 1,
    "optimizer": {"lr": 0.01},
    **ENDLESS,
    "checkpoint": {"every": 50},
    # Nobody is missed because the machine is busy; who is killed is missed at once.
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 20000, "orphan_ms": 30000, "lease_ms": 5000},
}


def here(config):
    """The same on the graph where this process has it."""
    return changed(config, graph__path=graphs.path, checkpoint={"every": 0})


class Run(ClusterRun):
    command = ("gnn", "train")
    unit = "epoch"

    def __init__(self, bench, config, **more):
        graphs.make(bench)
        super().__init__(bench, config, **more)

    def give(self, folder):
        shutil.copytree(graphs.path, os.path.join(folder, "graph"))
        for name in os.listdir(os.path.join(folder, "graph")):
            os.utime(os.path.join(folder, "graph", name), (1, 1))

    def roles(self):
        """All that the configuration asks for, each on a machine of its own: two servers, and two that have no graph, and so cannot lead."""
        empty = self.bench.path("empty")
        os.mkdir(empty)
        without = [self.node(1, "--role", role, "--lead", "no", "--data-dir", empty) for role in ("parameter", "worker")]
        return [self.node(1), self.node(1, "--role", "server"), *without]

    def kill_leader(self):
        """Whoever leads is killed, alone; the machine that created the run with all that it has."""
        leader, terms = self.leader(), self.terms()
        if leader is self.machines[0]:
            leader.kill()
        else:
            os.kill(leader.leading(), signal.SIGKILL)
        self.wait(lambda: len(self.terms()) > len(terms), "another leader")

    def status(self, *words):
        ended = self.bench.run("status", "one", "--cluster", self.place(), "--json", *words)
        equal(ended.code, 0, f"exit code of status: {ended.err}")
        return json.loads(ended.out)

    def check(self):
        """Each epoch, however often it was told, has the loss of an undisturbed run; none is missing."""
        graphs.check_losses(self.bench, self, here(self.config), again=True)


def all_roles(bench):
    """Nodes of other machines in all roles, and none of who created the run; what it comes to is what it comes to on one machine."""
    config = changed(CONFIG, epochs=60)
    with Run(bench, config) as run:
        first = run.create()
        nodes = run.roles()
        for machine in first, *nodes:
            machine.end(0)
        done = run.told("done")[-1]
        hashes, losses = graphs.reference(bench, here(config))
        equal((done["weights_sha256"], done["state_sha256"]), hashes, "hashes")
        equal([event["loss_bits"] for event in run.told("epoch")], losses, "losses")
        equal((run.told("lost"), run.told("rollback"), done["leaders"]), ([], [], 1), "losses of nodes, roll-backs, leaders")
        equal(run.told("start")[0]["survives_its_host"], True, "survives_its_host")
        check("60" in bench.run("ckpt", "list", bench.path("store")).out, "the last checkpoint is not in the storage")
        run.node(1, "--role", "worker").end(0)  # one that comes too late


def watched(bench):
    """One of each role where the run was created, and a server elsewhere; `status` and `runs` say what it is at."""
    with Run(bench, CONFIG) as run:
        run.create("--workers", 1)
        run.node(1)
        run.more_steps()
        now = run.status("--token-file", run.token)
        equal((now["job"], now["state"], now["store"], now["steps"], now["copies"]), ("gnn", "running", "ok", CONFIG["epochs"], [2]), "status")
        equal(sorted((node["role"], node["state"]) for node in now["nodes"]),
              [("parameter", "member"), ("server", "member"), ("server", "member"), ("worker", "member")], "nodes")
        equal(sum(agent["leads"] for agent in now["agents"]), 1, "who leads")
        check(now["step"] > 20 and isinstance(now["loss"], float), f"{now}")
        less = run.status()
        equal((less["state"], less["view"], sorted(node["role"] for node in less["nodes"])),
              ("running", None, ["parameter", "server", "server", "worker"]), "status without the token")
        listed = json.loads(bench.run("runs", "--cluster", run.place(), "--json").out)
        equal([(one["name"], one["job"], one["state"], one["nodes"]) for one in listed], [("one", "gnn", "running", 4)], "runs")
        told = bench.run("runs", "--cluster", run.place()).out
        check("running  gnn" in told, f"what runs prints: {told!r}")
        run.check()


def by_address(bench):
    """`culm node --role` at the address of a launcher that starts nobody: nodes fill all roles, and end with the run."""
    config = changed(CONFIG, epochs=60)
    graphs.make(bench)
    shutil.copytree(graphs.path, bench.path("graph"))
    going = Going(bench, bench.path("run"), "gnn", "train", bench.config(config, "run.yaml"), "--out", bench.path("run"), "--json", "--listen",
                  "127.0.0.1:0", "--workers", 0)
    address, token = going.address(), bench.path("run", "token")
    plain = bench.run("node", "--join", address.removeprefix("tcp:"), "--token-file", token)
    equal((plain.code, "add --role server, parameter or worker" in plain.err), (3, True), f"a worker of training: {plain.err}")
    nodes = [bench.start("node", "--join", address.removeprefix("tcp:"), "--token-file", token, "--role", role, "--workers", count, cwd=bench.folder)
             for role, count in (("server", 2), ("parameter", 1), ("worker", 1))]
    ended = going.end(0)
    equal([bench.end(node).code for node in nodes], [0, 0, 0], "exit codes of nodes")
    equal(ended.hashes(), graphs.reference(bench, here(config))[0], "hashes")


def leave(bench):
    """Nodes in each role are told to end, one after the other, and others come: nothing is rolled back, nor lost. Then whoever leads is told to."""
    with Run(bench, CONFIG) as run:
        run.create()
        nodes = run.roles()
        run.more_steps()
        for number, words in enumerate((("server",), ("parameter", "--lead", "no"), ("worker", "--lead", "no"))):
            old = nodes[number + 1]
            joined = len(run.told("joined"))
            run.node(1, "--role", *words)
            run.wait(lambda joined=joined: len(run.told("joined")) > joined, "one in its place")
            old.process.send_signal(signal.SIGTERM)
            old.end(75)
            run.more_steps()
        gone = [event["cause"] for event in run.told("lost")]
        equal((gone, len(run.told("released")), run.told("rollback")), (["left", "left"], 1, []), "who is gone, and roll-backs")
        run.node(1)
        run.machines[0].kill()
        run.wait(lambda: run.terms() == [2] and run.leader(), "another leader")
        run.more_steps()
        leader = run.leader()
        leader.process.send_signal(signal.SIGTERM)
        leader.end(75)
        run.wait(lambda: run.terms() == [2, 3], "one in its place")
        run.more_steps()
        equal((run.told("rollback"), {event["cause"] for event in run.told("lost")}), ([], {"left"}), "roll-backs, and who is gone")
        run.check()


def killed(bench):
    """Whoever leads is killed, three times; the first time that is who created the run, machine and all. Nothing that was committed is done again."""
    with Run(bench, CONFIG) as run:
        run.create()
        run.roles()
        run.node(0), run.node(0)
        run.more_steps()
        for number in range(3):
            leader, before = run.leader(), run.steps()
            check(leader is not None, "nobody leads")
            equal(leader is run.machines[0], number == 0, "whether who created it leads")
            if number == 0:
                leader.kill()
            else:  # which may have a server, too
                os.kill(leader.leading(), signal.SIGKILL)
            run.wait(lambda number=number: len(run.terms()) == number + 1, f"leader {number + 2}")
            run.wait(lambda before=before: run.steps() > before, "an epoch under it")
            run.more_steps()
        # A worker holds nothing, and ends with who led: there is another one.
        run.wait(lambda: sorted(node["role"] for node in run.status()["nodes"]) == ["parameter", "server", "server", "worker"], "all, and nobody else")
        now = run.status("--token-file", run.token)
        equal((now["state"], now["copies"], now["term"]), ("running", [2], 4), "status")
        equal((run.told("rollback"), run.told("lost")), ([], []), "roll-backs and losses")
        bench.note(f"took_ms {sorted({round(event['took_ms'], 1) for event in run.told('leader')})}")
        run.check()


def vanish(bench):
    """A machine that leads and has one of each role vanishes; others are there for all of them, and lead."""
    with Run(bench, CONFIG) as run:
        first = run.create("--workers", 1)
        others = [run.node(2), run.node(1, "--role", "parameter"), run.node(1, "--role", "worker")]
        run.wait(lambda: len(run.told("joined")) == 7, "all")
        run.more_steps()
        first.kill()
        run.wait(lambda: run.terms() == [2], "another leader")
        run.more_steps()
        others[0].kill()
        run.node(2)
        run.more_steps()
        run.check()


def from_storage(bench):
    """Who leads is killed, and then all who have the weights: the next one goes back to what the storage has, which another machine has saved."""
    with Run(bench, CONFIG) as run:
        first = run.create()
        run.node(0)
        nodes = [run.node(2, "--lead", "no"), run.node(1, "--role", "parameter", "--lead", "no"), run.node(1, "--role", "worker", "--lead", "no")]
        run.wait(lambda: run.key("saved"), "a checkpoint")
        first.kill()
        run.wait(lambda: run.terms() == [2], "another leader")
        run.more_steps()
        for machine in nodes[:2]:
            machine.kill()
        run.node(2, "--lead", "no"), run.node(1, "--role", "parameter", "--lead", "no")
        run.wait(lambda: run.told("rollback"), "a roll-back")
        check(run.told("rollback")[0]["to_epoch"] > 0, f"it goes back to {run.told('rollback')[0]}")
        run.more_steps()
        run.check()


def stopped(bench):
    """SIGTERM to who created it stops the run, for all. `--resume` elsewhere goes on with nothing but what the storage has; then `culm stop`."""
    with Run(bench, changed(CONFIG, checkpoint={"every": 1000})) as run:
        first = run.create()
        nodes = run.roles()
        run.more_steps()
        first.process.send_signal(signal.SIGTERM)
        first.end(75)
        for node in nodes:
            check("the run was stopped; once it is resumed, start this node again" in node.end(75), "what a node says")
        now, before = run.status(), run.steps()
        equal((now["state"], now["step"]), ("stopped", before), "status")
        run.create("--resume", "--workers", 2)
        run.more_steps()
        equal(min(event["epoch"] for event in run.machines[-1].run.told("epoch") if event["epoch"] > before), before + 1, "the first epoch after it")
        equal(run.told("rollback"), [], "roll-backs")
        ended = bench.run("stop", "one", "--cluster", run.place())
        equal((ended.code, ended.out), (0, "'one' was stopped\n"), "what stop says")
        run.machines[-1].end(75)
        parts = run.told("cost")
        equal(len(parts), 2, "bills")
        alone = read_events(run.machines[-1].reigns()[-1])[-1]["t_ms"] / 1000
        check(parts[1]["seconds"] > parts[0]["seconds"] / 2 + alone and parts[1]["usd"] > parts[0]["usd"], f"what was before is not in the bill: {parts}")
        run.check()


def stopped_at_address(bench):
    """A run with a launcher is stopped: nodes end with 75, and say so. `culm gnn server` and `culm gnn worker` end as when it is done."""
    config = changed(CONFIG, checkpoint={"every": 0})
    graphs.make(bench)
    shutil.copytree(graphs.path, bench.path("graph"))
    going = Going(bench, bench.path("run"), "gnn", "train", bench.config(config, "run.yaml"), "--out", bench.path("run"), "--json", "--listen",
                  "127.0.0.1:0", "--workers", 0)
    join = ("--join", going.address().removeprefix("tcp:"), "--token-file", bench.path("run", "token"))
    nodes = [bench.start("node", *join, "--role", role, cwd=bench.folder) for role in ("server", "parameter", "worker")]
    plain = [bench.start("gnn", role, *join, cwd=bench.folder) for role in ("server", "worker")]
    going.wait(lambda: len(going.told("joined")) == 5, "all nodes")
    going.more_epochs()
    going.stop()
    for node in nodes:
        ended = bench.end(node)
        equal((ended.code, ended.err), (75, "culm node: the run was stopped; once it is resumed, start this node again\n"), "a node")
    equal([bench.end(node).code for node in plain], [0, 0], "exit codes of those that join by themselves")


def leave_address(bench):
    """At the address of a launcher that starts nobody: a server and a parameter server leave when others have come."""
    config = changed(CONFIG, checkpoint={"every": 0}, workers=0)
    graphs.make(bench)
    shutil.copytree(graphs.path, bench.path("graph"))
    going = Going(bench, bench.path("run"), "gnn", "train", bench.config(config, "run.yaml"), "--out", bench.path("run"), "--json", "--listen",
                  "127.0.0.1:0", "--workers", 0)
    join = ("--join", going.address().removeprefix("tcp:"), "--token-file", bench.path("run", "token"))
    old = [bench.start("node", *join, "--role", role, cwd=bench.folder) for role in ("server", "server", "parameter")]
    going.more_epochs()
    for node, role in (old[0], "server"), (old[2], "parameter"):
        joined = len(going.told("joined"))
        old.append(bench.start("node", *join, "--role", role, cwd=bench.folder))
        going.wait(lambda joined=joined: len(going.told("joined")) > joined, "one in its place")
        node.send_signal(signal.SIGTERM)
        equal(bench.end(node).code, 75, "exit code of a node that leaves")
        going.more_epochs()
    equal(([event["cause"] for event in going.told("lost")], going.told("rollback"), going.told("recovered")), (["left", "left"], [], []),
          "who is gone, roll-backs, what had to be made up for")
    going.stop()
    equal([bench.end(node).code for node in (old[1], *old[3:])], [75] * 3, "exit codes of the others")


def frozen(bench):
    """Who leads freezes for longer than its lease, and wakes: another one leads, and the node brings one that stands by."""
    with Run(bench, changed(CONFIG, cluster__lease_ms=2000)) as run:
        first = run.create()
        run.roles()
        run.more_steps()
        pid = first.leading()
        os.kill(pid, signal.SIGSTOP)
        run.wait(lambda: run.terms() == [2], "another leader")
        run.more_steps()
        os.kill(pid, signal.SIGCONT)
        run.wait(lambda: pid not in children_of(first.process.pid) and children_of(first.process.pid), "another one that stands there")
        run.more_steps()
        equal((run.terms(), run.told("rollback"), run.told("lost")), ([2], [], []), "terms, roll-backs, losses")
        run.check()


def last_copy(bench):
    """Who leads and a server with a copy of the weights are killed while the parameter server, which has the last one, stands still: it is
    waited for, and nothing that was committed is done again."""
    config = changed(CONFIG, servers=1, workers=0, cluster__suspect_ms=1500, cluster__lease_ms=2000, checkpoint={"every": 100000})
    with Run(bench, config) as run:
        first = run.create()
        run.node(0)
        nodes = [run.node(1, "--role", role, "--lead", "no") for role in ("parameter", "server")]
        run.more_steps()
        holder, server = (min(children_of(node.process.pid)) for node in nodes)
        os.kill(holder, signal.SIGSTOP)
        first.kill()
        os.kill(server, signal.SIGKILL)
        run.wait(lambda: run.told("waiting") and "silent" in run.told("waiting")[-1].get("message", ""), "that it waits")
        equal((run.terms(), run.told("rollback")), ([], []), "what is decided without the last copy")
        before = run.steps()
        os.kill(holder, signal.SIGCONT)
        run.more_steps()
        equal((run.terms(), run.told("rollback")), ([2], []), "terms, roll-backs")
        check(before > 20 and not run.told("checkpoint"), "there was something to lose, and nothing was saved")
        run.check()


def away_for_long(bench):
    """The store is away for longer than cluster.store_ms: what was done is saved, and the run waits until it is back. Then it is away until who
    leads gives up, and all nodes end. By then newer checkpoints are in the storage than the store tells of, which older ones gave way to: the
    next leader begins with the newest."""
    config = changed(CONFIG, cluster__store_ms=1000, cluster__orphan_ms=2500, cluster__suspect_ms=1500, cluster__lease_ms=2000,
                     checkpoint={"every": 10, "keep": 1})
    waits = "nothing is committed"
    with Run(bench, config) as run:
        run.create()
        nodes = run.roles()

        def saved():
            return max((event["epoch"] for event in run.told("checkpoint") if event["ok"]), default=0)

        def waiting(count):
            run.wait(lambda: sum(waits in event["message"] for event in run.told("warning")) == count, "that it waits")
            run.wait(lambda: saved() == run.steps(), "a checkpoint of what was done")

        run.more_steps()
        run.etcd.kill(0)
        waiting(1)
        last = run.steps()
        run.etcd.start(0)
        run.etcd.wait()
        run.wait(lambda: run.steps() > last, "epochs when it is back")
        equal(run.told("rollback"), [], "roll-backs")  # another one may lead by now: that depends on when the lease has ended
        run.etcd.kill(0)
        waiting(2)
        last = run.steps()
        run.wait(lambda: all("ended; another one comes" in open(node.process.err_path, encoding="utf-8").read() for node in nodes), "that nodes end")
        run.etcd.start(0)
        run.etcd.wait()
        check(json.loads(run.key("saved"))["step"] < last, "the store knows of the newest checkpoint: this shows nothing")
        run.more_steps()
        equal((run.steps() > last, run.told("rollback")), (True, []), "steps, roll-backs")
        equal([node.process.poll() for node in nodes], [None] * 4, "exit codes of nodes")
        run.check()


def patience(bench):
    """Whoever leads is killed, and all who have the weights: training stops after the epoch in which an undisturbed run stops."""
    config = changed(CONFIG, epochs=2000, eval={"every": 5}, stop={"patience": 6}, checkpoint={"every": 10})
    whole = graphs.train(bench, changed(here(config), servers=1, workers=0), "whole").one("done")
    with Run(bench, config) as run:
        run.create()
        run.roles()
        run.node(0)
        run.wait(lambda: run.key("saved"), "a checkpoint")
        run.kill_leader()
        run.wait(lambda: run.told("done") or run.steps() >= 40, "epochs")
        if not run.told("done"):
            run.kill_leader()
        run.wait(lambda: run.told("done"), "the end")
        for key in "epochs", "weights_sha256", "state_sha256", "test_at_best_valid":
            equal(run.told("done")[-1][key], whole[key], key)
        for machine in run.machines[1:]:
            machine.end(0)


def told_once(run):
    """However often an epoch was told, and by whomever, it has one loss: nothing has gone back."""
    equal(run.told("rollback"), [], "roll-backs")
    losses = {}
    for event in run.told("epoch"):
        equal(event["loss_bits"], losses.setdefault(event["epoch"], event["loss_bits"]), f"loss of epoch {event['epoch']}")
    equal(sorted(losses), list(range(1, max(losses) + 1)), "epochs")


def asynchronous(bench):
    """`mode: async` under three leaders: it ends, every epoch is told, with one loss, and no row was older than the bound."""
    with Run(bench, changed(CONFIG, mode="async", staleness=2, epochs=400)) as run:
        run.create()
        nodes = run.roles()
        for _ in range(2):
            run.more_steps(20)
            run.kill_leader()
        run.wait(lambda: run.told("done"), "the end")
        for node in nodes:
            node.end(0)
        told_once(run)
        equal((run.steps(), json.loads(run.key("commit"))["step"]), (400, 400), "epochs; the last one that is written")
        equal(max(len(event["ages"]) for event in run.told("epoch") if "ages" in event) <= 3, True, "ages of rows")


def asynchronous_away(bench):
    """`mode: async`: while the store is away nothing is committed; what was in doubt then is told once, by whoever leads when it is back: first
    the one that led before, if it still may, then another one, as that one is killed, and a server with it."""
    config = changed(CONFIG, mode="async", staleness=2, cluster__store_ms=2000)
    with Run(bench, config) as run:
        run.create()
        run.roles()
        for victim in None, run.node(1, "--role", "server", "--lead", "no"):
            run.more_steps(20)
            leader = run.leader()
            lost, waits = len(run.told("store")), len(run.told("warning"))
            run.etcd.kill(0)
            run.wait(lambda: len(run.told("store")) > lost, "that it is noticed")
            last = run.steps()
            run.wait(lambda: len(run.told("warning")) > waits, "that it waits")
            equal(run.steps(), last, "epochs that were committed meanwhile")
            if victim:
                if leader is run.machines[0]:
                    leader.kill()
                else:
                    os.kill(leader.leading(), signal.SIGKILL)
                os.kill(min(children_of(victim.process.pid)), signal.SIGKILL)
            run.etcd.start(0)
            run.etcd.wait()
            run.more_steps(20)
            check(json.loads(run.key("commit"))["step"] >= last, "what was told is not written")
        told_once(run)


def bucket(bench):
    """Checkpoints in a bucket whose every seventh request fails. Who leads is killed as it stores one, and then all the others: the run goes on
    from the bucket alone, in a new folder, and comes to what it comes to undisturbed."""
    with S3(every=7) as s3, Run(bench, changed(CONFIG, epochs=400, checkpoint={"every": 40, "keep": 2}), s3=s3) as run:
        run.create()
        run.node(0), run.node(2, "--lead", "no"), run.node(1, "--role", "parameter", "--lead", "no")
        run.wait(lambda: run.key("saved"), "a checkpoint")
        s3.hold(r"PUT runs/one/manifests/")
        run.wait(lambda: s3.waiting, "one that is nearly there")
        saved = run.key("saved")
        run.kill_leader()
        equal((run.key("saved"), run.told("rollback")), (saved, []), "the newest checkpoint that counts, roll-backs")
        for machine in run.machines[1:]:
            machine.kill()
        s3.hold(None)
        run.give(bench.folder)
        again = bench.start("gnn", "train", bench.path("run.yaml"), "--resume", "--out", bench.path("new"), env=ENVIRONMENT, cwd=bench.folder)
        ended = bench.end(again)
        equal(ended.code, 0, f"exit code of what goes on: {ended.err[-300:]}")
        events = read_events(bench.path("new", "events.jsonl"))
        check(next(event for event in events if event["event"] == "resumed")["epoch"] >= json.loads(saved)["step"], "it began anew")
        equal(sorted({event["epoch"] for event in events if event["event"] == "epoch"}), list(range(1, 401)), "epochs in the new folder")
        done = next(event for event in events if event["event"] == "done")
        equal((done["weights_sha256"], done["state_sha256"]), graphs.reference(bench, here(run.config))[0], "hashes")


def refused(bench):
    """What this job or another does not have, and what one machine alone would know: each is one line and its exit code."""
    with Run(bench, CONFIG) as run:
        config, out = run.config, bench.path("out")
        run.give(bench.folder)
        at_store = ("--cluster", run.place(), "--name", "one", "--token-file", run.token)

        def tried(code, text, *words):
            ended = bench.run(*words, limit_s=60)
            equal((ended.code, text in ended.err, ended.err.count("\n")), (code, True, 1), f"{words}: {ended.err!r}")
            check(not os.path.exists(out), "a folder is left")

        def train(code, text, settings, *words):
            tried(code, text, "gnn", "train", bench.config(changed(config, **settings), "tried.yaml"), *at_store, "--out", out, *words)

        train(3, "--partition means nothing with --cluster", {}, "--partition", "cut.npy")
        train(3, "--plan means nothing with --cluster", {}, "--plan", "plan.json")
        train(3, "set engine to local", {"engine": "gearman"})
        train(3, "workers: auto", {"workers": "auto"})
        train(3, "checkpoint.to", {"checkpoint": {"every": 0}})
        train(2, "--fault means nothing with --cluster", {}, "--fault", "node=server:0,epoch=1,phase=load")
        train(2, "--preempt-trace means nothing with --cluster", {}, "--preempt-trace", "trace")
        tried(2, "--role 'eater' is none of", "node", "--join", "127.0.0.1:1", "--token-file", run.token, "--role", "eater")
        first = run.create()
        tried(3, "of another configuration", "gnn", "train", bench.config(changed(config, seed=4), "tried.yaml"), *at_store, "--out", out)
        join = ("node", "--join", run.place(), "--name", "one", "--token-file", run.token)
        shutil.copyfile(cases.text, bench.path("text"))
        tried(3, "of another configuration", "train", bench.config(changed(tiny_config("text"), checkpoint__to=bench.path("other")), "other.yaml"),
              *at_store, "--out", out)
        # Of another graph neither who may lead nor who would own a part of it is taken.
        os.mkdir(bench.path("elsewhere"))
        equal(bench.run("gnn", "make", "sbm", *graphs.words[:-1], "4", "--out", bench.path("elsewhere", "graph")).code, 0, "making another graph")
        for more in ("--workers", 0), ("--workers", 1, "--lead", "no"):
            tried(3, "is not what it was when the run began", *join, "--data-dir", bench.path("elsewhere"), *more)
        plan, about = json.loads(run.key("plan")), json.loads(run.key("run"))
        run.put("plan", json.dumps({**plan, "cut_sha256": "0" * 64}))
        tried(3, "is cut differently here than where the run was created", *join, "--data-dir", bench.folder, "--workers", 0)
        run.put("plan", json.dumps(plan))
        for job in "train", None:  # which is what runs of older versions are
            run.put("run", json.dumps({key: value for key, value in {**about, "job": job}.items() if value}))
            tried(3, "--role server: 'one' is a training run", *join, "--role", "server")
        run.put("run", json.dumps({**about, "job": "dance"}))
        tried(3, "is of a job that this version of Culm does not know", *join)
        run.put("run", json.dumps(about))
        check(first.process.poll() is None, "who created it has ended")


cases.add("nodes in all roles", all_roles, seconds=6, first=True)
cases.add("whoever leads is killed", killed, seconds=8, first=True)
cases.add("nodes that leave", leave, seconds=15, first=True)
cases.add("nodes that leave a launcher", leave_address, seconds=8)
cases.add("a machine vanishes that leads and computes", vanish, seconds=8)
cases.add("all who have the weights are lost", from_storage, seconds=8)
cases.add("a stop, and a resume", stopped, seconds=6)
cases.add("a launcher's run is stopped", stopped_at_address, seconds=3)
cases.add("whoever leads freezes", frozen, seconds=8)
cases.add("the last copy of the weights stands still", last_copy, seconds=8)
cases.add("the store is away for long", away_for_long, seconds=15)
cases.add("patience under several leaders", patience, seconds=8)
cases.add("stale rows under several leaders", asynchronous, seconds=10)
cases.add("stale rows while the store is away", asynchronous_away, seconds=25)
cases.add("a bucket that fails, and all that is left", bucket, seconds=12)
cases.add("what is told of a run", watched, seconds=6)
cases.add("nodes that come to an address", by_address, seconds=4)
cases.add("what is refused", refused, seconds=8)

if __name__ == "__main__":
    cases.run()
