#!/usr/bin/env python3
"""What merging takes for the accuracy of models whose outputs are several: counted again from what `culm predict` answers."""
import json
import os
import sys

from edge_harness import make_model, make_pictures
from harness import Cases, check, equal
from vision_harness import images

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz"))
import onnx_corpus as onnx  # pylint: disable=wrong-import-position

cases = Cases(job="edge")
NODE = onnx.node
CLASSES = 4
COUNT = 40  # pictures; the second half is held out


def network(bench, name, shift, second=False):
    """Classes by the mean of each colour, each with a sigmoid of its own; `second`: with another output beside it."""
    body = [NODE("GlobalAveragePool", ["x"], ["a"]), NODE("Flatten", ["a"], ["f"]), NODE("Gemm", ["f", "w", "b"], ["z"]), NODE("Sigmoid", ["z"], ["y"])]
    weights = [onnx.tensor("w", [3, CLASSES], [9 * ((37 * i + shift) % 23 - 11) / 11 for i in range(3 * CLASSES)]),
               onnx.tensor("b", [CLASSES], [((5 * i + shift) % 7 - 3) / 2 for i in range(CLASSES)])]
    ends = [onnx.end("y")]
    if second:
        body.append(NODE("MatMul", ["f", "w"], ["age"]))
        ends.append(onnx.end("age"))
    with open(bench.path(f"{name}.onnx"), "wb") as file:
        file.write(onnx.model(onnx.graph(body, [onnx.end("x", ["batch", 3, 8, 8])], ends, weights), 17))


def workload(bench, names, **merge):
    images(bench.path("images"), count=COUNT)
    queries = [{"name": name, "model": f"{name}.onnx", "feed": "camera"} for name in names]
    return bench.config({"feeds": {"camera": {"file": "images"}}, "queries": queries, "merge": {"held_out": 0.5, **merge}}, "w.yaml")


def said(bench, what):
    """Of each held-out picture, the classes to which it says yes."""
    ended = bench.run("predict", what, "images", "--frames", f"{COUNT // 2}:{COUNT}", "--top", CLASSES, "--json")
    equal(ended.code, 0, f"exit code of predict {what}; {ended.err!r}")
    return [{one["class"] for one in json.loads(line)["classes"] if one["score"] >= 0.5} for line in ended.out.splitlines()]


def several_at_once(bench):
    """Classes with sigmoids of their own: which of them there are counts, not which is the largest."""
    for name, shift in (("a", 11), ("b", 4)):
        network(bench, name, shift)
    ended = bench.run("merge", workload(bench, "ab", method="max"), "--out", "package", "--json")
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    done = json.loads(ended.out.splitlines()[-1])
    for query in done["queries"]:
        pairs = list(zip(said(bench, f"{query['query']}.onnx"), said(bench, f"package:{query['query']}")))
        equal(len(pairs), COUNT // 2, "held-out pictures")
        agreed = sum(len(one & other) / len(one | other) if one | other else 1 for one, other in pairs) / len(pairs)
        check(abs(query["merged"] - agreed) < 1e-9, f"{query}: they agree to {agreed}")
        equal(query["original"], 1, "the original's accuracy")
    check(done["queries"][1]["merged"] < 0.9, f"nothing was lost, so nothing is shown: {done['queries']}")


cases.add("merging: several classes at once", several_at_once, first=True)


def another_output(bench):
    """An output that no answer is read from could be ruined unseen: such a model is not merged, but answers as before."""
    network(bench, "a", 11)
    network(bench, "b", 4, second=True)
    path = workload(bench, "ab")
    for words in (["merge", path, "--out", "package"], ["merge", "show", path]):
        ended = bench.run(*words)
        equal((ended.code, ended.err.count("\n")), (3, 1), f"exit code and lines of {words}; {ended.err!r}")
        check("query 'b'" in ended.err and "'age'" in ended.err and "several outputs" in ended.err, f"{words} says {ended.err!r}")
        check(not os.path.exists(bench.path("package")), "it has left something")
    equal(len(said(bench, "b.onnx")), COUNT // 2, "answers without merging")


cases.add("merging: an output that is not judged", another_output)

def frames_of(bench, what, score):
    """The boxes that a detector answers to each of the held-out pictures, best first."""
    ended = bench.run("predict", what, "pictures", "--frames", f"{COUNT // 2}:{COUNT}", "--score", score, "--json")
    equal(ended.code, 0, f"exit code of predict {what}; {ended.err!r}")
    return [json.loads(line)["boxes"] for line in ended.out.splitlines()]


def boxes(bench, what, score):
    """How many boxes of each class it answers to these."""
    classes = [box["class"] for frame in frames_of(bench, what, score) for box in frame]
    return {one: classes.count(one) for one in set(classes)}


def overlap(a, b):
    width = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    height = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    both = max(width, 0) * max(height, 0)
    return both / (a["width"] * a["height"] + b["width"] * b["height"] - both)


def mean_overlap(wanted, said_now):
    """Of boxes that are found: each takes the free one of its class that it overlaps most."""
    found = []
    for frame, now in zip(wanted, said_now, strict=True):
        free = list(frame)
        for box in now:
            best = max((one for one in free if one["class"] == box["class"]), key=lambda one: overlap(box, one), default=None)
            if best and overlap(box, best) >= 0.5:
                found.append(overlap(box, best))
                free.remove(best)
    return sum(found) / len(found) if found else None


def class_by_class(bench):
    """What merging takes away is told class by class: what is wanted and told is counted again from what `culm predict` answers; a class of which nothing
    is found any more is warned of."""
    score = 0.3
    make_pictures(bench.path("pictures"), COUNT)
    for name, seed in (("a", 1), ("b", 2)):
        make_model(bench.path(name), seed)
    path = bench.config({"feeds": {"camera": {"file": "pictures"}}, "merge": {"held_out": 0.5, "method": "max", "iou": 0.9},
                         "queries": [{"name": name, "model": f"{name}.cfg", "feed": "camera", "score": score} for name in "ab"]}, "w.yaml")
    ended = bench.run("merge", path, "--out", "package", "--json")
    equal(ended.code, 0, f"exit code; {ended.err!r}")
    events = [json.loads(line) for line in ended.out.splitlines()]
    told = {event["query"]: event for event in events if event["event"] == "classes"}
    equal(sorted(told), ["a", "b"], "queries with classes")
    for name, event in told.items():
        wanted, said_now = boxes(bench, f"{name}.cfg", score), boxes(bench, f"package:{name}", score)
        for key, counts in (("wanted", wanted), ("original_right", wanted), ("told", said_now)):
            equal({one["class"]: one[key] for one in event["classes"] if one[key]}, counts, f"{name}: {key}, class by class")
            equal(event[key], sum(counts.values()), f"{name}: {key}")
        check(all(one["right"] <= min(one["wanted"], one["told"]) for one in event["classes"]), f"{name}: {event}")
        done = next(query for query in events[-1]["queries"] if query["query"] == name)
        by_hand = mean_overlap(frames_of(bench, f"{name}.cfg", score), frames_of(bench, f"package:{name}", score))
        check((done["overlap"] is None) == (by_hand is None) and abs((done["overlap"] or 0) - (by_hand or 0)) < 1e-3,
              f"{name}: boxes overlap by {done['overlap']}, by hand {by_hand}")
        shown = json.loads(bench.run("merge", "show", "package", "--json").out)
        equal([query["overlap"] for query in shown["queries"] if query["query"] == name], [done["overlap"]], f"{name}: overlap by show")
    lost = [one["name"] for one in told["b"]["classes"] if one["right"] == 0 and one["wanted"]]
    check(lost, f"nothing was lost, so nothing is shown: {told['b']}")
    warnings = [event["message"] for event in events if event["event"] == "warning" and "query 'b'" in event["message"] and "any more" in event["message"]]
    check(len(warnings) == 1 and all(f"'{name}'" in warnings[0] for name in lost), f"lost: {lost}; {warnings}")


cases.add("merging: what it takes away, class by class", class_by_class, first=True)

if __name__ == "__main__":
    cases.run()
