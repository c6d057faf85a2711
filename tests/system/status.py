#!/usr/bin/env python3
"""`culm status` and `culm stop`: what they say of runs at work, of others, and what they end."""
import json
import os
import signal

from gnn_harness import ENDLESS as ENDLESS_GRAPH
from gnn_harness import PATIENT, Graphs
from harness import Cases, changed, check, equal, hold, Held, read_events, tiny_config, wait_until

cases = Cases(kind="waits")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12")
ENDLESS = changed(tiny_config(cases.text), steps=1000000, schedule={"name": "constant"}, checkpoint__every=0)


def status(bench, out="run"):
    ended = bench.run("status", bench.path(out), "--json")
    equal((ended.code, ended.err, len(ended.out.splitlines())), (0, "", 1), "culm status --json")
    return json.loads(ended.out)


def has(bench, name, count=1, out="run"):
    path = bench.path(out, "events.jsonl")
    return sum(event["event"] == name for event in (read_events(path) if os.path.exists(path) else [])) >= count


def training(bench):
    """A run that works, one that lacks a worker, one that is stopped, and one that is done."""
    config = changed(ENDLESS, cluster__replace_ms=-1, redundancy="none", pipelines=1)
    process = bench.start(*bench.train_words(config))
    wait_until(lambda: has(bench, "step", 3), 120, "steps")
    now = status(bench)
    equal((now["job"], now["state"], now["term"], now["steps"], now["pipelines"], now["stages"], now["store"]),
          ("train", "running", 1, 1000000, 1, 3, "none"), "what it says")
    equal((now["copies"], now["agents"][0]["pid"], now["agents"][0]["leads"]), ([1, 1, 1], process.pid, True), "copies and the launcher")
    check(now["step"] >= 3 and now["loss"] > 0 and now["view"] >= 2, f"step, loss and view: {now}")
    equal(sorted((node["pipeline"], node["stage"], node["state"], node["role"]) for node in now["nodes"]),
          [(0, stage, "member", "worker") for stage in range(3)], "nodes")
    joined = [event for event in bench.events() if event["event"] == "joined"]
    equal(sorted((node["node"], node["pid"]) for node in now["nodes"]), sorted((event["node"], event["pid"]) for event in joined), "processes")
    equal({(node["host"], node["zone"]) for node in now["nodes"]}, {(now["agents"][0]["host"], None)}, "machines")
    text = bench.run("status", bench.path("run")).out
    check("running, step" in text and "pipeline 0, stage 2" in text, f"in words: {text!r}")
    follower = bench.start("status", bench.path("run"), "--follow", "--json")
    ended = bench.run("stop", bench.path("run"))
    equal((ended.code, ended.out), (0, f"process {process.pid} has ended\n"), "culm stop")
    equal(bench.end(process).code, 75, "exit code of the launcher")
    followed = [json.loads(line) for line in bench.end(follower).out.splitlines()]
    equal((followed[-1]["state"], followed[-1]["nodes"]), ("stopped", []), "the last that is followed")
    newest = max(event["step"] for event in bench.events() if event["event"] == "step")
    now = status(bench)
    equal((now["state"], now["step"], now["agents"], now["copies"]), ("stopped", newest, [], None), "what it says of one that is stopped")
    ended = bench.run("stop", bench.path("run"))
    equal((ended.code, "no run is at work" in ended.err), (1, True), "culm stop again")


def loss_and_end(bench):
    """Who is lost is not there any more, who stands by is told apart, and a run that is done says so."""
    config = changed(tiny_config(cases.text), steps=12, cluster__replace_ms=0)
    process = bench.start(*bench.train_words(config, "run", *hold(1, 8)))
    still = Held(bench, process)
    still.wait()
    before = status(bench)
    equal((before["state"], len(before["nodes"]), before["copies"]), ("running", 6, [4, 4, 4]), "six workers")
    lost = [node for node in before["nodes"] if node["node"] != 1][0]
    os.kill(lost["pid"], signal.SIGKILL)
    wait_until(lambda: has(bench, "lost") and has(bench, "joined", 7), 120, "a loss, and another one")
    now = status(bench)
    numbers = [node["node"] for node in now["nodes"]]
    check(lost["node"] not in numbers and len(numbers) == 6 and now["view"] > before["view"], f"nodes {numbers}, view {now['view']}")
    still.go_on()
    equal(bench.end(process).code, 0, "exit code")
    now = status(bench)
    equal((now["state"], now["step"], now["steps"], now["nodes"]), ("done", 12, 12, []), "what it says at the end")


def parked(bench):
    """A run that has lost its only copy of a stage, and whom nobody replaces yet."""
    config = changed(ENDLESS, redundancy="none", pipelines=1, cluster__replace_ms=600000, cluster__wait_ms=600000)
    process = bench.start(*bench.train_words(config))
    wait_until(lambda: has(bench, "step", 3), 120, "steps")
    os.kill(status(bench)["nodes"][0]["pid"], signal.SIGKILL)
    wait_until(lambda: has(bench, "lost") and status(bench)["state"] == "parked", 120, "a run that is parked")
    equal(len(status(bench)["nodes"]), 2, "nodes")
    process.send_signal(signal.SIGKILL)
    bench.end(process)
    wait_until(lambda: status(bench)["state"] == "stopped", 120, "its end")


def graph(bench):
    config = {"graph": {"path": graphs.path, "features": "as-is"}, "model": {"layers": 2, "width": 8}, "intervals": 8, "servers": 2,
              "parameter_servers": 2, "workers": 2, "cluster": PATIENT, **ENDLESS_GRAPH}
    run = graphs.going(bench, config, "run")
    run.wait(lambda: len(run.came()) >= 2 and run.told("epoch"), "workers")
    now = status(bench)
    equal((now["job"], now["state"], now["steps"], now["copies"], now["stages"]), ("gnn", "running", ENDLESS_GRAPH["epochs"], [2], None), "what it says")
    equal(sorted((node["role"], node["state"]) for node in now["nodes"]),
          [("parameter", "member")] * 2 + [("server", "member")] * 2 + [("worker", "member")] * 2, "nodes")
    equal(bench.run("stop", bench.path("run")).code, 0, "culm stop")
    equal(bench.end(run.process).code, 75, "exit code of the launcher")


def others(bench):
    """No run, no such folder, a run of another job."""
    for where, text in ((bench.path("nothing"), "is not a run"), (bench.folder, "is not a run")):
        ended = bench.run("status", where)
        equal((ended.code, len(ended.err.splitlines()), text in ended.err), (3, 1, True), f"what it says of {where}: {ended.err!r}")
    equal(bench.run("stop", bench.path("nothing")).code, 1, "stop where there is none")


cases.add("a run of training", training, first=True, job="train")
cases.add("a loss, and the end", loss_and_end, job="train")
cases.add("a run that is parked", parked, job="train")
cases.add("a graph network", graph, job="gnn")
cases.add("no run", others)

if __name__ == "__main__":
    cases.run()
