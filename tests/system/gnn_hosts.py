#!/usr/bin/env python3
"""Graph networks over several hosts, which are network namespaces: one loses its link in mid-run, and the bits stay.

    launcher and its processes     a server            a worker
           10.77.0.1 ───────┬───── 10.77.0.2    ┌───── 10.77.0.3
                            └── a bridge ───────┘

Where there can be no such hosts (hosts.py), it says so.
"""
import os
import subprocess
import sys

from gnn_harness import ENDLESS, PATIENT, SILENT_MS, Going, Graphs
from harness import Cases, Skipped, changed, check, equal
from hosts import Hosts, Sniffer, Unavailable

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 16},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 1,
    "cluster": {**PATIENT, "suspect_ms": SILENT_MS, "orphan_ms": SILENT_MS + 2000},
    **ENDLESS,
}


def hosts_of(bench):
    try:
        return Hosts(os.path.basename(bench.folder), 3)
    except Unavailable as error:
        raise Skipped(str(error)) from None


def unplugged(bench, role):
    """Of a server and a worker on hosts of their own, one becomes unreachable, with no word of it from any socket."""
    graphs.make(bench)
    with hosts_of(bench) as hosts:
        config = changed(CONFIG, workers=0)  # those from elsewhere come on top
        words = graphs.words_of(bench, config, "run")
        going = Going(hosts.run_on(0, bench), bench.path("run"), *words, "--listen", f"{hosts.address(0)}:0")
        address, token = going.address(), bench.path("run", "token")
        going.wait(lambda: len(going.came("server")) == 2, "the servers here")
        number = {"server": 1, "worker": 2}[role]
        others = {}
        for one, who in ((1, "server"), (2, "worker")):
            others[who] = hosts.run_on(one, bench).start("gnn", who, "--join", address, "--token-file", token)
        going.wait(lambda: sum(event["name"] == "newcomer" for event in going.told("joined")) == 2, "both from other hosts")
        going.kill("server", 0)  # whoever stands by takes its place
        going.wait(going.lost, "the loss of a server here")
        going.wait(lambda: any(event["worker_bytes"] for event in going.told("epoch")), "work of the worker")
        going.more_epochs()
        hosts.link(number, "down")
        going.wait(lambda: len(going.lost()) >= 2, "the loss of an unreachable one")
        going.more_epochs()
        going.stop()
        equal(going.lost()[:2], ["server", role], "who was lost")
        check(going.told("lost")[1]["cause"] in ("heartbeat", "peer", "stalled", "stuck"), f"why: {going.told('lost')[1]}")
        equal(going.told("rollback"), [], "roll-backs")
        graphs.check_losses(bench, going, config)
        for other in others.values():  # each ends by itself: the one was told, the other hears of nobody any more
            bench.end(other)


# Begins to speak as a node does, in the clear, and says whether it is shown out at once. In the clear it has ten seconds for the rest.
CALLER = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3) as call:
    call.sendall(b"Cul")
    try:
        print("shown out" if call.recv(1) == b"" else "answered")
    except ConnectionResetError:
        print("shown out")
    except TimeoutError:
        print("waited for")
"""


def overheard(bench, insecure):
    """A server and a worker on hosts of their own. Of what passes between the hosts, nothing can be read: no message, no configuration, no
    rows. With --insecure what nodes say to each other can, which shows that the test would see it. The token is never sent."""
    graphs.make(bench)
    with hosts_of(bench) as hosts:
        config = changed(CONFIG, workers=0, servers=1)
        sniffer = Sniffer(hosts, bench.path("heard"))
        with sniffer:
            words = graphs.words_of(bench, config, "run")
            going = Going(hosts.run_on(0, bench), bench.path("run"), *words, "--listen", f"{hosts.address(0)}:0", *insecure)
            address, token = going.address(), bench.path("run", "token")
            going.wait(lambda: going.came("server"), "the server here")
            others = [hosts.run_on(one, bench).start("gnn", who, "--join", address, "--token-file", token, *insecure)
                      for one, who in ((1, "server"), (2, "worker"))]
            going.wait(lambda: sum(event["name"] == "newcomer" for event in going.told("joined")) == 2, "both from other hosts")
            place = address.removeprefix("tcp:").split(":")
            said = subprocess.run(hosts.on(2, sys.executable, "-c", CALLER, *place), stdout=subprocess.PIPE, text=True, check=True).stdout
            equal(said, "waited for\n" if insecure else "shown out\n", "who speaks in the clear is")
            with open(token, encoding="ascii") as file:
                secret = file.read().strip().encode()
            going.kill("server", 0)  # whoever stands by takes its place, and the worker works for it
            going.wait(lambda: any(event["worker_bytes"] for event in going.told("epoch")), "work of the worker")
            going.more_epochs()
            going.stop()
            for other in others:
                equal(bench.end(other).code, 0, "exit code")
        graphs.check_losses(bench, going, config)
    said = b" ".join(sniffer.flows(etcd=False))
    check(len(said) > 20000, f"only {len(said)} bytes passed")
    equal(b"Culm" in said, bool(insecure), "messages can be read")
    for what in b"parameter_servers", b"newcomer":  # what the launcher tells a newcomer, and hears from it
        check(what not in said, f"{what} can be read")
    check(secret not in said, "the token was sent")


cases.add("what passes between hosts cannot be read", overheard, [], seconds=10, first=True)
cases.add("what passes between hosts in the clear", overheard, ["--insecure"], seconds=10)
cases.add("a server's host loses its link", unplugged, "server", seconds=20, first=True)
cases.add("a worker's host loses its link", unplugged, "worker", seconds=20)

if __name__ == "__main__":
    cases.run()
