#!/usr/bin/env python3
"""What merging takes for the accuracy of models whose outputs are several: counted again from what `culm predict` answers."""
import json
import os
import sys

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

if __name__ == "__main__":
    cases.run()
