#!/usr/bin/env python3
"""Random days of an edge box: `culm edge run` beside cameras, a disk and a package that change under it.

usage: edge_day.py CULM [PART OF A CASE'S NAME]...                     the case that the tests run: a short day
       edge_day.py CULM [--first SEED] [--seconds N] [--mean S]        a day of that many seconds; 3600, for one

Eight feeds: a clip and a folder that loop, a folder that grows, MPEG-TS over TCP (one of them behind a cable, where this process may make network
namespaces), MJPEG over HTTP, and RTSP where gst-rtsp-server is there. Every S seconds on average one of these happens: a camera is killed, or frozen,
or its cable is taken out, for a while; ffmpeg is killed; the disk is full for a while; a query comes or goes; the package has another round; a picture
comes into the folder; SIGHUP without a reason; the run is ended and begun again, or killed. What it must come to: every run that ended has 0, and each
frame of each query in exactly one count and one line; each answer is one that the model, merged or not, gives for a picture of that feed; no camera that
can be had is away for longer than a back-off takes; and memory stays what it was.
"""
import argparse
import datetime
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from edge_harness import make_model, make_pictures, publish, write_mixed
from harness import Cases, Disk, Failed, Skipped, check, children_of, equal, read_events, wait_until
from hosts import Hosts, Unavailable as NoHosts

cases = Cases(kind="waits", job="edge")
SEED, MEAN_S = 1, 15.0
PICTURES = 6
BACKOFF_S = 30  # the longest between two tries to reach a camera
BUSY_S = 30     # that a busy machine takes longer, and a probe of a stream
DISK_KB = 256 << 10
GROWN = 1.25, 12 << 20  # of a third of a run's time over the one before it: more is a leak
MJPEG = """
import http.server, socketserver, sys, time
pictures = [open(path, "rb").read() for path in sys.argv[2:]]
class Camera(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        number = 0
        try:
            while True:
                picture = pictures[number % len(pictures)]
                self.wfile.write(b"--frame\\r\\nContent-Type: image/jpeg\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(picture) + picture + b"\\r\\n")
                number += 1
                time.sleep(0.04)
        except OSError:
            pass
    def log_message(self, *_):
        pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
Server(("0.0.0.0", int(sys.argv[1])), Camera).serve_forever()
"""
RTSP = """
import sys, time
import gi
gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtsp, GstRtspServer
Gst.init(None)
pictures = [open(path, "rb").read() for path in sys.argv[2:]]
class Camera(GstRtspServer.RTSPMediaFactory):
    def do_create_element(self, url):
        return Gst.parse_launch("appsrc name=source is-live=true do-timestamp=true format=time caps=image/jpeg,width=96,height=80,framerate=25/1 "
                                "! rtpjpegpay name=pay0")
    def do_configure(self, media):
        self.number = 0
        media.get_element().get_child_by_name("source").connect("need-data", self.give)
    def give(self, source, length):
        time.sleep(0.04)
        source.emit("push-buffer", Gst.Buffer.new_wrapped(pictures[self.number % len(pictures)]))
        self.number += 1
server, camera = GstRtspServer.RTSPServer(), Camera()
camera.set_shared(True)
camera.set_protocols(GstRtsp.RTSPLowerTrans.TCP)
server.set_service(sys.argv[1])
server.get_mount_points().add_factory("/cam", camera)
server.attach(None)
GLib.MainLoop().run()
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def has_rtsp():
    """A Python that can serve RTSP; None: there is none."""
    for python in sys.executable, "/usr/bin/python3":
        asked = subprocess.run([python, "-c", "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer, Gst; "
                                              "Gst.init(None); raise SystemExit(not Gst.ElementFactory.find('rtpjpegpay'))"], capture_output=True, check=False)
        if asked.returncode == 0:
            return python
    return None


class Camera:
    """A process that serves a stream; while it is `on` it is begun again whenever it ends, as one is by whom it serves only once."""

    def __init__(self, name, url, words):
        self.name, self.url, self.words = name, url, words
        self.process, self.on, self.frozen, self.cut = None, True, False, False
        self.had = []  # [since, until or None] when it could be had
        self.lock, self.over = threading.Lock(), threading.Event()
        self.note()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while not self.over.wait(0.1):
            with self.lock:
                if self.on and (self.process is None or self.process.poll() is not None):
                    self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def note(self):
        now, can = time.time(), self.on and not self.frozen and not self.cut
        if can and (not self.had or self.had[-1][1]):
            self.had.append([now, None])
        elif not can and self.had and self.had[-1][1] is None:
            self.had[-1][1] = now

    def set(self, on=None, frozen=None):
        with self.lock:
            self.on = self.on if on is None else on
            if frozen is not None and self.process and self.process.poll() is None:
                self.frozen = frozen
                self.process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)
            if not self.on and self.process:
                self.process.kill()
                self.process.wait()
                self.frozen = False
            self.note()

    def end(self):
        self.over.set()
        self.thread.join()
        self.set(on=False)


class Day:
    def __init__(self, bench, seed, seconds, mean_s):
        self.bench, self.seed, self.seconds, self.mean_s = bench, seed, seconds, mean_s
        self.draw = random.Random(f"day {seed}")
        self.disk, self.hosts, self.run, self.out = None, None, None, None
        self.cameras, self.feeds, self.content = [], {}, {}
        self.later = []  # (when, what): the end of what lasts a while
        self.happened, self.runs, self.frames, self.lost = {}, 0, 0, 0
        self.round, self.number, self.extra, self.segments, self.grown = 0, PICTURES, [], [], 0
        self.filled = False

    # --- what there is ---

    def on(self, number, *words):
        return self.hosts.on(number, *words) if self.hosts else list(words)

    def make(self):
        bench = self.bench
        self.a, self.b = make_model(bench.path("a"), 1), make_model(bench.path("b"), 2)
        write_mixed(bench, "mixed", self.a, self.b, [name for name in self.a if name.startswith("conv2")])
        make_pictures(bench.path("pictures"), PICTURES)
        shutil.copytree(bench.path("pictures"), bench.path("grown"))
        os.mkdir(bench.path("jpeg"))
        source = ["ffmpeg", "-loglevel", "error", "-framerate", "25", "-i", bench.path("pictures", "%04d.png")]
        self.code = ["-c:v", "mpeg2video", "-g", "1", "-q:v", "2"]
        for words in ([*source, "-c:v", "ffv1", bench.path("clip.mkv")], [*source, *self.code, "-f", "mpegts", bench.path("sent.ts")],
                      [*source, "-q:v", "2", "-pix_fmt", "yuvj420p", bench.path("jpeg", "%04d.jpg")]):
            made = subprocess.run(words, capture_output=True, text=True, check=False)
            equal(made.returncode, 0, f"ffmpeg: {made.stderr}")
        for what in "pictures", "clip.mkv", "sent.ts":
            self.look(what, what)

    def look(self, what, path):
        """What the models say of a feed's pictures, by its kind."""
        for model in "a", "b", "mixed":
            ended = self.bench.run("predict", self.bench.path(model) + ".cfg", self.bench.path(path), "--score", "0.05", "--json", "--threads", "1")
            equal(ended.code, 0, f"exit code of a prediction: {ended.err}")
            told = [json.dumps(json.loads(line)["boxes"]) for line in ended.out.splitlines()]
            self.content.setdefault((what, "a" if model == "a" else "b"), set()).update(told)

    def record(self, what):
        """The same of a camera, of some of what it sends."""
        camera, path = self.cameras[-1], self.bench.path(what + ".mkv")

        def recorded():
            return subprocess.run(self.on(0, "ffmpeg", "-loglevel", "error", "-y", "-i", camera.url, "-c", "copy", "-frames:v", str(3 * PICTURES), path),
                                  capture_output=True, check=False).returncode == 0
        wait_until(recorded, 60, f"something of camera {camera.name}")
        self.look(what, what + ".mkv")

    def serves(self, name, what, url, *words):
        self.cameras.append(Camera(name, url, words))
        self.feeds[name] = (what, f'file: "{url}", fps: 5')

    def stream(self, name, number):
        port = free_port()
        address = self.hosts.address(number) if self.hosts else "127.0.0.1"
        url = f"tcp://{address}:{port}"
        self.serves(name, "sent.ts", url, *self.on(number, "ffmpeg", "-loglevel", "error", "-re", "-stream_loop", "-1", "-framerate", "25", "-i",
                                                   self.bench.path("pictures", "%04d.png"), *self.code, "-f", "mpegts", url + "?listen=1"))

    def begin(self):
        bench = self.bench
        try:
            self.hosts = Hosts(f"day{self.seed}", 2)
        except NoHosts as error:
            bench.note(f"no camera behind a cable: {error}")
        self.feeds["clip"] = ("clip.mkv", f"file: {bench.path('clip.mkv')}, fps: 5, loop: true")
        self.feeds["folder"] = ("pictures", f"file: {bench.path('pictures')}, fps: 5, loop: true")
        self.feeds["grown"] = ("pictures", f"file: {bench.path('grown')}, fps: 5, loop: true")
        self.stream("gate", 0)
        self.stream("yard", 0)
        if self.hosts:
            self.stream("far", 1)
        port, jpegs = free_port(), sorted(glob.glob(bench.path("jpeg", "*.jpg")))
        self.serves("web", "web", f"http://127.0.0.1:{port}/cam", *self.on(0, sys.executable, "-c", MJPEG, str(port), *jpegs))
        self.record("web")
        python, port = has_rtsp(), free_port()
        if python:
            self.serves("rtsp", "rtsp", f"rtsp://127.0.0.1:{port}/cam", *self.on(0, python, "-c", RTSP, str(port), *jpegs))
            self.record("rtsp")
        else:
            bench.note("no RTSP: gst-rtsp-server with its bindings for Python is not there")
        self.model = {name: self.draw.choice("ab") for name in self.feeds}
        self.queries = [(name, name) for name in self.feeds]
        self.publish(set())

    def publish(self, names):
        """A round in which the parameters `names` of the second model are the first one's."""
        queries = {name: (f"{self.model[name]}.cfg", {key: (self.a[key] if key in names else value, value)
                                                      for key, value in (self.a if self.model[name] == "a" else self.b).items()}) for name in self.feeds}
        publish(self.bench.path("package"), self.round, queries)

    def write(self):
        path = self.bench.path("w.yaml.new")
        with open(path, "w", encoding="utf-8") as file:
            feeds = "".join(f"  {name}: {{{text}}}\n" for name, (_, text) in self.feeds.items())
            queries = "".join(f"  - {{name: {query}, model: {self.bench.path(self.model[feed])}.cfg, feed: {feed}, deadline_ms: 1000, score: 0.05}}\n"
                              for query, feed in self.queries + self.extra)
            file.write(f"feeds:\n{feeds}queries:\n{queries}edge: {{batch: [1, 2], memory: 75%, drift: {{every_s: 4}}}}\n")
        os.replace(path, self.bench.path("w.yaml"))

    # --- a run, from its begin to its end ---

    def lines(self):
        return {os.path.basename(path)[:-6]: sum(1 for _ in open(path, "rb")) for path in glob.glob(os.path.join(self.out, "*.jsonl"))}

    def start(self):
        self.write()
        self.before = self.lines()
        command = self.on(0, self.bench.culm, "edge", "run", self.bench.path("w.yaml"), "--package", self.bench.path("package"), "--out", self.out, "--json")
        self.log = self.bench.path(f"log-{self.runs}")
        with open(self.log, "wb") as log, open(self.bench.path("err"), "wb") as err:
            self.run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=err, start_new_session=True)
        self.runs += 1
        self.memory, self.since = [], time.time()
        wait_until(lambda: self.run.poll() is not None or any(event["event"] == "start" for event in read_events(self.log)), 120, "that a run begins")
        check(self.run.poll() is None, f"a run ended at once with {self.run.returncode}: {self.said()}")

    def said(self):
        with open(self.bench.path("err"), encoding="utf-8", errors="replace") as file:
            return file.read()[-600:]

    def end(self, how=signal.SIGTERM):
        self.run.send_signal(how)
        try:
            code = self.run.wait(120)
        except subprocess.TimeoutExpired:
            raise Failed("a run that was told to end is still there after 120 s") from None
        until, events = time.time(), read_events(self.log)
        if how == signal.SIGTERM:
            equal(code, 0, f"exit code of a run that was told to end ({self.said()})")
            self.count(events)
        self.outages(events, until)
        self.flat()

    def count(self, events):
        done = [event for event in events if event["event"] == "done"]
        equal(len(done), 1, "events 'done'")
        check(done[0]["resident_max_bytes"] <= done[0]["limit_bytes"], f"above the limit: {done[0]}")
        now = self.lines()
        for query in done[0]["queries"]:
            name = query["query"]
            equal(query["frames"], query["processed"] + query["dropped"], f"frames of {name}")
            equal(now.get(name, 0) - self.before.get(name, 0) + query["answers_lost"], query["frames"], f"lines of {name}, a run's")
            check(self.filled or not query["answers_lost"], f"answers of {name} are lost, and the disk was never full")
            self.frames += query["frames"]
            self.lost += query["answers_lost"]
        self.filled = False

    def outages(self, events, until):
        """How long each camera was away though it could be had."""
        began = datetime.datetime.fromisoformat(next(event["began"] for event in events if event["event"] == "start").replace("Z", "+00:00")).timestamp()
        for camera in self.cameras:
            down = began
            for event in [*events, None]:
                at = until if event is None else began + event["t_ms"] / 1e3
                if event is None or (event["event"] == "feed" and event["feed"] == camera.name):
                    if down is not None and (event is None or event.get("up")):
                        self.away(camera, down, at)
                        down = None
                    elif event is not None and event.get("down") and down is None:
                        down = at
                elif event["event"] == "frame" and down == began and event["query"] == camera.name:
                    down = None  # its first one

    def away(self, camera, since, until):
        for had, lost in camera.had:
            start, end = max(had, since), min(lost or until, until)
            check(end - start < BACKOFF_S + BUSY_S, f"camera {camera.name} could be had for {end - start:.0f} s, and was away")

    def flat(self):
        third = len(self.memory) // 3
        if third >= 20:
            early, late = max(self.memory[third:2 * third]), max(self.memory[2 * third:])
            check(late <= early * GROWN[0] + GROWN[1], f"its memory grew from {early >> 20} to {late >> 20} MB in {len(self.memory) / 3:.0f} s")
            self.segments.append((early, late))

    def sample(self):
        pid = self.run.pid
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                for line in file:
                    if line.startswith("VmRSS:"):
                        self.memory.append(int(line.split()[1]) << 10)
        except (FileNotFoundError, ProcessLookupError):
            pass

    # --- what happens ---

    def for_a_while(self, end, longest=25):
        self.later.append((time.monotonic() + self.draw.uniform(0.5, longest), end))

    def camera_off(self):
        camera = self.draw.choice(self.cameras)
        if camera.on and not camera.frozen:
            camera.set(on=False)
            self.for_a_while(lambda: camera.set(on=True))

    def camera_freezes(self):
        camera = self.draw.choice(self.cameras)
        if camera.on and not camera.frozen:
            camera.set(frozen=True)
            self.for_a_while(lambda: camera.set(frozen=False))

    def cable_out(self):
        far = next((camera for camera in self.cameras if camera.name == "far"), None)
        if far and not far.cut:
            self.hosts.link(1, "down")
            far.cut = True
            far.note()

            def plug():
                self.hosts.link(1, "up")
                far.cut = False
                far.note()
            self.for_a_while(plug)

    def ffmpeg_dies(self):
        children = sorted(children_of(self.run.pid))
        if children:
            try:
                os.kill(self.draw.choice(children), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def disk_full(self):
        if self.disk:
            self.filled = True
            self.disk.fill()
            filler = os.path.join(self.disk.path, "filler")
            self.for_a_while(lambda: os.path.exists(filler) and os.remove(filler), 10)

    def query_changes(self):
        if self.extra and self.draw.random() < 0.5:
            self.extra.pop()
        else:
            self.number += 1
            self.extra.append((f"more{self.number}", self.draw.choice(sorted(self.feeds))))
        self.write()
        self.run.send_signal(signal.SIGHUP)

    def hup(self):
        self.run.send_signal(signal.SIGHUP)

    def new_round(self):
        self.round += 1
        names = {name for name in self.a if name.startswith("conv2")} if self.round % 2 else set()
        self.publish(names)

    def picture_comes(self):
        self.grown += 1
        number = self.draw.randrange(PICTURES)
        shutil.copy(self.bench.path("pictures", f"{number:04}.png"), self.bench.path("grown", "part"))
        os.replace(self.bench.path("grown", "part"), self.bench.path("grown", f"{self.grown + 100:06}.png"))

    def restart(self):
        self.end()
        self.start()

    def killed(self):
        self.filled = True  # lines that it had not written are lost
        self.end(signal.SIGKILL)
        self.start()

    def live(self):
        events = [(6, self.camera_off), (4, self.camera_freezes), (3, self.cable_out), (2, self.ffmpeg_dies), (1, self.disk_full), (2, self.query_changes),
                  (1, self.hup), (2, self.new_round), (2, self.picture_comes), (1, self.restart), (0.5, self.killed)]
        until, next_s = time.monotonic() + self.seconds, time.monotonic() + self.draw.expovariate(1 / self.mean_s)
        sampled = 0.0
        while time.monotonic() < until:
            now = time.monotonic()
            check(self.run.poll() is None, f"it ended by itself with {self.run.returncode}: {self.said()}")
            for when, what in [one for one in self.later if one[0] <= now]:
                self.later.remove((when, what))
                what()
            if now >= next_s:
                what = self.draw.choices([what for _, what in events], [weight for weight, _ in events])[0]
                self.happened[what.__name__] = self.happened.get(what.__name__, 0) + 1
                what()
                next_s = time.monotonic() + self.draw.expovariate(1 / self.mean_s)
            if now >= sampled + 1:
                sampled = now
                self.sample()
            time.sleep(0.05)
        for _, what in self.later:
            what()

    def judge(self):
        """Each answer is one of those that the model gives for a picture of that feed, and each feed that can be had was seen."""
        where = dict(self.queries)
        for number in range(PICTURES, self.number + 1):
            where[f"more{number}"] = None
        seen = 0
        for query, feed in where.items():
            lines = read_events(os.path.join(self.out, query + ".jsonl")) if os.path.exists(os.path.join(self.out, query + ".jsonl")) else []
            for line in lines:
                if line.get("stale") and line["of"] is None:
                    continue  # nothing had been answered yet
                name = feed or line["feed"]
                right = self.content[(self.feeds[name][0], self.model[name])]
                check(json.dumps(line["boxes"]) in right, f"{query}, frame {line['frame']} of {name}: an answer that no picture of it has")
                seen += 1
            if feed:
                check(any("boxes" in line and not line.get("stale") for line in lines), f"{query} answered nothing all day")
        return seen

    def play(self):
        if not shutil.which("ffmpeg"):
            raise Skipped("ffmpeg is not installed")
        self.make()
        try:
            self.begin()
            self.out = os.path.join(self.disk.path, "out") if self.disk else self.bench.path("out")
            os.makedirs(self.out, exist_ok=True)
            self.start()
            self.live()
            self.end()
            seen = self.judge()
        finally:
            if self.run and self.run.poll() is None:
                self.run.kill()
                self.run.wait()
            for camera in self.cameras:
                camera.end()
            if self.hosts:
                self.hosts.remove()
            what = ", ".join(f"{count} {name}" for name, count in sorted(self.happened.items())) or "none"
            self.bench.note(f"seed {self.seed}, {self.seconds:g} s: {len(self.feeds)} feeds, {self.runs} runs, {self.frames} frames counted, "
                            f"{self.lost} answers lost; {what}")
        memory = max((late for _, late in self.segments), default=0) >> 20
        self.bench.note(f"{seen} answers looked at; at most {memory} MB")


def day(bench, seed, seconds, mean_s):
    one = Day(bench, seed, seconds, mean_s)
    if os.geteuid() != 0:
        bench.note("no disk that fills: this is not root")
        one.play()
        return
    with Disk(bench, DISK_KB) as one.disk:
        one.play()


cases.add("a day, seed 1", day, 1, 60, 2.0, seconds=80)


def long_day(words):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runner"))
    import harness
    import outcome
    import run as runner
    from cases import CaseJob

    parser = argparse.ArgumentParser(prog="edge_day.py CULM", description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=SEED, help="the seed (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3600, help="how long the day is (default: %(default)s)")
    parser.add_argument("--mean", type=float, default=MEAN_S, help="seconds between two events, on average (default: %(default)s)")
    chosen = parser.parse_args(words)
    cases.add(f"a long day, seed {chosen.first}", day, chosen.first, chosen.seconds, chosen.mean, seconds=chosen.seconds)
    sys.exit(runner.run([CaseJob(cases.cases[-1], harness)], outcome.Report(None, lambda job: "tests/system/edge_day.py")))


if __name__ == "__main__":
    if any(word.startswith("--") for word in sys.argv[2:]):
        long_day(sys.argv[2:])
    cases.run()
