#!/usr/bin/env python3
"""`culm edge run`: feeds, files and processes that end, stall or fail."""
import datetime
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

from edge_harness import (Camera, begin, check_done, digest_of, end, events_of, fresh, publish, run_until_answered,
                          same_as_predict, shared, tell, told, two_models, until, workload)
from harness import Cases, Disk, Skipped, check, children_of, equal, needs_disk, read_events, wait_until

cases = Cases(kind="waits", job="edge")


def signals(bench):
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")])
    for number in (signal.SIGINT, signal.SIGTERM):
        out = bench.path(f"signal-{int(number)}")
        process = bench.start("edge", "run", path, "--out", out)
        wait_until(lambda out=out: read_events(os.path.join(out, "one.jsonl")), 120, "an answer")
        os.kill(process.pid, number)
        check_done(bench.end(process), out)
    check_done(bench.run("edge", "run", path, "--for", "1", "--out", bench.path("for")), bench.path("for"))


def feed_ends(bench):
    two_models(bench)
    path = workload(bench, [("one", "a")], loop=False, ends=True, fps=2)
    events, done = check_done(bench.run("edge", "run", path, "--out", bench.path("out")), bench.path("out"))
    equal(done["queries"][0]["frames"], 6, "frames of a feed that ends")
    check(any(event["event"] == "feed" for event in events), "no word on its end")
    path = workload(bench, [("one", "a")], fps=20)  # which loops, but for a second only
    events, done = check_done(bench.run("edge", "run", path, "--set", "feeds.hall.for_s=1", "--out", bench.path("for")), bench.path("for"))
    check(10 <= done["queries"][0]["frames"] <= 21, f"frames of a feed that lasts for a second: {done['queries']}")
    check(any(event["event"] == "feed" and event.get("ended") for event in events), "no word on its end")
    events, done = check_done(bench.run("edge", "run", workload(bench, [("one", "a")], loop=False, ends=True, fps=2), "--set", "feeds.hall.from=1", "--set",
                                        "feeds.hall.every=2", "--out", bench.path("part")), bench.path("part"))
    equal(done["queries"][0]["frames"], 2, "frames of a part")
    alone = {line["frame"]: line["boxes"] for line in map(json.loads, bench.run("predict", bench.path("a") + ".cfg", bench.path("pictures"), "--score", "0.05", "--json",
                                                                                 "--threads", "1").out.splitlines())}
    equal({line["frame"]: line["boxes"] for line in fresh(bench.path("part"), "one")}, {0: alone[2], 1: alone[4]}, "answers to a part")


def every_frame(bench):
    """Frames come faster than they can be kept: each has one line for each query all the same, and counts."""
    two_models(bench)
    shutil.rmtree(bench.path("pictures"))
    with open(bench.path("pictures"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 600, 28, 28) + random.Random(6).randbytes(600 * 28 * 28))
    path = workload(bench, [("one", "a"), ("two", "b")], loop=False, fps=1000, edge="memory: min")
    _, done = check_done(bench.run("edge", "run", path, "--out", bench.path("out")), bench.path("out"))
    for query in done["queries"]:
        told_of = read_events(bench.path("out", query["query"] + ".jsonl"))
        equal(sorted(line["frame"] for line in told_of), list(range(len(told_of))), f"frames of {query['query']}")
        sources = [line.get("source", line["frame"]) for line in told_of]  # null: one that came too late, where the machine is busy
        equal(sorted(source for source in sources if source is not None), list(range(600)), f"images of {query['query']}")
        equal(query["frames"], len(told_of), f"frames of {query['query']} that count")
        equal(query["processed"], sum(not line.get("stale") for line in told_of), f"frames of {query['query']} that were answered")
        check(query["dropped"] > 0, "nothing was dropped, so nothing is shown")


def damaged_pictures(bench):
    """A damaged picture is passed over in its turn; if all of them are damaged, one line says so."""
    two_models(bench)
    path = workload(bench, [("one", "a")], fps=20)
    names = sorted(os.listdir(bench.path("pictures")))
    os.truncate(bench.path("pictures", names[1]), 40)
    process = begin(bench, path)
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 2 * len(names))
    end(bench, process)
    check(told(process.out, "feed"), "no word on the damaged picture")
    check(not any(line["file"].endswith(names[1]) for line in fresh(process.out, "one")), "an answer for the damaged picture")
    for name in names:
        os.truncate(bench.path("pictures", name), 40)
    for loop in True, False:
        ended = bench.run("edge", "run", workload(bench, [("one", "a")], fps=20, loop=loop, ends=True), "--out", bench.path(f"damaged-{loop}"))
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "none of its pictures can be read" in ended.err, f"{ended.code}: {ended.err}")


def folder_grows(bench):
    """A folder that does not loop goes on with what comes into it, in the order of time, and passes over what was removed; it may be empty at first. Nothing is
    missed while nothing comes. With `ends: true` it ends."""
    two_models(bench)
    shutil.move(bench.path("pictures"), bench.path("made"))
    os.makedirs(bench.path("pictures"))
    process = begin(bench, workload(bench, [("one", "a")], fps=5, loop=False))
    names = ["0002.png", "0000.png", "0001.png"]
    for number, name in enumerate(names):
        shutil.copy(bench.path("made", name), bench.path("pictures", name))
        until(process, "an answer to a picture that has come", lambda number=number: len(fresh(process.out, "one")) == number + 1)
        os.remove(bench.path("pictures", name))
    for age, name in (30, "a.png"), (50, "b.png"), (40, "c.png"):
        shutil.copy(bench.path("made", "0003.png"), bench.path("made", name))
        os.utime(bench.path("made", name), (time.time() - age, time.time() - age))
    os.rename(bench.path("made"), bench.path("pictures", "more"))  # all at once
    until(process, "answers to all", lambda: len(fresh(process.out, "one")) == 3 + 9)
    events, done = end(bench, process)
    check(not any(event.get("why") == "the feed came too slowly" for event in events), "a picture was missed where none was due")
    check(not told(process.out, "feed"), "something was said of the feed")
    equal(done["queries"][0]["frames"], 12, "frames")
    equal([line["frame"] for line in fresh(process.out, "one")], list(range(12)), "frames")
    empty = bench.run("edge", "run", workload(bench, [("one", "a")], feed="empty", loop=False), "--for", "0.5", "--out", bench.path("none"))
    check(empty.code == 3, f"{empty.code}: {empty.err}")


def grey_feed(bench):
    """A model of colours on a feed of grey images answers as it does alone."""
    two_models(bench)
    shutil.rmtree(bench.path("pictures"))
    with open(bench.path("pictures"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 5, 28, 28) + random.Random(6).randbytes(5 * 28 * 28))
    run_until_answered(bench, workload(bench, [("one", "a")]), count=8)
    same_as_predict(bench, bench.path("out"), "one", "a")


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
                   for event in events_of(out))
    wait_until(lambda: told(out, "frame", query="two"), 120, "a frame of the clip")
    wait_until(failed, 120, "a word on ffmpeg's end")
    seen = len(read_events(os.path.join(out, "one.jsonl")))
    wait_until(lambda: len(read_events(os.path.join(out, "one.jsonl"))) > seen + 5, 120, "answers of the other query")
    os.kill(process.pid, signal.SIGTERM)
    check_done(bench.end(process), out)


def slow_decoder(bench):
    """A decoder that gives one frame in four of those that are due: each of the others counts as dropped, at its time, and that the feed is slow is told.
    Answers are to the frames that came, each by its number in the file."""
    two_models(bench)
    os.makedirs(bench.path("bin"))
    with open(bench.path("bin", "ffmpeg"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nwhile printf 'P6\\n2 1\\n255\\nabcdef'; do sleep 0.2; done\n")
    os.chmod(bench.path("bin", "ffmpeg"), 0o755)
    with open(bench.path("clip.mp4"), "wb") as file:
        file.write(b"clip")
    process = begin(bench, workload(bench, [("one", "a")], feed="clip.mp4", fps=20),
                    env=os.environ | {"PATH": bench.path("bin") + ":" + os.environ["PATH"]})
    until(process, "a word that it is slow", lambda: told(process.out, "feed", slow=True))
    events, done = end(bench, process)
    frames = {event["frame"]: event for event in events if event["event"] == "frame"}
    missed = [number for number, event in frames.items() if event.get("why") == "the feed came too slowly"]
    equal(sorted(frames), list(range(len(frames))), "frames that were due")
    check(2 * len(missed) >= len(frames), f"only {len(missed)} of {len(frames)} were missed")
    for number, event in frames.items():
        check(abs(event["due_ms"] - frames[0]["due_ms"] - 50 * number) < 0.1, f"{event}, and {frames[0]}")
    equal(done["queries"][0]["frames"], len(frames), "frames that count")
    lines = read_events(os.path.join(process.out, "one.jsonl"))
    equal({line["frame"] for line in lines if line.get("source", 0) is None}, set(missed), "lines without a frame")
    given = sorted((line["frame"], line.get("source", line["frame"])) for line in lines if line.get("source", 0) is not None)
    equal([source for _, source in given], list(range(len(given))), "numbers of frames in the file")
    slow = next(event for event in events if event["event"] == "feed" and event.get("slow"))
    check(slow["planned"] == 20 and slow["fps"] < 18, f"{slow}")


def ffmpeg_options(bench):
    """Words of the workload reach ffmpeg and change no bit; what it cannot do with them is one line that says what; what would write a file is refused."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    make_clip(bench, 20)
    shutil.rmtree(bench.path("pictures"))
    os.rename(bench.path("clip.mkv"), bench.path("pictures"))
    path = workload(bench, [("one", "a")], fps=20)
    words = "feeds.hall.options=[-threads, 2, -thread_type, slice]"
    run_until_answered(bench, path, "--set", words)
    same_as_predict(bench, bench.path("out"), "one", "a")
    for words, says, code in (("-bogus, 1", "Unrecognized option 'bogus'", 3), ("-hwaccel, nosuch", "Unrecognized hwaccel: nosuch", 3),
                              (f"-threads, 2, {bench.path('out.mkv')}", "out.mkv' is no option", 3), ("-report", "it writes a file", 3), ("-threads, -y", "'-threads' has no value", 3)):
        ended = bench.run("edge", "run", path, "--set", f"feeds.hall.options=[{words}]", "--out", bench.path("refused"))
        check(ended.code == code and len(ended.err.splitlines()) == 1 and says in ended.err, f"{words}: {ended.code}: {ended.err}")
    check(not os.path.exists(bench.path("out.mkv")), "a file was written")


class Source:
    """An ffmpeg that serves the pictures as a stream at a port, to one client at a time."""

    def __init__(self, bench, port):
        self.words = ["ffmpeg", "-loglevel", "error", "-re", "-stream_loop", "-1", "-framerate", "25", "-i", bench.path("pictures", "%04d.png"), "-c:v",
                      "mpeg2video", "-g", "1", "-f", "mpegts", f"tcp://127.0.0.1:{port}?listen=1"]
        self.url, self.process = f"tcp://127.0.0.1:{port}", None

    def begin(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def stream(bench, url, more=""):
    path = bench.path("w.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"feeds:\n  cam: {{file: \"{url}\", fps: 10{more}}}\nqueries:\n"
                   f"  - {{name: one, model: {bench.path('a')}.cfg, feed: cam, deadline_ms: 1000, score: 0.05}}\nedge: {{batch: [1, 2]}}\n")
    return path


def ends_of(out, member):
    return [event for event in events_of(out) if event["event"] == "feed" and event.get(member)]


def source_restarts(bench):
    """A stream that is off when the run begins, and is killed in mid-run: it is connected again each time, and told of; SIGHUP does so at once. The next
    run appends to its answers."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    source = Source(bench, free_port())
    process = begin(bench, stream(bench, source.url))
    try:
        until(process, "a word that it is off", lambda: ends_of(process.out, "down"))
        source.begin()
        until(process, "a word that it is on", lambda: ends_of(process.out, "up"))
        for times in 2, 3:
            seen = len(fresh(process.out, "one"))
            until(process, "answers", lambda seen=seen: len(fresh(process.out, "one")) > seen)
            source.end()
            until(process, "a word that it has gone", lambda times=times: len(ends_of(process.out, "down")) == times)
            source.begin()
            tell(process)
            until(process, "a word that it is back", lambda times=times: len(ends_of(process.out, "up")) == times)
        events, done = end(bench, process)
    finally:
        source.end()
    check(not any(event.get("ended") for event in events if event["event"] == "feed" and events.index(event) < events.index(ends_of(process.out, "up")[-1])),
          "it ended")
    check(all(event["after_s"] > 0 for event in ends_of(process.out, "up")), "no time of an outage")
    equal([(feed["feed"], feed["reconnects"]) for feed in done["feeds"]], [("cam", 3)], "reconnects")
    check(done["feeds"][0]["down_s"] >= sum(event["after_s"] for event in ends_of(process.out, "up")) - 0.01, f"{done['feeds']}")
    frames = [line["frame"] for line in read_events(os.path.join(process.out, "one.jsonl"))]
    equal(len(frames), len(set(frames)), "numbers of frames that are given once")
    check(min(frames) > 0, "a frame from before ffmpeg knew what the stream is")
    check(done["feeds"][0]["queued_up"] >= min(frames), f"{done['feeds']}, and the first frame is {min(frames)}")
    with open(os.path.join(process.out, "one.jsonl"), "a", encoding="utf-8") as file:
        file.write('{"torn":')
    ended = bench.run("edge", "run", stream(bench, source.url), "--for", "1", "--out", process.out)
    check(ended.code == 3 and "no frame came" in ended.err, f"off all the time: {ended.code}: {ended.err}")
    equal([line["frame"] for line in read_events(os.path.join(process.out, "one.jsonl"))], frames, "answers of the run before")


def source_hangs(bench):
    """A peer that takes the connection and sends nothing, as after a loss of power: it is hung up on and called again. With `ends: true`, its end is the feed's."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        process = begin(bench, stream(bench, url, ", stall_ms: 2000"))
        server.settimeout(120)
        first, _ = server.accept()
        second, _ = server.accept()
        until(process, "a word on its silence", lambda: ends_of(process.out, "down"))
        check("stalled" in ends_of(process.out, "down")[0]["error"], f"{ends_of(process.out, 'down')}")
        equal(first.recv(1), b"", "what the first connection has")
        os.kill(process.pid, signal.SIGTERM)
        equal(bench.end(process).code, 0, "exit code of a run that was told to end")
        first.close()
        second.close()
    with socket.socket() as silent:  # whose port is taken, and refuses
        silent.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        ended = bench.run("edge", "run", stream(bench, url, ", ends: true"), "--out", bench.path("ends"))
    check(ended.code == 3 and "no frame came" in ended.err, f"{ended.code}: {ended.err}")


def secrets(bench):
    """The password of a camera's address is in nothing that a run writes or says; answers and the start have the time of day."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    two_models(bench)
    source = Source(bench, free_port())
    url = source.url.replace("tcp://", "tcp://user:se-cret@") + "?pwd=se-cret"
    source.begin()
    process = begin(bench, stream(bench, url))
    try:
        until(process, "answers", lambda: fresh(process.out, "one"))
        source.end()
        until(process, "a word that it has gone", lambda: ends_of(process.out, "down"))
        os.kill(process.pid, signal.SIGTERM)
        run = bench.end(process)
    finally:
        source.end()
    page = bench.run("report", process.out, "--html", bench.path("page.html"))
    equal(page.code, 0, "exit code of the page")
    said = [run.out, run.err, page.out, page.err]
    for at, _, names in os.walk(process.out):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                said.append(file.read().decode("utf-8", "replace"))
    with open(bench.path("page.html"), encoding="utf-8") as file:
        said.append(file.read())
    check(not any("se-cret" in text for text in said), "the password is there")
    line = fresh(process.out, "one")[0]
    check(line["file"].startswith("tcp://***@127.0.0.1") and line["feed"] == "cam", f"{line}")
    began = next(event["began"] for event in events_of(process.out) if event["event"] == "start")
    times = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (began, line["at"])]
    passed = datetime.datetime.now(datetime.timezone.utc) - times[0]
    check(times[0] <= times[1] and 0 <= passed.total_seconds() < 3600, f"{began}, {line['at']}")
    ended = bench.run("predict", bench.path("a") + ".cfg", url, "--json")
    check(ended.code != 0 and "se-cret" not in ended.out + ended.err and "***@127.0.0.1" in ended.err, f"{ended.code}: {ended.err}")


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
        return sorted((event["frame"], event["due_ms"]) for event in events_of(process.out) if event["event"] == "frame")
    until(process, "frames", lambda: len(dues()) > 30)
    end(bench, process)
    apart = sorted(later - earlier for (_, earlier), (_, later) in zip(dues(), dues()[1:]))
    check(150 < apart[len(apart) // 2] < 250, f"frames are {apart[len(apart) // 2]} ms apart")


def live_feed(bench):
    """A camera that gives more frames than the feed is to have: most are left out before they are converted, and of the others the newest are answered. It falls silent: that is said, the other feed
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

    def taken():
        return sorted((line["frame"], datetime.datetime.fromisoformat(line["at"].replace("Z", "+00:00"))) for line in read_events(os.path.join(out, "two.jsonl")))
    until(process, "answers to new frames", lambda: camera.written >= 150 and len(taken()) >= 12)
    # Half a second apart, but for one that was taken late: the next one is then taken in time.
    frames = taken()
    apart_s = (frames[-1][1] - frames[0][1]).total_seconds() / (len(frames) - 1)
    check(apart_s >= 0.25, f"frames {frames} of fifty a second are answered at two a second: {apart_s:.3f} s apart")
    check(frames[-1][0] < camera.written / 4, f"{frames[-1][0]} frames of {camera.written} were converted, and {len(frames)} taken")
    camera.held.set()
    until(process, "a word on its silence", lambda: any(event["event"] == "feed" and event.get("feed") == "live" and "stalled" in event.get("error", "")
                                                       for event in events_of(out)))
    seen, before = len(fresh(out, "one")), newest()
    until(process, "answers of the other query", lambda: len(fresh(out, "one")) > seen + 5)
    camera.held.clear()
    until(process, "answers when there are frames again", lambda: newest() > before)
    end(bench, process)
    camera.ended.set()


def looped_pipe(bench):
    """A pipe has no beginning to go back to: that it is to loop is refused, on SIGHUP too; beside another feed it is told of, and the other goes on."""
    two_models(bench)
    camera = bench.path("camera.y4m")
    os.mkfifo(camera)
    path = workload(bench, [("one", "a")], feed="camera.y4m")
    ended = bench.run("edge", "run", path, "--out", bench.path("alone"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "is a pipe" in ended.err and "'loop'" in ended.err, f"{ended.code}: {ended.err}")
    path, out = workload(bench, [("one", "a")]), bench.path("out")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    both = text.replace("queries:\n", f"  live: {{file: {camera}, fps: 2, loop: true}}\nqueries:\n"
                                      f"  - {{name: two, model: {bench.path('b')}.cfg, feed: live, deadline_ms: 400}}\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(both)
    process = begin(bench, path)
    until(process, "a word on the pipe", lambda: any("is a pipe" in event.get("error", "") for event in events_of(out) if event["event"] == "feed"))
    until(process, "answers of the other query", lambda: len(fresh(out, "one")) > 5)
    refused = tell(process)
    check("is a pipe" in refused.get("error", ""), f"the text again: {refused}")
    end(bench, process)


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


def tensor_changes(bench):
    """A tensor's file that is cut, removed, a pipe, or changed in mid-run is not run on, and that is said; the other query goes on; once it is whole again
    so does its own."""
    a, b = two_models(bench)
    publish(bench.path("package"), 0, shared(a, b, set()))
    tensor = bench.path("package", "tensors", digest_of(*b["conv2.weight"]))
    with open(tensor, "rb") as file:
        data = file.read()
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    process = begin(bench, path, "--package", bench.path("package"))

    def loads(query):
        return len([event for event in events_of(process.out) if event["event"] == "load" and event["query"] == query])

    def failures():
        return [event for event in events_of(process.out) if event["event"] == "load_failed"]
    for what, says in (("cut", "cut short"), ("removed", "open "), ("a pipe", "not a plain file"), ("changed", "not what its name says")):
        marks = loads("two"), len(fresh(process.out, "two"))
        until(process, "loads and answers", lambda marks=marks: loads("two") > marks[0] + 1 and len(fresh(process.out, "two")) > marks[1] + 1)
        before = len(failures())
        if what == "cut":
            os.truncate(tensor, 5000)
        elif what in ("removed", "a pipe"):
            os.remove(tensor)
            if what == "a pipe":
                os.mkfifo(tensor)
        else:
            with open(tensor, "r+b") as file:  # in its place, of the same length
                file.seek(2000)
                file.write(b"\1\2\3\4")
        until(process, f"a word on a tensor that is {what}", lambda before=before: len(failures()) > before + 1)
        mark = len(fresh(process.out, "one"))
        until(process, "answers of the other query", lambda mark=mark: len(fresh(process.out, "one")) > mark + 5)
        check(all(event["query"] == "two" and says in event["error"] for event in failures()[before:]), f"{what}: {failures()[before:]}")
        with open(tensor + ".part", "wb") as file:
            file.write(data)
        os.replace(tensor + ".part", tensor)
    mark = len(fresh(process.out, "two"))
    until(process, "answers once it is whole again", lambda: len(fresh(process.out, "two")) > mark + 3)
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "b")


def own_tensor_removed(bench):
    """A tensor that the run has written itself is written again on SIGHUP when it is gone, or cut, or changed; its query goes on then."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: min")
    process = begin(bench, path)
    folder = os.path.join(process.out, "originals", "tensors")

    def failures():
        return [event for event in events_of(process.out) if event["event"] == "load_failed"]
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))
    largest = max(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    for what in ("removed", "cut", "changed", "removed with its folder"):
        before = len(failures())
        for name in os.listdir(folder):
            tensor = os.path.join(folder, name)
            if os.path.getsize(tensor) < largest:
                continue
            if what == "cut":
                os.truncate(tensor, 5000)
            elif what == "changed":
                with open(tensor, "r+b") as file:
                    file.seek(2000)
                    file.write(b"\1\2\3\4")
            else:
                os.remove(tensor)
        if "folder" in what:
            shutil.rmtree(os.path.join(process.out, "originals"))
        until(process, f"a word on a tensor that is {what}", lambda before=before: len(failures()) > before)
        equal(tell(process)["queries"], ["one", "two"], "queries")
        marks = len(fresh(process.out, "one")), len(fresh(process.out, "two"))
        until(process, "answers of both", lambda marks=marks: len(fresh(process.out, "one")) > marks[0] + 2 and len(fresh(process.out, "two")) > marks[1] + 2)
    end(bench, process)
    same_as_predict(bench, process.out, "one", "a")
    same_as_predict(bench, process.out, "two", "b")


def own_tensor_by_round(bench):
    """A tensor of a query that the package does not have is written again with the package's next round, too."""
    a, b = two_models(bench)
    publish(bench.path("package"), 1, {"one": shared(a, b, set())["one"]})
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: all, drift: {every_s: 0}")
    process = begin(bench, path, "--package", bench.path("package"))
    tensor = os.path.join(process.out, "originals", "tensors", digest_of(*b["conv2.weight"]))
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))
    for number, change in ((2, os.remove), (3, lambda tensor: os.truncate(tensor, 5000))):
        change(tensor)
        publish(bench.path("package"), number, {"one": shared(a, b, set())["one"]})
        until(process, "the tensor", lambda: os.path.exists(tensor) and os.path.getsize(tensor) == len(b["conv2.weight"][1]))
        check(told(process.out, "round", round=number), "the tensor was there before the round")
    end(bench, process)


def slow_disk(bench):
    """Its own tensors are written again beside the run: answers go on however long the disk takes, and the text is taken up when it is done."""
    slow = os.path.join(os.path.dirname(bench.culm), "../../tests/system/slow_disk.so")
    if not os.path.exists(slow):
        raise Skipped("tests/system/slow_disk.so is not built")
    a, _ = two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], edge="memory: all")
    tensors, gate = os.path.join(bench.path("out"), "originals", "tensors"), bench.path("gate")
    sanitized = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    process = begin(bench, path, env=os.environ | {"LD_PRELOAD": os.path.abspath(slow), "ASAN_OPTIONS": sanitized,
                                                   "SLOW_FOLDER": tensors, "SLOW_GATE": gate})
    own = [(os.path.join(tensors, digest_of(*a[name])), a[name][1]) for name in ("conv0.weight", "conv1.weight")]
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))
    for tensor, _ in own:
        os.remove(tensor)
    os.mkfifo(gate)
    os.kill(process.pid, signal.SIGHUP)
    marks = len(fresh(process.out, "one")), len(fresh(process.out, "two"))
    until(process, "answers", lambda: len(fresh(process.out, "one")) > marks[0] + 9 and len(fresh(process.out, "two")) > marks[1] + 9)
    check(not told(process.out, "workload"), "it was taken up although a tensor was not written yet")
    check(not any(os.path.exists(tensor) for tensor, _ in own), "a tensor was there before the disk had it")
    with open(gate, "wb"):  # whoever waits goes on, and who comes later does not wait
        until(process, "a word on the workload", lambda: told(process.out, "workload"))
        os.remove(gate)
    for tensor, data in own:
        with open(tensor, "rb") as file:
            equal(file.read(), data, tensor)
    end(bench, process)


def cut_feed(bench):
    """The only feed's file is cut in mid-run: what was answered is there, and one line says why nothing more is."""
    two_models(bench)
    shutil.rmtree(bench.path("pictures"))
    with open(bench.path("pictures"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 200, 28, 28) + random.Random(6).randbytes(200 * 28 * 28))
    process = begin(bench, workload(bench, [("one", "a")]))
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 3)
    os.truncate(bench.path("pictures"), 5000)
    ended = bench.end(process)
    check(ended.code == 4 and len(ended.err.splitlines()) == 1 and "no feed is left" in ended.err, f"{ended.code}: {ended.err}")
    done = events_of(process.out)[-1]
    equal(done["event"], "done", "the last event")
    equal(done["queries"][0]["frames"], len(read_events(os.path.join(process.out, "one.jsonl"))), "answers")
    check("profile.json" in os.listdir(process.out), "no profile")


def pipe_for_answers(bench):
    """A pipe in the place of a query's answers, which nobody reads, is refused, and nothing of the last run is lost."""
    two_models(bench)
    os.makedirs(bench.path("out"))
    path = workload(bench, [("one", "a"), ("two", "b")])
    run_until_answered(bench, path, count=1)
    kept = {name: read_events(bench.path("out", name)) for name in ("one.jsonl", "events.jsonl")}
    os.remove(bench.path("out", "two.jsonl"))
    os.mkfifo(bench.path("out", "two.jsonl"))
    ended = bench.run("edge", "run", path, "--for", "0.5", "--out", bench.path("out"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "two.jsonl' is not a plain file" in ended.err, f"{ended.code}: {ended.err}")
    equal({name: read_events(bench.path("out", name)) for name in kept}, kept, "answers and events of the last run")
    check(all(kept.values()), "the last run had none")


def link_for_answers(bench):
    """A link in the place of a query's answers is not followed: what it leads to stays as it is."""
    two_models(bench)
    os.makedirs(bench.path("out"))
    with open(bench.path("precious"), "w", encoding="utf-8") as file:
        file.write("kept")
    os.symlink(bench.path("precious"), bench.path("out", "one.jsonl"))
    ended = bench.run("edge", "run", workload(bench, [("one", "a")]), "--for", "0.5", "--out", bench.path("out"))
    check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "one.jsonl' is a link" in ended.err, f"{ended.code}: {ended.err}")
    with open(bench.path("precious"), encoding="utf-8") as file:
        equal(file.read(), "kept", "what the link leads to")


def disk_full(bench):
    """A disk that fills in mid-run costs lines, which are counted and told once, and never the run; it writes again when there is room. One that is
    full from the beginning: one line that says so, and exit code 4."""
    two_models(bench)
    path = workload(bench, [("one", "a"), ("two", "b")], fps=30)
    with Disk(bench, 32768) as disk:
        process = begin(bench, path, out="disk/out")
        until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))
        disk.fill()

        def said(text):
            with open(process.out_path, encoding="utf-8") as out, open(process.err_path, encoding="utf-8") as err:
                return (out.read() + err.read()).count(text)
        until(process, "lost answers", lambda: all(said(f"answers of query '{name}' that cannot be written are lost") for name in ("one", "two")))
        until(process, "a status that says so, which needs no room", lambda: "answers that could not be written" in bench.run("edge", "status", process.out).out)
        os.remove(bench.path("disk", "filler"))
        until(process, "answers again", lambda: all(said(f"answers of query '{name}' are written again") for name in ("one", "two")))
        end(bench, process, room=False)
        for name in "one", "two":
            equal(said(f"answers of query '{name}' that cannot be written are lost"), 1, "warnings")
        shutil.rmtree(process.out)
        disk.fill()
        ended = bench.run("edge", "run", path, "--out", bench.path("disk", "out"))
        check(ended.code == 4 and len(ended.err.splitlines()) == 1 and "No space left" in ended.err, f"at once: {ended.code}: {ended.err}")


def moved_files(bench):
    """Files of answers and events that are moved away, as by logrotate, are followed by new ones, upon SIGHUP and without; a removed one, too. No line
    is lost, and the report has the events of all files that are there."""
    two_models(bench)
    path = workload(bench, [("one", "a")])
    process = begin(bench, path)
    answers, events = os.path.join(process.out, "one.jsonl"), os.path.join(process.out, "events.jsonl")
    until(process, "answers", lambda: len(fresh(process.out, "one")) > 2)
    for times in 1, 2:
        for name in answers, events:
            os.rename(name, f"{name}.{times}")
        if times == 1:
            os.kill(process.pid, signal.SIGHUP)
        until(process, "answers in a new file", lambda: os.path.exists(answers) and fresh(process.out, "one") and read_events(events))
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    lines = [read_events(f"{answers}{times}") for times in (".1", ".2", "")]
    frames = [line["frame"] for file in lines for line in file]
    equal(sorted(frames), list(range(len(frames))), "frames in all files of answers")
    told_in = [read_events(f"{events}{times}") for times in (".1", ".2", "")]
    equal([file[0]["event"] for file in told_in], ["start"] * 3, "the first event of each file")
    equal([file[0].get("repeated", False) for file in told_in], [False, True, True], "whether it is a copy")
    counted = sum(event["event"] == "frame" for file in told_in for event in file)
    equal(counted, len(frames), "frames in all files of events")
    equal(told_in[-1][-1]["event"], "done", "the last event")
    ended = bench.run("report", process.out, "--json")
    equal(ended.code, 0, f"exit code of the report: {ended.err}")
    loaded = sum(event["bytes"] for file in told_in for event in file if event["event"] == "load")
    check(loaded > 0 and f"{loaded / 1e6:.2f} MB loaded" in bench.run("report", process.out).out, "the report has not read all files")
    process = begin(bench, path)
    until(process, "answers", lambda: told(process.out, "frame"))
    os.remove(answers)
    os.remove(events)
    until(process, "answers in a new file", lambda: os.path.exists(answers) and fresh(process.out, "one"))
    os.rename(answers, bench.path("aside"))
    os.mkdir(answers)

    def said(text):
        with open(process.out_path, encoding="utf-8") as out:
            return out.read().count(text)
    until(process, "a word on what is in the way", lambda: said("one.jsonl' again"))
    os.rmdir(answers)
    until(process, "answers in a new file", lambda: os.path.exists(answers) and fresh(process.out, "one"))
    with open(path, "a", encoding="utf-8") as file:
        file.write("answers: {rotate_mb: 1, keep_mb: 2}\n")
    tell(process)
    until(process, "files that give way, once SIGHUP has said so", lambda: os.path.exists(answers + ".1"))
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    equal(said("one.jsonl' again"), 1, "warnings")


cases.add("a signal ends it, with what was done", signals, first=True)
cases.add("a feed ends", feed_ends, first=True)
cases.add("frames come faster than they can be kept", every_frame, first=True)
cases.add("damaged pictures", damaged_pictures, first=True)
cases.add("a folder grows", folder_grows, seconds=6, first=True)
cases.add("options of ffmpeg", ffmpeg_options, seconds=5, first=True)
cases.add("a decoder is too slow", slow_decoder, seconds=5, first=True)
cases.add("a grey feed, a model of colours", grey_feed)
cases.add("a feed cannot be opened, the other goes on", feed_missing, first=True)
cases.add("ffmpeg is killed, the other feed goes on", ffmpeg_killed, first=True)
cases.add("a clip comes as it was recorded", as_recorded, kind="alone", first=True)
cases.add("a live feed: the newest frames; it stalls, the other goes on", live_feed, seconds=15, first=True)
cases.add("a stream is off at first, and is killed twice", source_restarts, seconds=15, first=True)
cases.add("a stream hangs; one that ends", source_hangs, seconds=6, first=True)
cases.add("the password of a camera; the time of day", secrets, seconds=6, first=True)
cases.add("a pipe that is to loop", looped_pipe)
cases.add("a damaged tensor", damaged)
cases.add("a tensor is cut, removed and changed in mid-run", tensor_changes, first=True)
cases.add("the run's own tensors are removed, cut and changed in mid-run", own_tensor_removed, first=True)
cases.add("the run's own tensors are removed and cut, and a new round comes", own_tensor_by_round)
cases.add("the disk takes its time while own tensors are written again", slow_disk)
cases.add("the only feed is cut in mid-run", cut_feed)
cases.add("files are moved away and removed in mid-run", moved_files, seconds=8)
cases.add("a pipe in the place of answers", pipe_for_answers)
cases.add("a link in the place of answers", link_for_answers, first=True)
cases.add("the disk is full", needs_disk, __file__, "the disk is full", disk_full, first=True)
if __name__ == "__main__":
    cases.run()
