#!/usr/bin/env python3
"""Writes three detectors that are near cousins, and a workload of them.

    python3 cousins.py ../shared/data/edge FOLDER [--apart 0.02] [--detector yolo-fastest-1.0-xl-voc]

The detectors are the one named and two that have drifted away from it: to each weight of a convolution a random number is
added, whose deviation is APART (for the third twice as much) of that of all weights of its layer. The same numbers come out every
time. They have one structure, and two thirds of their bytes could be shared. Two of them see the first 500 frames of clips/one-by-one-person-detection.mp4, the third the first 50
of clips/store-aisle-detection.gif. FOLDER/cousins.yaml is the workload. Needs ffmpeg.
"""
import argparse
import array
import math
import os
import random
import shutil
import subprocess
import sys

HEADER = 20  # bytes: major, minor, revision, and the images that were seen
CLIPS = {"hall": ("clips/one-by-one-person-detection.mp4", 500), "shop": ("clips/store-aisle-detection.gif", 50)}


def numbers(path):
    """The header and the weights of a darknet file."""
    with open(path, "rb") as file:
        header = file.read(HEADER)
        values = array.array("f", file.read())
    if sys.byteorder == "big":
        values.byteswap()
    return header, values


def convolutions(path):
    """Of each convolution of a cfg file: how many channels it makes, whether a batch norm follows, and how many weights it has."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].strip() for line in file]
    sections = []
    for line in filter(None, lines):
        if line.startswith("["):
            sections.append({"is": line[1:-1]})
        else:
            key, value = line.split("=", 1)
            sections[-1][key.strip()] = value.strip()
    made, found, now = [], [], int(sections[0].get("channels", 3))
    for section in sections[1:]:
        if section["is"] == "convolutional":
            filters = int(section["filters"])
            weights = filters * now // int(section.get("groups", 1)) * int(section.get("size", 1)) ** 2
            found.append((filters, int(section.get("batch_normalize", 0)), weights))
            now = filters
        elif section["is"] == "route":
            layers = [int(layer) for layer in section["layers"].split(",")]
            now = sum(made[layer if layer >= 0 else len(made) + layer] for layer in layers)
        made.append(now)
    return found


def drifted(values, layers, apart, seed):
    """The numbers of a file in the order of its layers: bias, of a batch norm scale, mean and variance too, weights."""
    source = random.Random(seed)
    values, at = array.array("f", values), 0
    for filters, norm, weights in layers:
        at += filters * (4 if norm else 1)
        deviation = math.sqrt(sum(value * value for value in values[at:at + weights]) / weights)
        for i in range(at, at + weights):
            values[i] += source.gauss(0, apart * deviation)
        at += weights
    if at != len(values):
        sys.exit(f"the layers have {at} numbers, and the file {len(values)}")
    return values


def beginning(path, out, frames):
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-i", path, "-frames:v", str(frames), "-fps_mode", "passthrough", "-c:v", "ffv1",
                    "-pix_fmt", "bgr0", out], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("edge", help="folder with detectors and clips")
    parser.add_argument("folder")
    parser.add_argument("--apart", type=float, default=0.02, help="how far the second has drifted from the first")
    parser.add_argument("--detector", default="yolo-fastest-1.0-xl-voc", help="what they come from, of 20 classes")
    args = parser.parse_args()
    edge, folder = os.path.abspath(args.edge), os.path.abspath(args.folder)
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(edge, "detectors", args.detector)
    header, weights = numbers(base + ".weights")
    layers = convolutions(base + ".cfg")
    lines = []
    for which, feed in enumerate(("hall", "hall", "shop")):
        name = os.path.join(folder, f"cousin{which}-voc")
        shutil.copyfile(base + ".cfg", name + ".cfg")
        own = drifted(weights, layers, which * args.apart, which)
        if sys.byteorder == "big":
            own.byteswap()
        with open(name + ".weights", "wb") as file:
            file.write(header + own.tobytes())
        lines.append(f"  - {{name: cousin{which}, model: {name}.cfg, feed: {feed}, target: 0.95}}\n")
    shutil.copyfile(os.path.join(edge, "detectors", "voc.names"), os.path.join(folder, "voc.names"))
    feeds = []
    for feed, (path, frames) in CLIPS.items():
        clip = os.path.join(folder, feed + ".mkv")
        beginning(os.path.join(edge, path), clip, frames)
        feeds.append(f"  {feed}: {{file: {clip}, loop: true}}\n")
    with open(os.path.join(folder, "cousins.yaml"), "w", encoding="utf-8") as file:
        file.write("feeds:\n" + "".join(feeds) + "queries:\n" + "".join(lines) + "merge: {method: culm, held_out: 0.3, seed: 1}\n")
    print(os.path.join(folder, "cousins.yaml"))


main()
