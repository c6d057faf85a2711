#!/usr/bin/env python3
"""What runs on graphs cost: those of the paper, and one whose events are added up again here."""
import json
import math
import os

from harness import Cases, changed, check, equal, read_events, wait_until

cases = Cases()
HOUR = {"c5.2xlarge": 0.34, "c5n.2xlarge": 0.432, "c5n.4xlarge": 0.864, "p3.2xlarge": 3.06}
CONFIG = {
    "model": {"arch": "gcn", "layers": 2, "width": 16},
    "epochs": 40,
    "intervals": 4,
    "servers": 2,
    "workers": 2,
    "eval": {"every": 0},
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 10000},
}
PRICES = """date: 2026-02-03
instances: [{name: big, usd_per_hour: 3600}, {name: small, usd_per_hour: 36}]
functions: {usd_per_gb_s: 1, usd_per_request: 0.5, billing_ms: 1000}
as_if: {server: big, parameter_server: small, worker_mb: 2048}
"""


def answer(bench, *words):
    ended = bench.run("gnn", "cost", *words, "--json")
    equal((ended.code, ended.err), (0, ""), "culm gnn cost")
    return json.loads(ended.out)


def published(bench):
    """Twelve, each of them servers times price times hours; what is printed in the paper is within its last digit."""
    told = answer(bench, "published")
    equal(len(told["runs"]), 12, "runs")
    equal(told["equal"], 11, "runs that are what is printed, to the digit")
    for run in told["runs"]:
        usd = run["servers"] * HOUR[run["instance"]] * run["seconds"] / 3600
        check(math.isclose(run["usd"], usd), f"{run} should be {usd}")
        digits = len(run["printed"].split(".")[1])
        equal(run["rounded"], f"{usd:.{digits}f}", "as it is rounded")
        equal(run["equal"], run["rounded"] == run["printed"], "whether it is what is printed")
        check(abs(float(run["rounded"]) - float(run["printed"])) < 1.01 * 10 ** -digits, f"{run} is far from what is printed")
    wrong = bench.path("prices.yaml")
    with open(wrong, "w", encoding="ascii") as file:
        file.write(PRICES)
    ended = bench.run("gnn", "cost", "published", "--prices", wrong)
    equal(ended.code, 3, "exit code with prices that lack an instance")
    check("c5.2xlarge" in ended.err and len(ended.err.splitlines()) == 1, ended.err)


def added_up(events):
    """Dollars and seconds of one part, by PRICES."""
    end = events[-1]["t_ms"] / 1e3
    start = events[0]
    usd, since = end * (start["servers"] * 1 + start["parameter_servers"] * 0.01), {}
    for event in events:
        if event.get("role") != "worker":
            continue
        if event["event"] == "joined":
            since[event["node"]] = event["t_ms"] / 1e3
            usd += 0.5
        elif event["event"] == "lost":
            usd += 2 * math.ceil(event["t_ms"] / 1e3 - since.pop(event["node"]))
    return usd + sum(2 * (end - begun) for begun in since.values()), end


def default_prices(bench):
    path = bench.path("default.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(bench.run("gnn", "cost", "prices").out)
    return path


def a_run(bench):
    """Killed, resumed, with a worker lost: every part counts."""
    graph, prices = bench.path("graph"), bench.path("prices.yaml")
    ended = bench.run("gnn", "make", "sbm", "--vertices", "400", "--edges", "1600", "--features", "24", "--out", graph)
    equal(ended.code, 0, "making a graph")
    with open(prices, "w", encoding="ascii") as file:
        file.write(PRICES)
    config = changed(CONFIG, graph={"path": graph, "features": "as-is"}, prices=prices, epochs=600, workers=1, checkpoint={"every": 10})
    path, out = bench.config(config, "run.yaml"), bench.path("run")
    process = bench.start("gnn", "train", path, "--out", out, "--json", "--fault", "node=worker:0,epoch=5,phase=apply")  # the only one gets every task
    log = os.path.join(out, "events.jsonl")

    def epochs():
        return [event["epoch"] for event in read_events(log) if event["event"] == "epoch"] if os.path.exists(log) else []

    wait_until(lambda: len(epochs()) >= 40 or process.poll() is not None, 120, "forty epochs")
    process.kill()
    bench.end(process)
    first = read_events(log)
    told = answer(bench, out, "--prices", prices)
    usd, seconds = added_up(first)
    check(math.isclose(told["usd"], usd, rel_tol=1e-6), f"{told}, not {usd}")
    ended = bench.run("gnn", "train", path, "--out", out, "--resume", "--json", "--set", "servers=1")
    equal(ended.code, 0, f"exit code; {ended.err}")
    second = read_events(log)[len(first):]
    check(any(event["event"] == "lost" for event in first), "no worker was lost")
    more, longer = added_up(second)
    told = answer(bench, out, "--prices", prices)
    check(math.isclose(told["usd"], usd + more, rel_tol=1e-6), f"{told}, not {usd} + {more}")
    check(math.isclose(told["value"], 1 / ((usd + more) * (seconds + longer)), rel_tol=1e-6), f"value {told['value']}")
    done, cost = second[-1], second[-2]
    equal((done["event"], cost["event"]), ("done", "cost"), "the last events")
    check(abs(done["usd"] - (usd + more)) < 0.02 * (usd + more), f"{done['usd']} in done, not {usd + more}")
    equal((done["usd"], done["value"]), (cost["usd"], cost["value"]), "done and cost")
    equal(answer(bench, out), told, "what it says with the run's own prices")
    check(answer(bench, out, "--prices", default_prices(bench))["usd"] < told["usd"] / 100, "--prices was passed over")
    os.rename(prices, bench.path("elsewhere"))
    ended = bench.run("gnn", "cost", out)
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code and lines without the run's prices: {ended.err!r}")
    check(prices in ended.err and "--prices" in ended.err, ended.err)
    report = bench.run("report", out).out
    check(f"${done['usd']:.6f}" in report, report)


def tuned(bench, goal, faults):
    """The number of workers is found while it trains, and the bits are those of a given one."""
    graph = bench.path("graph")
    bench.run("gnn", "make", "sbm", "--vertices", "400", "--edges", "1600", "--features", "24", "--out", graph)
    config = changed(CONFIG, graph={"path": graph, "features": "as-is"}, epochs=150)
    hashes = []
    for name, changes in (("given", {"workers": 0}), ("auto", {"workers": "auto", "max_workers": 4, "tune": goal})):
        path = bench.config(changed(config, **changes), f"{name}.yaml")
        words = [word for fault in (faults if name == "auto" else []) for word in ("--fault", fault)]
        run = bench.run("gnn", "train", path, "--out", bench.path(name), "--json", *words)
        equal(run.code, 0, f"exit code; {run.err}")
        run.events = [json.loads(line) for line in run.out.splitlines()]
        hashes.append(run.hashes())
    equal(hashes[1], hashes[0], "hashes")
    tunes = run.all("tune")
    equal(tunes[0]["workers"], 4, "workers at first")
    check(len(tunes) > 2 and all(event["why"] and 0 <= event["workers"] <= 4 for event in tunes), f"{tunes}")
    equal(len(run.all("fault")), len(faults), "faults that fired")
    equal([event["role"] for event in run.all("lost")], [fault.split("=")[1].split(":")[0] for fault in faults], "who was lost")
    check(run.all("released"), "nobody was let go")


def refused(bench):
    for words in ["--json"], ["--prices", "/nowhere.yaml"]:
        ended = bench.run("gnn", "cost", "prices", *words)
        equal((ended.code, ended.out, len(ended.err.splitlines())), (2, "", 1), f"what the built-in prices do with {words}")
        check(words[0] in ended.err, f"{ended.err!r}")
    prices = bench.path("prices.yaml")
    with open(prices, "w", encoding="ascii") as file:
        file.write(PRICES.replace("server: big", "server: huge", 1))
    for words, text in ((["/nowhere"], "/nowhere"), (["published", "--prices", "/nowhere.yaml"], "/nowhere.yaml"),
                        (["published", "--prices", prices], "huge")):
        ended = bench.run("gnn", "cost", *words)
        check(ended.code in (1, 3), f"exit code {ended.code}")
        check(text in ended.err and len(ended.err.splitlines()) == 1, f"{text!r} is not in {ended.err!r}")


cases.add("the twelve of the paper", published)
cases.add("a run that was killed and resumed", a_run)
for goal in "time", "dollars", "value":
    cases.add(f"as many workers as {goal} asks for", tuned, goal, [])
cases.add("as many workers as are best, and a server is killed", tuned, "value", ["node=server:1,epoch=60,phase=gather"])
cases.add("what cannot be read", refused)
cases.run()
