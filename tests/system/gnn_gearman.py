#!/usr/bin/env python3
"""Workers of `culm gnn train` that get their runs from a Gearman job server, a real one.

Whoever is killed, the bits are those of one server and one parameter server without workers.
"""
import json
import os
import socket
import subprocess

from harness import Cases, Skipped, changed, check, equal, read_events, wait_until, workers_of

cases = Cases()
SERVER = "/usr/sbin/gearmand"
CONFIG = {
    "graph": {"path": None, "features": "as-is"},
    "model": {"layers": 2, "width": 8},
    "epochs": 600,
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 2,
    "engine": "gearman",
    "eval": {"every": 0},
    "checkpoint": {"every": 0},
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 2000},
}


def graph(bench):
    path = os.path.join(cases.folder, "graph")
    with cases.lock:
        if not os.path.exists(path):
            ended = bench.run("gnn", "make", "sbm", "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12",
                              "--out", path)
            equal(ended.code, 0, "making a graph")
    return path


def reference(bench, config):
    """Hashes of one server, one parameter server and no workers."""
    with cases.lock:
        key = ("hashes", config["epochs"], config.get("seed"))
        if key in cases.shared:
            return cases.shared[key]
    path = bench.config(changed(config, graph__path=graph(bench), engine="local", servers=1, workers=0), f"plain-{key[2]}.yaml")
    run = bench.run("gnn", "train", path, "--out", bench.path(f"plain-{key[2]}"), "--json")
    equal(run.code, 0, f"exit code; {run.err}")
    run.events = [json.loads(line) for line in run.out.splitlines()]
    with cases.lock:
        cases.shared[key] = run.hashes()
    return run.hashes()


class Service:
    """A job server, and workers that ask it."""

    def __init__(self, bench, workers=0):
        if not os.path.exists(SERVER):
            raise Skipped(f"{SERVER} is not here")
        self.bench, self.workers = bench, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.start()
        for _ in range(workers):
            self.add()

    def start(self):
        self.process = subprocess.Popen([SERVER, "--listen", "127.0.0.1", "--port", str(self.port), "--log-file", "none",
                                         "--pid-file", self.bench.path("gearmand.pid")], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(lambda: self.process.poll() is not None or self.answers(), 30, "a job server")
        check(self.process.poll() is None, "the job server does not start")

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def add(self):
        self.workers.append(self.bench.start("gnn", "worker", "--gearman", self.address))
        return self.workers[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        for worker in self.workers:
            worker.kill()
            self.bench.end(worker)


class Run:
    def __init__(self, bench, service, name="run", **changes):
        self.bench, self.config = bench, changed(CONFIG, gearman={"server": service.address}, **changes)
        self.wanted = reference(bench, self.config)
        path = bench.config(changed(self.config, graph__path=graph(bench)), f"{name}.yaml")
        self.out = bench.path(name)
        self.process = bench.start("gnn", "train", path, "--out", self.out, "--json", "--listen", "127.0.0.1:0")

    def told(self, name):
        path = os.path.join(self.out, "events.jsonl")
        return [event for event in read_events(path) if event["event"] == name] if os.path.exists(path) else []

    def came(self):
        return [event for event in self.told("joined") if event["role"] == "worker"]

    def wait(self, condition, what):
        wait_until(lambda: condition() or self.process.poll() is not None, 60, what)
        check(self.process.poll() is None, f"it was over before {what}")

    def end(self):
        ended = self.bench.end(self.process)
        equal(ended.code, 0, f"exit code; {ended.err[-300:]}")
        ended.events = [json.loads(line) for line in ended.out.splitlines()]
        equal(ended.hashes(), self.wanted, "weights_sha256 and state_sha256")
        equal(workers_of(self.out), [], "processes left behind")
        return ended


def plain(bench):
    """Workers come by jobs, work, and are there for the next run."""
    with Service(bench, workers=2) as service:
        for name in "first", "second":
            run = Run(bench, service, name)
            run.wait(lambda: len(run.came()) == 2, "both workers")
            ended = run.end()
            equal(ended.all("lost"), [], "losses")
            check(any(event["worker_bytes"] for event in ended.all("epoch")), "workers did nothing")
        for worker in service.workers:
            equal(worker.poll(), None, "a worker's exit code")


def lost_worker(bench):
    """Its job waits until there is somebody who takes it."""
    with Service(bench, workers=2) as service:
        run = Run(bench, service)
        run.wait(lambda: len(run.came()) == 2, "both workers")
        service.workers[0].kill()
        run.wait(lambda: run.told("lost"), "the loss")
        service.add()
        run.wait(lambda: len(run.came()) == 3, "a third worker")
        ended = run.end()
        equal([event["role"] for event in ended.all("lost")], ["worker"], "who was lost")


def lost_idle(bench):
    """Its job is handed on to one that waits for a job, which comes at once."""
    with Service(bench, workers=2) as service:
        run = Run(bench, service)
        run.wait(lambda: len(run.came()) == 2, "both workers")
        service.add()
        service.workers[0].kill()
        run.wait(lambda: len(run.came()) == 3, "the third worker")
        ended = run.end()
        equal([event["role"] for event in ended.all("lost")], ["worker"], "who was lost")


def lost_server(bench):
    """The job server is killed: who is there works on; and restarted: who is wanted comes by it."""
    with Service(bench, workers=1) as service:
        run = Run(bench, service)
        run.wait(lambda: len(run.came()) == 1, "a worker")
        service.kill()
        before = len(run.told("epoch"))
        run.wait(lambda: len(run.told("epoch")) > before + 20, "epochs without a job server")
        check(any("has gone" in event["message"] for event in run.told("error")), "nobody says that it has gone")
        service.start()
        service.add()
        run.wait(lambda: len(run.came()) == 2, "a second worker")
        ended = run.end()
        equal(ended.all("lost"), [], "losses")
        equal(len([event for event in ended.all("error") if "has gone" in event["message"]]), 1, "how often it is told")


def two_runs(bench):
    """They share a job server and its workers."""
    for seed in None, 7:
        reference(bench, changed(CONFIG, seed=seed) if seed else CONFIG)
    with Service(bench, workers=4) as service:
        runs = [Run(bench, service, "one"), Run(bench, service, "two", seed=7)]
        for run in runs:
            run.wait(lambda one=run: len(one.came()) == 2, "two workers")
        hashes = [run.end().hashes() for run in runs]
        check(hashes[0] != hashes[1], "the runs are one and the same")


def fewer(bench):
    """The run finds out how many it wants, and fewer ask for jobs than that: those who are there stay."""
    with Service(bench, workers=1) as service:
        run = Run(bench, service, workers="auto", max_workers=4, tune="time")
        run.wait(lambda: len(run.came()) == 1, "a worker")
        ended = run.end()
        equal(ended.all("tune")[0]["workers"], 4, "workers at first")
        equal(ended.all("lost"), [], "losses")


def nobody(bench):
    """No worker takes jobs: servers do all."""
    with Service(bench) as service:
        ended = Run(bench, service).end()
        equal([event for event in ended.all("joined") if event["role"] == "worker"], [], "workers")


def foreign(bench):
    """Jobs that are not ours do not hurt a worker."""
    with Service(bench, workers=1) as service:
        ended = subprocess.run(["gearman", "-h", "127.0.0.1", "-p", str(service.port), "-f", "culm-gnn-worker", "-s"],
                               input=b'{"culm": 1, "role": "worker", "address": "tcp:127.0.0.1:1", "name": "x"}', capture_output=True,
                               timeout=60, check=False)
        check(ended.returncode != 0, "it was done")
        lie = json.dumps({"culm": 1, "role": "worker", "address": "tcp:127.0.0.1:1", "token": "0" * 32, "name": "gearman-1"})
        subprocess.run(["gearman", "-h", "127.0.0.1", "-p", str(service.port), "-f", "culm-gnn-worker", "-s"], input=lie.encode(),
                       capture_output=True, timeout=60, check=False)
        run = Run(bench, service, workers=1)
        run.wait(lambda: len(run.came()) == 1, "the worker")
        run.end()


def refused(bench):
    """What cannot be is said in one line, before anything is written."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        config = changed(CONFIG, graph__path=graph(bench), gearman={"server": f"127.0.0.1:{port}"})
        for changes, words, code, text in (({}, ["--listen", "127.0.0.1:0"], 4, f"no job server answers at 127.0.0.1 port {port}"),
                                           ({}, [], 3, "--listen"),
                                           ({"gearman": {"server": "127.0.0.1:x"}}, ["--listen", "127.0.0.1:0"], 3, "HOST:PORT")):
            path = bench.config(changed(config, **changes), "run.yaml")
            ended = bench.run("gnn", "train", path, "--out", bench.path("run"), "--json", *words)
            equal(ended.code, code, f"exit code; {ended.err}")
            check(text in ended.err and len(ended.err.splitlines()) == 1, f"{text!r} is not in {ended.err!r}")
            check(not os.path.exists(bench.path("run", "config.yaml")), "a run directory was begun")
        ended = bench.run("gnn", "worker", "--gearman", f"127.0.0.1:{port}")
        equal(ended.code, 4, "exit code of a worker")
        check("no job server" in ended.err and len(ended.err.splitlines()) == 1, f"{ended.err!r}")
        ended = bench.run("gnn", "server", "--gearman", f"127.0.0.1:{port}")
        equal(ended.code, 2, "exit code of a server")


cases.add("two runs, one after the other", plain)
cases.add("a worker is killed, and another one comes", lost_worker)
cases.add("a worker is killed where one is idle", lost_idle)
cases.add("the job server is killed and restarted", lost_server)
cases.add("two runs at once", two_runs)
cases.add("fewer workers than are wanted", fewer)
cases.add("no workers", nobody)
cases.add("jobs of somebody else", foreign)
cases.add("what is refused", refused)
cases.run()
