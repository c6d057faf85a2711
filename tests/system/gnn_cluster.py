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
from harness import Cases, changed, check, equal, tiny_config

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
        equal((run.told("lost"), run.told("rollback")), ([], []), "losses of nodes, roll-backs")
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
        run.check()


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
cases.add("a machine vanishes that leads and computes", vanish, seconds=8)
cases.add("all who have the weights are lost", from_storage, seconds=8)
cases.add("a stop, and a resume", stopped, seconds=6)
cases.add("what is told of a run", watched, seconds=6)
cases.add("nodes that come to an address", by_address, seconds=4)
cases.add("what is refused", refused, seconds=8)

if __name__ == "__main__":
    cases.run()
