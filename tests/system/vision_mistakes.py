#!/usr/bin/env python3
"""What careless users do to `culm merge`, `culm edge` and `culm predict`, and what happens around them: nothing that is there is
lost or written over, what is wrong is said in one line, and a run whose reader is gone goes on."""
import json
import os
import shutil
import signal
import subprocess

from harness import Cases, Skipped, check, equal, wait_until
from vision_harness import killed_in_search, model, two_queries

cases = Cases(kind="waits", job="edge")
LOOP = {"loop": True, "fps": 20}


def one_line(bench, code, what, *words):
    ended = bench.run(*words)
    equal(ended.code, code, f"exit code of {words}; {ended.err!r}")
    check(ended.err.count("\n") == 1 and what in ended.err, f"'{ended.err}' does not say '{what}' in one line")


def told(bench, *words):
    """Ends well; with its events."""
    return with_events(bench.run(*words, "--json"))


def with_events(ended):
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    ended.events = [json.loads(line) for line in ended.out.splitlines()]
    return ended


def tree(folder):
    """All that is in it but what a refused command may have told."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in sorted(set(names) - {"events.jsonl", "lock"}):
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


# --- merge ------------------------------------------------------------------------------------------------------------------


def feed_of_nothing(bench):
    """A feed that cannot be merged by is refused before there is a package, so that the same command is right once it is mended."""
    path = two_queries(bench, merge={"method": "max"})
    out = bench.path("package")
    for what, feed in (("images-2", "file=images-2"), ("the crop reaches to 9 x 8", "crop=[1,0,8,8]")):
        one_line(bench, 3, what, "merge", path, "--out", out, "--set", f"feeds.camera.{feed}")
        check(not os.path.exists(out), "it has left something")
    os.makedirs(out)
    with open(os.path.join(out, "mine"), "w", encoding="ascii") as file:
        file.write("mine\n")
    one_line(bench, 3, "images-2", "merge", path, "--out", out, "--set", "feeds.camera.file=images-2")
    equal(os.listdir(out), ["mine"], "what is there")
    equal(bench.run("merge", path, "--out", out).code, 0, "exit code of the mended command")


def slip_on_resume(bench):
    """--resume with a feed that is not there leaves all as it was: what GEMEL had found, and the frames that the package is about."""
    path = two_queries(bench, merge={"method": "gemel-fixed", "steps": 20, "lr": 0.003})
    killed_in_search(bench, path, "package")
    before = tree(bench.path("package"))
    one_line(bench, 3, "images-2", "merge", path, "--out", bench.path("package"), "--resume", "--set", "feeds.camera.file=images-2")
    equal(tree(bench.path("package")), before, "the package")
    ended = told(bench, "merge", path, "--out", bench.path("package"), "--resume")
    equal(ended.one("start")["after"], 0, "the round behind which it goes on")


def other_model(bench):
    """A model that is another one by now: merging goes on behind the rounds of the first one, and says so. A workload that has nothing to do with
    the package is refused."""
    path = two_queries(bench, merge={"method": "max"})
    equal(bench.run("merge", path, "--out", bench.path("package")).code, 0, "exit code")
    before = tree(bench.path("package"))
    for name in "ab":
        bench.config(model(3, [1, 2]), f"{name}.yaml")
    words = [word for i in range(2) for word in ("--set", f"queries[{i}].name=other-{i}")]
    one_line(bench, 3, "has none of the workload's queries", "merge", path, "--out", bench.path("package"), "--resume", *words)
    equal(tree(bench.path("package")), before, "the package")
    bench.config(model(1, [1, 1]), "a.yaml")
    ended = told(bench, "merge", path, "--out", bench.path("package"), "--resume")
    equal({key: ended.one("goes_on").get(key) for key in ("kept", "again", "changed")}, {"kept": [], "again": ["a"], "changed": ["b"]}, "what is told")
    check(all(event["round"] > ended.one("start")["after"] for event in ended.all("merged")), "a round of the first model was told again")


def delivered(bench):
    """A package that was copied here, without what merging writes beside it, is not merged over."""
    path = two_queries(bench, merge={"method": "max"})
    told(bench, "merge", path, "--out", bench.path("package"))
    for name in ("config.yaml", "events.jsonl", "lock"):
        os.unlink(bench.path("package", name))
    before = tree(bench.path("package"))
    one_line(bench, 3, "a run is already there ('current')", "merge", path, "--out", bench.path("package"))
    equal(tree(bench.path("package")), before, "the package")


def shown_and_exported(bench):
    """What was merged is a model as any other: shown, checked, and written as a file that answers the same."""
    path = two_queries(bench, merge={"method": "max"})
    out = bench.path("package")
    measured = {query["query"]: (query["merged"], query["original"]) for query in told(bench, "merge", path, "--out", out).one("done")["queries"]}
    for which, originals in enumerate(("never", "auto")):
        run = told(bench, "edge", "run", path, "--package", out, "--out", bench.path("run"), "--for", "0.3", "--set", f"edge.originals={originals}",
                   "--set", "edge.memory=all")
        equal({event["query"]: event["accuracy"] for event in run.all("query")}, {query: each[which] for query, each in measured.items()},
              f"accuracies of queries, originals: {originals}")
    for query in "ab":
        what = f"{out}:{query}"
        shown = [json.loads(bench.run("model", action, what, "--json").out) for action in ("show", "import")]
        equal(shown[0]["parameters"], shown[1]["parameters"], "parameters")
        equal(bench.run("model", "export", what, "--onnx", bench.path("it.onnx")).code, 0, "exit code of export")
        answers = [[json.loads(line)["classes"] for line in bench.run("predict", model, "images", "--json").out.splitlines()]
                   for model in (what, "it.onnx")]
        check(len(answers[0]) == 48 and answers[0] == answers[1], f"{query}: the exported model answers otherwise")
    one_line(bench, 3, "it has no query 'c'", "model", "export", f"{out}:c", "--onnx", bench.path("c.onnx"))


def options_of_others(bench):
    """An option that says nothing to a command is refused, not passed over."""
    path = two_queries(bench, merge={"method": "max"})
    out = bench.path("package")
    equal(bench.run("merge", path, "--out", out).code, 0, "exit code of merge")
    for option, words in (("--check", ("merge", path, "--check")), ("--resume", ("merge", "show", out, "--resume")),
                          ("--out", ("merge", "show", out, "--out", "x")), ("--set", ("merge", "show", out, "--set", "merge.seed=1")),
                          ("--check", ("merge", "show", path, "--check")), ("--frames", ("edge", "run", path, "--frames", "3")),
                          ("--answers", ("edge", "plan", path, "--answers", "3")), ("--out", ("edge", "bench", path, "--out", "x")),
                          ("--for", ("edge", "bench", path, "--for", "3")), ("--package", ("edge", "plan", path, "--package", out, "--package", out))):
        one_line(bench, 2, option, *words)
    one_line(bench, 2, "at most 1e+06 seconds", "edge", "plan", path, "--for", "1e30")
    one_line(bench, 2, "from 0 to 1", "predict", "a.cfg", "x.png", "--score", "1.5")


# --- edge -------------------------------------------------------------------------------------------------------------------


def not_over_others(bench):
    """`edge run` writes over its own last run, and over nothing else; one at a time."""
    path = two_queries(bench, LOOP, merge={"method": "max"})
    equal(bench.run("merge", path, "--out", bench.path("package")).code, 0, "exit code")
    with open(bench.path("package", "events.jsonl"), "rb") as file:
        told = file.read()
    one_line(bench, 3, "a run of culm merge is already there", "edge", "run", path, "--for", "1", "--out", bench.path("package"))
    with open(bench.path("package", "events.jsonl"), "rb") as file:
        equal(file.read(), told, "events of the package")
    process = bench.start("edge", "run", path, "--out", bench.path("run"))
    wait_until(lambda: os.path.exists(bench.path("run", "a.jsonl")), 120, "the start")
    one_line(bench, 3, "is at work there", "edge", "run", path, "--for", "1", "--out", bench.path("run"))
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code of the first one")
    equal(bench.run("edge", "run", path, "--for", "0.1", "--out", bench.path("run")).code, 0, "exit code of another run there")


def early_signal(bench, number, images="images"):
    """A signal while it is being prepared, which lasts for minutes here, is heard: it ends as it would later, and no feed is opened."""
    path = two_queries(bench, LOOP, edge={"load_mb_per_s": 0.001})
    process = bench.start("edge", "run", path, "--out", bench.path("run"), "--json", "--set", f"feeds.camera.file={images}")
    wait_until(lambda: os.path.exists(bench.path("run", "originals", "tensors")), 120, "the beginning")
    process.send_signal(signal.SIGHUP)
    process.send_signal(number)
    ended = with_events(bench.end(process))
    equal([query["frames"] for query in ended.one("done")["queries"]], [0, 0], "frames")
    check(not os.path.exists(bench.path("run", "profile.json")), "times that nobody has measured")


def signal_while_choosing(bench):
    """A signal while it chooses which of many plans is best is heard there: it does not think on."""
    two_queries(bench)
    names = [f"q{number}" for number in range(40)]
    for number, name in enumerate(names):
        bench.config(model(number, [1, 1 + number % 3]), f"{name}.yaml")
    queries = [{"name": name, "model": f"{name}.yaml", "feed": "camera", "deadline_ms": 1200, "target": 0.5} for name in names]
    path = bench.config({"feeds": {"camera": {"file": "images", **LOOP}}, "queries": queries, "merge": {"method": "max"},
                         "edge": {"memory": "min", "load_mb_per_s": 0.1, "batch": [1, 2, 4]}}, "w.yaml")
    times = {name: {"run_ms": {"1": 1 + number % 5, "2": 2 + number % 5, "4": 3 + number % 5}} for number, name in enumerate(names)}
    profile = bench.config({"format": 1, "device": "this", "threads": 1, "models": times}, "profile.json")
    equal(bench.run("merge", path, "--out", bench.path("package")).code, 0, "exit code of merge")
    took = []
    for early in (True, False):
        process = bench.start("edge", "run", path, "--package", bench.path("package"), "--profile", profile, "--out", bench.path("run"), "--for", "0.001")
        if early:
            wait_until(lambda: os.path.exists(bench.path("run", "lock")), 120, "the beginning")
            process.send_signal(signal.SIGTERM)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            took.append(int(file.read().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK"))
        equal(bench.end(process).code, 0, "exit code")
    bench.note(f"{took[0]:.2f} s instead of {took[1]:.2f} s")
    check(took[0] < 0.7 * took[1], f"{took[0]:.2f} s of thinking, {took[1]:.2f} s undisturbed")


def signal_for_all(bench):
    """SIGHUP for the whole group, as of a terminal that is closed, is not the end of the children that read feeds."""
    if not shutil.which("ffmpeg"):
        raise Skipped("needs ffmpeg")
    path = two_queries(bench, LOOP)
    subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=20", "-t", "30", bench.path("clip.gif")], check=True)
    process = bench.start("edge", "run", path, "--out", bench.path("run"), "--set", "feeds.camera.file=clip.gif")
    wait_until(lambda: replies(bench, "frame"), 120, "a frame")
    os.killpg(process.pid, signal.SIGHUP)
    wait_until(lambda: replies(bench, "workload"), 120, "a word on the text")
    before = len(replies(bench, "frame"))
    wait_until(lambda: process.poll() is not None or len(replies(bench, "frame")) > before + 100, 120, "further frames")
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    equal(replies(bench, "feed"), [], "what is said of feeds")


def page_over_record(bench):
    """A page is not written over what a run has written; one of its own name it may be there."""
    path = two_queries(bench, LOOP)
    equal(bench.run("edge", "run", path, "--for", "0.5", "--out", bench.path("run")).code, 0, "exit code of the run")
    os.symlink("run", bench.path("other"))
    before = tree(bench.path("run")) | {"events": bench.events()}
    for page in (bench.path("run", "events.jsonl"), os.path.join("run", ".", "a.jsonl"), os.path.join("other", "profile.json")):
        one_line(bench, 3, "of the run", "report", "run", "--html", page)
        equal(tree(bench.path("run")) | {"events": bench.events()}, before, "the run's files")
    with open(bench.path("notes"), "w", encoding="utf-8") as file:
        file.write("not to be lost\n")
    one_line(bench, 3, "not a page", "report", "run", "--html", bench.path("notes"))
    with open(bench.path("notes"), encoding="utf-8") as file:
        equal(file.read(), "not to be lost\n", "a file of somebody else")
    for _ in range(2):
        equal(bench.run("report", "run", "--html", bench.path("run", "page.html")).code, 0, "exit code of a page in the run's folder")


def no_feed(bench):
    """The only feed cannot be read: that is said, and is how it ends."""
    path = two_queries(bench, LOOP)
    one_line(bench, 3, "cannot read 'images-2'", "edge", "run", path, "--json", "--out", bench.path("run"),
             "--set", "feeds.camera.file=images-2")
    told_of = [event for event in bench.events() if event["event"] == "feed"]
    check(len(told_of) == 2 and "images-2" in told_of[0].get("error", "") and told_of[1].get("ended"), f"{told_of}")


def slip_on_reload(bench):
    """A text whose feed is not there is refused on SIGHUP: the run goes on, and is there for the mended one."""
    path = two_queries(bench, LOOP)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    process = bench.start("edge", "run", path, "--out", bench.path("run"))
    wait_until(lambda: replies(bench, "frame"), 120, "a frame")
    for feed, wanted in (("images-2", ["a", "b"]), ("images", ["a", "c"])):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"file": "images"', f'"file": "{feed}"').replace('"name": "b"', '"name": "c"'))
        before = len(replies(bench, "workload"))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda before=before: process.poll() is not None or len(replies(bench, "workload")) > before, 120, "a word on the text")
        reply = replies(bench, "workload")[-1]
        equal((reply["queries"], "images-2" in reply.get("error", "")), (wanted, feed == "images-2"), "what is said to the text")
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")


def mended_feed(bench):
    """A feed that was not there at the start comes with SIGHUP once it is; the other one goes on."""
    path = two_queries(bench, LOOP)
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["feeds"]["late"] = {**config["feeds"]["camera"], "file": "late"}
    config["queries"][1]["feed"] = "late"
    process = bench.start("edge", "run", bench.config(config, "w.yaml"), "--out", bench.path("run"))
    wait_until(lambda: any(event.get("ended") for event in replies(bench, "feed")), 120, "the end of a feed")
    os.rename(bench.path("images"), bench.path("late"))
    os.symlink("late", bench.path("images"))
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: process.poll() is not None or any(event["query"] == "b" for event in replies(bench, "frame")), 120, "frames of it")
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    numbers = [event["frame"] for event in replies(bench, "frame") if event["query"] == "a"]
    # Of frames that it drops it tells at once, while an older one may still be at work.
    equal(len(numbers), len(set(numbers)), f"different frames of the other feed, of {numbers}")


def replies(bench, kind):
    return [event for event in bench.events() if event["event"] == kind]


def short_time(bench):
    """However short, a given time ends."""
    path = two_queries(bench, LOOP)
    equal(bench.run("edge", "run", path, "--for", "0.0001", "--out", bench.path("run")).code, 0, "exit code")


def long_names(bench):
    """Names are known by all of their 64 letters."""
    path = two_queries(bench, LOOP)
    name = "n" * 63
    words = [word for i in range(2) for word in ("--set", f"queries[{i}].name={name}{'ab'[i]}")]
    process = bench.start("edge", "run", path, "--out", bench.path("run"), "--json", *words)
    wait_until(lambda: process.poll() is not None or len({event["query"] for event in replies(bench, "frame")}) == 2, 120, "frames of both")
    process.send_signal(signal.SIGTERM)
    ended = with_events(bench.end(process))
    equal({event["query"] for event in ended.all("frame")}, {name + "a", name + "b"}, "names of frames")
    equal(sorted(query["query"] for query in ended.one("done")["queries"]), [name + "a", name + "b"], "names at the end")


def hardly_anything(bench):
    """Numbers that are above 0 and nothing on any clock."""
    path = two_queries(bench, LOOP)
    for key, what in (("feeds.camera.fps", "feeds.camera.fps"), ("queries[0].deadline_ms", "queries[0].deadline_ms"),
                      ("edge.load_mb_per_s", "edge.load_mb_per_s")):
        one_line(bench, 3, f"{what}: 1e-300 is out of range", "edge", "run", path, "--set", f"{key}=1e-300", "--out", bench.path("run"))


# --- what is printed --------------------------------------------------------------------------------------------------------


def printed(bench, code, what, *words):
    """Standard output is full: `what` is said in one line."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([bench.culm, *words], stdout=full, stderr=subprocess.PIPE, check=False, timeout=300, cwd=bench.folder)
    equal(ended.returncode, code, f"exit code of {words}")
    lines = ended.stderr.decode().splitlines()
    check(len(lines) == 1 and what in lines[0], f"{words}: {lines}")


def nowhere_to_print(bench):
    """Answers that cannot be printed are an error; runs go on, and their directories have all."""
    path = two_queries(bench, LOOP, merge={"method": "max"})
    lost = "write to standard output"
    printed(bench, 4, lost, "predict", "a.yaml", "images", "--json")
    printed(bench, 4, lost, "edge", "plan", path, "--json")
    printed(bench, 0, "warning: events: write", "merge", path, "--out", bench.path("package"), "--json")
    equal(last_event(bench, "package"), "done", "last event of merging")
    printed(bench, 0, "warning: " + lost, "edge", "run", path, "--for", "0.5", "--out", bench.path("run"), "--json")
    equal(last_event(bench, "run"), "done", "last event of the run")


def last_event(bench, out):
    return bench.events(out)[-1]["event"]


def reader_gone(bench):
    """`culm edge run --json | head -1` does not end the run."""
    path = two_queries(bench, LOOP)
    process = subprocess.Popen([bench.culm, "edge", "run", path, "--for", "0.5", "--out", bench.path("run"), "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=bench.folder)
    bench.children.append(process)
    process.stdout.readline()
    process.stdout.close()
    equal(process.wait(300), 0, "exit code")
    equal(last_event(bench, "run"), "done", "the last event")


cases.add("merge: a feed that cannot be read", feed_of_nothing)
cases.add("merge: a slip on --resume", slip_on_resume)
cases.add("merge: another model under the old name", other_model, first=True)
cases.add("merge: a package that was made elsewhere", delivered, first=True)
cases.add("merge: what was merged is shown and exported", shown_and_exported, first=True)
cases.add("options that are another command's", options_of_others, first=True)
cases.add("edge: SIGHUP for the whole group", signal_for_all)
cases.add("edge: nothing of others is written over", not_over_others, first=True)
for one in (signal.SIGINT, signal.SIGTERM):
    cases.add(f"edge: {one.name} before it begins", early_signal, one, first=one == signal.SIGTERM)
cases.add("edge: a signal while it chooses", signal_while_choosing, kind="alone", seconds=8)
cases.add("edge: SIGINT before it begins, with a feed that is not there", early_signal, signal.SIGINT, "images-2")
cases.add("edge: the only feed is not there", no_feed)
cases.add("edge: a slip in the text that SIGHUP takes up", slip_on_reload, first=True)
cases.add("edge: a feed that is there later", mended_feed)
cases.add("edge: a very short time", short_time)
cases.add("report: a page over a run's record", page_over_record, first=True)
cases.add("edge: names of 64 letters", long_names)
cases.add("edge: hardly anything", hardly_anything)
cases.add("standard output is full", nowhere_to_print, first=True)
cases.add("the reader of standard output went away", reader_gone)

if __name__ == "__main__":
    cases.run()
