#!/usr/bin/env python3
"""What a cluster costs on one machine: encryption, and many nodes.

    python3 costs.py CULM tls CONFIG [--job train|gnn] [--rounds 5] [--steps 40] [--set KEY=VALUE]... [--address A]
    python3 costs.py CULM nodes [--nodes 64] [--steps 40]

`tls` runs a configuration whose workers are all of another `culm node`, which joins by an address of this machine that is not loopback,
with TLS and with --insecure in turns, and prints medians of the times of a step (an epoch), and of processor seconds, and their ratios.

`nodes` creates a run at a real etcd, brings a machine of one worker each for all of its places, kills one, and brings another: from the
first node's start to the first step, and from a newcomer's start until the run knows it and until it holds what it was sent.
"""
import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "system"))
from cluster_harness import ClusterRun  # noqa: E402: found only then
from harness import Bench, read_events, tiny_config, wait_until  # noqa: E402

WARM = 5  # steps that do not count


def own_address():
    """One that is not loopback: by which this machine would call another. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call:
        call.connect(("192.0.2.1", 9))
        return call.getsockname()[0]


# --- encryption ---


def join_words(args, start, token, folder):
    words = ["node", "--join", start["address"], "--token-file", token, "--dir", folder]
    return words + ["--workers", args.workers] if args.job == "train" else words + ["--role", args.role]


def run_once(args, bench, number, plain):
    """Seconds of each step that counts, and of processors for each of all steps."""
    unit = {"train": ("steps", "step", "step_ms"), "gnn": ("epochs", "epoch", "epoch_ms")}[args.job]
    out, token = bench.path(f"run-{number}"), bench.path("token")
    if not os.path.exists(token):
        bench.run("keys", "new", token)
    command = ["train"] if args.job == "train" else ["gnn", "train"]
    sets = [word for one in [f"{unit[0]}={args.steps}", "checkpoint.every=0", *args.set] for word in ("--set", one)]
    how = ["--insecure"] if plain else []
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = bench.start(*command, args.config, *sets, "--out", out, "--listen", f"{args.address}:0", "--workers", 0, "--token-file", token, *how,
                      cwd=os.getcwd())
    path = os.path.join(out, "events.jsonl")

    def told(name):
        return [event for event in (read_events(path) if os.path.exists(path) else []) if event["event"] == name]

    wait_until(lambda: told("start"), 60, "the start")
    node = bench.start(*join_words(args, told("start")[0], token, bench.path(f"kept-{number}")), *how, cwd=os.getcwd())
    for process in run, node:
        ended = bench.end(process, 3600)
        if ended.code != 0:
            sys.exit(f"exit code {ended.code}: {ended.err}")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return statistics.median(event[unit[2]] for event in told(unit[1])[WARM:]), cpu_s


def tls(args, bench):
    args.address = args.address or own_address()
    found = {False: [], True: []}
    for number in range(2 * args.rounds):
        plain = number % 2 == (number // 2) % 2  # who is first changes
        found[plain].append(run_once(args, bench, number, plain))
    for what, index, digits in (("ms of a step", 0, 1), ("processor seconds", 1, 1)):
        each = {plain: [one[index] for one in runs] for plain, runs in found.items()}
        ratios = [with_tls / without for with_tls, without in zip(each[False], each[True])]
        print(f"{what}: TLS {statistics.median(each[False]):.{digits}f}, --insecure {statistics.median(each[True]):.{digits}f}, "
              f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)")


# --- many nodes ---


class Run(ClusterRun):
    command = ("train",)

    def give(self, folder):
        shutil.copyfile(self.bench.text, os.path.join(folder, "text"))

    def wait(self, condition, what):
        def met():
            if self.machines and self.machines[0].process.poll() is not None:
                sys.exit(self.bench.end(self.machines[0].process).err)  # who created it follows it to its end
            return condition()

        wait_until(met, 600, what)


def nodes(args, bench):
    config = dict(tiny_config("text"), cluster={"max_nodes": 0, "wait_ms": 600000}, pipelines=args.nodes // 2, stages=2, steps=1000000, schedule={"name": "constant"},
                  batch={"global": args.nodes // 2, "micro": 1, "lanes": args.nodes // 2})
    with Run(bench, config) as run:
        run.create()
        begun = time.monotonic()
        for _ in range(args.nodes):
            run.node(1)
        started = time.monotonic() - begun
        run.wait(lambda: run.told("step"), "the first step")
        first = time.monotonic() - begun
        run.more_steps(args.steps)
        steps = [event["step_ms"] for event in run.told("step")][WARM:]
        run.machines[1].kill()
        run.wait(lambda: run.told("lost"), "the loss")
        known = {event["node"] for event in run.told("joined")}
        begun = time.monotonic()
        run.node(1)

        def newcomers():
            return [event for event in run.told("joined") if event["node"] not in known]

        run.wait(newcomers, "that it joins")
        joined, number = time.monotonic() - begun, newcomers()[0]["node"]

        def holds():
            views = [event for event in run.told("view") if event.get("map")]
            return any(number in (role["owner"], role["shadow"]) for role in views[-1]["map"])

        run.wait(holds, "that it has a place")
        print(json.dumps({"nodes": args.nodes, "all_processes_started_s": round(started, 2), "first_step_s": round(first, 2),
                          "step_ms_median": round(statistics.median(steps), 1), "newcomer_known_s": round(joined, 2),
                          "newcomer_in_place_s": round(time.monotonic() - begun, 2),
                          "pause_ms_of_the_loss": [round(event["pause_ms"], 1) for event in run.told("recovered")]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("culm")
    ways = parser.add_subparsers(dest="way", required=True)
    way = ways.add_parser("tls")
    way.add_argument("config")
    way.add_argument("--job", choices=("train", "gnn"), default="train")
    way.add_argument("--role", default="worker")
    way.add_argument("--address")
    way.add_argument("--set", action="append", default=[])
    way.add_argument("--rounds", type=int, default=5)
    way.add_argument("--workers", type=int, default=6)
    way.add_argument("--steps", type=int, default=40)
    way = ways.add_parser("nodes")
    way.add_argument("--nodes", type=int, default=64)
    way.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="culm-costs-")
    text = os.path.join(folder, "text")
    with open(text, "w", encoding="ascii") as file:
        file.write("what repeats can be learned. " * 4000)
    bench = Bench(os.path.abspath(args.culm), folder, text)
    {"tls": tls, "nodes": nodes}[args.way](args, bench)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
