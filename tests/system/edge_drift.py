#!/usr/bin/env python3
"""`culm edge run`: drift of merged queries."""
import gzip
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import threading

from edge_harness import (begin, check_done, end, events_of, fresh, make_model, make_pictures, publish, same_as_predict,
                          shared, told, two_models, until, workload, write_mixed, write_weights)
from harness import Cases, Skipped, check, equal, read_events, wait_until

cases = Cases(kind="waits", job="edge")


def drift(bench):
    """What no longer agrees with its original goes back to it within two checks; what agrees does not."""
    a, b = two_models(bench)
    queries = shared(a, b, {"conv0.weight", "conv1.weight", "conv2.weight"})
    shape, data = a["conv2.weight"]
    values = struct.unpack(f"<{len(data) // 4}f", data)
    near = (shape, struct.pack(f"<{len(values)}f", *(value * 1.000001 for value in values)))
    queries["one"][1]["conv2.weight"] = (near, a["conv2.weight"])
    publish(bench.path("package"), 1, queries)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 75%, drift: {every_s: 0.3, frames: 4}")
    out = bench.path("out")
    process = bench.start("edge", "run", path, "--package", bench.path("package"), "--out", out)

    def of(query):
        return [event for event in events_of(out) if event["event"] == "drift" and event["query"] == query]
    wait_until(lambda: len(of("two")) >= 2 and len(of("one")) >= 4, 120, "checks")
    alone = bench.run("predict", "b.cfg", bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
    wanted = [json.loads(line)["boxes"] for line in alone.out.splitlines()]

    def own():
        """How many of the last answers are those of its own weights."""
        answers = fresh(out, "two")
        others = [at for at, line in enumerate(answers) if line["boxes"] != wanted[line.get("source", line["frame"])]]
        return len(answers) - 1 - max(others, default=-1)
    wait_until(lambda: own() >= 20, 120, "answers of its own weights")
    os.kill(process.pid, signal.SIGTERM)
    _, done = check_done(bench.end(process), out)
    accuracy = {query["query"]: query["accuracy"] for query in done["queries"]}
    # Frames that a busy machine drops count in what is done, and not in what is looked at.
    check(accuracy["one"] > accuracy["two"] and accuracy["two"] < 0.9, f"accuracies {accuracy}")
    check(all(event["accuracy"] > 0.99 for event in of("one")), "accuracies of the one that does not drift")
    equal([event["action"] for event in of("two")][:2], ["watched", "reverted"], "checks of the one that drifts")
    equal({(event["action"], event["reverted"]) for event in of("two")[2:]} - {("none", True)}, set(), "checks once it has gone back")
    equal({event["action"] for event in of("one")}, {"none"}, "checks of the one that does not")


def drift_by_choice(bench):
    """With `originals: auto`: who runs on its own weights by choice is not looked at; who is merged by choice is, goes back to its own, and is
    merged again with a new round."""
    a, b = two_models(bench)
    names = {"conv0.weight", "conv1.weight", "conv2.weight"}
    publish(bench.path("package"), 1, shared(a, b, names))
    write_mixed(bench, "mixed", a, b, names)
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 5, "2": 9}, "activation_bytes": {"1": 300000, "2": 600000}} for name in "ab"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    wanted = {}
    for model in ("b", "mixed"):
        alone = bench.run("predict", model + ".cfg", bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
        wanted[model] = [json.loads(line)["boxes"] for line in alone.out.splitlines()]

    def last_of(out, model):
        """How many of the last answers are that model's."""
        answers = fresh(out, "two")
        others = [at for at, line in enumerate(answers) if line["boxes"] != wanted[model][line.get("source", line["frame"])]]
        return len(answers) - 1 - max(others, default=-1)

    def checks(out):
        return [event for event in events_of(out) if event["event"] == "drift"]

    def plans(out):
        return [event["originals"] for event in events_of(out) if event["event"] == "plan"]
    words = ["--package", bench.path("package"), "--profile", bench.path("profile.json")]
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: all, drift: {every_s: 0.2, frames: 4}")
    process = begin(bench, path, *words, out="all")
    until(process, "answers", lambda: len(read_events(os.path.join(process.out, "two.jsonl"))) > 30)  # in which it would have been checked
    equal(plans(process.out)[0], ["two"], "queries on their own weights by choice")
    end(bench, process)
    equal(checks(process.out), [], "checks of a query that runs on its own weights")
    same_as_predict(bench, process.out, "two", "b")
    # A load of its own weights takes longer than there is time, so it is merged; its original is loaded for the samples alone.
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: 50%, load_mb_per_s: 0.5, drift: {every_s: 0.3, frames: 4}")
    process = begin(bench, path, *words, out="lean")
    until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks(process.out)))
    equal(plans(process.out)[0], [], "queries on their own weights by choice")
    check(last_of(process.out, "mixed") >= 0 and any(line["boxes"] == wanted["mixed"][line.get("source", line["frame"])]
                                                    for line in fresh(process.out, "two")), "it was not merged before")
    until(process, "answers of its own weights", lambda: last_of(process.out, "b") >= 5)
    seen = len(checks(process.out))
    mark = len(fresh(process.out, "two"))
    until(process, "answers after it", lambda: len(fresh(process.out, "two")) > mark + 25)
    # A round that leaves its tensors alone leaves it on its own weights.
    other = shared(a, b, names)
    shape, data = a["conv3.bias"]
    other["one"][1]["conv3.bias"] = ((shape, struct.pack(f"<{len(data) // 4}f", *(value + 1e-3 for value in struct.unpack(f"<{len(data) // 4}f", data)))),
                                     a["conv3.bias"])
    publish(bench.path("package"), 2, other)
    until(process, "the next round", lambda: told(process.out, "round", round=2))
    before = last_of(process.out, "b")  # which begins anew with an answer of other weights
    until(process, "an answer after it", lambda: last_of(process.out, "b") != before)
    mark = len(fresh(process.out, "two"))
    until(process, "answers after it", lambda: len(fresh(process.out, "two")) > mark + 25)
    equal({(event["action"], event["reverted"]) for event in checks(process.out)[seen:] if event["query"] == "two"} - {("none", True)}, set(),
          "checks once it has gone back")
    check(last_of(process.out, "b") > before, "a round that did not change its tensors changed its weights")
    shape, data = a["conv2.weight"]
    near = (shape, struct.pack(f"<{len(data) // 4}f", *(value * 1.01 for value in struct.unpack(f"<{len(data) // 4}f", data))))
    third = shared(a, b, names)
    for query, own in (("one", a), ("two", b)):
        third[query][1]["conv2.weight"] = (near, own["conv2.weight"])
    publish(bench.path("package"), 3, third)
    until(process, "it to be merged, and to go back, again", lambda: [event["action"] for event in checks(process.out)].count("reverted") == 2)
    end(bench, process)
    equal({event["action"] for event in checks(process.out) if event["query"] == "one"} - {"none"}, set(), "checks of the other one")


def drift_by_labels(bench):
    """What was merged with labels need not say what the original does more often than it did then; without them it must."""
    own, _ = two_models(bench)
    queries = {query: ("a.cfg", {name: (value, value) for name, value in own.items()}) for query in ("one", "two")}
    shape, data = own["conv2.weight"]
    for _, params in queries.values():
        draw = random.Random(4)
        values = struct.unpack(f"<{len(data) // 4}f", data)
        params["conv2.weight"] = ((shape, struct.pack(f"<{len(values)}f", *(value * (1 + draw.uniform(-1e-3, 1e-3)) for value in values))),
                                  own["conv2.weight"])
    record = {"score": 0.05, "step": 1, "frames": " ".join(["100/1/0"] * 100)}
    publish(bench.path("package"), 1, queries, agreement={"one": 0.75}, samples={"two": record})
    path = workload(bench, [("one", "a"), ("two", "a")], fps=20, edge="originals: never, memory: all, drift: {every_s: 0.5, frames: 24}")
    process = begin(bench, path, "--package", bench.path("package"))

    def of(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "checks", lambda: len(of("one")) >= 4 and any(event["action"] == "reverted" for event in of("two")))
    end(bench, process)
    assumed = [event["message"] for event in events_of(process.out) if event["event"] == "warning"]
    check(len(assumed) == 1 and "1 query of the package ('one' first)" in assumed[0] and "6 independent" in assumed[0], f"what is assumed: {assumed}")
    for query, promised in (("one", 0.75), ("two", 0.95)):
        check(all(abs(event["promised"] - promised) < 1e-9 and event["by"] == "original" and 0.5 < event["accuracy"] < 0.9 for event in of(query)),
              f"checks of {query}: {of(query)}")
    equal({event["action"] for event in of("one")}, {"none"}, "checks of the one that agrees as it did")
    actions = [event["action"] for event in of("two")]
    actions = actions[:actions.index("reverted")]
    check(len(actions) < 6 and actions == sorted(actions) and "watched" in actions, f"checks of the one that does not: {actions}")


def invented(bench):
    """In a scene in which its original says nothing, a merged model finds things: it goes back, and reports say what is saved after that. Another one,
    in whose scene neither says anything, stays."""
    a, b = two_models(bench)
    queries = shared(a, b, {"conv0.weight", "conv1.weight", "conv2.weight"})
    shape, data = b["conv3.bias"]
    dark = list(struct.unpack(f"<{len(data) // 4}f", data))
    dark[4] = dark[11] = -1e4  # no object, for either anchor
    dark = (shape, struct.pack(f"<{len(dark)}f", *dark))
    queries["one"] = ("a.cfg", {name: (dark if name == "conv3.bias" else value, dark if name == "conv3.bias" else value) for name, value in a.items()})
    shift, data = a["conv2.weight"]
    queries["one"][1]["conv2.weight"] = ((shift, struct.pack(f"<{len(data) // 4}f", *(value * 1.01 for value in struct.unpack(f"<{len(data) // 4}f", data)))),
                                         a["conv2.weight"])
    queries["two"][1]["conv3.bias"] = (b["conv3.bias"], dark)
    publish(bench.path("package"), 1, queries)
    for query, name in ("one", "a"), ("two", "b"):  # the files are what it was merged from
        write_weights(bench.path(name + ".weights"), {part: was for part, (_, was) in queries[query][1].items()})
    path = workload(bench, [("one", "a"), ("two", "b")], fps=20, edge="originals: never, memory: all, drift: {every_s: 0.3, frames: 4}")
    process = begin(bench, path, "--package", bench.path("package"))

    def of(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "it to go back", lambda: any(event["event"] == "plan" and event.get("reverted") == ["two"] for event in events_of(process.out)))
    until(process, "checks after it", lambda: len(of("two")) > 2 and len(of("one")) > 2)
    _, done = end(bench, process)
    equal([event["action"] for event in of("two")][:2], ["watched", "reverted"], "checks of the one that invents")
    check(all(event["wanted"] == 0 and event["added"] > 0 and event["accuracy"] == 0 for event in of("two")), f"what they saw: {of('two')}")
    equal({(event["action"], event["accuracy"], event["added"]) for event in of("one")}, {("none", 1, 0)}, "checks of the one that does not")
    plans = [event for event in events_of(process.out) if event["event"] == "plan"]
    equal((plans[0]["originals"], plans[0]["reverted"]), ([], []), "queries on their own weights at first")
    equal((plans[-1]["originals"], plans[-1]["reverted"]), (["two"], ["two"]), "queries on their own weights at last")
    check(plans[0]["saved"] > plans[-1]["saved"] and plans[-1]["saved"] < done["saved"] < plans[0]["saved"],
          f"saved at first {plans[0]['saved']}, at last {plans[-1]['saved']}, over the run {done['saved']}")
    said = bench.run("report", process.out).out
    check(f"{100 * done['saved']:.1f} % of the weights that queries ran on" in said, f"report: {said}")


def comes_back(bench):
    """A scene turns into one on which a merged query no longer does: it goes back. The scene turns again: it is merged again, without a new round."""
    a = make_model(bench.path("a"), 1)
    shutil.copy(bench.path("a.cfg"), bench.path("b.cfg"))
    shutil.copy(bench.path("a.weights"), bench.path("b.weights"))
    draw, queries = random.Random(2), shared(a, a, ())
    shape, data = a["conv0.weight"]
    values = list(struct.unpack(f"<{len(data) // 4}f", data))
    for out in range(shape[0]):  # it sees blue otherwise
        for at in range(out * 27 + 18, out * 27 + 27):
            values[at] += draw.uniform(-0.3, 0.3)
    queries["two"][1]["conv0.weight"] = ((shape, struct.pack(f"<{len(values)}f", *values)), a["conv0.weight"])
    publish(bench.path("package"), 1, queries)
    make_pictures(bench.path("before"), 30, blue=False)
    make_pictures(bench.path("after"), 30, seed=8)
    os.mkdir(bench.path("pictures"))
    for number in range(3000):
        os.symlink(f"../now/{number % 30:04}.png", bench.path("pictures", f"{number:05}.png"))

    def show(folder):
        os.symlink(folder, bench.path("next"))
        os.replace(bench.path("next"), bench.path("now"))
    show("before")
    path = workload(bench, [("one", "a"), ("two", "b")], fps=25, edge="originals: never, memory: all, drift: {every_s: 0.2, frames: 4}")
    process = begin(bench, path, "--package", bench.path("package"))

    def actions():
        return [event["action"] for event in events_of(process.out) if event["event"] == "drift" and event["query"] == "two"]
    until(process, "checks", lambda: len(actions()) >= 4)
    equal(set(actions()), {"none"}, "checks of the scene that it suits")
    show("after")
    until(process, "it to go back", lambda: "reverted" in actions())
    show("before")
    until(process, "it to come back", lambda: "returned" in actions())
    seen = len(actions())
    until(process, "checks after it", lambda: len(actions()) >= seen + 3)
    end(bench, process)
    equal(set(actions()[seen:]), {"none"}, "checks after it came back")
    plans = [event["reverted"] for event in events_of(process.out) if event["event"] == "plan"]
    check(["two"] in plans and plans[-1] == [], f"reverted by plan: {plans}")


def drift_on_labels(bench):
    """A feed with labels turns into frames on which a merged classifier is wrong where its original is right: it goes back. One whose labels turn
    wrong there, so that its original is no better, does not."""
    draw = random.Random(1)
    images = []
    for _ in range(300):
        base, by, (wide, high) = [draw.randrange(256) for _ in range(3)], draw.choice([5, 40, 120]), (draw.randrange(1, 6), draw.randrange(1, 6))
        images.append(bytes(max(0, min(255, base[c] + (by if (x * wide // 8 + y * high // 8) % 2 else -by))) for y in range(24) for x in range(24) for c in range(3)))

    def write_idx(name, pixels, rank, *dims):
        with open(bench.path(name), "wb") as file:
            file.write(struct.pack(f">BBBB{rank}I", 0, 0, 8, rank, *dims) + pixels)

    def write_frames(name, chosen):
        write_idx(name, b"".join(images[at] for at in chosen), 4, len(chosen), 24, 24, 3)
    write_frames("all", range(300))
    for number, name in enumerate("cd"):
        bench.config({"model": {"arch": "resnet", "blocks": [1], "width": 4, "small_stem": True, "image": 24, "channels": 3, "classes": 4},
                      "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": number + 1}, name + ".yaml")

    def write(feed, labelled):
        with open(bench.path("w.yaml"), "w", encoding="utf-8") as file:
            file.write(f"feeds:\n  hall: {{file: {bench.path(feed)}, fps: 40, loop: true}}\nqueries:\n")
            for query, model in (("other", "c"), ("right", "d"), ("noisy", "d")):
                labels = f", labels: {bench.path(query)}" if labelled and query != "other" else ""
                file.write(f"  - {{name: {query}, model: {bench.path(model)}.yaml, feed: hall, deadline_ms: 400{labels}}}\n")
            file.write("merge: {method: max, steps: 0}\nedge: {batch: [1, 4], originals: never, memory: all, drift: {every_s: 0.5, frames: 16}}\n")
        return bench.path("w.yaml")
    package = bench.path("package")
    equal(bench.run("merge", write("all", False), "--out", package, "--json").code, 0, "exit code of merge")

    def said_by(model):
        ended = bench.run("predict", model, bench.path("all"), "--json")
        return [json.loads(line)["classes"][0]["class"] for line in ended.out.splitlines()]
    own, merged = said_by(bench.path("d.yaml")), said_by(package + ":right")
    same, other = [at for at in range(300) if own[at] == merged[at]], [at for at in range(300) if own[at] != merged[at]]
    check(len(same) > 100 and len(other) > 20, f"{len(same)} frames alike, {len(other)} not")
    clean, turned = [same[at % len(same)] for at in range(160)], [other[at % len(other)] for at in range(2000)]
    write_frames("turns", clean + turned)
    right = [own[at] for at in clean + turned]
    neither = [next(label for label in range(4) if label not in (own[at], merged[at])) for at in turned]
    write_idx("right", bytes(right), 1, len(right))
    write_idx("noisy", bytes(right[:160] + neither), 1, len(right))
    process = begin(bench, write("turns", True), "--package", package)

    def checks(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "one to go back, and checks of the other", lambda: any(event["action"] == "reverted" for event in checks("right"))
          and len([event for event in checks("noisy") if event["frame"] >= 176]) >= 4)
    end(bench, process)
    equal({event["by"] for query in ("right", "noisy") for event in checks(query)}, {"labels"}, "what checks go by")
    for query in ("right", "noisy"):
        equal({(event["action"], event["accuracy"]) for event in checks(query) if event["frame"] < 160} - {("none", 1)}, set(), f"clean checks of {query}")
    wholly = [event for event in checks("right") if event["frame"] >= 176]
    check("reverted" in [event["action"] for event in wholly[:2]], f"checks of the other frames: {wholly}")
    wholly = [event for event in checks("noisy") if event["frame"] >= 176]
    equal({(event["action"], event["accuracy"], event["promised"]) for event in wholly}, {("none", 0, 0)}, "checks by labels that are wrong for both")


def turning_scene(bench, edge=""):
    """Two queries that are merged, into `package`, with pictures on which both see much the same; what the feed shows from then on is for
    show(FOLDER) to say: "first" has these pictures, "after" others, on which one of the two is wrong. Returns the workload, the end of merging, and
    show."""
    a = make_model(bench.path("a"), 1)
    shutil.copy(bench.path("a.cfg"), bench.path("b.cfg"))
    # The second model is nearly the first one, but sees blue a little differently, which shows only where there is some.
    draw, b = random.Random(2), dict(a)
    for name in ("conv0.weight", "conv1.weight", "conv2.weight"):
        shape, data = a[name]
        values = [value * (1 + draw.uniform(-1e-4, 1e-4)) for value in struct.unpack(f"<{len(data) // 4}f", data)]
        for out in range(shape[0]) if name == "conv0.weight" else []:
            for at in range(out * 27 + 18, out * 27 + 27):
                values[at] += draw.uniform(-0.015, 0.015)
        b[name] = (shape, struct.pack(f"<{len(values)}f", *values))
    write_weights(bench.path("b.weights"), b)
    make_pictures(bench.path("before"), 30, blue=False)
    make_pictures(bench.path("after"), 60, seed=8)
    for folder in "first", "pictures":
        os.mkdir(bench.path(folder))
    for number in range(60):
        os.link(bench.path("before", f"{number % 30:04}.png"), bench.path("first", f"{number:04}.png"))
    for number in range(3000):
        os.symlink(f"../now/{number % 60:04}.png", bench.path("pictures", f"{number:05}.png"))

    def show(folder):
        """From now on the feed has these pictures."""
        os.symlink(folder, bench.path("next"))
        os.replace(bench.path("next"), bench.path("now"))
    show("first")
    path = workload(bench, [("one", "a"), ("two", "b")], fps=20, edge="originals: never, memory: all, drift: {every_s: 0.5, frames: 16}" + edge)
    package = bench.path("package")
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("score: 0.05", "score: 0.05, target: 0.8") + "merge: {steps: 0}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    ended = bench.run("merge", path, "--out", package, "--json", "--set", f"feeds.hall.file={bench.path('before')}")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    first = json.loads(ended.out.splitlines()[-1])
    with open(os.path.join(package, "rounds", f"{first['round']}.json"), encoding="utf-8") as file:
        queries = json.load(file)["queries"]
    two = queries[1]["parameters"]["conv0.weight"]
    for query in queries:  # 30 % of 30 frames were held out
        equal((len(query["samples"]["frames"].split()), query["samples"]["score"], query["samples"]["step"]), (6, 0.05, 1), f"record of {query['query']}")
    check(two["tensor"] != two.get("original", two["tensor"]), "nothing of the first layer was merged, so nothing can drift")
    return path, first, show


def merged_anew(bench):
    """A feed turns into another, on which a merged query no longer does: noticed within two checks, and not before; reverted; merged anew
    with frames of the new one, into a round that is taken up, and which holds."""
    path, first, show = turning_scene(bench)
    package, out = bench.path("package"), bench.path("out")
    process = begin(bench, path, "--package", package)

    def checks(query):
        return [event for event in events_of(out) if event["event"] == "drift" and event["query"] == query]
    until(process, "checks of clean frames", lambda: len(checks("one") + checks("two")) >= 4)
    clean = len(read_events(os.path.join(out, "two.jsonl")))
    show("after")
    shown = len(read_events(os.path.join(out, "two.jsonl")))  # those between were read before, or after
    until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks("two")))
    before = [event for query in ("one", "two") for event in checks(query) if event["frame"] < clean]
    equal({event["action"] for event in before}, {"none"}, "checks of clean frames")
    later = [event for event in checks("two") if event["frame"] >= clean]
    partly = sum(event["frame"] < shown + 60 for event in later)  # three seconds, in which frames are answered that had been read before
    actions = [event["action"] for event in later]
    check("reverted" in actions[:partly + 2], f"checks of the other frames: {actions}, {partly} of them with clean ones, perhaps")
    until_then = actions[:actions.index("reverted")]
    check(until_then == sorted(until_then) and until_then.count("watched") < 2, f"checks until it went back: {actions}")
    frames = next(event["frames"] for event in checks("two") if event["action"] == "reverted")

    def kept():
        with open(frames, "rb") as file:
            return struct.unpack(">I", file.read(8)[4:])[0]
    until(process, "frames to merge with", lambda: kept() >= 64)
    ended = bench.run("merge", path, "--out", package, "--json", "--resume", "--set", f"feeds.hall.file={frames}")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    second = json.loads(ended.out.splitlines()[-1])
    check(second["round"] > first["round"], f"rounds {first['round']} and {second['round']}")
    equal(bench.run("merge", "show", package, "--check").code, 0, "exit code of show")
    with open(os.path.join(package, "rounds", f"{second['round']}.json"), encoding="utf-8") as file:
        parameters = json.load(file)["queries"][1]["parameters"].values()
    check(any(parameter["tensor"] != parameter.get("original", parameter["tensor"]) for parameter in parameters), "the query was not merged again")
    until(process, "the new round", lambda: told(out, "round", round=second["round"]))
    mark = len(read_events(os.path.join(out, "two.jsonl")))
    seen = len(checks("two"))
    until(process, "checks after it", lambda: len(checks("two")) >= seen + 3)
    equal({event["action"] for event in checks("two")[seen:]}, {"none"}, "checks after it was merged anew")
    end(bench, process)
    assumed = [at for at, event in enumerate(events_of(out)) if event["event"] == "warning" and "without a record" in event["message"]]
    went = next(at for at, event in enumerate(events_of(out)) if event.get("action") == "reverted")  # rounds after that come while merging goes on
    check(all(at > went for at in assumed), f"something was assumed of a round that was measured: {assumed}, {went}")
    bench.note(f"saved {first['saved']:.3f}, then {second['saved']:.3f}; {mark} answers until then")


PUBLISHED = os.environ.get("CULM_EDGE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "edge"))


def write_images(path, pixels, labels):
    """IDX files of 32 x 32 images, and of their labels if there are some."""
    with open(path, "wb") as file:
        file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, len(pixels) // 3072, 32, 32, 3) + pixels)
    with open(path + ".labels", "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, len(labels)) + bytes(labels))


def through_jpeg(images):
    """What is left of them at a low quality."""
    how = ["ffmpeg", "-loglevel", "error"]
    coded = subprocess.run([*how, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "32x32", "-i", "-", "-c:v", "mjpeg", "-q:v", "10", "-pix_fmt", "yuvj420p",
                            "-f", "mjpeg", "-"], input=b"".join(images), stdout=subprocess.PIPE, check=True)
    decoded = subprocess.run([*how, "-f", "mjpeg", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], input=coded.stdout, stdout=subprocess.PIPE, check=True)
    equal(len(decoded.stdout), 3072 * len(images), "bytes of images")
    return [decoded.stdout[at * 3072:][:3072] for at in range(len(images))]


class Stream:
    """Images into a fifo, a hundred a second: of class 0, 1, ... 9, 0, ... in turn, so that labels are known whenever the clean ones end."""

    def __init__(self, path, clean, later):
        self.clean, self.later, self.turned_at, self.written = clean, later, None, 0  # lists of 3,072 bytes
        self.turn, self.ended = threading.Event(), threading.Event()
        os.mkfifo(path)
        self.child = subprocess.Popen(["ffmpeg", "-loglevel", "quiet", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "32x32", "-r", "100", "-i", "-",
                                       "-c:v", "rawvideo", "-flush_packets", "1", "-f", "nut", path], stdin=subprocess.PIPE)
        self.thread = threading.Thread(target=self.give, daemon=True)
        self.thread.start()

    def give(self):
        try:
            while not self.ended.wait(0.01):
                if self.turn.is_set() and self.turned_at is None:
                    self.turned_at = self.written
                images = self.clean if self.turned_at is None else self.later
                self.child.stdin.write(images[self.written % len(images)])
                self.child.stdin.flush()
                self.written += 1
        except BrokenPipeError:
            pass

    def end(self):
        self.ended.set()
        self.child.kill()
        self.child.wait()


def clean_to_jpeg(bench):
    """Clean CIFAR-10 turns into JPEG. What a merged classifier says is then less often what its original does than was promised, by a tenth: noticed
    within a few checks, and not before; reverted; merged anew. The other one has labels, by which it goes on as promised: no alarm, before or after."""
    if not os.path.exists(os.path.join(PUBLISHED, "images")):
        raise Skipped(f"no images in {PUBLISHED}")
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    with gzip.open(os.path.join(PUBLISHED, "images", "cifar10-clean-images-idx4-ubyte.gz")) as file:
        pixels = file.read()[20:]
    with gzip.open(os.path.join(PUBLISHED, "images", "cifar10-clean-labels-idx1-ubyte.gz")) as file:
        labels = list(file.read()[8:])
    write_images(bench.path("clean"), pixels[:1000 * 3072], labels[:1000])
    of_class = [[at for at in range(3000, len(labels)) if labels[at] == label][:40] for label in range(10)]
    clean = [pixels[of_class[at % 10][at // 10] * 3072:][:3072] for at in range(400)]
    for name in ("resnet20", "resnet32"):
        bench.config({"model": {"arch": "resnet", "blocks": [(int(name[6:]) - 2) // 6] * 3, "small_stem": True, "width": 16, "image": 32, "classes": 10,
                                "shortcut": "pad", "init": os.path.join(PUBLISHED, "classifiers", f"cifar10-{name}.safetensors")},
                      "data": {"kind": "images", "path": "none", "normalize": "imagenet"}, "steps": 1}, name + ".yaml")
    with open(bench.path("turns.labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 100000) + bytes(at % 10 for at in range(100000)))

    def write(name, feed, labelled):
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write(f"feeds:\n  images: {{file: {bench.path(feed)}, fps: 100, loop: {'false' if feed == 'turns' else 'true'}}}\nqueries:\n")
            for query in ("resnet20", "resnet32"):
                own = f", labels: {bench.path(feed)}.labels" if query in labelled else ""
                file.write(f"  - {{name: {query}, model: {bench.path(query)}.yaml, feed: images, deadline_ms: 400{own}}}\n")
            file.write("merge: {steps: 0, frames: 12}\nedge: {batch: [1, 4], originals: never, memory: all, drift: {every_s: 1, frames: 128}}\n")
        return bench.path(name)
    package, out = bench.path("package"), bench.path("run")
    ended = bench.run("merge", write("merge.yaml", "clean", ("resnet20", "resnet32")), "--out", package, "--json")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    first = json.loads(ended.out.splitlines()[-1])
    stream = Stream(bench.path("turns"), clean, through_jpeg(clean))
    try:
        process = begin(bench, write("run.yaml", "turns", ("resnet32",)), "--package", package, out="run")

        def checks(query):
            return [event for event in events_of(out) if event["event"] == "drift" and event["query"] == query]
        until(process, "checks of clean frames", lambda: len(checks("resnet20")) >= 2 and checks("resnet32"))
        stream.turn.set()
        wait_until(lambda: stream.turned_at is not None, 120, "the first JPEG frame")
        until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks("resnet20")))
        before = [event for query in ("resnet20", "resnet32") for event in checks(query) if event["frame"] < stream.turned_at]
        check(all(event["action"] != "reverted" for event in before), f"false alarms: {before}")
        later = [event for event in checks("resnet20") if event["frame"] >= stream.turned_at]
        # The first of them may have begun with clean frames: frames of a check are in a row, but for those that were skipped.
        # And where merging saw the images, they were in the order of their classes: errors come in rows there, so a check is worth less than here.
        check("reverted" in [event["action"] for event in later[:8]] and later[0]["by"] == "original", f"checks of the others: {later}")
        frames = next(event["frames"] for event in checks("resnet20") if event["action"] == "reverted")

        def kept():
            with open(frames, "rb") as file:
                return struct.unpack(">I", file.read(8)[4:])[0]
        until(process, "frames to merge with", lambda: kept() >= 64)
        ended = bench.run("merge", write("again.yaml", "turns", ()), "--out", package, "--json", "--resume", "--set", f"feeds.images.file={frames}")
        equal(ended.code, 0, f"exit code of merge: {ended.err}")
        second = json.loads(ended.out.splitlines()[-1])
        check(second["round"] > first["round"], f"rounds {first['round']} and {second['round']}")
        until(process, "the new round", lambda: told(out, "round", round=second["round"]))
        until(process, "checks by labels", lambda: len(checks("resnet32")) >= 3)
        labelled = checks("resnet32")
        check(all(event["by"] == "labels" and event["action"] != "reverted" for event in labelled), f"checks by labels: {labelled}")
        end(bench, process)
    finally:
        stream.end()
    bench.note(f"{stream.turned_at} clean frames of {stream.written}; agrees in {later[-1]['accuracy']:.2f} of JPEG frames, {later[-1]['promised']:.2f} promised; "
               f"saved {first['saved']:.3f}, then {second['saved']:.3f}")


def overlap(a, b):
    across = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    down = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    both = max(across, 0) * max(down, 0)
    return both / (a["width"] * a["height"] + b["width"] * b["height"] - both) if both else 0


def precision(answers, wanted):
    """Average precision at an overlap of 0.5, of all boxes at once."""
    hits, count = [], sum(map(len, wanted))
    for boxes, right in zip(answers, wanted):
        free = list(right)
        for box in sorted(boxes, key=lambda box: -box["score"]):
            best = max((other for other in free if other["class"] == box["class"]), key=lambda other: overlap(box, other), default=None)
            good = best is not None and overlap(box, best) >= 0.5
            if good:
                free.remove(best)
            hits.append((box["score"], good))
    hits.sort(key=lambda hit: -hit[0])
    area, best, right = 0.0, 0.0, sum(good for _, good in hits)
    for seen in range(len(hits), 0, -1):  # from the worst
        best = max(best, right / seen)
        if hits[seen - 1][1]:
            area, right = area + best, right - 1
    return area / count


def clip_to_clip(bench):
    """A clip turns into another in mid-stream. A full count of what a merged detector says of both: as promised of the first, not of the second. It is
    noticed within two checks of that, and not in as many frames before; reverted; merged anew, into a round that is taken up."""
    clips = os.path.join(PUBLISHED, "clips")
    if not os.path.exists(clips):
        raise Skipped(f"no clips in {PUBLISHED}")
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    clean, later, target, frames, side = 400, 35 * 120, 0.7, 16, 224
    how = ["ffmpeg", "-loglevel", "error", "-y"]
    as_is = ["-vf", "scale=384:216,setsar=1", "-r", "10", "-c:v", "mpeg4", "-q:v", "3"]
    # Sixteen frames in a row of the first have 0.78 or more, of the second 0.0, whichever are looked at.
    subprocess.run([*how, "-stream_loop", "40", "-i", os.path.join(clips, "classroom.gif"), "-frames:v", str(clean), *as_is,
                    bench.path("first.avi")], check=True)
    subprocess.run([*how, "-stream_loop", "130", "-i", os.path.join(clips, "person-bicycle-car-detection.gif"), "-frames:v", str(later), *as_is,
                    bench.path("second.avi")], check=True)
    with open(bench.path("both.txt"), "w", encoding="utf-8") as file:
        file.write("file first.avi\n" + 5 * "file second.avi\n")  # half an hour of it: merging anew may take long on a busy machine
    subprocess.run([*how, "-f", "concat", "-i", bench.path("both.txt"), "-c", "copy", bench.path("both.avi")], check=True)

    for query in ("coco", "voc"):  # on smaller pictures than they were made for, in half the time
        source = os.path.join(PUBLISHED, "detectors", f"mobilenetv2-yolov3-nano-{query}")
        with open(source + ".cfg", encoding="utf-8") as file:
            text = file.read()
        with open(bench.path(query + ".cfg"), "w", encoding="utf-8") as file:
            file.write(text.replace("width=320", f"width={side}").replace("height=320", f"height={side}"))
        os.symlink(os.path.abspath(source + ".weights"), bench.path(query + ".weights"))

    def write(name, feed):
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write(f"feeds:\n  hall: {{file: {bench.path(feed)}, fps: 10}}\nqueries:\n")
            for query in ("coco", "voc"):
                file.write(f"  - {{name: {query}, model: {bench.path(query)}.cfg, feed: hall, deadline_ms: 1000, target: {target}}}\n")
            file.write(f"merge: {{steps: 0, frames: 48}}\nedge: {{batch: [1, 2], originals: never, memory: all, drift: {{every_s: 2, frames: {frames}}}}}\n")
        return bench.path(name)
    package = bench.path("package")
    ended = bench.run("merge", write("merge.yaml", "first.avi"), "--out", package, "--json", limit_s=900)
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    first = json.loads(ended.out.splitlines()[-1])
    check(first["saved"] > 0.3, f"saved {first['saved']}")
    # The full count. The first clip is what merging has seen the like of; the second comes round every 35 frames.
    counts = {}
    for clip, span in (("first.avi", "0:100"), ("second.avi", "0:35")):
        said = {}
        for model in (f"{package}:voc", bench.path("voc.cfg")):
            out = bench.run("predict", model, bench.path(clip), "--frames", span, "--json", limit_s=900).out
            said[model] = [json.loads(line)["boxes"] for line in out.splitlines()]
        counts[clip] = precision(*said.values())
    check(counts["first.avi"] >= target > 0.5 > counts["second.avi"], f"full counts: {counts}")
    process = begin(bench, write("run.yaml", "both.avi"), "--package", package)

    def checks(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks("voc")))
    before = [event for query in ("coco", "voc") for event in checks(query) if event["frame"] < clean]
    check(any(event["query"] == "voc" for event in before) and all(event["action"] != "reverted" for event in before), f"checks of the first clip: {before}")
    wholly = [event["action"] for event in checks("voc") if event["frame"] >= clean + frames - 1]
    check("reverted" in wholly[:2], f"checks of the second clip: {checks('voc')}")
    kept = next(event["frames"] for event in checks("voc") if event["action"] == "reverted")

    def samples():
        with open(kept, "rb") as file:
            return struct.unpack(">I", file.read(8)[4:])[0]
    until(process, "frames to merge with", lambda: samples() >= 64)
    ended = bench.run("merge", write("again.yaml", "first.avi"), "--out", package, "--json", "--resume", "--set", f"feeds.hall.file={kept}", limit_s=900)
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    second = json.loads(ended.out.splitlines()[-1])
    check(second["round"] > first["round"], f"rounds {first['round']} and {second['round']}")
    until(process, "the new round", lambda: told(process.out, "round", round=second["round"]))
    _, done = end(bench, process)
    bench.note(f"full counts {counts['first.avi']:.3f} and {counts['second.avi']:.3f}; checks {[(event['frame'], round(event['accuracy'], 2), event['action']) for event in checks('voc')]}; "
               f"saved {first['saved']:.3f}, then {second['saved']:.3f}; dropped {[query['dropped'] for query in done['queries']]}")


def too_many_to_watch(bench):
    """Of forty merged queries there is room beside them for the originals of twenty-four; the others are named."""
    a, b = two_models(bench)
    names = [f"q{number}" for number in range(40)]
    params = shared(a, b, {"conv0.weight", "conv1.weight", "conv2.weight"})["two"]
    publish(bench.path("package"), 1, {name: params for name in names})
    path = workload(bench, [(name, "b") for name in names], fps=1, edge="originals: never, memory: all, drift: {every_s: 5, frames: 2}")
    ended = bench.run("edge", "run", path, "--package", bench.path("package"), "--for", "1", "--json", "--out", bench.path("out"))
    equal(ended.code, 0, f"exit code: {ended.err}")
    told_of = [event["message"].split("'")[1] for event in map(json.loads, ended.out.splitlines())
               if event["event"] == "warning" and "not watched for drift" in event["message"]]
    equal(told_of, names[24:], "queries that are not watched")


cases.add("drift: a clip turns into another", clip_to_clip, kind="computes", seconds=80)
cases.add("drift: clean images turn into JPEG", clean_to_jpeg, kind="computes", seconds=22)
cases.add("drift: a feed turns into another; reverted, and merged anew", merged_anew, seconds=12)
cases.add("drift: what no longer agrees goes back", drift, first=True)
cases.add("drift: where queries run on their own weights by choice", drift_by_choice)
cases.add("drift: by what was measured when labels were there", drift_by_labels)
cases.add("drift: boxes invented in an empty scene", invented, first=True)
cases.add("drift: a scene that turns, and turns again", comes_back)
cases.add("drift: by labels of the feed", drift_on_labels, first=True)
cases.add("drift: more merged queries than there is room for originals", too_many_to_watch)
if __name__ == "__main__":
    cases.run()
