#!/usr/bin/env python3
"""What users do with models besides training them: list, show, measure, evaluate, start from weights, generate; and what is
refused with one line."""
import ctypes
import functools
import json
import math
import os
import shutil
import struct

import families
from families import FAMILIES, GOLDEN, ONNX, THOROUGH, config_of
from harness import Cases, changed, check, equal

cases = Cases(job="train")


def listed(bench):
    lines = bench.run("model", "list", "--json").out.splitlines()
    counts = {model["name"]: model["parameters"] for model in map(json.loads, lines)}
    published = {"gpt2": 124439808, "bert-large": 336226108, "resnet18": 11689512, "resnet50": 25557032, "resnet152": 60192808,
                 "vgg16": 138357544, "vgg19": 143667240, "alexnet": 61100840}
    for name, count in published.items():
        equal(counts.get(name), count, f"parameters of {name}")
    for name in ("gpt2-xl", "bert-base", "vgg13_bn", "gnmt", "gnmt-16"):
        check(name in counts, f"{name} is not listed")


cases.add("the published models have the published sizes", listed, first=True)


def shown(bench):
    ended = bench.run("model", "show", "resnet18", "--json")
    model = json.loads(ended.out)
    equal(len(model["stages"]), 4, "stages")
    equal(sum(stage["parameters"] for stage in model["stages"]), model["parameters"], "parameters over stages")
    check(model["activation_bytes_recompute"] < model["activation_bytes"], "recomputation keeps less")


cases.add("model show", shown, first=True)


def measured(bench, family):
    path = bench.config(config_of(family))
    for dtype in ("f32", "bf16"):
        step = json.loads(bench.run("bench", "step", path, "--iters", "2", "--dtype", dtype, "--json").out)
        equal(step["dtype"], dtype, "dtype")
        check(step["step_s"]["median"] > 0 and step["gflops"] > 0 and step["rate_per_s"] > 0, f"figures {step}")
    rows = json.loads(bench.run("bench", "ops", path, "--iters", "1", "--json").out)
    check(len(rows) > 5 and all(row["calls"] > 0 for row in rows), f"{len(rows)} operators")


def peak_is_a_bound(bench):
    """Winograd's convolutions do fewer operations than they are counted for; the share of the peak is of what is done."""
    step = json.loads(bench.run("bench", "step", "vgg11", "--batch", "1", "--iters", "2", "--json").out)
    bench.note(f"{step['percent_of_peak']:.0f} % of the peak")
    check(0 < step["percent_of_peak"] <= 100, f"{step['percent_of_peak']} % of the peak")
    check(step["gflops_done"] < step["gflops"] / 1.5, f"{step['gflops_done']} done of {step['gflops']} GFLOP/s")
    check(step["gflops_done"] <= step["peak_gflops"], f"{step['gflops_done']} done, and {step['peak_gflops']} is the peak")
    text = json.loads(bench.run("bench", "step", bench.config(config_of("gpt2")), "--iters", "2", "--json").out)
    check(abs(text["gflops_done"] - text["gflops"]) < 1e-9 * text["gflops"], "a GPT has no such convolutions")


def measured_alone(bench):
    """One process has no use for pipelines, stages, lanes and the number of workers, and does not look at them."""
    config = changed(config_of("gpt2"), pipelines=3, stages=5, batch__lanes=1, cluster__max_nodes=4)
    path = bench.config(config)
    equal(bench.run("train", path, "--dry-run").code, 3, "exit code of train")
    ended = bench.run("bench", "step", path, "--iters", "1", "--json")
    equal(ended.code, 0, f"exit code of bench: {ended.err!r}")
    equal(json.loads(ended.out)["batch"], config["batch"]["micro"], "batch")


cases.add("bench: the peak is a bound", peak_is_a_bound)
cases.add("bench does not look at what one process has no use for", measured_alone)


def evaluated(bench, family):
    """The held-out loss of the initial weights and of the trained ones; also beside training."""
    config = changed(config_of(family), data__held_out=0.2, steps=8, pipelines=1, stages=2, eval={"every": 4},
                     checkpoint__every=4)
    before = json.loads(bench.run("eval", bench.config(config), "--json").out)
    run = bench.train(config, "run")
    after = json.loads(bench.run("eval", run.dir, "--json").out)
    check(0 < after["loss"] < 20 and 0 <= after["accuracy"] <= 1, f"evaluation {after}")
    check(after["loss"] != before["loss"], "training changed nothing")
    # Rows that only fill the last batch do not count.
    one, four = (json.loads(bench.run("eval", run.dir, "--json", "--samples", "7", "--set", f"batch.micro={micro}").out) for micro in (1, 4))
    check(math.isclose(one["loss"], four["loss"], rel_tol=1e-4) and math.isclose(one["accuracy"], four["accuracy"], rel_tol=1e-4),
          f"of seven samples, one by one {one}, four at once {four}")
    events = run.all("eval")
    equal([event["ok"] for event in events], [True] * len(events), "evaluations beside training")
    equal(events[-1]["step"], 8, "the last evaluation")
    equal(events[-1]["loss"], after["loss"], "the last evaluation and culm eval")
    if family in ("gpt2", "gnmt", "gpt2.onnx"):
        check(after["perplexity"] > 1, "perplexity")


def starts_from_weights(bench, family):
    """model.init: the weights that a run has written are where the next one starts."""
    config = changed(config_of(family), pipelines=1, stages=1, redundancy="none", steps=0)
    first = bench.train(changed(config, seed=11, steps=1 if family in ONNX else 0), "first")
    again = bench.train(changed(config, seed=12, model__init=os.path.join(first.dir, "model.safetensors")), "again")
    equal(again.hashes()[0], first.hashes()[0], "weights_sha256")
    other = bench.train(changed(config, seed=12), "other")
    check(other.hashes()[0] != first.hashes()[0], "another seed, or the ONNX file alone, gives other weights")


def drop_weight(path, copy):
    """The same file without the tensor that lies last in it; returns that one's name."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(length)), file.read()
    name = max((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"][1])
    data = data[:header.pop(name)["data_offsets"][0]]
    text = json.dumps(header).encode()
    with open(copy, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    return name


def tells_of_missing_weight(bench):
    """A file that lacks a parameter is no error, but everybody who starts from it says which."""
    config = changed(config_of("bert"), pipelines=1, stages=1, redundancy="none", steps=0, data__held_out=0.2)
    first = bench.train(config, "first")
    missing = drop_weight(os.path.join(first.dir, "model.safetensors"), bench.path("less.safetensors"))
    path = bench.config(changed(config, model__init=bench.path("less.safetensors")))
    for command in (["train", path, "--dry-run"], ["eval", path], ["bench", "step", path, "--iters", "1"]):
        ended = bench.run(*command)
        equal(ended.code, 0, f"exit code of {command}")
        said = ended.err.startswith((f"culm {command[0]}: model.init has ", f"culm {command[0]}: warning: model.init has "))
        check(said and f"the other 1 starts from the seed: '{missing}'" in ended.err,
              f"{command} says {ended.err!r}")


cases.add("who starts from weights tells what they lack", tells_of_missing_weight, first=True)

for family in THOROUGH:
    cases.add(f"{family}: bench", measured, family)
    cases.add(f"{family}: eval", evaluated, family, first=family in ("gpt2", "resnet18"))
    cases.add(f"{family}: starts from weights", starts_from_weights, family, first=family == "gpt2")


def refused(bench, family, changes, *parts, code=3):
    """One line that says what is wrong, and nothing written. Of changes, functions make what they are."""
    path = bench.config(changed(config_of(family), **{key: what() if callable(what) else what for key, what in changes.items()}))
    ended = bench.run("train", path, "--out", bench.path("run"))
    equal(ended.code, code, "exit code")
    equal(len(ended.err.splitlines()), 1, f"lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")
    check(not os.path.exists(bench.path("run")), "something was written")


cases.add("refused: an unknown name", refused, "gpt2", {"model": {"name": "gpt5"}}, "model.name", "gpt5", "culm model list")
cases.add("refused: name and arch differ", refused, "gpt2", {"model": {"name": "resnet50", "arch": "vgg"}}, "model.arch")
cases.add("refused: images for a text model", refused, "gpt2", {"data": FAMILIES["resnet18"][1]}, "data.kind", "images", "text, tokens")
cases.add("refused: images of another size", refused, "resnet18", {"model__classes": 3}, "label", "3")
cases.add("refused: no weights there", refused, "gpt2", {"model__init": "nowhere.safetensors"}, "model.init", "nowhere")
cases.add("refused: a text as weights", refused, "gpt2", {"model__init": cases.text}, "model.init", cases.text)
cases.add("refused: an ONNX model without a file", refused, "gpt2", {"model": {"arch": "onnx"}}, "model.arch", "FILE.onnx")
cases.add("refused: a text as an ONNX file", refused, "gpt2", {"model": {"arch": "onnx", "file": cases.text}}, "onnx", cases.text)
cases.add("refused: evaluation without held-out samples", refused, "gpt2", {"eval": {"every": 4}}, "eval.every", "data.held_out")


def more_stages_than_blocks(bench, family):
    """As many stages as `model show` counts blocks are taken, one more is not."""
    config = changed(config_of(family), pipelines=1, cluster__max_nodes=64)
    blocks = json.loads(bench.run("model", "show", bench.config(config), "--json").out)["blocks"]
    most = bench.run("train", bench.config(changed(config, stages=blocks)), "--dry-run")
    equal((most.code, most.err), (0, ""), f"{blocks} stages")
    refused(bench, family, {"pipelines": 1, "cluster__max_nodes": 64, "stages": blocks + 1}, "stages: ", f"allowed: 1 to {blocks}")


for family in FAMILIES:
    cases.add(f"{family}: refused: more stages than blocks", more_stages_than_blocks, family)
cases.add("refused: no cut fits the memory", functools.partial(refused, code=4), "vgg11_bn", {"memory_mb": 1}, "memory_mb")


# Ids without a row, whoever gives the size.
TOKENS = functools.partial(families.token_data, 200)
GPT2, BERT, RESNET = (os.path.join(GOLDEN, name) for name in ("gpt2.onnx", "bert.onnx", "resnet.onnx"))
cases.add("refused: a larger vocabulary than the ONNX file has", refused, "gpt2.onnx",
          {"model": {"file": GPT2, "vocab": 256}, "data": families.text_data}, "model.vocab", "up to 255", "64 rows")
cases.add("refused: text for an ONNX file of 64 tokens", refused, "gpt2.onnx", {"data": families.text_data}, "64")
cases.add("refused: token ids outside of an ONNX file's table", refused, "gpt2.onnx", {"data": TOKENS}, "64")
cases.add("refused: masked tokens outside of an ONNX file's table", refused, "bert.onnx", {"model": {"file": BERT, "vocab": 51}},
          "model.vocab", "up to 50", "50 rows")
cases.add("refused: another context than the ONNX file has", refused, "gpt2.onnx", {"model": {"file": GPT2, "context": 32}}, "tokens",
          "i32[16]", "i32[32]")
cases.add("refused: more classes than the ONNX file has", refused, "resnet.onnx", {"model": {"file": RESNET, "classes": 1000}},
          "model.classes", "up to 999", "5 classes")
cases.add("refused: labels that the ONNX file has not", refused, "resnet.onnx", {"data": functools.partial(families.image_data, 32)}, "5 classes")
cases.add("refused: a BERT with one type of segments", refused, "bert", {"model__types": 1}, "model.types", "up to 1", "1 rows")


def refused_by_all(bench):
    """The same line from every command that would run the model on the samples."""
    config = changed(config_of("resnet.onnx"), model={"file": RESNET, "classes": 6}, data__held_out=0.2)
    path = bench.config(config)
    equal(bench.run("bench", "step", path, "--iters", "1").code, 0, "exit code of bench, which needs no samples")
    for words in (["train", path, "--dry-run"], ["eval", path]):
        ended = bench.run(*words)
        equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code and lines of {words}: {ended.err!r}")
        check("model.classes" in ended.err, f"{words} says {ended.err!r}")


def benched_below(bench):
    """bench makes its own samples: of what the model has, whatever the configuration says."""
    for family, changes in (("gpt2.onnx", {"model": {"file": GPT2, "vocab": 256}}), ("bert", {"model__types": 1})):
        ended = bench.run("bench", "step", bench.config(changed(config_of(family), **changes)), "--iters", "1")
        equal(ended.code, 0, f"exit code for {family}: {ended.err!r}")


def unsupported(bench):
    """Models that culm cannot train are input that is refused, whichever command reads them and whatever they ask for."""
    corpus = os.path.join(os.path.dirname(GOLDEN), os.pardir, "fuzz", "corpus", "onnx")
    names = sorted(name for name in os.listdir(corpus) if name.startswith("bad-"))
    check(len(names) > 50, f"{len(names)} files in {corpus}")
    wrong = {}
    for name in names:
        ended = bench.run("model", "import", os.path.join(corpus, name))
        if (ended.code, len(ended.err.splitlines())) != (3, 1):
            wrong[name] = (ended.code, ended.err)
    check(not wrong, f"exit codes and lines of culm model import: {wrong}")
    for name, part in (("bad-operator", "is not supported"), ("bad-domain", "com.example"), ("bad-old-opset", "opset 5 is too old"),
                       ("bad-axes-of-floats", "goes over the samples")):
        path = bench.config(changed(config_of("resnet.onnx"), model={"file": os.path.join(corpus, name)}, data__held_out=0.2))
        for words in (["train", path], ["train", path, "--dry-run"], ["eval", path], ["bench", "step", path, "--iters", "1"],
                      ["model", "show", path]):
            ended = bench.run(*words)
            equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code and lines of {words}: {ended.err!r}")
            check(part in ended.err, f"{words} says {ended.err!r}")


cases.add("refused: what an ONNX file asks for and culm has not, by every command", unsupported)
cases.add("bench with sizes that the model has not", benched_below)
cases.add("refused: a context beyond the ONNX file's positions", refused, "gpt2-free.onnx",
          {"model": {"file": os.path.join(GOLDEN, "gpt2-free.onnx")}}, "row 16", "model.context")
cases.add("refused: more classes than the ONNX file has, by every command", refused_by_all, first=True)


def file_says_sizes(bench):
    """model.file alone makes an ONNX model, and what is not given is as in the file."""
    config = changed(config_of("gpt2.onnx"), steps=2, pipelines=1, stages=2)
    given = bench.train(config, "given")
    del config["model"]
    alone = bench.train(config, "alone", "--set", f"model.file={GPT2}")
    equal(alone.hashes(), given.hashes(), "weights and state")
    with open(os.path.join(alone.dir, "config.yaml"), encoding="utf-8") as file:
        text = file.read()
    for line in ("arch: onnx", "vocab: 64", "context: 16"):
        check(line in text, f"{line!r} is not in config.yaml: {text}")
    smaller = bench.run("train", bench.config(changed(config_of("gpt2.onnx"), model={"file": GPT2, "vocab": 64}, steps=1)), "--dry-run")
    equal(smaller.code, 0, "exit code with the size given")
    again = bench.train(changed(config_of("gpt2.onnx"), steps=2, pipelines=1, stages=1), "alone", "--resume")
    equal(again.hashes(), given.hashes(), "weights and state of the run gone on with")


cases.add("an ONNX file says what is not given", file_says_sizes, first=True)


def opens(path, body):
    """How often `path` was opened while `body` ran, by whichever process, as long as no two did so at once."""
    in_open, in_close = 0x20, 0x10
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    check(fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), in_open | in_close) >= 0, f"inotify: {ctypes.get_errno()}")
    try:
        body()
        data, count, at = os.read(fd, 1 << 20), 0, 0
    finally:
        os.close(fd)
    while at < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        count += bool(mask & in_open)
        at += 16 + length
    return count


def read_once(bench):
    """The launcher and each worker read an ONNX file once, whatever they need of it."""
    path = bench.path("model.onnx")
    shutil.copy(RESNET, path)
    config = changed(config_of("resnet.onnx"), model={"file": path}, steps=2, pipelines=1, stages=1, redundancy="none",
                     kernels="trial", data__held_out=0.2)
    equal(opens(path, lambda: bench.train(config, "run")), 2, "times that a launcher and a worker open the file")
    equal(opens(path, lambda: bench.run("train", bench.config(config), "--dry-run")), 1, "times that --dry-run does")
    for words in (["eval", bench.config(config)], ["eval", bench.path("run")], ["bench", "step", bench.config(config), "--iters", "1"],
                  ["model", "show", bench.config(config)], ["model", "show", bench.path("run")], ["model", "export", bench.path("run"), "--onnx", bench.path("out.onnx")]):
        ended = []
        equal(opens(path, lambda words=words, ended=ended: ended.append(bench.run(*words))), 1, f"times that {words[0]} does")
        equal(ended[0].code, 0, f"exit code of {words}: {ended[0].err!r}")
    of_config, of_run = (json.loads(bench.run("model", "show", what, "--json").out) for what in (bench.config(config), bench.path("run")))
    equal({**of_run, "name": None}, {**of_config, "name": None}, "what `model show` says of the run and of its configuration")
    os.remove(os.path.join(bench.path("run"), "model.safetensors"))
    equal(bench.run("model", "show", bench.path("run")).code, 0, "exit code of `model show` of a run without numbers")


cases.add("an ONNX file is read once by each process", read_once)


def imported(bench, name):
    told = json.loads(bench.run("model", "import", os.path.join(GOLDEN, name), *(["--context", "16"] if "free" in name else []),
                                "--json").out)
    check(told["producer"] == "pytorch" and told["parameters"] > 1000 and told["blocks"] >= 3, f"import says {told}")
    first = "tokens" if name.startswith(("gpt2", "bert")) else "image"
    equal(told["fields"][0]["name"], first, "the first field")


for name in ONNX:
    cases.add(f"{name}: model import", imported, name, first=name == "gpt2.onnx")


def exported(bench, family, precision):
    """A run, exported and imported again, is the same model: its held-out loss."""
    config = changed(config_of(family), data__held_out=0.2, steps=4, pipelines=1, stages=2, precision=precision)
    run = bench.train(config, "run")
    before = json.loads(bench.run("eval", run.dir, "--json").out)
    ended = bench.run("model", "export", run.dir, "--onnx", bench.path("out.onnx"))
    equal(ended.code, 0, f"exit code of export, {ended.err!r}")
    model = {"file": bench.path("out.onnx")}
    if family.startswith("bert"):
        model.update({key: config["model"][key] for key in ("vocab",) if key in config["model"]})
    again = bench.run("eval", bench.config(changed(config, model=model)), "--json")
    equal(again.code, 0, f"exit code of eval, {again.err!r}")
    after = json.loads(again.out)
    equal((after["samples"], after["counted"]), (before["samples"], before["counted"]), "samples and predictions")
    near = 1e-4 if precision == "f32" else 1e-2
    check(abs(after["loss"] - before["loss"]) < near * before["loss"], f"loss {before['loss']}, then {after['loss']}")


def shapes(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}


def keeps_shapes(bench, family):
    """Weights have PyTorch's shapes wherever they are written, so that load_state_dict takes them; and where they start from
    weights in our own shapes, as earlier versions wrote them."""
    vectors = shapes(os.path.join(os.path.dirname(GOLDEN), family.replace(".onnx", ".safetensors")))
    want = {name[len("weight."):]: shape for name, shape in vectors.items() if name.startswith("weight.")}
    config = changed(config_of(family), data__held_out=0.2, steps=2, pipelines=1, stages=2)
    run = bench.train(config, "run")
    weights = os.path.join(run.dir, "model.safetensors")
    equal(shapes(weights), want, "shapes in model.safetensors")
    ended = bench.run("model", "export", run.dir, "--onnx", bench.path("out.onnx"))
    equal(ended.code, 0, f"exit code of export, {ended.err!r}")
    again = bench.train(changed(config, model={"file": bench.path("out.onnx")}, steps=0), "again")
    equal(shapes(os.path.join(again.dir, "model.safetensors")), want, "shapes of an exported and imported model")
    flat = bench.path("flat.safetensors")
    with open(weights, "rb") as file:
        header, data = json.loads(file.read(int.from_bytes(file.read(8), "little"))), file.read()
    for tensor in header.values():
        if "shape" in tensor:
            tensor["shape"] = [size for size in tensor["shape"] if size > 1]
    with open(flat, "wb") as file:
        text = json.dumps(header).encode()
        file.write(len(text).to_bytes(8, "little") + text + data)
    first = bench.train(changed(config, model__init=weights, steps=1), "first")
    second = bench.train(changed(config, model__init=flat, steps=1), "second")
    equal(second.hashes(), first.hashes(), "weights and state from weights of other shapes")


for family in ("vit.onnx", "convnext.onnx"):
    cases.add(f"{family}: keeps the shapes of the file", keeps_shapes, family, first=family == "vit.onnx")
for family in ("gpt2", "bert", "resnet18", "vgg11_bn", "alexnet", "gpt2.onnx", "bert.onnx", "resnet.onnx", "vit.onnx",
               "convnext.onnx", "densenet.onnx", "shufflenet.onnx", "inception.onnx"):
    cases.add(f"{family}: exported to ONNX and imported again", exported, family, "f32", first=family in ("gpt2", "resnet18", "resnet.onnx"))
cases.add("gpt2: exported to ONNX and imported again in bf16", exported, "gpt2", "bf16")


def not_exported(bench):
    """What export does not know leaves one line and no file."""
    run = bench.train(changed(config_of("gnmt"), steps=0, pipelines=1, stages=1), "run")
    ended = bench.run("model", "export", run.dir, "--onnx", bench.path("out.onnx"))
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"exit code and lines of export, {ended.err!r}")
    check("'lstm'" in ended.err and "culm does not export it" in ended.err, f"export says {ended.err!r}")
    check(not os.path.exists(bench.path("out.onnx")), "a file was left")


cases.add("gnmt: not exported", not_exported, first=True)


def plan_is_taken_over(bench):
    """Trials differ from run to run; with --plan the second run has the bits of the first."""
    config = changed(config_of("vgg11_bn"), kernels="trial", cuts="measured", pipelines=1, redundancy="none")
    first = bench.train(config, "first")
    again = bench.train(config, "again", "--plan", os.path.join(first.dir, "plan.json"))
    equal(again.hashes(), first.hashes(), "weights and state")
    with open(os.path.join(first.dir, "plan.json"), encoding="utf-8") as file:
        check(json.load(file)["choices"]["algorithms"], "no algorithm was chosen")


cases.add("a run takes over the choices of another one", plan_is_taken_over, first=True)


def generates(bench):
    config = changed(config_of("gpt2"), pipelines=1, stages=1, redundancy="none", steps=2)
    run = bench.train(config, "run")
    texts = [bench.run("generate", run.dir, "--prompt", "abc", "--bytes", "8").out for _ in range(2)]
    equal(texts[0], texts[1], "the same seed, the same text")
    check(texts[0].startswith("abc"), f"text {texts[0]!r}")


cases.add("generate repeats itself", generates, first=True)


def generates_imported(bench):
    """A GPT-2 that was exported and imported again writes the same text; so does a table with rows that no id has."""
    config = changed(config_of("gpt2"), pipelines=1, stages=1, redundancy="none", steps=3)
    first = bench.train(config, "first")
    bench.run("model", "export", first.dir, "--onnx", bench.path("out.onnx"))
    config = changed(config, model={"file": bench.path("out.onnx")}, steps=0)
    texts = []
    for name, run in (("first", first), ("again", bench.train(config, "again"))):
        ended = bench.run("generate", run.dir, "--prompt", "abc", "--bytes", "60", "--temperature", "0.01")
        equal(ended.code, 0, f"exit code of {name}: {ended.err!r}")
        texts.append(ended.out)
    equal(texts[1], texts[0], "the text of the imported model")
    small = bench.train(changed(config_of("gpt2.onnx"), pipelines=1, stages=1, steps=0, model__vocab=40,
                                data=families.token_data(40)), "small")
    ended = bench.run("generate", small.dir, "--prompt", "\t", "--bytes", "40", "--temperature", "100")
    equal(ended.code, 0, f"exit code: {ended.err!r}")
    check(max(map(ord, ended.out)) < 40, f"ids beyond the vocabulary in {ended.out!r}")


cases.add("generate from an ONNX model", generates_imported, first=True)


def generates_not(bench, family):
    run = bench.train(changed(config_of(family), pipelines=1, stages=1, redundancy="none", steps=0), "run")
    ended = bench.run("generate", run.dir)
    equal((ended.code, ended.out, len(ended.err.splitlines())), (3, "", 1), f"{ended.err!r}: exit code, text and lines")
    check("does not continue text" in ended.err and "causal" in ended.err, f"generate says {ended.err!r}")


for family in ("bert", "resnet18", "gnmt", "bert.onnx", "resnet.onnx"):
    cases.add(f"{family}: generate says what it takes", generates_not, family)

if __name__ == "__main__":
    cases.run()
