#!/usr/bin/env python3
"""What child processes inherit: what is meant for them, and nothing else that the process which starts them has open.

usage: inherited.py CULM [CASE...]

A library (inherited.c) is preloaded into all of them, which notes what a process has open before anything runs in it. In the
process that starts the others it also opens something that is not close-on-exec, as a library may, and a program that runs culm.
"""
import os
import re
import shutil
import subprocess

import lambda_standin
from edge_harness import begin, end, fresh, two_models, until, workload
from gnn_harness import ENDLESS, PATIENT, Graphs
from harness import Cases, Skipped, changed, check, equal, tiny_config

cases = Cases(kind="waits")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12")

# Descriptors of a node: the token, its log, and the pipe by which it says that it has become ready.
NODE = [("0", r"pipe:.*"), ("1", r".*run/logs/node-\d+\.log"), ("2", r".*run/logs/node-\d+\.log"), ("3", r"pipe:.*")]


class Noted:
    """What was inherited by processes that a command starts; `env` is for the command."""

    def __init__(self, bench):
        library = os.path.join(os.path.dirname(bench.culm), "../../tests/system/inherited.so")
        if not os.path.exists(library):
            raise Skipped("tests/system/inherited.so is not built")
        self.folder = bench.path("inherited")
        os.mkdir(self.folder)
        sanitized = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.env = os.environ | {"LD_PRELOAD": os.path.abspath(library), "ASAN_OPTIONS": sanitized, "INHERITED": self.folder, "INHERITED_LEAK": "1"}

    def all(self, pattern):
        """Of each process with such a command line, what it had open: [(number, what)]."""
        found = []
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                command, *lines = file.read().splitlines()
            if not name.startswith(".") and re.search(pattern, command):
                found.append([tuple(line.split(" ", 1)) for line in lines])
        return found

    def check(self, pattern, count, wanted):
        """There were so many such processes, or more, and each had this open: (number, pattern)."""
        found = self.all(pattern)
        check(len(found) >= count, f"{len(found)} processes '{pattern}' of {len(os.listdir(self.folder))} instead of {count}")
        for had in found:
            same = [number for number, _ in had] == [number for number, _ in wanted] and all(
                re.fullmatch(pattern_of, what) for (_, what), (_, pattern_of) in zip(had, wanted))
            check(same, f"'{pattern}' had {had} open instead of {wanted}")


def training(bench):
    """Workers, one that takes the place of a lost one, and the evaluation of a checkpoint."""
    noted = Noted(bench)
    config = changed(tiny_config(cases.text), steps=4, eval={"every": 4}, data__held_out=0.2)
    process = bench.start(*bench.train_words(config, "run", "--fault", "worker=1,step=2,phase=forward,how=kill"), env=noted.env)
    run = bench.trained(process)
    equal([event["ok"] for event in run.all("eval")], [True], "evaluations")
    noted.check(r" worker ", 7, NODE)
    noted.check(r" eval ", 1, [("0", "/dev/null"), ("1", r".*/run/logs/eval-4\.json"), ("2", r".*/run/logs/eval-4\.log")])


def graph_networks(bench):
    """Nodes of each role; and a server that is started while libcurl has connections open to functions that are workers."""
    noted = Noted(bench)
    config = {"graph": {"path": graphs.path, "features": "as-is"}, "model": {"layers": 2, "width": 8}, "intervals": 8, "servers": 2,
              "parameter_servers": 1, "workers": 2, "cluster": PATIENT, **ENDLESS}
    run = graphs.going(bench, config, "run", env=noted.env)
    run.wait(lambda: len(run.came()) >= 2 and run.told("epoch"), "workers")
    run.stop()
    noted.check(r" gnn-node ", 5, NODE)
    shutil.rmtree(noted.folder)
    os.mkdir(noted.folder)
    config |= {"engine": "lambda", "lambda": {"function": "worker", "region": lambda_standin.REGION}}
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("function.log")) as service:
        run = graphs.going(bench, config, "another-run", "--listen", "127.0.0.1:0", "--set", f"lambda.endpoint={service.endpoint}",
                           env=lambda_standin.ENVIRONMENT | noted.env)
        run.wait(lambda: run.told("worker") and run.told("epoch"), "workers")
        run.kill("server", 0)
        run.wait(lambda: len(run.came("server")) > 2, "another server")
        run.stop()
    noted.check(r" gnn-node ", 4, NODE)


def feeds(bench):
    """ffmpeg, which reads a feed."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    noted = Noted(bench)
    two_models(bench)
    made = subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-framerate", "10", "-i", bench.path("pictures", "%04d.png"), "-c:v", "ffv1",
                           bench.path("clip.mkv")], capture_output=True, text=True, check=False)
    equal(made.returncode, 0, f"ffmpeg: {made.stderr}")
    process = begin(bench, workload(bench, [("one", "a")], feed="clip.mkv"), env=noted.env)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    end(bench, process)
    noted.check(r"^ffmpeg ", 1, [("0", "/dev/null"), ("1", r"pipe:.*"), ("2", r"pipe:.*")])


cases.add("workers of training, and evaluations", training, first=True)
cases.add("nodes of graph networks", graph_networks)
cases.add("ffmpeg", feeds)

if __name__ == "__main__":
    cases.run()
