"""Models, pictures, packages and runs for tests of `culm edge`."""
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import threading
import time
import zlib

from harness import Failed, check, equal, read_events, wait_until

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


def make_pictures(folder, count, seed=3, blue=True, sizes=((96, 80),)):
    """PNG files of noise, of these sizes in turns; without blue if it is so said."""
    os.makedirs(folder)
    draw = random.Random(seed)
    for number in range(count):
        width, height = sizes[number % len(sizes)]
        rows = [bytearray(draw.randbytes(width * 3)) for _ in range(height)]
        for row in rows if not blue else []:
            row[2::3] = bytes(width)
        rows = b"".join(b"\0" + bytes(row) for row in rows)

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        with open(os.path.join(folder, f"{number:04}.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                       + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Camera:
    """Frames of 96 x 80 into a fifo, fifty a second, whoever reads them or not; `held` keeps them back."""

    def __init__(self, path):
        self.path, self.written, self.held, self.ended = path, 0, threading.Event(), threading.Event()
        self.at = []  # when each was written
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
                        self.at.append(time.monotonic())
                        file.write(frames[self.written % 7])
                        self.written += 1
        except BrokenPipeError:
            pass


def workload(bench, queries, name="w.yaml", feed="pictures", fps=10, loop=True, edge="", score=0.05, crop=(), ends=False):
    path = bench.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"feeds:\n  hall: {{file: {bench.path(feed)}, fps: {fps}, loop: {str(loop).lower()}, ends: {str(ends).lower()}, crop: {list(crop)}}}\nqueries:\n")
        for query, model in queries:
            file.write(f"  - {{name: {query}, model: {bench.path(model)}.cfg, feed: hall, deadline_ms: 400, score: {score}}}\n")
        file.write(f"edge: {{batch: [1, 2], {edge}}}\n" if edge else "edge: {batch: [1, 2]}\n")
    return path


def digest_of(shape, data):
    return hashlib.sha256(f"f32 [{', '.join(map(str, shape))}]\n".encode() + data).hexdigest()


def publish(folder, number, queries, agreement=None, samples=None, measured=True):
    """A round of a package, {query: {parameter: ((shape, data), (shape, data) of the original)}}; {query: share of the original's answers};
    {query: what differed on held-out frames}."""
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
            if name.endswith(".weight") or name in ("conv3.bias", "conv4.bias"):
                told[name]["layer"] = number_of
                layers[digest_of(*now)] = len(now[1])
                total += len(now[1])
        texts.append({"query": query, "model": model, "identity": hashlib.sha256(query.encode()).hexdigest(), "target": 0.5,
                      "original": 1.0, "merged": 0.9 if measured else -1.0, "parameters": told})
        if agreement and query in agreement:  # on labels it does as well as it must
            texts[-1].update(original=0.8, merged=0.76, agreement=agreement[query])
        if samples and query in samples:
            texts[-1]["samples"] = samples[query]
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


def fresh(out, query):
    return [line for line in read_events(os.path.join(out, query + ".jsonl")) if not line.get("stale")]


def events_of(out):
    return read_events(os.path.join(out, "events.jsonl"))


def begin(bench, *words, out="out", env=None):
    """A run, which `until` waits for and `end` ends."""
    process = bench.start("edge", "run", *words, "--out", bench.path(out), env=env)
    process.out = bench.path(out)
    return process


def until(process, what, condition):
    wait_until(lambda: condition() or process.poll() is not None, 300, what)
    check(process.poll() is None, f"it ended with code {process.poll()} before: {what}")


def end(bench, process, room=True):
    os.kill(process.pid, signal.SIGTERM)
    return check_done(bench.end(process), process.out, room)


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


def run_until_shared(bench, *words, enough, count=12, out="out"):
    """A run in which frames were shared, by query: enough(frames that were shared, frames that were answered) says whether these are enough, which are
    shares of them, whatever the length. Only the end of a run tells of them, and where other processes take the time in which one model could go on
    from another's frame, there are few: it is run again, for longer."""
    for longer in 1, 4, 16, 64:
        events, done = run_until_answered(bench, *words, count=longer * count, out=out)
        shared_frames, answered = ({query["query"]: query[key] for query in done["queries"]} for key in ("shared", "processed"))
        if enough(shared_frames, answered):
            return events, done
        shutil.rmtree(bench.path(out))
    raise Failed(f"too few frames were shared: {shared_frames} of {answered}")


def check_done(run, out, room=True):
    """room: whether there was room for all of its lines."""
    events = read_events(os.path.join(out, "events.jsonl"))
    done = [event for event in events if event["event"] == "done"]
    equal(len(done), 1, "events 'done'")
    check(done[0]["resident_max_bytes"] <= done[0]["limit_bytes"], f"above the limit: {done[0]}")
    check("profile.json" in os.listdir(out), "no profile")
    for query in done[0]["queries"]:
        equal(query["frames"], query["processed"] + query["dropped"], "frames")
        equal(len(read_events(os.path.join(out, query["query"] + ".jsonl"))) + query["answers_lost"], query["frames"], "answers")
        equal(query["answers_lost"] > 0, not room, "whether answers were lost")
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


def write_mixed(bench, name, first, other, names):
    """A model that is `other` but for the parameters `names`, which are those of `first`."""
    with open(bench.path(name + ".weights"), "wb") as file:
        file.write(struct.pack("<iiiq", 0, 2, 0, 0) + b"".join((first if part in names else other)[part][1] for part in other))
    with open(bench.path(name + ".cfg"), "w", encoding="utf-8") as file:
        file.write(CFG.format(wide=64, side=64))


def told(out, kind, **members):
    """Whether there is such an event by now."""
    return any(event["event"] == kind and members.items() <= event.items() for event in events_of(out))


def tell(process, kind="workload"):
    """Sends SIGHUP and waits for what is said to it."""
    def said():
        return [event for event in events_of(process.out) if event["event"] == kind]
    before = len(said())
    os.kill(process.pid, signal.SIGHUP)
    until(process, "a word on the workload", lambda: len(said()) > before)
    return said()[before]


def write_weights(path, params):
    with open(path, "wb") as file:
        file.write(b"".join([struct.pack("<iiiq", 0, 2, 0, 0)] + [data for _, data in params.values()]))


if not hasattr(random.Random, "randbytes"):
    raise Failed("Python 3.9 or later is needed")
