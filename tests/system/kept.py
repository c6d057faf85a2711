#!/usr/bin/env python3
"""Files that earlier programs have written, small ones of every format that has a version, are read by this one and gone on with, to the
same bits; and what a later program may write is refused with one line.

usage: kept.py CULM [CASE...]

tests/kept has an archive for each set of formats (its README says how they are made and when another one is due).
"""
import glob
import hashlib
import json
import math
import os
import re
import tarfile

from harness import Cases, check, equal

cases = Cases()
ARCHIVES = sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../kept/*.tar.gz")))


def unpack(bench, archive):
    """Its files, in the folder where commands run; what must come of them."""
    with tarfile.open(archive) as files:
        files.extractall(bench.folder)
    with open(bench.path("expected.json"), encoding="utf-8") as file:
        return json.load(file)


def alike(got, wanted, what, exact=False):
    """All that is wanted is there: later programs may say more. The last bits of what is counted of time are not promised."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            check(key in got, f"{what} has no '{key}'")
            alike(got[key], value, f"{what}, {key}", exact)
    elif isinstance(wanted, list):
        equal(len(got), len(wanted), f"{what}, length")
        for index, value in enumerate(wanted):
            alike(got[index], value, f"{what}, {index}", exact)
    elif isinstance(wanted, float) and not exact:
        check(math.isclose(got, wanted, rel_tol=1e-9), f"{what}: {got!r} instead of {wanted!r}")
    else:
        equal(got, wanted, what)


def said(bench, *words):
    ended = bench.run(*words)
    equal(ended.code, 0, f"exit code of culm {' '.join(words)}; {ended.err.strip()[-300:]}")
    return ended.out


def answer(bench, *words):
    return json.loads(said(bench, *words, "--json"))


def goes_on(bench, wanted, out, *words):
    """--resume ends with the hashes of the run that was not disturbed."""
    events = [json.loads(line) for line in said(bench, *words, "--out", out, "--resume", "--json").splitlines()]
    check(any(event["event"] == "resumed" for event in events), "it did not go on, but began anew")
    alike(events[-1], wanted, f"the end of {out}")


def expected_of(archive):
    with tarfile.open(archive) as files:
        return json.load(files.extractfile("expected.json"))


def training(bench, archive):
    wanted = unpack(bench, archive)["train"]
    alike(answer(bench, "report", "train"), wanted["report"], "the report")
    alike(answer(bench, "eval", "train/checkpoints/step-00000004"), wanted["eval"], "the evaluation", exact=True)
    equal(answer(bench, "ckpt", "show", "train/checkpoints/step-00000004")["step"], 4, "the step of the checkpoint")
    check("goodput" in said(bench, "report", "train"), "the report says nothing of goodput")
    goes_on(bench, wanted["done"], "train", "train", "train.yaml")


def trial(bench, archive):
    """What --resume knows of a trial of algorithms from plan.json alone."""
    wanted = unpack(bench, archive)["trial"]
    goes_on(bench, wanted["done"], "trial", "train", "trial.yaml")


def graph_networks(bench, archive):
    wanted = unpack(bench, archive)["gnn"]
    alike(answer(bench, "gnn", "show", "graph"), wanted["show"], "the graph")
    alike(answer(bench, "gnn", "partition", "graph", "--intervals", "4", "--method", "cut.npy"), wanted["partition"], "the partition")
    alike(answer(bench, "report", "gnn"), wanted["report"], "the report")
    alike(answer(bench, "gnn", "eval", "gnn/checkpoints/step-00000004"), wanted["eval"], "the evaluation", exact=True)
    goes_on(bench, wanted["done"], "gnn", "gnn", "train", "gnn.yaml")


def merging(bench, archive):
    wanted = unpack(bench, archive)
    shown = answer(bench, "merge", "show", "package", "--check")
    alike(shown, wanted["merge"]["show"] | {"checked": True}, "the package")
    if "current" in wanted["merge"]:
        said(bench, "merge", "w.yaml", "--out", "searched", "--resume")
        with open(bench.path("searched", "current"), encoding="ascii") as file:
            equal(file.read(), wanted["merge"]["current"], "the package whose search went on")
    alike(answer(bench, "edge", "plan", "w.yaml", "--package", "package", "--profile", "profile.json"), wanted["edge"]["plan"], "the plan")


# A file, what says its version there, what a later program would say, and a command that reads it.
LATER = {
    "a checkpoint": ("train/checkpoints/step-00000004/manifest.json", r"culm-checkpoint-1", "culm-checkpoint-2",
                     ("eval", "train/checkpoints/step-00000004")),
    "a checkpoint of a graph network": ("gnn/checkpoints/step-00000004/manifest.json", r"culm-checkpoint-1", "culm-checkpoint-2",
                                        ("gnn", "eval", "gnn/checkpoints/step-00000004")),
    "a checkpoint to go on from": ("train/checkpoints/step-00000004/manifest.json", r"culm-checkpoint-1", "culm-checkpoint-2",
                                   ("train", "train.yaml", "--out", "train", "--resume")),
    "a graph": ("graph/graph.json", r"culm-graph-1", "culm-graph-2", ("gnn", "show", "graph")),
    "a plan": ("train/plan.json", r'"format": 1\b', '"format": 2', ("train", "train.yaml", "--plan", "train/plan.json", "--out", "new")),
    "a plan to go on with": ("train/plan.json", r'"format": 1\b', '"format": 2', ("train", "train.yaml", "--out", "train", "--resume")),
    "a package": ("package/rounds/7.json", r"culm-package-1", "culm-package-2", ("merge", "show", "package")),
    "a package that answers": ("package/rounds/7.json", r"culm-package-1", "culm-package-2",
                               ("edge", "plan", "w.yaml", "--package", "package", "--profile", "profile.json")),
    "a profile": ("profile.json", r'"format": 1\b', '"format": 2',
                  ("edge", "plan", "w.yaml", "--package", "package", "--profile", "profile.json")),
}


def change(bench, path, says, would_say):
    """What the file at `path` says of its format becomes what a later program would say."""
    with open(bench.path(path), "rb") as file:
        text = file.read()
    changed, count = re.subn(says.encode(), would_say.encode(), text)
    check(count > 0, f"{path} does not say {says}")
    with open(bench.path(path), "wb") as file:
        file.write(changed)
    if path.startswith("package/"):  # what is current is known by its digest
        with open(bench.path("package", "current"), "w", encoding="ascii") as file:
            file.write(f"{os.path.basename(path).split('.')[0]} {hashlib.sha256(changed).hexdigest()}\n")


def later(bench, name):
    unpack(bench, ARCHIVES[-1])
    path, says, would_say, words = LATER[name]
    change(bench, path, says, would_say)
    ended = bench.run(*words)
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code, and lines of {ended.err!r}")
    check(path.split("/")[0] in ended.err, f"it does not say of what: {ended.err!r}")
    bench.note(ended.err.strip())


def later_search(bench):
    """What only saves time is not refused: the round that was searched begins again, and the package is the same."""
    wanted = unpack(bench, ARCHIVES[-1])["merge"]["current"]
    change(bench, "searched/search", "culm-gemel-search-1", "culm-gemel-search-2")
    said(bench, "merge", "w.yaml", "--out", "searched", "--resume")
    with open(bench.path("searched", "current"), encoding="ascii") as file:
        equal(file.read(), wanted, "the package")


for one in ARCHIVES:
    number = os.path.basename(one).split(".")[0]
    for part, read in (("train", training), ("trial", trial), ("gnn", graph_networks), ("merge", merging)):
        if part in expected_of(one):
            cases.add(f"{number}: {read.__name__.replace('_', ' ')}", read, one, first=True)
for one in LATER:
    cases.add(f"{one} of a later version is refused", later, one)
cases.add("a search of a later version begins again", later_search)

if __name__ == "__main__":
    cases.run()
