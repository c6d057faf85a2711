#!/usr/bin/env python3
"""Milliseconds of nn.LSTM's forward and backward in PyTorch: the figure that Culm's kernel is compared with.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python lstm.py [--threads N] [--iters N] [--time T] [--no-mkldnn]

One JSON line for each batch and width (input as wide as the state, one layer, one direction, batch
first). Culm's own: bench/bench_sequence lstm.
"""
import argparse
import json
import os
import statistics
import time

import torch


def measure(batch, width, a):
    lstm = torch.nn.LSTM(width, width, batch_first=True)
    x = torch.randn(batch, a.time, width, requires_grad=True)
    dy = torch.randn(batch, a.time, width)
    clock = time.process_time if a.cpu_time else time.perf_counter
    forward, both = [], []
    for i in range(a.iters + 2):
        lstm.zero_grad(set_to_none=True)
        x.grad = None
        start = clock()
        y, _ = lstm(x)
        middle = clock()
        y.backward(dy)
        end = clock()
        if i >= 2:
            forward.append((middle - start) * 1e3)
            both.append((end - start) * 1e3)
    print(json.dumps({"peer": "torch " + torch.__version__, "threads": a.threads, "batch": batch, "time": a.time,
                      "width": width, "forward_ms": {"median": round(statistics.median(forward), 2),
                                                     "min": round(min(forward), 2)},
                      "both_ms": {"median": round(statistics.median(both), 2), "min": round(min(both), 2)}}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(threads=2, iters=9, time=50).items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--widths", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--no-mkldnn", action="store_true")
    parser.add_argument("--cpu-time", action="store_true", help="of the process, not of the wall: for busy machines, one thread")
    a = parser.parse_args()
    if os.environ.get("OPENBLAS_CORETYPE") or os.environ.get("OPENBLAS_L2_SIZE"):
        parser.error("OPENBLAS_CORETYPE or OPENBLAS_L2_SIZE is set and would slow the peer down: unset both")
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    if a.no_mkldnn:
        torch.backends.mkldnn.enabled = False
    for width in a.widths:
        for batch in a.batches:
            measure(batch, width, a)


if __name__ == "__main__":
    main()
