#!/usr/bin/env python3
"""Convolutions layer by layer: PyTorch beside Culm, in one run.

    python conv.py --culm BUILD/bench/bench_conv [--net resnet50] [--threads 2]
                   [--batch N] [--reps 7] [--dtype f32|bf16] [--layers 0,3] [--cpu-time]

For every distinct layer of the network: milliseconds of forward, backward data and backward weight
(the shortest of --reps), PyTorch's in the faster of its two layouts (nchw, channels_last), then
Culm's, and the ratio PyTorch / Culm: above 1 Culm is faster. Layers are measured in turns, so that
both see the same machine. The last lines weigh layers by how often the network has them.

Use the current PyTorch and let it have what helps it: unset OPENBLAS_CORETYPE and
OPENBLAS_L2_SIZE, LD_PRELOAD jemalloc with MALLOC_CONF=thp:always.
"""
import argparse
import re
import subprocess
import time

import torch

PASSES = ["forward", "data", "weight"]


clock = time.perf_counter


def shortest(call, reps):
    call()
    best = 1e9
    for _ in range(reps):
        start = clock()
        call()
        best = min(best, clock() - start)
    return best * 1e3


def peer(n, size, c, o, kernel, stride, reps, dtype):
    """The shortest time of each pass, and the layout that won it."""
    best = [(1e9, "")] * 3
    pad = kernel // 2
    out = (size + 2 * pad - kernel) // stride + 1
    for name, layout in [("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)]:
        x = torch.rand(n, c, size, size, dtype=dtype).to(memory_format=layout)
        w = torch.rand(o, c, kernel, kernel, dtype=dtype).to(memory_format=layout)
        dy = torch.rand(n, o, out, out, dtype=dtype).to(memory_format=layout)

        def forward():
            torch.ops.aten.convolution(x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1)

        def backward(mask):
            torch.ops.aten.convolution_backward(
                dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask)

        calls = [forward, lambda: backward([True, False, False]),
                 lambda: backward([False, True, False])]
        with torch.no_grad():
            for i, call in enumerate(calls):
                if not (i == 1 and c == 3):
                    best[i] = min(best[i], (shortest(call, reps), name))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--culm", required=True, help="bench_conv")
    parser.add_argument("--net", default="resnet50")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--layers", default="", help="only these, separated by commas")
    parser.add_argument("--cpu-time", action="store_true",
                        help="the thread's own time: for one thread on a busy machine")
    args = parser.parse_args()
    if args.cpu_time:
        global clock
        clock = time.thread_time
    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    base = [args.culm, "--net", args.net]
    if args.batch:
        base += ["--batch", str(args.batch)]
    layers = subprocess.run(base + ["--list"], capture_output=True, text=True, check=True).stdout
    total = [[0.0, 0.0] for _ in PASSES]
    print(f"PyTorch {torch.__version__}, {args.threads} threads, {args.net}, {args.dtype}; ms")
    for line in layers.splitlines():
        index, count, n, size, _, c, o, kernel, stride = map(int, re.findall(r"\d+", line))
        if args.layers and str(index) not in args.layers.split(","):
            continue
        theirs = peer(n, size, c, o, kernel, stride, args.reps, dtype)
        run = base + ["--layer", str(index), "--threads", str(args.threads), "--reps",
                      str(args.reps), "--dtype", args.dtype, "--algorithm", args.algorithm]
        run += ["--cpu-time"] if args.cpu_time else []
        text = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        fields = text.splitlines()[0].split("|")[1:]
        row = f"{count} x {n}x{size}x{size}x{c} o {o} k {kernel} s {stride}".ljust(38)
        for i, field in enumerate(fields):
            if "none" in field:
                row += " |" + " " * 31
                continue
            how, ms = field.split()[0], float(field.split()[1])
            row += f" | {theirs[i][0]:8.3f} {theirs[i][1]} {ms:8.3f} {how} {theirs[i][0] / ms:5.2f}"
            total[i][0] += count * theirs[i][0]
            total[i][1] += count * ms
        print(row, flush=True)
    for i, name in enumerate(PASSES):
        print(f"{name:8s} PyTorch {total[i][0]:8.1f} ms  Culm {total[i][1]:8.1f} ms  "
              f"ratio {total[i][0] / total[i][1]:.2f}")
    a, b = sum(t[0] for t in total), sum(t[1] for t in total)
    print(f"all      PyTorch {a:8.1f} ms  Culm {b:8.1f} ms  ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
