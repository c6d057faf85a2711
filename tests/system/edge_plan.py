#!/usr/bin/env python3
"""`culm edge plan` and `bench`, and that a run does what is planned."""
import json
import os
import random
import shutil
import subprocess
import sys

from edge_harness import (begin, end, events_of, make_model, make_pictures, publish, run_until_answered, shared, tell, told, two_models, until,
                          workload)
from harness import Cases, Skipped, check, equal

cases = Cases(kind="waits", job="edge")


def six_models(bench):
    """A workload of six models that is too much for what there is, so that plans differ, and a profile for it; and `package`, in which they have
    the first one's first layer."""
    make_pictures(bench.path("pictures"), 6)
    draw = random.Random(5)
    params = {name: make_model(bench.path(name), number, wide=32 + 32 * number) for number, name in enumerate("abcdef")}
    first = params["a"]["conv0.weight"]
    publish(bench.path("package"), 1, {name: (name + ".cfg", {part: (first if part == "conv0.weight" else value, value) for part, value in own.items()})
                                       for name, own in params.items()})
    path = workload(bench, [(name, name) for name in "abcdef"], edge="load_mb_per_s: 4, memory: 40%", fps=10)
    first = bench.run("edge", "run", path, "--for", "0.1", "--out", bench.path("first"))
    equal(first.code, 0, f"exit code ({first.err})")
    with open(bench.path("first", "profile.json"), encoding="utf-8") as file:
        profile = json.load(file)
    check(profile["load"]["mb_per_s"] > 0, f"{profile['load']}")
    for model in profile["models"].values():  # what it takes of memory, and times that are as long anywhere
        least = draw.randint(4, 20)
        model["run_ms"] = {"1": least, "2": 1.8 * least}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    plan = json.loads(bench.run("edge", "plan", path, "--profile", bench.path("profile.json"), "--for", "20", "--json").out)
    return path, plan


def as_planned(bench):
    """A run expects what `plan` says with the same profile: it is the same plan."""
    path, plan = six_models(bench)
    ended = bench.run("edge", "run", path, "--profile", bench.path("profile.json"), "--for", "0.1", "--out", bench.path("out"))
    equal(ended.code, 0, f"exit code ({ended.err})")
    start = next(event for event in events_of(bench.path("out")) if event["event"] == "start")
    wanted = {query["query"]: query["processed"] / query["frames"] for query in plan["queries"]}
    check(min(wanted.values()) < 0.999, "everything can be answered, whatever the plan")
    equal({query["query"]: round(query["processed"], 9) for query in start["expected"]}, {name: round(share, 9) for name, share in wanted.items()},
          "shares that are expected")


def watched_as_planned(bench):
    """Originals that watch merged queries take memory and time: `plan` and `bench` count them as a run does. Without checks, there is more."""
    path, _ = six_models(bench)
    words = (path, "--package", bench.path("package"), "--profile", bench.path("profile.json"), "--set", "edge.originals=never", "--json")

    def plan(*more):
        ended = bench.run("edge", "plan", *words, "--for", "20", *more)
        equal(ended.code, 0, f"exit code ({ended.err})")
        plan = json.loads(ended.out)
        equal(sorted(plan["order"]), list("abcdef"), "queries in the order")
        return {query["query"]: query["processed"] / query["frames"] for query in plan["queries"]}
    ended = bench.run("edge", "run", *words, "--for", "0.1", "--out", bench.path("out"))
    equal(ended.code, 0, f"exit code ({ended.err})")
    start = next(event for event in events_of(bench.path("out")) if event["event"] == "start")
    wanted, without = plan(), plan("--set", "edge.drift.every_s=0")
    equal({query["query"]: round(query["processed"], 9) for query in start["expected"]}, {name: round(share, 9) for name, share in wanted.items()},
          "shares that are expected")
    check(sum(wanted.values()) < sum(without.values()) - 0.01, f"checks cost nothing: {wanted}, and {without} without them")


def pinned(bench):
    """A pinned query is loaded at the start, and stays, while others come and go; what leaves no room for the others is refused in one line."""
    path, plan = six_models(bench)
    words = (path, "--profile", bench.path("profile.json"), "--set", "queries[0].pin=true", "--set", "queries[1].preload=true")
    process = begin(bench, *words)

    def of(kind, query=None):
        return [event for event in events_of(process.out) if event["event"] == kind and query in (None, event["query"])]
    until(process, "others to go, and to come again", lambda: len(of("evict")) >= 12 and of("load", "a") and of("load", "b"))
    events, _ = end(bench, process)
    loads = [event["query"] for event in events if event["event"] == "load"]
    check(set(loads[:2]) == {"a", "b"}, f"what was loaded first: {loads[:4]}")
    equal(loads.count("a"), 1, "loads of the pinned one")
    equal(of("evict", "a"), [], "evictions of the pinned one")
    anew = json.loads(bench.run("edge", "plan", *words, "--for", "20", "--json").out)
    check(anew["processed"] != plan["processed"], "the plan is as if nothing were pinned")
    pins = [word for number in range(6) for word in ("--set", f"queries[{number}].pin=true")]
    for command in ("plan", path, "--for", "1"), ("run", path, "--for", "1", "--out", bench.path("all")):
        refused = bench.run("edge", *command, "--profile", bench.path("profile.json"), *pins, "--set", "edge.memory=1.2")
        equal((refused.code, refused.err.count("\n")), (3, 1), f"exit code of {command[0]}, and lines of {refused.err!r}")
        check("pin fewer queries" in refused.err, refused.err)


def planned_anew(bench):
    """A plan that had to be made at once, with frames waiting, is followed by the one that `plan` makes."""
    path, plan = six_models(bench)
    with open(path, encoding="utf-8") as file:
        text = file.read().replace(bench.path("pictures"), bench.path("silent")).replace("loop: true", "loop: false")
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    os.mkfifo(bench.path("silent"))  # of which nothing ever comes, so that nothing is measured
    held = os.open(bench.path("silent"), os.O_RDWR)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("deadline_ms: 400", "deadline_ms: 500"))
        process = begin(bench, path, "--profile", bench.path("profile.json"))
        until(process, "the first plan", lambda: told(process.out, "plan"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        equal(tell(process).get("error"), None, "error")

        def plans():
            return [event for event in events_of(process.out) if event["event"] == "plan"]
        until(process, "the better plan", lambda: len(plans()) > 2)
        for key in ("order", "visit", "frames_waiting"):
            equal(plans()[2][key], plan[key], key)
        check(plans()[2]["least_processed"] > plans()[1]["least_processed"] + 0.02, f"it is not better: {plans()[1:]}")
        end(bench, process)
    finally:
        os.close(held)


def grid(bench):
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="load_mb_per_s: 20")
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 8, "2": 14}, "activation_bytes": {"1": 300000, "2": 600000}} for name in "ab"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    first = bench.run("edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "100", "--json")
    second = bench.run("edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "100", "--json")
    equal(first.out, second.out, "the grid of a second time")
    cells = [json.loads(line) for line in first.out.splitlines()]
    equal(len(cells), 3 * 27, "cells")
    by = {(cell["mode"], cell["memory"], cell["deadline_ms"], cell["fps"]): cell["processed"] for cell in cells}
    for (mode, *where), share in by.items():
        check(by[("load-free", *where)] >= share - 0.02, f"{mode} {where}: {share} is more than without loading")
        if mode == "max":
            check(share >= by[("none", *where)] - 0.02, f"{where}: {share} with sharing is less than without")


def grid_accuracy(bench):
    """Boxes on noise: no answer fits another frame, so what is answered in time is what is right."""
    a, b = make_model(bench.path("a"), 1), make_model(bench.path("b"), 2)
    make_pictures(bench.path("pictures"), 20)
    publish(bench.path("package"), 1, shared(a, b, {"conv1.weight", "conv2.weight"}))
    publish(bench.path("copies"), 0, shared(a, b, set()))
    path = workload(bench, [("one", "a"), ("two", "b")], edge="load_mb_per_s: 2")
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 8, "2": 14}, "activation_bytes": {"1": 300000, "2": 600000}} for name in "ab"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    words = ["edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "40", "--json", "--set", "edge.originals=never", "--set",
             "edge.drift.every_s=0"]
    ended = bench.run(*words, "--package", "merged=" + bench.path("package"), "--package", bench.path("copies"), "--package", "half=40%")
    cells = [json.loads(line) for line in ended.out.splitlines()]
    equal(len(cells), 6 * 27, f"cells ({ended.err})")
    by = {(cell["mode"], cell["memory"], cell["deadline_ms"], cell["fps"]): cell for cell in cells}
    dropped = False
    for (mode, *where), cell in by.items():
        for score in cell, cell["released_scheduler"]:
            # A frame that is answered is right, one that is not gets an answer to another frame.
            if mode != "merged":
                check(abs(score["accuracy"] - score["processed"]) < 0.35 and (score["accuracy"] > 0.999) == (score["processed"] > 0.999),
                      f"{mode} {where}: {score}")
            dropped |= score["processed"] < 0.9
            check(0.5 <= score["fairness"] <= 1, f"{mode} {where}: fairness {score['fairness']}")
        same = ("processed", "accuracy", "load_share", "queries")
        if mode == "copies":
            equal([cell[key] for key in same], [by[("none", *where)][key] for key in same], f"{where}: a package that shares nothing")
        if mode == "merged" and cell["processed"] == 1:
            check(cell["queries"][1]["accuracy"] < 0.999, f"{where}: merged weights answer like the originals")
            equal(cell["queries"][0]["accuracy"], 1, f"{where}: the one whose weights were kept")
        if mode == "half":
            check(cell["load_share"] >= by[("max", *where)]["load_share"] - 0.02, f"{where}: sharing a part loads less than sharing all")
    check(dropped, "no frame was ever dropped")
    wrong = bench.run(*words, "--package", "x=140%")
    check(wrong.code == 2 and "0% to 100%" in wrong.err, f"{wrong.code} {wrong.err}")


def held_out_by_time(bench):
    """Of a clip, `bench` decodes the part that merging has not seen, of which it scores the answers, and nothing before; of a part of a clip, the end of that. What
    can be read once alone is refused."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    make_model(bench.path("a"), 1)
    subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=96x80:rate=10:duration=6", "-c:v", "ffv1", bench.path("clip.mkv")], check=True)
    os.makedirs(bench.path("bin"))
    with open(bench.path("bin", "ffmpeg"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho \"$@\" >> {bench.path('calls')}\nexec {shutil.which('ffmpeg')} \"$@\"\n")
    os.chmod(bench.path("bin", "ffmpeg"), 0o755)
    path = workload(bench, [("one", "a")], feed="clip.mkv")
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump({"format": 1, "models": {"a": {"run_ms": {"1": 8, "2": 14}, "activation_bytes": {"1": 300000, "2": 600000}}}}, file)
    words = ["edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "10", "--answers", "50", "--json"]
    for part, first in ([], 4.2), (["--set", "feeds.hall.from=1", "--set", "feeds.hall.to=5"], 3.8):
        ended = bench.run(*words, *part, env=os.environ | {"PATH": bench.path("bin") + ":" + os.environ["PATH"]})
        equal(ended.code, 0, "exit code")
        check(all(json.loads(line)["accuracy"] is not None for line in ended.out.splitlines()), "no accuracy")
        with open(bench.path("calls"), encoding="utf-8") as file:
            calls = [line.split() for line in file.read().splitlines() if "ppm" in line][1:]  # the first only to see whether it can be opened
        os.remove(bench.path("calls"))
        begins = [float(call[call.index("-ss") + 1]) for call in calls]
        check(begins and all(first - 0.09 < at <= first for at in begins), f"{calls} do not begin with the frame at {first} s")
    os.mkfifo(bench.path("pipe.y4m"))
    ended = bench.run(*words, "--set", f"feeds.hall.file={bench.path('pipe.y4m')}", "--set", "feeds.hall.loop=false")
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "more than once" in ended.err, f"{ended.code}: {ended.err}")


def large_models(bench):
    """The published models: nothing of them is here but a profile."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "edge")
    with open(bench.path("published.json"), "wb") as file:
        file.write(subprocess.run([sys.executable, os.path.join(folder, "published.py")], check=True, stdout=subprocess.PIPE).stdout)
    plan = ["edge", "plan", os.path.join(folder, "published.yaml"), "--profile", bench.path("published.json"), "--for", "10", "--json"]
    told = json.loads(bench.run(*plan).out)
    models = 2 * 553430176 + 3 * 102015648 + 240165536 + 2 * 247586164
    check(models <= told["distinct_bytes"] < models * 1.0001, f"{told['distinct_bytes']} bytes instead of {models} and parts of pages")
    check(all(0 < query["processed"] < query["frames"] for query in told["queries"]), f"{told['queries']}")


def same_name(bench):
    """Two models in files of one name have times of their own; two with the same layers share them."""
    for folder, wide in ("x", 16), ("y", 64), ("z", 16):
        os.makedirs(bench.path(folder))
        make_model(bench.path(folder, "best"), 1 + wide + (folder == "z"), wide=wide)
    make_pictures(bench.path("pictures"), 6)
    path = workload(bench, [("one", "x/best"), ("two", "y/best"), ("three", "z/best")])
    run_until_answered(bench, path)
    with open(bench.path("out", "profile.json"), encoding="utf-8") as file:
        models = json.load(file)["models"]
    equal(sorted(models), ["best", "best@two"], "models of the profile")
    shown = bench.run("edge", "plan", path, "--profile", bench.path("out", "profile.json"), "--for", "1", "--json")
    equal(shown.code, 0, f"exit code of a plan by it: {shown.err}")


cases.add("a run expects what was planned", as_planned, first=True)
cases.add("a run expects what was planned, with the originals that watch", watched_as_planned, first=True)
cases.add("a pinned query stays", pinned, first=True)
cases.add("a plan made in haste is followed by a better one", planned_anew)
cases.add("the grid", grid, kind="computes", seconds=8)
cases.add("the grid's accuracy", grid_accuracy, kind="computes", seconds=7)
cases.add("answers to the held-out part of a clip, found by time", held_out_by_time, first=True)
cases.add("large published models in virtual time", large_models, first=True)
cases.add("models in files of one name", same_name)

if __name__ == "__main__":
    cases.run()
