#!/usr/bin/env python3
"""Graph networks that go on while they can: starts that fail, one node's trouble, and stops while somebody is missing."""
import contextlib
import os
import shutil
import signal
import subprocess

from gnn_harness import ENDLESS, ONE, PATIENT, SILENT_MS, Going, Graphs
from harness import Cases, Disk, changed, check, children_of, equal, flip_bit, killed_at_birth, needs_disk, wait_until

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"arch": "gcn", "layers": 2, "width": 16, "dropout": 0.5},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 0,
    "seed": 5,
    "cluster": PATIENT,
    **ENDLESS,
}
LONG_MS = 3600000
KILLS = 5  # rounds that would end a run that has not begun


# --- starts that fail ---------------------------------------------------------------------------------------------------------


def starts_killed(bench, role):
    """Those that are started in place of a lost one are killed before they join, again and again: the run goes on with who is left, and at last
    one comes through. Where the run needs one of the role it waits for it, and says so."""
    config = changed(CONFIG, **ONE, cluster__replace_ms=0, cluster__wait_ms=1000000, cluster__stuck_ms=LONG_MS)
    config["workers"] = int(role == "worker")
    going = graphs.going(bench, config)
    going.wait(lambda: going.came(role), f"a {role}")
    going.more_epochs(1)
    server = going.pid("server", 0)
    with killed_at_birth(going.process.pid):
        known = len(going.logs())
        going.kill(role, 0)
        going.wait(lambda: len(going.logs()) > known, "a start")
        if role == "server":
            going.wait(lambda: [event for event in going.told("waiting") if event.get("failed")], "why it waits")
            check("signal" in going.told("waiting")[-1]["failed"], f"it waits because {going.told('waiting')[-1]['failed']!r}")
        else:
            going.more_epochs()
            os.kill(server, signal.SIGSTOP)  # thousands of epochs more would show no more
        going.wait(lambda: len(going.logs()) >= known + KILLS, f"{KILLS} that were killed before they joined")
        equal(len(going.came(role)), 1, f"how many joined as {role}")
    if role != "server":
        os.kill(server, signal.SIGCONT)
    going.wait(lambda: len(going.came(role)) == 2, f"a {role} that comes through")
    going.more_epochs()
    going.stop()
    equal(going.told("rollback"), [], "roll-backs")
    equal(going.lost(), [role], "who was lost")
    graphs.check_losses(bench, going, config)


def no_file_can_be_made(bench):
    """There is no room for another file where the run is, not even for a node's log: none can be started in place of a lost one, and the run
    goes on without it until there is room."""
    config = changed(CONFIG, cluster__replace_ms=0)
    with Disk(bench, 20000) as disk:
        going = graphs.going(bench, config, os.path.join("disk", "run"))
        going.more_epochs(3)
        fillers = []
        with contextlib.suppress(OSError):
            subprocess.run(["mount", "-i", "-o", "remount,nr_inodes=400", disk.path], check=True)
            for number in range(100000):
                fillers.append(os.path.join(disk.path, f"filler-{number}"))
                with open(fillers[-1], "wb"):
                    pass
        going.kill("parameter", 0)
        going.wait(lambda: going.told("error"), "that none can be started")
        check("No space left" in going.told("error")[0]["message"], f"it says {going.told('error')[0]}")
        going.more_epochs()
        equal(len(going.came("parameter")), 1, "parameter servers that came")
        for path in fillers:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        going.wait(lambda: len(going.came("parameter")) == 2, "another one")
        going.more_epochs()
        going.stop()
        equal(going.told("rollback"), [], "roll-backs")
        graphs.check_losses(bench, going, config)


# --- stops while somebody is missing ------------------------------------------------------------------------------------------


def stopped_without(bench, role):
    """Nobody comes in place of the lost one for an hour. A stop does not wait for it: what is committed is saved, and --resume goes on."""
    config = changed(CONFIG, **ONE, cluster__replace_ms=LONG_MS, cluster__wait_ms=LONG_MS)
    going = graphs.going(bench, config)
    going.more_epochs(3)
    going.kill(role, 0)
    going.wait(lambda: going.lost() == [role], "its loss")
    if role == "server":
        going.wait(lambda: going.told("waiting"), "that it waits")
    going.process.send_signal(signal.SIGTERM)
    ended = going.end(75)
    last = ended.all("epoch")[-1]["epoch"]
    equal([event["epoch"] for event in ended.all("checkpoint") if event["ok"]][-1:], [last], "the last checkpoint")
    resumed = graphs.going(bench, config, "run", "--resume")
    resumed.wait(lambda: len(resumed.told("epoch")) >= last + 3, "epochs after the resume")
    resumed.stop()
    graphs.check_losses(bench, resumed, config)


# --- one node's trouble -------------------------------------------------------------------------------------------------------


def wakes_up(bench):
    """A frozen server is put out while it is silent, and its intervals go to the others. It wakes up before it is killed: it is told to end, and
    nothing that it says counts."""
    config = changed(CONFIG, cluster__suspect_ms=SILENT_MS, cluster__kill_suspect_ms=LONG_MS)
    going = graphs.going(bench, config)
    going.more_epochs(3)
    pid = going.pid("server", 1)
    os.kill(pid, signal.SIGSTOP)
    going.wait(lambda: going.lost(), "its loss")
    equal((going.lost(), going.told("lost")[0]["cause"]), (["server"], "heartbeat"), "who was lost, and why")
    going.more_epochs()
    os.kill(pid, signal.SIGCONT)
    going.wait(lambda: going.told("fenced"), "that it is told to end")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or pid not in children_of(going.process.pid), 120, "its end")
    going.more_epochs()
    going.stop()
    equal(going.lost(), ["server"], "who was lost")
    equal(going.told("rollback"), [], "roll-backs")
    graphs.check_losses(bench, going, config)


def its_own_file(bench):
    """A server in another folder has a copy of the graph, which changes while it stands by. When it takes the place of a lost one, that costs
    that server alone: the file of the run is what it was."""
    away = bench.path("away")
    shutil.copytree(graphs.make(bench), os.path.join(away, "graph"))
    shutil.copytree(graphs.path, bench.path("graph"))
    config = changed(CONFIG, graph__path="graph", cluster__replace_ms=2000)
    going = Going(bench, bench.path("run"), "gnn", "train", bench.config(config, "run.yaml"), "--out", "run", "--json", "--listen", "127.0.0.1:0")
    going.wait(lambda: len(going.came("server")) == 2, "the servers of the run")
    other = bench.start("gnn", "server", "--join", going.address(), "--token-file", bench.path("run", "token"), cwd=away)
    going.wait(lambda: len(going.came("server")) == 3, "one from elsewhere")
    going.more_epochs(1)
    flip_bit(os.path.join(away, "graph", "features.npy"), -2)
    going.kill("server", 0)
    number = going.came("server")[2]["node"]
    going.wait(lambda: any(event["node"] == number for event in going.told("lost")), "the loss of the one from elsewhere")
    equal([event["cause"] for event in going.told("lost")], ["eof", "failed"], "why they were lost")
    going.wait(lambda: len(going.came("server")) >= 4, "another server")
    going.more_epochs()
    going.stop()
    equal(going.told("rollback"), [], "roll-backs")
    equal(going.lost(), ["server", "server"], "who was lost")
    graphs.check_losses(bench, going, changed(config, graph__path=graphs.path))
    ended = bench.end(other)
    equal((ended.code, len(ended.err.splitlines())), (1, 1), f"exit code and lines of {ended.err!r}")
    check("is not what it was when the run began" in ended.err, ended.err)


for who in "server", "parameter", "worker":
    cases.add(f"starts are killed: {who}", starts_killed, who, first=who == "server")
cases.add("no file can be made", needs_disk, __file__, "no file can be made", no_file_can_be_made)
for who in "server", "parameter":
    cases.add(f"a stop while no {who} is there", stopped_without, who, first=who == "server")
cases.add("a frozen server that wakes up is fenced", wakes_up, first=True)
cases.add("the graph of one from elsewhere changes", its_own_file, first=True)

if __name__ == "__main__":
    cases.run()
