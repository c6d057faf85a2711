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

# --- channels last ---

def turned(path, before, channels=3, side=32):
    """A classifier of images [N,H,W,C], as TensorFlow writes it; `before` are nodes from "x" to "n"."""
    body = [*before, NODE("Transpose", ["n" if before else "x"], ["t"], perm=[0, 3, 1, 2]), NODE("GlobalAveragePool", ["t"], ["a"]),
            NODE("Flatten", ["a"], ["f"]), NODE("MatMul", ["f", "w"], ["y"])]
    weights = [onnx.tensor("w", [channels, CLASSES], WEIGHTS[:channels * CLASSES]), onnx.tensor("half", [], [0.5])]
    data = onnx.model(onnx.graph(body, [onnx.end("x", ["batch", side, side, channels])], [onnx.end("y")], weights))
    with open(path, "wb") as file:
        file.write(data)
    return path


def channels_last(bench):
    """Images with their channels last are read: the same losses, training and answers as with channels first."""
    images(bench.path("pictures"), count=6, size=32)
    files = {"first": classifier(bench.path("first.onnx")), "last": turned(bench.path("last.onnx"), [])}
    made = {}
    for name, path in files.items():
        config = changed(config_of("resnet.onnx"), model={"file": path}, data__held_out=0.2, steps=3, pipelines=1, stages=1)
        loss = json.loads(bench.run("eval", bench.config(config), "--json").out)["loss"]
        made[name] = (loss, bench.train(config, name).hashes()[0], answers(bench, path))
        equal(bench.run("model", "export", bench.path(name), "--onnx", bench.path(f"{name}-run.onnx")).code, 0, "exit code of export")
    equal(made["last"][:2], made["first"][:2], "loss and weights_sha256")
    near(made["last"][2], made["first"][2], "answers")
    near(answers(bench, bench.path("last-run.onnx")), answers(bench, bench.path("first-run.onnx")), "answers of what was exported")
    notes = json.loads(bench.run("model", "import", files["last"], "--json").out)["notes"]
    check(any("channels last" in note for note in notes), f"model import notes {notes}")
    # Rescaled in front of the turn, of free size, and grey, where the turn is a reshape.
    near(answers(bench, turned(bench.path("scaled.onnx"), [NODE("Mul", ["x", "half"], ["n"])])),
         answers(bench, turned(bench.path("behind.onnx"), [NODE("Mul", ["x", "half"], ["m"]), NODE("Identity", ["m"], ["n"])])), "rescaled images")
    told = json.loads(bench.run("model", "show", turned(bench.path("grey.onnx"), [], channels=1, side=28), "--json").out)
    equal(told["input"], {"width": 28, "height": 28, "channels": 1}, "the input of a grey image")
    free = turned(bench.path("free.onnx"), [], side="side")
    fields = json.loads(bench.run("model", "import", free, "--image", "32", "--json").out)["fields"]
    equal(fields[0]["shape"], [1, 32, 32, 3], "the image of a free size")


cases.add("an ONNX file whose images have their channels last", channels_last, first=True)

# --- texts ---

LENGTH, VOCAB, WIDTH = 16, 64, 8


def numbers(count, step):
    return [((step * i + 5) % 19 - 9) / 19 for i in range(count)]


def int_tensor(name, values):
    return onnx.tensor(name, [len(values)], onnx.ints(values), onnx.INT64)


def heads(x, out, count):
    return [NODE("Reshape", [x, f"by{count}"], [x + "h"]), NODE("Transpose", [x + "h"], [out], perm=[0, 2, 1, 3])]


def texts(path, masked=False, rotary=False, grouped=False, causal=True, opset=17):
    """A layer of attention with two heads between a table and its rows again, over 16 tokens of 64."""
    tail = 1 if grouped else 2
    body = [NODE("Gather", ["table", "ids"], ["e0"]), NODE("Add", ["e0", "places"], ["e"]),
            *[NODE("MatMul", ["e", f"w{x}"], [x]) for x in "qkv"], *heads("q", "Q", 2), *heads("k", "K" if tail == 2 else "K1", tail),
            *heads("v", "V" if tail == 2 else "V1", tail)]
    if grouped:
        for x in "KV":
            body += [NODE("Unsqueeze", [x + "1", "axis2"], [x + "5"]), NODE("Expand", [x + "5", "shared"], [x + "e"]), NODE("Reshape", [x + "e", "joined"], [x])]
    q = "Q"
    if rotary:
        body += [NODE("Cos", ["angle"], ["cos"]), NODE("Sin", ["angle"], ["sin"]), NODE("Slice", ["Q", "zero", "two", "axis3"], ["Qa"]),
                 NODE("Slice", ["Q", "two", "four", "axis3"], ["Qb"]), NODE("Neg", ["Qb"], ["Qn"]), NODE("Concat", ["Qn", "Qa"], ["Qr"], axis=3),
                 NODE("Mul", ["Q", "cos"], ["Qc"]), NODE("Mul", ["Qr", "sin"], ["Qs"]), NODE("Add", ["Qc", "Qs"], ["Qt"])]
        q = "Qt"
    body += [NODE("Transpose", ["K"], ["KT"], perm=[0, 1, 3, 2]), NODE("MatMul", [q, "KT"], ["s0"]), NODE("Mul", ["s0", "half"], ["s"])]
    shown = "triangle" if causal else None
    if masked:
        body += [NODE("Cast", ["attention_mask"], ["m2"], to=9), NODE("Unsqueeze", ["m2", "axes12"], ["m4"])]
        body += [NODE("And", ["triangle", "m4"], ["shown"])] if causal else []
        shown = "shown" if causal else "m4"
    body += [NODE("Where", [shown, "s", "least"], ["sm"])] if shown else []
    body += [NODE("Softmax", ["sm" if shown else "s"], ["p"], axis=-1), NODE("MatMul", ["p", "V"], ["o4"]),
             NODE("Transpose", ["o4"], ["o3"], perm=[0, 2, 1, 3]), NODE("Reshape", ["o3", "back"], ["o"]), NODE("Add", ["e", "o"], ["r"]),
             NODE("MatMul", ["r", "head"], ["logits"])]
    triangle = bytes(int(k <= q) for q in range(LENGTH) for k in range(LENGTH))
    weights = [onnx.tensor("table", [VOCAB, WIDTH], numbers(VOCAB * WIDTH, 7)), onnx.tensor("places", [LENGTH, WIDTH], numbers(LENGTH * WIDTH, 11)),
               onnx.tensor("head", [WIDTH, VOCAB], numbers(VOCAB * WIDTH, 13)), onnx.tensor("wq", [WIDTH, WIDTH], numbers(WIDTH * WIDTH, 3)),
               *[onnx.tensor(f"w{x}", [WIDTH, 4 * tail], numbers(WIDTH * 4 * tail, 5)) for x in "kv"],
               onnx.tensor("triangle", [1, 1, LENGTH, LENGTH], onnx.block(9, triangle), 9), onnx.tensor("half", [], [0.5]), onnx.tensor("least", [], [-1e9]),
               onnx.tensor("angle", [LENGTH, 4], numbers(LENGTH * 4, 9)), int_tensor("by2", [0, 0, 2, 4]), int_tensor("by1", [0, 0, 1, 4]),
               int_tensor("back", [0, 0, 8]), int_tensor("axes12", [1, 2]), int_tensor("axis2", [2]), int_tensor("axis3", [3]), int_tensor("zero", [0]),
               int_tensor("two", [2]), int_tensor("four", [4]), int_tensor("shared", [1, 1, 2, 1, 1]), int_tensor("joined", [0, 2, LENGTH, 4])]
    inputs = [onnx.end(name, ["batch", LENGTH], onnx.INT64) for name in (["ids", "attention_mask"] if masked else ["ids"])]
    return write_model(path, body, inputs, "logits", weights, opset)


def write_model(path, body, inputs, output, weights, opset=17):
    with open(path, "wb") as file:
        file.write(onnx.model(onnx.graph(body, inputs, [onnx.end(output)], weights), opset))
    return path


def a_mask_of_ones(bench):
    """A language model that was exported with its attention mask is trained as without: samples are not padded."""
    made = []
    for masked in (False, True):
        path = texts(bench.path(f"{masked}.onnx"), masked)
        config = changed(config_of("gpt2.onnx"), model={"file": path}, data__held_out=0.2, steps=3, pipelines=1, stages=1)
        ended = bench.run("eval", bench.config(config), "--json")
        equal(ended.code, 0, f"exit code of eval; {ended.err!r}")
        run = bench.train(config, str(masked))
        text = bench.run("generate", run.dir, "--prompt", "!", "--tokens", "8", "--seed", "3")
        equal(text.code, 0, f"exit code of generate; {text.err!r}")
        made.append((json.loads(ended.out)["loss"], run.hashes()[0], text.out))
        told = json.loads(bench.run("model", "import", path, "--json").out)
        equal([field["name"] for field in told["fields"]], ["tokens", "targets"], "fields")
        equal(any("'attention_mask' is taken to be all ones" in note for note in told["notes"]), masked, f"a note, {told['notes']}")
    equal(made[1], made[0], "loss, weights_sha256 and text")
    # Where attention goes both ways, the mask stays a field.
    told = json.loads(bench.run("model", "import", texts(bench.path("both.onnx"), masked=True, causal=False), "--json").out)
    check("mask" in [field["name"] for field in told["fields"]], f"fields {told['fields']}")


cases.add("an ONNX language model with a mask as input", a_mask_of_ones, first=True)


def refused(bench, path, code, *parts, family="gpt2.onnx"):
    config = bench.config(changed(config_of(family), model={"file": path}, data__held_out=0.2, stages=1))
    for words in (["train", config], ["train", config, "--dry-run"], ["eval", config]):
        ended = bench.run(*words)
        equal((ended.code, ended.err.count("\n")), (code, 1), f"exit code and lines of {words}; {ended.err!r}")
        for part in parts:
            check(part in ended.err, f"'{ended.err}' does not say '{part}'")
        check("node '" not in ended.err, f"{ended.err!r} names where the reader stumbled")


def not_supported(bench):
    """One line says what of a model is not supported, and a way out."""
    out = ("GPT-2 and BERT",)
    refused(bench, texts(bench.path("rotary.onnx"), rotary=True), 3, "rotary positions are not supported", *out)
    refused(bench, texts(bench.path("grouped.onnx"), grouped=True), 3, "grouped-query attention is not supported", *out)
    refused(bench, texts(bench.path("llama.onnx"), rotary=True, grouped=True), 3, "rotary positions and grouped-query attention are not supported", *out)
    table = onnx.tensor("table", [VOCAB, WIDTH], numbers(VOCAB * WIDTH, 7))
    ids = [onnx.end("ids", ["batch", LENGTH], onnx.INT64)]
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        body = [NODE("Gather", ["table", "ids"], ["e"]), NODE("Transpose", ["e"], ["t"], perm=[1, 0, 2]),
                NODE(op, ["t", "W", "R"], ["h"], hidden_size=WIDTH), NODE("Squeeze", ["h", "axis1"], ["s"]), NODE("MatMul", ["s", "head"], ["logits"])]
        weights = [table, *[onnx.tensor(x, [1, gates * WIDTH, WIDTH], numbers(gates * WIDTH * WIDTH, 3)) for x in "WR"], int_tensor("axis1", [1]),
                   onnx.tensor("head", [WIDTH, VOCAB], numbers(VOCAB * WIDTH, 13))]
        refused(bench, write_model(bench.path(f"{op}.onnx"), body, ids, "logits", weights), 3, f"recurrent layers ({op}) are not supported", "arch: gnmt")
    # A mask that positions are counted with.
    body = [NODE("Gather", ["table", "ids"], ["e"]), NODE("CumSum", ["attention_mask", "one"], ["places"]), NODE("Gather", ["table", "places"], ["p"]),
            NODE("Add", ["e", "p"], ["r"]), NODE("MatMul", ["r", "head"], ["logits"])]
    weights = [table, onnx.tensor("one", [], onnx.ints([1]), onnx.INT64), onnx.tensor("head", [WIDTH, VOCAB], numbers(VOCAB * WIDTH, 13))]
    refused(bench, write_model(bench.path("counted.onnx"), body, ids + [onnx.end("attention_mask", ["batch", LENGTH], onnx.INT64)], "logits", weights), 3,
            "'attention_mask' is a mask", "export without it")
    # Whatever else: where it is, and which models of text are read.
    body = [NODE("Gather", ["table", "ids"], ["e"]), NODE("Hardmax", ["e"], ["r"]), NODE("MatMul", ["r", "head"], ["logits"])]
    path = write_model(bench.path("other.onnx"), body, ids, "logits", [table, onnx.tensor("head", [WIDTH, VOCAB], numbers(VOCAB * WIDTH, 13))])
    ended = bench.run("eval", bench.config(changed(config_of("gpt2.onnx"), model={"file": path}, data__held_out=0.2, stages=1)))
    check(ended.code == 3 and "'Hardmax'" in ended.err and "made like GPT-2 or BERT" in ended.err, f"{ended.err!r}")


cases.add("what an ONNX model has that is not supported", not_supported, first=True)


def no_kind_of_data(bench):
    """Classifiers of texts and of tokens: no data.kind has labels for them, which is said whatever the data is."""
    ids = [onnx.end("ids", ["batch", LENGTH], onnx.INT64)]
    table = onnx.tensor("table", [VOCAB, WIDTH], numbers(VOCAB * WIDTH, 7))
    gather = NODE("Gather", ["table", "ids"], ["e"])
    whole = write_model(bench.path("whole.onnx"), [gather, NODE("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0), NODE("MatMul", ["m", "head"], ["y"])], ids, "y",
                        [table, onnx.tensor("head", [WIDTH, 3], numbers(3 * WIDTH, 13))])
    refused(bench, whole, 3, "classifies whole texts", "no data.kind", "data.kind: masked")
    each = write_model(bench.path("each.onnx"), [gather, NODE("MatMul", ["e", "head"], ["y"])], ids, "y",
                       [table, onnx.tensor("head", [WIDTH, 9], numbers(9 * WIDTH, 13))])
    refused(bench, each, 3, "sorts 64 kinds of tokens into 9 classes", "no data.kind", "data.kind: masked")


cases.add("ONNX models that no data.kind has labels for", no_kind_of_data, first=True)

if __name__ == "__main__":
    cases.run()
