#!/usr/bin/env python3
"""What passes between the hosts of a run at an etcd, of both jobs, packet by packet: no configuration, no weights, no token.

That they would be seen is shown, too: with --insecure nodes say to each other what they hold, so that weights are found; and what is said to the etcd
(etcds:// is there for that) has the configuration. Then all that was heard is said again, by a host that has no token, and others have another run's:
each is shown out, and the run does not notice. Hosts are network namespaces (hosts.py); where there can be none, a case says so.
"""
import base64
import glob
import json
import os
import signal
import subprocess
import sys

import cluster_attacks
import gnn_cluster
import train_cluster
from cluster_harness import LIMIT_S
from harness import Cases, Skipped, changed, check, children_of, equal
from hosts import Hosts, Sniffer, Unavailable

cases = Cases(kind="waits", job="all")
PLANTED = "planted-in-the-configuration"  # the name of its data
CHUNK = 48  # bytes in a row that nobody says by chance


# Says once more, to the addresses that follow, what the folder has of connections to their ports, and half of it, and garbage; ends when all have been shown out.
REPLAY = """
import os, socket, sys
count, calls = 0, []
for address in sys.argv[2:]:
    host, _, port = address.rpartition(":")
    said = [b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"Culm" + bytes(60), os.urandom(4096)]
    for name in sorted(os.listdir(sys.argv[1])):
        if name.endswith("-" + port) and not name.startswith("etcd-"):
            with open(os.path.join(sys.argv[1], name), "rb") as file:
                data = file.read(1 << 20)
            said += [data, data[:len(data) // 2], data[:300]]
            count += 1
    calls += [(socket.create_connection((host, int(port)), timeout=60), data) for data in said]
for call, data in calls:
    try:
        call.sendall(data)
    except OSError:
        pass
for call, _ in calls:
    try:
        while call.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
print(count)
"""


class Trained(train_cluster.Run):
    def give(self, folder):
        super().give(folder)
        os.rename(os.path.join(folder, "text"), os.path.join(folder, PLANTED))

    def bring(self, *words):
        """All that there is has a copy on another host, from which whoever comes has it."""
        self.create("--workers", 0, *words, host=1)
        self.node(1, *words, host=1)
        lost = self.node(1, "--lead", "no", *words, host=2)
        self.more_steps(5)
        joined = len(self.told("joined"))
        os.kill(max(children_of(lost.process.pid)), signal.SIGKILL)
        self.wait(lambda: len(self.told("joined")) > joined and self.told("view")[-1]["copies"] == [2], "another one, with a copy")


class OnGraph(gnn_cluster.Run):
    def give(self, folder):
        super().give(folder)
        os.rename(os.path.join(folder, "graph"), os.path.join(folder, PLANTED))

    def bring(self, *words):
        self.create("--workers", 0, *words, host=1)
        self.node(1, "--role", "server", *words, host=1), self.node(1, "--role", "server", *words, host=2)
        self.node(1, "--role", "parameter", *words, host=2), self.node(1, "--role", "worker", *words, host=0)
        self.more_steps(5)


# Weights stay as they were drawn, so that what passes is what is saved.
def trained(bench, hosts):
    return Trained(bench, changed(train_cluster.ENDLESS, data__path=PLANTED, pipelines=2, stages=1, redundancy="none", optimizer__lr=1e-30,
                                  cluster__suspect_ms=20000), hosts=hosts, spread=(0,))


def on_graph(bench, hosts):
    return OnGraph(bench, changed(gnn_cluster.CONFIG, graph__path=PLANTED, optimizer__lr=1e-30, checkpoint={"every": 5}), hosts=hosts, spread=(0,))


def weights(bench):
    """Some bytes of checkpoints; but for what is all alike, such as zeros."""
    found = set()
    for path in glob.glob(bench.path("store", "objects", "*", "*")):
        with open(path, "rb") as file:
            data = file.read()
        for at in range(0, len(data) - CHUNK, 1024):
            if len(set(data[at:at + CHUNK])) > 24:
                found.add(data[at:at + CHUNK])
    return sorted(found)[::1 + len(found) // 100]


def attacked(bench, run, hosts, heard):
    """By hosts that have no token, and that have another one."""
    other = bench.path("other.token")
    equal(bench.run("keys", "new", other).code, 0, "exit code of keys new")
    addresses = [json.loads(run.key("leader"))["address"], *(address for _, address in cluster_attacks.nodes(run))]
    addresses = [address.removeprefix("tcp:") for address in addresses]
    check(len(addresses) > 2 and all(address.startswith("10.77.0.") for address in addresses), f"addresses of the run: {addresses}")
    before = [run.told(what) for what in ("lost", "joined", "rollback", "leader")]
    ended = subprocess.run(hosts.on(0, sys.executable, "-c", REPLAY, heard, *addresses), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    equal((ended.returncode, ended.stderr), (0, ""), "who says again what was heard")
    check(int(ended.stdout) >= 4, f"{ended.stdout} connections were said again")
    role = ("--role", "server") if run.unit == "epoch" else ()
    for address in addresses:
        ended = hosts.run_on(0, bench).run("node", "--join", address, "--token-file", other, *role, limit_s=60)
        equal((ended.code, ended.err.count("\n"), "token" in ended.err), (1, 1, True), f"who has another token, at {address}: {ended.err!r}")
    run.more_steps(10)
    equal([run.told(what) for what in ("lost", "joined", "rollback", "leader")], before, "what the run has noticed")


def in_base64(data):
    """What is in any text in base64 that has these bytes."""
    return [base64.b64encode(b"?" * before + data + b"?" * 3)[4:-8] for before in range(3)]


def overheard(bench, make, insecure):
    try:
        hosts = Hosts(os.path.basename(bench.folder), 3)
    except Unavailable as error:
        raise Skipped(str(error)) from None
    sniffer = Sniffer(hosts, bench.path("heard"))
    with hosts, make(bench, hosts) as run:
        with sniffer:
            run.bring(*insecure)
            run.wait(lambda: run.key("saved"), "a checkpoint")
        if not insecure:
            attacked(bench, run, hosts, sniffer.folder)
        with open(run.token, encoding="ascii") as file:
            token = file.read().strip()
    said, to_etcd = sniffer.flows(etcd=False), sniffer.flows(etcd=True)
    pieces = weights(bench)
    bench.note(f"{sum(map(len, said))} bytes between hosts in {len(said)} directions of connections; {len(pieces)} pieces of weights")
    check(sum(map(len, said)) > 50000 and len(pieces) > 10, "too little to show anything")
    for secret in token.encode(), bytes.fromhex(token):
        check(not any(secret in flow for flow in [*said, *to_etcd]), "the token was sent")
    check(any(part in flow for part in in_base64(PLANTED.encode()) for flow in to_etcd), "the configuration is not in what the etcd is told")
    for what, parts, clear in (("messages", [b"Culm"], insecure), ("weights", pieces, insecure), ("the configuration", [PLANTED.encode()], False)):
        equal(any(part in flow for part in parts for flow in said), bool(clear), f"whether {what} can be read")


for words, which in ((), ""), (("--insecure",), ", in the clear"):
    cases.add(f"what passes between hosts of training{which}", overheard, trained, words, seconds=15, first=not words, job="train")
    cases.add(f"what passes between hosts of a graph network{which}", overheard, on_graph, words, seconds=15, job="gnn")

if __name__ == "__main__":
    cases.run()
