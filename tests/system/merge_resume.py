#!/usr/bin/env python3
"""Packages that gain and lose queries: merging goes on from what is there, whenever it is killed, and a run at the edge takes up what it makes."""
import json
import os
import shutil

import edge_harness
from harness import Cases, check, equal
from merge import files, kill_again_and_again, merge
from vision_harness import images, model

cases = Cases(kind="waits", job="edge")


def workload(bench, names, name="w.yaml", **merging):
    """Queries whose names begin with a letter that is their model; all models could share everything but their outputs."""
    if not os.path.exists(bench.path("images")):
        images(bench.path("images"))
        for letter, seed, blocks in (("a", 1, [1, 1]), ("b", 2, [1, 2]), ("c", 3, [1, 1])):
            bench.config(model(seed, blocks), f"{letter}.yaml")
    queries = [{"name": query, "model": f"{query[0]}.yaml", "feed": "camera", "target": 0.2} for query in names]
    return bench.config({"feeds": {"camera": {"file": "images"}}, "queries": queries, "merge": {"steps": 20, **merging}}, name)


def round_of(bench, package="package", number=None):
    if number is None:
        with open(bench.path(package, "current"), encoding="utf-8") as file:
            number = int(file.read().split()[0])
    with open(bench.path(package, "rounds", f"{number}.json"), encoding="utf-8") as file:
        return json.load(file)


def tensors(now, query):
    found = [entry for entry in now["queries"] if entry["query"] == query]
    equal(len(found), 1, f"queries '{query}'")
    return {name: part["tensor"] for name, part in found[0]["parameters"].items()}


def common(now, one, other):
    return set(tensors(now, one).values()) & set(tensors(now, other).values())


def checked(bench, package="package"):
    return json.loads(bench.run("merge", "show", bench.path(package), "--check", "--json").out)


def gains(bench):
    """A query is added: the others stay as they are, and it takes over what they share."""
    merge(bench, workload(bench, "ab"), "package")
    before = round_of(bench)
    kept = files(bench.path("package"))
    ended = merge(bench, workload(bench, "abc"), "package", "--resume")
    told = ended.one("goes_on")
    equal({key: told.get(key) for key in ("round", "kept", "added", "gone")}, {"round": before["round"], "kept": ["a", "b"], "added": ["c"], "gone": None},
          "what merging goes on from")
    begun = round_of(bench, number=before["round"] + 1)
    equal([query["query"] for query in begun["queries"]], ["a", "b", "c"], "queries of the round to begin with")
    check(all("original" not in part for part in begun["queries"][2]["parameters"].values()), "c begins with weights that are not its own")
    equal([query["merged"] >= 0 for query in begun["queries"]], [True, True, False], "what is measured of the round to begin with")
    now = round_of(bench)
    for query in "ab":
        equal(tensors(now, query), tensors(before, query), f"tensors of {query}")
    check(len(common(now, "a", "c")) >= 4, f"c has {len(common(now, 'a', 'c'))} tensors of a")
    check(all("c" in event["queries"] for event in ended.all("try")), f"attempts without c: {ended.all('try')}")
    check(all(query["merged"] >= query["target"] * query["original"] for query in checked(bench)["queries"]), "a promise was broken")
    after = files(bench.path("package"))
    check(all(after[name] == data for name, data in kept.items() if name not in ("current", "after")), "an earlier round was changed")
    equal(bench.run("merge", "w.yaml", "--out", bench.path("package"), "--resume").code, 0, "exit code of the same again")
    equal(files(bench.path("package")), after, "the package after the same again")


cases.add("a package gains a query", gains, first=True)


def loses(bench):
    """A query leaves: what only it has goes with it, and the others go on sharing. With the last partner, sharing ends."""
    merge(bench, workload(bench, "abc"), "package")
    before = round_of(bench)
    ended = merge(bench, workload(bench, "ac"), "package", "--resume")
    equal(ended.one("goes_on").get("gone"), ["b"], "queries that are gone")
    equal(ended.all("try"), [], "attempts")
    now = round_of(bench)
    equal([query["query"] for query in now["queries"]], ["a", "c"], "queries")
    for query in "ac":
        equal(tensors(now, query), tensors(before, query), f"tensors of {query}")
    shown = checked(bench)
    check(shown["saved_bytes"] > 0, "a and c share nothing any more")
    ended = merge(bench, workload(bench, "c"), "package", "--resume", "--set", "merge.steps=20")
    equal(ended.one("goes_on").get("gone"), ["a"], "queries that are gone")
    now = round_of(bench)
    check(len(set(tensors(now, "c").values())) < len(tensors(now, "c")) or all("original" not in part for part in now["queries"][0]["parameters"].values()),
          "c has weights of a, which is gone, and shares them with nothing")


cases.add("a package loses queries", loses, first=True)


def renamed_and_retrained(bench):
    """A query is called something else: nothing else changes. Its model is trained anew: it begins again, on what the others share."""
    merge(bench, workload(bench, "ab"), "package")
    before = round_of(bench)
    ended = merge(bench, workload(bench, ["a", "b2"]), "package", "--resume")
    told = ended.one("goes_on")
    equal((told["kept"], told.get("renamed"), told.get("gone"), told.get("added")), (["a", "b2"], ["b2"], None, None), "what merging goes on from")
    equal(ended.all("try"), [], "attempts")
    equal(tensors(round_of(bench), "b2"), tensors(before, "b"), "tensors of b under its new name")
    bench.config(model(9, [1, 2]), "b.yaml")  # other first weights
    ended = merge(bench, workload(bench, ["a", "b2"]), "package", "--resume")
    told = ended.one("goes_on")
    equal((told.get("changed"), told.get("added"), told.get("gone")), (["b2"], None, None), "what merging goes on from")
    check("a" in told["kept"] + told.get("again", []), f"a is not there: {told}")
    now = round_of(bench)
    check(now["queries"][1]["identity"] != before["queries"][1]["identity"], "it is of the old weights")
    check(common(now, "a", "b2"), "the new model shares nothing with a")
    checked(bench)
    shown = bench.run("merge", workload(bench, ["a", "b2"]), "--out", bench.path("package"), "--resume", "--set", "queries[1].target=0.3")
    equal(shown.code, 0, "exit code")
    check("goes on from round" in shown.out and "keep what they share: a, b2" in shown.out, f"no line of what is taken over: {shown.out}")


cases.add("a query renamed, and a model trained anew", renamed_and_retrained, first=True)


def killed(bench):
    """Killed at any time while a query joins and another leaves: the package is the same in the end, and whole in between."""
    merge(bench, workload(bench, "ab"), "package")
    path = workload(bench, ["a", "c"], "other.yaml")
    for name in "untouched", "killed":
        shutil.copytree(bench.path("package"), bench.path(name))
    whole = merge(bench, path, "package", "--resume")
    after = files(bench.path("package"))

    def begin_anew():
        equal(files(bench.path("killed")), after, "packages with kills and without")
        shutil.rmtree(bench.path("killed"))
        shutil.copytree(bench.path("untouched"), bench.path("killed"))

    kill_again_and_again(bench, 5, whole, "killed", lambda: (path, "--out", bench.path("killed"), "--resume"), begin_anew)
    merge(bench, path, "killed", "--resume")
    equal(files(bench.path("killed")), after, "packages with kills and without")


cases.add("killed while a query joins", killed, first=True)


def at_the_edge(bench):
    """A run whose workload has a query that its package lacks: it runs on its own weights until the package has it, and then on those."""
    two = workload(bench, "ab")
    merge(bench, two, "package")
    path = workload(bench, "abc", "three.yaml")
    process = edge_harness.begin(bench, path, "--package", bench.path("package"), "--set", "edge.originals=never", "--set", "edge.memory=all", "--set",
                                 "edge.drift.every_s=0", "--set", "feeds.camera.loop=true", "--set", "feeds.camera.fps=20")
    edge_harness.until(process, "answers of c", lambda: edge_harness.fresh(process.out, "c"))
    merge(bench, path, "package", "--resume")
    last = round_of(bench)["round"]
    edge_harness.until(process, "the last round", lambda: edge_harness.told(process.out, "round", round=last))
    said = [json.loads(line)["classes"] for line in bench.run("predict", bench.path("package") + ":c", "images", "--json").out.splitlines()]
    own = [json.loads(line)["classes"] for line in bench.run("predict", "c.yaml", "images", "--json").out.splitlines()]
    differ = [i for i in range(48) if said[i] != own[i]]
    check(differ, "c answers as its original does")

    def merged():
        return [line for line in edge_harness.fresh(process.out, "c") if line.get("source", line["frame"]) in differ
                and line["classes"] == said[line.get("source", line["frame"])]]
    edge_harness.until(process, "an answer of c by the package", merged)
    edge_harness.end(bench, process)


cases.add("a run takes up a query that joined", at_the_edge, first=True)

if __name__ == "__main__":
    cases.run()
