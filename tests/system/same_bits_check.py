#!/usr/bin/env python3
"""The comparison of two builds (same_bits.py) says that a build is the same as itself, and finds what is not."""
import os
import subprocess
import sys

from harness import Cases, check, equal

cases = Cases(kind="waits", job="train")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "same_bits.py")


def compared(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)


def stand_in(bench, name, line):
    """A build that is this one with a difference."""
    path = bench.path(name)
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\n[ \"$1\" = train ] || exec {bench.culm} \"$@\"\n{line}\n")
    os.chmod(path, 0o755)
    return path


def same(bench):
    told = compared(bench.culm, bench.culm, "--only", "gpt2 2 x 2")
    equal((told.returncode, told.stderr), (0, ""), "exit code and standard error")
    lines = told.stdout.splitlines()
    equal([line.split("  ")[0] for line in lines if line.endswith("the same") and "  " in line], ["gpt2 2 x 2 dropout", "gpt2 2 x 2 loss dropout"], "runs")
    equal(lines[-1], "2 of 2 are the same", "the last line")
    for what, count in (("gnn gcn", 2), ("merge culm", 1), ("predict", 2)):
        told = compared(bench.culm, bench.culm, "--only", what)
        equal((told.returncode, told.stdout.splitlines()[-1]), (0, f"{count} of {count} are the same"), what)


def different(bench):
    other = stand_in(bench, "other", f"exec {bench.culm} \"$@\" --set steps=19")
    told = compared(bench.culm, other, "--only", "gnmt 1 x 1")
    equal(told.returncode, 1, "exit code")
    check("differ: first in: loss of step " in told.stdout and told.stdout.endswith("0 of 1 are the same; not: gnmt 1 x 1\n"), told.stdout)
    weights = stand_in(bench, "weights", f"{bench.culm} \"$@\" || exit\nprintf x | dd of=\"$4/model.safetensors\" bs=1 seek=$(($(stat -c %s \"$4/model.safetensors\") - 1)) conv=notrunc 2>/dev/null")
    told = compared(weights, bench.culm, "--only", "gnmt 1 x 1")
    check(told.returncode == 1 and "differ: first in: weights" in told.stdout, told.stdout)
    answers = stand_in(bench, "answers", "")
    with open(answers, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\n{bench.culm} \"$@\" | sed s/score/sc0re/\n")
    told = compared(bench.culm, answers, "--only", "predict classes")
    check(told.returncode == 1 and "differ: first in: answer 0" in told.stdout, told.stdout)
    told = compared(bench.culm, stand_in(bench, "failing", "echo out of order >&2; exit 1"), "--only", "gnmt 1 x 1")
    check(told.returncode == 1 and "differ: AFTER: exit code 1: out of order" in told.stdout, told.stdout)


def usage(bench):
    for words in (), (bench.culm,), (bench.culm, bench.path("none")), (bench.culm, bench.culm, "--only", "nothing"):
        told = compared(*words)
        equal((told.returncode, told.stdout), (2, ""), f"exit code and standard output of {words}")
        check(told.stderr.startswith("usage: same_bits.py BEFORE AFTER"), told.stderr)


cases.add("a build is the same as itself", same, first=True)
cases.add("differences are found", different, first=True)
cases.add("how it is called", usage)

if __name__ == "__main__":
    cases.run()
