#!/usr/bin/env python3
"""Workers of `culm gnn train` that get their runs from a Gearman job server, a real one.

Whoever is killed, the bits are those of one server and one parameter server without workers.
"""
import json
import os
import socket
import subprocess

from gearman_service import Service
from gnn_harness import ENDLESS, PATIENT, Graphs
from harness import Cases, changed, check, equal

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 8},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 2,
    "engine": "gearman",
    "cluster": PATIENT,
    **ENDLESS,
}
LISTEN = "--listen", "127.0.0.1:0"


def start(bench, service, name="run", **changes):
    config = changed(CONFIG, gearman={"server": service.address}, **changes)
    return graphs.going(bench, config, name, *LISTEN)


def finish(bench, going, **changes):
    """A few epochs more, and the end of it."""
    going.more_epochs()
    going.stop()
    graphs.check_losses(bench, going, changed(CONFIG, **changes))


def plain(bench):
    """Workers come by jobs, work, and are there for the next run."""
    with Service(bench, workers=2) as service:
        for name in "first", "second":
            run = start(bench, service, name)
            run.wait(lambda: len(run.came()) == 2, "both workers")
            run.wait(lambda: any(event["worker_bytes"] for event in run.told("epoch")), "their work")
            finish(bench, run)
            equal(run.lost(), [], "losses")
        for worker in service.workers:
            equal(worker.poll(), None, "a worker's exit code")


def lost_worker(bench):
    """Its job waits until there is somebody who takes it."""
    with Service(bench, workers=2) as service:
        run = start(bench, service)
        run.wait(lambda: len(run.came()) == 2, "both workers")
        service.workers[0].kill()
        run.wait(run.lost, "the loss")
        service.add()
        run.wait(lambda: len(run.came()) == 3, "a third worker")
        finish(bench, run)
        equal(run.lost(), ["worker"], "who was lost")


def lost_idle(bench):
    """Its job is handed on to one that waits for a job, which comes at once."""
    with Service(bench, workers=2) as service:
        run = start(bench, service)
        run.wait(lambda: len(run.came()) == 2, "both workers")
        service.add()
        service.workers[0].kill()
        run.wait(lambda: len(run.came()) == 3, "the third worker")
        finish(bench, run)
        equal(run.lost(), ["worker"], "who was lost")


def lost_server(bench):
    """The job server is killed: who is there works on; and restarted: who is wanted comes by it."""
    def gone():
        return [event for event in run.told("error") if "is gone" in event["message"]]

    with Service(bench, workers=1) as service:
        run = start(bench, service)
        run.wait(lambda: len(run.came()) == 1, "a worker")
        service.kill()
        run.wait(gone, "a word that it has gone")
        run.more_epochs(20)
        check(service.start(), "the job server does not start again")
        service.add()
        run.wait(lambda: len(run.came()) == 2, "a second worker")
        finish(bench, run)
        equal(run.lost(), [], "losses")
        equal(len(gone()), 1, "how often it is told")


def two_runs(bench):
    """They share a job server and its workers."""
    with Service(bench, workers=4) as service:
        runs = [start(bench, service, "one"), start(bench, service, "two", seed=7)]
        for run in runs:
            run.wait(lambda one=run: len(one.came()) == 2, "two workers")
        finish(bench, runs[0])
        finish(bench, runs[1], seed=7)
        check(runs[0].told("epoch")[0]["loss_bits"] != runs[1].told("epoch")[0]["loss_bits"], "the runs are one and the same")


def fewer(bench):
    """The run finds out how many it wants, and fewer ask for jobs than that: those who are there stay."""
    with Service(bench, workers=1) as service:
        run = start(bench, service, workers="auto", max_workers=4, tune="time")
        run.wait(lambda: len(run.came()) == 1, "a worker")
        finish(bench, run)
        equal(run.told("tune")[0]["workers"], 4, "workers at first")
        equal(run.lost(), [], "losses")


def nobody(bench):
    """No worker takes jobs: servers do all."""
    with Service(bench) as service:
        run = start(bench, service)
        finish(bench, run)
        equal(run.came(), [], "workers")


def foreign(bench):
    """Jobs that are not ours do not hurt a worker."""
    with Service(bench, workers=1) as service:
        ended = subprocess.run(["gearman", "-h", "127.0.0.1", "-p", str(service.port), "-f", "culm-gnn-worker", "-s"],
                               input=b'{"culm": 1, "role": "worker", "address": "tcp:127.0.0.1:1", "name": "x"}', capture_output=True,
                               timeout=300, check=False)
        check(ended.returncode != 0, "it was done")
        lie = json.dumps({"culm": 1, "role": "worker", "address": "tcp:127.0.0.1:1", "token": "0" * 32, "name": "gearman-1"})
        subprocess.run(["gearman", "-h", "127.0.0.1", "-p", str(service.port), "-f", "culm-gnn-worker", "-s"], input=lie.encode(),
                       capture_output=True, timeout=300, check=False)
        run = start(bench, service, workers=1)
        run.wait(lambda: len(run.came()) == 1, "the worker")
        finish(bench, run)


def refused(bench):
    """What cannot be is said in one line, before anything is written."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        config = changed(CONFIG, gearman={"server": f"127.0.0.1:{port}"})
        for changes, words, code, text in (({}, LISTEN, 4, f"no job server answers at 127.0.0.1 port {port}"),
                                           ({}, (), 3, "--listen"),
                                           ({"gearman": {"server": "127.0.0.1:x"}}, LISTEN, 3, "HOST:PORT")):
            ended = bench.run(*graphs.words_of(bench, changed(config, **changes), "run"), *words)
            equal(ended.code, code, f"exit code; {ended.err}")
            check(text in ended.err and len(ended.err.splitlines()) == 1, f"{text!r} is not in {ended.err!r}")
            check(not os.path.exists(bench.path("run", "config.yaml")), "a run directory was begun")
        ended = bench.run("gnn", "worker", "--gearman", f"127.0.0.1:{port}")
        equal(ended.code, 4, "exit code of a worker")
        check("no job server" in ended.err and len(ended.err.splitlines()) == 1, f"{ended.err!r}")
        ended = bench.run("gnn", "server", "--gearman", f"127.0.0.1:{port}")
        equal(ended.code, 2, "exit code of a server")


cases.add("two runs, one after the other", plain)
cases.add("a worker is killed, and another one comes", lost_worker, first=True)
cases.add("a worker is killed where one is idle", lost_idle)
cases.add("the job server is killed and restarted", lost_server, first=True)
cases.add("two runs at once", two_runs)
cases.add("fewer workers than are wanted", fewer)
cases.add("no workers", nobody, first=True)
cases.add("jobs of somebody else", foreign)
cases.add("what is refused", refused)

if __name__ == "__main__":
    cases.run()
