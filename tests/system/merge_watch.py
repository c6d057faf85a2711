#!/usr/bin/env python3
"""`culm merge --watch`: merging that goes on by itself beside a run at the edge, after drift and with other queries."""
import json
import os
import signal
import struct

import edge_harness
from edge_drift import turning_scene
from edge_harness import events_of, told, until
from harness import Cases, check, children_of, equal, wait_until
from merge import merge
from merge_resume import common, round_of, workload

cases = Cases(kind="waits", job="edge")
LIVE = ("--set", "edge.originals=never", "--set", "edge.memory=all", "--set", "edge.drift.every_s=0", "--set", "feeds.camera.loop=true", "--set",
        "feeds.camera.fps=20")


def idx_frames(path):
    with open(path, "rb") as file:
        return struct.unpack(">I", file.read(8)[4:])[0]


def niceness(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[16])


def watchers_of(run):
    found = []
    for pid in children_of(run.pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            found += [pid] if file.read().split(b"\0")[1:3] == [b"merge", b"--watch"] else []
    return found


def after_drift(bench):
    """A scene turns: the query that drift takes back is merged again, by the run's own watcher, with old and new frames, and stays merged when the
    first scene is back. The watcher is niced, and ends with the run."""
    path, first, show = turning_scene(bench, edge=", remerge: true")
    package = bench.path("package")
    process = edge_harness.begin(bench, path, "--package", package)
    until(process, "the run", lambda: told(process.out, "start"))
    until(process, "its watcher", lambda: watchers_of(process))
    watchers = watchers_of(process)
    equal([niceness(pid) for pid in watchers], [19], "niceness of watchers")
    show("after")
    until(process, "it to go back", lambda: any(event.get("action") == "reverted" for event in events_of(process.out)))
    until(process, "a later round", lambda: round_of(bench)["round"] > first["round"] and all(query["merged"] >= 0 for query in round_of(bench)["queries"]))
    now = round_of(bench)
    check(common(now, "one", "two"), "the query was not merged again")
    until(process, "that round in use", lambda: told(process.out, "round", round=now["round"]))
    with open(os.path.join(package, "config.yaml"), encoding="utf-8") as file:
        text = file.read()
    mixed = [name for name in os.listdir(os.path.join(package, "watch")) if name.endswith(".idx")]
    equal(len(mixed), 1, "files of frames")
    check(os.path.join("watch", mixed[0]) in text, f"the package is not of these frames: {text}")
    frames = idx_frames(os.path.join(package, "watch", mixed[0]))
    check(30 + 64 <= frames <= 30 + 256, f"{frames} frames, of which 30 are old")
    def checks():
        return [event for event in events_of(process.out) if event["event"] == "drift"]
    seen = len(checks())
    until(process, "checks of what was learnt last", lambda: len(checks()) >= seen + 4)
    show("first")
    shown = len(checks())
    until(process, "checks of what was learnt first", lambda: len(checks()) >= shown + 4)
    equal({event["action"] for event in checks()[seen:]}, {"none"}, "checks after it was merged again")
    edge_harness.end(bench, process)
    wait_until(lambda: not os.path.exists(f"/proc/{watchers[0]}"), 60, "the watcher's end")
    equal(bench.run("merge", "show", package, "--check").code, 0, "exit code of show")


cases.add("drift: merged again by itself, with old and new frames", after_drift, seconds=12, first=True)


def watch(bench, *words):
    return bench.start("merge", "--watch", *(words or (bench.path("package"), bench.path("out"))), "--json")


def lines_of(process):
    with open(process.out_path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def one_line(bench, code, what, *words):
    ended = bench.run("merge", "--watch", *words)
    equal(ended.code, code, f"exit code with {words}; {ended.err}")
    check(ended.err.count("\n") == 1 and what in ended.err, f"'{ended.err}' does not say '{what}' in one line")


def queries_come(bench):
    """A run is given another query, and loses one: its package follows, and rounds that nobody uses are removed. Killed on the way, another watcher
    goes on; two at once are refused; a signal ends it well."""
    path = workload(bench, "ab", pictures="images")  # texts that each workload has to have of its own
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["feeds"]["camera"].update(options=["-hwaccel", "none"], every=1)
    bench.config(config, "w.yaml")
    merge(bench, path, "package")
    first = round_of(bench)["round"]
    run = edge_harness.begin(bench, path, "--package", bench.path("package"), *LIVE)
    until(run, "the run", lambda: told(run.out, "start"))
    killed = watch(bench)
    until(killed, "the watcher", lambda: any(event["event"] == "watching" for event in lines_of(killed)))
    one_line(bench, 3, "another 'culm merge --watch'", bench.path("package"), bench.path("out"))
    one_line(bench, 3, "no package", bench.path("nowhere"), bench.path("out"))
    one_line(bench, 3, "begin the run first", bench.path("package"), bench.path("nowhere"))
    one_line(bench, 2, "--watch PACKAGE RUN", bench.path("package"))
    workload(bench, "abc")  # the same file
    edge_harness.tell(run)
    until(killed, "that it merges on", lambda: any(event["event"] == "goes_on" for event in lines_of(killed)))
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    watcher = watch(bench)

    def is_whole(names):
        now = round_of(bench)
        return [query["query"] for query in now["queries"]] == names and all(query["merged"] >= 0 for query in now["queries"])
    until(watcher, "a package with c", lambda: is_whole(["a", "b", "c"]))
    until(run, "that round in use", lambda: told(run.out, "round", round=round_of(bench)["round"]))
    check(common(round_of(bench), "a", "c"), "c shares nothing with a")
    until(watcher, "rounds removed", lambda: any(event["event"] == "pruned" for event in lines_of(watcher)))
    equal(bench.run("merge", "show", bench.path("package"), "--check").code, 0, "exit code of show")
    now = round_of(bench)["round"]
    left = sorted(int(name.split(".")[0]) for name in os.listdir(bench.path("package", "rounds")))
    check(first in left and now in left and len(left) <= 3, f"rounds {left}, of which {first} and {now} are used")
    os.kill(watcher.pid, signal.SIGTERM)
    equal(bench.end(watcher).code, 0, "exit code of the watcher")
    edge_harness.end(bench, run)
    refused = bench.run("edge", "run", path, "--set", "edge.remerge=true", *LIVE, "--for", "1", "--out", bench.path("alone"))
    equal((refused.code, refused.err.count("\n")), (3, 1), f"exit code, and lines of {refused.err!r}")
    check("edge.remerge" in refused.err and not os.path.exists(bench.path("alone")), refused.err)


cases.add("queries come, and merging goes on by itself", queries_come, first=True)

if __name__ == "__main__":
    cases.run()
