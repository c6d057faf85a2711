#!/usr/bin/env python3
"""`culm edge run`: rounds, queries and feeds come and go."""
import hashlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

from edge_harness import (Camera, begin, check_done, end, events_of, fresh, make_model, make_pictures, publish,
                          run_until_answered, same_as_predict, shared, tell, told, two_models, until, workload, write_mixed)
from harness import Cases, Skipped, check, equal, read_events, wait_until

cases = Cases(kind="waits", job="edge")


def new_round(bench):
    """A round that comes in mid-run is taken up whole; one that is damaged is not."""
    a, b = two_models(bench)
    publish(bench.path("package"), 0, shared(a, b, set()))
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%")
    process = bench.start("edge", "run", path, "--package", bench.path("package"), "--out", bench.path("out"))
    out = bench.path("out")
    wait_until(lambda: told(out, "frame"), 120, "a first frame")
    publish(bench.path("package"), 1, shared(a, b, {"conv1.weight", "conv2.weight"}))
    wait_until(lambda: told(out, "round", round=1), 120, "the new round")
    with open(bench.path("package", "rounds", "2.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    with open(bench.path("package", "current.tmp"), "w", encoding="utf-8") as file:
        file.write(f"2 {hashlib.sha256(b'[]').hexdigest()}\n")
    os.replace(bench.path("package", "current.tmp"), bench.path("package", "current"))
    wait_until(lambda: told(out, "round", kept=1), 120, "a word on the damaged round")
    with open(bench.path("package", "current"), "w", encoding="utf-8") as file:
        file.write("garbage\n")
    wait_until(lambda: any("not a round and a digest" in event.get("error", "") for event in events_of(out)), 120, "a word on what says which round is current")
    last = max(event["t_ms"] for event in events_of(out) if event["event"] == "round" and "kept" in event)
    wait_until(lambda: any(event["event"] == "frame" and event["t_ms"] > last + 6000 for event in events_of(out)), 120, "another look at it")
    said = [event["error"] for event in events_of(out) if event["event"] == "round" and "kept" in event]
    equal(len(said), len(set(said)), f"what is wrong is said once: {said}")
    os.kill(process.pid, signal.SIGTERM)
    check_done(bench.end(process), bench.path("out"))


def made_anew(bench):
    """A package that is removed and made anew under the number that it had: noticed, and taken up."""
    a, b = two_models(bench)
    package, names = bench.path("package"), {"conv1.weight", "conv2.weight"}
    publish(package, 1, shared(a, b, set()))
    write_mixed(bench, "mixed", a, b, names)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%, drift: {every_s: 0}")
    process = begin(bench, path, "--package", package)
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))
    shutil.rmtree(package)
    mark = len(read_events(os.path.join(process.out, "one.jsonl")))
    until(process, "lines while it is not there", lambda: len(read_events(os.path.join(process.out, "one.jsonl"))) > mark + 3)
    until(process, "a word on that", lambda: told(process.out, "round", kept=1))
    publish(package, 1, shared(a, b, names))
    until(process, "the round that has the number again", lambda: told(process.out, "round", round=1))
    alone = bench.run("predict", "mixed.cfg", bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
    wanted = [json.loads(line)["boxes"] for line in alone.out.splitlines()]

    def anew():
        last = fresh(process.out, "two")[-1]
        return last["boxes"] == wanted[last.get("source", last["frame"])]
    until(process, "answers of the package that was made anew", anew)
    mark = len(fresh(process.out, "one"))
    until(process, "answers of the other query", lambda: len(fresh(process.out, "one")) > mark + 3)
    end(bench, process)
    equal(len([event for event in events_of(process.out) if event["event"] == "round" and "round" in event]), 1, "rounds that were taken up")
    same_as_predict(bench, process.out, "one", "a")


def left_out(bench):
    """A query that rounds leave out runs on its own weights, on those of the package when it is there again, and so on."""
    a, b = two_models(bench)
    names = {"conv1.weight", "conv2.weight"}
    write_mixed(bench, "mixed", a, b, names)
    whole = shared(a, b, names)
    publish(bench.path("package"), 1, {"one": whole["one"]})
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%, drift: {every_s: 0}")
    process = begin(bench, path, "--package", bench.path("package"))

    def runs_on(model):
        alone = bench.run("predict", model + ".cfg", bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
        wanted = [json.loads(line)["boxes"] for line in alone.out.splitlines()]

        def answers():
            last = (fresh(process.out, "two") or [None])[-1]
            return last and last["boxes"] == wanted[last.get("source", last["frame"])]
        until(process, f"answers of {model}", answers)
    runs_on("b")
    for number, model in (2, "mixed"), (3, "b"), (4, "mixed"):
        publish(bench.path("package"), number, whole if model == "mixed" else {"one": whole["one"]})
        until(process, f"round {number}", lambda number=number: told(process.out, "round", round=number))
        runs_on(model)
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")


def many_rounds(bench):
    """Small tensors of earlier rounds do not pile up in the file that has no name."""
    a, b = two_models(bench)

    def publish_other(number):
        """Every small tensor of `two` is another one."""
        other = {name: (shape, data if len(data) >= 16384 else struct.pack("<f", number / 7) + data[4:]) for name, (shape, data) in b.items()}
        publish(bench.path("package"), number, {"one": shared(a, b, set())["one"], "two": ("b.cfg", {name: (other[name], b[name]) for name in b})})
    publish_other(1)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="originals: never, memory: 50%, drift: {every_s: 0}")
    process = begin(bench, path, "--package", bench.path("package"))

    def size():
        folder = f"/proc/{process.pid}/fd"
        nameless = [name for name in os.listdir(folder) if "(deleted)" in os.readlink(os.path.join(folder, name))
                    and os.readlink(os.path.join(folder, name)).startswith(process.out)]
        return sum(os.stat(os.path.join(folder, name)).st_size for name in nameless)
    until(process, "answers", lambda: fresh(process.out, "two"))
    first = size()
    check(first > 0, "there is no such file")
    for number in range(2, 12):
        publish_other(number)
        until(process, f"round {number}", lambda number=number: told(process.out, "round", round=number))
        mark = len(fresh(process.out, "two"))
        until(process, "answers after it", lambda mark=mark: len(fresh(process.out, "two")) > mark + 2)
    last = size()
    end(bench, process)
    bench.note(f"{first} bytes at first, {last} after ten more rounds")
    check(last <= 3 * first, f"{first} bytes at first, {last} after ten more rounds")


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


def reload(bench):
    """On SIGHUP queries and feeds come and go; a workload that is wrong changes nothing."""
    two_models(bench)
    make_pictures(bench.path("others"), 5, seed=9)
    path, out = workload(bench, [("one", "a")]), bench.path("out")
    process = bench.start("edge", "run", path, "--out", out)
    wait_until(lambda: told(out, "frame", query="one"), 120, "a frame")
    workload(bench, [("one", "a"), ("two", "b")])
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: told(out, "workload", queries=["one", "two"]), 120, "the new query")
    wait_until(lambda: any(event["event"] == "frame" and event["query"] == "two" and "done_ms" in event
                           for event in events_of(out)), 120, "its answer")
    with open(path, "w", encoding="utf-8") as file:
        file.write("queries: [{name: x}]\n")
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: any("error" in event for event in events_of(out) if event["event"] == "workload"),
               120, "a word on the wrong one")
    workload(bench, [("two", "b")], feed="others")
    os.kill(process.pid, signal.SIGHUP)
    wait_until(lambda: told(out, "workload", queries=["two"]), 120, "another feed")
    before = len(read_events(os.path.join(out, "two.jsonl")))
    wait_until(lambda: any("others" in line["file"] and not line.get("stale")
                           for line in read_events(os.path.join(out, "two.jsonl"))[before:]), 120, "answers on the other feed")
    gone = len(read_events(os.path.join(out, "one.jsonl")))
    os.kill(process.pid, signal.SIGTERM)
    ended = bench.end(process)
    equal(ended.code, 0, "exit code")
    equal(len(read_events(os.path.join(out, "one.jsonl"))), gone, "answers of a query that has gone")
    came = [event for event in events_of(out) if event["event"] == "query"]
    equal([event["query"] for event in came], ["one", "two", "two"], "queries that were told of; one on another feed is another one")
    check(all(event["bytes"] > 0 for event in came), f"{came}")


def with_clip(bench, when):
    """A clip of 6 frames, and an ffmpeg that first does what is said; returns the environment, what makes a clip of so many frames, and what
    writes a workload with so many labels for it, or without it."""
    real = shutil.which("ffmpeg")
    if not real:
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    bench.config({"model": {"arch": "resnet", "blocks": [1], "width": 4, "small_stem": True, "image": 24, "channels": 3, "classes": 4},
                  "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": 1}, "c.yaml")

    def make(count):
        made = subprocess.run([real, "-y", "-loglevel", "error", "-framerate", "10", "-i", bench.path("pictures", "%04d.png"), "-c:v", "ffv1",
                               "-frames:v", str(count), bench.path("made.mkv")], capture_output=True, text=True, check=False)
        equal(made.returncode, 0, f"ffmpeg: {made.stderr}")
        os.replace(bench.path("made.mkv"), bench.path("clip.mkv"))
    make(6)
    os.mkdir(bench.path("bin"))
    with open(bench.path("bin", "ffmpeg"), "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\n{when}\nexec {real} "$@"\n')
    os.chmod(bench.path("bin", "ffmpeg"), 0o755)

    def write(count, **how):
        path = workload(bench, [("one", "a")], **how)
        if count is not None:
            with open(bench.path("labels"), "wb") as file:
                file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count) + bytes(count))
            with open(path, encoding="utf-8") as file:
                text = file.read().replace("queries:\n", f"  clip: {{file: {bench.path('clip.mkv')}, fps: 10, loop: true}}\nqueries:\n"
                                           f"  - {{name: two, model: {bench.path('c.yaml')}, feed: clip, labels: {bench.path('labels')}}}\n")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path
    return {**os.environ, "PATH": bench.path("bin") + ":" + os.environ["PATH"]}, make, write


def begin_with(bench, path, env):
    process = bench.start("edge", "run", path, "--out", bench.path("out"), env=env)
    process.out = bench.path("out")
    return process


def mark_file(path):
    with open(path, "w", encoding="utf-8"):
        pass


def wait_text(bench):
    """An ffmpeg that waits until it may."""
    return f'while [ -e {bench.path("wait")} ]; do sleep 0.05; done'


def other_limit(bench):
    """What stands under `edge` is as the run began with: another limit in the text changes nothing, and that is said, each time."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: all")
    process = begin(bench, path)
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))

    def warnings():
        return [event["message"] for event in events_of(process.out) if event["event"] == "warning" and "'edge'" in event["message"]]
    tell(process)
    workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    for count in 1, 2:
        check("error" not in tell(process), "it was refused")
        until(process, "a word on the limit", lambda count=count: len(warnings()) == count)
    workload(bench, [("one", "a"), ("two", "b")], edge="memory: all")
    tell(process)
    events, done = end(bench, process)
    equal(len(warnings()), 2, "words on the limit")
    equal(done["limit_bytes"], next(event for event in events if event["event"] == "start")["limit_bytes"], "the limit")


def labels_counted(bench):
    """Labels that come on SIGHUP: the frames of a clip are counted beside the run, which goes on meanwhile; labels of another number are refused."""
    env, _, write = with_clip(bench, wait_text(bench))
    process = begin_with(bench, write(None), env)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    mark_file(bench.path("wait"))
    write(7)
    os.kill(process.pid, signal.SIGHUP)
    mark = len(fresh(process.out, "one"))
    until(process, "answers while frames are counted", lambda: len(fresh(process.out, "one")) > mark + 10)
    check(not told(process.out, "workload"), "the text was taken up, or refused, before the frames had been counted")
    os.remove(bench.path("wait"))
    until(process, "a word on the workload", lambda: told(process.out, "workload"))
    said = [event for event in events_of(process.out) if event["event"] == "workload"]
    check(said[0]["queries"] == ["one"] and "has 7 labels, but the feed has 6 frames" in said[0].get("error", ""), f"{said}")
    write(6)
    said = tell(process)
    equal((sorted(said["queries"]), said.get("error")), (["one", "two"], None), "what was taken up")
    until(process, "answers of the new query", lambda: len(fresh(process.out, "two")) > 3)
    mark_file(bench.path("wait"))
    shutil.copy(bench.path("clip.mkv"), bench.path("other.mkv"))
    write(6)
    with open(bench.path("w.yaml"), encoding="utf-8") as file:
        text = file.read().replace("clip.mkv", "other.mkv")
    with open(bench.path("w.yaml"), "w", encoding="utf-8") as file:
        file.write(text)
    os.kill(process.pid, signal.SIGHUP)  # it ends all the same while frames are being counted
    mark = len(fresh(process.out, "one"))
    until(process, "answers", lambda: len(fresh(process.out, "one")) > mark + 3)
    os.kill(process.pid, signal.SIGTERM)
    _, done = check_done(bench.end(process), process.out)  # in which that ffmpeg waits until it is killed
    os.remove(bench.path("wait"))
    accuracy = {query["query"]: query["accuracy"] for query in done["queries"]}
    check(accuracy["two"] is not None and accuracy["one"] is None, f"accuracies {accuracy}")


def labels_of_boxes(bench):
    """Labels of boxes that come on SIGHUP are read beside the run, not on the thread that all frames wait for; wrong ones are refused, and the others go on."""
    two_models(bench)
    path, labels = workload(bench, [("one", "a")]), bench.path("labels.jsonl")
    process = begin(bench, path)
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 3)
    workload(bench, [("one", "a"), ("two", "b")])
    with open(path, encoding="utf-8") as file:
        text = file.read()
    line = next(line for line in text.splitlines() if "name: two" in line)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(line, line.replace("name: two", f"name: two, labels: {labels}")))

    def read_by_threads():
        """{thread: bytes}; the one that reads labels is there only meanwhile."""
        read = {}
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            try:
                with open(f"/proc/{process.pid}/task/{thread}/io", encoding="utf-8") as file:
                    read[thread] = int(file.readline().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
        return read

    def loaded():
        """Bytes of tensors, of which a thread that stays reads the more, the longer the labels take."""
        return sum(event["bytes"] for event in events_of(process.out) if event["event"] == "load")

    def write(count):
        with open(labels, "w", encoding="utf-8") as file:
            for number in range(count):
                file.write(f'{said[number]}{" " * (4 << 20)}\n')
        return os.path.getsize(labels)
    said = bench.run("predict", "b.cfg", bench.path("pictures"), "--score", "0.05", "--json").out.splitlines()
    for count, error in (5, "query 'two': feed 'hall': labels"), (6, None), (4, None):
        size, before, loads, mark = write(count), read_by_threads(), loaded(), len(fresh(process.out, "one"))
        told_now = tell(process)
        after = read_by_threads()
        took = sum(after[thread] - before[thread] for thread in before.keys() & after.keys()) - (loaded() - loads)
        check(before and took < size / 2, f"the loop and other threads that stay read {took} bytes, with {count} lines of labels of {size} bytes")
        check((error or "") in told_now.get("error", "") and bool(error) == ("error" in told_now), f"{count} lines: {told_now}")
        equal(sorted(told_now["queries"]), ["one"] if error else ["one", "two"], f"queries with {count} lines")
        until(process, "answers after it", lambda mark=mark: len(fresh(process.out, "one")) > mark + 3)
    until(process, "answers of the new query", lambda: len(fresh(process.out, "two")) > 3)  # whose labels nobody reads again
    _, done = end(bench, process)
    accuracy = {query["query"]: query["accuracy"] for query in done["queries"]}
    check(accuracy["two"] is not None and accuracy["one"] is None, f"accuracies {accuracy}")


def stopped_at_once(bench):
    """SIGTERM while the frames of a clip that has no end are counted, before the run begins."""
    env, _, write = with_clip(bench, f'touch {bench.path("counts")}; while printf "P6\\n2 1\\n255\\nabcdef"; do sleep 0.2; done; exit')
    process = begin_with(bench, write(6), env)
    until(process, "a begin", lambda: os.path.exists(bench.path("counts")))
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")


def counted_again(bench):
    """A clip that fails in mid-run is repaired, with another number of frames: these are what labels are compared with."""
    env, make, write = with_clip(bench, "")
    process = begin_with(bench, write(6), env)
    until(process, "answers", lambda: fresh(process.out, "two"))
    with open(bench.path("other"), "w", encoding="utf-8") as file:
        file.write("no clip")
    os.replace(bench.path("other"), bench.path("clip.mkv"))
    until(process, "its end", lambda: told(process.out, "feed", feed="clip", ended=True))
    make(3)
    write(3)
    equal(tell(process).get("error"), None, "error")
    mark = len(fresh(process.out, "two"))
    until(process, "answers of the repaired one", lambda: len(fresh(process.out, "two")) > mark + 3)
    end(bench, process)


def too_late(bench):
    """The last feed ends while a new text is being read: that is told."""
    env, _, write = with_clip(bench, f'touch {bench.path("reads")}; {wait_text(bench)}')
    camera = Camera(bench.path("camera.y4m"))
    process = begin_with(bench, write(None, feed="camera.y4m", fps=10, loop=False, ends=True), env)
    until(process, "the first frame", lambda: read_events(os.path.join(process.out, "one.jsonl")))
    mark_file(bench.path("wait"))
    os.remove(bench.path("reads"))
    write(6, feed="camera.y4m", fps=10, loop=False, ends=True)
    os.kill(process.pid, signal.SIGHUP)
    until(process, "the text to be read", lambda: os.path.exists(bench.path("reads")))
    camera.ended.set()
    events, _ = check_done(bench.end(process), process.out)
    os.remove(bench.path("wait"))
    said = [event for event in events if event["event"] == "workload"]
    check(len(said) == 1 and "ended before" in said[0].get("error", ""), f"{said}")
    equal(events[-1]["event"], "done", "the last event")


def too_many(bench):
    """Queries have numbers until the run ends, of which there are 64: what would be another one is refused, and the others go on."""
    two_models(bench)
    path = workload(bench, [("one", "a")])
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    for turn in range(8):
        names = [f"q{turn}-{number}" for number in range(9)]
        workload(bench, [("one", "a"), *((name, "b") for name in names)])
        said = tell(process)
        if turn < 7:
            equal((sorted(said["queries"]), said.get("error")), (sorted(["one", *names]), None), "what was taken up")
    check("more than 64 queries" in said.get("error", ""), f"{said}")
    mark = len(fresh(process.out, "one"))
    until(process, "answers after it", lambda: len(fresh(process.out, "one")) > mark + 3)
    end(bench, process)


def grown(bench):
    """A query that takes more memory than all before it; one that does not fit into the limit is refused, and the others go on."""
    two_models(bench)
    make_model(bench.path("large"), 3, side=320)
    make_model(bench.path("huge"), 4, side=2304)
    path = workload(bench, [("one", "a")], edge="memory: 60")
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    workload(bench, [("one", "a"), ("two", "large")], edge="memory: 60")
    equal(tell(process).get("error"), None, "error")
    until(process, "answers of the larger one", lambda: len(fresh(process.out, "two")) >= 3)
    workload(bench, [("one", "a"), ("two", "large"), ("three", "huge")], edge="memory: 60")
    said = tell(process).get("error", "")
    check("'three'" in said and "MB" in said, f"it was not refused: {said}")
    mark = {query: len(fresh(process.out, query)) for query in ("one", "two")}
    until(process, "more answers", lambda: all(len(fresh(process.out, query)) > mark[query] + 5 for query in mark))
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "large")
    check(not os.path.exists(os.path.join(process.out, "three.jsonl")), "a refused query has left a file")


def classes_count(bench):
    """Boxes of the classes that count alone are told, as those that the model finds of them; by name or number, and of others upon SIGHUP."""
    two_models(bench)
    with open(bench.path("names"), "w", encoding="utf-8") as file:
        file.write("cat\ndog\n")
    path = workload(bench, [("one", "a")])

    def count(classes):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r", names: .*}", "}", file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("score: 0.05}", f"score: 0.05, names: {bench.path('names')}, classes: {classes}}}"))
    ended = bench.run("predict", bench.path("a.cfg"), bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1", "--names", bench.path("names"))
    wanted = [json.loads(line)["boxes"] for line in ended.out.splitlines()]
    check(all(any(box["class"] == number for boxes in wanted for box in boxes) for number in (0, 1)), "not both classes are there")
    count("[bird]")
    ended = bench.run("edge", "run", path, "--out", bench.path("refused"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "has no class 'bird'" in ended.err and "'cat'" in ended.err, f"{ended.code}: {ended.err}")
    count("[dog]")
    process = begin(bench, path)
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 10)
    count("[0]")
    equal(tell(process).get("error"), None, "error")
    mark = len(fresh(process.out, "one"))
    until(process, "answers of the other class", lambda: len(fresh(process.out, "one")) > mark + 20)
    end(bench, process)
    lines = fresh(process.out, "one")
    for place, part in ((1, lines[:10]), (0, lines[-10:])):
        for line in part:
            equal(line["boxes"], [box for box in wanted[line.get("source", line["frame"])] if box["class"] == place], f"frame {line['frame']}")


def own_name(bench):
    """A run keeps its workload in its folder under a name that the user's own file there may have: that is refused, and the file stays as it is."""
    two_models(bench)
    path = workload(bench, [("one", "a")], name="workload.yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    ended = bench.run("edge", "run", path, "--out", bench.path(), "--for", "1")
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "is the workload itself" in ended.err, f"{ended.code}: {ended.err}")
    with open(path, encoding="utf-8") as file:
        equal(file.read(), text, "the user's file")


def refused(bench):
    """A refused text changes nothing at all, however often; then a good one is taken up."""
    two_models(bench)
    make_model(bench.path("large"), 3, side=320)
    path = workload(bench, [("one", "a")])
    process = begin(bench, path)
    until(process, "an answer", lambda: fresh(process.out, "one"))
    os.mkdir(os.path.join(process.out, "two.jsonl"))
    workload(bench, [("one", "a"), ("two", "b")])
    said = tell(process)
    check("two.jsonl" in said.get("error", "") and said["queries"] == ["one"], f"a folder in the place of answers: {said}")
    os.rmdir(os.path.join(process.out, "two.jsonl"))
    for turn in range(18):
        if turn % 6 == 5:
            workload(bench, [("one", "a")], crop=[0, 0, 9000, 9000])
        elif turn % 6:
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


def retrained(bench):
    """A model whose file has other numbers than the package was made of runs from its file, with a warning: at the start, and when SIGHUP finds it so.
    A plan of it is refused."""
    a, b = two_models(bench)
    path, package = workload(bench, [("one", "a"), ("two", "b")]), bench.path("package")
    publish(package, 1, shared(a, b, {"conv1.weight", "conv2.weight"}))
    make_model(bench.path("a"), 7)  # in place of what was merged
    ended = bench.run("edge", "plan", path, "--package", package)
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "query 'one': the weights of" in ended.err, f"a plan: {ended.code}: {ended.err}")

    def warned(name):
        return [event for event in events_of(process.out) if event["event"] == "warning" and f"query '{name}': the weights of" in event["message"]]
    process = begin(bench, path, "--package", package, "--set", "edge.originals=never")
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 3 and len(fresh(process.out, "two")) > 3)
    check(warned("one") and not warned("two"), "a word on the first, and none on the second")
    same_as_predict(bench, process.out, "one", bench.path("a"))
    write_mixed(bench, "mixed", a, b, {"conv1.weight", "conv2.weight"})
    same_as_predict(bench, process.out, "two", bench.path("mixed"))
    make_model(bench.path("b"), 8)
    said = tell(process, "workload")
    check("error" not in said, f"SIGHUP: {said}")
    until(process, "a word on the second", lambda: warned("two"))
    before = len(fresh(process.out, "two"))
    until(process, "answers of the new weights", lambda: len(fresh(process.out, "two")) > before + 8)
    end(bench, process)
    ended = bench.run("predict", bench.path("b.cfg"), bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1")
    wanted = [json.loads(line)["boxes"] for line in ended.out.splitlines()]
    line = fresh(process.out, "two")[-1]
    equal(line["boxes"], wanted[line.get("source", line["frame"])], "the last answer, by the new weights")


def unmeasured(bench):
    """A round that merging has not measured on unseen frames is not used, and a warning says so, until one is; with edge.rounds: all it is."""
    a, b = two_models(bench)
    names = {"conv1.weight", "conv2.weight"}
    write_mixed(bench, "mixed", a, b, names)
    path, package = workload(bench, [("one", "a"), ("two", "b")]), bench.path("package")
    publish(package, 1, shared(a, b, names), measured=False)
    words = [path, "--package", package, "--set", "edge.originals=never"]
    plain, merged = (json.loads(bench.run("edge", "plan", *words, "--json", *more).out)["distinct_bytes"] for more in ([], ["--set", "edge.rounds=all"]))
    check(plain > merged, f"a plan counts a round that is not used: {plain} and {merged} bytes")
    run_until_answered(bench, *words, "--set", "edge.rounds=all", count=8, out="all")
    same_as_predict(bench, bench.path("all"), "two", bench.path("mixed"))
    process = begin(bench, *words)
    until(process, "answers", lambda: len(fresh(process.out, "two")) > 8)
    same_as_predict(bench, process.out, "two", bench.path("b"))
    said = [event["message"] for event in events_of(process.out) if event["event"] == "warning" and "is not measured yet" in event["message"]]
    check(len(said) == 1 and "round 1" in said[0], f"{said}")
    before = len(fresh(process.out, "two"))
    publish(package, 2, shared(a, b, names))
    until(process, "the round that is measured", lambda: told(process.out, "round", round=2))
    until(process, "answers", lambda: len(fresh(process.out, "two")) > before + 16)
    end(bench, process)
    wanted = [json.loads(line)["boxes"]
              for line in bench.run("predict", bench.path("mixed.cfg"), bench.path("pictures"), "--score", "0.05", "--json", "--threads", "1").out.splitlines()]
    line = fresh(process.out, "two")[-1]
    equal(line["boxes"], wanted[line.get("source", line["frame"])], "the last answer, by the merged weights")


cases.add("a new round is taken up in mid-run, a damaged one is not", new_round, seconds=12, first=True)
cases.add("a model is trained anew under its name", retrained, first=True)
cases.add("a round that nobody has measured", unmeasured, first=True)
cases.add("a package is made anew under the same number", made_anew, first=True)
cases.add("a query that rounds leave out, and have again", left_out)
cases.add("small tensors of many rounds", many_rounds)
cases.add("killed while a round is delivered: the old one or the new", killed_in_delivery, first=True)
cases.add("queries and feeds come and go on SIGHUP", reload, first=True)
def feed_goes_on(bench):
    """A clip that fails, and one of which the text says something else, begins again on SIGHUP, more often than there are numbers of feeds and queries: its
    query goes on, and frames' numbers do. The other feed knows nothing of it."""
    two_models(bench)
    os.makedirs(bench.path("bin"))
    with open(bench.path("bin", "ffmpeg"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nfor i in 1 2; do printf 'P6\\n2 1\\n255\\nabcdef'; done\n[ $0.go -nt $0 ] && while printf 'P6\\n2 1\\n255\\nabcdef'; do :; done\nexit 1\n")
    os.chmod(bench.path("bin", "ffmpeg"), 0o755)
    with open(bench.path("clip.mp4"), "wb") as file:
        file.write(b"clip")
    path = workload(bench, [("one", "a")])

    def write(fps):
        with open(path, encoding="utf-8") as file:
            text = re.sub("  clip:.*\n|  - {name: two.*\n", "", file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("queries:\n", f"  clip: {{file: {bench.path('clip.mp4')}, fps: {fps}}}\nqueries:\n"
                                    f"  - {{name: two, model: {bench.path('b')}.cfg, feed: clip, deadline_ms: 400}}\n"))
    write(50)
    process = begin(bench, path, env=os.environ | {"PATH": bench.path("bin") + ":" + os.environ["PATH"]})

    def ends():
        return len([event for event in events_of(process.out) if event["event"] == "feed" and event.get("feed") == "clip" and "ended" in event])
    for times in range(1, 68):
        until(process, "the end of the clip", lambda times=times: ends() == times)
        if times == 66:
            write(40)
        if times == 67:
            with open(bench.path("bin", "ffmpeg.go"), "w", encoding="utf-8"):
                os.utime(bench.path("bin", "ffmpeg.go"), (time.time() + 60, time.time() + 60))
        said = tell(process)
        check("error" not in said and sorted(said["queries"]) == ["one", "two"], f"{times}: {said}")

    def answered():
        return len(fresh(process.out, "two"))
    until(process, "answers of a clip that goes on", lambda: answered() > 10)
    write(20)  # in the middle of it
    check("error" not in tell(process), "refused")
    mark = answered()
    until(process, "answers, the last of them at the new rate", lambda: answered() > mark + 15)
    events, done = end(bench, process)
    equal(ends(), 67, "ends that were told of")
    numbers = [line["frame"] for line in fresh(process.out, "two")]
    check(len(set(numbers)) == len(numbers) and len(numbers) > 60, f"frames {numbers}")
    last = sorted((event["frame"], event["due_ms"]) for event in events if event["event"] == "frame" and event["query"] == "two")[-4:]
    check(all(abs(after[1] - before[1] - 50) < 0.1 for before, after in zip(last, last[1:])), f"twenty a second: {last}")
    equal(sorted(query["query"] for query in done["queries"]), ["one", "two"], "queries")


cases.add("a feed fails 67 times, and SIGHUP begins it again", feed_goes_on, seconds=10)
cases.add("another limit on SIGHUP is told of", other_limit, first=True)
cases.add("labels that come on SIGHUP are counted", labels_counted, first=True)
cases.add("labels of boxes that come on SIGHUP are read beside the run", labels_of_boxes)
cases.add("SIGTERM while frames are counted", stopped_at_once)
cases.add("a clip that was repaired is counted again", counted_again)
cases.add("SIGHUP, and the last feed ends", too_late)
cases.add("more queries than there are numbers", too_many)
cases.add("a query that takes more than all before it, on SIGHUP", grown)
cases.add("a refused text changes nothing, however often", refused, first=True)
cases.add("a refused round leaves promises as they were", promise_kept)
cases.add("classes that count, and others upon SIGHUP", classes_count)
cases.add("a workload of the name that a run's own has", own_name)
cases.add("SIGHUP while another text is still to count", reload_again)
if __name__ == "__main__":
    cases.run()
