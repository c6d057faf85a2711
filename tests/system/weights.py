#!/usr/bin/env python3
"""Weights as files: every form in which they are published, and every command that reads them. Each file is made here, of the
weights of one short run, so that what must come out is known to the bit."""
import contextlib
import glob
import json
import math
import os
import shutil
import struct

import vision_harness
from gnn_harness import ONE, Graphs
from harness import Bench, Cases, Held, changed, check, equal, flip_bit, hold, sha256_of, tiny_config, wait_until

cases = Cases(job="train")
BASE = changed(tiny_config(cases.text), data={"kind": "text", "path": cases.text, "held_out": 0.02}, pipelines=1, stages=1, redundancy="none", steps=2,
               checkpoint={"every": 1, "keep": 2})
INPUT = 3

# --- files ------------------------------------------------------------------------------------------------------------------


def tensors_of(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (about["dtype"], about["shape"], data[slice(*about["data_offsets"])]) for name, about in header.items() if name != "__metadata__"}


def metadata_of(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0])).get("__metadata__", {})


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
    return path


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def numbers(data):
    return struct.unpack(f"<{len(data) // 4}f", data)


def halved(dtype, data):
    """Numbers that the format holds, in the format and as F32: what conversion must give back to the bit."""
    if dtype == "BF16":
        few = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
        return few, b"".join(b"\0\0" + few[i:i + 2] for i in range(0, len(few), 2))
    if dtype == "F16":
        few = struct.pack(f"<{len(data) // 4}e", *numbers(data))
        return few, floats(struct.unpack(f"<{len(few) // 2}e", few))
    return struct.pack(f"<{len(data) // 4}d", *numbers(data)), data


def trained():
    """A run that has ended: the folder."""
    def make():
        bench = Bench(cases.culm, os.path.join(cases.folder, "shared"), cases.text)
        os.makedirs(bench.folder, exist_ok=True)
        return bench.train(BASE).dir

    return cases.once("weights: a run", make)


def model():
    return tensors_of(os.path.join(trained(), "model.safetensors"))


def initial(bench, init, name="initial", **changes):
    """The weights of step 0 of a run that starts from there, and what its start has told."""
    run = bench.train(changed(BASE, steps=0, seed=77, model__init=init, **changes), name)
    return tensors_of(os.path.join(run.dir, "model.safetensors")), run.err


def one_line(ended, *parts, code=INPUT):
    equal(ended.code, code, f"exit code ({ended.err!r})")
    equal((ended.out, len(ended.err.splitlines())), ("", 1), f"standard output, and lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")


# --- numbers, names, shards ---------------------------------------------------------------------------------------------------


def converted(bench, dtype, told):
    """F16 and BF16 come out exactly, F64 as the numbers that were rounded into it; a file may have several formats."""
    tensors, wanted = {}, {}
    for number, (name, (_, shape, data)) in enumerate(model().items()):
        few, whole = halved(dtype if dtype != "mixed" else ("BF16", "F16", "F64")[number % 3], data)
        tensors[name] = (dtype if dtype != "mixed" else ("BF16", "F16", "F64")[number % 3], shape, few)
        wanted[name] = ("F32", shape, whole)
    path = write(bench.path("few.safetensors"), tensors)
    got, err = initial(bench, path)
    equal(got, wanted, "weights")
    for part in told:
        check(part in err, f"{part!r} is not in {err!r}")
    ended = bench.run("eval", bench.config(changed(BASE, model__init=path)), "--json")
    equal(ended.code, 0, "exit code of eval")
    check(told[0] in ended.err and 0 < json.loads(ended.out)["loss"] < 20, f"eval says {ended.err!r} {ended.out!r}")


for dtype, told in (("BF16", ["from BF16 to F32, exactly"]), ("F16", ["from F16 to F32, exactly"]), ("F64", ["from F64 to F32, rounding each number once"]),
                    ("mixed", ["from BF16 to F32, exactly", "from F16 to F32, exactly", "from F64 to F32"])):
    cases.add(f"model.init in {dtype}", converted, dtype, told, first=dtype == "BF16")


def named_otherwise(bench):
    """A prefix of all names is taken off, or the model's own put there, and the output says so."""
    tensors = model()
    for change, told in ((lambda name: "model." + name, "takes 'model.' off the names"),
                         (lambda name: "module.model." + name, "takes 'module.model.' off the names"),
                         (lambda name: name.removeprefix("transformer."), "puts 'transformer.' in front of the names"),
                         (lambda name: "model." + name.removeprefix("transformer."), "reads 'model.' in front of the names as 'transformer.'")):
        path = write(bench.path("renamed.safetensors"), {change(name): tensor for name, tensor in tensors.items()})
        got, err = initial(bench, path, told.split("'")[1] + told[0])
        equal(got, tensors, f"weights where it {told}")
        check(told in err, f"{told!r} is not in {err!r}")


cases.add("model.init with another prefix", named_otherwise)


def shards(bench):
    """Shards by their index, by its folder, and without an index; workers and a resumed run read them, too."""
    tensors = model()
    names = sorted(tensors)
    half = len(names) // 2
    for folder in ("indexed", "plain"):
        os.mkdir(bench.path(folder))
    parts = [{name: tensors[name] for name in names[:half]}, {name: tensors[name] for name in names[half:]}]
    for number, part in enumerate(parts):
        write(bench.path("indexed", f"part-{number}.safetensors"), part)
        write(bench.path("plain", f"model-{number + 1:05}-of-00002.safetensors"), part)
    index = bench.path("indexed", "model.safetensors.index.json")
    with open(index, "w", encoding="ascii") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": {name: f"part-{names.index(name) // half if names.index(name) < 2 * half else 1}.safetensors" for name in names}}, file)
    for number, path in enumerate((index, bench.path("indexed"), bench.path("plain"))):
        got, err = initial(bench, path, f"run-{number}", pipelines=2, stages=3)
        equal(got, tensors, f"weights from {path}")
        check("reads 2 shards" in err, f"nothing of shards in {err!r}")
    config = changed(BASE, steps=2, seed=77, model__init=bench.path("plain"))
    run = bench.train(changed(config), "whole")
    part = Held(bench, bench.start(*bench.train_words(config, "part", *hold(0, 2))), "part")
    part.wait()
    part.process.kill()
    part.process.wait()
    resumed = bench.train(config, "part", "--resume")
    equal(resumed.hashes(), run.hashes(), "hashes of a resumed run")
    os.remove(bench.path("plain", "model-00002-of-00002.safetensors"))
    one_line(bench.run("train", bench.config(config), "--out", bench.path("no")), "model.init", "shard 2 of 2 is missing")
    os.remove(bench.path("indexed", "part-1.safetensors"))
    one_line(bench.run("train", bench.config(changed(config, model__init=index)), "--out", bench.path("no")), "model.init", "lists 'part-1.safetensors'")


cases.add("model.init in shards", shards, first=True)

# --- what nobody asks for -----------------------------------------------------------------------------------------------------


def untied(bench):
    """A head of its own is refused with its name, wherever weights are given; ignoring it is said and asked for. A head that is a copy
    of the embedding, causal masks and their fill values are passed over."""
    tensors = model()
    embedding = tensors["transformer.wte.weight"]
    other = bytes([embedding[2][0] ^ 1]) + embedding[2][1:]
    path = write(bench.path("untied.safetensors"), {**tensors, "lm_head.weight": ("F32", embedding[1], other)})
    config = bench.config(changed(BASE, model__init=path, steps=0))
    run = trained()
    told = "has 1 tensor that the model has no place for: 'lm_head.weight'"
    for words in (["train", config, "--out", bench.path("run")], ["eval", config], ["bench", "step", config, "--iters", "1"],
                  ["model", "export", config, "--onnx", bench.path("out.onnx")]):
        one_line(bench.run(*words), told, "set model.init_unused: ignore")
        check(not os.path.exists(bench.path("run")) and not os.path.exists(bench.path("out.onnx")), f"{words[0]} has written something")
    ended = bench.run("eval", config, "--set", "model.init_unused=ignore", "--json")
    equal(ended.code, 0, f"exit code of what the line says: {ended.err!r}")
    check("leaves out 1 tensor that the model has no place for: 'lm_head.weight'" in ended.err, f"it says {ended.err!r}")
    ignored, err = initial(bench, path, model__init_unused="ignore")
    equal(ignored, tensors, "weights without the head")
    check("leaves out 1 tensor" in err, f"training says {err!r}")
    for words in (["generate", run, "--weights", path], ["model", "export", run, "--weights", path, "--onnx", bench.path("out.onnx")]):
        one_line(bench.run(*words), told, "give weights of this model")
    one_line(bench.run("eval", run, "--weights", path), told, "add --set model.init_unused=ignore")
    equal(bench.run("eval", run, "--weights", path, "--set", "model.init_unused=ignore").code, 0, "exit code of what the line says")


def beside(bench):
    tensors = model()
    context = BASE["model"]["context"]
    mask = floats([float(column <= row) for row in range(context) for column in range(context)])
    more = {"lm_head.weight": tensors["transformer.wte.weight"]}
    for layer in range(BASE["model"]["layers"]):
        more[f"transformer.h.{layer}.attn.bias"] = ("F32", [1, 1, context, context], mask)
        more[f"transformer.h.{layer}.attn.masked_bias"] = ("F32", [], floats([-1e4]))
    got, err = initial(bench, write(bench.path("published.safetensors"), {**tensors, **more}))
    equal(got, tensors, "weights")
    for part in ("3 x causal mask", "3 x fill value of a mask", "1 x copy of another tensor"):
        check(part in err, f"{part!r} is not in {err!r}")
    more["transformer.h.1.attn.bias"] = ("F32", [1, 1, context, context], floats([0.5] * context * context))
    path = write(bench.path("weights.safetensors"), {**tensors, **more})
    one_line(bench.run("eval", bench.config(changed(BASE, model__init=path))), "no place for: 'transformer.h.1.attn.bias'")


def another_shape(bench):
    """A tensor of another shape: the line names both, and what it says starts the parameter from the seed."""
    tensors = model()
    path = write(bench.path("shape.safetensors"), {**tensors, "transformer.ln_f.weight": ("F32", [3], floats([1, 2, 3]))})
    config = bench.config(changed(BASE, model__init=path))
    one_line(bench.run("eval", config), "'transformer.ln_f.weight' as [3], the model needs [32]", "set model.init_unused: ignore")
    ended = bench.run("eval", config, "--set", "model.init_unused=ignore")
    equal(ended.code, 0, "exit code of what the line says")
    check("the other 1 starts from the seed: of another shape 'transformer.ln_f.weight'" in ended.err, f"it says {ended.err!r}")


cases.add("weights that nobody asks for are refused", untied, first=True)
cases.add("what published files have beside weights is passed over", beside)
cases.add("a tensor of another shape", another_shape)

# --- any weights anywhere -----------------------------------------------------------------------------------------------------


def stopped_run(bench):
    """A run that was stopped after step 1: without a model, with a checkpoint. Its last part is the same as the whole one."""
    shutil.copytree(trained(), bench.path("stopped"))
    os.remove(bench.path("stopped", "model.safetensors"))
    return bench.path("stopped"), bench.path("stopped", "checkpoints", "step-00000002"), bench.path("stopped", "checkpoints", "step-00000001")


def anywhere(bench):
    """generate, eval and export give of a checkpoint, named as the model or as weights, what they give of the model made of it."""
    stopped, newest, older = stopped_run(bench)
    whole = trained()

    def generated(*words):
        ended = bench.run("generate", *words, "--tokens", "12", "--prompt", "a")
        equal((ended.code, ended.err), (0, ""), f"generate {words}")
        return ended.out

    def evaluated(*words):
        ended = bench.run("eval", *words, "--json")
        equal((ended.code, ended.err), (0, ""), f"eval {words}")
        return json.loads(ended.out)["loss"]

    def exported(*words):
        ended = bench.run("model", "export", *words, "--onnx", bench.path("out.onnx"))
        equal((ended.code, ended.err), (0, ""), f"export {words}")
        return sha256_of(bench.path("out.onnx"))

    def one_file(path):
        ended = bench.run("ckpt", "export", path, "--out", bench.path("one.safetensors"))
        equal((ended.code, ended.err), (0, ""), f"ckpt export {path}")
        return bench.path("one.safetensors")

    for get in (generated, evaluated, exported):
        wanted, other = get(whole), get(whole, "--weights", older)
        for words in ([newest], [whole, "--weights", newest], [stopped, "--weights", stopped], [whole, "--weights", stopped],
                      [stopped, "--weights", one_file(newest)]):
            equal(get(*words), wanted, f"{get.__name__} {words}")
        equal(get(older), other, f"{get.__name__} of the older checkpoint")
        check(other != wanted, f"{get.__name__}: the checkpoints are the same")
    equal(tensors_of(one_file(newest)), model(), "one file of a checkpoint")
    equal(tensors_of(one_file(stopped)), model(), "one file of a run")
    # Starting from them; a run stands for its model, or its newest checkpoint.
    for number, (path, wanted) in enumerate(((older, tensors_of(one_file(older))), (newest, model()), (stopped, model()), (whole, model()))):
        got, err = initial(bench, path, f"from-{number}")
        equal(got, wanted, f"weights of a run that starts from {path}")
        check(("is the newest checkpoint of a run" in err) == (path == stopped), f"from {path}: {err!r}")


def advice(bench):
    """What is said of a run that has not ended can be done as it is said."""
    stopped, newest, _ = stopped_run(bench)
    for words in (["generate", stopped, "--tokens", "3"], ["eval", stopped], ["model", "export", stopped, "--onnx", bench.path("out.onnx")]):
        ended = bench.run(*words)
        one_line(ended, f"name its newest checkpoint, '{newest}', in its place", f"'culm train {stopped}/config.yaml --resume --out {stopped}'")
        there = bench.run(*[newest if word == stopped else word for word in words])
        equal(there.code, 0, f"exit code of what the line says of {words}: {there.err!r}")
    equal(bench.run("train", f"{stopped}/config.yaml", "--resume", "--out", stopped).code, 0, "exit code of the other way")
    for words in (["generate", stopped, "--tokens", "3"], ["eval", stopped]):
        equal(bench.run(*words).code, 0, f"exit code of {words[0]} after it")


def refused(bench):
    stopped, newest, _ = stopped_run(bench)
    whole = trained()
    os.mkdir(bench.path("empty"))
    one_line(bench.run("eval", whole, "--weights", bench.path("empty")), "a folder without weights")
    one_line(bench.run("eval", whole, "--weights", "nowhere"), "nowhere")
    one_line(bench.run("eval", newest, "--weights", whole), "is a checkpoint, which has weights of its own")
    one_line(bench.run("eval", whole, "--weights", "best"), "has no best.safetensors", "checkpoint.best and eval.every")
    one_line(bench.run("eval", bench.config(BASE), "--weights", "best"), "are those of a run")
    one_line(bench.run("ckpt", "export", newest, "--out", os.path.join(whole, "model.safetensors")), "is a file of a run")
    one_line(bench.run("ckpt", "export", bench.path("empty"), "--out", bench.path("x")), "a folder without weights")
    one_line(bench.run("ckpt", "export", newest), "--out FILE", code=2)
    one_line(bench.run("ckpt", "show", newest, "--out", "x"), "--out", code=2)
    one_line(bench.run("generate", bench.config(BASE)), "is neither the folder of a run nor a checkpoint")
    less = {name: tensor for name, tensor in model().items() if not name.endswith("ln_f.bias")}
    one_line(bench.run("generate", whole, "--weights", write(bench.path("less.safetensors"), less)), "lacks 1 of", "'transformer.ln_f.bias'")
    piece = os.path.join(newest, "stage-0.safetensors")
    flip_bit(piece)
    one_line(bench.run("eval", whole, "--weights", newest), "is damaged")
    ended = bench.run("ckpt", "export", stopped, "--out", bench.path("one.safetensors"))
    equal(ended.code, 0, "exit code of export from a run whose newest checkpoint is damaged")
    check("is damaged" in ended.err and "step-00000001" in ended.out, f"it says {ended.err!r} {ended.out!r}")


cases.add("weights of a checkpoint in every command", anywhere, first=True)
cases.add("what is said of a run that has not ended can be done", advice)
cases.add("refused: weights that are none, or of nothing", refused)


def pictures(bench):
    """predict and export of a model of pictures: runs, checkpoints, shards, and weights with another head."""
    vision_harness.images(bench.path("images"))
    labels = bench.path("labels")
    with open(labels, "wb") as file:
        file.write(struct.pack(">ii", 0x801, 48) + bytes(number % 4 for number in range(48)))
    config = changed(BASE, model=vision_harness.model(1, [1, 1])["model"], data={"kind": "images", "path": [bench.path("images"), labels]})
    run = bench.train(config)
    checkpoint = os.path.join(run.dir, "checkpoints", "step-00000002")
    tensors = tensors_of(os.path.join(run.dir, "model.safetensors"))

    def predicted(*words, err=""):
        ended = bench.run("predict", *words, "images", "--frames", "0:2", "--json")
        equal((ended.code, ended.err), (0, err), f"predict {words}")
        return ended.out

    wanted = predicted(run.dir)
    half = len(tensors) // 2
    os.mkdir(bench.path("shards"))
    for number, some in enumerate((list(tensors)[:half], list(tensors)[half:])):
        write(bench.path("shards", f"m-{number + 1:05}-of-00002.safetensors"), {name: tensors[name] for name in some})
    for words in ([checkpoint], [run.dir, "--weights", checkpoint], [run.dir, "--weights", run.dir], [bench.path("run.yaml"), "--weights", checkpoint]):
        equal(predicted(*words), wanted, f"predict {words}")
    shards_path = bench.path("shards")
    equal(predicted(run.dir, "--weights", shards_path, err=f"culm predict: weights '{shards_path}': reads 2 shards\n"), wanted, "predict of shards")
    counters = {name.replace("running_mean", "num_batches_tracked"): ("I64", [], struct.pack("<q", 7)) for name in tensors if name.endswith("running_mean")}
    check(counters, "no batch norms")
    path = write(bench.path("counted.safetensors"), {**tensors, **counters})
    equal(predicted(run.dir, "--weights", path, err=f"culm predict: weights '{path}': passes over {len(counters)} x counter of batches\n"), wanted, "predict")
    ended = bench.run("bench", "infer", run.dir, "--weights", path, "--iters", "1", "--json")
    equal((ended.code, ended.err), (0, f"culm bench: weights '{path}': passes over {len(counters)} x counter of batches\n"), "bench infer")
    # In a workload: told in events, or one line for the query.
    workload = {"feeds": {"camera": {"file": "images"}}, "queries": [{"name": "a", "model": run.dir, "weights": path, "feed": "camera", "target": 0.2}],
                "merge": {"minutes": 0.01}}
    ended = bench.run("merge", bench.config(workload, "w.yaml"), "--out", bench.path("package"), "--json")
    equal(ended.code, 0, f"exit code of merge: {ended.err!r}")
    told = [json.loads(line) for line in ended.out.splitlines()]
    check(any(event["event"] == "warning" and "counter of batches" in event["message"] for event in told), f"merge tells {[event for event in told if event['event'] == 'warning']}")
    path = write(bench.path("more.safetensors"), {**tensors, "fc2.weight": ("F32", [4], floats([1, 2, 3, 4]))})
    one_line(bench.run("predict", run.dir, "--weights", path, "images"), "no place for: 'fc2.weight'")
    workload["queries"][0]["weights"] = path
    one_line(bench.run("merge", bench.config(workload, "w.yaml"), "--out", bench.path("other")), "query 'a'", "no place for: 'fc2.weight'")
    name = next(name for name in tensors if name.endswith("conv1.weight"))
    spoilt = floats([math.inf]) + tensors[name][2][4:]
    path = write(bench.path("inf.safetensors"), {**tensors, name: (*tensors[name][:2], spoilt)})
    one_line(bench.run("predict", run.dir, "--weights", path, "images", "--json"), f"tensor '{name}' is not finite: element 0 of", "infinity")
    # Weights that are finite, and too large for what they are multiplied with.
    large = {n: (d, s, floats([3e38] * (len(data) // 4)) if n.endswith("weight") else data) for n, (d, s, data) in tensors.items()}
    path = write(bench.path("large.safetensors"), large)
    for words in ([], ["--json"]):
        one_line(bench.run("predict", run.dir, "--weights", path, "images", *words), "frame 0: the model's answer is not finite")
    # An edge with others to answer goes on, and says so once; also what was done to the weights.
    workload["queries"][0]["weights"] = write(bench.path("both.safetensors"), {**large, **counters})
    del workload["merge"]
    ended = bench.run("edge", "run", bench.config(workload, "w.yaml"), "--out", bench.path("edge"), "--json")
    equal(ended.code, 0, f"exit code of edge run: {ended.err!r}")
    warnings = [event["message"] for event in bench.events("edge") if event["event"] == "warning"]
    check(any(text.startswith("query 'a': ") and "counter of batches" in text for text in warnings), f"warnings of edge run: {warnings}")
    equal(sum("query 'a': frame 0: the model's answer is not finite" in text for text in warnings), 1, f"warnings of edge run: {warnings}")


cases.add("weights of models of pictures", pictures)

# --- the best checkpoint ------------------------------------------------------------------------------------------------------


def evaluating(folder):
    """Processes that evaluate what is in a folder."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path, "rb") as file:
            words = file.read().split(b"\0")
            found += [path] if words[1:2] == [b"eval"] and any(word.startswith(folder.encode()) for word in words) else []
    return found


def best(bench, measure):
    """The best of what was evaluated stays, also where a run goes on after it was stopped; training too fast makes later steps worse."""
    config = changed(BASE, pipelines=2, steps=12, optimizer__lr=0.6, optimizer__clip_norm=0, schedule={"name": "constant"}, checkpoint={"every": 1, "keep": 20, "best": measure},
                     eval={"every": 1})
    # Until one was evaluated; then on to another step, where it is killed. The other worker writes checkpoints.
    held = Held(bench, bench.start(*bench.train_words(config, "run", *hold(1, 4), *hold(1, 9))))
    held.wait(lambda _: os.path.exists(bench.path("run", "best.safetensors")), "an evaluation")
    held.go_on()
    held.wait(lambda events: any(event["event"] == "eval" for event in events), "it to be told")
    held.process.kill()
    held.process.wait()
    wait_until(lambda: not evaluating(bench.path("run")), 60, "the end of an evaluation that goes on")
    before = [event for event in bench.events() if event["event"] == "eval"]
    about = metadata_of(bench.path("run", "best.safetensors"))
    if int(about["step"]) not in [event["step"] for event in before]:  # of an evaluation that nobody could tell any more
        before.append({"step": int(about["step"]), "loss": float(about["loss"]), "accuracy": float(about["accuracy"]), "best": True, "ok": True})
    told = sum(event["event"] == "eval" for event in bench.events())
    run = bench.train(config, "run", "--resume")
    # Of checkpoints that come due during an evaluation the newest alone is evaluated: what was is told.
    evaluations = before + [event for event in bench.events() if event["event"] == "eval"][told:]
    check(len(evaluations) >= 2 and all(event["ok"] for event in evaluations), f"evaluations {evaluations}")
    rank = (lambda event: event["loss"]) if measure == "loss" else (lambda event: -event["accuracy"])
    wanted = None
    for event in evaluations:
        better = wanted is None or rank(event) < rank(wanted)
        equal(event["best"], better, f"whether {event} is said to be best")
        wanted = event if better else wanted
    about = metadata_of(os.path.join(run.dir, "best.safetensors"))
    equal((int(about["step"]), float(about[measure])), (wanted["step"], wanted[measure]), "what best.safetensors says of itself")
    checkpoint = os.path.join(run.dir, "checkpoints", f"step-{wanted['step']:08}")
    equal(bench.run("ckpt", "diff", os.path.join(run.dir, "best.safetensors"), checkpoint).code, 0, "best.safetensors and its checkpoint")
    ended = bench.run("eval", run.dir, "--weights", "best", "--json")
    equal(json.loads(ended.out)["loss"], wanted["loss"], "loss of --weights best")
    equal(bench.run("generate", run.dir, "--weights", "best", "--tokens", "2").code, 0, "exit code of generate")
    equal(bench.run("model", "export", run.dir, "--weights", "best", "--onnx", bench.path("out.onnx")).code, 0, "exit code of export")
    # By hand: what is no better changes nothing.
    before = sha256_of(os.path.join(run.dir, "best.safetensors"))
    again = json.loads(bench.run("eval", run.dir, "--weights", checkpoint, "--best", measure, "--json").out)
    equal((again["best"], sha256_of(os.path.join(run.dir, "best.safetensors"))), (False, before), "the same once more")
    os.remove(os.path.join(run.dir, "best.safetensors"))
    again = json.loads(bench.run("eval", run.dir, "--weights", checkpoint, "--best", measure, "--json").out)
    equal((again["best"], sha256_of(os.path.join(run.dir, "best.safetensors"))), (True, before), "made again")
    one_line(bench.run("train", bench.path("run.yaml"), "--out", run.dir), "a run is already there")


cases.add("the checkpoint with the lowest loss is kept", best, "loss", first=True)
cases.add("the checkpoint with the highest accuracy is kept", best, "accuracy")


def best_without(bench):
    """Without evaluations there is nothing to choose by."""
    ended = bench.run("train", bench.config(changed(BASE, checkpoint={"every": 1, "best": "loss"})), "--out", bench.path("run"))
    one_line(ended, "checkpoint.best", "set eval.every")
    equal(bench.run("train", bench.path("config.yaml"), "--set", "eval.every=1", "--out", bench.path("run")).code, 0, "exit code of what the line says")
    check(os.path.exists(bench.path("run", "best.safetensors")), "no best.safetensors")
    check(not os.path.exists(os.path.join(trained(), "best.safetensors")), "a run without checkpoint.best has one")


cases.add("checkpoint.best needs evaluations", best_without)

# --- what is not finite -------------------------------------------------------------------------------------------------------


def not_finite(bench):
    """Weights that are not finite end every command with the tensor's name, and nothing else is printed."""
    tensors = model()
    name = "transformer.h.1.ln_1.weight"
    data = bytearray(tensors[name][2])
    data[8:12] = floats([math.nan])
    path = write(bench.path("nan.safetensors"), {**tensors, name: ("F32", [32], bytes(data))})
    config, run = bench.config(changed(BASE, model__init=path, steps=0)), trained()
    for words in (["train", config, "--out", bench.path("run")], ["train", config, "--dry-run"], ["eval", config], ["eval", config, "--json"],
                  ["eval", run, "--weights", path, "--json"], ["generate", run, "--weights", path], ["bench", "step", config, "--iters", "1", "--json"],
                  ["model", "export", config, "--onnx", bench.path("out.onnx")], ["model", "export", run, "--weights", path, "--onnx", bench.path("out.onnx")],
                  ["ckpt", "export", path, "--out", bench.path("one.safetensors")]):
        one_line(bench.run(*words), f"tensor '{name}' is not finite: element 2 of 32 is NaN")
    for out in ("run", "out.onnx", "one.safetensors"):
        check(not os.path.exists(bench.path(out)), f"{out} was written")


def too_large(bench):
    """Weights that are finite, and answers that are not."""
    tensors = model()
    path = write(bench.path("large.safetensors"), {name: (dtype, shape, floats([3e38] * (len(data) // 4)) if name.endswith(("weight", "bias")) else data)
                                                   for name, (dtype, shape, data) in tensors.items()})
    config, run = bench.config(changed(BASE, model__init=path)), trained()
    for words in (["eval", config], ["eval", config, "--json"], ["eval", run, "--weights", path, "--json"]):
        one_line(bench.run(*words), "the loss is not finite")
    ended = bench.run("generate", run, "--weights", path, "--prompt", "a")
    equal((ended.code, ended.out), (INPUT, "a"), "exit code and output of generate")
    check("the logits of token 1 are not finite" in ended.err, f"it says {ended.err!r}")


cases.add("weights that are not finite", not_finite, first=True)
cases.add("answers that are not finite", too_large)


def resumed_not_finite(bench):
    """A checkpoint that is not finite is no start; the one before it is, as the line says."""
    config = changed(BASE, steps=3)
    run = bench.train(changed(config), "whole")
    shutil.copytree(run.dir, bench.path("run"))
    newest = bench.path("run", "checkpoints", "step-00000003")
    os.remove(bench.path("run", "model.safetensors"))
    piece = os.path.join(newest, "stage-0.safetensors")
    tensors = tensors_of(piece)
    name = "transformer.ln_f.bias"
    write(piece, {**tensors, name: ("F32", [32], floats([math.inf] * 32))})
    with open(os.path.join(newest, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["pieces"][0].update(bytes=os.path.getsize(piece), sha256=sha256_of(piece))
    with open(os.path.join(newest, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    words = ["train", bench.config(config, "run.yaml"), "--out", bench.path("run"), "--resume"]
    one_line(bench.run(*words), f"tensor '{name}' is not finite", "remove")
    shutil.rmtree(newest)
    equal(bench.run(*words).code, 0, "exit code of what the line says")
    equal(sha256_of(bench.path("run", "model.safetensors")), sha256_of(os.path.join(run.dir, "model.safetensors")), "the model")


cases.add("a checkpoint that is not finite is not resumed", resumed_not_finite)

# --- ONNX files ---------------------------------------------------------------------------------------------------------------


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def fields(data):
    """[(number, kind, value)] of a protobuf message; of kind 2 bytes."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        kind = key & 7
        if kind == 0:
            value = number()
        else:
            size = number() if kind == 2 else 8 if kind == 1 else 4
            value = data[at:at + size]
            at += size
        found.append((key >> 3, kind, value))
    return found


def message(found):
    return b"".join(varint(number << 3 | kind) + (varint(value) if kind == 0 else (varint(len(value)) if kind == 2 else b"") + value)
                    for number, kind, value in found)


def change_initializers(model_bytes, change):
    """The model with change(name, fields) in the place of each initializer that has raw data."""
    def graph_of(graph):
        return message([(number, kind, message(change(next(v for n, _, v in fields(value) if n == 8).decode(), fields(value)))
                         if number == 5 and any(n == 9 for n, _, _ in fields(value)) else value) for number, kind, value in fields(graph)])

    return message([(number, kind, graph_of(value) if number == 7 else value) for number, kind, value in fields(model_bytes)])


def onnx(bench):
    """Data in several files beside the model give what one file gives; a folder in the place of the file, and files that are missing or
    have a number that is not finite, are told."""
    vision_harness.images(bench.path("images"))
    vision = bench.config({**vision_harness.model(1, [1, 1])}, "vision.yaml")
    os.mkdir(bench.path("folder"))
    one, several = bench.path("one.onnx"), bench.path("folder", "several.onnx")
    equal(bench.run("model", "export", vision, "--onnx", one).code, 0, "exit code of export")
    with open(one, "rb") as file:
        whole = file.read()
    sides = [bytearray(), bytearray(), bytearray()]
    moved = []

    def out_of_it(name, tensor):
        side = len(moved) % len(sides)
        raw = next(value for number, _, value in tensor if number == 9)
        entries = [("location", f"data/side-{side}.bin"), ("offset", str(len(sides[side]))), ("length", str(len(raw)))]
        sides[side].extend(raw)
        moved.append((len(raw), name))
        return ([(number, kind, value) for number, kind, value in tensor if number != 9] +
                [(13, 2, message([(1, 2, key.encode()), (2, 2, value.encode())])) for key, value in entries] + [(14, 0, 1)])

    changed_bytes = change_initializers(whole, out_of_it)
    check(len(moved) >= 3, f"initializers {moved}")
    os.mkdir(bench.path("folder", "data"))
    with open(several, "wb") as file:
        file.write(changed_bytes)
    for number, side in enumerate(sides):
        with open(bench.path("folder", "data", f"side-{number}.bin"), "wb") as file:
            file.write(side)

    def predicted(what):
        ended = bench.run("predict", what, "images", "--frames", "0:2", "--json")
        equal((ended.code, ended.err), (0, ""), f"predict {what}")
        return ended.out

    equal(predicted(several), predicted(one), "what it says")
    for words in (["predict", bench.path("folder"), "images"], ["model", "import", bench.path("folder")], ["eval", bench.path("folder")],
                  ["model", "export", bench.path("folder"), "--onnx", bench.path("out.onnx")]):
        one_line(bench.run(*words), "is a folder", f"'{several}'")
    config = changed(BASE, model={"file": bench.path("folder")}, data={"kind": "images", "path": "images"})
    one_line(bench.run("train", bench.config(config), "--out", bench.path("run")), "is a folder; name the file in it", f"'{several}'")
    spoilt = max(moved)[1]
    with open(bench.path("nan.onnx"), "wb") as file:
        file.write(change_initializers(whole, lambda name, tensor: [(number, kind, floats([math.nan]) + value[4:] if (number, name) == (9, spoilt) else value)
                                                                    for number, kind, value in tensor]))
    for words in (["predict", "nan.onnx", "images"], ["predict", "nan.onnx", "images", "--json"], ["model", "export", "nan.onnx", "--onnx", "out.onnx"]):
        one_line(bench.run(*words), f"tensor '{spoilt}' is not finite", "NaN")
    os.remove(bench.path("folder", "data", "side-1.bin"))
    one_line(bench.run("predict", several, "images"), "side-1.bin', which cannot be read: No such file or directory; keep it beside the model")
    os.mkdir(bench.path("none"))
    one_line(bench.run("model", "import", bench.path("none")), "is a folder without an .onnx file")
    shutil.copytree(trained(), bench.path("weights-only"))
    for name in ("config.yaml", "checkpoints"):
        there = bench.path("weights-only", name)
        (shutil.rmtree if os.path.isdir(there) else os.remove)(there)
    one_line(bench.run("generate", bench.path("weights-only")), "is a folder of weights, not a run; name a model")
    one_line(bench.run("generate", bench.path("none")), "is a folder, and neither a run", "nor a checkpoint")


cases.add("ONNX files with data beside them, and folders in their place", onnx)

# --- graph networks -----------------------------------------------------------------------------------------------------------

graphs = Graphs(cases, "--vertices", "64", "--edges", "256", "--classes", "3", "--features", "6", "--split", "50/25/25", "--seed", "5")


def graph_networks(bench):
    """The same for graph networks: model.init, eval and predict."""
    config = {"graph": {"path": graphs.path}, "model": {"arch": "gcn", "layers": 2, "width": 4, "dropout": 0}, "epochs": 4, "checkpoint": {"every": 2, "keep": 3}, **ONE}
    run = graphs.train(bench, config)
    model_path = os.path.join(run.dir, "model.safetensors")
    tensors = tensors_of(model_path)
    older, newest = (os.path.join(run.dir, "checkpoints", f"step-{epoch:08}") for epoch in (2, 4))

    def evaluated(*words, err=""):
        ended = bench.run("gnn", "eval", *words, "--json")
        equal((ended.code, ended.err), (0, err), f"gnn eval {words}")
        return {**json.loads(ended.out), "name": None}

    def predicted(*words):
        ended = bench.run("gnn", "predict", *words, "--out", bench.path("logits.npy"))
        equal((ended.code, ended.err), (0, ""), f"gnn predict {words}")
        return sha256_of(bench.path("logits.npy"))

    for get in (evaluated, predicted):
        wanted, other = get(run.dir), get(older)
        for words in ([newest], [run.dir, "--weights", newest], [run.dir, "--weights", run.dir], [run.dir, "--weights", model_path]):
            equal(get(*words), wanted, f"{get.__name__} {words}")
        equal(get(run.dir, "--weights", older), other, f"{get.__name__} of another checkpoint")
    check(predicted(older) != predicted(newest), "the checkpoints are the same")

    def initial_of(init, out, **changes):
        again = graphs.train(bench, changed(config, epochs=0, seed=9, model={**config["model"], "init": init, **changes}), out)
        return tensors_of(os.path.join(again.dir, "model.safetensors")), again.err

    for number, init in enumerate((run.dir, newest, model_path)):
        equal(initial_of(init, f"from-{number}")[0], tensors, f"weights of a run that starts from {init}")
    few = {name: ("BF16", shape, halved("BF16", data)[0]) for name, (_, shape, data) in tensors.items()}
    got, err = initial_of(write(bench.path("few.safetensors"), {"model." + name: tensor for name, tensor in few.items()}), "few")
    equal(got, {name: ("F32", shape, halved("BF16", data)[1]) for name, (_, shape, data) in tensors.items()}, "weights in BF16")
    check("takes 'model.' off the names" in err and "from BF16 to F32" in err, f"it says {err!r}")
    more = write(bench.path("more.safetensors"), {**tensors, "convs.9.lin.weight": ("F32", [2], floats([1, 2]))})
    path = bench.config(changed(config, model={**config["model"], "init": more}))
    one_line(bench.run("gnn", "train", path, "--out", bench.path("no")), "model.init", "no place for: 'convs.9.lin.weight'", "set model.init_unused: ignore")
    one_line(bench.run("gnn", "eval", path), "no place for: 'convs.9.lin.weight'")
    one_line(bench.run("gnn", "eval", run.dir, "--weights", more), "culm gnn: weights: ", "no place for: 'convs.9.lin.weight'; give weights of this model\n")
    equal(initial_of(more, "ignored", init_unused="ignore")[0], tensors, "weights without it")
    name = next(iter(tensors))
    spoilt = write(bench.path("nan.safetensors"), {**tensors, name: (*tensors[name][:2], floats([math.nan]) + tensors[name][2][4:])})
    path = bench.config(changed(config, model={**config["model"], "init": spoilt}))
    for words in (["train", path, "--out", bench.path("no")], ["eval", path, "--json"], ["eval", run.dir, "--weights", spoilt],
                  ["predict", run.dir, "--weights", spoilt, "--out", bench.path("no.npy")]):
        one_line(bench.run("gnn", *words), f"tensor '{name}' is not finite")
    check(not os.path.exists(bench.path("no")) and not os.path.exists(bench.path("no.npy")), "something was written")
    os.remove(model_path)
    one_line(bench.run("gnn", "eval", run.dir), "has no model yet", f"name its newest checkpoint, '{newest}', in its place",
             f"'culm gnn train {run.dir}/config.yaml --resume --out {run.dir}'")
    equal(bench.run("gnn", "eval", newest).code, 0, "exit code of what the line says")
    equal(bench.run("gnn", "train", f"{run.dir}/config.yaml", "--resume", "--out", run.dir).code, 0, "exit code of the other way")
    equal(bench.run("gnn", "eval", run.dir).code, 0, "exit code after it")


cases.add("weights of graph networks", graph_networks, first=True)


def best_of_graphs(bench):
    """The checkpoint that is best on the vertices that validate stays, over a resume, though each is removed when the next is there."""
    config = {"graph": {"path": graphs.path}, "model": {"arch": "gcn", "layers": 2, "width": 4, "dropout": 0}, "epochs": 12, "optimizer": {"lr": 0.05},
              "checkpoint": {"every": 1, "keep": 1, "best": "accuracy"}, **ONE}
    run = graphs.train(bench, config)
    evaluations = [event for event in run.events if event["event"] == "eval"]
    check(evaluations and all(event["ok"] for event in evaluations), f"evaluations {evaluations}")
    equal(evaluations[-1]["epoch"], 12, "the last evaluation")
    wanted = None
    for event in evaluations:
        better = wanted is None or event["valid"] > wanted["valid"]
        equal(event["best"], better, f"whether {event} is said to be best")
        wanted = event if better else wanted
    path = os.path.join(run.dir, "best.safetensors")
    about = metadata_of(path)
    equal((int(about["step"]), float(about["accuracy"])), (wanted["epoch"], wanted["valid"]), "what best.safetensors says of itself")
    told = json.loads(bench.run("gnn", "eval", run.dir, "--weights", "best", "--json").out)
    equal((told["valid"], told["test"]), (wanted["valid"], wanted["test"]), "shares of --weights best")
    equal(bench.run("gnn", "predict", run.dir, "--weights", "best", "--out", bench.path("logits.npy")).code, 0, "exit code of predict")
    before = sha256_of(path)
    graphs.train(bench, config, "run", "--resume")
    again = json.loads(bench.run("gnn", "eval", run.dir, "--best", "accuracy", "--json").out)
    equal((again["best"], sha256_of(path)), (False, before), "after a resume, and what is no better")
    os.remove(path)
    one_line(bench.run("gnn", "eval", run.dir, "--weights", "best"), "has no best.safetensors")
    equal(json.loads(bench.run("gnn", "eval", run.dir, "--best", "accuracy", "--json").out)["best"], True, "made again")
    check(os.path.exists(path), "no best.safetensors")
    for key, value, part in (("best", "loss", "allowed: none, accuracy"), ("best", "accuracy", "set eval.every")):
        path = bench.config(changed(config, checkpoint={"every": 1, key: value}, eval={"every": 0 if value == "accuracy" else 1}))
        one_line(bench.run("gnn", "train", path, "--out", bench.path("no")), "checkpoint.best", part)


cases.add("the best checkpoint of a graph network is kept", best_of_graphs)

if __name__ == "__main__":
    cases.run()
