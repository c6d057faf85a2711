#!/usr/bin/env python3
"""Models that come from one base and have drifted apart: what they share before any training, and what they give up if it turns out to
be too much.

usage: merge_cousins.py CULM [CASE...]
"""
import json
import math
import random
import struct

from harness import Cases, check, equal
from vision_harness import model

cases = Cases(job="edge")


def shapes(width=4, classes=4):
    """Of the parameters of a ResNet with two blocks."""
    found = {"conv1.weight": [width, 3, 3, 3]}

    def norm(name, channels):
        found.update({f"{name}.{part}": [channels] for part in ("weight", "bias", "running_mean", "running_var")})

    norm("bn1", width)
    for name, before, after in ("layer1.0", width, width), ("layer2.0", width, 2 * width):
        found[f"{name}.conv1.weight"] = [after, before, 3, 3]
        norm(f"{name}.bn1", after)
        found[f"{name}.conv2.weight"] = [after, after, 3, 3]
        norm(f"{name}.bn2", after)
        if before != after:
            found[f"{name}.downsample.0.weight"] = [after, before, 1, 1]
            norm(f"{name}.downsample.1", after)
    return {**found, "fc.weight": [classes, 2 * width], "fc.bias": [classes]}


def numbers(seed):
    draw = random.Random(seed)

    def of(name, shape):
        if len(shape) > 1:
            return [draw.gauss(0, math.sqrt(2 * shape[0] / math.prod(shape))) for _ in range(math.prod(shape))]
        if name.endswith("running_var"):
            return [1.0] * shape[0]
        return [float(name.endswith("weight")) + draw.gauss(0, 0.1) for _ in range(shape[0])]

    return {name: of(name, shape) for name, shape in shapes().items()}


def drifted(weights, apart, seed):
    """The same with noise on the weights of each layer, in proportion to them."""
    draw = random.Random(seed)
    moved = {}
    for name, values in weights.items():
        size = apart * math.sqrt(sum(value * value for value in values) / len(values)) if len(shapes()[name]) > 1 else 0
        moved[name] = [value + draw.gauss(0, size) if size else value for value in values]
    return moved


def written(path, weights):
    header, at = {}, 0
    for name, values in weights.items():
        header[name] = {"dtype": "F32", "shape": shapes()[name], "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in weights.values():
            file.write(struct.pack(f"<{len(values)}f", *values))


def pictures(path, count, dull, seed=7):
    """Blobs that are brighter or darker to one side; those whose numbers are in `dull` are bright and plain."""
    draw = random.Random(seed)
    pixels = bytearray()
    for i in range(count):
        level, slope, noise = draw.randrange(256), draw.randrange(-24, 25), 1
        if i in dull:
            level, slope, noise = 200 + level // 16, slope // 8, 4
        for y in range(8):
            for x in range(8):
                for channel in range(3):
                    pixels.append(max(0, min(255, level + slope * (x if channel else y) + draw.randrange(-40, 41) // noise)))
    with open(path, "wb") as file:
        file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, count, 8, 8, 3) + bytes(pixels))


def cousins(bench, seed, apart, count, dull=(), names="ab", **merge):
    """A workload of a model and others that have drifted away from it."""
    pictures(bench.path("images"), count, dull)
    base = numbers(seed)
    for name in names:
        written(bench.path(f"{name}.safetensors"), base if name == "a" else drifted(base, apart, ord(name)))
        config = model(1, [1, 1])
        config["model"]["init"] = bench.path(f"{name}.safetensors")
        bench.config(config, f"{name}.yaml")
    queries = [{"name": name, "model": f"{name}.yaml", "feed": "camera", "target": 0.95} for name in names]
    return bench.config({"feeds": {"camera": {"file": "images"}}, "queries": queries, "merge": merge}, "w.yaml")


def merged(bench, path):
    ended = bench.run("merge", path, "--out", bench.path("package"), "--json")
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    return [json.loads(line) for line in ended.out.splitlines()]


def kept_through_ties(bench):
    """A package that gains a query keeps what it saved: layers that are tied for the sake of the new one leave what is kept alone."""
    first = merged(bench, cousins(bench, 38, 0.24, 300, dull=range(210), names="ab", steps=0))[-1]
    path = cousins(bench, 38, 0.24, 300, dull=range(210), names="abc", steps=0)
    ended = bench.run("merge", path, "--out", bench.path("package"), "--resume", "--json")
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    second = json.loads(ended.out.splitlines()[-1])
    saved = [done["bytes"] - done["distinct_bytes"] for done in (first, second)]
    check(0 < saved[0] <= saved[1], f"bytes saved before and after: {saved}")


def before_training(bench):
    """All that the two have in common is too much without training; most of it is not, and ships before the first step."""
    events = merged(bench, cousins(bench, 3, 0.3, 400, steps=200))
    kinds = [event["event"] for event in events]
    check("step" in kinds, "nothing was trained")
    first = [event for event in events[:kinds.index("step")] if event["event"] == "merged"]
    check(first, "nothing shipped before training")
    done = events[-1]
    check(2 * first[-1]["saved_bytes"] >= done["possible_bytes"], f"{first[-1]['saved_bytes']} bytes of {done['possible_bytes']} before training")
    check(done["bytes"] - done["distinct_bytes"] >= first[-1]["saved_bytes"], "less is saved in the end")
    for query in done["queries"]:
        check(query["merged"] >= query["target"] * query["original"], f"misses its target: {query}")


cases.add("a package that gains a query keeps what it saved", kept_through_ties)
cases.add("cousins share layers before any training", before_training)


def some_are_given_up(bench):
    """What merging sees is dull, so that all passes; at the end of the feed, that misses its target. Some layers go, not all."""
    events = merged(bench, cousins(bench, 3, 0.4, 300, dull=range(210), steps=0))
    shipped = [event for event in events if event["event"] == "merged"][-1]["saved_bytes"]
    done = events[-1]
    saved = done["bytes"] - done["distinct_bytes"]
    check(0.1 * done["bytes"] < saved < shipped, f"{saved} of {done['bytes']} bytes saved in the end, and {shipped} before")
    told = [event["message"] for event in events if event["event"] == "warning"]
    check(len(told) == 1 and "query 'b'" in told[0] and "so it gives up some of the layers" in told[0], f"warnings: {told}")
    for query in done["queries"]:
        check(query["merged"] >= query["target"] * query["original"], f"misses its target: {query}")
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--check", "--json").out)
    equal((shown["total_bytes"], shown["distinct_bytes"]), (done["bytes"], done["distinct_bytes"]), "bytes, counted again")


cases.add("a miss in the end costs some layers, not all", some_are_given_up)


def no_unseen_frame_is_let_off(bench):
    """Only the frames that are set aside, the first third of those held out, are not dull: a miss there counts, too."""
    path = cousins(bench, 3, 0.4, 300, dull=[*range(210), *range(240, 300)], steps=0)
    events = merged(bench, path)
    done = events[-1]
    check(done["bytes"] - done["distinct_bytes"] > 0.1 * done["bytes"], f"nothing is saved: {done}")

    def said(what):
        answers = bench.run("predict", what, "images", "--frames", "210:300", "--json").out.splitlines()
        return [json.loads(line)["classes"][0]["class"] for line in answers]

    pairs = list(zip(said("b.yaml"), said(bench.path("package") + ":b")))
    equal(len(pairs), 90, "answers")
    right = sum(one == other for one, other in pairs)
    check(right >= 0.95 * len(pairs), f"{right} answers of {len(pairs)} are the original's")
    told = [event["message"] for event in events if event["event"] == "warning"]
    check(len(told) == 1 and "so it gives up some of the layers" in told[0], f"warnings: {told}")


cases.add("frames set aside are unseen ones, too", no_unseen_frame_is_let_off)


def more_pictures(bench):
    """What merging sees of the feed is dull; with pictures from elsewhere more of what is shared holds at its end. A folder that is not there
    is refused, and nothing is written."""
    path = cousins(bench, 3, 0.2, 300, dull=range(210), names="abc", steps=0)
    pictures(bench.path("more"), 100, (), seed=8)
    saved = {}
    for name, words in ("without", []), ("with", ["--set", "merge.pictures=more"]):
        ended = bench.run("merge", path, "--out", bench.path(name), "--json", *words)
        equal(ended.code, 0, f"exit code; {ended.err!r}")
        done = json.loads(ended.out.splitlines()[-1])
        saved[name] = done["bytes"] - done["distinct_bytes"]
        for query in done["queries"]:
            check(query["merged"] >= query["target"] * query["original"], f"misses its target: {query}")
    check(saved["with"] > saved["without"], f"bytes saved: {saved}")
    ended = bench.run("merge", path, "--out", bench.path("none"), "--set", "merge.pictures=absent")
    equal(ended.code, 3, "exit code")
    check(ended.err.count("\n") == 1 and "merge.pictures" in ended.err and "absent" in ended.err, ended.err)


cases.add("pictures from elsewhere to fit to", more_pictures)

if __name__ == "__main__":
    cases.run()
