#!/usr/bin/env python3
"""Epochs in Dorylus's order of work and in Culm's: the same graph, kernels and processes, in turns.

    python3 order.py CULM FOLDER [--graph reddit,amazon,PATH] [--set KEY=VALUE] [--ours KEY=VALUE] [--rounds 3] [--link 800mbit]

FOLDER gets the graphs that are made (and not there yet) and the runs. `reddit` and `amazon` have the features, classes, hidden
layer and neighbours of a vertex of the graphs that Dorylus was measured on, with fewer vertices. PATH is a folder of a graph
with features; its hidden layer is that of `--set model.width=N`.

A round is a run in either order, one after the other: servers, a parameter server and workers, `--warm` epochs and then those that
count (`--epochs`), without evaluations. `--set` is for both orders, `--ours` for Culm's alone, such as `--ours precision=bf16`. The
order of Dorylus may have workers and rows as old as Dorylus does: `--set mode=async`.

Printed are medians over all epochs of all rounds that count, and published / ours: of epochs the median of the ratios of the
rounds. Dollars of an epoch are its time at the dollars per second that `culm gnn cost` tells of the run, at the prices that Culm
brings. `processors` is what all nodes together used of processors in an epoch; other work on the machine changes it least.
Neither the first epoch of a run, before which nodes load, nor the last, behind which they are gone, counts for it: `nan` where no
other is left.

`--link RATE` gives each worker a host of its own, a network namespace (as root), whose link carries RATE in either direction, as tc
writes it; the servers are on one host, as fast as it is. Without it all share one host, and bytes cost what copying them costs.
Dorylus measured 800 Mbit/s for a Lambda, and 200 for each of a hundred at one server.
`--before CMD` stands in front of every run, such as `taskset -c 0,1`.
"""
import argparse
import contextlib
import json
import math
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import typing

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "system"))
from hosts import Hosts, Unavailable  # noqa: E402: found only then

MADE = {  # vertices, edges, features, classes, hidden layer; Reddit has 492 neighbours a vertex, Amazon 35
    "reddit": (46593, 11480000, 602, 41, 128),
    "amazon": (92000, 1610000, 300, 25, 64),
}
ORDERS = "published", "auto"
COUNTS = {"gathered_floats": "floats gathered", "ghost_bytes": "ghost bytes", "worker_bytes": "worker bytes"}


def culm(args, *words):
    ended = subprocess.run([args.culm, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"culm {shlex.join(words)}: exit code {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


def graph_of(args, name):
    """The path of a graph, and its hidden layer."""
    if name not in MADE:
        return name, None
    vertices, edges, features, classes, width = MADE[name]
    path = os.path.join(args.folder, name)
    if not os.path.exists(path):
        culm(args, "gnn", "make", "sbm", "--vertices", str(vertices), "--edges", str(edges), "--features", str(features),
             "--classes", str(classes), "--out", path)
    return path, width


def words_of(args, name, order, out):
    """The command of a run, without what comes before it."""
    path, width = graph_of(args, name)
    keys = {"graph.path": path, "graph.features": "as-is", "model.arch": "gcn", "model.layers": 2, "model.dropout": 0, "order": order,
            "epochs": args.warm + args.epochs, "servers": args.servers, "parameter_servers": args.parameter_servers,
            "workers": args.workers, "intervals": args.intervals, "eval.every": 0, "checkpoint.every": 0}
    if width:
        keys["model.width"] = width
    sets = [f"{key}={value}" for key, value in keys.items()] + args.set + (args.ours if order == "auto" else [])
    config = os.path.join(args.folder, "order.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write("epochs: 1\n")
    return [args.culm, "gnn", "train", config, *(word for one in sets for word in ("--set", one)), "--out", out, "--json"]


def processor_ms(pids):
    """What processes have used up to now."""
    ticks = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
        except FileNotFoundError:
            continue  # the run is over; the last sample does not count
        ticks += int(fields[11]) + int(fields[12])
    return 1e3 * ticks / os.sysconf("SC_CLK_TCK")


class Run(typing.NamedTuple):
    epochs: list  # events of those that count
    usd_per_s: float
    processor_ms: float  # of an epoch, of all nodes; NaN: not known


def used_an_epoch(used, warm):
    """Of what nodes had used at the end of each epoch. NaN: not known."""
    first, last = max(warm, 1) - 1, len(used) - 2
    return (used[last] - used[first]) / (last - first) if last > first else math.nan


def on_links(args, hosts, words, out):
    """The command of a run whose workers join it from hosts of their own, and theirs."""
    more = ["--set", "workers=0", "--set", "epochs=1000000", "--listen", f"{hosts.address(0)}:0"]
    join = [args.culm, "gnn", "worker", "--token-file", os.path.join(out, "token"), "--join"]
    return hosts.on(0, *words, *more), [hosts.on(number, *join) for number in range(1, args.workers + 1)]


def watch(args, process, far, ending):
    """The events of epochs, from the first one with all workers, and what nodes had used of processors at the end of each."""
    told, used, pids, joined = [], [], set(), 0
    for event in map(json.loads, process.stdout):
        if event["event"] == "start":
            pids.update(ending.enter_context(subprocess.Popen([*one, event["address"]])).pid for one in far)
        elif event["event"] == "joined":
            pids.add(event.get("pid"))  # of a process on another host it is not told
            joined += event["role"] == "worker"
        elif event["event"] == "epoch" and (joined == args.workers or not far):
            told.append(event)
            used.append(processor_ms(pids - {None}))
            if far and len(told) == args.warm + args.epochs:
                process.send_signal(signal.SIGTERM)
    return told, used


def run(args, name, order):
    out = os.path.join(args.folder, f"run-{order}")
    shutil.rmtree(out, ignore_errors=True)
    words, far = words_of(args, name, order, out), []
    with contextlib.ExitStack() as ending:
        if args.link:
            words, far = on_links(args, ending.enter_context(Hosts("order", args.workers + 1, args.link)), words, out)
        process = ending.enter_context(subprocess.Popen([*shlex.split(args.before), *words], stdout=subprocess.PIPE, text=True))
        try:
            told, used = watch(args, process, far, ending)
        except BaseException:
            process.kill()
            raise
    if process.returncode != (75 if far else 0):
        sys.exit(f"{name}, {order}: exit code {process.returncode}")
    cost = json.loads(culm(args, "gnn", "cost", out, "--json"))
    last = args.warm + args.epochs
    return Run(told[args.warm:last], cost["usd"] / cost["seconds"], used_an_epoch(used[:last], args.warm))


def shown(args, name, rounds):
    print(f"{name}: {args.servers} servers, {args.parameter_servers} parameter server(s), {args.workers} workers, {args.intervals} intervals"
          f"{f', links of {args.link}' if args.link else ''}{''.join(' ' + one for one in args.set)}; ours{''.join(' ' + one for one in args.ours) or ' the same'}")
    print(f"  {'':16} {'published':>14} {'ours':>14} {'ratio':>7}")
    medians = [{order: statistics.median(event["epoch_ms"] for event in one[order].epochs) for order in ORDERS} for one in rounds]
    every = {order: [event for one in rounds for event in one[order].epochs] for order in ORDERS}
    used = {order: statistics.median(one[order].processor_ms for one in rounds) for order in ORDERS}
    usd = {order: [event["epoch_ms"] / 1e3 * one[order].usd_per_s for one in rounds for event in one[order].epochs] for order in ORDERS}
    rows = [("epoch, ms", {order: statistics.median(event["epoch_ms"] for event in every[order]) for order in ORDERS},
             statistics.median(one["published"] / one["auto"] for one in medians), ".1f"),
            ("shortest, ms", {order: min(event["epoch_ms"] for event in every[order]) for order in ORDERS}, None, ".1f"),
            ("processors, ms", used, None, ".0f"),
            ("dollars / 1e6", {order: 1e6 * statistics.median(usd[order]) for order in ORDERS}, None, ".2f")]
    rows += [(what, {order: statistics.median(event[key] for event in every[order]) for order in ORDERS}, None, ".0f") for key, what in COUNTS.items()]
    for what, of, ratio, form in rows:
        ratio = ratio if ratio is not None else of["published"] / of["auto"] if of["auto"] else float("nan")
        print(f"  {what:16} {format(of['published'], form):>14} {format(of['auto'], form):>14} {ratio:>7.2f}")
    sys.stdout.flush()


def compare(args):
    for name in args.graph.split(","):
        shown(args, name, [{order: run(args, name, order) for order in ORDERS} for _ in range(args.rounds)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("culm")
    parser.add_argument("folder")
    parser.add_argument("--graph", default="reddit,amazon")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--ours", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--link", metavar="RATE")
    parser.add_argument("--before", default="")
    for name, value in ("rounds", 3), ("warm", 2), ("epochs", 5), ("servers", 2), ("parameter-servers", 1), ("workers", 2), ("intervals", 8):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.rounds < 1 or args.epochs < 1 or args.warm < 0:
        parser.error("--rounds and --epochs are at least 1, --warm at least 0")
    os.makedirs(args.folder, exist_ok=True)
    try:
        compare(args)
    except Unavailable as error:
        sys.exit(f"--link: {error}")


if __name__ == "__main__":
    main()
