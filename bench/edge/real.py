#!/usr/bin/env python3
"""Runs a workload of published models on clips in little memory, and compares what comes of it with what was predicted.

    python3 real.py CULM ../shared/data/edge FOLDER [--workload corridor] [--fps 3] [--seconds 20] [--memory min,50%] [--limit cgroup|rlimit]

For each limit of memory: a first run on its own, whose profile.json `culm edge plan --profile` predicts from; then a second one with that
profile, in a memory cgroup (v1 or v2) that holds the limit, what the first one took beside its arena and what its ffmpegs took. Where no such group
can be made, or with `--limit rlimit`, the process alone is limited, by RLIMIT_DATA: to the limit and what it had beside its arena that could be written
to; more is not killed but refused, so no load may fail. `limited_by` says which. It must not be
killed; the arena, as this process sees it in /proc/PID/smaps, must be what events say, and some of it given back; the share of frames answered in
time must be within `--within` points (5) of what was predicted. One line of JSON a limit; exit code 1 if something does not hold. Without the
models, the clips or ffmpeg, or where nothing can limit memory, it says so and ends with 0.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "system"))
from harness import children_of, resident

GROUPS = "/sys/fs/cgroup"
ROOM = 4 << 20  # what a process may take more of at another time


def own_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().split("\n")[:-1]]


def status(pid, key):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(key)), 0)


class Group:
    """A memory cgroup of its own. OSError where none can be made."""
    counts = "VmRSS"  # what counts of a process

    def __init__(self, _folder):
        v1 = os.path.isdir(f"{GROUPS}/memory")
        self.name = f"cgroup {'v1' if v1 else 'v2'}"
        self.path = os.path.join(GROUPS, "memory" if v1 else "", f"culm-real-{os.getpid()}")
        self.limit = "memory.limit_in_bytes" if v1 else "memory.max"
        os.mkdir(self.path)

    def hold(self, limit):
        with open(os.path.join(self.path, self.limit), "w", encoding="ascii") as file:
            file.write(str(limit))

    def around(self, command):
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh", *command]

    @staticmethod
    def of_children(pid):
        return sum(status(child, "VmHWM") for child in children_of(pid))

    def end(self):
        os.rmdir(self.path)


class Rlimit:
    """RLIMIT_DATA of the process: all that is its own and can be written to, present or not. Its ffmpegs lift it from themselves."""
    counts, name = "VmData", "RLIMIT_DATA"

    def __init__(self, folder):
        with open("/proc/self/status", encoding="ascii") as file:
            if "VmData:" not in file.read():
                raise OSError("/proc/PID/status has no VmData")
        self.path, self.kilobytes = os.path.abspath(os.path.join(folder, "unlimited")), 0
        os.makedirs(self.path, exist_ok=True)
        with open(os.path.join(self.path, "ffmpeg"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nulimit -S -d unlimited && exec {shutil.which("ffmpeg")} "$@"\n')
        os.chmod(os.path.join(self.path, "ffmpeg"), 0o755)

    def hold(self, limit):
        self.kilobytes = limit >> 10

    def around(self, command):
        return ["sh", "-c", f'ulimit -S -d {self.kilobytes} && PATH="{self.path}:$PATH" && export PATH && exec "$@"', "sh", *command]

    @staticmethod
    def of_children(_pid):
        return 0

    def end(self):
        shutil.rmtree(self.path)


def limiter(args):
    """What limits memory here, and why what comes before it does not; None: nothing does."""
    why = []
    for kind, make in (("cgroup", Group), ("rlimit", Rlimit)):
        if args.limit in (None, kind):
            try:
                group = make(args.folder)
            except OSError as error:
                why.append(f"{kind}: {error}")
                continue
            try:
                group.hold(1 << 40)
                return group, why
            except OSError as error:
                why.append(f"{kind}: {error}")
                group.end()
    return None, why


def run(words, out, seconds, group, limited):
    """A run that is watched: its events, the arena's sizes as seen, and what it and its children took at most beside the arena, as the group counts."""
    command = list(words) + ["--out", out]
    if limited:
        command = group.around(command)
    log = os.path.join(out, "events.jsonl")
    shutil.rmtree(out, ignore_errors=True)
    seen, beside, arena = [], 0, None
    with open(out + ".err", "wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        end = time.monotonic() + 600  # until it begins
        while process.poll() is None and time.monotonic() < end:
            if not arena and os.path.exists(log):
                start = next((event for event in own_lines(log) if event["event"] == "start"), None)
                if start:
                    arena, end = [int(edge, 16) for edge in start["arena"]], time.monotonic() + seconds
            try:
                now = 0
                if arena:  # a look takes a while, so that what moves meanwhile would be seen twice: it is stopped
                    process.send_signal(signal.SIGSTOP)
                    time.sleep(0.002)
                    now = resident(process.pid, *arena)
                    process.send_signal(signal.SIGCONT)
                took = status(process.pid, group.counts) - now + group.of_children(process.pid)
            except OSError:
                continue
            if arena:
                seen.append(now)
                beside = max(beside, took)
            time.sleep(0.2)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return own_lines(log) if os.path.exists(log) else [], seen, beside, code


def share(queries):
    """Of the frames, on average over queries."""
    return sum(query["processed"] / max(1, query["frames"]) for query in queries) / len(queries)


def measure(args, path, memory, group):
    sets = ["--set", f"edge.memory={memory}"]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for feed in re.findall(r"^  (\w+): \{file:", text, re.M):
        sets += ["--set", f"feeds.{feed}.fps={args.fps}"]
    words = [args.culm, "edge", "run", path, *sets]
    out = os.path.join(args.folder, f"real-{memory.strip('%')}")
    events, _, beside, code = run(words, out + "-first", args.seconds, group, False)
    if code or not events or events[-1]["event"] != "done":
        sys.exit(f"the first run at {memory} ended with {code}: see {out}-first.err")
    profile = os.path.join(out + "-first", "profile.json")
    plan = json.loads(subprocess.run([args.culm, "edge", "plan", path, *sets, "--profile", profile, "--for", str(args.seconds), "--json"],
                                     check=True, capture_output=True, text=True).stdout)
    row = {"memory": memory, "limit_bytes": events[0]["limit_bytes"], "first": round(share(events[-1]["queries"]), 4),
           "predicted": round(share(plan["queries"]), 4)}
    row["limited_by"], row["limited_to"] = group.name, row["limit_bytes"] + beside + ROOM
    group.hold(row["limited_to"])
    events, seen, _, code = run([*words, "--profile", profile], out, args.seconds, group, True)
    told = [event["resident_bytes"] for event in events if event["event"] in ("load", "evict")]
    done = events[-1] if events else {}
    row.update(code=code, seen_bytes=[min(seen, default=0), max(seen, default=0)], told_bytes=[min(told, default=0), max(told, default=0)])
    wrong = []
    if code or done.get("event") != "done":
        wrong.append(f"it ended with {code}")
    else:
        row["processed"] = round(share(done["queries"]), 4)
        row["by_query"] = {query["query"]: round(query["processed"] / max(1, query["frames"]), 3) for query in done["queries"]}
        if abs(row["processed"] - row["predicted"]) > args.within / 100:
            wrong.append(f"it is more than {args.within} points from what was predicted")
        failed = [event for event in events if event["event"] == "load_failed"]
        if failed:
            wrong.append(f"loads failed, {len(failed)}: {failed[0]['error']}")
        if max(seen) > done["limit_bytes"] or max(seen) < min(told) or max(seen) > max(max(told), done["resident_max_bytes"]):
            wrong.append("the arena is not what events say")
        if not any(later < earlier for earlier, later in zip(seen, seen[1:])):
            wrong.append("nothing was given back")
    row["wrong"] = wrong
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("culm")
    parser.add_argument("edge", help="folder with detectors, classifiers, clips and golden")
    parser.add_argument("folder")
    parser.add_argument("--workload", default="corridor")
    parser.add_argument("--fps", type=float, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--memory", default="min,50%")
    parser.add_argument("--limit", choices=["cgroup", "rlimit"], help="default: a cgroup, or else RLIMIT_DATA")
    parser.add_argument("--within", type=float, default=5, help="points that the share of frames may be from what was predicted")
    args = parser.parse_args()
    args.culm, args.folder = os.path.abspath(args.culm), os.path.abspath(args.folder)
    for needed in (os.path.join(args.edge, "golden", "structure.json"), os.path.join(args.edge, "clips")):
        if not os.path.exists(needed):
            print(f"skipped: there is no {needed}")
            return
    if not shutil.which("ffmpeg"):
        print("skipped: ffmpeg is not installed")
        return
    os.makedirs(args.folder, exist_ok=True)
    subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "workloads.py"), args.edge, args.folder,
                    args.workload], check=True, stdout=subprocess.DEVNULL)
    group, why = limiter(args)
    if not group:
        print(f"skipped: nothing can limit memory ({'; '.join(why)})")
        return
    if why:
        print(f"limited by {group.name}, since there is no {'; '.join(why)}", file=sys.stderr)
    wrong = False
    try:
        for memory in args.memory.split(","):
            row = measure(args, os.path.join(args.folder, f"{args.workload}.yaml"), memory, group)
            print(json.dumps(row), flush=True)
            wrong |= bool(row["wrong"])
    finally:
        group.end()
    sys.exit(1 if wrong else 0)


main()
