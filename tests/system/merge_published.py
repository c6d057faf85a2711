#!/usr/bin/env python3
"""What merging is worth, on published models and frames that it has not seen: the least that docs/merge.md promises of what needs no
training. Skipped without ../shared/data/edge, where these models are.

usage: merge_published.py CULM [CASE...]
"""
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys

from harness import Cases, Skipped, check, equal

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.path.join(REPOSITORY, "..", "shared", "data", "edge")
cases = Cases(job="edge")


def beginning(bench, path, count):
    """A file with so many of the clip's frames, of the images or of the labels in `path`."""
    out = bench.path(os.path.basename(path).removesuffix(".gz"))
    if path.endswith(".gz"):
        with gzip.open(path) as source, open(out, "wb") as file:
            magic = source.read(4)
            whole, *dims = struct.unpack(f">{magic[3]}I", source.read(4 * magic[3]))
            file.write(magic + struct.pack(f">{magic[3]}I", count, *dims))
            content = source.read()
            file.write(content[:len(content) // whole * count])
    else:
        if not shutil.which("ffmpeg"):
            raise Skipped("ffmpeg is not installed")
        subprocess.run(["ffmpeg", "-loglevel", "error", "-i", path, "-c", "copy", "-frames:v", str(count), out], check=True)
    return out


def untrained(bench, name, files, count, frames, least):
    """Most of what two or more models could share, they do at once, and each keeps its target. Of each file the beginning will do."""
    if not os.path.isdir(SHARED):
        raise Skipped("needs ../shared/data/edge")
    script = os.path.join(REPOSITORY, "bench", "edge", "workloads.py")
    subprocess.run([sys.executable, script, SHARED, bench.folder, name], check=True, stdout=subprocess.DEVNULL)
    with open(bench.path(f"{name}.yaml"), encoding="utf-8") as file:
        text = file.read()
    for path in files:
        whole = os.path.join(os.path.abspath(SHARED), path)
        check(whole in text, f"the workload does not name {whole}")
        text = text.replace(whole, beginning(bench, whole, count))
    with open(bench.path(f"{name}.yaml"), "w", encoding="utf-8") as file:
        file.write(text)
    ended = bench.run("merge", bench.path(f"{name}.yaml"), "--out", bench.path("package"), "--json", "--set", "merge.steps=0",
                      "--set", f"merge.frames={frames}", limit_s=1200)
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    done = [json.loads(line) for line in ended.out.splitlines()][-1]
    bench.note(f"{done['saved']:.3f} saved, in {done['cpu_s']:.0f} s of a processor")
    check(done["saved"] >= least, f"saved {done['saved']:.3f}, less than {least}")
    for query in done["queries"]:
        check(query["merged"] >= query["target"] * query["original"], f"misses its target: {query}")


cases.add("two detectors", untrained, "nano", ["clips/one-by-one-person-detection.mp4"], 500, 60, 0.40, seconds=20)
cases.add("four classifiers", untrained, "cifar", ["images/cifar10-clean-images-idx4-ubyte.gz", "images/cifar10-clean-labels-idx1-ubyte.gz"],
          1500, 200, 0.87, seconds=15)

if __name__ == "__main__":
    cases.run()
