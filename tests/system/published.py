#!/usr/bin/env python3
"""What merging is worth, on published models and frames that it has not seen: the least that docs/merge.md promises of what needs no
training. Skipped without ../shared/data/edge, where these models are.

usage: published.py CULM [CASE...]
"""
import json
import os
import subprocess
import sys

from harness import Cases, Skipped, check, equal

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.path.join(REPOSITORY, "..", "shared", "data", "edge")
cases = Cases(job="edge")


def untrained(bench, name, frames, least):
    """Most of what two or more models could share, they do at once, and each keeps its target."""
    if not os.path.isdir(SHARED):
        raise Skipped("needs ../shared/data/edge")
    script = os.path.join(REPOSITORY, "bench", "edge", "workloads.py")
    subprocess.run([sys.executable, script, SHARED, bench.folder, name], check=True, stdout=subprocess.DEVNULL)
    ended = bench.run("merge", bench.path(f"{name}.yaml"), "--out", bench.path("package"), "--json", "--set", "merge.steps=0",
                      "--set", f"merge.frames={frames}", limit_s=1200)
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    done = [json.loads(line) for line in ended.out.splitlines()][-1]
    bench.note(f"{done['saved']:.3f} saved, in {done['cpu_s']:.0f} s of a processor")
    check(done["saved"] >= least, f"saved {done['saved']:.3f}, less than {least}")
    for query in done["queries"]:
        check(query["merged"] >= query["target"] * query["original"], f"misses its target: {query}")


cases.add("two detectors", untrained, "nano", 200, 0.40)
cases.add("four classifiers", untrained, "cifar", 400, 0.87)

if __name__ == "__main__":
    cases.run()
