#!/usr/bin/env python3
"""Answers of an edge run beside its files: to a Unix socket, an HTTP server and an MQTT broker, which are slow, hang, or are away."""
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from edge_harness import begin, check_done, events_of, fresh, two_models, until, workload
from harness import Cases, Skipped, check, equal, read_events, wait_until

cases = Cases(kind="waits", job="edge")


def answers_to(bench, to, queries=(("one", "a"),), name="w.yaml", fps=10):
    path = workload(bench, queries, name=name, fps=fps)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"answers: {{to: {json.dumps(to)}}}\n")
    return path


def warnings(out, *words):
    return [event["message"] for event in events_of(out) if event["event"] == "warning" and all(word in event["message"] for word in words)]


def stop(bench, process, files=True):
    """Ends a run, and returns how many answers each of its receivers has got and lost; none is uncounted."""
    os.kill(process.pid, signal.SIGTERM)
    begun = time.monotonic()
    ended = bench.end(process)
    if files:
        _, done = check_done(ended, process.out)
    else:
        equal(ended.code, 0, "exit code")
        done = events_of(process.out)[-1]
    check(time.monotonic() - begun < 30, "it took its time to end")
    frames = sum(query["frames"] for query in done["queries"])
    for one in done["answers"]:
        equal(one["sent"] + one["lost"], frames, f"answers to {one['to']}")
        equal(one["waiting"], 0, "answers that wait")
    return [(one["sent"], one["lost"]) for one in done["answers"]]


class Lines:
    """A program that listens at a Unix socket and keeps the lines that it gets, whole or not."""

    def __init__(self, path):
        self.path, self.lines, self.torn, self.held = path, [], 0, threading.Event()
        self.begin()

    def begin(self):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen()
        self.line = None
        self.thread = threading.Thread(target=self.take, args=(self.server,), daemon=True)
        self.thread.start()

    def take(self, server):
        try:
            while True:
                line, _ = server.accept()
                self.line, rest = line, b""
                while not self.held.is_set():
                    more = line.recv(65536)
                    if not more:
                        break
                    *whole, rest = (rest + more).split(b"\n")
                    self.lines += [json.loads(text) for text in whole]
                self.torn += bool(rest)
                if self.held.is_set():
                    return  # takes the connection, and reads nothing
        except OSError:
            pass

    def kill(self):
        """As kill -9 does: the socket's file stays, and nobody is there."""
        self.server.close()
        if self.line:
            self.line.close()

    def again(self):
        os.remove(self.path)
        self.begin()


def unix_socket(bench):
    """Whoever listens gets every answer, with its query; is gone, and gets those since it is back. Nobody is there at first."""
    two_models(bench)
    path = bench.path("s")
    process = begin(bench, answers_to(bench, ["file", f"unix:{path}"], (("one", "a"), ("two", "b"))))
    until(process, "a word that nobody is there", lambda: warnings(process.out, "unix:", "No such file"))
    receiver = Lines(path)
    until(process, "answers", lambda: receiver.lines and warnings(process.out, "taken again"))
    receiver.kill()
    until(process, "a word that it has gone", lambda: len(warnings(process.out, "the newest answers")) == 2)
    receiver.again()
    seen = len(receiver.lines)
    until(process, "answers", lambda: len(receiver.lines) > seen + 4 and len(warnings(process.out, "taken again")) == 2)
    answers_to(bench, "file", (("one", "a"), ("two", "b")))
    os.kill(process.pid, signal.SIGHUP)
    until(process, "a word on receivers that are others now", lambda: warnings(process.out, "answers.to"))
    ended = bench.run("edge", "status", process.out)
    check(f"unix:{path}" in ended.out and " up " in ended.out, ended.out)
    sent, lost = stop(bench, process)[0]
    equal((lost, receiver.torn), (0, 0), "answers lost, torn lines")
    check(sent > 0, "nothing was sent")

    def last():
        return [read_events(os.path.join(process.out, f"{query}.jsonl"))[-1]["frame"] for query in ("one", "two")]
    wait_until(lambda: all(any(line["query"] == query and line["frame"] == frame for line in receiver.lines)
                           for query, frame in zip(("one", "two"), last())), 60, "the last answers")
    for query in "one", "two":
        got = {line["frame"]: line for line in receiver.lines if line["query"] == query}
        for line in read_events(os.path.join(process.out, f"{query}.jsonl")):
            if line["frame"] in got:
                equal({**line, "query": query}, got[line["frame"]], "an answer")
    check(any(line["boxes"] for line in receiver.lines), "it saw nothing")
    # Alone, and to nobody who reads: no frame is lost, and no file is made.
    receiver.held.set()
    process = begin(bench, answers_to(bench, f"unix:{path}"), out="alone")
    until(process, "answers", lambda: sum(event["event"] == "frame" and "done_ms" in event for event in events_of(process.out)) > 20)
    stop(bench, process, files=False)
    check(not os.path.exists(os.path.join(process.out, "one.jsonl")), "there is a file of answers")


class Web(http.server.ThreadingHTTPServer):
    """Takes what is posted; `says` is what it answers, 0: it never does."""
    daemon_threads = True

    def __init__(self):
        self.lines, self.says, self.posts, self.secrets = [], 204, 0, set()
        super().__init__(("127.0.0.1", 0), Page)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        web, text = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        web.posts += 1
        web.secrets.add(self.headers.get("Authorization"))
        while not web.says:
            time.sleep(0.05)
        code = web.says
        if code == 204:
            equal(self.headers["Content-Type"], "application/x-ndjson", "the type")
            web.lines += [json.loads(line) for line in text.splitlines()]
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def web_server(bench):
    """Answers are posted; while the server fails or hangs they wait; what it does not want is lost, and counted. The password of its address is nowhere."""
    two_models(bench)
    web = Web()
    url = f"http://user:se-cret@127.0.0.1:{web.server_port}/in?key=se-cret"
    process = begin(bench, answers_to(bench, ["file", url]))
    until(process, "answers", lambda: web.lines)
    check(next(iter(web.secrets)), "no password came")
    web.says = 503
    until(process, "a word on that", lambda: warnings(process.out, "the server says 503"))
    web.says = 204
    until(process, "answers again", lambda: warnings(process.out, "taken again; 0 have been lost"))
    web.says = 422
    until(process, "a word on that", lambda: warnings(process.out, "does not want"))
    web.says = 204
    until(process, "answers again", lambda: len(warnings(process.out, "taken again")) == 2)
    posts, seen, web.says = web.posts, len(fresh(process.out, "one")), 0
    until(process, "answers in the file, while the server hangs", lambda: web.posts > posts and len(fresh(process.out, "one")) > seen + 10)
    sent, lost = stop(bench, process)[0]
    check(lost > 0, "nothing was lost")
    frames = [line["frame"] for line in web.lines]
    equal(len(set(frames)), sent, "answers that came")
    said = [open(path, encoding="utf-8").read() for path in (process.out_path, process.err_path)]
    said += [open(os.path.join(at, name), encoding="utf-8", errors="replace").read() for at, _, names in os.walk(process.out) for name in names]
    check(not any("se-cret" in text for text in said), "the password is there")
    web.says = 204
    web.shutdown()


class Broker:
    """A real mosquitto, with a user."""

    def __init__(self, bench, more=""):
        if not shutil.which("mosquitto") and not os.path.exists("/usr/sbin/mosquitto"):
            raise Skipped("mosquitto is not installed (Debian's mosquitto)")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.folder, self.process = bench.path("broker"), None
        os.mkdir(self.folder)
        subprocess.run([shutil.which("mosquitto_passwd") or "/usr/bin/mosquitto_passwd", "-c", "-b", os.path.join(self.folder, "users"), "culm", "se cret"], check=True,
                       capture_output=True)
        with open(os.path.join(self.folder, "conf"), "w", encoding="utf-8") as file:
            file.write(f"listener {self.port} 127.0.0.1\nallow_anonymous false\npassword_file {self.folder}/users\nuser root\n{more}")

    def begin(self):
        self.process = subprocess.Popen([shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", os.path.join(self.folder, "conf")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def listens():
            with socket.socket() as line:
                return line.connect_ex(("127.0.0.1", self.port)) == 0
        wait_until(listens, 60, "the broker")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Subscriber:
    """Hears a topic: enough of MQTT 3.1.1 for that."""

    def __init__(self, port, topic):
        def text(word):
            return len(word).to_bytes(2, "big") + word
        self.lines, self.line = [], socket.create_connection(("127.0.0.1", port))
        body = text(b"MQTT") + b"\x04\xc2\x00\x00" + text(b"test") + text(b"culm") + text(b"se cret")
        self.line.sendall(bytes([0x10, len(body)]) + body)
        equal(self.packet(), (2, b"\x00\x00"), "the broker's word")
        body = b"\x00\x01" + text(topic) + b"\x00"
        self.line.sendall(bytes([0x82, len(body)]) + body)
        equal(self.packet()[0], 9, "the broker's word")
        threading.Thread(target=self.take, daemon=True).start()

    def exactly(self, count):
        text = b""
        while len(text) < count:
            more = self.line.recv(count - len(text))
            if not more:
                raise ConnectionError
            text += more
        return text

    def packet(self):
        kind, size, shift = self.exactly(1)[0] >> 4, 0, 0
        while True:
            byte = self.exactly(1)[0]
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                return kind, self.exactly(size)

    def take(self):
        try:
            while True:
                kind, body = self.packet()
                if kind == 3:
                    self.lines.append(json.loads(body[2 + int.from_bytes(body[:2], "big"):]))
        except (ConnectionError, OSError):
            pass


def mqtt_broker(bench):
    """A real broker, which is killed, frozen, and refuses a wrong password: answers are published, wait, and are counted."""
    two_models(bench)
    broker = Broker(bench)
    broker.begin()
    try:
        heard = Subscriber(broker.port, b"cameras/answers")
        url = f"mqtt://culm:se%20cret@127.0.0.1:{broker.port}/cameras/answers"
        wrong = url.replace("se%20cret", "wr-ong")
        process = begin(bench, answers_to(bench, ["file", url, wrong]))
        until(process, "answers, and a word on the wrong password", lambda: heard.lines and warnings(process.out, "refuses"))
        equal(heard.lines[0]["query"], "one", "the query of an answer")
        broker.end()
        until(process, "a word that it has gone", lambda: len(warnings(process.out, "the newest answers")) == 2)
        broker.begin()
        heard = Subscriber(broker.port, b"cameras/answers")
        until(process, "answers again", lambda: heard.lines and warnings(process.out, "taken again"))
        os.kill(broker.process.pid, signal.SIGSTOP)
        seen = len(fresh(process.out, "one"))
        until(process, "answers in the file, while the broker is frozen", lambda: len(fresh(process.out, "one")) > seen + 10)
        os.kill(broker.process.pid, signal.SIGCONT)
        seen = len(heard.lines)
        until(process, "answers again", lambda: len(heard.lines) > seen + 10)
        (sent, _), (none, _) = stop(bench, process)
        check(sent > 0 and none == 0, f"{sent} and {none} were sent")
        said = [open(path, encoding="utf-8").read() for path in (process.out_path, process.err_path, os.path.join(process.out, "events.jsonl"))]
        check(not any("cret" in text or "wr-ong" in text for text in said), "a password is there")
    finally:
        broker.end()


def large_messages(bench):
    """A broker that hangs up on large messages: those are lost after some tries, and do not hold up those behind them."""
    two_models(bench)
    broker = Broker(bench, "max_packet_size 2000\n")
    broker.begin()
    try:
        heard = Subscriber(broker.port, b"x")
        path = answers_to(bench, ["file", f"mqtt://culm:se%20cret@127.0.0.1:{broker.port}/x"], (("one", "a"), ("two", "b")), fps=2)
        with open(path, encoding="utf-8") as file:
            text = file.read().split("name: two")
        with open(path, "w", encoding="utf-8") as file:  # which sees nothing, and is brief
            file.write(text[0] + "name: two" + text[1].replace("score: 0.05", "score: 1"))
        process = begin(bench, path)

        def lost():
            status = json.loads(bench.run("edge", "status", process.out, "--json").out or "{}")
            return sum(one["lost"] for one in status.get("answers", []))
        until(process, "a large answer that was given up", lost)
        seen = len(heard.lines)
        until(process, "a brief answer behind it", lambda: len(heard.lines) > seen)
        check(all(line["query"] == "two" for line in heard.lines), "a large answer came")
        stop(bench, process)
    finally:
        broker.end()


def nobody(bench):
    """Peers that take a connection and never say a word, or do not even take it, cost nothing, and the run ends in time; addresses that are none."""
    two_models(bench)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        ports, held = [one.getsockname()[1] for one in (silent, full)], []
        for _ in range(4):  # a queue that is full: who calls then waits
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(("127.0.0.1", ports[1]))
        to = ["file"] + [f"{scheme}://127.0.0.1:{port}/x" for scheme in ("mqtt", "http") for port in ports]
        if not os.path.exists("/usr/lib/x86_64-linux-gnu/libmosquitto.so.1") and not shutil.which("mosquitto"):
            to = [one for one in to if not one.startswith("mqtt")]
        process = begin(bench, answers_to(bench, to))
        until(process, "answers", lambda: len(fresh(process.out, "one")) > 20)
        for sent, _ in stop(bench, process):
            equal(sent, 0, "answers that anybody got")
    for to in ("mqtt://host", "mqtt://host/a/#", "mqtt://:1/x", "mqtt://host:0/x", "mqtt://@host/x", "ftp://host/x", "unix:", "http://", "http:///x", "x", "unix:" + "d" * 200):
        ended = bench.run("edge", "run", answers_to(bench, ["file", to.replace("host", "user:se-cret@host") if "@" not in to else to]), "--out", bench.path("refused"))
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "answers.to" in ended.err and "se-cret" not in ended.err, f"{to}: {ended.code}: {ended.err}")
        check(not os.path.exists(bench.path("refused")), "a directory is left")
    ended = bench.run("edge", "run", answers_to(bench, ["file"] * 9))
    check(ended.code == 3 and "answers.to" in ended.err, f"{ended.code}: {ended.err}")


cases.add("answers to a Unix socket, which goes away and hangs", unix_socket, seconds=10, first=True)
cases.add("answers to a web server, which fails, hangs and does not want them", web_server, seconds=12)
cases.add("answers to a broker, which is killed and frozen", mqtt_broker, seconds=12)
cases.add("answers to a broker that hangs up on large ones", large_messages, seconds=8)
cases.add("answers to nobody; addresses that are none", nobody, seconds=8)
if __name__ == "__main__":
    cases.run()
