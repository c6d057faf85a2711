#!/usr/bin/env python3
"""What an ONNX file means: logits, or what a last softmax, log-softmax or sigmoid has made of them; which answers, losses and exports follow."""
import json
import math
import os
import sys

from families import config_of
from harness import Cases, changed, check, equal
from vision_harness import images

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz"))
import onnx_corpus as onnx  # pylint: disable=wrong-import-position

cases = Cases(job="train")
CLASSES = 5
# Twenty times as large as usual: what a second softmax makes of its answers is far from them.
WEIGHTS = [20 * ((37 * i + 11) % 23 - 11) / 11 for i in range(3 * CLASSES)]
NODE = onnx.node
# Behind logits "z" [N,C] up to "y": the forms that exporters write, by name: (opset, what it is said to end in, nodes).
SOFTMAXES = {
    "softmax": (17, "softmax", [NODE("Softmax", ["z"], ["y"], axis=-1)]),
    "the softmax of opset 11": (11, "softmax", [NODE("Softmax", ["z"], ["y"])]),
    "a quotient": (12, "softmax", [NODE("Exp", ["z"], ["e"]), NODE("ReduceSum", ["e"], ["s"], axes=[1], keepdims=1), NODE("Div", ["e", "s"], ["y"])]),
    "log-softmax": (17, "log-softmax", [NODE("LogSoftmax", ["z"], ["y"], axis=1)]),
    "the logarithm of a softmax": (17, "log-softmax", [NODE("Softmax", ["z"], ["p"], axis=1), NODE("Log", ["p"], ["y"])]),
    "softmax of channels": (17, "softmax", [NODE("Unsqueeze", ["z", "two"], ["map"]), NODE("Softmax", ["map"], ["p"], axis=1),
                                            NODE("Flatten", ["p"], ["y"])]),
}


def classifier(path, nodes=(), opset=17, classes=CLASSES, side=32):
    """The mean of each colour, times a matrix: `nodes` go on from the logits "z" to the output "y"."""
    body = [NODE("GlobalAveragePool", ["x"], ["a"]), NODE("Flatten", ["a"], ["f"]), NODE("MatMul", ["f", "w"], ["z" if nodes else "y"]), *nodes]
    weights = [onnx.tensor("w", [3, classes], WEIGHTS[:3 * classes]), onnx.tensor("two", [2], onnx.ints([2, 3]), onnx.INT64)]
    data = onnx.model(onnx.graph(body, [onnx.end("x", ["batch", 3, side, side])], [onnx.end("y")], weights), opset)
    with open(path, "wb") as file:
        file.write(data)
    return path


def answers(bench, what, pictures="pictures", classes=CLASSES):
    ended = bench.run("predict", what, bench.path(pictures), "--top", classes, "--json")
    equal(ended.code, 0, f"exit code of predict {what}; {ended.err!r}")
    return [{one["class"]: one["score"] for one in json.loads(line)["classes"]} for line in ended.out.splitlines()]


def near(got, wanted, what):
    equal([sorted(one) for one in got], [sorted(one) for one in wanted], f"classes, {what}")
    for one, other in zip(got, wanted):
        check(all(abs(one[c] - other[c]) <= 2e-6 for c in one), f"{what}: {one}, not {other}")


def predicted(bench, name):
    """The probabilities are the softmax of the logits: the same as those of the file without its end."""
    opset, end, nodes = SOFTMAXES[name]
    images(bench.path("pictures"), count=6, size=32)
    plain, ended = classifier(bench.path("plain.onnx")), classifier(bench.path("ended.onnx"), nodes, opset)
    wanted = answers(bench, plain)
    check(any(max(one.values()) > 0.99 for one in wanted), "the answers are not sharp: a second softmax would not show")
    near(answers(bench, ended), wanted, "answers of predict")
    told = json.loads(bench.run("model", "show", ended, "--json").out)
    equal((told["ends_in"], told["classes"]), (end, CLASSES), "what model show says")
    check(f"ends in a {end}" in bench.run("model", "show", ended).out, "the text of model show does not say it")
    equal(json.loads(bench.run("model", "show", plain, "--json").out)["ends_in"], None, "what model show says of logits")
    bench.run("model", "export", ended, "--onnx", bench.path("again.onnx"))
    equal(json.loads(bench.run("model", "show", bench.path("again.onnx"), "--json").out)["ends_in"], end, "the end of what was exported")
    near(answers(bench, bench.path("again.onnx")), wanted, "answers of what was exported")


for form in SOFTMAXES:
    cases.add(f"an ONNX file that ends in {form}: predicted", predicted, form, first=form == "softmax")


def each_by_itself(bench):
    """A sigmoid a class; with one output, of two classes, no and yes."""
    images(bench.path("pictures"), count=6, size=32)
    sigmoid = [NODE("Sigmoid", ["z"], ["y"])]
    wanted = answers(bench, classifier(bench.path("plain.onnx")))
    got = answers(bench, classifier(bench.path("each.onnx"), sigmoid))
    for one, other in zip(got, wanted):  # softmax: p_a / p_b = e^(z_a - z_b)
        logit = {c: math.log(p / (1 - p)) for c, p in one.items() if 1e-3 < p < 1 - 1e-3}
        check(len(logit) < 2 or sum(one.values()) > 0, f"{one}")
        pairs = [(a, b) for a in logit for b in logit if a < b and min(other[a], other[b]) > 1e-3]
        check(all(abs(math.log(other[a] / other[b]) - logit[a] + logit[b]) < 0.02 for a, b in pairs), f"{one} against {other}")
    check(any(len([p for p in one.values() if p > 0.5]) > 1 for one in got), f"never two classes at once: {got}")
    yes = answers(bench, classifier(bench.path("yes.onnx"), sigmoid, classes=1), classes=2)
    first = [{0: 1 - one[0], 1: one[0]} for one in answers(bench, classifier(bench.path("two.onnx"), sigmoid, classes=2), classes=2)]
    equal([sorted(one) for one in yes], [[0, 1]] * 6, "classes of one output")
    check(all(abs(one[0] + one[1] - 1) < 1e-5 for one in yes), f"no and yes: {yes}")
    check(len({round(one[1], 2) for one in yes}) > 1, f"all alike: {yes}")
    check(first, "no answers")
    with open(bench.path("names"), "w", encoding="ascii") as file:
        file.write("no\nyes\n")
    ended = bench.run("predict", bench.path("yes.onnx"), bench.path("pictures"), "--names", bench.path("names"), "--json")
    check('"yes"' in ended.out, f"names of two classes: {ended.err!r}")
    for name in ("each", "yes"):
        config = bench.config(changed(config_of("resnet.onnx"), model={"file": bench.path(f"{name}.onnx")}, data__held_out=0.2, stages=1))
        for words in (["train", config], ["train", config, "--dry-run"], ["eval", config]):
            ended = bench.run(*words)
            equal((ended.code, ended.err.count("\n")), (3, 1), f"exit code and lines of {words}; {ended.err!r}")
            check("ends in a sigmoid" in ended.err and "without the sigmoid" in ended.err, f"{words} says {ended.err!r}")
    told = json.loads(bench.run("model", "import", bench.path("each.onnx"), "--json").out)
    equal(told["ends_in"], "sigmoid", "what model import says")
    # the way out: with an output a class and without the sigmoid
    config = changed(config_of("resnet.onnx"), model={"file": bench.path("plain.onnx")}, data__held_out=0.2, steps=1, pipelines=1, stages=1)
    bench.train(config, "run")


cases.add("an ONNX file that ends in a sigmoid", each_by_itself, first=True)


def trained(bench, name):
    """The loss is that of the file without its end, bit by bit, and so is training; what is exported has the end again."""
    opset, end, nodes = SOFTMAXES[name]
    images(bench.path("pictures"), count=6, size=32)
    classifier(bench.path("plain.onnx"))
    classifier(bench.path("ended.onnx"), nodes, opset)
    losses, hashes, told = [], [], []
    for file in ("plain", "ended"):
        config = changed(config_of("resnet.onnx"), model={"file": bench.path(f"{file}.onnx")}, data__held_out=0.2, steps=4, pipelines=1, stages=1)
        losses.append(json.loads(bench.run("eval", bench.config(config), "--json").out)["loss"])
        told.append(bench.run("train", bench.config(config), "--dry-run").out)
        run = bench.train(config, file)
        hashes.append(run.hashes()[0])
        bench.run("model", "export", run.dir, "--onnx", bench.path(f"{file}-run.onnx"))
    equal(losses[1], losses[0], "the loss")
    equal(hashes[1], hashes[0], "weights_sha256")
    check(f"ends in a {end}" in told[1] and "ends in" not in told[0], f"--dry-run says {told}")
    show = [json.loads(bench.run("model", "show", bench.path(f"{file}-run.onnx"), "--json").out)["ends_in"] for file in ("plain", "ended")]
    equal(show, [None, end], "the ends of what was exported")
    near(answers(bench, bench.path("ended-run.onnx")), answers(bench, bench.path("plain-run.onnx")), "answers of what was exported")
    near(answers(bench, bench.path("ended")), answers(bench, bench.path("plain")), "answers of the runs")
    notes = json.loads(bench.run("model", "import", bench.path("ended.onnx"), "--json").out)["notes"]
    check(any(f"output 'y' ends in a {end}" in note for note in notes), f"model import notes {notes}")


for form in ("softmax", "the logarithm of a softmax"):
    cases.add(f"an ONNX file that ends in {form}: trained", trained, form, first=form == "softmax")

if __name__ == "__main__":
    cases.run()
