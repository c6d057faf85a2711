#!/usr/bin/env python3
"""What `culm gnn train` has in common with `culm train`: a dry run, the plan of another run, and preemption traces."""
import json
import os
import shutil

from gnn_harness import ENDLESS, PATIENT, Graphs, fault
from harness import RUN_LIMIT_S, Cases, changed, check, equal

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "200", "--edges", "800", "--features", "8", "--classes", "3", "--seed", "2")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 4},
    "epochs": 6,
    "intervals": 4,
    "servers": 2,
    "cluster": PATIENT,
}


def refused(bench, words, code, *parts):
    """It ends before anything is written, with one line that has these parts."""
    ended = bench.run(*words)
    equal((ended.code, len(ended.err.splitlines())), (code, 1), f"exit code and lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")
    check(not os.path.exists(bench.path("run")), "something was written")


def dry_run(bench):
    words = graphs.words_of(bench, CONFIG, "run")
    ended = bench.run(*words, "--dry-run")
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    check(not os.path.exists(bench.path("run")), "a dry run wrote something")
    dry = json.loads(ended.out)
    equal((dry["servers"], dry["parameter_servers"], dry["workers"], dry["intervals"]), (2, 1, 0, 4), "what is planned")
    shown = json.loads(bench.run("gnn", "show", bench.config(CONFIG, "shown.yaml"), "--json").out)
    equal(dry["memory_bytes"], shown["memory_bytes"], "memory that is planned, and that `show` shows")
    plan = graphs.train(bench, CONFIG).one("plan")
    for key in ("vertices", "edges", "cut_edges", "ghosts", "cut_sha256", "multiply_first", "aggregated", "memory_bytes"):
        equal(dry[key], plan[key], f"{key} of the dry run and of the run")
    ended = bench.run(*words[:-1], "--dry-run")  # a run is there now
    equal((ended.code, len(ended.out.splitlines())), (0, 4), f"exit code and lines of {ended.out!r}")
    check(f"edges cut: {plan['cut_edges']}, ghost rows: {plan['ghosts']}" in ended.out, f"it says {ended.out!r}")
    ended = bench.run(*words, "--dry-run", "--set", "servers=9")
    equal((ended.code, ended.out), (3, ""), "exit code and output of a wrong one")


def plan_of_another(bench):
    first = graphs.train(bench, CONFIG, "first")
    plan = os.path.join(first.dir, "plan.json")
    same = graphs.train(bench, changed(CONFIG, servers=1), "same", "--plan", plan)
    equal((same.hashes(), same.one("plan")["cut_sha256"]), (first.hashes(), first.one("plan")["cut_sha256"]), "bits and cut")
    again = graphs.train(bench, CONFIG, "first", "--resume", "--plan", plan)
    equal(again.hashes(), first.hashes(), "bits of a resume")
    words = graphs.words_of(bench, CONFIG, "run")
    deeper = graphs.words_of(bench, changed(CONFIG, model={"layers": 3, "width": 4}), "run")
    refused(bench, [*deeper, "--plan", plan], 3, plan, "multiply_first")
    refused(bench, [*words, "--plan", bench.path("nowhere.json")], 3, "nowhere.json", "cut.npy")
    alone = bench.path("alone")
    os.mkdir(alone)
    shutil.copy(plan, alone)
    refused(bench, [*words, "--plan", os.path.join(alone, "plan.json")], 3, "cut.npy")
    shutil.copy(os.path.join(first.dir, "cut.npy"), alone)
    with open(os.path.join(alone, "plan.json"), "w", encoding="utf-8") as file:
        file.write("{")
    refused(bench, [*words, "--plan", os.path.join(alone, "plan.json")], 3, "plan.json")


def given_partition(bench):
    """The graph is cut as a file says, whoever has written it, and stays so."""
    words = graphs.words_of(bench, CONFIG, "own")
    intervals = CONFIG["intervals"]
    cut, text = bench.path("cut.npy"), bench.path("cut.txt")
    ended = bench.run("gnn", "partition", graphs.path, "--intervals", str(intervals), "--seed", str(CONFIG.get("seed", 0)), "--out", cut)
    equal(ended.code, 0, f"exit code of partition ({ended.err})")
    whole, own = graphs.train(bench, CONFIG, "whole"), graphs.train(bench, CONFIG, "own", "--partition", cut)
    equal((own.hashes(), own.one("plan")["cut_sha256"]), (whole.hashes(), whole.one("plan")["cut_sha256"]), "bits and cut")
    with open(text, "w", encoding="ascii") as file:
        file.writelines(f"{vertex % intervals}\n" for vertex in range(whole.one("plan")["vertices"]))
    other = graphs.train(bench, CONFIG, "other", "--partition", text)
    check(other.one("plan")["cut_edges"] > whole.one("plan")["cut_edges"], "it cuts no more edges than METIS")
    alone = graphs.train(bench, changed(CONFIG, servers=1), "alone", "--partition", text)
    equal(alone.hashes(), other.hashes(), "bits with one server")
    equal(graphs.train(bench, CONFIG, "other", "--resume").hashes(), other.hashes(), "bits of a resume")
    refused(bench, [*words, "--resume", "--partition", text], 3, "--partition", "leave")
    fresh = graphs.words_of(bench, CONFIG, "run")
    refused(bench, [*fresh, "--partition", text, "--plan", os.path.join(own.dir, "plan.json")], 3, "--partition", "--plan")
    refused(bench, [*fresh, "--partition", bench.path("nowhere")], 3, "nowhere")
    with open(text, "a", encoding="ascii") as file:
        file.write("0\n")
    refused(bench, [*fresh, "--partition", text], 3, "cut.txt", "vertices")


def traced(bench):
    """Workers come and go as the trace says, none is started besides, and the bits stay."""
    config = changed({**CONFIG, **ENDLESS}, workers=2, cluster__suspect_ms=1000 * RUN_LIMIT_S)
    trace = bench.path("trace.csv")
    with open(trace, "w", encoding="ascii") as file:
        file.write("0,add,a\n0,add,b\n300000,remove,a\n310000,remove,b\n311000,add,c\n341000,remove,c\n342000,add,d\n")  # ten of them are a millisecond
    # Workers have thirty seconds to join; for most of these the run stands still.
    going = graphs.going(bench, config, "run", "--preempt-trace", trace, "--time-scale", "10", *fault("server:0", 50, "gather", "stop"))
    going.wait(lambda: "worker" in going.lost(), "the first to be taken away")
    going.wait(lambda: going.told("fault"), "it to stand still")
    going.thaw()
    going.wait(lambda: "d" in [event["name"] for event in going.came()], "the last of the trace")
    going.more_epochs()
    names = {event["node"]: event["name"] for event in going.came()}
    lost = [event for event in going.told("lost") if event["role"] == "worker"]
    # On a slow machine c, which is there for three seconds, may be taken away before it has joined.
    equal({names[event["node"]] for event in lost}, set(names.values()) - {"d"}, "workers that were taken away")
    check(set("abd") <= set(names.values()) <= set("abcd"), f"workers that came: {names}")
    equal({event["cause"] for event in lost} - {"removed", "eof", "exit"}, set(), "other causes")
    going.stop()
    graphs.check_losses(bench, going, config)


def trace_waits(bench):
    """A trace starts no more workers than there may be beside the others: the second comes when the first is gone."""
    config = changed({**CONFIG, **ENDLESS}, workers=1, cluster__max_nodes=4)
    trace = bench.path("trace.csv")
    with open(trace, "w", encoding="ascii") as file:
        file.write("0,add,a\n0,add,b\n60000,remove,a\n")
    going = graphs.going(bench, config, "run", "--preempt-trace", trace, "--time-scale", "20")
    going.wait(lambda: "b" in [event["name"] for event in going.came()], "the second worker")
    gone = next((event["t_ms"] for event in going.told("lost") if event["role"] == "worker"), None)
    check(gone is None or gone <= going.came()[-1]["t_ms"], "both were there at once")
    check(going.came()[-1]["t_ms"] >= 3000, "the second came before the first went")
    going.more_epochs()
    going.stop()
    graphs.check_losses(bench, going, config)


def trace_refused(bench):
    trace = bench.path("trace.csv")
    with open(trace, "w", encoding="ascii") as file:
        file.write("0,add,a\n")
    words = graphs.words_of(bench, CONFIG, "run")
    refused(bench, [*words, "--preempt-trace", trace], 3, "workers: 0")
    refused(bench, [*words, "--time-scale", "3"], 2, "--preempt-trace")
    words = graphs.words_of(bench, changed(CONFIG, workers=1), "run")
    refused(bench, [*words, "--preempt-trace", bench.path("none.csv")], 3, "none.csv")
    elsewhere = changed(CONFIG, workers=1, engine="gearman", gearman={"server": "127.0.0.1:1"})
    refused(bench, [*graphs.words_of(bench, elsewhere, "run"), "--preempt-trace", trace], 3, "engine")


cases.add("a dry run", dry_run, first=True)
cases.add("the plan of another run", plan_of_another, first=True)
cases.add("intervals from a file", given_partition, first=True)
cases.add("workers come and go by a trace", traced, seconds=35)
cases.add("a trace with more workers than there may be", trace_waits, first=True)
cases.add("traces that are refused", trace_refused)

if __name__ == "__main__":
    cases.run()
