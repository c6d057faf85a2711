#!/usr/bin/env python3
"""What `culm gnn` tells of a run that goes wrong or has nothing to do, and what it refuses before it begins."""
import json
import os

from gnn_harness import ONE, Graphs, fault
from harness import Cases, changed, check, equal

cases = Cases()
graphs = Graphs(cases, "--vertices", "200", "--edges", "800", "--features", "8", "--classes", "3", "--seed", "2")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 4},
    "epochs": 6,
    "intervals": 4,
    "servers": 2,
    "checkpoint": {"every": 1},
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 5000},
}


def one_line(ended, code, *parts):
    """It ends with that code, and one line on standard error that has these parts."""
    equal(ended.code, code, f"exit code; {ended.err.strip()[-300:]}")
    equal(len(ended.err.splitlines()), 1, f"lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")


# --- runs that go wrong, or have nothing to do ---------------------------------------------------------------------------------


def diverged(bench, changes):
    """A loss that is not finite ends the run, and only what was saved before is left."""
    run = graphs.train(bench, changed(CONFIG, optimizer={"lr": 1e30}, **changes), code=3)
    one_line(run, 3, "epoch ", "not finite", "optimizer.lr")
    told = [event["epoch"] for event in run.all("epoch")]
    equal(told, list(range(1, len(told) + 1)), "epochs told")
    equal((len(run.all("done")), run.one("error")["code"]), (0, "config"), "events done and error")
    check(told[-1] < 6, f"all epochs were told: {told}")
    for event in run.all("checkpoint"):
        check(event["epoch"] <= told[-1], f"a checkpoint of epoch {event['epoch']}")
        shown = bench.run("ckpt", "show", event["path"])
        equal((shown.code, shown.err), (0, ""), "exit code and standard error of ckpt show")
    check(not os.path.exists(os.path.join(run.dir, "model.safetensors")), "a model was written")


def nothing_to_do(bench):
    """Without an epoch there is no loss, and none is shown."""
    words = graphs.words_of(bench, changed(CONFIG, epochs=0), "run")[:-1]
    ended = bench.run(*words)
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    check("done: 0 epochs\n" in ended.out, f"it says {ended.out!r}")
    words = graphs.words_of(bench, changed(CONFIG, epochs=1), "one")[:-1]
    ended = bench.run(*words)
    check("done: 1 epoch, loss 1." in ended.out, f"it says {ended.out!r}")
    ended = bench.run(*words, "--resume")
    equal((ended.code, ended.err), (0, ""), "exit code and standard error of a resume")
    check("done: 1 epoch\n" in ended.out, f"it says {ended.out!r}")


def events(bench):
    """Each has the number of its view; who is lost is named by its pid and its epoch."""
    run = graphs.train(bench, changed(CONFIG, epochs=8), "run", *fault("server:1", 4, "gather"))
    lost, done = run.one("lost"), run.one("done")
    equal((lost["epoch"], lost["role"]), (4, "server"), "epoch and role of the loss")
    equal(lost["pid"], next(event["pid"] for event in run.all("joined") if event["node"] == lost["node"]), "pid of the loss")
    views = {event["epoch"]: event["view"] for event in run.all("epoch")}
    check(views[1] >= 1, f"view of the first epoch: {views[1]}")
    check(views[8] > views[3], f"views of epochs before and after a loss: {views}")
    equal(done["view"], max(event["view"] for event in run.events), "view of done")
    equal((done["losses"], done["nodes_lost"]), (1, 1), "losses in done")


cases.add("it diverges", diverged, {})
cases.add("it diverges, with workers and older rows", diverged, {"mode": "async", "workers": 1})
cases.add("it diverges, with patience", diverged, {"stop": {"patience": 3}})
cases.add("nothing to do", nothing_to_do)
cases.add("what events tell", events)

cases.run()
