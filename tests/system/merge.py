#!/usr/bin/env python3
"""Models merged into a package: what is told, that the package is what it says, the same bits on any number of threads and after
any kill, and what is refused with one line. The models are two small ones with first weights, which agree on nothing: what
merging is worth is measured elsewhere."""
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import struct
import subprocess

import edge_harness
from edge_harness import fresh
from harness import Cases, Disk, Skipped, check, check_goodput, equal, flip_bit, memory_group, needs_disk, wait_until
from vision_harness import images, killed_behind, killed_in_search, model, telling, two_queries

cases = Cases(kind="waits", job="edge")
SEED = int(os.environ.get("CULM_SEED", "1"))


def workload(bench, width=4, **merge):
    return two_queries(bench, width=width, merge={"steps": 20, **merge})


def merge(bench, path, out, *words, code=0):
    ended = bench.run("merge", path, "--out", bench.path(out), "--json", *words)
    equal(ended.code, code, "exit code")
    ended.events = [json.loads(line) for line in ended.out.splitlines()]
    return ended


def files(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if name not in ("events.jsonl", "lock", "config.yaml") and not name.endswith(".tmp"):
                with open(os.path.join(root, name), "rb") as file:
                    found[os.path.relpath(os.path.join(root, name), folder)] = file.read()
    return found


def what_could_be_shared(bench):
    path = workload(bench)
    os.unlink(bench.path("images"))  # nor are weights or feeds needed
    shown = json.loads(bench.run("merge", "show", path, "--json").out)
    equal(shown["total_bytes"] - shown["distinct_bytes"], shown["saved_bytes"], "bytes saved")
    equal(sum(i["bytes"] * (len(i["queries"]) - 1) for i in shown["instances"]), shown["saved_bytes"], "bytes of the instances")
    check(all(i["queries"] == ["a", "b"] and len(i["layers"]) == 2 for i in shown["instances"]), "each layer is in both models")
    check(shown["saved_bytes"] > 0, "nothing could be shared")


cases.add("what could be shared", what_could_be_shared, first=True)


def methods(bench, method):
    path = workload(bench, method=method)
    ended = merge(bench, path, "package")
    done = ended.one("done")
    equal([q["query"] for q in done["queries"]], ["a", "b"], "queries")
    equal(len(ended.all("query")), 2, "queries told")
    spent = [event["cpu_s"] for event in ended.events if event["event"] in ("merged", "done")]
    check(spent[0] > 0 and spent == sorted(spent), f"processor time {spent}")
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--check", "--json").out)
    equal(shown["total_bytes"], done["bytes"], "bytes")
    equal(shown["distinct_bytes"], done["distinct_bytes"], "distinct bytes")
    equal([q["merged"] for q in shown["queries"]], [q["merged"] for q in done["queries"]], "accuracies")
    check(abs(done["saved"] - shown["saved_bytes"] / shown["total_bytes"]) < 1e-9, "share saved")
    if method == "none":
        equal(done["saved"], 0, "saved")
        check(all(q["merged"] == q["original"] for q in done["queries"]), "the originals are as they were")
    if method == "max":
        could = json.loads(bench.run("merge", "show", path, "--json").out)
        equal(shown["saved_bytes"], could["saved_bytes"], "all that could be shared is")
    if method == "culm":
        check(done["saved"] > 0 and ended.all("merged"), "nothing was merged")
    if method not in ("none", "max"):
        check(all(q["merged"] >= q["target"] * q["original"] for q in done["queries"]), f"a promise was broken: {done}")


for way in ("culm", "gemel", "gemel-fixed", "stem", "max", "none"):
    cases.add(f"method {way}", methods, way, first=way in ("culm", "gemel-fixed", "none"))


def little_room(bench):
    """A round that finds no room is kept until there is some: as much as the line says is enough, and nothing is merged again."""
    path = workload(bench, method="culm")
    plain = merge(bench, path, "plain")
    rounds = [event["round"] for event in plain.all("merged")]
    check(rounds, "nothing was merged")
    merge(bench, path, "none", "--set", "merge.method=none")
    pages = sum(os.path.getsize(os.path.join(root, name)) // 4096 + 2 for root, _, names in os.walk(bench.path("none")) for name in names)
    size_kb = 4 * pages + 16  # the originals fit, and some rounds
    with Disk(bench, size_kb) as disk:
        process = bench.start("merge", path, "--out", bench.path("disk", "package"), "--json")

        def told(name):
            with open(process.out_path, encoding="utf-8") as file:
                return [json.loads(line) for line in file if f'"{name}"' in line and line.endswith("\n")]
        wait_until(lambda: told("held") or process.poll() is not None, 120, "event held")
        check(told("held"), "nothing was held")
        message = told("held")[0]["message"]
        need = re.search(r"; free ([0-9.]+) (kB|MB) there", message)
        check(need, f"no figure: {message}")
        before = len(told("merged")) + len(told("held"))
        disk.resize(size_kb + int(float(need[1]) * {"kB": 1000, "MB": 1000000}[need[2]] / 1024 + 1))
        wait_until(lambda: len(told("merged")) + len(told("held")) > before or process.poll() is not None, 120, "that it went on")
        disk.resize(16384)
        ended = bench.end(process)
        equal(ended.code, 0, f"exit code; {ended.err!r}")
        ended.events = [json.loads(line) for line in ended.out.splitlines()]
        equal([event["round"] for event in ended.all("merged")], rounds, "rounds")
        equal(files(bench.path("disk", "package")), files(bench.path("plain")), "the package")


cases.add("a round waits for room", needs_disk, __file__, "a round waits for room", little_room, first=True)


def empty_promise(bench):
    """Labels that the original never meets at the end of the feed: nothing can be said of its accuracy there, so it ships unmerged."""
    path = workload(bench)
    said = [json.loads(line) for line in bench.run("predict", "b.yaml", "images", "--json").out.splitlines()]
    classes = [answer["classes"][0]["class"] for answer in said]
    held = int(48 * 0.7)
    never = next(c for c in range(4) if c not in classes[held:])
    with open(bench.path("labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 48) + bytes(classes[:held] + [never] * (48 - held)))
    ended = merge(bench, path, "package", "--set", "queries[1].labels=labels")
    check(ended.all("merged"), "nothing was merged by the frames that are checked")
    told = [event["message"] for event in ended.all("warning")]
    check(any("'b'" in text and "the original is never right by its labels in the frames that merging has not seen" in text for text in told), f"warnings: {told}")
    with open(bench.path("package", "current"), encoding="utf-8") as file:
        number = file.read().split()[0]
    with open(bench.path("package", "rounds", f"{number}.json"), encoding="utf-8") as file:
        a, b = json.load(file)["queries"]
    check(all("original" not in part for part in b["parameters"].values()), "b has numbers that are not its original's")
    of_layers = [part["tensor"] for part in a["parameters"].values() if "layer" in part]
    done = ended.one("done")
    equal(done["saved"] > 0, len(set(of_layers)) < len(of_layers), "whether anything is saved, and layers of a share")
    check(not {part["tensor"] for part in b["parameters"].values()} & set(of_layers), "a has tensors of b")


cases.add("what cannot be promised ships unmerged", empty_promise, first=True)


def max_of_the_wrong(bench):
    """A model that is never right by its labels: `max` ignores accuracy, so it shares everything all the same, and says what that means."""
    path = workload(bench)
    said = [json.loads(line) for line in bench.run("predict", "b.yaml", "images", "--json").out.splitlines()]
    with open(bench.path("labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 48) + bytes((answer["classes"][0]["class"] + 1) % 4 for answer in said))
    ended = merge(bench, path, "package", "--set", "queries[1].labels=labels", "--set", "merge.method=max")
    told = [event["message"] for event in ended.all("warning")]
    check(any("'b'" in text and "its accuracy says nothing" in text for text in told), f"warnings: {told}")
    done = ended.one("done")
    equal(done["bytes"] - done["distinct_bytes"], done["possible_bytes"], "bytes saved, and all that could be")


cases.add("max shares what a model has that is never right", max_of_the_wrong)


def nothing_of_the_giver(bench, last):
    """The model whose layers others took is never right at the end of the feed: it keeps its own weights in any case, so the others go on
    sharing them, and the end of merging counts that as show does. The last on its feed has its channels in the order of the first's."""
    path = workload(bench, steps=0)  # nor are layers of it tied
    bench.config(model(3, [1, 1]), "c.yaml")
    with open(path, encoding="utf-8") as file:
        text = json.load(file)
    text["queries"].append({"name": "c", "model": "c.yaml", "feed": "camera", "target": 0.2})
    if last:  # the smallest is
        bench.config(model(1, [1, 2]), "a.yaml")
    path = bench.config(text, "three.yaml")
    ended = merge(bench, path, "first")
    adopts = [event["round"] for event in ended.all("try") if event["way"] == "adopt"]
    took = sorted({event["query"] for event in ended.all("check") if event["round"] in adopts})  # who takes over nothing is not checked
    gave = [query["name"] for query in text["queries"] if query["name"] not in took]
    check(len(took) == 2 and len(gave) == 1, f"{took} took over layers, {gave} kept theirs")
    which = [query["name"] for query in text["queries"]].index(gave[0])
    equal(which == 2, last, f"whether {gave[0]}, which kept its layers, is the last query")
    said = [json.loads(line) for line in bench.run("predict", f"{gave[0]}.yaml", "images", "--json").out.splitlines()]
    classes = [answer["classes"][0]["class"] for answer in said]
    held = int(48 * 0.7)
    never = next(c for c in range(4) if c not in classes[held:])
    with open(bench.path("labels"), "wb") as file:
        file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 48) + bytes(classes[:held] + [never] * (48 - held)))
    ended = merge(bench, path, "package", "--set", f"queries[{which}].labels=labels")
    told = [event["message"] for event in ended.all("warning")]
    check(any(f"'{gave[0]}'" in text and "so it ships with its own weights" in text for text in told), f"warnings: {told}")
    done = ended.one("done")
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--check", "--json").out)
    equal((done["bytes"], done["distinct_bytes"]), (shown["total_bytes"], shown["distinct_bytes"]), "bytes by the end of merging, and by show")
    equal(shown["saved_bytes"], ended.all("merged")[-1]["saved_bytes"], "what is saved at the end, and when it shipped")
    check(shown["queries"][which]["shared_bytes"] > 0, "nobody has the layers of the one that gave them any more")


for where in ("first", "last"):
    cases.add(f"the model that others build on, {where} on its feed, is never right at the end", nothing_of_the_giver, where == "last")


def a_query_is_a_model(bench):
    """PACKAGE:QUERY answers as the original does where nothing is shared, in every bit."""
    path = workload(bench, method="none")
    merge(bench, path, "package")
    for name in "ab":
        said = bench.run("predict", f"{name}.yaml", "images", "--json").out
        equal(bench.run("predict", bench.path("package") + f":{name}", "images", "--json").out, said, f"answers of {name}")
        check(said.count("\n") == 48, "answers")
    ended = bench.run("predict", bench.path("package") + ":c", "images")
    equal(ended.code, 3, "exit code")
    check(ended.err.count("\n") == 1 and "no query 'c'" in ended.err, ended.err)


cases.add("a query of a package is a model", a_query_is_a_model, first=True)


def classes_in_order(bench):
    """Pictures class by class: the held-out ones are of classes that merging has not fitted to, and that is said; mixed, it is not."""
    path = workload(bench, method="none")
    for name, labels in ("sorted", [i // 12 for i in range(48)]), ("mixed", [i % 4 for i in range(48)]):
        with open(bench.path(name), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 48) + bytes(labels))
        told = [event["message"] for event in merge(bench, path, f"of-{name}", "--set", f"queries[0].labels={name}").all("warning")]
        said = [text for text in told if "of 2 classes in the held-out frames, 2 do not occur" in text and "query 'a'" in text]
        equal(len(said), int(name == "sorted"), f"warnings with {name} labels: {told}")


cases.add("held-out classes that merging has not seen", classes_in_order)


def frames_beyond_memory(bench):
    """Frames for which there is no room are refused in one line, and nothing is left behind; nobody is killed."""
    edge_harness.two_models(bench)
    with open(bench.path("many"), "wb") as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 4000, 28, 28) + random.Random(6).randbytes(4000 * 28 * 28))
    path = edge_harness.workload(bench, [("one", "a"), ("two", "b")], feed="many")
    with memory_group() as (set_limit, inside):
        set_limit(100 * 10**6)
        command = inside(bench.culm, "merge", path, "--out", bench.path("package"), "--set", "merge.method=none")
        ended = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, timeout=300, check=False)
    check(ended.returncode == 4 and ended.stderr.count("\n") == 1 and "there are 0.1 GB of memory" in ended.stderr, f"{ended.returncode}: {ended.stderr}")
    check(not os.path.exists(bench.path("package")), "something was written")


cases.add("frames beyond memory", frames_beyond_memory)


def another_model(bench):
    """The file of a model is edited after merging so that the same numbers mean another model: nobody goes on with it."""
    edge_harness.two_models(bench)
    path = edge_harness.workload(bench, [("one", "a"), ("two", "b")])
    words = ("--set", "merge.method=none")
    merge(bench, path, "package", *words)
    with open(bench.path("a.cfg"), encoding="utf-8") as file:
        text = file.read()
    one = (("predict", bench.path("package") + ":one", bench.path("pictures")),
           ("edge", "plan", path, "--package", bench.path("package"), "--for", "1"),
           ("edge", "run", path, "--package", bench.path("package"), "--for", "0.5", "--out", bench.path("out")))
    for changed in text.replace("leaky", "relu", 1), text.replace("12,12,", "12,13,"), text + "# only a remark\n":
        with open(bench.path("a.cfg"), "w", encoding="utf-8") as file:
            file.write(changed)
        for command in one:
            ended = bench.run(*command)
            if "remark" in changed:
                equal(ended.code, 0, f"exit code of {command[:2]} behind a remark: {ended.err}")
            else:
                check(ended.code == 3 and len(ended.err.splitlines()) == 1 and "a.cfg' describes another model" in ended.err,
                      f"{command[:2]}: {ended.code}: {ended.err}")
    with open(bench.path("a.cfg"), "w", encoding="utf-8") as file:
        file.write(text.replace("leaky", "relu", 1))
    ended = merge(bench, path, "package", "--resume", *words)
    equal(ended.one("goes_on").get("changed"), ["one"], "queries of another model")
    equal(bench.run("predict", bench.path("package") + ":one", bench.path("pictures")).code, 0, "exit code of predict, merged again")


cases.add("a model's file is edited after merging", another_model, first=True)


def inside(bench):
    """Layers of one model share a tensor: it is counted once, and what the model says is the same from the package, from a file that it is
    exported to, and at the edge."""
    path = workload(bench, width=16)
    done = merge(bench, path, "package").one("done")
    with open(bench.path("package", "current"), encoding="utf-8") as file:
        number = file.read().split()[0]
    with open(bench.path("package", "rounds", f"{number}.json"), encoding="utf-8") as file:
        now = json.load(file)
    of_layers = {query["query"]: [part["tensor"] for part in query["parameters"].values() if "layer" in part] for query in now["queries"]}
    twice = [query for query, tensors in of_layers.items() if len(set(tensors)) < len(tensors)]
    check("b" in twice, f"queries with a tensor of two layers: {twice}")
    size = {digest: 4 * math.prod(shape) for digest, shape in now["tensors"].items()}
    distinct = sum(size[digest] for digest in set(of_layers["a"] + of_layers["b"]))
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--check", "--json").out)
    equal((done["distinct_bytes"], shown["distinct_bytes"]), (distinct, distinct), "distinct bytes, by the end of merging and by show")
    inner = [item for item in shown["instances"] if item["queries"].count("b") > 1]
    check(inner and all(len(item["layers"]) == len(item["queries"]) for item in inner), f"shared in b: {shown['instances']}")
    query = bench.path("package") + ":b"
    said = [json.loads(line)["classes"] for line in bench.run("predict", query, "images", "--json").out.splitlines()]
    equal(len(said), 48, "answers")
    equal(bench.run("model", "export", query, "--onnx", bench.path("b.onnx")).code, 0, "exit code of export")
    told = [json.loads(line)["classes"] for line in bench.run("predict", "b.onnx", "images", "--json").out.splitlines()]
    equal([best[0]["class"] for best in told], [best[0]["class"] for best in said], "classes by the exported model")
    process = bench.start("edge", "run", path, "--package", bench.path("package"), "--out", bench.path("edge"), "--json", "--set",
                          "edge.originals=never", "--set", "edge.memory=all", "--set", "edge.drift.every_s=0", "--set", "feeds.camera.loop=true",
                          "--set", "feeds.camera.fps=20")
    edge_harness.until(process, "an answer of b", lambda: fresh(bench.path("edge"), "b"))
    process.send_signal(signal.SIGTERM)
    ended = bench.end(process)
    equal(ended.code, 0, f"exit code of edge run; {ended.err!r}")
    equal(bench.run("report", bench.path("package"), "--html", bench.path("page.html")).code, 0, "exit code of report")
    check_goodput(bench, "package")
    with open(bench.path("page.html"), encoding="utf-8") as file:
        page = file.read()
    check("<th>goodput</th>" in page, "the package's page has no goodput")
    check("<h2>Runs at the edge</h2>" in page and f'<td>edge</td><td class="n">{shown["round"]}</td>' in page, "the package's page lacks the run")
    answers = fresh(bench.path("edge"), "b")
    check(answers, "b answered nothing")
    for line in answers:
        equal(line["classes"], said[line.get("source", line["frame"])], f"frame {line['frame']}")
    loaded = json.loads(ended.out.splitlines()[-1])["loaded_bytes"]
    once = sum(size[digest] for digest in {part["tensor"] for query in now["queries"] for part in query["parameters"].values()})
    largest = max(size[digest] for digest in of_layers["b"])
    check(once <= loaded < once + largest, f"{loaded} bytes loaded, each tensor once: {once}; the largest has {largest}")


cases.add("layers of one model share", inside, first=True)


def a_package_in_itself(bench):
    """A package whose query's model is that query: it is refused, however it came about."""
    path = workload(bench, method="none")
    merge(bench, path, "first")
    merge(bench, path, "second", "--set", "queries[0].model=first:a")
    os.rename(bench.path("first"), bench.path("away"))
    os.rename(bench.path("second"), bench.path("first"))
    ended = bench.run("predict", "first:a", "images")
    equal(ended.code, 3, "exit code")
    check(ended.err.count("\n") == 1 and "more than 8 deep" in ended.err, ended.err)


cases.add("a package in itself is refused", a_package_in_itself)


def same_bits(bench, method):
    path = workload(bench, method=method, lr=0.003)
    merge(bench, path, "one")
    merge(bench, path, "three", "--set", "merge.threads=3")
    equal(files(bench.path("one")), files(bench.path("three")), "packages by one thread and by three")


for way in ("culm", "gemel-fixed"):
    cases.add(f"{way}: the same package on any number of threads", same_bits, way, first=way == "culm")


def kill_again_and_again(bench, times, whole, out, words_of, begin_anew):
    """Kills a merge so many times, at events that are drawn, and goes on with it each time. whole: one that was not killed. A resumed one may
    have little left, and end before: then it is what it is to be, as begin_anew() checks, and the next one begins at the beginning."""
    draw = random.Random(SEED)
    bench.note(f"seed {SEED}")
    many = sum(event["event"] != "step" for event in whole.events)  # how often it tells of steps is a matter of time
    kills, begins = 0, True
    while kills < times:
        if killed_behind(bench, draw.randrange(many - 1), draw.uniform(0, 2 * whole.seconds / many), *words_of()):
            kills, begins = kills + 1, False
        else:
            check(not begins, "it ended before it was killed")
            begin_anew()
            begins = True
        if os.path.exists(bench.path(out, "current")):
            equal(bench.run("merge", "show", bench.path(out), "--check").code, 0, "exit code of show after a kill")


def killed(bench, method):
    path = workload(bench, method=method, lr=0.003)
    whole = merge(bench, path, "whole")

    def words_of():
        return path, "--out", bench.path("package"), *(["--resume"] if os.path.exists(bench.path("package", "config.yaml")) else [])

    def same():
        equal(files(bench.path("package")), files(bench.path("whole")), "packages with kills and without")

    def begin_anew():
        same()
        shutil.rmtree(bench.path("package"))

    kill_again_and_again(bench, 6, whole, "package", words_of, begin_anew)
    equal(bench.run("merge", *words_of(), "--json").code, 0, "exit code")
    same()


for way in ("culm", "gemel-fixed"):
    cases.add(f"{way}: killed at any time, resumed: the same package", killed, way, first=way == "culm")


def goes_on(bench):
    """Killed once it has tried something: --resume begins behind that, and the package is the same."""
    path = workload(bench, method="gemel-fixed", lr=0.003)
    whole = merge(bench, path, "whole")
    check(not os.path.exists(bench.path("whole", "search")), "what only a resumed run needs is still there")
    killed_in_search(bench, path, "package")
    ended = merge(bench, path, "package", "--resume")
    check(not os.path.exists(bench.path("package", "search")), "what only a resumed run needs is still there")
    check(len(ended.all("try")) < len(whole.all("try")), f"attempts: {len(ended.all('try'))} after the kill, {len(whole.all('try'))} without")
    equal(files(bench.path("package")), files(bench.path("whole")), "packages with the kill and without")


cases.add("gemel goes on behind the last attempt", goes_on, first=True)


def rounds_gone(bench):
    """Rounds that were told of are not there (their volume is not mounted): merging does not begin again without a word; brought back, it
    goes on with them."""
    path = workload(bench)
    merge(bench, path, "package")
    before = files(bench.path("package"))
    for name in "current", "rounds", "tensors":
        os.rename(bench.path("package", name), bench.path(name))
    ended = bench.run("merge", path, "--out", bench.path("package"), "--resume")
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code, and lines of {ended.err!r}")
    for part in "events.jsonl", "round", "bring it back", "--out":
        check(part in ended.err, f"standard error does not say {part!r}: {ended.err!r}")
    for name in "current", "rounds", "tensors":
        os.rename(bench.path(name), bench.path("package", name))
    merge(bench, path, "package", "--resume")
    equal(files(bench.path("package")), before, "the package")


cases.add("rounds that are gone", rounds_gone)


def other_frames(bench):
    """--resume with another feed: further rounds of the same package, by the new frames; what is there stays."""
    path = workload(bench)
    first = merge(bench, path, "package").one("done")["round"]
    before = files(bench.path("package"))
    for name in "untouched", "killed":
        shutil.copytree(bench.path("package"), bench.path(name))
    os.unlink(bench.path("images"))  # nor is it needed any more
    images(bench.path("new"), 60)
    words = ("--set", "feeds.camera.file=new", "--resume")
    ended = merge(bench, path, "package", *words)
    equal(ended.one("start")["after"], first, "the round that came before")
    check(all(event["round"] > first for event in ended.all("try") + ended.all("merged")), "rounds are told twice")
    check(ended.one("done")["round"] > first, "no further round")
    after = files(bench.path("package"))
    check(all(after[name] == data for name, data in before.items() if name != "current"), "an earlier round was changed")
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--check", "--json").out)
    equal(shown["round"], ended.one("done")["round"], "the round that counts")
    equal(bench.run("merge", path, "--out", bench.path("package"), *words).code, 0, "exit code of the same again")
    equal(files(bench.path("package")), after, "the package after the same again")

    def begin_anew():
        equal(files(bench.path("killed")), after, "packages with kills and without")
        shutil.rmtree(bench.path("killed"))
        shutil.copytree(bench.path("untouched"), bench.path("killed"))

    kill_again_and_again(bench, 3, ended, "killed", lambda: (path, "--out", bench.path("killed"), *words), begin_anew)
    merge(bench, path, "killed", *words)
    equal(files(bench.path("killed")), after, "packages with kills and without")


cases.add("other frames: further rounds", other_frames, first=True)


def late(bench):
    """Stopped after some rounds, resumed with less time than it had: the round that counts is the one that was measured."""
    path = workload(bench, method="gemel-fixed", lr=0.003, minutes=1000)
    last = merge(bench, path, "package").one("done")["round"]
    check(last > 1, "nothing was merged")
    os.unlink(bench.path("package", "rounds", f"{last}.json"))
    with open(bench.path("package", "rounds", f"{last - 1}.json"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(bench.path("package", "current"), "w", encoding="utf-8") as file:
        file.write(f"{last - 1} {digest}\n")
    with open(bench.path("package", "config.yaml"), encoding="utf-8") as file:
        text = file.read()
    check("minutes: 1e+03" in text, text)
    with open(bench.path("package", "config.yaml"), "w", encoding="utf-8") as file:
        file.write(text.replace("minutes: 1e+03", "minutes: 0.000001"))
    done = merge(bench, path, "package", "--resume", "--set", "merge.minutes=0.000001").one("done")
    equal(done["round"], last, "round")
    shown = json.loads(bench.run("merge", "show", bench.path("package"), "--json").out)
    equal([q["merged"] for q in shown["queries"]], [q["merged"] for q in done["queries"]], "accuracies")


cases.add("resumed with no time left, it ends with a round that was measured", late)


def current(bench, package):
    with open(bench.path(package, "current"), encoding="utf-8") as file:
        return int(file.read().split()[0])


def saves(bench, package, number):
    with open(bench.path(package, "rounds", f"{number}.json"), encoding="utf-8") as file:
        now = json.load(file)
    return now["total_bytes"] - now["distinct_bytes"]


def told_at_the_end(ended):
    return {key: value for key, value in ended.one("done").items() if key not in ("t_ms", "cpu_s")}


def finished(bench, method):
    """A finished package, resumed: with the same time the same is told again; with less, that it stays as it is."""
    path = workload(bench, method=method, lr=0.003, minutes=1000)
    first = merge(bench, path, "package")
    before = files(bench.path("package"))
    check(first.one("done")["saved"] > 0, "nothing was merged")
    again = merge(bench, path, "package", "--resume")
    equal([event["round"] for event in again.all("merged")], [event["round"] for event in first.all("merged")], "rounds told again")
    equal(again.all("warning"), [], "warnings")
    late = merge(bench, path, "package", "--resume", "--set", "merge.minutes=0.000001")
    equal(late.all("merged"), [], "rounds that do not count")
    check(any(f"round {current(bench, 'package')} stays" in event["message"] for event in late.all("warning")), f"warnings: {late.all('warning')}")
    for ended in (again, late):
        equal(told_at_the_end(ended), told_at_the_end(first), "what is told at the end")
    equal(files(bench.path("package")), before, "the package")


for way in ("culm", "gemel-fixed"):
    cases.add(f"{way}: finished, resumed with as much time and with less", finished, way, first=way == "culm")


def more_time(bench, method):
    """A package that was finished with nothing merged, resumed with more time: what it finds are further rounds, each told as it is."""
    path = workload(bench, method=method, lr=0.003, minutes=0.000001)
    first = merge(bench, path, "package")
    equal((first.all("merged"), first.one("done")["saved"]), ([], 0), "what is merged without time")
    ended = merge(bench, path, "package", "--resume", "--set", "merge.minutes=1000")
    told = [event["round"] for event in ended.all("merged")]
    check(told, "nothing was merged")
    equal(told, list(range(first.one("done")["round"] + 1, current(bench, "package"))), "rounds told")
    equal([saves(bench, "package", number) for number in told], [event["saved_bytes"] for event in ended.all("merged")], "bytes saved by each")
    known = set(told) | {1, told[-1] + 1}  # the first attempts may come to the round that is there
    check(all(event["round"] in known for event in ended.all("try")), f"attempts: {ended.all('try')}")
    done = ended.one("done")
    equal((done["round"], done["bytes"] - done["distinct_bytes"]), (current(bench, "package"), saves(bench, "package", done["round"])), "the end")


for way in ("culm", "gemel-fixed"):
    cases.add(f"{way}: finished, resumed with more time", more_time, way)


def little_time(bench):
    """The limit on processor time is over before the first attempt: nothing is tried, and what is said at the end is true."""
    ended = merge(bench, workload(bench, method="gemel", cpu_minutes=0.000001), "package")
    equal(ended.all("try"), [], "attempts")
    equal(ended.one("done")["saved"], 0, "saved")


cases.add("no processor time is left", little_time)


def stopped(bench, number):
    with telling(bench, workload(bench), "--out", bench.path("package")) as (process, told):
        check(told(), "it ended at once")
        process.send_signal(number)
        while told():
            pass
        equal(process.wait(300), 75, "exit code")
    equal(bench.events("package")[-1]["event"], "stopped", "the last event")
    merge(bench, workload(bench), "package", "--resume")


for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
    cases.add(f"{number.name} ends it so that it can be resumed", stopped, number, first=number == signal.SIGHUP)


def curve(bench):
    """Several targets: a package for each, of which the workload's own is the one that is left; what is merged already is not merged again."""
    path = workload(bench)
    merge(bench, path, "package")
    before = files(bench.path("package"))
    words = ("--targets", "0.2,0.5,1", "--resume")
    ended = merge(bench, path, "package", *words)
    rows = ended.all("curve")
    equal([row["target"] for row in rows], [None, 0.2, 0.5, 1], "targets")
    own = bench.path("package")
    equal([row["package"] for row in rows], [own, own, os.path.join(own, "targets", "0.5"), os.path.join(own, "targets", "1")], "packages")
    equal(len(ended.all("start")), 2, "merges")
    for row in rows[1:]:
        shown = json.loads(bench.run("merge", "show", row["package"], "--check", "--json").out)
        equal([shown[key] for key in ("total_bytes", "saved_bytes")], [row["bytes"], row["saved_bytes"]], "bytes")
        for query, said in zip(shown["queries"], row["queries"], strict=True):
            equal((query["target"], query["merged"], query["shared_bytes"]), (row["target"], said["merged"], said["shared_bytes"]), "what is told of a query")
            check(said["merged"] >= row["target"] * said["original"], f"a promise was broken: {row}")
    equal({name: data for name, data in files(bench.path("package")).items() if not name.startswith("targets")}, before, "the workload's own package")
    again = merge(bench, path, "package", *words)
    equal((again.all("start"), again.all("curve")), ([], rows), "merges of the same again, and what is told")
    table = bench.run("merge", path, "--out", own, *words).out
    check(table.count("\n") == 5 and all(f"{row['saved'] * 100:.1f} %" in table for row in rows), f"no table: {table!r}")
    for wrong in "0.9,,1", "2", "0", "x", "nan", ",".join(["0.5"] * 33):
        ended = bench.run("merge", path, "--out", bench.path("other"), "--targets", wrong)
        equal((ended.code, ended.err.count("\n")), (2, 1), f"exit code with {wrong}, and lines of {ended.err!r}")


cases.add("a curve over targets", curve, first=True)


def refused(bench):
    path = workload(bench)
    merge(bench, path, "package", "--set", "merge.method=max")

    def one_line(code, what, *words):
        ended = bench.run(*words)
        equal(ended.code, code, f"exit code of {words}")
        check(ended.err.count("\n") == 1 and what in ended.err, f"'{ended.err}' does not say '{what}' in one line")

    one_line(3, "package", "merge", path, "--out", bench.path("package"))
    one_line(3, "was started with", "merge", path, "--out", bench.path("package"), "--resume")
    one_line(3, "queries[0].feed", "merge", path, "--set", "queries[0].feed=[]", "--out", bench.path("x"))
    one_line(3, "no-such.cfg", "merge", path, "--set", "queries[0].model=no-such.cfg", "--out", bench.path("x"))
    os.mkfifo(bench.path("pipe.mp4"))
    one_line(3, "'pipe.mp4' is not a regular file", "merge", path, "--set", "feeds.camera.file=pipe.mp4", "--out", bench.path("y"))
    one_line(3, "is not a regular file", "merge", path, "--set", "feeds.camera.file=rtsp://127.0.0.1:9/x", "--out", bench.path("y"))
    one_line(3, "images-2", "merge", path, "--set", "feeds.camera.file=images-2", "--out", bench.path("y"))
    for where, label, cause in (("labels", 3, None), ("labels-2", 4, "name a class 4, but 'a.yaml' has 4 classes")):
        with open(bench.path(where), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, 48) + bytes([label] * 48))
        words = ("merge", path, "--set", f"queries[0].labels={where}", "--set", "merge.method=none", "--out", bench.path(f"of-{where}"))
        if cause:
            one_line(3, cause, *words)
        else:
            equal(bench.run(*words).code, 0, "exit code with labels")
    if shutil.which("ffmpeg"):
        clip = bench.path("clip.gif")
        subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=16x16:rate=10:duration=2", clip], check=True)
        words = ("merge", path, "--set", f"feeds.camera.file={clip}", "--set", "queries[0].labels=labels", "--out", bench.path("clip"))
        one_line(3, "'labels' has 48 labels, but the feed has 20 frames", *words)
    else:
        bench.note("labels of a clip need ffmpeg")
    one_line(3, "package:QUERY", "predict", "package", "images")
    one_line(2, "culm merge show", "merge", "show")
    folder = bench.path("package", "tensors")
    name = sorted(os.listdir(folder))[0]
    flip_bit(os.path.join(folder, name), 0)
    one_line(3, "does not match its digest", "merge", "show", bench.path("package"), "--check")
    words = ("merge", path, "--set", "merge.method=max", "--out", bench.path("package"), "--resume")
    equal(bench.run(*words).code, 0, "exit code")
    equal(bench.run("merge", "show", bench.path("package"), "--check").code, 0, "the package after it was resumed")
    os.rename(bench.path("package", "rounds", "2.json"), bench.path("package", "rounds", "3.json"))
    one_line(3, "rounds/2.json: it is missing", "merge", "show", bench.path("package"))
    with open(bench.path("package", "current"), "w", encoding="utf-8") as file:
        file.write("7 now\n")
    one_line(3, "not a round and a digest", "merge", "show", bench.path("package"))


def decoded_once(bench):
    """A clip is decoded once for all input sizes, and its packets are counted before; how far it is read is told. A part of it: as many frames."""
    if not shutil.which("ffmpeg"):
        raise Skipped("ffmpeg is not installed")
    for name, side in ("a", 64), ("b", 96):
        edge_harness.make_model(bench.path(name), 3, side=side)
    subprocess.run(["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=size=96x80:rate=10:duration=6", "-c:v", "ffv1", bench.path("clip.mkv")], check=True)
    os.makedirs(bench.path("bin"))
    with open(bench.path("bin", "ffmpeg"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho \"$@\" >> {bench.path('calls')}\nexec {shutil.which('ffmpeg')} \"$@\"\n")
    os.chmod(bench.path("bin", "ffmpeg"), 0o755)
    with open(bench.path("w.yaml"), "w", encoding="utf-8") as file:
        file.write(f"feeds: {{hall: {{file: {bench.path('clip.mkv')}}}}}\nqueries:\n" + "".join(f"  - {{name: {name}, model: {bench.path(name)}.cfg, feed: hall}}\n" for name in "ab")
                   + "merge: {steps: 1}\n")
    for part, frames in ([], 60), (["--set", "feeds.hall.from=1", "--set", "feeds.hall.to=5", "--set", "feeds.hall.every=2"], 20):
        ended = bench.run("merge", bench.path("w.yaml"), "--out", bench.path(f"p{frames}"), "--json", *part, env=os.environ | {"PATH": bench.path("bin") + ":" + os.environ["PATH"]})
        equal(ended.code, 0, "exit code")
        reads = [event for event in map(json.loads, ended.out.splitlines()) if event["event"] == "read"]
        equal((reads[-1]["feed"], reads[-1]["frames"], reads[-1]["of"]), ("hall", frames, frames), "the last word on reading")
        with open(bench.path("calls"), encoding="utf-8") as file:
            calls = [line for line in file.read().splitlines() if "ppm" in line]
        os.remove(bench.path("calls"))
        check(len(calls) == 2, f"{len(calls)} times: {calls}")  # one of them only to see whether it can be opened, or to count the frames of a part


cases.add("a clip is decoded once for all input sizes", decoded_once, first=True)
cases.add("what is wrong is said in one line", refused, first=True)

if __name__ == "__main__":
    cases.run()
