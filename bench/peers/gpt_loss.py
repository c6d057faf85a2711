#!/usr/bin/env python3
"""Whether Culm's GPT learns as well as PyTorch's: the same recipe on the same text, held-out loss, several seeds.

    gpt_loss.py --culm build/src/cli/culm --text build/data/kjv.txt --seeds 3 --steps 400 [--dtype bf16]

Both start from N(0, 0.02) (projections into the residual stream scaled down as in GPT-2), see the same share of the text in orders of
their own, and take AdamW with the same schedule. Prints every held-out loss, the means, and their difference in units of the
standard error.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import torch

import models

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, HELD_OUT = 4, 192, 6, 128, 16, 0.02
LR, MIN_LR, WARMUP, DECAY = 1e-3, 1e-4, 20, 0.1


def culm_loss(args, seed, folder):
    config = {
        "model": {"arch": "gpt2", "layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT, "vocab": 256,
                  "dropout": 0.0},
        "data": {"kind": "text", "path": os.path.abspath(args.text), "held_out": HELD_OUT},
        "batch": {"global": BATCH, "micro": BATCH // 2, "lanes": 1}, "pipelines": 1, "stages": 1, "redundancy": "none",
        "threads": args.threads, "seed": seed, "steps": args.steps, "precision": args.dtype,
        "optimizer": {"name": "adamw", "lr": LR, "beta2": 0.95, "weight_decay": DECAY, "clip_norm": 1.0},
        "schedule": {"name": "cosine", "warmup": WARMUP, "min_lr": MIN_LR}, "checkpoint": {"every": 0},
    }
    path, out = os.path.join(folder, f"{seed}.yaml"), os.path.join(folder, f"run-{seed}")
    with open(path, "w", encoding="ascii") as file:
        json.dump(config, file)
    subprocess.run([args.culm, "train", path, "--out", out, "--json"], check=True, stdout=subprocess.DEVNULL)
    ended = subprocess.run([args.culm, "eval", out, "--json", "--threads", str(args.threads)], check=True,
                           stdout=subprocess.PIPE)
    return json.loads(ended.stdout)["loss"]


def samples_of(text):
    """[samples, context + 1], the training part and the held-out part, as Culm cuts them."""
    with open(text, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    count = (len(data) - 1) // CONTEXT
    rows = torch.stack([data[i * CONTEXT:i * CONTEXT + CONTEXT + 1] for i in range(count)])
    held = int(count * HELD_OUT)
    return rows[:count - held], rows[count - held:]


def torch_loss(args, seed, train, held):
    torch.manual_seed(seed)
    torch.set_num_threads(args.threads)
    model = models.Gpt(LAYERS, WIDTH, HEADS, 256, CONTEXT, 0.0)
    for block in model.blocks:
        for layer in (block.proj, block.out):
            torch.nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * LAYERS))
        for layer in (block.qkv, block.proj, block.fc, block.out):
            torch.nn.init.zeros_(layer.bias)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}], lr=LR,
                                  betas=(0.9, 0.95))
    order = torch.cat([torch.randperm(len(train)) for _ in range(args.steps * BATCH // len(train) + 1)])
    half = torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16")
    for step in range(1, args.steps + 1):
        done = max(0, step - WARMUP) / max(1, args.steps - WARMUP)
        lr = LR * step / WARMUP if step <= WARMUP else MIN_LR + (LR - MIN_LR) / 2 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = lr
        rows = train[order[(step - 1) * BATCH:step * BATCH]]
        optimizer.zero_grad()
        with half:
            loss = model(rows[:, :-1], rows[:, 1:].reshape(len(rows), -1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad(), half:
        parts = [(len(rows), model(rows[:, :-1], rows[:, 1:].reshape(len(rows), -1)).item()) for rows in held.split(BATCH)]
    return sum(n * loss for n, loss in parts) / sum(n for n, _ in parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--culm", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    args = parser.parse_args()
    train, held = samples_of(args.text)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, args.seeds + 1):
            ours.append(culm_loss(args, seed, folder))
            theirs.append(torch_loss(args, seed, train, held))
            print(f"seed {seed}: culm {ours[-1]:.4f}, torch {theirs[-1]:.4f}", flush=True)
    if args.seeds < 2:
        return 0
    spread = math.sqrt((statistics.variance(ours) + statistics.variance(theirs)) / args.seeds)
    difference = statistics.mean(ours) - statistics.mean(theirs)
    print(f"means: culm {statistics.mean(ours):.4f}, torch {statistics.mean(theirs):.4f}; difference {difference:+.4f}, "
          f"{difference / max(spread, 1e-9):+.1f} standard errors of {spread:.4f}")
    return 0 if abs(difference) < max(3 * spread, 0.01 * statistics.mean(theirs)) else 1


if __name__ == "__main__":
    sys.exit(main())
