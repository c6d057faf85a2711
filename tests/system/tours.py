#!/usr/bin/env python3
"""The tours of docs: everything that they say to type is typed, in an empty folder, and what comes of it is what they show."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import Cases, Failed, Skipped, check, equal, read_events, wait_until
from transcript import follow, masked, matches

cases = Cases()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PICTURES = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"
# Words that the test adds to commands. Nobody is missed because the machine is busy; and what the page interrupts stands still until it has
# been, behind the checkpoint that the page waits for.
CALM = "--set cluster.suspect_ms=86400000 --set cluster.stuck_ms=86400000"
ADDED = {"culm train": (CALM, "--fault worker=3,step=50,how=stop"), "culm gnn train": (CALM, "--fault node=server:1,epoch=50,how=stop")}


def search_path(culm):
    return os.path.dirname(culm) + os.pathsep + os.environ["PATH"]


def read(name):
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        return file.read()


def lie(line):
    """The line with one of its digits another, or None: what is in it may differ."""
    for digit in re.finditer(r"\d", line):
        other = line[:digit.start()] + str(9 - int(digit.group())) + line[digit.end():]
        if masked(other) != masked(line):
            return other
    return None


def tour(bench, name, needs):
    """A page, and then the same page with each of its numbers changed, one after the other: that must be noticed."""
    if not needs():
        raise Skipped("the data of the page is not installed")
    folder = bench.path("runs", "tour-of-a-job")
    os.makedirs(folder)
    os.symlink(os.path.join(ROOT, "examples"), bench.path("examples"))
    told = follow(read(name), folder, search_path(bench.culm), ADDED)
    lies = 0
    for command, printed in told:
        for number, line in enumerate(command.shown or ()):
            wrong = lie(line)
            if wrong:
                lies += 1
                changed = command.shown[:number] + [wrong] + command.shown[number + 1:]
                check(not matches(changed, printed), f"line {command.line}: nobody would notice '{wrong}'")
    bench.note(f"{len(told)} commands, and {lies} numbers of what they print")
    check(lies >= 5, "the page shows hardly a number: it proves nothing")


cases.add("docs/tour-train.md", tour, "tour-train.md", lambda: shutil.which("bible"), seconds=15, first=True, job="train",
          reads="docs/tour-train.md")
cases.add("docs/tour-gnn.md", tour, "tour-gnn.md", lambda: True, seconds=12, first=True, job="gnn", reads="docs/tour-gnn.md")
cases.add("docs/tour-edge.md", tour, "tour-edge.md", lambda: os.path.exists(PICTURES), seconds=50, job="edge", reads="docs/tour-edge.md")


def beginnings(_):
    """The block that is not run is the same on each page, but for a folder of its own, and prepares what the case finds."""
    for job in ("train", "gnn", "edge"):
        first = re.search(r"^```sh\n(.*?)^```$", read(f"tour-{job}.md"), re.M | re.S).group(1).splitlines()
        check(first[0].startswith("./dev build "), f"tour-{job}.md does not begin with ./dev build: {first[0]}")
        folder = f"runs/tour-{job}"
        equal(first[1:], ['export PATH="$PWD/build/src/cli:$PATH"', f"mkdir -p {folder} && cd {folder}"], f"the rest of that block of tour-{job}.md")


cases.add("how each page begins", beginnings, first=True)

def networks_go_on(bench):
    """Control-C at examples/edge/specialised.py reaches the training, which saves what it has; the same command goes on, another is refused."""
    if not os.path.exists(PICTURES):
        raise Skipped("dataset-fashion-mnist is not installed")
    out, told = bench.path("three", "worn-run"), bench.path("told")
    words = [sys.executable, os.path.join(ROOT, "examples", "edge", "specialised.py"), bench.path("three"), "--only", "worn", "--culm", bench.culm]

    def stop(events):
        with open(told, "w", encoding="utf-8") as file:
            process = subprocess.Popen([*words, "--steps", "100000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file,
                                       start_new_session=True)
        bench.children.append(process)
        wait_until(lambda: sum(event["event"] == "step" for event in read_events(os.path.join(out, "events.jsonl"))) >= events, 120, "a step")
        os.killpg(process.pid, signal.SIGINT)
        equal(process.wait(120), 75, "exit code")
        with open(told, encoding="utf-8") as file:
            equal(file.read().splitlines()[-1], f"{words[1]}: stopped; the same command goes on", "the last line")

    stop(1)
    done = max(event["step"] for event in read_events(os.path.join(out, "events.jsonl")) if event["event"] == "step")
    stop(done + 1)
    steps = [event["step"] for event in read_events(os.path.join(out, "events.jsonl")) if event["event"] == "step"]
    equal(steps, list(range(1, len(steps) + 1)), "steps of the two")
    for more, code, said in ((["--steps", "7"], 1, f"{words[1]}: '{out}' was trained with other settings than these"),
                             (["--culm", "no-culm"], 2, "specialised.py: error: there is no program 'no-culm'"),
                             (["--data", "nowhere"], 2, "specialised.py: error: there is no folder 'nowhere'")):
        refused = subprocess.run([*words, "--steps", "100000", *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        equal(refused.returncode, code, "exit code")
        check(refused.stderr.splitlines()[-1].startswith(said), refused.stderr)


cases.add("Control-C at the networks of the tour of the edge", networks_go_on, seconds=8, job="edge")

PAGE = """
```sh
not run
```
```sh
printf 'one\\n3.14\\n' > file
mkfifo never
```
```console
$ cat file
one
3.14
$ cat file \\
  file
one
...
one
3.14
$ echo '[   17.0 s] step 1 took 12 ms' beside 'pid 7'
[    0.5 s] step 1 took 9.5 ms beside pid 1234
$ cat
$ cat file never
one
...
^C
...
$ echo a b c
a ... c
```
"""
# What may be said instead, and what is then missed.
LIES = [("one\n3.14\n$", "one\n3.15\n$", "3.15"), ("one\n3.14\n$", "one\n$", "nothing more"), ("\n...\none", "\none", "'one'"),
        ("one\n3.14\n$", "3.14\none\n$", "3.14"),
        ("step 1 took 9.5", "step 2 took 9.5", "step 2"), ("9.5 ms beside", "9.5 s beside", "9.5 s"), ("a ... c", "a ... d", "a ... d"),
        ("$ cat\n", "$ cat\n...\nmore\n", "more"), ("$ cat\n", "$ false\n", "exit code 1"),
        ("cat file never", "echo two", "ended by itself")]


def pages_that_lie(bench):
    """A page that tells the truth is believed; with each of these lies it is not."""
    def told(page):
        folder = tempfile.mkdtemp(dir=bench.folder)
        return follow(page, folder, search_path(bench.culm), {})

    equal([printed for _, printed in told(PAGE)][1:3], [["one", "3.14"], ["one", "3.14"] * 2], "what was printed")
    for true, false, wrong in LIES:
        check(true in PAGE, f"the page has no {true!r}")
        try:
            told(PAGE.replace(true, false, 1))
        except Failed as failed:
            check(wrong in str(failed).split(", but\n")[0], f"{false!r}: not found for the right reason: {failed}")
        else:
            raise Failed(f"{false!r} was believed")


cases.add("pages that lie", pages_that_lie, first=True)

if __name__ == "__main__":
    cases.run()
