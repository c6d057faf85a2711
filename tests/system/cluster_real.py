#!/usr/bin/env python3
"""Runs at an etcd with what their users have: checkpoints on a real server of S3, Ceph's radosgw; nodes that a real Slurm starts, takes away and starts
again. Both need packages of Debian, and root; where they are missing, a case says so.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import cluster_examples
import gnn_cluster
import radosgw
import slurm
import train_cluster
from harness import Cases, Skipped, changed, check, equal, read_events, tiny_config
from s3_standin import ENVIRONMENT

cases = Cases(kind="waits", job="all")


class Gate:
    """Passes connections on to a server, byte by byte; requests that match `held` wait there, and so does all that comes behind them."""

    def __init__(self, endpoint):
        self.host, self.port = re.fullmatch(r"http://(.*):(\d+)", endpoint).groups()
        self.held, self.waiting = None, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        try:
            while True:
                caller, _ = self.listener.accept()
                server = socket.create_connection((self.host, int(self.port)))
                threading.Thread(target=self.copy, args=(caller, server, True), daemon=True).start()
                threading.Thread(target=self.copy, args=(server, caller, False), daemon=True).start()
        except OSError:  # it was closed
            pass

    def copy(self, source, sink, asks):
        try:
            while data := source.recv(1 << 16):
                if asks and self.held and self.held.search(data):
                    self.waiting.set()
                    return  # nothing more of it is passed on, and neither side is told
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # one of them has gone
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def on_radosgw(bench, run_of, finish):
    """Who leads is killed when all parts of a checkpoint are there and its manifest is not; then all else goes, the etcd, too. What is left in the
    bucket goes on elsewhere, by itself, to the same hash."""
    env = {**ENVIRONMENT, "AWS_ACCESS_KEY_ID": radosgw.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": radosgw.SECRET_KEY, "AWS_REGION": radosgw.REGION}
    del env["AWS_SESSION_TOKEN"]
    try:
        server = radosgw.Radosgw(bench.path("ceph"))
    except radosgw.Unavailable as reason:
        raise Skipped(str(reason)) from None
    with server, Gate(server.endpoint) as gate:
        with run_of(bench) as run:
            run.env = env
            run.config = changed(run.config, checkpoint__to=f"s3://{radosgw.BUCKET}/runs/one", checkpoint__endpoint=gate.endpoint)
            run.create("--workers", 0)
            run.node(0)
            finish.nodes(run)
            run.wait(lambda: run.key("saved"), "a checkpoint")
            gate.held = re.compile(rb"^PUT /[^ ]*/manifests/")
            run.wait(gate.waiting.is_set, "one that is nearly there")
            saved = json.loads(run.key("saved"))["step"]
            run.machines[0].kill()
            run.wait(lambda: run.terms() == [2], "another leader")
            equal((json.loads(run.key("saved"))["step"], run.told("rollback")), (saved, []), "the newest checkpoint that counts, roll-backs")
            check(not run.told("done"), "it was done before that")
            run.give(bench.folder)
        words = (*run.command, bench.path("run.yaml"), "--resume", "--set", f"checkpoint.endpoint={server.endpoint}", "--out", bench.path("new"))
        ended = bench.end(bench.start(*words, env=env, cwd=bench.folder))
        equal(ended.code, 0, f"exit code of what goes on: {ended.err[-300:]}")
        events = read_events(bench.path("new", "events.jsonl"))
        done = next(event for event in events if event["event"] == "done")
        resumed = next(event for event in events if event["event"] == "resumed")[run.unit]
        check(resumed >= saved, f"it goes on from {resumed}, and {saved} was saved")
        equal((done["weights_sha256"], done["state_sha256"]), tuple(finish.hashes(bench, run)), "hashes")
        bench.note(f"saved: {saved}; resumed from {resumed}")


class Trained:
    CONFIG = changed(tiny_config("text"), steps=900, checkpoint__every=30, cluster__orphan_ms=30000, cluster__lease_ms=5000)

    @classmethod
    def run(cls, bench):
        return train_cluster.Run(bench, cls.CONFIG)

    @staticmethod
    def nodes(run):
        run.node(6, "--lead", "no")

    @classmethod
    def hashes(cls, bench, _):
        return train_cluster.cases.reference(changed(cls.CONFIG, data__path=train_cluster.cases.text))


class OnGraph:
    CONFIG = changed(gnn_cluster.CONFIG, epochs=900, checkpoint={"every": 30, "keep": 2})

    @classmethod
    def run(cls, bench):
        return gnn_cluster.Run(bench, cls.CONFIG)

    @staticmethod
    def nodes(run):
        run.node(2, "--lead", "no"), run.node(1, "--role", "parameter", "--lead", "no")

    @classmethod
    def hashes(cls, bench, _):
        return gnn_cluster.graphs.reference(bench, gnn_cluster.here(cls.CONFIG))[0]


def on_slurm(bench):
    """The array of examples/cluster/slurm.sh in a preemptible partition. A job that takes a machine away costs its node, which Slurm starts again by itself;
    the run goes on."""
    try:
        cluster = slurm.Slurm(bench.path("slurm"))
    except slurm.Unavailable as reason:
        raise Skipped(str(reason)) from None
    config = changed(train_cluster.ENDLESS, pipelines=2, stages=2)
    with cluster, train_cluster.Run(bench, config) as run:
        run.create("--workers", 0)
        run.give(bench.folder)
        os.mkdir(bench.path("bin"))
        os.symlink(bench.culm, bench.path("bin", "culm"))
        env = {"PATH": f"{bench.path('bin')}:{os.environ['PATH']}", "CULM_STORE": run.place(), "CULM_RUN": "one", "CULM_TOKEN_FILE": run.token,
               "CULM_DATA": bench.folder}
        script = os.path.join(cluster_examples.FOLDER, "slurm.sh")
        cluster.run("sbatch", "--export=ALL", f"--array=1-{slurm.NODES}", f"--output={bench.path('job-%a.log')}", script, env=env, cwd=bench.folder)
        run.wait(lambda: len(run.told("joined")) == slurm.NODES, "all nodes")
        run.more_steps()
        with subprocess.Popen(["srun", "-p", "ondemand", "-N1", "-n1", "-c4", "sleep", "3"], env=cluster.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as taker:
            equal(taker.wait(60), 0, "exit code of the job that took the machine")
        run.wait(lambda: len(run.told("joined")) > slurm.NODES, "the node that Slurm starts again")
        run.more_steps()
        check(len(run.told("lost")) <= 1, f"losses: {run.told('lost')}")
        equal((run.told("rollback"), run.terms()), ([], []), "roll-backs, leaders")
        run.check()
        equal(bench.run("stop", "one", "--cluster", run.place()).code, 0, "exit code of stop")
        run.machines[0].end(75)
        run.wait(lambda: not cluster.run("squeue", "-h").strip(), "the end of all jobs")


cases.add("radosgw: training", on_radosgw, Trained.run, Trained, seconds=40, job="train")
cases.add("radosgw: a graph network", on_radosgw, OnGraph.run, OnGraph, seconds=40, job="gnn")
cases.add("slurm", on_slurm, seconds=60, job="train", reads="examples/cluster/slurm.sh")

if __name__ == "__main__":
    cases.run()
