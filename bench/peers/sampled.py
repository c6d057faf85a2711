#!/usr/bin/env python3
"""Accuracy over time and dollars: the whole graph in each step (Culm, DGL), and DGL with sampled neighbours.

    python3 sampled.py --dgl ~/dgl/bin/python --culm build/src/cli/culm facebook amazon_computers

All train the same SAGE of two layers (mean of the neighbours, ReLU, dropout 0.5, Adam) from several seeds. Sampling takes --fanouts
neighbours of each vertex, layer by layer, and a step for each --batch training vertices. Time is that of training: where accuracy is
measured, which is done on the whole graph, the clock stands still. Culm's times are those of a second run that measures nothing;
it must end with the same weights. All have --threads threads of this machine, one after the other.

Printed are, of each way, the test accuracy at the best validation accuracy, and the seconds and dollars until validation first
reaches --short points less than the worst way's best: means over seeds. Dollars are seconds at --usd an hour, which
is that of an instance with as many processors.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from gnn import Graph

LR, DECAY, DROPOUT = 0.01, 5e-4, 0.5

# --- DGL ---


def train_dgl(spec):
    """Prints a line of JSON for each epoch: seconds of training so far, and accuracies."""
    import dgl
    import numpy as np
    import torch
    import torch.nn.functional as F

    torch.manual_seed(spec["seed"])
    dgl.seed(spec["seed"])
    torch.set_num_threads(spec["threads"])
    torch.set_flush_denormal(True)
    g = Graph(spec["graph"], True)
    to = np.repeat(np.arange(g.n), np.diff(g.start))
    between = g.src != to  # Graph adds loops; SAGE has the vertex apart
    graph = dgl.graph((torch.from_numpy(g.src[between]).long(), torch.from_numpy(to[between])), num_nodes=g.n).formats(["csr", "csc"])
    graph.create_formats_()
    x = torch.from_numpy(g.dense())
    if spec["rows"]:
        x = x / x.sum(1, keepdim=True).clamp(min=1e-12)
    y, split = torch.from_numpy(g.y), np.load(f"{spec['graph']}/split.npy")[0]
    parts = [torch.from_numpy(np.flatnonzero(split == part)) for part in (1, 2, 3)]
    layers = torch.nn.ModuleList([dgl.nn.SAGEConv(g.columns, spec["width"], "mean"), dgl.nn.SAGEConv(spec["width"], g.classes, "mean")])
    optimizer = torch.optim.Adam([{"params": layers[0].parameters(), "weight_decay": DECAY}, {"params": layers[1].parameters()}], lr=LR)

    def forward(blocks, rows):
        h = F.relu(layers[0](blocks[0], F.dropout(rows, DROPOUT, layers.training)))
        return layers[1](blocks[1], F.dropout(h, DROPOUT, layers.training))

    def step(logits, wanted):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits, wanted).backward()
        optimizer.step()

    if spec["way"] == "sampled":
        loader = dgl.dataloading.DataLoader(graph, parts[0], dgl.dataloading.NeighborSampler(spec["fanouts"]),
                                            batch_size=spec["batch"], shuffle=True)
    seconds = 0.0
    for _ in range(spec["epochs"]):
        begun = time.perf_counter()
        if spec["way"] == "sampled":
            for inputs, outputs, blocks in loader:
                step(forward(blocks, x[inputs]), y[outputs])
        else:
            step(forward([graph, graph], x)[parts[0]], y[parts[0]])
        seconds += time.perf_counter() - begun
        layers.eval()
        with torch.no_grad():
            right = forward([graph, graph], x).argmax(1) == y
        layers.train()
        print(json.dumps([seconds, *(right[part].float().mean().item() for part in parts[1:])]), flush=True)


def dgl_curve(args, path, way, seed):
    from step import environment

    spec = {"graph": path, "way": way, "seed": seed, "threads": args.threads, "rows": args.rows, "width": args.width,
            "fanouts": [int(fanout) for fanout in args.fanouts.split(",")], "batch": args.batch,
            "epochs": args.epochs if way == "sampled" else args.steps}
    run = subprocess.run([args.dgl, os.path.abspath(__file__), "--child", json.dumps(spec)], stdout=subprocess.PIPE, text=True,
                         env={**environment(args.threads), "PYTHONWARNINGS": "ignore", "DGLBACKEND": "pytorch"}, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]


# --- Culm ---


def culm_run(args, path, folder, seed, every):
    config, out = os.path.join(folder, f"{seed}-{every}.yaml"), os.path.join(folder, f"{seed}-{every}")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"graph: {{path: {os.path.abspath(path)}, features: {'rows' if args.rows else 'as-is'}}}\nepochs: {args.steps}\nseed: {seed}\n"
                   f"threads: {args.threads}\neval: {{every: {every}}}\nmodel: {{arch: sage, layers: 2, width: {args.width}, dropout: {DROPOUT}}}\n"
                   f"optimizer: {{lr: {LR}, weight_decay: {DECAY}}}\ncheckpoint: {{every: 0}}\n")
    run = subprocess.run([args.culm, "gnn", "train", config, "--out", out, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    events = [json.loads(line) for line in run.stdout.splitlines()]
    return [event for event in events if event["event"] == "epoch"], events[-1]["weights_sha256"]


def culm_curve(args, path, way, seed):
    with tempfile.TemporaryDirectory() as folder:
        measured, weights = culm_run(args, path, folder, seed, 1)
        timed, again = culm_run(args, path, folder, seed, 0)
    if weights != again:
        sys.exit("sampled.py: two runs of Culm with one seed have different weights")
    curve, seconds = [], 0.0
    for seen, took in zip(measured, timed):
        seconds += took["epoch_ms"] / 1000
        curve.append([seconds, seen["valid"], seen["test"]])
    return curve


# --- beside each other ---

WAYS = {"Culm, whole graph": (culm_curve, ""), "DGL, whole graph": (dgl_curve, "whole"), "DGL, sampled": (dgl_curve, "sampled")}


def reached(curve, wanted):
    """Seconds until validation is as good as that; None: it never is."""
    return next((seconds for seconds, valid, _ in curve if valid >= wanted), None)


def compare(args, path):
    curves = {name: [how(args, path, way, seed) for seed in range(args.seeds)] for name, (how, way) in WAYS.items()}
    wanted = min(statistics.mean(max(valid for _, valid, _ in curve) for curve in each) for each in curves.values()) - args.short / 100
    result = {"graph": os.path.basename(os.path.normpath(path)), "wanted": wanted, "ways": {}}
    for name, each in curves.items():
        times = [reached(curve, wanted) for curve in each]
        mean = statistics.mean(times) if None not in times else None
        result["ways"][name] = {
            "test": statistics.mean(max(curve, key=lambda point: point[1])[2] for curve in each),
            "steps_or_epochs": len(each[0]), "epoch_s": statistics.median(curve[-1][0] / len(curve) for curve in each),
            "seconds": mean, "usd": mean and mean * args.usd / 3600}
    return result


def show(args, result):
    print(f"{result['graph']}: until {100 * result['wanted']:.1f} % of validation are right")
    for name, way in result["ways"].items():
        when = "never" if way["seconds"] is None else f"{way['seconds']:7.2f} s  {1e6 * way['usd']:7.0f} millionths of a dollar"
        print(f"  {name:18s} {when}; test {100 * way['test']:.1f} %, {1000 * way['epoch_s']:.1f} ms an epoch", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("graphs", nargs="*", help="folders of culm-graph-1")
    parser.add_argument("--dgl", help="python of the environment with DGL")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--fanouts", default="10,25", help="neighbours of a vertex, of the first layer and of the second")
    parser.add_argument("--batch", type=int, default=1024, help="training vertices in a step of sampled training")
    parser.add_argument("--epochs", type=int, default=60, help="of sampled training")
    parser.add_argument("--steps", type=int, default=300, help="of training on the whole graph")
    parser.add_argument("--rows", action="store_true", help="divide each row of features by its sum")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--short", type=float, default=0.5, help="points")
    parser.add_argument("--usd", type=float, default=0.085, help="an hour; the default is a c5.large, two processors")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        train_dgl(json.loads(args.child))
        return
    for path in args.graphs:
        result = compare(args, path)
        print(json.dumps(result), flush=True) if args.json else show(args, result)


if __name__ == "__main__":
    main()
