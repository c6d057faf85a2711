#!/usr/bin/env python3
"""Whether two builds compute the same bits: thirty things done with each, on one machine.

usage: same_bits.py BEFORE AFTER [--only TEXT] [--jobs N]

BEFORE and AFTER are programs `culm`, or folders in which they were built. Six families of models train a few steps in each
layout, some in bf16, with dropout or with the loss of a worker, and everything that a run ends with is compared: each loss,
the weights (of the file, hashed here) and the state of the optimizer. So it is with graph networks; of merged models the
package is compared, file by file, and of models of pictures what they answer. --only: those that have TEXT in their names.
--jobs: how many at once. A table is printed; exit code 0: all are the same, 1: some differ or failed, 2: usage.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

from edge_harness import make_model, make_pictures
from harness import changed, fault, make_text, read_events, tiny_config, write_config
from samples import make_images, make_pairs
from vision_harness import images, model

RUN_LIMIT_S = 600
SGD = {"name": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005, "clip_norm": 0.0}
NORMALIZE = {"crop": "padded", "padding": 2, "flip": True, "normalize": "custom", "mean": 0.3, "std": 0.3}
FAMILIES = {
    "gpt2": {"arch": "gpt2", "layers": 3, "width": 64, "heads": 2, "context": 32, "vocab": 256},
    "bert": {"arch": "bert", "layers": 3, "width": 64, "heads": 2, "context": 32, "vocab": 264},
    "resnet": {"name": "resnet18", "width": 8, "small_stem": True, "image": 28, "channels": 1, "classes": 10},
    "vgg": {"name": "vgg11_bn", "width": 8, "image": 32, "channels": 1, "classes": 10, "pool": 1, "hidden": 64},
    "alexnet": {"name": "alexnet", "width": 8, "image": 64, "channels": 1, "classes": 10, "pool": 1, "hidden": 64},
    "gnmt": {"arch": "gnmt", "layers": 2, "width": 64, "context": 10, "source": 10, "vocab": 80, "label_smoothing": 0.1},
}
# family, pipelines, stages, and what else: "bf16", "dropout", "loss" (of a worker), "threads" (two each)
RUNS = [
    ("gpt2", 1, 1), ("gpt2", 1, 2, "bf16"), ("gpt2", 2, 2, "dropout"), ("gpt2", 2, 2, "loss", "dropout"),
    ("bert", 1, 1, "dropout"), ("bert", 1, 2), ("bert", 2, 2, "bf16"),
    ("resnet", 1, 1, "threads"), ("resnet", 1, 2, "bf16"), ("resnet", 2, 2),
    ("vgg", 1, 1, "bf16"), ("vgg", 1, 2), ("vgg", 2, 2, "dropout"),
    ("alexnet", 1, 1), ("alexnet", 1, 2, "dropout"), ("alexnet", 2, 2),
    ("gnmt", 1, 1), ("gnmt", 1, 2, "dropout"), ("gnmt", 2, 2, "threads"), ("gnmt", 2, 2, "bf16", "dropout"),
]
# architecture, servers, workers, and what else: "bf16", "loss" (of a server and a worker)
GRAPH_RUNS = [
    ("gcn", 1, 0), ("gcn", 2, 2, "loss"), ("sage", 2, 2), ("sage", 3, 1, "bf16"), ("gat", 1, 2), ("gat", 2, 1, "loss"),
]


def name_of(run):
    family, pipelines, stages, *extras = run
    return " ".join([family, f"{pipelines} x {stages}", *extras])


def name_of_graph(run):
    arch, servers, workers, *extras = run
    return " ".join([f"gnn {arch}", f"{servers} + {workers}", *extras])


def data_of(family, folder):
    """The same files for both builds; made once."""
    if family == "gpt2":
        return {"kind": "text", "path": os.path.join(folder, "text")}
    if family == "bert":
        return {"kind": "masked", "masked_of": "text", "path": os.path.join(folder, "text")}
    if family == "gnmt":
        return {"kind": "pairs", "path": os.path.join(folder, "pairs.tsv")}
    size = FAMILIES[family]["image"]
    return {"kind": "images", "path": [os.path.join(folder, f"{what}-{size}-10") for what in ("images", "labels")], **NORMALIZE}


def config_of(run, folder):
    family, pipelines, stages, *extras = run
    config = changed(tiny_config(""), pipelines=pipelines, stages=stages, steps=20, checkpoint__every=8,
                     redundancy="eager" if stages > 1 else "none", precision="bf16" if "bf16" in extras else "f32",
                     threads=2 if "threads" in extras else 1)
    config["model"] = {**FAMILIES[family], "dropout": 0.2 if "dropout" in extras else 0.0}
    config["data"] = data_of(family, folder)
    if config["data"]["kind"] == "images":
        config["optimizer"] = SGD
    return config


def sha256_of_tensors(path):
    """Of names and values, in the order of names: not what the build itself says of its weights."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        values = file.read()
    for name in sorted(set(header) - {"__metadata__"}):
        first, past = header[name]["data_offsets"]
        digest.update(name.encode() + b"\0" + values[first:past])
    return digest.hexdigest()


class Failed(Exception):
    """Says what went wrong, in a line."""


def run_of(culm, *words, cwd=None):
    """Standard output of the program, which ends well."""
    try:
        ended = subprocess.run([culm, *words], capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, cwd=cwd)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"had not ended after {RUN_LIMIT_S} s") from error
    if ended.returncode:
        raise Failed(f"exit code {ended.returncode}: {(ended.stderr.strip().splitlines() or [''])[-1]}")
    return ended.stdout


def result_of(folder, step):
    """What a run in this folder ended with: {"loss of step 1": ..., "weights": ..., "optimizer state": ...}."""
    events = read_events(os.path.join(folder, "events.jsonl"))
    result = {f"loss of {step} {event[step]}": event["loss_bits"] for event in events if event["event"] == step}
    result["weights"] = sha256_of_tensors(os.path.join(folder, "model.safetensors"))
    result["optimizer state"] = events[-1]["state_sha256"]
    return result, {event["event"] for event in events}


def train(culm, run, folder, out):
    os.mkdir(out)
    write_config(os.path.join(out, "config.yaml"), config_of(run, folder))
    words = fault(1, 3, "backward") if "loss" in run else ()
    run_of(culm, "train", os.path.join(out, "config.yaml"), "--out", os.path.join(out, "run"), "--json", *words)
    result, events = result_of(os.path.join(out, "run"), "step")
    if "loss" in run and "lost" not in events:
        raise Failed("no worker was lost")
    return result


def train_on_graph(culm, run, _, out):
    arch, servers, workers, *extras = run
    os.mkdir(out)
    run_of(culm, "gnn", "make", "sbm", "--vertices", "1500", "--edges", "12000", "--features", "12", "--classes", "3", "--out", "graph", cwd=out)
    write_config(os.path.join(out, "config.yaml"), {
        "graph": {"path": "graph"}, "model": {"arch": arch, "layers": 2, "width": 16, "dropout": 0.2}, "epochs": 12, "intervals": 6,
        "optimizer": {"lr": 0.01}, "precision": "bf16" if "bf16" in extras else "f32", "servers": servers, "workers": workers})
    faults = ("--fault", "node=worker:0,epoch=3", "--fault", "node=server:1,epoch=6") if "loss" in extras else ()
    run_of(culm, "gnn", "train", "config.yaml", "--out", "run", "--json", *faults, cwd=out)
    result, events = result_of(os.path.join(out, "run"), "epoch")
    if faults and "lost" not in events:
        raise Failed("no node was lost")
    return result


def merge(culm, method, _, out):
    """The files of a package."""
    os.mkdir(out)
    images(os.path.join(out, "images"))
    for name, seed, blocks in (("a", 1, [1, 1]), ("b", 2, [1, 2])):
        write_config(os.path.join(out, f"{name}.yaml"), model(seed, blocks))
    write_config(os.path.join(out, "w.yaml"), {
        "feeds": {"camera": {"file": "images"}}, "merge": {"steps": 20, "method": method, "lr": 0.003},
        "queries": [{"name": name, "model": f"{name}.yaml", "feed": "camera", "target": 0.2} for name in "ab"]})
    run_of(culm, "merge", "w.yaml", "--out", "package", "--json", cwd=out)
    found = {}
    for root, _, names in os.walk(os.path.join(out, "package")):
        for name in names:
            if name not in ("events.jsonl", "lock", "config.yaml") and not name.endswith(".tmp"):
                with open(os.path.join(root, name), "rb") as file:
                    found["file " + os.path.relpath(os.path.join(root, name), out)] = hashlib.sha256(file.read()).hexdigest()
    if not any(name.endswith(".safetensors") or "tensors" in name for name in found):
        raise Failed("the package has no tensors")
    return found


def predict(culm, kind, _, out):
    """What a model says of pictures."""
    os.mkdir(out)
    if kind == "boxes":
        make_model(os.path.join(out, "detector"), 5)
        make_pictures(os.path.join(out, "pictures"), 6)
        words = ("predict", "detector.cfg", "--weights", "detector.weights", "pictures", "--score", "0.05", "--json")
    else:
        images(os.path.join(out, "images"))
        write_config(os.path.join(out, "a.yaml"), model(1, [1, 2]))
        words = ("predict", "a.yaml", "images", "--json")
    lines = run_of(culm, *words, cwd=out).splitlines()
    if not lines:
        raise Failed("it said nothing")
    return {f"answer {number}": line for number, line in enumerate(lines)}


# name: what does it, and what that is given
THINGS = {
    **{name_of(run): (train, run) for run in RUNS},
    **{name_of_graph(run): (train_on_graph, run) for run in GRAPH_RUNS},
    **{f"merge {method}": (merge, method) for method in ("culm", "gemel-fixed")},
    **{f"predict {kind}": (predict, kind) for kind in ("boxes", "classes")},
}


def difference(before, after):
    """"" if there is none."""
    failed = [f"{whose}: {what}" for whose, what in (("BEFORE", before), ("AFTER", after)) if isinstance(what, str)]
    if failed:
        return "; ".join(failed)
    return next((f"first in: {what}" for what in {**before, **after} if before.get(what) != after.get(what)), "")


def compare(builds, name, folder):
    do, what = THINGS[name]
    results = []
    for which, culm in enumerate(builds):
        try:
            results.append(do(culm, what, folder, os.path.join(folder, f"{list(THINGS).index(name)}-{which}")))
        except Failed as error:
            results.append(str(error))
    hashes = [result if isinstance(result, str) else result.get("weights") or hashlib.sha256(repr(sorted(result.items())).encode()).hexdigest()
              for result in results]
    return ["-" if isinstance(result, str) else text[:12] for result, text in zip(results, hashes)], difference(*results)


def program(path):
    """The program in a folder of `./dev build`, of meson, or itself; None: there is none."""
    for inside in ("build/src/cli/culm", "src/cli/culm", ""):
        found = os.path.join(path, inside) if inside else path
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return os.path.abspath(found)
    return None


def main():
    options = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0], description=__doc__.splitlines()[0])
    options.add_argument("before", metavar="BEFORE")
    options.add_argument("after", metavar="AFTER")
    options.add_argument("--only", default="", metavar="TEXT")
    options.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), metavar="N")
    given = options.parse_args()
    builds = [program(path) for path in (given.before, given.after)]
    for path, culm in zip((given.before, given.after), builds):
        if culm is None:
            options.error(f"there is no program in '{path}'; give culm itself, or a folder in which it was built")
    names = [name for name in THINGS if given.only in name]
    if not names or given.jobs < 1:
        options.error(f"no run has '{given.only}' in its name" if not names else "--jobs: at least 1")
    for what, culm in zip(("BEFORE", "AFTER"), builds):
        version = subprocess.run([culm, "version"], stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
        print(f"{what:7} {version[0] if version else '?'}  {culm}")
    differing = []
    with tempfile.TemporaryDirectory(prefix="culm-same-bits-") as folder:
        make_text(os.path.join(folder, "text"))
        make_pairs(folder)
        for size in sorted({model["image"] for model in FAMILIES.values() if "image" in model}):
            make_images(folder, size)
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            for name, (hashes, why) in zip(names, pool.map(lambda name: compare(builds, name, folder), names)):
                print(f"{name:28} {hashes[0]:12}  {hashes[1]:12}  {'differ: ' + why if why else 'the same'}", flush=True)
                differing += [name] if why else []
    print(f"{len(names) - len(differing)} of {len(names)} are the same" + (f"; not: {', '.join(differing)}" if differing else ""))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
