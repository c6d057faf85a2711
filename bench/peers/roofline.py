#!/usr/bin/env python3
"""How near a model of pictures comes to what one core can do at most.

    ninja -C build bench/bench_peak
    python3 roofline.py --culm build/src/cli/culm --peak build/bench/bench_peak MODEL...

The bound: every layer as fast as `bench_peak` is in a loop of its kind whose data are all in the first-level cache. Convolutions multiply and add
at the peak in registers; besides, each output takes what a 1x1 of 8 and of 16 inputs take longer than that. Depthwise ones have a loop of their
own. All else (pooling, copies) counts as nothing. Of channels that come from a map enlarged twice, a quarter is computed. The bound of boxes is
that of maps without the 1x1s that make them, which compute little more than their gates.

Printed: the bound, the shortest frame of some runs of `culm bench infer`, and the share; of maps and of boxes. Stop other work meanwhile.
"""
import argparse
import json
import math
import re
import subprocess
import sys


def peaks(program):
    """In registers, from the cache, depthwise, 1x1 of 8 and of 16 inputs; operations a second."""
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return [float(number) * 1e9 for number in re.findall(r"\d+\.\d+", said)]


def bound(layers, limits):
    registers, _, depthwise, eight, sixteen = limits
    output_s = ((16 / eight - 16 / registers) + (32 / sixteen - 32 / registers)) / 2
    maps = heads = 0
    for layer in layers:
        outputs, flops = math.prod(layer["out"]), layer["flops"]
        if layer["kind"].startswith("depthwise"):
            took = flops / depthwise
        elif layer["kind"].startswith("conv"):
            read, inputs = layer["in"][3], flops / 2 / outputs
            if layer["kind"] == "conv 1x1" and inputs > read:
                flops *= (read + (inputs - read) / 4) / inputs
            took = flops / registers + outputs * output_s
        else:
            took = 0
        maps += took
        heads += took if layer["out"][3] % 85 == 0 else 0  # 80 classes
    return maps, maps - heads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--peak", default="build/bench/bench_peak")
    parser.add_argument("--runs", type=int, default=8)
    args = parser.parse_args()
    for model in args.models:
        best = [0.0] * 5
        least = [math.inf, math.inf]
        for _ in range(args.runs):
            best = [max(pair) for pair in zip(best, peaks(args.peak))]
            said = subprocess.run([args.culm, "bench", "infer", model, "--iters", "30", "--layers", "--json"], capture_output=True, text=True, check=True).stdout
            said = json.loads(said)
            least = [min(least[0], said["frame_s"]["min"]), min(least[1], said["answer_s"]["min"])]
        limit = bound(said["layers"], best)
        print(f"{said['model']}: maps at least {1e3 * limit[0]:.2f} ms, {1e3 * least[0]:.2f} measured, {limit[0] / least[0]:.0%} of the roofline; "
              f"boxes {1e3 * limit[1]:.2f}, {1e3 * least[1]:.2f}, {limit[1] / least[1]:.0%}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
