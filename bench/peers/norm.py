#!/usr/bin/env python3
"""Memory-bound operators of convolutional networks in PyTorch (channels_last) beside Culm's, in pairs.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python norm.py --culm BUILD/bench/bench_vision
        [--threads N] [--bf16] [--shape N,H,W,C] [--rounds N] [CASE...]

Each round runs every case once in PyTorch and once in Culm, so that both see the same machine; the
figures are medians over rounds, and the ratio is PyTorch's time over Culm's. In PyTorch a batch norm
with a sum and a ReLU is three operators; --compile has torch.compile fuse what it can.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F


def cases(a):
    n, h, w, c = a.shape
    dtype = torch.bfloat16 if a.bf16 else torch.float32
    make = lambda: torch.randn(n, c, h, w).to(dtype).contiguous(memory_format=torch.channels_last)
    gamma = torch.ones(c, requires_grad=True)
    beta = torch.zeros(c, requires_grad=True)
    running = torch.zeros(c), torch.ones(c)
    norm = lambda x: F.batch_norm(x, *running, gamma, beta, training=True)
    one = {
        "bn": lambda x, r: norm(x),
        "bn_relu": lambda x, r: F.relu(norm(x)),
        "bn_add_relu": lambda x, r: F.relu(norm(x) + r),
        "relu": lambda x, r: F.relu(x),
        "gelu": lambda x, r: F.gelu(x),
        "maxpool": lambda x, r: F.max_pool2d(x, 3, 2, 1),
        "mean": lambda x, r: F.adaptive_avg_pool2d(x, 1),
    }
    for name, function in one.items():
        if a.compile:
            function = torch.compile(function)
        x, r = make().requires_grad_(), make().requires_grad_(name == "bn_add_relu")
        dy = torch.randn_like(function(x, r))
        def forward(function=function, x=x, r=r):
            return function(x, r)
        def backward(function=function, x=x, r=r, dy=dy):
            y = function(x, r)
            start = time.perf_counter()
            inputs = [x, gamma, beta] if name.startswith("bn") else [x]
            torch.autograd.grad(y, inputs + ([r] if r.requires_grad else []), dy)
            return time.perf_counter() - start
        yield name + "_forward", forward
        yield name + "_backward", backward


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--culm", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--shape", type=lambda s: [int(d) for d in s.split(",")], default=[8, 56, 56, 256])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("case", nargs="*")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    sweep = torch.zeros(16 << 20)
    torch_ms, culm_ms = {}, {}
    runs = [(name, run) for name, run in cases(a) if not a.case or name in a.case]
    command = [a.culm, "--json", "--iters", "3", "--threads", str(a.threads), "--shape", ",".join(map(str, a.shape))]
    command += ["--bf16"] if a.bf16 else []
    for round in range(a.rounds + 1):
        for name, run in runs:
            for _ in range(3):
                sweep.sum()
                start = time.perf_counter()
                took = run()
                took = took if name.endswith("backward") else time.perf_counter() - start
                if round:
                    torch_ms.setdefault(name, []).append(took * 1e3)
        for line in subprocess.run(command + [n for n, _ in runs], capture_output=True, text=True, check=True).stdout.splitlines():
            row = json.loads(line)
            if round:
                culm_ms.setdefault(row["case"], []).append(row["ms"])
    print(f"shape {a.shape} {'bf16' if a.bf16 else 'f32'} threads {a.threads} torch {torch.__version__}{' compiled' if a.compile else ''}")
    for name, _ in runs:
        peer, ours = statistics.median(torch_ms[name]), statistics.median(culm_ms[name])
        print(f"{name:22s} torch {peer:9.3f} ms   culm {ours:9.3f} ms   ratio {peer / ours:5.2f}")


if __name__ == "__main__":
    main()
