#!/usr/bin/env python3
"""Graph networks over several hosts, which are network namespaces: one loses its link in mid-run, and the bits stay.

    launcher and its processes     a server            a worker
           10.77.0.1 ───────┬───── 10.77.0.2    ┌───── 10.77.0.3
                            └── a bridge ───────┘

Where there can be no such hosts (hosts.py), it says so.
"""
import os
import shlex

from gnn_harness import ENDLESS, PATIENT, SILENT_MS, Going, Graphs
from harness import Cases, Skipped, changed, check, equal
from hosts import Hosts, Unavailable

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


def on(hosts, number, bench):
    """A culm that runs on that host."""
    path = bench.path(f"culm-{number}")
    with open(path, "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(hosts.on(number, cases.culm))} "$@"\n')
    os.chmod(path, 0o755)
    bench.culm = path
    return bench


def unplugged(bench, role):
    """Of a server and a worker on hosts of their own, one becomes unreachable, with no word of it from any socket."""
    graphs.make(bench)
    with hosts_of(bench) as hosts:
        config = changed(CONFIG, workers=0)  # those from elsewhere come on top
        words = graphs.words_of(bench, config, "run")
        going = Going(on(hosts, 0, bench), bench.path("run"), *words, "--listen", f"{hosts.address(0)}:0", "--insecure")
        address, token = going.address(), bench.path("run", "token")
        going.wait(lambda: len(going.came("server")) == 2, "the servers here")
        number = {"server": 1, "worker": 2}[role]
        others = {}
        for one, who in ((1, "server"), (2, "worker")):
            others[who] = on(hosts, one, bench).start("gnn", who, "--join", address, "--token-file", token)
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


cases.add("a server's host loses its link", unplugged, "server", seconds=20, first=True)
cases.add("a worker's host loses its link", unplugged, "worker", seconds=20)

if __name__ == "__main__":
    cases.run()
