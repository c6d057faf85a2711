#!/usr/bin/env python3
"""`culm edge`: queries on feeds in little memory, what they share, and the plan. Models and pictures are made here, so nothing else is needed."""
import hashlib
import json
import math
import os
import random
import shlex
import shutil
import signal
import struct
import subprocess

from edge_harness import (begin, CFG, check_done, end, events_of, fresh, make_model, make_pictures, publish, run_until_answered, run_until_shared,
                          same_as_predict, shared, told, two_models, until, workload, write_mixed)
from harness import Cases, Skipped, check, equal, memory_group, read_events, resident, stands_still, wait_until

cases = Cases(kind="waits", job="edge")


def run_alone(bench):
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    _, done = run_until_answered(bench, path, evicts=True)
    same_as_predict(bench, bench.path("out"), "one", "a")
    same_as_predict(bench, bench.path("out"), "two", "b")
    drawn = [name for name in os.listdir(bench.path("out", "pictures")) if name.startswith("one-")]
    check(drawn, "no answer was drawn")
    report = bench.run("report", bench.path("out"), "--html", bench.path("page.html"))
    equal(report.code, 0, "exit code of report")
    with open(bench.path("page.html"), encoding="utf-8") as file:
        page = file.read()
    check(f'<img alt="{drawn[0]}" src="data:image/png;base64,iVBOR' in page, "the page has no pictures")
    check("Weights in memory" in page, "the page has no chart of memory")
    again = bench.run("edge", "plan", path, "--profile", bench.path("out", "profile.json"), "--json")
    equal(json.loads(again.out)["limit_bytes"], done["limit_bytes"], "the limit of the plan")


def shared_bits(bench):
    """What is shared is there once, and answers are those of private copies."""
    a, b = two_models(bench)
    publish(bench.path("package"), 1, shared(a, b, {"conv1.weight", "conv2.weight"}))
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: all, drift: {every_s: 0}")
    events, done = run_until_answered(bench, path, "--package", bench.path("package"))
    loaded = sum(event["bytes"] for event in events if event["event"] == "load")
    private = sum(event["bytes"] for event in events if event["event"] == "query")
    check(loaded <= private - len(a["conv1.weight"][1]) - len(a["conv2.weight"][1]), f"{loaded} bytes loaded of {private}")
    said = json.loads(bench.run("merge", "show", bench.path("package"), "--json").out)
    start = next(event for event in events if event["event"] == "start")
    with open(bench.path("package", "rounds", f"{said['round']}.json"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    equal(start["package"], {"bytes": said["total_bytes"], "distinct_bytes": said["distinct_bytes"], "digest": digest}, "what the package saves")
    equal((done["round"], done["package"]), (start["round"], start["package"]), "the round at the end")
    saved = 1 - said["distinct_bytes"] / said["total_bytes"]
    check(saved > 0.1, f"{saved} saved")
    equal(bench.run("report", bench.path("out"), "--html", bench.path("page.html")).code, 0, "exit code of report")
    with open(bench.path("page.html"), encoding="utf-8") as file:
        page = file.read()
    for what in (f"{100 * saved:.1f} % saved of the layers", "answered in time", "Weights in memory", "data:image/png;base64", "<h2>Queries</h2>"):
        check(what in page, f"not on the page: {what}")
    same_as_predict(bench, bench.path("out"), "one", "a")
    mixed = b"".join([struct.pack("<iiiq", 0, 2, 0, 0)]
                     + [(a if name in ("conv1.weight", "conv2.weight") else b)[name][1] for name in b])
    with open(bench.path("mixed.weights"), "wb") as file:
        file.write(mixed)
    with open(bench.path("mixed.cfg"), "w", encoding="utf-8") as file:
        file.write(CFG.format(wide=64, side=64))
    same_as_predict(bench, bench.path("out"), "two", "mixed")


def own_weights(bench):
    """What was merged runs on its own weights where no frame is lost by it, as `plan` says before; else merged; and never, if so wanted."""
    a, b = two_models(bench)
    names = {"conv1.weight", "conv2.weight"}
    publish(bench.path("package"), 1, shared(a, b, names))
    write_mixed(bench, "mixed", a, b, names)
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 5, "2": 9}, "activation_bytes": {"1": 300000, "2": 600000}} for name in "ab"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    lean = "memory: 50%, load_mb_per_s: 0.3, drift: {every_s: 0}"  # a load takes longer than there is time
    for number, (edge, own) in enumerate([("memory: all", ["two"]), ("memory: all, originals: never", []), (lean, [])]):
        path = workload(bench, [("one", "a"), ("two", "b")], edge=edge)
        words = [path, "--package", bench.path("package"), "--profile", bench.path("profile.json")]
        equal(json.loads(bench.run("edge", "plan", *words, "--json").out)["originals"], own, f"queries on their own weights, as planned: {edge}")
        out = f"run-{number}"
        process = begin(bench, *words, out=out)
        until(process, "answers", lambda out=out: len(fresh(bench.path(out), "two")) >= 3)
        if number == 0:  # another round changes nothing in that
            publish(bench.path("package"), 2, shared(a, b, names | {"conv0.weight"}))
            until(process, "the new round", lambda process=process: told(process.out, "round", round=2))
            mark = len(fresh(process.out, "two"))
            until(process, "answers after it", lambda process=process, mark=mark: len(fresh(process.out, "two")) > mark + 3)
            publish(bench.path("package"), 1, shared(a, b, names))
        events, _ = end(bench, process)
        plans = [event["originals"] for event in events if event["event"] == "plan"]
        check(all(plan == own for plan in plans), f"queries on their own weights, {edge}: {plans}")
        same_as_predict(bench, bench.path(out), "two", "b" if own else "mixed")


def twins(bench):
    """Two queries of one model on one feed, with other scores: it runs once, and each has its own answers, whichever it runs for."""
    two_models(bench)
    with open(bench.path("a.weights"), "r+b") as file:  # less sure that there is anything: so that there is little to compute for a high score
        at = os.path.getsize(file.name) - 4 * 14 * (64 + 1)
        for channel in (4, 11):
            file.seek(at + 4 * channel)
            file.write(struct.pack("<f", -8))
    for out, high in (("out", "also"), ("other", "one")):
        path = workload(bench, [("one", "a"), ("also", "a"), ("two", "b")])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for name in ("one", "also"):
            line = next(line for line in text.splitlines() if f"name: {name}" in line)
            other = line.replace("score: 0.05", "score: 0.9") if name == high else line
            text = text.replace(line, other.replace("deadline_ms: 400", "deadline_ms: 500") if name == "also" else other)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        _, done = run_until_shared(bench, path, count=10, out=out, enough=lambda frames, answered:
                                   frames["one"] + frames["also"] >= min(answered["one"], answered["also"]) / 2)
        for name in ("one", "also"):
            same_as_predict(bench, bench.path(out), name, "a", score="0.9" if name == high else "0.05")
        same_as_predict(bench, bench.path(out), "two", "b")
        shared = {query["query"]: query["shared"] for query in done["queries"]}
        equal(shared["two"], 0, "frames for which the model of another one was not run again")


def prefixes(bench):
    """Models that begin alike run that part once, with as many threads as there are, and each answers as it does alone."""
    a, b = two_models(bench)
    c = make_model(bench.path("c"), 7)
    one = {name for name in a if name.startswith("conv0.")}
    two = one | {name for name in a if name.startswith("conv1.")}
    package = {"one": ("a.cfg", {name: (value, value) for name, value in a.items()}),
               "other": ("c.cfg", {name: (value, value) for name, value in c.items()}),
               "short": ("c.cfg", {name: (a[name] if name in one else value, value) for name, value in c.items()}),
               "long": ("b.cfg", {name: (a[name] if name in two else value, value) for name, value in b.items()})}
    publish(bench.path("package"), 1, package)
    write_mixed(bench, "short", a, c, one)
    write_mixed(bench, "long", a, b, two)
    for threads, memory in ((1, "8"), (2, "8"), (1, "min")):
        out = f"out-{threads}-{memory}"
        path = workload(bench, [("one", "a"), ("other", "c"), ("short", "c"), ("long", "b")],
                        edge=f"originals: never, memory: {memory}, threads: {threads}, drift: {{every_s: 0}}")
        # Of three that begin alike one is first, and the others go on from it, unless other processes take the time for that.
        def enough(frames, answered, memory=memory, alike=("one", "short", "long")):
            return memory == "min" or (sum(frames[name] > 0 for name in alike) >= 2
                                       and sum(frames[name] for name in alike) >= sum(answered[name] for name in alike) / 3)
        _, done = run_until_shared(bench, path, "--package", bench.path("package"), out=out, enough=enough)
        for query, model in (("one", "a"), ("other", "c"), ("short", "short"), ("long", "long")):
            same_as_predict(bench, bench.path(out), query, bench.path(model))
        shared = {query["query"]: query["shared"] for query in done["queries"]}
        equal(shared["other"], 0, "frames that a model shares which begins with weights of its own")
        if memory == "min":
            continue
        with open(bench.path(out, "profile.json"), encoding="utf-8") as file:
            models = json.load(file)["models"]
        for name in "ab":
            times = [prefix["1"] for prefix in models[name]["prefix_ms"].values()]
            equal(len(times), 2, f"prefixes of {name}")
            check(all(0 < ms < models[name]["run_ms"]["1"] for ms in times), f"{name} takes {models[name]['run_ms']}, its prefixes {times}")
        plan = bench.run("edge", "plan", path, "--package", bench.path("package"), "--profile", bench.path(out, "profile.json"), "--json")
        planned = {query["query"]: query["shared"] / query["frames"] for query in json.loads(plan.out)["queries"]}
        check(planned["other"] == 0 and planned["one"] + planned["short"] + planned["long"] > 1.9, f"shares of frames that are planned so: {planned}")


def heads_alike(bench):
    """Two models with the same numbers of which one reads a map as two anchors, the other as one: neither goes on from what the other left out."""
    def section(**keys):
        return "[convolutional]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) + "pad=1\n\n"
    body = "".join(section(batch_normalize=1, filters=f, size=3, stride=2, activation="leaky") for f in (16, 64, 64))
    head = section(filters=14, size=1, stride=1, activation="linear")
    params, raw, draw = {}, struct.pack("<iiiq", 0, 2, 0, 0), random.Random(1)
    for k, (out, into, size) in enumerate([(16, 3, 3), (64, 16, 3), (64, 64, 3), (14, 64, 1), (14, 64, 1)]):
        def numbers(count, low, high):
            return [draw.uniform(low, high) for _ in range(count)]
        bias = numbers(out, -0.5, 0.5)
        if k >= 3:
            bias[4] = -12  # the first anchor sees little, so that most of the map is left out where it is read as one
            bias[11] = 0
        parts = [("bias", [out], bias)]
        if k < 3:
            parts += [("scale", [out], numbers(out, 0.5, 1.5)), ("mean", [out], numbers(out, -0.2, 0.2)), ("variance", [out], numbers(out, 0.2, 1))]
        parts.append(("weight", [out, into, size, size], numbers(out * into * size * size, -0.3, 0.3)))
        for kind, shape, values in parts:
            data = struct.pack(f"<{len(values)}f", *values)
            params[f"conv{k}.{kind}"] = (shape, data)
            raw += data
    for name, yolo in (("a", "[yolo]\nmask=0,1\nanchors=12,12, 30,30\nclasses=2\nnum=2\n\n"), ("b", "[yolo]\nmask=0\nanchors=12,12\nclasses=9\nnum=1\n\n")):
        with open(bench.path(name + ".cfg"), "w", encoding="utf-8") as file:
            file.write("[net]\nwidth=64\nheight=64\nchannels=3\n\n" + body + head + yolo + "[route]\nlayers=-3\n\n" + head + yolo)
        with open(bench.path(name + ".weights"), "wb") as file:
            file.write(raw)
    make_pictures(bench.path("pictures"), 6)
    publish(bench.path("package"), 1, {query: (f"{model}.cfg", {name: (value, value) for name, value in params.items()}) for query, model in (("bee", "b"), ("ay", "a"))})
    path = workload(bench, [("bee", "b"), ("ay", "a")], edge="originals: never, memory: 8, drift: {every_s: 0}")
    run_until_shared(bench, path, "--package", bench.path("package"), enough=lambda frames, answered: sum(frames.values()) >= sum(answered.values()) / 4)
    same_as_predict(bench, bench.path("out"), "bee", "b")
    same_as_predict(bench, bench.path("out"), "ay", "a")


def cgroup(bench):
    """In a memory cgroup just above the limit nothing is killed."""
    with memory_group() as (set_limit, inside):
        make_pictures(bench.path("pictures"), 6)
        for number, name in enumerate("abcdef"):
            make_model(bench.path(name), number, wide=512)
        path = workload(bench, [(name, name) for name in "abcdef"], edge="memory: min")
        plain = bench.run("edge", "plan", path, "--json")
        limit = json.loads(plain.out)["limit_bytes"]
        everything = json.loads(plain.out)["most_bytes"]
        # What the process takes beside the arena, of a run without a group.
        process = begin(bench, path, out="free")
        until(process, "answers", lambda: all(len(fresh(process.out, name)) > 2 for name in "abcdef"))
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
            peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
        end(bench, process)
        most = peak + (2 << 20)
        set_limit(most)
        with open(bench.path("inside"), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {shlex.join(inside(bench.culm))} "$@"\n')
        os.chmod(bench.path("inside"), 0o755)
        bench.culm = bench.path("inside")
        events, done = run_until_answered(bench, path, count=10, evicts=True)
        equal(events[-1]["event"], "done", "the last event")
        check(done["resident_max_bytes"] <= limit, f"{done['resident_max_bytes']} of {limit} bytes")
        check(all(query["processed"] > 0 for query in done["queries"]), f"{done['queries']}")
        bench.note(f"limit {limit} of {everything} bytes, group {most} bytes")


def own_labels(bench):
    """Queries of one feed are each compared with labels of their own: a file, another one, the number of the folder, none."""
    bench.config({"model": {"arch": "resnet", "blocks": [1], "width": 4, "small_stem": True, "image": 24, "channels": 3, "classes": 4},
                  "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": 1}, "c.yaml")
    for number in range(2):
        make_pictures(bench.path("pictures", str(number)), 4, seed=number, blue=number == 0)
    said = [json.loads(line)["classes"][0]["class"] for line in bench.run("predict", bench.path("c.yaml"), bench.path("pictures"), "--json").out.splitlines()]
    equal(len(said), 8, "pictures")
    for name, shift in (("right", 0), ("wrong", 1)):
        with open(bench.path(name), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 8) + bytes((label + shift) % 4 for label in said))
    path = workload(bench, [("one", "c"), ("two", "c"), ("three", "c"), ("four", "c")], edge="drift: {every_s: 0}")
    words = [path]
    for number in range(4):
        words += ["--set", f"queries[{number}].model={bench.path('c.yaml')}"]
    words += ["--set", f"queries[0].labels={bench.path('right')}", "--set", f"queries[1].labels={bench.path('wrong')}",
             "--set", "queries[2].labels=folders"]
    _, done = run_until_answered(bench, *words, count=8)
    by = {query["query"]: query["accuracy"] for query in done["queries"]}
    equal((by["one"], by["two"], by["four"]), (1, 0, None), "accuracies by the right labels, by wrong ones, and without any")
    check(by["three"] is not None and 0 <= by["three"] <= 1, f"accuracy by folders: {by['three']}")
    for job, where in (("run", ["--out", bench.path("other")]), ("bench", [])):
        ended = bench.run("edge", job, *words, *where, "--set", f"feeds.hall.file={bench.path('pictures', '0')}",
                          "--set", "queries[0].labels=folders", "--set", "queries[1].labels=folders")
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "a folder of pictures for each class" in ended.err,
              f"{job}, labels by folders that are not there: {ended.code}: {ended.err}")
    words += ["--set", f"queries[0].labels={bench.path('nowhere')}"]
    ended = bench.run("edge", "run", *words, "--out", bench.path("other"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "nowhere" in ended.err, f"{ended.code}: {ended.err}")
    check(not os.path.exists(bench.path("other")), "a run that did not begin left its directory")
    for count in 7, 9:
        with open(bench.path("other-count"), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(count))
        words += ["--set", f"queries[0].labels={bench.path('other-count')}"]
        ended = bench.run("edge", "run", *words, "--for", "1", "--out", bench.path("other"))
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and f"has {count} labels, but the feed has 8 frames" in ended.err,
              f"{count} labels: {ended.code}: {ended.err}")


def labels_of_boxes(bench):
    """What is right of a detector is a line a frame, as `predict` writes it: `merge`, `run`, its checks for drift, and `bench` go by that. Boxes are in
    pixels of their own frame, whatever the size of the others."""
    a, b = two_models(bench)
    shutil.rmtree(bench.path("pictures"))
    make_pictures(bench.path("pictures"), 6, sizes=((96, 80), (48, 100)))
    for name in "ab":
        said = bench.run("predict", name + ".cfg", bench.path("pictures"), "--score", "0.05", "--json").out
        with open(bench.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
            file.write(said)
    path = workload(bench, [("one", "a"), ("two", "b"), ("other", "a")], edge="originals: never, memory: all, drift: {every_s: 0.5, frames: 4}")
    words = [path]
    for number, name in enumerate("abb"):  # those of the first model, of the second, and of the second for the first once more
        words += ["--set", f"queries[{number}].labels={bench.path(name)}.jsonl"]
    ended = bench.run("merge", *words, "--out", bench.path("none"), "--json", "--set", "merge.method=none")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    merged = {query["query"]: query for query in json.loads(ended.out.splitlines()[-1])["queries"]}
    equal([merged[name]["original"] for name in ("one", "two")], [1, 1], "accuracies of the originals by labels that are theirs")
    check(merged["other"]["original"] < 0.5 and merged["other"]["agreement"] == 1, f"by another's labels: {merged['other']}")
    corner = {"class": 0, "x": 0, "y": 0, "width": 1, "height": 1}
    for name, boxes, says in [("empty", [], "nothing is to be found by its labels"), ("corner", [corner], "the original is never right by its labels")]:
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write((json.dumps({"boxes": boxes}) + "\n") * 6)
        ended = bench.run("merge", *words, "--set", f"queries[0].labels={bench.path(name)}", "--out", bench.path(f"merged-{name}"), "--json",
                          "--set", "merge.steps=1")
        equal(ended.code, 0, f"exit code of merge: {ended.err}")
        warnings = [event["message"] for event in map(json.loads, ended.out.splitlines()) if event["event"] == "warning"]
        check(f"query 'one': {says} in the frames that are checked, so it stays unmerged" in warnings, f"{name}: {warnings}")
    package = shared(a, b, {"conv0.weight", "conv1.weight", "conv2.weight"})
    publish(bench.path("package"), 1, package)
    process = begin(bench, *words, "--package", bench.path("package"))

    def checks(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "it to go back by its labels", lambda: any(event["action"] == "reverted" for event in checks("two")))
    _, done = end(bench, process)
    equal({event["by"] for event in checks("two")}, {"labels"}, "what checks go by")
    check(all(event["promised"] == 0.95 for event in checks("two")), f"promised, where the original is always right: {checks('two')}")
    by = {query["query"]: query["accuracy"] for query in done["queries"]}
    check(by["one"] == 1 and by["two"] < 0.9 and by["other"] < 0.5, f"accuracies of a run: {by}")
    ended = bench.run("edge", "bench", *words, "--json", "--frames", "50", "--profile", os.path.join(process.out, "profile.json"))
    cell = json.loads(ended.out.splitlines()[-1])  # load-free, 30 frames a second in 400 ms
    told_of = {query["query"]: query["accuracy"] for query in cell["queries"]}
    check(told_of["one"] > 0.5 > told_of["other"], f"accuracies in the grid: {told_of}")
    fewer = bench.run("edge", "bench", *words, "--json", "--frames", "20", "--profile", os.path.join(process.out, "profile.json"),
                      "--set", "merge.held_out=0.5", "--answers", "2")  # of three that were held out, of six
    equal(fewer.code, 0, f"exit code with fewer answers than frames were held out: {fewer.err}")
    with open(bench.path("a.jsonl"), encoding="utf-8") as file:
        text = file.read()
    for name, broken, says in [("cut", text[:-20], "line 6"), ("short", "".join(text.splitlines(True)[:5]), "5 lines, but the feed has 6"),
                               ("classes", text.replace('"boxes"', '"classes"'), 'no "boxes"'),
                               ("index", text.replace('"class":1', '"class":7'), "a class 7, and the model has 2")]:
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write(broken)
        for command in (["merge", path, "--out", bench.path("refused")], ["edge", "run", path, "--out", bench.path("refused")]):
            ended = bench.run(*command, "--set", f"queries[0].labels={bench.path(name)}")
            check(ended.code == 3 and len(ended.err.splitlines()) == 1 and says in ended.err, f"{command[:2]}, {name}: {ended.code}: {ended.err}")


def points_model(bench, name, seed):
    """A model of 68 landmarks with first weights, for pictures of 24 x 24."""
    bench.config({"model": {"arch": "resnet", "blocks": [1], "width": 4, "small_stem": True, "image": 24, "channels": 3, "classes": 136},
                  "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": seed}, name + ".yaml")


def labels_of_points(bench):
    """What is right of landmarks is a line a frame, too: `merge` and `run` go by that."""
    make_pictures(bench.path("pictures"), 6, sizes=((96, 80), (40, 100)))
    for number, name in enumerate("ab"):
        points_model(bench, name, number + 1)
        said = bench.run("predict", name + ".yaml", bench.path("pictures"), "--json").out
        equal([len(json.loads(line)["points"]) for line in said.splitlines()], 6 * [68], "landmarks")
        with open(bench.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
            file.write(said)
    path = workload(bench, [("own", "a"), ("other", "a"), ("none", "a")], edge="drift: {every_s: 0}")
    words = [path] + [word for number in range(3) for word in ("--set", f"queries[{number}].model={bench.path('a.yaml')}")]
    words += ["--set", f"queries[0].labels={bench.path('a.jsonl')}", "--set", f"queries[1].labels={bench.path('b.jsonl')}"]
    ended = bench.run("merge", *words, "--out", bench.path("none"), "--json", "--set", "merge.method=none")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    merged = {query["query"]: query for query in json.loads(ended.out.splitlines()[-1])["queries"]}
    equal([merged[name]["original"] for name in ("own", "none")], [1, 1], "accuracies by labels that are its own answers, and without any")
    check(merged["other"]["original"] < 1 and merged["other"]["agreement"] == 1, f"by another's labels: {merged['other']}")
    _, done = run_until_answered(bench, *words, count=6)
    by = {query["query"]: query["accuracy"] for query in done["queries"]}
    check(by["own"] == 1 and by["other"] < 1 and by["none"] is None, f"accuracies of a run: {by}")
    with open(bench.path("a.jsonl"), encoding="utf-8") as file:
        lines_of = [json.loads(line) for line in file]
    for name, change, says in [("fewer", lambda line: line["points"].pop(), "67 points, and the model has 68"),
                               ("boxes", lambda line: line.update(boxes=line.pop("points")), 'no "points"'),
                               ("nowhere", lambda line: line["points"][5].pop("y"), 'a point is "x" and "y"')]:
        broken = json.loads(json.dumps(lines_of))
        change(broken[3])
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in broken))
        for command in ("merge", *words, "--out", bench.path("refused")), ("edge", "run", *words, "--out", bench.path("refused")):
            ended = bench.run(*command, "--set", f"queries[0].labels={bench.path(name)}")
            check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "line 4: " + says in ended.err, f"{command[0]}, {name}: {ended.code}: {ended.err}")


def labels_of_a_stream(bench):
    """How many frames a fifo will give is not known: there may be fewer labels, which then say what is right as far as they go, or more."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    make_pictures(bench.path("pictures"), 6)
    points_model(bench, "p", 1)
    bench.config({"model": {"arch": "resnet", "blocks": [1], "width": 4, "small_stem": True, "image": 24, "channels": 3, "classes": 4},
                  "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": 1}, "c.yaml")
    said = {name: [json.loads(line) for line in bench.run("predict", name + ".yaml", bench.path("pictures"), "--json").out.splitlines()] for name in "pc"}
    few, many = 12, 500
    points, classes = [], []  # every third label is wrong
    for at in range(many):
        away = 500 if at % 3 == 0 else 0
        points.append({"points": [{"x": point["x"] + away, "y": point["y"]} for point in said["p"][at % 6]["points"]]})
        classes.append((said["c"][at % 6]["classes"][0]["class"] + (at % 3 == 0)) % 4)
    for count in few, many:
        with open(bench.path(f"points-{count}"), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in points[:count]))
        with open(bench.path(f"classes-{count}"), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(classes[:count]))
    queries = [(f"{kind}-{count}", "pc"[kind == "classes"], count) for kind in ("points", "classes") for count in (few, many)]
    os.mkfifo(bench.path("stream"))
    path = workload(bench, [(query, model) for query, model, _ in queries], feed="stream", loop=False, ends=True, edge="drift: {every_s: 0}")
    words = [path]
    for number, (query, model, _) in enumerate(queries):
        words += ["--set", f"queries[{number}].model={bench.path(model + '.yaml')}", "--set", f"queries[{number}].labels={bench.path(query)}"]
    process = begin(bench, *words)
    child = subprocess.Popen(["ffmpeg", "-loglevel", "error", "-y", "-re", "-framerate", "10", "-stream_loop", "4", "-i", bench.path("pictures", "%04d.png"),
                              "-pix_fmt", "rgb24", "-c:v", "rawvideo", "-flush_packets", "1", "-f", "nut", bench.path("stream")])
    try:
        _, done = check_done(bench.end(process), process.out)  # with the stream
    finally:
        child.kill()
        child.wait()
    told = {query["query"]: query["accuracy"] for query in done["queries"]}
    for query, model, count in queries:
        hits = frames = 0
        for line in read_events(os.path.join(process.out, query + ".jsonl")):
            at = line.get("source", line["frame"])
            if at >= count:
                continue
            if model == "c":  # nothing is right as long as nothing was answered
                hits += bool(line["classes"]) and line["classes"][0]["class"] == classes[at]
                frames += 1
                continue
            frames += len(points[at]["points"])
            for point, right in zip(line["points"], points[at]["points"]):
                hits += math.dist((point["x"], point["y"]), (right["x"], right["y"])) <= 0.05 * 96
        check(frames > 0 and abs(told[query] - hits / frames) < 0.02, f"{query}: accuracy {told[query]}, and by its answers {hits} of {frames}")
        check(told[query] < 1, f"{query}: accuracy {told[query]}")


def too_little(bench):
    two_models(bench)
    path = workload(bench, [("one", "a")])
    ended = bench.run("edge", "run", path, "--set", "edge.memory=0.1", "--out", bench.path("out"))
    equal(ended.code, 3, "exit code")
    equal(len(ended.err.splitlines()), 1, "lines")
    check("query 'one' takes" in ended.err, ended.err)


def arena(bench):
    """What another process sees of the arena is what events say, at the least memory and all the time."""
    make_pictures(bench.path("pictures"), 6)
    for number, name in enumerate("ab"):
        make_model(bench.path(name), number, wide=512 >> number, side=32)  # tensors of 1.2 MB and 0.3, or half as large, and activations of 0.2
    # Where the second needs room, a large tensor goes, and much of its room stays empty until the first runs again.
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min, load_mb_per_s: 50")
    process = begin(bench, path)
    until(process, "evictions", lambda: told(process.out, "evict"))
    start = next(event for event in events_of(process.out) if event["event"] == "start")
    seen, still = [], []  # bytes, and how many loads and evictions had been told of; whether it was what the last of these said

    def moves():
        return [event for event in events_of(process.out) if event["event"] in ("load", "evict")]

    def enough():  # a look takes a while, so that what moves meanwhile would be seen twice: it is stopped
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: stands_still(process.pid), 120, "it to stop")
        size, told_of = resident(process.pid, *(int(edge, 16) for edge in start["arena"])), moves()
        seen.append((size, len(told_of)))
        still.append(abs(size - told_of[-1]["resident_bytes"]) <= 4096)
        os.kill(process.pid, signal.SIGCONT)
        # The next look comes when something has moved, and not at one and the same moment of the scheduler's rounds.
        wait_until(lambda: len(moves()) > len(told_of) or process.poll() is not None, 120, "another load or eviction")
        sizes = [size for size, _ in seen]
        check(len(seen) <= 2500, f"of {len(seen)} looks {sum(still)} were as the event before says; {min(sizes)} to {max(sizes)} bytes, {len(told_of)} events")
        return len(seen) >= 60 and max(sizes) - min(sizes) > 400000 and len(told_of) >= 12 and sum(still) >= 15
    # Of what is on its way the events say nothing yet: how often a look meets a moment without is a matter of the machine, that some do is not.
    until(process, "looks at its memory, some of it given back, and some when nothing is on its way", enough)
    _, done = end(bench, process)
    events, tensors = moves(), [0]  # bytes of tensors after each
    for event in events:
        tensors.append(tensors[-1] + (event["bytes"] if event["event"] == "load" else -event["bytes"]))
    rest = [event["resident_bytes"] - tensors[at + 1] for at, event in enumerate(events)]  # activations and frames
    check(min(tensors) >= 0 and min(rest) >= 0, f"tensors {min(tensors)}, beside them {min(rest)}")
    for size, at in seen:
        # What is on its way is there and not yet told of; what is told of as gone may be gone before.
        around = tensors[max(at - 1, 0):at + 2]
        least, most = min(around) + min(rest), max(around) + max(rest)
        check(least <= size <= most, f"resident {size}, where events say {least} to {most} ({at} of them)")
        check(size <= done["limit_bytes"], f"{size} bytes resident, the limit is {done['limit_bytes']}")
    sizes = [size for size, _ in seen]
    bench.note(f"{len(seen)} looks, {sum(still)} as the event before says; resident {min(sizes)} to {max(sizes)}, beside tensors {min(rest)} to {max(rest)}, "
               f"limit {done['limit_bytes']}")


def loads_take_no_more(bench):
    """While tensors are loaded and turned the process takes the limit and what it takes in any case, and nothing beside that."""
    make_pictures(bench.path("pictures"), 6)

    def run(wide):
        """The limit, what the process takes beside its arena, and the peak of the whole while it loads again and again."""
        for number, name in enumerate("ab"):
            make_model(bench.path(name), number, wide=wide)
        path = workload(bench, [("one", "a"), ("two", "b")], fps=2, edge="memory: min")
        process = begin(bench, path, out=f"out-{wide}")

        def loads():
            return [event for event in events_of(process.out) if event["event"] == "load"]

        def status(key):
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
        until(process, "a load of each", lambda: {event["query"] for event in loads()} == {"one", "two"} and len(loads()) >= 4)
        try:
            with open(f"/proc/{process.pid}/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the peak begins anew
        except OSError as error:
            raise Skipped(f"the peak of a process cannot be set back: {error}") from None
        start = next(event for event in events_of(process.out) if event["event"] == "start")
        beside = min(status("VmRSS") - resident(process.pid, *(int(edge, 16) for edge in start["arena"])) for _ in range(5))
        before = len(loads())
        until(process, "more loads", lambda: len(loads()) >= before + 4)
        most = status("VmHWM")
        _, done = end(bench, process)
        return done["limit_bytes"], beside, most
    _, beside, _ = run(64)
    limit, _, most = run(4096)  # tensors of 9.4 and 2.4 MB
    bench.note(f"{most} bytes at most, {beside} beside the arena with small tensors, limit {limit}")
    check(most <= beside + limit + (4 << 20), f"{most} bytes at most, {beside} beside the arena with small tensors, limit {limit}")


def small_tensors(bench):
    """Small tensors that come and go together are read in one piece, without a look at their files, and nobody's file is emptied for it."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    os.makedirs(bench.path("out"))
    with open(bench.path("out", "small.part"), "w", encoding="utf-8") as file:
        file.write("mine")
    process = begin(bench, path)

    def loads(query):
        return [event for event in events_of(process.out) if event["event"] == "load" and event["query"] == query]
    until(process, "a load of each", lambda: loads("one") and loads("two"))
    folder, gone = os.path.join(process.out, "originals", "tensors"), 0
    for name in os.listdir(folder):
        if os.path.getsize(os.path.join(folder, name)) < 16384:
            os.remove(os.path.join(folder, name))
            gone += 1
    check(gone >= 20, f"only {gone} small tensors")
    mark = {query: (len(loads(query)), len(fresh(process.out, query))) for query in ("one", "two")}
    until(process, "loads after it", lambda: all(len(loads(query)) > mark[query][0] + 3 for query in mark) or told(process.out, "load_failed"))
    check(not told(process.out, "load_failed"), "a load failed")
    until(process, "answers after it", lambda: all(len(fresh(process.out, query)) > mark[query][1] + 3 for query in mark))
    with open(bench.path("out", "small.part"), encoding="utf-8") as file:
        equal(file.read(), "mine", "what is in a file of that name")
    check(not [name for name in os.listdir(bench.path("out")) if name.startswith("small.") and name != "small.part"], "a file that has a name")
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "b")


def spellings(bench):
    """One file is one model, however it is spelt; a link to a configuration with weights of its own is another."""
    two_models(bench)
    os.makedirs(bench.path("deep"))
    for link, to in (("c.cfg", "a.cfg"), ("c.weights", "a.weights"), ("d.cfg", "a.cfg"), ("d.weights", "b.weights")):
        os.symlink(bench.path(to), bench.path(link))
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 8}, "activation_bytes": {"1": 300000}} for name in "abcd"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)

    def counted(*models):
        path = workload(bench, [(f"q{i}", model) for i, model in enumerate(models)])
        plan = bench.run("edge", "plan", path, "--profile", bench.path("profile.json"), "--for", "1", "--json")
        shown = bench.run("merge", "show", path, "--json")
        return json.loads(plan.out)["distinct_bytes"], json.loads(shown.out)["total_bytes"]
    one = counted("a")
    equal(counted("a", "deep/../a"), one, "bytes of a model that is spelt in two ways")
    equal(counted("a", "c"), one, "bytes of a model and a link to it")
    equal(counted("a", "d"), counted("a", "b"), "bytes of two models of one configuration")


def bad_input(bench):
    a, b = two_models(bench)
    make_model(bench.path("wide"), 3, wide=32)
    publish(bench.path("package"), 1, shared(a, b, {"conv1.weight"}))
    package = ("--package", bench.path("package"))
    with open(bench.path("b.weights"), "rb") as file, open(bench.path("cut.weights"), "wb") as cut:
        cut.write(file.read()[:5000])
    shutil.copy(bench.path("b.cfg"), bench.path("cut.cfg"))
    for queries, words, says in [
            ([("three", "a")], package, "it has none of the workload's queries"),  # the package of another workload
            ([("two", "wide")], package, "query 'two' is of another model: it has no such parameter as 'conv1.weight'"),
            ([("one", "a"), ("two", "cut")], (), "weights '" + bench.path("cut.weights") + "': it has 5000 bytes")]:
        path = workload(bench, queries)
        for command in ("run", "plan", "bench"):
            ended = bench.run("edge", command, path, *words, *(("--out", bench.path("refused")) if command == "run" else ()))
            check(ended.code == 3 and says in ended.err and len(ended.err.splitlines()) == 1, f"{command} of {queries}: {ended.code} {ended.err}")
    ended = bench.run("edge", "run", workload(bench, [("events", "a")]), "--out", bench.path("refused"))  # whose answers would be in events.jsonl
    check(ended.code == 3 and "query 'events'" in ended.err and len(ended.err.splitlines()) == 1, f"{ended.code} {ended.err}")
    path = workload(bench, [("one", "a")])
    for name, text, says in [
            ("not json", "{", "line 1"), ("no models", '{"format": 1}', "models"),
            ("times", '{"format": 1, "models": {"a": {"run_ms": {"1": -1}}}}', "above 0"),
            ("bytes", '{"format": 1, "models": {"a": {"run_ms": {"1": 1}, "tensors": {"t": 0}}}}', "1 byte or more")]:
        with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
            file.write(text)
        ended = bench.run("edge", "plan", path, "--profile", bench.path("profile.json"))
        check(ended.code == 3 and says in ended.err and len(ended.err.splitlines()) == 1, f"{name}: {ended.code} {ended.err}")
    for words, code in [(["edge", "walk", path], 2), (["edge", "run", bench.path("none.yaml")], 3),
                        (["edge", "run", path, "--package", bench.path("none"), "--out", bench.path("o")], 3)]:
        ended = bench.run(*words)
        check(ended.code == code and len(ended.err.splitlines()) == 1, f"{words}: {ended.code} {ended.err}")


cases.add("two models at the least memory answer as each does alone", run_alone, first=True)
cases.add("a package's tensors are there once, and answers have the bits of private copies", shared_bits, first=True)
cases.add("queries run on their own weights where no frame is lost by it", own_weights, first=True)
cases.add("two queries of one model on one feed run it once", twins, first=True)
cases.add("what models begin with is run once, and answers have the bits of private runs", prefixes, first=True)
cases.add("maps that are read in two ways", heads_alike)
cases.add("a memory cgroup just above the limit", cgroup, first=True)
cases.add("labels are a query's own", own_labels, first=True)
cases.add("labels of boxes are right answers", labels_of_boxes, kind="computes")
cases.add("labels of landmarks are right answers", labels_of_points, first=True)
cases.add("labels of a stream, of which nobody knows how long it is", labels_of_a_stream)
cases.add("a limit below the model", too_little, first=True)
cases.add("the arena, seen from outside", arena, first=True)
cases.add("loads take no memory beside the limit", loads_take_no_more)
cases.add("small tensors are read in one piece", small_tensors)
cases.add("one file spelt in two ways", spellings)
cases.add("bad input", bad_input)
if __name__ == "__main__":
    cases.run()
