#!/usr/bin/env python3
"""How much a graph convolution learns: Culm beside plain PyTorch, with the same recipe on the same graphs, and as many seeds.

    ~/pyg/bin/python accuracy.py [--culm build/src/cli/culm] [--seeds 5] ../shared/data/graphs [NAME...]

This needs NumPy and PyTorch. PyTorch's side is two products with the graph as a CSR matrix and the features as another, and nothing
else; its seeds draw other weights and other dropout than Culm's, so it is means that should agree, within their noise. Printed are,
for each recipe, the mean and standard deviation over the seeds of the share of the test vertices that is right after the last epoch, or of
the area under the ROC curve where a recipe asks for that.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import typing

import numpy as np
import torch
import torch.nn.functional as F

from gnn import Graph, csr_of, norm_of


class Recipe(typing.NamedTuple):
    graph: str
    epochs: int = 200
    width: int = 64
    dropout: float = 0.5
    decay: float = 5e-4  # L2 of the first layer's weights
    rows: bool = True  # features divided by the sum of their row
    area: bool = False

    def title(self):
        return f"{self.graph}, {'rows' if self.rows else 'as-is'}, width {self.width}, dropout {self.dropout:g}, L2 {self.decay:g}, {self.epochs} epochs"


RECIPES = [
    Recipe("cora", width=16), Recipe("citeseer", width=16), Recipe("cora_ml"), Recipe("facebook", epochs=100), Recipe("facebook", epochs=100, rows=False),
    Recipe("amazon_computers", decay=0, rows=False), Recipe("coauthor_physics", epochs=100, dropout=0, decay=0), Recipe("nell", dropout=0.1, decay=1e-5),
    Recipe("tolokers", dropout=0, rows=False, area=True),
]
LR = 0.01


def culm_learns(args, recipe, seed):
    keys = {"graph.path": os.path.join(args.graphs, recipe.graph), "graph.features": "rows" if recipe.rows else "as-is", "model.width": recipe.width,
            "model.dropout": recipe.dropout, "optimizer.weight_decay": recipe.decay, "optimizer.lr": LR, "epochs": recipe.epochs, "seed": seed,
            "eval.every": recipe.epochs, "checkpoint.every": 0, "threads": args.threads}
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("epochs: 1\n")
        words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        ended = subprocess.run([args.culm, "gnn", "train", config, *words, "--out", os.path.join(folder, "run"), "--json"],
                               stdout=subprocess.PIPE, text=True, check=True)
    done = [json.loads(line) for line in ended.stdout.splitlines()][-1]
    return done["test_auc" if recipe.area else "test"]


def area_under(score, positive):
    """Of the ROC curve: the share of pairs of unlike vertices in the right order, ties counting half."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    p, n = positive.sum(), (~positive).sum()
    return (rank[positive].sum() - p * (p + 1) / 2) / (p * n)


class Data:
    """What PyTorch's runs of a recipe have in common."""

    def __init__(self, args, recipe):
        path = os.path.join(args.graphs, recipe.graph)
        g = Graph(path, True)
        self.n, self.columns, self.classes = g.n, g.columns, g.classes
        self.a = csr_of(torch, g, norm_of(torch, g))
        if g.csr:
            start, column, value = g.csr
            if recipe.rows:
                value = value / np.repeat(np.add.reduceat(np.append(value, 0), start[:-1]).clip(1e-12), np.diff(start))
            self.start, self.column, self.value = torch.from_numpy(start), torch.from_numpy(column), torch.from_numpy(value.astype(np.float32))
        else:
            self.start, self.value = None, torch.from_numpy(g.x / np.maximum(g.x.sum(1, keepdims=True), 1e-12) if recipe.rows else g.x)
        split = np.load(f"{path}/split.npy")[0]
        self.y = torch.from_numpy(g.y)
        self.train, self.test = (torch.from_numpy(np.flatnonzero(split == part)) for part in (1, 3))

    def features(self, dropout):
        """A function that multiplies features, with dropout, by weights."""
        value = F.dropout(self.value, dropout)
        if self.start is None:
            return value
        return torch.sparse_csr_tensor(self.start, self.column, value, (self.n, self.columns))


def torch_learns(data, recipe, seed):
    torch.manual_seed(seed)
    w = [torch.empty(data.columns, recipe.width), torch.empty(recipe.width, data.classes)]
    b = [torch.zeros(recipe.width), torch.zeros(data.classes)]
    for one in w:
        torch.nn.init.xavier_uniform_(one)
    for one in w + b:
        one.requires_grad_()
    optimizer = torch.optim.Adam([{"params": [w[0], b[0]], "weight_decay": recipe.decay}, {"params": [w[1], b[1]]}], lr=LR)

    def forward(dropout):
        h = F.relu(data.a @ (data.features(dropout) @ w[0]) + b[0])
        return data.a @ (F.dropout(h, dropout) @ w[1]) + b[1]

    for _ in range(recipe.epochs):
        optimizer.zero_grad()
        F.cross_entropy(forward(recipe.dropout)[data.train], data.y[data.train]).backward()
        optimizer.step()
    with torch.no_grad():
        logits, y = forward(0)[data.test], data.y[data.test]
    if recipe.area:
        return area_under((logits[:, 1] - logits[:, 0]).numpy(), (y == 1).numpy())
    return (logits.argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", help="folder of the graphs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of graphs (default: all that have a recipe)")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_flush_denormal(True)
    for recipe in RECIPES:
        if args.names and recipe.graph not in args.names:
            continue
        if not os.path.isdir(os.path.join(args.graphs, recipe.graph)):
            print(f"{recipe.graph}: not in {args.graphs}", file=sys.stderr)
            continue
        seeds, data = range(1, args.seeds + 1), Data(args, recipe)
        both = [culm_learns(args, recipe, seed) for seed in seeds], [torch_learns(data, recipe, seed) for seed in seeds]
        shown = [f"{100 * statistics.mean(one):.2f} ± {100 * statistics.stdev(one) if len(one) > 1 else 0:.2f}" for one in both]
        print(f"{recipe.title()}: {'area, ' if recipe.area else ''}Culm {shown[0]}, PyTorch {shown[1]}", flush=True)


if __name__ == "__main__":
    main()
