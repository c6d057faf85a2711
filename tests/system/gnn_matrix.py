#!/usr/bin/env python3
"""The kill matrix of graph networks on processes: every role x every phase x {killed, frozen}, and two losses in one epoch.

Each fault must fire, and each role be lost; the run goes back to no checkpoint while a copy lives, and has the hashes and losses
of one server and one parameter server without workers (or the losses, if it goes on until somebody is missed). Each single loss, and some pairs, are cases of the long
set; all pairs of phases, both networks and more places are a product.
"""
import itertools

from gnn_harness import ENDLESS, PATIENT, SILENT_MS, Graphs
from harness import Cases, changed, check, equal

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"arch": "gcn", "layers": 2, "width": 16, "dropout": 0.5},
    "epochs": 6,
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 0,
    "seed": 5,
    "eval": {"every": 2},
    "checkpoint": {"every": 2},  # one is written at a time; the first with epoch 3 under way
    "cluster": PATIENT,  # less where one freezes
}
GAT = {"model__arch": "gat", "model__width": 4, "model__heads": 2}
PHASES = {
    "server": ["load", "gather", "scatter", "apply", "edge", "push-gradient", "update", "commit"],
    "parameter": ["load", "update", "commit", "checkpoint"],
    "worker": ["load", "apply", "push-gradient", "push-rows"],
}


def epoch_of(phases):
    return 1 if "load" in phases else 3


def shape_of(nodes, phases):
    """A run in which all of these come to their phases, and copies remain of what they have."""
    roles = [node.split(":")[0] for node in nodes]
    config = changed(CONFIG, **GAT) if "edge" in phases else CONFIG
    # Beside a single parameter server the first server is a holder too, and is not among two that are lost.
    return changed(config, servers=1 + max(1, roles.count("server")), parameter_servers=3 if roles.count("parameter") == 2 else 1,
                   workers=roles.count("worker"))


def one(bench, nodes, phases, how, changes):
    epoch = epoch_of(phases)
    # A view that follows another loss leaves a checkpoint out that has not been begun, and the fault in it with it. By epoch 4 that of epoch 2
    # has been.
    epoch += epoch == 3 and "checkpoint" in phases and "parameter:1" not in nodes
    config = changed(shape_of(nodes, phases), **changes)
    wanted = {role: sum(node.startswith(role) for node in nodes) for role in PHASES}
    if how == "stop":  # much longer than it takes what a node has sent to leave before it freezes: two seconds if who is to read it is frozen
        # Where a parameter server is held until workers have come, as much for that, too.
        config = changed(config, cluster__suspect_ms=(2 if wanted["worker"] else 1) * SILENT_MS)
    # One at a time saves: the second parameter server the next checkpoint, when the first is gone.
    faults = [(node, (4 if node == "parameter:1" else 2) if phase == "checkpoint" else epoch, phase, how)
              for node, phase in zip(nodes, phases)]

    def check_all(fired, lost):
        equal(sorted(event["phase"] for event in fired), sorted(phases), "faults that fired")
        for role, count in wanted.items():
            check(lost.count(role) >= count, f"lost were {lost}, and not {count} of role {role}")

    if how == "stop" and wanted["worker"]:  # servers do the tasks of a silent worker, so that a short run may end before it is missed
        config = changed(config, epochs=ENDLESS["epochs"], **({} if "checkpoint" in phases else {"checkpoint__every": 0}))
        going = graphs.going_with_workers(bench, config, "run", faults)
        going.wait(lambda: all(going.lost().count(role) >= count for role, count in wanted.items()), f"the loss of {nodes}")
        going.more_epochs()
        going.stop()
        check_all(going.told("fault"), going.lost())
        equal(going.told("rollback"), [], "roll-backs")
        graphs.check_losses(bench, going, config)
        return
    run = graphs.train_with_workers(bench, config, "run", faults)
    check_all(run.all("fault"), [event["role"] for event in run.all("lost")])
    graphs.check_whole(bench, run, config)


def first_wave(bench):
    """All workers of the first wave die together, in the middle of their work; others come, and nothing hangs."""
    config = changed({**CONFIG, **ENDLESS}, workers=4)
    going = graphs.going(bench, config)
    going.wait(lambda: len(going.came()) >= 4, "four workers")
    going.wait(lambda: sum(event["worker_bytes"] for event in going.told("epoch")), "work of workers")
    for number in range(4):
        going.kill("worker", number)
    going.wait(lambda: len(going.lost()) >= 4, "four losses")
    going.wait(lambda: len(going.came()) >= 8, "four more workers")
    going.more_epochs()
    going.stop()
    equal(going.lost()[:4], ["worker"] * 4, "who was lost")
    graphs.check_losses(bench, going, config)


def add(nodes, phases, how, changes=(), why="", **more):
    name = ", ".join(f"{node} {phase}" for node, phase in zip(nodes, phases))
    cases.add(f"{name}: {how}{why}", one, nodes, phases, how, dict(changes), **more)


FIRST = {("server", "gather", "kill"), ("parameter", "update", "kill"), ("worker", "apply", "kill"), ("server", "scatter", "stop"), ("parameter", "commit", "stop"),
         ("worker", "push-gradient", "stop")}
HOW = "kill", "stop"
for how in HOW:
    for role, phases in PHASES.items():
        for phase in phases:
            add(["server:0" if phase == "update" else "server:1"] if role == "server" else [f"{role}:0"], [phase], how, first=(role, phase, how) in FIRST)
    for phase in PHASES["server"]:
        if phase not in ("update", "edge"):
            add(["server:0"], [phase], how, product=True)
            add(["server:1"], [phase], how, {"workers": 2, "servers": 4}.items(), ", among four with workers", product=True)
    for role, phases in PHASES.items():
        for phase in phases:
            if phase != "edge":
                add([f"{role}:0"], [phase], how, GAT.items(), ", attention", product=True)

SOME = {("server:1", "gather", "worker:0", "push-rows"), ("server:1", "scatter", "worker:0", "apply"), ("parameter:0", "update", "worker:0", "push-rows"),
        ("server:1", "gather", "parameter:0", "update"), ("server:1", "commit", "parameter:0", "commit"), ("server:0", "gather", "server:1", "scatter"),
        ("parameter:0", "update", "parameter:1", "commit"), ("worker:0", "push-gradient", "worker:1", "push-rows")}
for one_role, other_role in itertools.combinations_with_replacement(PHASES, 2):
    one_node, other_node = (f"{one_role}:0", f"{one_role}:1") if one_role == other_role else (
        "server:1" if one_role == "server" else f"{one_role}:0", f"{other_role}:0")
    for a, b in itertools.product(PHASES[one_role], PHASES[other_role]):
        pair = (one_node, a, other_node, b)
        # Of two servers' pairs none loses the last copy; who replaces a parameter server in epoch 1 saves in place of the second one.
        if ("server", "update") in ((one_role, a), (other_role, b)) or pair[1:] == ("load", "parameter:1", "checkpoint"):
            continue
        for how in HOW:
            add([one_node, other_node], [a, b], how, product=how == "stop" or pair not in SOME)
cases.add("the first wave of workers is lost", first_wave, first=True)

if __name__ == "__main__":
    cases.run()
