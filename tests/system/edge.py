#!/usr/bin/env python3
"""`culm edge`: queries on feeds in little memory. Models and pictures are made here, so nothing else is needed."""
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import zlib

from harness import Cases, Failed, Skipped, check, children_of, equal, read_events, resident, wait_until

cases = Cases()

CFG = """[net]
width={side}
height={side}
channels=3

[convolutional]
batch_normalize=1
filters=16
size=3
stride=2
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters={wide}
size=3
stride=2
pad=1
activation=leaky

[convolutional]
batch_normalize=1
filters=64
size=3
stride=2
pad=1
activation=leaky

[convolutional]
filters=14
size=1
stride=1
pad=1
activation=linear

[yolo]
mask=0,1
anchors=12,12, 30,30
classes=2
num=2
scale_x_y=1
"""
NUMBERS = {"conv0": (16, 3, 3, True), "conv1": (None, 16, 3, True), "conv2": (64, None, 3, True), "conv3": (14, 64, 1, False)}


def convolutions(wide):
    for name, (out, into, size, norm) in NUMBERS.items():
        yield name, out or wide, into or wide, size, norm


def make_model(path, seed, wide=64, side=64):
    """A detector with random weights; returns its parameters as the program names and shapes them."""
    draw = random.Random(seed)
    params, raw = {}, struct.pack("<iiiq", 0, 2, 0, 0)
    for name, out, into, size, norm in convolutions(wide):
        def numbers(count, low, high):
            return [draw.uniform(low, high) for _ in range(count)]
        parts = [("bias", [out], numbers(out, -0.5, 0.5))]
        if norm:
            parts += [("scale", [out], numbers(out, 0.5, 1.5)), ("mean", [out], numbers(out, -0.2, 0.2)),
                      ("variance", [out], numbers(out, 0.2, 1.0))]
        parts.append(("weight", [out, into, size, size], numbers(out * into * size * size, -0.3, 0.3)))
        for kind, shape, values in parts:
            data = struct.pack(f"<{len(values)}f", *values)
            params[f"{name}.{kind}"] = (shape, data)
            raw += data
    with open(path + ".cfg", "w", encoding="utf-8") as file:
        file.write(CFG.format(wide=wide, side=side))
    with open(path + ".weights", "wb") as file:
        file.write(raw)
    return params


def make_pictures(folder, count, seed=3, blue=True):
    """PNG files of noise; without blue if it is so said."""
    os.makedirs(folder)
    draw = random.Random(seed)
    for number in range(count):
        rows = [bytearray(draw.randbytes(96 * 3)) for _ in range(80)]
        for row in rows if not blue else []:
            row[2::3] = bytes(96)
        rows = b"".join(b"\0" + bytes(row) for row in rows)

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        with open(os.path.join(folder, f"{number:04}.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 96, 80, 8, 2, 0, 0, 0))
                       + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def workload(bench, queries, name="w.yaml", feed="pictures", fps=10, loop=True, edge="", score=0.05):
    path = bench.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"feeds:\n  hall: {{file: {bench.path(feed)}, fps: {fps}, loop: {str(loop).lower()}}}\nqueries:\n")
        for query, model in queries:
            file.write(f"  - {{name: {query}, model: {bench.path(model)}.cfg, feed: hall, deadline_ms: 400, score: {score}}}\n")
        file.write(f"edge: {{batch: [1, 2], {edge}}}\n" if edge else "edge: {batch: [1, 2]}\n")
    return path


def digest_of(shape, data):
    return hashlib.sha256(f"f32 [{', '.join(map(str, shape))}]\n".encode() + data).hexdigest()


def publish(folder, number, queries, agreement=None):
    """A round of a package, {query: {parameter: ((shape, data), (shape, data) of the original)}}; {query: share of the original's answers}."""
    os.makedirs(os.path.join(folder, "tensors"), exist_ok=True)
    os.makedirs(os.path.join(folder, "rounds"), exist_ok=True)
    tensors, texts, layers = {}, [], {}
    total = 0
    for query, (model, params) in queries.items():
        told = {}
        for name, (now, was) in params.items():
            for shape, data in (now, was):
                digest = digest_of(shape, data)
                tensors[digest] = shape
                with open(os.path.join(folder, "tensors", digest), "wb") as file:
                    file.write(data)
            told[name] = {"tensor": digest_of(*now), "original": digest_of(*was)}
            number_of = int(name[4])
            if name.endswith(".weight") or name == "conv3.bias":
                told[name]["layer"] = number_of
                layers[digest_of(*now)] = len(now[1])
                total += len(now[1])
        texts.append({"query": query, "model": model, "identity": hashlib.sha256(query.encode()).hexdigest(), "target": 0.5,
                      "original": 1.0, "merged": 0.9, "parameters": told})
        if agreement and query in agreement:  # on labels it does as well as it must
            texts[-1].update(original=0.8, merged=0.76, agreement=agreement[query])
    text = json.dumps({"format": "culm-package-1", "round": number, "total_bytes": total, "distinct_bytes": sum(layers.values()),
                       "tensors": tensors, "queries": texts})
    with open(os.path.join(folder, "rounds", f"{number}.json"), "w", encoding="utf-8") as file:
        file.write(text)
    with open(os.path.join(folder, "current.tmp"), "w", encoding="utf-8") as file:
        file.write(f"{number} {hashlib.sha256(text.encode()).hexdigest()}\n")
    os.replace(os.path.join(folder, "current.tmp"), os.path.join(folder, "current"))


def two_models(bench):
    make_pictures(bench.path("pictures"), 6)
    a, b = make_model(bench.path("a"), 1), make_model(bench.path("b"), 2)
    return a, b


def shared(a, b, names):
    """Both as they are but for `names`, which are the first one's in both."""
    return {"one": ("a.cfg", {name: (value, value) for name, value in a.items()}),
            "two": ("b.cfg", {name: (a[name] if name in names else value, value) for name, value in b.items()})}


def lines(path):
    """Answers so far; one that is just being written is left out."""
    return read_events(path) if os.path.exists(path) else []


def fresh(out, query):
    return [line for line in lines(os.path.join(out, query + ".jsonl")) if not line.get("stale")]


def events_of(out):
    log = os.path.join(out, "events.jsonl")
    return read_events(log) if os.path.exists(log) else []


def begin(bench, *words, out="out"):
    """A run, which `until` waits for and `end` ends."""
    process = bench.start("edge", "run", *words, "--out", bench.path(out))
    process.out = bench.path(out)
    return process


def until(process, what, condition, limit_s=60):
    wait_until(lambda: condition() or process.poll() is not None, limit_s, what)
    check(process.poll() is None, f"it ended with code {process.poll()} before: {what}")


def end(bench, process):
    os.kill(process.pid, signal.SIGTERM)
    return check_done(bench.end(process), process.out)


def run_until_answered(bench, *words, count=3, evicts=False, out="out"):
    """A run that ends when each of its queries has so many answers of its own."""
    process = begin(bench, *words, out=out)

    def enough():
        events = events_of(process.out)
        names = [event["query"] for event in events if event["event"] == "query"]
        return (names and all(len(fresh(process.out, name)) >= count for name in names)
                and (not evicts or any(event["event"] == "evict" for event in events)))
    until(process, "answers of all queries", enough)
    return end(bench, process)


def check_done(run, out):
    events = read_events(os.path.join(out, "events.jsonl"))
    done = [event for event in events if event["event"] == "done"]
    equal(len(done), 1, "events 'done'")
    check(done[0]["resident_max_bytes"] <= done[0]["limit_bytes"], f"above the limit: {done[0]}")
    check("profile.json" in os.listdir(out), "no profile")
    for query in done[0]["queries"]:
        equal(query["frames"], query["processed"] + query["dropped"], "frames")
        equal(len(lines(os.path.join(out, query["query"] + ".jsonl"))), query["frames"], "answers")
    equal(run.code, 0, "exit code")
    return events, done[0]


def same_as_predict(bench, out, query, model, score="0.05"):
    """Every fresh answer is what the model says alone, to the last digit."""
    ended = bench.run("predict", model + ".cfg", bench.path("pictures"), "--score", score, "--json", "--threads", "1")
    wanted = [json.loads(line)["boxes"] for line in ended.out.splitlines()]
    answers = fresh(out, query)
    check(answers, f"{query} answered nothing")
    check(any(line["boxes"] for line in answers), f"{query} saw nothing")
    for line in answers:
        equal(line["boxes"], wanted[line.get("source", line["frame"])], f"{query}, frame {line['frame']}")


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
    events, _ = run_until_answered(bench, path, "--package", bench.path("package"))
    loaded = sum(event["bytes"] for event in events if event["event"] == "load")
    private = sum(event["bytes"] for event in events if event["event"] == "query")
    check(loaded <= private - len(a["conv1.weight"][1]) - len(a["conv2.weight"][1]), f"{loaded} bytes loaded of {private}")
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
    """Two queries of one model on one feed, with other scores: it runs once, and each has its own answers."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("also", "a"), ("two", "b")])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    line = next(line for line in text.splitlines() if "name: also" in line)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(line, line.replace("score: 0.05", "score: 0.8").replace("deadline_ms: 400", "deadline_ms: 500")))
    _, done = run_until_answered(bench, path, count=10)
    same_as_predict(bench, bench.path("out"), "one", "a")
    same_as_predict(bench, bench.path("out"), "also", "a", score="0.8")
    same_as_predict(bench, bench.path("out"), "two", "b")
    shared = {query["query"]: query["shared"] for query in done["queries"]}
    check(shared["one"] + shared["also"] >= 5 and shared["two"] == 0, f"frames for which the model was not run again: {shared}")


def write_mixed(bench, name, first, other, names):
    """A model that is `other` but for the parameters `names`, which are those of `first`."""
    with open(bench.path(name + ".weights"), "wb") as file:
        file.write(struct.pack("<iiiq", 0, 2, 0, 0) + b"".join((first if part in names else other)[part][1] for part in other))
    with open(bench.path(name + ".cfg"), "w", encoding="utf-8") as file:
        file.write(CFG.format(wide=64, side=64))


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
        _, done = run_until_answered(bench, path, "--package", bench.path("package"), count=12, out=out)
        for query, model in (("one", "a"), ("other", "c"), ("short", "short"), ("long", "long")):
            same_as_predict(bench, bench.path(out), query, bench.path(model))
        shared = {query["query"]: query["shared"] for query in done["queries"]}
        equal(shared["other"], 0, "frames that a model shares which begins with weights of its own")
        if memory == "min":
            continue
        # Of three that begin alike one is first. How often the others go on from it depends on how busy the machine is; the plan below does not.
        check(sum(shared[name] > 0 for name in ("one", "short", "long")) >= 2, f"frames that went on from another's: {shared}")
        with open(bench.path(out, "profile.json"), encoding="utf-8") as file:
            models = json.load(file)["models"]
        for name in "ab":
            times = [prefix["1"] for prefix in models[name]["prefix_ms"].values()]
            equal(len(times), 2, f"prefixes of {name}")
            check(all(0 < ms < models[name]["run_ms"]["1"] for ms in times), f"{name} takes {models[name]['run_ms']}, its prefixes {times}")
        plan = bench.run("edge", "plan", path, "--package", bench.path("package"), "--profile", bench.path(out, "profile.json"), "--json")
        planned = {query["query"]: query["shared"] / query["frames"] for query in json.loads(plan.out)["queries"]}
        check(planned["other"] == 0 and planned["one"] + planned["short"] + planned["long"] > 1.9, f"shares of frames that are planned so: {planned}")


def new_round(bench):
    """A round that comes in mid-run is taken up whole; one that is damaged is not."""
    a, b = two_models(bench)
    publish(bench.path("package"), 0, shared(a, b, set()))
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%")
    process = bench.start("edge", "run", path, "--package", bench.path("package"), "--out", bench.path("out"))
    out = bench.path("out")
    wait_until(lambda: told(out, "frame"), 30, "a first frame")
    publish(bench.path("package"), 1, shared(a, b, {"conv1.weight", "conv2.weight"}))
    wait_until(lambda: told(out, "round", round=1), 30, "the new round")
    with open(bench.path("package", "rounds", "2.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    with open(bench.path("package", "current.tmp"), "w", encoding="utf-8") as file:
        file.write(f"2 {hashlib.sha256(b'[]').hexdigest()}\n")
    os.replace(bench.path("package", "current.tmp"), bench.path("package", "current"))
    wait_until(lambda: told(out, "round", kept=1), 30, "a word on the damaged round")
    os.kill(process.pid, signal.SIGTERM)
    check_done(bench.end(process), bench.path("out"))


def killed_in_delivery(bench):
    """Killed while a round of its package is being copied there, at any step of it: the next run has the old round or the new one."""
    a, b = two_models(bench)
    rounds = {1: set(), 2: {"conv1.weight", "conv2.weight"}, 3: {"conv0.weight", "conv1.weight"}}
    for number, names in rounds.items():
        publish(bench.path(f"made-{number}"), number, shared(a, b, names))
        with open(bench.path(f"mixed-{number}.weights"), "wb") as file:
            file.write(b"".join([struct.pack("<iiiq", 0, 2, 0, 0)] + [(a if name in names else b)[name][1] for name in b]))
        shutil.copy(bench.path("b.cfg"), bench.path(f"mixed-{number}.cfg"))
    package = bench.path("package")
    shutil.copytree(bench.path("made-1"), package)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%, drift: {every_s: 0}")
    draw, has = random.Random(5), 1

    def deliver(number):
        """As rsync does: tensors, each in parts under another name; the round; last of all `current`. A step at a time."""
        made = bench.path(f"made-{number}")
        for folder in ("tensors", "rounds"):
            for name in sorted(os.listdir(os.path.join(made, folder))):
                with open(os.path.join(made, folder, name), "rb") as file:
                    data = file.read()
                beside = os.path.join(package, folder, f".{name}.part")
                with open(beside, "wb") as file:
                    file.write(data[:len(data) // 2])
                yield
                with open(beside, "ab") as file:
                    file.write(data[len(data) // 2:])
                os.replace(beside, os.path.join(package, folder, name))
                yield
        shutil.copy(os.path.join(made, "current"), os.path.join(package, ".current.part"))
        yield
        os.replace(os.path.join(package, ".current.part"), os.path.join(package, "current"))
        yield
    for number in (2, 3):
        made = [os.listdir(bench.path(f"made-{number}", folder)) for folder in ("tensors", "rounds")]
        steps = 2 * sum(map(len, made)) + 2
        for at in (0, draw.randrange(1, steps - 2), steps - 2, steps - 1):  # the last one: `current` is the new one
            out = f"out-{number}-{at}"
            process = begin(bench, path, "--package", package, out=out)
            until(process, "a first frame", lambda process=process: told(process.out, "frame"))
            delivery = deliver(number)
            for _ in range(at + 1):
                next(delivery)
            os.kill(process.pid, signal.SIGKILL)
            equal(bench.end(process).code, -signal.SIGKILL, "exit code")
            has = number if at == steps - 1 else has
            events, _ = run_until_answered(bench, path, "--package", package, out=f"{out}-again")
            equal(next(event for event in events if event["event"] == "start")["round"], has, f"round after a kill at step {at} of {steps}")
            same_as_predict(bench, bench.path(f"{out}-again"), "two", f"mixed-{has}")


def told(out, kind, **members):
    """Whether there is such an event by now."""
    return any(event["event"] == kind and members.items() <= event.items() for event in events_of(out))


def reload(bench):
    """On SIGHUP queries and feeds come and go; a workload that is wrong changes nothing."""
    two_models(bench)
    make_pictures(bench.path("others"), 5, seed=9)
    path, out = workload(bench, [("one", "a")]), bench.path("out")
    process = bench.start("edge", "run", path, "--out", out)
    wait_until(lambda: told(out, "frame", query="one"), 30, "a frame")
    workload(bench, [("one", "a"), ("two", "b")])
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: told(out, "workload", queries=["one", "two"]), 30, "the new query")
    wait_until(lambda: any(event["event"] == "frame" and event["query"] == "two" and "done_ms" in event
                           for event in read_events(os.path.join(out, "events.jsonl"))), 30, "its answer")
    with open(path, "w", encoding="utf-8") as file:
        file.write("queries: [{name: x}]\n")
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: any("error" in event for event in read_events(os.path.join(out, "events.jsonl")) if event["event"] == "workload"),
               30, "a word on the wrong one")
    workload(bench, [("two", "b")], feed="others")
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: told(out, "workload", queries=["two"]), 30, "another feed")
    before = len(lines(os.path.join(out, "two.jsonl")))
    wait_until(lambda: any("others" in line["file"] and not line.get("stale")
                           for line in lines(os.path.join(out, "two.jsonl"))[before:]), 30, "answers on the other feed")
    gone = len(lines(os.path.join(out, "one.jsonl")))
    os.kill(process.pid, signal.SIGTERM)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    equal(len(lines(os.path.join(out, "one.jsonl"))), gone, "answers of a query that has gone")


def tell(process, kind="workload"):
    """Sends SIGHUP and waits for what is said to it."""
    def said():
        return [event for event in events_of(process.out) if event["event"] == kind]
    before = len(said())
    os.kill(process.pid, signal.SIGHUP)
    until(process, "a word on the workload", lambda: len(said()) > before)
    return said()[before]


def grown(bench):
    """A query that takes more memory than all before it; one for which there are no addresses is refused, and the others go on."""
    two_models(bench)
    make_model(bench.path("large"), 3, side=320)
    make_model(bench.path("huge"), 4, side=2304)
    path = workload(bench, [("one", "a")], edge="memory: 4000")
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    workload(bench, [("one", "a"), ("two", "large")], edge="memory: 4000")
    equal(tell(process).get("error"), None, "error")
    until(process, "answers of the larger one", lambda: len(fresh(process.out, "two")) >= 3)
    workload(bench, [("one", "a"), ("two", "large"), ("three", "huge")], edge="memory: 4000")
    check("no addresses left" in tell(process).get("error", ""), "it was not refused")
    mark = {query: len(fresh(process.out, query)) for query in ("one", "two")}
    until(process, "more answers", lambda: all(len(fresh(process.out, query)) > mark[query] + 5 for query in mark))
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "large")
    check(not os.path.exists(os.path.join(process.out, "three.jsonl")), "a refused query has left a file")


def refused(bench):
    """A refused text changes nothing at all, however often; then a good one is taken up."""
    two_models(bench)
    make_model(bench.path("large"), 3, side=320)
    path = workload(bench, [("one", "a")])
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    for time in range(18):
        if time % 6:
            with open(path, "w", encoding="utf-8") as file:
                file.write("queries: [{name: x}]\n")
        else:
            workload(bench, [("one", "a"), ("two", "b"), ("three", "large")], score=0.999)
        said = tell(process)
        check("error" in said and said["queries"] == ["one"], f"{said}")
    mark = len(fresh(process.out, "one"))
    until(process, "answers after it", lambda: len(fresh(process.out, "one")) > mark + 5)
    workload(bench, [("one", "a"), ("two", "b")])
    equal(tell(process)["queries"], ["one", "two"], "queries")
    until(process, "answers of the new query", lambda: len(fresh(process.out, "two")) > 3)
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "b")


def promise_kept(bench):
    """A round that is refused half-way changes nothing of what its queries promise: checks go on by the round before."""
    own, _ = two_models(bench)
    shape, data = own["conv2.weight"]
    values = struct.unpack(f"<{len(data) // 4}f", data)
    near = (shape, struct.pack(f"<{len(values)}f", *(value * 1.000001 for value in values)))
    params = {**{name: (value, value) for name, value in own.items()}, "conv2.weight": (near, own["conv2.weight"])}
    publish(bench.path("package"), 1, {"one": ("a.cfg", params), "two": ("a.cfg", params)}, agreement={"one": 0.75})
    path = workload(bench, [("one", "a"), ("two", "a")], fps=20, edge="originals: never, memory: all, drift: {every_s: 0.5, frames: 2}")
    process = begin(bench, path, "--package", bench.path("package"))

    def promises():
        return [event["promised"] for event in events_of(process.out) if event["event"] == "drift" and event["query"] == "one"]
    until(process, "a check", promises)
    wrong = {name: value for name, value in params.items() if name != "conv2.weight"}
    publish(bench.path("package"), 2, {"one": ("a.cfg", params), "two": ("a.cfg", wrong)})
    until(process, "a word on the round", lambda: told(process.out, "round"))
    check(told(process.out, "round", kept=1), "the round was not refused")
    mark = len(promises())
    until(process, "checks after it", lambda: len(promises()) > mark + 1)
    end(bench, process)
    equal({round(promised, 6) for promised in promises()}, {0.75}, "what was promised")


def reload_again(bench):
    """A text that comes, and is refused, while another is still waiting for a slow load: what counts is the first."""
    a, _ = two_models(bench)
    with open(bench.path("c.weights"), "wb") as file:  # what one has alone is in other places then
        shape, data = a["conv1.bias"]
        other = {**a, "conv1.bias": (shape, data[::-1])}
        file.write(b"".join([struct.pack("<iiiq", 0, 2, 0, 0)] + [other[name][1] for name in a]))
    shutil.copy(bench.path("a.cfg"), bench.path("c.cfg"))
    make_model(bench.path("large"), 3, side=320)
    slow = "load_mb_per_s: 0.1, memory: 3"
    path = workload(bench, [("one", "a")], edge=slow)
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    workload(bench, [("one", "a"), ("two", "b")], edge=slow)
    equal(tell(process)["queries"], ["one", "two"], "queries")
    workload(bench, [("one", "a"), ("two", "b")], edge=slow, score=0.06)
    equal(tell(process).get("error"), None, "error")
    workload(bench, [("one", "a"), ("two", "b"), ("three", "c"), ("four", "large")], edge=slow)
    check("error" in tell(process), "more than fits was taken up")
    mark = len(fresh(process.out, "one"))
    until(process, "answers of both", lambda: len(fresh(process.out, "one")) > mark + 5 and len(fresh(process.out, "two")) > 5)
    end(bench, process)


def drift(bench):
    """What no longer agrees with its original goes back to it within two checks; what agrees does not."""
    a, b = two_models(bench)
    queries = shared(a, b, {"conv0.weight", "conv1.weight", "conv2.weight"})
    shape, data = a["conv2.weight"]
    values = struct.unpack(f"<{len(data) // 4}f", data)
    near = (shape, struct.pack(f"<{len(values)}f", *(value * 1.000001 for value in values)))
    queries["one"][1]["conv2.weight"] = (near, a["conv2.weight"])
    publish(bench.path("package"), 1, queries)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 75%, drift: {every_s: 1, frames: 4}")
    out = bench.path("out")
    process = bench.start("edge", "run", path, "--package", bench.path("package"), "--out", out)

    def of(query):
        return [event for event in read_events(os.path.join(out, "events.jsonl")) if event["event"] == "drift" and event["query"] == query]
    wait_until(lambda: os.path.exists(os.path.join(out, "events.jsonl")) and len(of("two")) >= 2 and len(of("one")) >= 4, 60, "checks")
    alone = bench.run("predict", "b.cfg", bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
    wanted = [json.loads(line)["boxes"] for line in alone.out.splitlines()]

    def own():
        """How many of the last answers are those of its own weights."""
        answers = fresh(out, "two")
        others = [at for at, line in enumerate(answers) if line["boxes"] != wanted[line.get("source", line["frame"])]]
        return len(answers) - 1 - max(others, default=-1)
    wait_until(lambda: own() >= 20, 60, "answers of its own weights")
    os.kill(process.pid, signal.SIGTERM)
    _, done = check_done(bench.end(process), out)
    accuracy = {query["query"]: query["accuracy"] for query in done["queries"]}
    check(accuracy["one"] > 0.99 > 0.9 > accuracy["two"], f"accuracies {accuracy}")
    equal([event["action"] for event in of("two")], ["watched", "reverted"], "checks of the one that drifts")
    equal({event["action"] for event in of("one")}, {"none"}, "checks of the one that does not")


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
    publish(bench.path("package"), 1, queries, agreement={"one": 0.75})
    path = workload(bench, [("one", "a"), ("two", "a")], fps=20, edge="originals: never, memory: all, drift: {every_s: 2, frames: 24}")
    process = begin(bench, path, "--package", bench.path("package"))

    def of(query):
        return [event for event in events_of(process.out) if event["event"] == "drift" and event["query"] == query]
    until(process, "checks", lambda: len(of("one")) >= 4 and len(of("two")) >= 2)
    end(bench, process)
    for query, promised in (("one", 0.75), ("two", 0.95)):
        check(all(abs(event["promised"] - promised) < 1e-9 and event["by"] == "original" and 0.5 < event["accuracy"] < 0.9 for event in of(query)),
              f"checks of {query}: {of(query)}")
    equal({event["action"] for event in of("one")}, {"none"}, "checks of the one that agrees as it did")
    equal([event["action"] for event in of("two")], ["watched", "reverted"], "checks of the one that does not")


def write_weights(path, params):
    with open(path, "wb") as file:
        file.write(b"".join([struct.pack("<iiiq", 0, 2, 0, 0)] + [data for _, data in params.values()]))


def merged_anew(bench):
    """A feed turns into another, on which a merged query no longer does: noticed within two checks, and not before; reverted; merged anew
    with frames of the new one, into a round that is taken up, and which holds."""
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
    os.mkdir(bench.path("pictures"))
    clean, all_of = 120, 2000
    for number in range(all_of):
        name = os.path.join("before", f"{number % 30:04}.png") if number < clean else os.path.join("after", f"{number % 60:04}.png")
        os.link(bench.path(name), bench.path("pictures", f"{number:05}.png"))
    path = workload(bench, [("one", "a"), ("two", "b")], fps=20, edge="originals: never, memory: all, drift: {every_s: 1, frames: 16}")
    package, out = bench.path("package"), bench.path("out")
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("score: 0.05", "score: 0.05, target: 0.8") + "merge: {steps: 0}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    ended = bench.run("merge", path, "--out", package, "--json", "--set", f"feeds.hall.file={bench.path('before')}")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    first = json.loads(ended.out.splitlines()[-1])
    with open(os.path.join(package, "rounds", f"{first['round']}.json"), encoding="utf-8") as file:
        two = json.load(file)["queries"][1]["parameters"]["conv0.weight"]
    check(two["tensor"] != two.get("original", two["tensor"]), "nothing of the first layer was merged, so nothing can drift")
    process = begin(bench, path, "--package", package)

    def checks(query):
        return [event for event in events_of(out) if event["event"] == "drift" and event["query"] == query]
    until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks("two")))
    before = [event for query in ("one", "two") for event in checks(query) if event["frame"] < clean]
    check(len(before) >= 4, f"only {len(before)} checks of clean frames")
    equal({event["action"] for event in before}, {"none"}, "checks of clean frames")
    wholly = [event["action"] for event in checks("two") if event["frame"] >= clean + 16]
    check(wholly[:2] in (["watched", "reverted"], ["reverted"]), f"checks of the other frames: {wholly}")
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
    mark = len(lines(os.path.join(out, "two.jsonl")))
    seen = len(checks("two"))
    until(process, "checks after it", lambda: len(checks("two")) >= seen + 3)
    equal({event["action"] for event in checks("two")[seen:]}, {"none"}, "checks after it was merged anew")
    end(bench, process)
    bench.note(f"saved {first['saved']:.3f}, then {second['saved']:.3f}; {mark} answers until then")


PUBLISHED = os.environ.get("CULM_EDGE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "data", "edge"))


def write_images(path, pixels, labels):
    """IDX files of 32 x 32 images, and of their labels if there are some."""
    with open(path, "wb") as file:
        file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, len(pixels) // 3072, 32, 32, 3) + pixels)
    with open(path + ".labels", "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, len(labels)) + bytes(labels))


def jpeg_images(count):
    """So many images of CIFAR-10's test set, of all classes in turn, that have been through JPEG: pixels, labels."""
    parts, labels = [], []
    with tarfile.open(os.path.join(PUBLISHED, "images", "cifar10-jpeg-test.tar.gz")) as tar:
        members = {member.name: member for member in tar.getmembers()}
        classes = sorted(name.split("/")[1] for name in members if name.count("/") == 1)
        for number in range(count):
            labels.append(number % len(classes))
            parts.append(tar.extractfile(members[f"test/{classes[labels[-1]]}/{number // len(classes):04}.jpg"]).read())
    decoded = subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "image2pipe", "-c:v", "mjpeg", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                             input=b"".join(parts), stdout=subprocess.PIPE, check=True)
    equal(len(decoded.stdout), 3072 * count, "bytes of images")
    return decoded.stdout, labels


def clean_to_jpeg(bench):
    """Clean CIFAR-10 turns into JPEG. What a merged classifier says is then less often what its original does than was promised: noticed within two
    checks, and not before; reverted; merged anew. The other one has labels, by which it goes on as promised: no alarm, before or after."""
    if not os.path.exists(os.path.join(PUBLISHED, "images")):
        raise Skipped(f"no images in {PUBLISHED}")
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    clean, changed = 700, 1500
    with gzip.open(os.path.join(PUBLISHED, "images", "cifar10-clean-images-idx4-ubyte.gz")) as file:
        pixels = file.read()[20:]
    with gzip.open(os.path.join(PUBLISHED, "images", "cifar10-clean-labels-idx1-ubyte.gz")) as file:
        labels = list(file.read()[8:])
    write_images(bench.path("clean"), pixels[:2000 * 3072], labels[:2000])
    pixels, later = pixels[3000 * 3072:(3000 + clean) * 3072], labels[3000:3000 + clean]
    decoded, of_jpeg = jpeg_images(changed)
    write_images(bench.path("turns"), pixels + decoded, later + of_jpeg)
    for name in ("resnet20", "resnet32"):
        bench.config({"model": {"arch": "resnet", "blocks": [(int(name[6:]) - 2) // 6] * 3, "small_stem": True, "width": 16, "image": 32, "classes": 10,
                                "shortcut": "pad", "init": os.path.join(PUBLISHED, "classifiers", f"cifar10-{name}.safetensors")},
                      "data": {"kind": "images", "path": "none", "normalize": "imagenet"}, "steps": 1}, name + ".yaml")

    def write(name, feed, labelled):
        with open(bench.path(name), "w", encoding="utf-8") as file:
            file.write(f"feeds:\n  images: {{file: {bench.path(feed)}, fps: 100, loop: true}}\nqueries:\n")
            for query in ("resnet20", "resnet32"):
                own = f", labels: {bench.path(feed)}.labels" if query in labelled else ""
                file.write(f"  - {{name: {query}, model: {bench.path(query)}.yaml, feed: images, deadline_ms: 400{own}}}\n")
            file.write("merge: {steps: 0, frames: 12}\nedge: {batch: [1, 4], originals: never, memory: all, drift: {every_s: 2, frames: 128}}\n")
        return bench.path(name)
    package, out = bench.path("package"), bench.path("run")
    ended = bench.run("merge", write("merge.yaml", "clean", ("resnet20", "resnet32")), "--out", package, "--json")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    first = json.loads(ended.out.splitlines()[-1])
    process = begin(bench, write("run.yaml", "turns", ("resnet32",)), "--package", package, out="run")

    def checks(query):
        return [event for event in events_of(out) if event["event"] == "drift" and event["query"] == query]
    until(process, "it to go back", lambda: any(event["action"] == "reverted" for event in checks("resnet20")))
    before = [event for query in ("resnet20", "resnet32") for event in checks(query) if event["frame"] < clean]
    check(sum(event["query"] == "resnet20" for event in before) >= 2, f"checks of clean frames: {before}")
    check(all(event["action"] != "reverted" for event in before), f"false alarms: {before}")
    wholly = [event for event in checks("resnet20") if event["frame"] >= clean + 128]
    check("reverted" in [event["action"] for event in wholly[:2]] and wholly[0]["by"] == "original", f"checks of the others: {wholly}")
    frames = next(event["frames"] for event in checks("resnet20") if event["action"] == "reverted")

    def kept():
        with open(frames, "rb") as file:
            return struct.unpack(">I", file.read(8)[4:])[0]
    until(process, "frames to merge with", lambda: kept() >= 128)
    ended = bench.run("merge", write("again.yaml", "turns", ()), "--out", package, "--json", "--resume", "--set", f"feeds.images.file={frames}")
    equal(ended.code, 0, f"exit code of merge: {ended.err}")
    second = json.loads(ended.out.splitlines()[-1])
    check(second["round"] > first["round"], f"rounds {first['round']} and {second['round']}")
    until(process, "the new round", lambda: told(out, "round", round=second["round"]))
    labelled = checks("resnet32")
    check(len(labelled) >= 4 and all(event["by"] == "labels" and event["action"] != "reverted" for event in labelled), f"checks by labels: {labelled}")
    end(bench, process)
    bench.note(f"agrees in {wholly[0]['accuracy']:.2f} of JPEG frames, {wholly[0]['promised']:.2f} promised; saved {first['saved']:.3f}, then {second['saved']:.3f}")


def cgroup(bench):
    """In a memory cgroup just above the limit nothing is killed."""
    base = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
    limit_file = "memory.limit_in_bytes" if base.endswith("memory") else "memory.max"
    group = os.path.join(base, f"culm-edge-{os.getpid()}")
    try:
        os.mkdir(group)
    except OSError as error:
        raise Skipped(f"no memory cgroup can be made: {error}") from None
    try:
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
        try:
            with open(os.path.join(group, limit_file), "w", encoding="utf-8") as file:
                file.write(str(most))
        except OSError as error:
            raise Skipped(f"the memory cgroup has no limit to set: {error}") from None
        script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        command = ["sh", "-c", script, "sh", bench.culm, "edge", "run", path, "--for", "8", "--out", bench.path("out")]
        ended = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, timeout=60, check=False)
        equal(ended.returncode, 0, f"exit code in the group: {ended.stderr}")
        events = read_events(bench.path("out", "events.jsonl"))
        done = events[-1]
        equal(done["event"], "done", "the last event")
        check(done["resident_max_bytes"] <= limit, f"{done['resident_max_bytes']} of {limit} bytes")
        check(all(query["processed"] > 0 for query in done["queries"]), f"{done['queries']}")
        bench.note(f"limit {limit} of {everything} bytes, group {most} bytes")
    finally:
        os.rmdir(group)


def signals(bench):
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")])
    for number in (signal.SIGINT, signal.SIGTERM):
        out = bench.path(f"signal-{int(number)}")
        process = bench.start("edge", "run", path, "--out", out)
        wait_until(lambda out=out: os.path.exists(os.path.join(out, "one.jsonl")) and lines(os.path.join(out, "one.jsonl")), 30, "an answer")
        os.kill(process.pid, number)
        check_done(bench.end(process), out)
    check_done(bench.run("edge", "run", path, "--for", "1", "--out", bench.path("for")), bench.path("for"))


def feed_ends(bench):
    two_models(bench)
    path = workload(bench, [("one", "a")], loop=False, fps=2)
    events, done = check_done(bench.run("edge", "run", path, "--out", bench.path("out")), bench.path("out"))
    equal(done["queries"][0]["frames"], 6, "frames of a feed that ends")
    check(any(event["event"] == "feed" for event in events), "no word on its end")


def grey_feed(bench):
    """A model of colours on a feed of grey images answers as it does alone."""
    two_models(bench)
    shutil.rmtree(bench.path("pictures"))
    with open(bench.path("pictures"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 5, 28, 28) + random.Random(6).randbytes(5 * 28 * 28))
    run_until_answered(bench, workload(bench, [("one", "a")]), count=8)
    same_as_predict(bench, bench.path("out"), "one", "a")


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
    words += ["--set", f"queries[0].labels={bench.path('nowhere')}"]
    ended = bench.run("edge", "run", *words, "--out", bench.path("other"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "nowhere" in ended.err, f"{ended.code}: {ended.err}")
    for count in 7, 9:
        with open(bench.path("other-count"), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(count))
        words += ["--set", f"queries[0].labels={bench.path('other-count')}"]
        ended = bench.run("edge", "run", *words, "--for", "1", "--out", bench.path("other"))
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and f"has {count} of rank 1, and the feed 8 frames" in ended.err,
              f"{count} labels: {ended.code}: {ended.err}")


def feed_missing(bench):
    """One feed that cannot be opened is told of; the other goes on."""
    two_models(bench)
    path = workload(bench, [("one", "a")])
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("queries:\n", f"  gone: {{file: {bench.path('nowhere')}, fps: 10}}\nqueries:\n"
                                   f"  - {{name: two, model: {bench.path('b')}.cfg, feed: gone}}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    process = begin(bench, path)
    until(process, "answers, and a word", lambda: fresh(process.out, "one") and any("error" in event for event in events_of(process.out)))
    events, done = end(bench, process)
    check(any(event["event"] == "feed" and event.get("feed") == "gone" and "nowhere" in event.get("error", "") for event in events),
          "no word on the feed that is not there")
    counts = {query["query"]: query["processed"] for query in done["queries"]}
    check(counts["one"] > 0 and counts["two"] == 0, f"{counts}")


def ffmpeg_killed(bench):
    """A clip whose ffmpeg is killed ends, and says so; the pictures go on."""
    two_models(bench)
    make_clip(bench, 25)
    path, out = workload(bench, [("one", "a")]), bench.path("out")
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("queries:\n", f"  clip: {{file: {bench.path('clip.mkv')}, fps: 10, loop: true}}\nqueries:\n"
                                   f"  - {{name: two, model: {bench.path('b')}.cfg, feed: clip, deadline_ms: 400}}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    process = bench.start("edge", "run", path, "--out", out)

    def failed():
        for child in children_of(process.pid):
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return any(event["event"] == "feed" and event.get("feed") == "clip" and "error" in event
                   for event in read_events(os.path.join(out, "events.jsonl")))
    wait_until(lambda: told(out, "frame", query="two"), 30, "a frame of the clip")
    wait_until(failed, 30, "a word on ffmpeg's end")
    seen = len(lines(os.path.join(out, "one.jsonl")))
    wait_until(lambda: len(lines(os.path.join(out, "one.jsonl"))) > seen + 5, 30, "answers of the other query")
    os.kill(process.pid, signal.SIGTERM)
    check_done(bench.end(process), out)


def make_clip(bench, fps):
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    made = subprocess.run(["ffmpeg", "-loglevel", "error", "-framerate", str(fps), "-i", bench.path("pictures", "%04d.png"), "-c:v", "ffv1",
                           bench.path("clip.mkv")], capture_output=True, text=True, check=False)
    equal(made.returncode, 0, f"ffmpeg: {made.stderr}")
    return bench.path("clip.mkv")


def as_recorded(bench):
    """A clip of five frames a second whose feed says no rate comes at five a second."""
    two_models(bench)
    make_clip(bench, 5)
    path = workload(bench, [("one", "a")], feed="clip.mkv", fps=0)
    process = begin(bench, path)

    def dues():
        return [event["due_ms"] for event in events_of(process.out) if event["event"] == "frame"]
    until(process, "frames", lambda: len(dues()) > 20)
    end(bench, process)
    apart = sorted(later - earlier for earlier, later in zip(dues(), dues()[1:]))
    check(150 < apart[len(apart) // 2] < 250, f"frames are {apart[len(apart) // 2]} ms apart")


class Camera:
    """Frames of 96 x 80 into a fifo, fifty a second, whoever reads them or not; `held` keeps them back."""

    def __init__(self, path):
        self.path, self.written, self.held, self.ended = path, 0, threading.Event(), threading.Event()
        os.mkfifo(path)
        self.thread = threading.Thread(target=self.give, daemon=True)
        self.thread.start()

    def give(self):
        draw = random.Random(4)
        frames = [b"FRAME\n" + draw.randbytes(96 * 80 * 3 // 2) for _ in range(7)]
        try:
            with open(self.path, "wb", buffering=0) as file:
                file.write(b"YUV4MPEG2 W96 H80 F50:1 Ip A1:1 C420jpeg\n")
                while not self.ended.wait(0.02):
                    if not self.held.is_set():
                        file.write(frames[self.written % 7])
                        self.written += 1
        except BrokenPipeError:
            pass


def live_feed(bench):
    """A camera that gives more frames than the feed is to have: the newest are answered. It falls silent: that is said, the other feed
    goes on, and so does the camera's when there are frames again."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    camera = Camera(bench.path("camera.y4m"))
    path, out = workload(bench, [("one", "a")]), bench.path("out")
    with open(path, encoding="utf-8") as file:
        text = file.read().replace("queries:\n", f"  live: {{file: {camera.path}, fps: 2}}\nqueries:\n"
                                   f"  - {{name: two, model: {bench.path('b')}.cfg, feed: live, deadline_ms: 400}}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    process = begin(bench, path)

    def newest():
        return max((line["frame"] for line in fresh(out, "two")), default=-1)
    until(process, "an answer to a new frame", lambda: camera.written >= 300 and newest() >= camera.written - 60, 40)
    apart = [line["frame"] for line in lines(os.path.join(out, "two.jsonl"))][-5:]
    check(all(later - earlier >= 5 for earlier, later in zip(apart, apart[1:])), f"frames {apart} of fifty a second are answered at two a second")
    camera.held.set()
    until(process, "a word on its silence", lambda: any(event["event"] == "feed" and event.get("feed") == "live" and "stalled" in event.get("error", "")
                                                       for event in events_of(out)), 40)
    seen, before = len(fresh(out, "one")), newest()
    until(process, "answers of the other query", lambda: len(fresh(out, "one")) > seen + 5)
    camera.held.clear()
    until(process, "answers when there are frames again", lambda: newest() > before)
    end(bench, process)
    camera.ended.set()


def too_little(bench):
    two_models(bench)
    path = workload(bench, [("one", "a")])
    ended = bench.run("edge", "run", path, "--set", "edge.memory=0.1", "--out", bench.path("out"))
    equal(ended.code, 3, "exit code")
    equal(len(ended.err.splitlines()), 1, "lines")
    check("query 'one' takes" in ended.err, ended.err)


def damaged(bench):
    """A tensor that is not what its name says is not run on."""
    a, b = two_models(bench)
    publish(bench.path("package"), 0, shared(a, b, set()))
    tensor = bench.path("package", "tensors", digest_of(*b["conv2.weight"]))
    with open(tensor, "r+b") as file:
        file.write(b"\1\2\3\4")
    path = workload(bench, [("one", "a"), ("two", "b")])
    ended = bench.run("edge", "run", path, "--package", bench.path("package"), "--for", "1", "--out", bench.path("out"))
    check(ended.code == 3 and "is not what its name says" in ended.err, f"{ended.code}: {ended.err}")


def arena(bench):
    """What another process sees of the arena is what events say, at the least memory and all the time."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    process = bench.start("edge", "run", path, "--out", bench.path("out"))
    log, seen = bench.path("out", "events.jsonl"), []
    wait_until(lambda: os.path.exists(log) and any(event["event"] == "evict" for event in read_events(log)), 30, "evictions")
    start = next(event for event in read_events(log) if event["event"] == "start")

    def stopped():
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    def enough():  # a look takes a while, so that what moves meanwhile would be seen twice: it is stopped
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(stopped, 30, "it to stop")
        seen.append(resident(process.pid, *(int(edge, 16) for edge in start["arena"])))
        os.kill(process.pid, signal.SIGCONT)
        return len(seen) >= 40 and len(set(seen)) > 1
    wait_until(enough, 30, "looks at its memory, some of it given back")
    os.kill(process.pid, signal.SIGTERM)
    events, done = check_done(bench.end(process), bench.path("out"))
    told = [event["resident_bytes"] for event in events if event["event"] in ("load", "evict")]
    check(max(seen) <= done["limit_bytes"], f"{max(seen)} bytes resident, the limit is {done['limit_bytes']}")
    check(max(seen) >= min(told) and min(seen) <= max(told), f"resident {min(seen)} to {max(seen)}, told {min(told)} to {max(told)}")
    bench.note(f"resident {min(seen)} to {max(seen)} bytes, told {min(told)} to {max(told)}, limit {done['limit_bytes']}")


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


def six_models(bench):
    """A workload of six models that is too much for what there is, so that plans differ, and a profile for it."""
    make_pictures(bench.path("pictures"), 6)
    draw = random.Random(5)
    for number, name in enumerate("abcdef"):
        make_model(bench.path(name), number, wide=32 + 32 * number)
    path = workload(bench, [(name, name) for name in "abcdef"], edge="load_mb_per_s: 4, memory: min", fps=15)
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


def planned_anew(bench):
    """A plan that had to be made at once, with frames waiting, is followed by the one that `plan` makes."""
    path, plan = six_models(bench)
    with open(path, encoding="utf-8") as file:
        text = file.read().replace(bench.path("pictures"), bench.path("silent"))
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
        check(plans()[2]["least_processed"] > plans()[1]["least_processed"] - 0.01, "it is worse")  # shares that near are the same
        end(bench, process)
    finally:
        os.close(held)


def grid(bench):
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="load_mb_per_s: 20")
    profile = {"format": 1, "models": {name: {"run_ms": {"1": 8, "2": 14}, "activation_bytes": {"1": 300000, "2": 600000}} for name in "ab"}}
    with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
        json.dump(profile, file)
    first = bench.run("edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "300", "--json")
    second = bench.run("edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "300", "--json")
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
    words = ["edge", "bench", path, "--profile", bench.path("profile.json"), "--frames", "100", "--json", "--set", "edge.originals=never"]
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


def bad_input(bench):
    two_models(bench)
    path = workload(bench, [("one", "a")])
    for name, text, says in [
            ("not json", "{", "line 1"), ("no models", '{"format": 1}', "models"),
            ("times", '{"format": 1, "models": {"a": {"run_ms": {"1": -1}}}}', "above 0"),
            ("bytes", '{"format": 1, "models": {"a": {"run_ms": {"1": 1}, "tensors": {"t": 0}}}}', "1 or more")]:
        with open(bench.path("profile.json"), "w", encoding="utf-8") as file:
            file.write(text)
        ended = bench.run("edge", "plan", path, "--profile", bench.path("profile.json"))
        check(ended.code == 3 and says in ended.err and len(ended.err.splitlines()) == 1, f"{name}: {ended.code} {ended.err}")
    for words, code in [(["edge", "walk", path], 2), (["edge", "run", bench.path("none.yaml")], 3),
                        (["edge", "run", path, "--package", bench.path("none"), "--out", bench.path("o")], 3)]:
        ended = bench.run(*words)
        check(ended.code == code and len(ended.err.splitlines()) == 1, f"{words}: {ended.code} {ended.err}")


if not hasattr(random.Random, "randbytes"):
    raise Failed("Python 3.9 or later is needed")
cases.add("two models at the least memory answer as each does alone", run_alone)
cases.add("a package's tensors are there once, and answers have the bits of private copies", shared_bits)
cases.add("queries run on their own weights where no frame is lost by it", own_weights)
cases.add("two queries of one model on one feed run it once", twins)
cases.add("what models begin with is run once, and answers have the bits of private runs", prefixes)
cases.add("a new round is taken up in mid-run, a damaged one is not", new_round)
cases.add("killed while a round is delivered: the old one or the new", killed_in_delivery)
cases.add("queries and feeds come and go on SIGHUP", reload)
cases.add("a query that takes more than all before it, on SIGHUP", grown)
cases.add("a refused text changes nothing, however often", refused)
cases.add("a refused round leaves promises as they were", promise_kept)
cases.add("SIGHUP while another text is still to count", reload_again)
cases.add("drift: what no longer agrees goes back", drift)
cases.add("drift: by what was measured when labels were there", drift_by_labels)
cases.add("drift: a feed turns into another; reverted, and merged anew", merged_anew)
cases.add("drift: clean images turn into JPEG", clean_to_jpeg)
cases.add("a memory cgroup just above the limit", cgroup)
cases.add("a signal ends it, with what was done", signals)
cases.add("a feed ends", feed_ends)
cases.add("a grey feed, a model of colours", grey_feed)
cases.add("labels are a query's own", own_labels)
cases.add("a feed cannot be opened, the other goes on", feed_missing)
cases.add("ffmpeg is killed, the other feed goes on", ffmpeg_killed)
cases.add("a clip comes as it was recorded", as_recorded)
cases.add("a live feed: the newest frames; it stalls, the other goes on", live_feed)
cases.add("a limit below the model", too_little)
cases.add("a damaged tensor", damaged)
cases.add("the arena, seen from outside", arena)
cases.add("loads take no memory beside the limit", loads_take_no_more)
cases.add("small tensors are read in one piece", small_tensors)
cases.add("a run expects what was planned", as_planned)
cases.add("a plan made in haste is followed by a better one", planned_anew)
cases.add("the grid", grid)
cases.add("the grid's accuracy", grid_accuracy)
cases.add("one file spelt in two ways", spellings)
cases.add("large published models in virtual time", large_models)
cases.add("bad input", bad_input)
cases.run()
