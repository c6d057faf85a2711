#!/usr/bin/env python3
"""VGG, ResNet and YOLOv3 as `culm edge plan` and `culm edge bench` know models: run times from others, bytes from their layers.

usage: published.py [--check STRUCTURE.json] > published.json

Nothing is needed but Python. Each layer is one tensor (weights and bias, 4 bytes a number, without batch norms) with its kind; activations are the
input and output of a layer and what a shortcut keeps, where that is most. --check compares the bytes with {"models": {NAME: {"bytes": ...}}}.
"""
import argparse
import json
import sys

TIMES = {  # ms for one picture; several take as many times as long
    "vgg16": (5.74, "github.com/linbo0518/CVBenchmarks: VGG16, 1x3x224x224, TITAN Xp, MXNet 1.4.0"),
    "resnet50": (8.36, "github.com/linbo0518/CVBenchmarks at 121ab45: ResNet50, 1x3x224x224, TITAN Xp, MXNet 1.4.0"),
    "resnet152": (1000 / 37, "YOLOv3 (arXiv 1804.02767), table 2: ResNet-152 at 37 frames a second, 256x256, Titan X"),
    "yolov3": (24.96, "github.com/linbo0518/CVBenchmarks at 121ab45: YOLO v3 (DarkNet53), 1x3x416x416, TITAN Xp, MXNet 1.4.0"),
}
RATE = (12000, "PCIe 3.0 x16 carries 15.75 GB/s; 12 is twice what NVIDIA's CUDA FAQ measured over PCIe 2.0 x16 from pinned memory (6.0)")


class Net:
    """Layers one after the other, with the memory that each takes while it runs."""

    def __init__(self, side):
        self.side, self.channels, self.kept, self.most = side, 3, 0, 0
        self.layers = []

    def add(self, kind, numbers, out_channels, side):
        before = self.channels * self.side ** 2
        self.channels, self.side = out_channels, side
        self.most = max(self.most, 4 * (before + out_channels * side ** 2 + self.kept))
        self.layers.append((kind, 4 * numbers))

    def conv(self, out, k, stride=1, bias=False, into=None):
        into = into or self.channels
        self.add(f"conv {into}>{out} {k}x{k} stride {stride}{' bias' if bias else ''}", into * out * k * k + out * bias, out,
                 -(-self.side // stride))

    def linear(self, into, out):
        self.add(f"linear {into}>{out}", into * out + out, out, 1)

    def keep(self):
        self.kept = self.channels * self.side ** 2

    def join(self):
        self.kept = 0

    def pool(self):
        self.side //= 2


def vgg16():
    net = Net(224)
    for count, out in zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512)):
        for _ in range(count):
            net.conv(out, 3, bias=True)
        net.pool()
    net.linear(25088, 4096)
    net.linear(4096, 4096)
    net.linear(4096, 1000)
    return net


def resnet(counts):
    net = Net(224)
    net.conv(64, 7, 2)
    net.pool()
    for stage, count in enumerate(counts):
        width = 64 << stage
        for block in range(count):
            into, stride = net.channels, 2 if stage and block == 0 else 1
            net.keep()
            net.conv(width, 1)
            net.conv(width, 3, stride)
            net.conv(4 * width, 1)
            if block == 0:
                net.conv(4 * width, 1, stride, into=into)
                net.side *= stride  # of the block's input: the shortcut reads that
                net.side //= stride
            net.join()
    net.side = 1
    net.linear(2048, 1000)
    return net


def yolov3():
    net = Net(416)
    net.conv(32, 3)
    for out, count in zip((64, 128, 256, 512, 1024), (1, 2, 8, 8, 4)):
        net.conv(out, 3, 2)
        for _ in range(count):
            net.keep()
            net.conv(out // 2, 1)
            net.conv(out, 3)
            net.join()
    for out, into in zip((512, 256, 128), (1024, 768, 384)):
        net.channels = into
        for step in range(3):
            net.conv(out, 1)
            net.conv(2 * out, 3)
        net.conv(255, 1, bias=True)
        if out > 128:
            net.channels = out
            net.conv(out // 2, 1)
            net.side *= 2
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check")
    args = parser.parse_args()
    nets = {"vgg16": vgg16(), "resnet50": resnet((3, 4, 6, 3)), "resnet152": resnet((3, 8, 36, 3)), "yolov3": yolov3()}
    known = json.load(open(args.check, encoding="utf-8"))["models"] if args.check else {}
    models = {}
    for name, net in nets.items():
        total = sum(size for _, size in net.layers)
        if args.check and known[name]["bytes"] != total:
            sys.exit(f"{name}: {total} bytes, and {args.check} says {known[name]['bytes']}")
        models[name] = {"run_ms": {"1": round(TIMES[name][0], 3)}, "activation_bytes": {"1": net.most}, "source": TIMES[name][1],
                        "tensors": {f"layer{i}": {"bytes": size, "kind": kind} for i, (kind, size) in enumerate(net.layers)}}
    print("{" + f'"format": 1, "device": "NVIDIA TITAN Xp and Titan X, as published", "threads": 1,\n'
          f'"load": {{"mb_per_s": {RATE[0]}, "ms": 0}}, "load_source": {json.dumps(RATE[1])},\n"models": {{')
    print(",\n".join(f"{json.dumps(name)}: {json.dumps(model)}" for name, model in models.items()))
    print("}}")


main()
