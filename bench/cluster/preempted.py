#!/usr/bin/env python3
"""Steps that machines lost without notice cost: the setting of Ray Train's preemption benchmark, at a real etcd.

    python3 preempted.py CULM [--steps 1600] [--every 400] [--losses 4] [--workers 8] [--width 48] [--seed 1] [--lead] [--keep DIR]

Ray measured a ViT-B/16 on eight workers, 1600 steps, a checkpoint every 400, and four preemptions (ray-project/ray, pull request
65047): 517 steps were done again where a loss goes back to the last checkpoint, and 91 where a notice of the preemption is used to
save first. Here is the same schedule with a transformer of that depth and number of heads (12 layers, 12 heads, 197 positions),
narrower, so that a machine of two cores does it in minutes. Each worker is a machine of its own: `culm node` with a folder and a copy
of the data. A loss is SIGKILL of a whole machine at a random step of each quarter of the run; another machine comes for it. With
--lead the one that leads is killed as well, each time, and another machine takes its place.

Printed: steps done again; the steps that going back to the last checkpoint would have done again; whether the loss of every step and
the hash of the final weights are those of an undisturbed run.
"""
import argparse
import os
import random
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "system"))
from cluster_harness import ClusterRun  # noqa: E402: found only then
from harness import Bench, read_events, wait_until  # noqa: E402

TEXT_BYTES = 400000


class Run(ClusterRun):
    command = ("train",)

    def give(self, folder):
        shutil.copyfile(self.bench.text, os.path.join(folder, "text"))

    def wait(self, condition, what):
        wait_until(condition, 3600, what)


def config_of(args):
    return {
        "model": {"arch": "gpt2", "layers": 12, "heads": 12, "width": args.width, "context": 197, "vocab": 256, "dropout": 0.1},
        "data": {"kind": "text", "path": "text"},
        "batch": {"global": args.workers, "micro": 1, "lanes": args.workers},
        "pipelines": args.workers // 2, "stages": 2, "redundancy": "eager", "threads": 1, "seed": 1, "steps": args.steps,
        "optimizer": {"name": "adamw", "lr": 3.0e-4},
        "checkpoint": {"every": args.every, "keep": 2},
    }


def write_text(path):
    """Words that repeat, so that there is something to learn."""
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(2, 8))) for _ in range(200)]
    with open(path, "w", encoding="ascii") as file:
        while file.tell() < TEXT_BYTES:
            file.write(draw.choice(words) + " ")


def train_undisturbed(bench, config):
    out = bench.path("undisturbed")
    begun = time.monotonic()
    ended = bench.run("train", bench.config(dict(config, data={"kind": "text", "path": bench.text}), "undisturbed.yaml"), "--out", out, limit_s=7200)
    if ended.code != 0:
        sys.exit(f"the undisturbed run ended with {ended.code}: {ended.err}")
    return read_events(os.path.join(out, "events.jsonl")), time.monotonic() - begun


def disturb(args, run):
    """Kills machines at random steps of each of as many parts of the run as there are losses; returns the steps."""
    draw = random.Random(args.seed)
    part = args.steps // args.losses
    struck = []
    for number in range(args.losses):
        at = number * part + draw.randint(part // 10, part - part // 10)
        run.wait(lambda at=at: run.steps() >= at, f"step {at}")
        busy = [machine for machine in run.machines[1:] if machine.process.poll() is None and machine.workers]
        draw.choice(busy).kill()
        node(run, 1)
        if args.lead:
            leader = run.leader()
            if leader is not None and leader.process.poll() is None:
                works = getattr(leader, "workers", 0)
                leader.kill()
                node(run, works)
        struck.append(run.steps())
    return struck


def node(run, workers):
    run.node(workers).workers = workers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("culm")
    parser.add_argument("--lead", action="store_true")
    parser.add_argument("--keep")
    for name, default in (("steps", 1600), ("every", 400), ("losses", 4), ("workers", 8), ("width", 48), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    folder = args.keep or tempfile.mkdtemp(prefix="culm-preempted-")
    os.makedirs(folder, exist_ok=True)
    write_text(os.path.join(folder, "text"))
    bench = Bench(os.path.abspath(args.culm), folder, os.path.join(folder, "text"))
    config = config_of(args)
    plain, plain_s = train_undisturbed(bench, config)
    with Run(bench, config) as run:
        begun = time.monotonic()
        run.create()
        for _ in range(args.workers):
            node(run, 1)
        if args.lead:
            node(run, 0), node(run, 0)
        struck = disturb(args, run)
        run.wait(lambda: run.told("done"), "the end")
        took_s = time.monotonic() - begun
        events = run.events()
    if not args.keep:
        shutil.rmtree(folder)
    report(args, plain, plain_s, events, took_s, struck)


def report(args, plain, plain_s, events, took_s, struck):
    right = {event["step"]: event["loss_bits"] for event in plain if event["event"] == "step"}
    steps = [event for event in events if event["event"] == "step"]
    done, before = [event for event in events if event["event"] == "done"][-1], [event for event in plain if event["event"] == "done"][-1]
    losses = [event for event in events if event["event"] == "lost"]
    pauses = sorted(event["pause_ms"] for event in events if event["event"] == "recovered")
    wrong = [event["step"] for event in steps if event["loss_bits"] != right[event["step"]]]
    print(f"losses: {len(struck)} machines at steps {struck}; nodes lost, as the run has it: {done['losses']} (told: {len(losses)})")
    print(f"leaders: {1 + sum(event['event'] == 'leader' for event in events)}")
    print(f"steps done again: {done['steps_redone']}; roll-backs: {done['rollbacks']}; samples lost or repeated: {done['samples_lost'] + done['samples_repeated']}")
    print(f"going back to the last checkpoint would have done again: {sum(step % args.every for step in struck)}")
    print(f"pauses: {', '.join(f'{ms:.0f}' for ms in pauses)} ms")
    print(f"steps with another loss than undisturbed: {len(wrong)} of {len({event['step'] for event in steps})}")
    print(f"final weights: {'the same' if done['weights_sha256'] == before['weights_sha256'] else 'OTHERS'}")
    print(f"seconds: {took_s:.0f}; undisturbed, on one machine, without etcd: {plain_s:.0f}")
    if wrong or done["weights_sha256"] != before["weights_sha256"] or len(right) != args.steps:
        sys.exit(1)


if __name__ == "__main__":
    main()
