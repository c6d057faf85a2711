#!/usr/bin/env python3
"""The files of examples/cluster, for schedulers that take machines away: what they run on a machine is run here, as it stands there, on a real etcd."""
import os
import re
import shutil
import signal
import subprocess

from etcd import Etcd, Unavailable
from harness import Cases, Skipped, changed, equal, read_events, tiny_config, wait_until

cases = Cases(kind="waits", job="train")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/cluster")
LIMIT_S = 90


def command_of(name):
    """The shell's words in a file: from `culm node` to the end of that paragraph."""
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        text = file.read()
    if name == "slurm.sh":
        return text
    found = re.search(r"(?:exec |ExecStart=)(culm node (?:.*\n?)(?:[ ]+--.*\n)*)", text)
    return "exec " + " ".join(found.group(1).split())


def example(bench, name):
    """Two machines with two workers each join, train, and are taken away; one comes back."""
    try:
        etcd = Etcd(bench.path("etcd"))
    except Unavailable as reason:
        raise Skipped(str(reason)) from None
    config = changed(tiny_config("text"), steps=1000000, schedule={"name": "constant"}, pipelines=1, stages=2, checkpoint__to=bench.path("store"),
                     cluster__orphan_ms=20000)
    shutil.copyfile(cases.text, bench.path("text"))
    equal(bench.run("keys", "new", bench.path("run.token")).code, 0, "exit code of keys new")
    with etcd:
        created = bench.start("train", bench.config(config), "--cluster", etcd.place("runs"), "--name", "main", "--token-file", bench.path("run.token"),
                              "--out", bench.path("run"))
        events = bench.path("run", "events.jsonl")
        told = lambda what: [event for event in read_events(events) if event["event"] == what] if os.path.exists(events) else []
        wait_until(lambda: told("start"), LIMIT_S, "who leads")
        os.mkdir(bench.path("bin"))
        os.symlink(bench.culm, bench.path("bin", "culm"))
        env = {**os.environ, "PATH": f"{bench.path('bin')}:{os.environ['PATH']}", "CULM_STORE": etcd.place("runs"), "CULM_RUN": "main",
               "CULM_TOKEN_FILE": bench.path("run.token"), "CREDENTIALS_DIRECTORY": bench.folder, "CULM_WORKERS": "2", "CULM_DATA": bench.folder}
        nodes = []

        def come():
            zone = f"zone-{len(nodes)}"
            with open(bench.path(f"node-{len(nodes)}"), "wb") as log:
                nodes.append(subprocess.Popen(["sh", "-c", command_of(name)], env={**env, "CULM_ZONE": zone, "SLURM_TOPOLOGY_ADDR": zone}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                              cwd=bench.folder, start_new_session=True))

        try:
            come(), come()
            wait_until(lambda: len(told("joined")) == 4 and len(told("step")) > 20, LIMIT_S, "steps with four workers")
            zones = {event["node"]: event["zone"] for event in told("joined")}
            equal(set(zones.values()), {"zone-0", "zone-1"}, "zones")
            wait_until(lambda: all({zones.get(slot["owner"]), zones.get(slot["shadow"])} == {"zone-0", "zone-1"} for slot in told("view")[-1]["map"]),
                       LIMIT_S, "copies in both zones")
            before = len(told("step"))
            wait_until(lambda: len(told("step")) > before + 5, LIMIT_S, "steps with them")
            nodes[0].send_signal(signal.SIGTERM)
            equal(nodes[0].wait(30), 75, "exit code of a node that is taken away")
            come()
            wait_until(lambda: len(told("joined")) == 6, LIMIT_S, "two more workers")
            before = len(told("step"))
            wait_until(lambda: len(told("step")) > before + 20, LIMIT_S, "more steps")
            equal(told("rollback"), [], "roll-backs")
            created.send_signal(signal.SIGTERM)
            equal((bench.end(created).code, *(node.wait(30) for node in nodes[1:])), (75, 75, 75), "exit codes when the run is stopped")
        finally:
            for node in nodes:
                if node.poll() is None:
                    os.killpg(node.pid, signal.SIGKILL)
                    node.wait()


for name in sorted(os.listdir(FOLDER)):
    cases.add(name, example, name, seconds=8, reads=f"examples/cluster/{name}")

if __name__ == "__main__":
    cases.run()
