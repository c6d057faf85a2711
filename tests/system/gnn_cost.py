#!/usr/bin/env python3
"""What runs on graphs cost: those of the paper, and one whose events are added up again here."""
import json
import math
import os
import signal

from gnn_harness import ENDLESS, PATIENT, Graphs, fault
from harness import Cases, changed, check, equal, read_events

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24")
HOUR = {"c5.2xlarge": 0.34, "c5n.2xlarge": 0.432, "c5n.4xlarge": 0.864, "p3.2xlarge": 3.06}
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"arch": "gcn", "layers": 2, "width": 16},
    "epochs": 40,
    "intervals": 4,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 2,
    "eval": {"every": 0},
    "cluster": PATIENT,
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
    prices = bench.path("prices.yaml")
    with open(prices, "w", encoding="ascii") as file:
        file.write(PRICES)
    config = changed(CONFIG, prices=prices, epochs=600, workers=1, checkpoint={"every": 10})
    going = graphs.going_with_workers(bench, config, "run", [("worker:0", 5, "apply"), ("parameter:0", 45, "update", "stop")])
    out, log = going.out, os.path.join(going.out, "events.jsonl")
    going.stands_still()  # so that it has not ended before
    going.process.kill()  # its nodes end with it, the frozen one too
    going.end(-signal.SIGKILL)
    first = read_events(log)
    told = answer(bench, out, "--prices", prices)
    usd, seconds = added_up(first)
    check(math.isclose(told["usd"], usd, rel_tol=1e-6), f"{told}, not {usd}")
    ended = bench.run(*graphs.words_of(bench, config, os.path.basename(out)), "--resume", "--set", "servers=1")
    equal(ended.code, 0, f"exit code; {ended.err}")
    second = read_events(log)[len(first):]
    check(any(event["event"] == "lost" for event in first), "no worker was lost")
    more, longer = added_up(second)
    told = answer(bench, out, "--prices", prices)
    check(math.isclose(told["usd"], usd + more, rel_tol=1e-6), f"{told}, not {usd} + {more}")
    check(math.isclose(told["value"], 1 / ((usd + more) * (seconds + longer)), rel_tol=1e-6), f"value {told['value']}")
    done, cost = second[-1], second[-2]
    equal((done["event"], cost["event"]), ("done", "cost"), "the last events")
    # The bill reads the time itself: at its end between two events, of a worker's coming before that is told, and at its beginning
    # before the first node's coming is.
    worker = next(number for number, event in enumerate(second) if event["event"] == "joined" and event["role"] == "worker")
    sooner = (second[worker]["t_ms"] - second[worker - 1]["t_ms"]) / 1e3 * 2
    later = next(event["t_ms"] for event in second if event["event"] == "joined") / 1e3 * 1.01
    least, most = usd + added_up(second[:-2])[0] - later, usd + more + sooner
    check(least * (1 - 1e-6) <= done["usd"] <= most * (1 + 1e-6), f"{done['usd']} in done, not {least} to {most}")
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
    """The number of workers is found while it trains, and the bits are those of a run without."""
    config = changed({**CONFIG, **ENDLESS}, workers="auto", max_workers=4, tune=goal)
    going = graphs.going(bench, config, "run", *(word for one in faults for word in fault(*one)))
    going.wait(lambda: len(going.told("tune")) > 2 and going.told("released"), "somebody to be let go")
    going.wait(lambda: len(going.told("fault")) == len(faults) == len(going.lost()), "what befalls it")
    going.more_epochs()
    going.stop()
    tunes = going.told("tune")
    equal(tunes[0]["workers"], 4, "workers at first")
    check(all(event["why"] and 0 <= event["workers"] <= 4 for event in tunes), f"{tunes}")
    equal(len(going.told("fault")), len(faults), "faults that fired")
    equal(going.lost(), [node.split(":")[0] for node, *_ in faults], "who was lost")
    graphs.check_losses(bench, going, config)


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


cases.add("the twelve of the paper", published, first=True)
cases.add("a run that was killed and resumed", a_run, first=True)
for goal in "time", "dollars", "value":
    cases.add(f"as many workers as {goal} asks for", tuned, goal, [])
cases.add("as many workers as are best, and a server is killed", tuned, "value", [("server:1", 60, "gather")], first=True)
cases.add("what cannot be read", refused)

if __name__ == "__main__":
    cases.run()
