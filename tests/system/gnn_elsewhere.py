#!/usr/bin/env python3
"""Servers that nobody in the run has started, in folders of their own with copies of the graph: what only they hold is saved, and loaded again.

They reach the launcher and each other, and no file of the run.
"""
import json
import os
import shutil
import signal

from gnn_harness import ENDLESS, PATIENT, Going, Graphs
from harness import Cases, changed, check, equal

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CONFIG = {
    "graph": {"path": "graph", "features": "as-is"},
    "model": {"layers": 2, "width": 16, "dropout": 0.5},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 0,
    "optimizer": {"lr": 0.01},
    **ENDLESS,
    "checkpoint": {"every": 20},
    "cluster": {**PATIENT, "replace_ms": 600000},  # none of those who are lost is replaced
}


class There:
    """A server from elsewhere."""

    def __init__(self, bench, going, number):
        self.folder, self.temporary = bench.path(f"there-{number}"), bench.path(f"temporary-{number}")
        shutil.copytree(graphs.path, os.path.join(self.folder, "graph"))
        os.mkdir(self.temporary)
        before = len(going.came("server"))
        self.process = bench.start("gnn", "server", "--join", going.address(), "--token-file", bench.path("run", "token"), cwd=self.folder,
                                   env={**os.environ, "TMPDIR": self.temporary})
        going.wait(lambda: len(going.came("server")) > before, f"server {number} from elsewhere")
        self.node = going.came("server")[before]["node"]

    def files(self):
        """What it has beside the graph."""
        return sorted(name for folder in (self.folder, self.temporary) for where, _, names in os.walk(folder) for name in names
                      if os.path.basename(where) != "graph")

    def ended(self, bench, code):
        ended = bench.end(self.process)
        equal(ended.code, code, f"exit code of one from elsewhere; {ended.err!r}")
        equal((self.files(), os.listdir(self.temporary)), ([], []), "what it leaves behind")
        return ended.err


def begin(bench, config, count):
    """A run, and servers that stand by."""
    shutil.copytree(graphs.make(bench), bench.path("graph"))
    going = Going(bench, bench.path("run"), "gnn", "train", bench.config(config, "run.yaml"), "--out", "run", "--json", "--listen", "127.0.0.1:0")
    going.wait(lambda: len(going.came("server")) == 2 and going.came("parameter"), "those of the run")
    return going, [There(bench, going, number) for number in range(count)]


def saved_and_loaded(bench):
    """All that the run has started are lost at once: it goes back to a checkpoint, which servers from elsewhere load. They write the next
    ones, to one of which it goes back when those who hold the weights are lost at once. It stops where they have saved, and is resumed."""
    going, others = begin(bench, CONFIG, 4)
    going.wait(lambda: going.told("checkpoint"), "a checkpoint")
    going.kill_together(("server", 0), ("server", 1), ("parameter", 0))
    going.wait(lambda: going.told("rollback"), "a roll-back")
    first = going.told("rollback")[0]["to_epoch"]
    check(first >= 20, f"it went back to epoch {first}")
    going.wait(lambda: any(event["ok"] and event["epoch"] > first for event in going.told("checkpoint")), "a checkpoint of theirs")
    holders = going.told("view")[-1]["holders"]
    equal(sorted(holders), sorted(other.node for other in others[:2]), "who holds the weights")
    for number in signal.SIGSTOP, signal.SIGKILL:
        for other in others[:2]:
            other.process.send_signal(number)
    going.wait(lambda: len(going.told("rollback")) == 2, "another roll-back")
    second = going.told("rollback")[1]["to_epoch"]
    check(second > first, f"it went back to epoch {second}, after {first}")
    going.more_epochs(25)
    going.stop()
    for other in others[2:]:
        other.ended(bench, 0)
    equal(sorted(going.lost()), ["parameter"] + 4 * ["server"], "who was lost")
    equal(sum("pid" in event for event in going.told("joined")), 3, "how many the run has started, of whom none was left")
    checkpoint = going.told("checkpoint")[-1]
    check(checkpoint["ok"], f"the last checkpoint: {checkpoint}")
    last = checkpoint["epoch"]
    plain = changed(CONFIG, graph__path=graphs.path)
    graphs.check_losses(bench, going, plain, again=True)
    ended = bench.run("gnn", "train", bench.path("run.yaml"), "--out", "run", "--json", "--resume", "--set", f"epochs={last + 5}")
    equal(ended.code, 0, f"exit code of the resumed run; {ended.err!r}")
    done = json.loads(ended.out.splitlines()[-1])
    equal((done["weights_sha256"], done["state_sha256"]), graphs.reference(bench, changed(plain, epochs=last + 5))[0], "weights and state")


def launcher_killed(bench):
    """A server from elsewhere waits for a launcher that goes on, and ends when none has come."""
    going, others = begin(bench, changed(CONFIG, cluster={"heartbeat_ms": 50, "suspect_ms": 2000, "orphan_ms": 2000}), 1)
    going.more_epochs(1)
    going.kill_all()
    others[0].ended(bench, 1)


cases.add("what only servers from elsewhere hold is saved and loaded", saved_and_loaded, first=True)
cases.add("a server from elsewhere without a launcher", launcher_killed)

if __name__ == "__main__":
    cases.run()
