#!/usr/bin/env python3
"""How an edge run is watched: `culm edge status`, and `edge.health` for monitors, whatever its callers do."""
import errno
import http.client
import json
import os
import re
import signal
import socket
import time

from edge_harness import begin, events_of, fresh, told, two_models, until, workload
from harness import Cases, Skipped, check, equal, wait_until

cases = Cases(kind="waits", job="edge")


def status_of(bench, out, code=0, command=("edge", "status")):
    ended = bench.run(*command, out, "--json")
    equal(ended.code, code, f"exit code of {' '.join(command)}: {ended.out}{ended.err}")
    equal(len(ended.out.splitlines()), 1, "lines of JSON")
    return json.loads(ended.out)


def health_of(out):
    """HOST, PORT of a run, once it says them."""
    wait_until(lambda: told(out, "start"), 120, "the start")
    host, port = next(event for event in events_of(out) if event["event"] == "start")["health"].rsplit(":", 1)
    return host.strip("[]"), int(port)


def get(at, path, method="GET"):
    line = http.client.HTTPConnection(*at, timeout=60)
    try:
        line.request(method, path)
        response = line.getresponse()
        return response.status, response.read().decode(), response
    finally:
        line.close()


def states(bench):
    """A run that is well, frozen, killed, stopped; and what is no run."""
    two_models(bench)
    path, deep = workload(bench, [("one", "a"), ("two", "b")]), "/".join(["d" * 40] * 4)
    out = bench.path(deep, "out")
    process = begin(bench, path, out=f"{deep}/out")  # longer than the address of a socket may be
    until(process, "answers", lambda: fresh(process.out, "one") and fresh(process.out, "two"))

    def now():
        ended = bench.run("edge", "status", out, "--json")
        return json.loads(ended.out)
    until(process, "a look", lambda: now().get("queries") and all(query["answer_age_s"] is not None for query in now()["queries"]))
    status = status_of(bench, out)
    equal((status["state"], status["ill"], status["pid"]), ("running", None, process.pid), "state")
    equal([(feed["feed"], feed["state"], feed["outages"]) for feed in status["feeds"]], [("hall", "up", 0)], "feeds")
    for query in status["queries"]:
        equal((query["feed"], query["state"]), ("hall", "original"), "a query")
        equal(query["frames"], query["processed"] + sum(query["why"].values()), "frames, by the reasons why they were dropped")
        check(query["bytes"] > 0 and 0 <= query["answer_age_s"] < 300, f"{query}")
    equal(status["began"], events_of(out)[0]["began"], "when it began")
    shown = bench.run("edge", "status", out)
    equal(shown.code, 0, "exit code")
    check(all(word in shown.out for word in ("running", "hall", "one", "two", "memory")), shown.out)
    equal(status_of(bench, out, command=("status",))["state"], "running", "culm status")
    os.kill(process.pid, signal.SIGSTOP)
    try:
        equal(status_of(bench, out, 1)["state"], "frozen", "state of a process that was stopped")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: bench.run("edge", "status", out).code == 0, 120, "a run that goes on")
    os.kill(process.pid, signal.SIGKILL)
    bench.end(process)
    check(os.path.exists(os.path.join(out, "socket")), "no socket is left, so nothing is shown")
    equal(status_of(bench, out, 1)["state"], "dead", "state of a process that was killed")
    check("killed" in bench.run("edge", "status", out).out, "no word on why")
    process = begin(bench, path, out=f"{deep}/out")
    until(process, "a run in the place of one that was killed", lambda: now()["state"] == "running")
    status_of(bench, out)
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    status = status_of(bench, out)
    equal((status["state"], status["ill"]), ("ended", None), "state")
    equal([query["query"] for query in status["queries"]], ["one", "two"], "queries of a run that has ended")
    equal(bench.run("edge", "status", out).code, 0, "exit code")
    check(not os.path.exists(os.path.join(out, "socket")), "its socket is left")
    os.mkdir(bench.path("training"))
    with open(bench.path("training", "events.jsonl"), "w", encoding="utf-8") as file:
        file.write('{"event":"start","job":"gnn"}\n')
    for place, word in ((bench.path("nowhere"), "not the directory"), (bench.path("pictures"), "not the directory"),
                        (path, "not the directory"), (bench.path("training"), "culm gnn")):
        ended = bench.run("edge", "status", place)
        check(ended.code == 3 and not ended.out and len(ended.err.splitlines()) == 1 and word in ended.err, f"{place}: {ended.code}: {ended.err}")


def stream_down(bench):
    """A camera that is off: the run is not well, and says so everywhere; with another feed, it is."""
    two_models(bench)
    with socket.socket() as silent:  # whose port is taken, and refuses
        silent.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for more, code in ("", 1), (f"  hall: {{file: {bench.path('pictures')}, fps: 10, loop: true}}\n", 0):
            path = bench.path("w.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"feeds:\n  cam: {{file: \"{url}\", fps: 10}}\n{more}queries:\n  - {{name: one, model: {bench.path('a')}.cfg, feed: cam}}\n")
                if more:
                    file.write(f"  - {{name: two, model: {bench.path('b')}.cfg, feed: hall}}\n")
                file.write("edge: {health: localhost:0}\n")
            process = begin(bench, path, out=f"watched-{code}")
            at = health_of(process.out)

            def cam():
                feeds = json.loads(bench.run("edge", "status", process.out, "--json").out).get("feeds", [])
                return next((feed for feed in feeds if feed["feed"] == "cam"), {"state": "-"})
            until(process, "a word that it is off", lambda: cam()["state"] == "down" and (not code or get(at, "/healthz")[0] == 503))
            equal(cam()["outages"], 1, "outages")
            status_of(bench, process.out, code)
            equal(get(at, "/healthz")[:2], (503, "no feed gives frames\n") if code else (200, "ok\n"), "health")
            check('culm_edge_feed_up{feed="cam"} 0\n' in get(at, "/metrics")[1], "the figures say that it is up")
            os.kill(process.pid, signal.SIGTERM)
            bench.end(process)


def metrics(bench):
    """Every figure has its help and type before it, and counters their names; addresses that nobody can listen at are refused in one line."""
    two_models(bench)
    path = workload(bench, [("one", "a")], edge="health: 127.0.0.1:0")
    process = begin(bench, path)
    at = health_of(process.out)
    until(process, "figures", lambda: "culm_edge_query_processed_total" in get(at, "/metrics")[1])
    code, text, response = get(at, "/metrics")
    equal(code, 200, "code")
    check(response.getheader("Content-Type").startswith("text/plain; version=0.0.4"), "another type")
    kinds, helps, samples = {}, set(), []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helps.add(line.split()[2])
        elif line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        else:
            found = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)', line)
            check(found, f"no figure: {line}")
            samples.append((found[1], float(found[4])))
            check(found[1] in helps and found[1] in kinds, f"{found[1]} comes before its help or type")
    for name, kind in kinds.items():
        equal(name.endswith("_total"), kind == "counter", f"the kind of {name}")
    names = [name for name, _ in samples]
    check(len(names) == len(set(names)), "a figure is there twice")  # of one feed and one query
    values = dict(samples)
    check(values["culm_edge_query_processed_total"] > 0 and values["culm_edge_feed_up"] == 1 and values["culm_edge_healthy"] == 1, f"{values}")
    equal(get(at, "/nowhere")[0], 404, "what is not there")
    equal(get(at, "/metrics", "POST")[0], 405, "POST")
    equal(get(at, "/healthz", "HEAD")[:2], (200, ""), "HEAD")
    equal(json.loads(get(at, "/status?x")[1])["state"], "running", "state")
    for health, word in ((f"127.0.0.1:{at[1]}", "Address already in use"), ("192.0.2.1:9464", "Cannot assign"), ("127.0.0.1:70000", "70000"), ("nonsense", "nonsense")):
        ended = bench.run("edge", "run", path, "--set", f"edge.health={health}", "--out", bench.path("refused"))
        check(ended.code == 3 and len(ended.err.splitlines()) == 1 and word in ended.err and "edge.health" in ended.err, f"{health}: {ended.code}: {ended.err}")
        check(not os.path.exists(bench.path("refused")), "a directory is left")
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    with socket.socket() as line:
        check(line.connect_ex(at) == errno.ECONNREFUSED, "somebody still listens")


def figure_of(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(rf"^{name}:\s*(\d+)", file.read(), re.M)[1])


def hostile(bench):
    """Callers who never send, never read, or never end their request: whoever asks properly is answered meanwhile, and the run has no more threads,
    descriptors or memory than before."""
    two_models(bench)
    process = begin(bench, workload(bench, [("one", "a")], edge="health: 127.0.0.1:0"))
    at = health_of(process.out)
    until(process, "a run that is well", lambda: get(at, "/healthz")[0] == 200 and fresh(process.out, "one"))
    threads, memory = figure_of(process.pid, "Threads"), figure_of(process.pid, "VmRSS")
    lines = []
    try:
        for number in range(300):
            line = socket.create_connection(at)
            line.setblocking(False)
            lines.append(line)
            if number % 3:
                text = b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 60000 if number % 3 == 1 else b"GET /metrics HTTP/1.1\r\n\r\n" * 40
                try:
                    line.send(text)
                except OSError:  # it was shown out before
                    pass
            if number % 30 == 0:
                equal(get(at, "/healthz")[:2], (200, "ok\n"), "health, while others hold the line")
        for text in b"\x00" * 100, b"\r\n\r\n", b"GET\r\n\r\n", b"GET nothing HTTP/1.1\r\n\r\n", b"\xff" * 5000:
            with socket.create_connection(at) as line:
                line.settimeout(60)
                line.sendall(text)
                try:
                    check(line.recv(100).startswith(b"HTTP/1.1 4"), f"{text[:20]} was taken")
                except ConnectionResetError:
                    pass
        equal(figure_of(process.pid, "Threads"), threads, "threads")
        check(len(os.listdir(f"/proc/{process.pid}/fd")) < 100, "it holds them all")
        check(figure_of(process.pid, "VmRSS") < memory + 4096, f"{memory} KB before, now {figure_of(process.pid, 'VmRSS')}")
        seen, begun = len(fresh(process.out, "one")), time.monotonic()
        until(process, "answers", lambda: len(fresh(process.out, "one")) > seen + 5)
        slow = socket.create_connection(at)
        slow.settimeout(0.2)
        lines.append(slow)

        def cut_off():
            try:
                slow.send(b"X")
                return slow.recv(10) == b""
            except socket.timeout:
                return False
            except OSError:
                return True
        until(process, "the end of a request that takes for ever", cut_off)
        check(time.monotonic() - begun < 120, "it took its time")
    finally:
        for line in lines:
            line.close()
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")


def hung_disk(bench):
    """A disk that takes a write and never ends it: the loop stands still, which monitors are told, and goes on when the disk does."""
    slow = os.path.join(os.path.dirname(bench.culm), "../../tests/system/slow_disk.so")
    if not os.path.exists(slow):
        raise Skipped("tests/system/slow_disk.so is not built")
    two_models(bench)
    gate = bench.path("gate")
    sanitized = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    process = begin(bench, workload(bench, [("one", "a")], edge="health: 127.0.0.1:0"),
                    env=os.environ | {"LD_PRELOAD": os.path.abspath(slow), "ASAN_OPTIONS": sanitized, "SLOW_WRITES": bench.path("out", "events.jsonl"), "SLOW_GATE": gate})
    at = health_of(process.out)
    until(process, "a run that is well", lambda: get(at, "/healthz")[0] == 200)
    os.mkfifo(gate)
    until(process, "a word that it stands still", lambda: get(at, "/healthz")[:2] == (503, "frozen\n"))
    equal(status_of(bench, process.out, 1)["state"], "frozen", "state")
    check("culm_edge_healthy 0\n" in get(at, "/metrics")[1], "the figures say that it is well")
    with open(gate, "wb"):  # whoever waits goes on, and who comes later does not wait
        until(process, "a run that is well again", lambda: get(at, "/healthz")[0] == 200)
        os.remove(gate)
    equal(status_of(bench, process.out)["state"], "running", "state")
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")


def no_socket(bench):
    """A folder in whose place for the socket something else lies: the run says so, goes on, and is told from a dead one."""
    two_models(bench)
    os.makedirs(bench.path("out", "socket"))
    process = begin(bench, workload(bench, [("one", "a")]))
    until(process, "a word on it, and answers", lambda: told(process.out, "warning") and fresh(process.out, "one"))
    equal(status_of(bench, process.out, 1)["state"], "silent", "state")
    os.kill(process.pid, signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    equal(status_of(bench, process.out)["state"], "ended", "state")


cases.add("status: well, frozen, killed, stopped; what is no run", states, seconds=10, first=True)
cases.add("a camera is off: status and health", stream_down, seconds=6, first=True)
cases.add("figures for Prometheus; addresses that cannot be", metrics, seconds=5, first=True)
cases.add("callers who never send, read or end", hostile, seconds=8, first=True)
cases.add("a disk that hangs: the run is told to be frozen", hung_disk, seconds=13)
cases.add("no socket can be in the folder", no_socket)
if __name__ == "__main__":
    cases.run()
