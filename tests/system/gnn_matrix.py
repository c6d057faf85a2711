#!/usr/bin/env python3
"""The kill matrix of graph networks on processes: every role x every phase x {killed, frozen}, and two losses in one epoch.

Each fault must fire, and each role be lost; the run ends, goes back to no checkpoint while a copy lives, and has the hashes
and losses of one server and one parameter server without workers. With CULM_SYSTEM_ALL all pairs of phases are tried, both
networks and more places; without it each single loss, and some pairs.
"""
import itertools

from gnn_harness import ENDLESS, Graphs, faults_of
from harness import EVERYTHING, Cases, Failed, changed, check, equal

cases = Cases()
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
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 10000},  # less where one freezes
}
GAT = {"model__arch": "gat", "model__width": 4, "model__heads": 2}
PHASES = {
    "server": ["load", "gather", "scatter", "apply", "edge", "push-gradient", "update", "commit"],
    "parameter": ["load", "update", "commit", "checkpoint"],
    "worker": ["load", "apply", "push-gradient", "push-rows"],
}
TRIES = 4
# Before a node dies or freezes, what it has sent leaves, for which it waits up to two seconds: also if who is to read it is frozen.
LONG_MS = 3000


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
    config = changed(shape_of(nodes, phases), **changes)
    if how == "stop":
        config = changed(config, cluster__suspect_ms=LONG_MS if len(nodes) > 1 else 800)
    # One at a time saves: the second parameter server the next checkpoint, when the first is gone.
    faults = [(node, (4 if node == "parameter:1" else 2) if phase == "checkpoint" else epoch, phase, how)
              for node, phase in zip(nodes, phases)]
    run = None
    for number in range(TRIES):  # on a busy machine a worker may come too late for its epoch, or somebody else be the next to save
        try:
            run = graphs.train(bench, config, f"run-{number}", *faults_of(faults))
            break
        except Failed:
            late = any(node.startswith("worker") or node == "parameter:1" for node in nodes)
            if "never fired" not in bench.last.err or not late or number + 1 == TRIES:
                raise
    equal(sorted(event["phase"] for event in run.all("fault")), sorted(phases), "faults that fired")
    lost = [event["role"] for event in run.all("lost")]
    for role in PHASES:
        wanted = sum(node.startswith(role) for node in nodes)
        check(lost.count(role) >= wanted, f"lost were {lost}, and not {wanted} of role {role}")
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


def add(nodes, phases, how, changes=(), why=""):
    name = ", ".join(f"{node} {phase}" for node, phase in zip(nodes, phases))
    cases.add(f"{name}: {how}{why}", one, nodes, phases, how, dict(changes))


HOW = "kill", "stop"
for how in HOW:
    for role, phases in PHASES.items():
        for phase in phases:
            places = ["server:0" if phase == "update" else "server:1"] if role == "server" else [f"{role}:0"]
            for node in places:
                add([node], [phase], how)
if EVERYTHING:
    for how in HOW:
        for phase in PHASES["server"]:
            if phase not in ("update", "edge"):
                add(["server:0"], [phase], how)
                add(["server:1"], [phase], how, {"workers": 2, "servers": 4}.items(), ", among four with workers")
        for role, phases in PHASES.items():
            for phase in phases:
                if phase != "edge":
                    add(["server:0" if phase == "update" else f"{role}:0"], [phase], how, GAT.items(), ", attention")

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
        if EVERYTHING or pair in SOME:
            for how in HOW if EVERYTHING else HOW[:1]:
                add([one_node, other_node], [a, b], how)
cases.add("the first wave of workers is lost", first_wave)
cases.run()
