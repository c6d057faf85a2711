#!/usr/bin/env python3
"""What users' scripts depend on: events, files, hashes, commands. Hashes and rates are computed here once more."""
import hashlib
import json
import math
import os
import re
import signal
import stat
import struct

from harness import Cases, changed, check, check_memory, check_whole, equal, fault, hold, make_text, read_events, tiny_config, wait_until

cases = Cases()
BASE = changed(tiny_config(cases.text), steps=30, cluster__suspect_ms=60000)

NUMBER = (int, float)
NODE = {"node": int}
FIELDS = {
    "start": {"run": str, "config_sha256": str, "signature": str, "redundancy_effective": str},
    "plan": {"stages": list},
    "joined": {"node": int, "pid": int, "name": str, "pipeline": (int, type(None)), "stage": (int, type(None))},
    "view": {"reason": str, "map": list, "lanes": list},
    "step": {"step": int, "loss": NUMBER, "loss_bits": str, "grad_norm": NUMBER, "lr": NUMBER, "tokens_per_s": NUMBER,
             "step_ms": NUMBER, "samples": list},
    "fault": {"node": int, "step": int, "phase": str},
    "lost": {"node": int, "pid": int, "cause": str, "step": int, "stages": list},
    "fenced": {"node": int},
    "recovered": {"node": int, "source": str, "pause_ms": NUMBER, "redone_tasks": int},
    "copied": {"node": int, "stage": int, "bytes": int, "took_ms": int, "source": int},
    "checkpoint": {"step": int, "path": str, "ok": bool},
    "waiting": {"need": int, "have": int},
    "rollback": {"from_step": int, "to_step": int, "reason": str},
    "error": {"code": str, "message": str},
    "done": {"steps": int, "loss": NUMBER, "weights_sha256": str, "state_sha256": str, "losses": int, "faults_fired": int,
             "samples_lost": int, "samples_repeated": int, "rollbacks": int, "steps_redone": int, "bytes_copied": int,
             "pause_ms_median": NUMBER, "pause_ms_max": NUMBER, "exact": bool},
    "resumed": {"step": int, "path": str, "done": int, "again": int},
}
HEX64 = re.compile(r"[0-9a-f]{64}")


def check_events(events, config):
    """Every line has its members, with their types, and they agree with each other."""
    stages, pipelines, lanes = config["stages"], config["pipelines"], config["batch"]["lanes"]
    t_ms = view = 0
    for event in events:
        name = event["event"]
        equal(list(event)[:3], ["event", "t_ms", "view"], f"first members of '{name}'")
        check(name in FIELDS, f"unknown event '{name}'")
        check(isinstance(event["t_ms"], NUMBER) and isinstance(event["view"], int), f"types of t_ms and view in '{name}'")
        check(event["t_ms"] >= t_ms, f"time goes backwards at '{name}'")
        check(event["view"] >= view, f"the view goes backwards at '{name}'")
        t_ms, view = event["t_ms"], event["view"]
        for field, kind in FIELDS[name].items():
            check(field in event, f"'{name}' has no '{field}': {event}")
            value = event[field]
            check(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)),
                  f"'{field}' of '{name}' is {value!r}")
        if name == "view":
            equal([(part["pipeline"], part["stage"]) for part in event["map"]],
                  [(p, s) for p in range(pipelines) for s in range(stages)], "pipelines and stages of a map")
            check(all(isinstance(part[who], int) for part in event["map"] for who in ("owner", "shadow")), "owner, shadow")
            equal(len(event["lanes"]), lanes, "lanes of a view")
        elif name == "plan":
            equal(len(event["stages"]), stages, "stages of the plan")
            for stage in event["stages"]:
                check(all(isinstance(stage[key], int) for key in ("first", "last", "params", "memory_bytes")), "plan")
        elif name == "lost":
            check(event["cause"] in ("eof", "heartbeat", "exit", "removed", "stuck", "failed", "stalled"), f"cause {event['cause']}")
            check(all(isinstance(stage, int) for stage in event["stages"]), "stages of a loss")
        elif name == "recovered":
            check(event["source"] in ("shadow", "peer", "checkpoint"), f"source {event['source']}")
            check(event["pause_ms"] >= 0 and event["redone_tasks"] >= 0, "pause_ms and redone_tasks")
        elif name == "step":
            size = config["batch"]["global"]
            first = (event["step"] - 1) * size
            equal(event["samples"], [first, first + size - 1], "samples")
            bits = struct.unpack("<I", struct.pack("<f", event["loss"]))[0]
            equal(event["loss_bits"], f"0x{bits:08x}", "loss_bits")
            check(event["grad_norm"] > 0 and event["step_ms"] > 0, "grad_norm and step_ms")
            rate = size * config["model"]["context"] / event["step_ms"] * 1000
            check(abs(event["tokens_per_s"] / rate - 1) < 1e-6, "tokens_per_s")
            wanted = rate_of(config, event["step"])
            check(abs(event["lr"] - wanted) <= 1e-14 * wanted, f"lr of step {event['step']}: {event['lr']}, not {wanted}")


def rate_of(config, t):
    lr, schedule = config["optimizer"]["lr"], config["schedule"]
    warmup, least = schedule.get("warmup", 0), schedule.get("min_lr", 0)
    if schedule["name"] == "constant":
        return lr
    if t <= warmup:
        return lr * t / warmup
    return least + (lr - least) / 2 * (1 + math.cos(math.pi * (t - warmup) / (config["steps"] - warmup)))


# --- reading safetensors ----------------------------------------------------------------------------------------------------


def tensors_of(path):
    """{name: (shape, bytes)} of a file, all F32."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    result, covered = {}, 0
    for name, about in header.items():
        begin, end = about["data_offsets"]
        equal(about["dtype"], "F32", f"dtype of {name}")
        equal(end - begin, 4 * math.prod(about["shape"]), f"bytes of {name}")
        result[name] = (about["shape"], data[8 + size + begin:8 + size + end])
        covered += end - begin
    equal(covered, len(data) - 8 - size, f"bytes of tensors in {path}")
    return result


def is_state(name):
    return name.endswith((".exp_avg", ".exp_avg_sq"))


def hash_of(tensors, step=None):
    digest = hashlib.sha256()
    for name in sorted(tensors, key=str.encode):
        digest.update(name.encode() + b"\0" + tensors[name][1])
    if step is not None:
        digest.update(struct.pack("<Q", step))
    return digest.hexdigest()


def checkpoint_of(path):
    tensors = {}
    for name in os.listdir(path):
        if name.endswith(".safetensors"):
            for tensor, content in tensors_of(os.path.join(path, name)).items():
                check(tensor not in tensors, f"{tensor} is stored twice")
                tensors[tensor] = content
    return tensors


def wanted_shapes(model):
    width, layers = model["width"], model["layers"]
    shapes = {"wte.weight": [model["vocab"], width], "wpe.weight": [model["context"], width], "ln_f.weight": [width],
              "ln_f.bias": [width]}
    for i in range(layers):
        for norm in ("ln_1", "ln_2"):
            shapes[f"h.{i}.{norm}.weight"] = shapes[f"h.{i}.{norm}.bias"] = [width]
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                    ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            shapes[f"h.{i}.{name}.weight"], shapes[f"h.{i}.{name}.bias"] = [rows, columns], [columns]
    return {"transformer." + name: shape for name, shape in shapes.items()}


# --- a run ------------------------------------------------------------------------------------------------------------------


def whole_run(bench, changes, words, frozen=None):
    """Events, files and hashes of one run, all against each other. frozen: a worker that freezes, and goes on once it has been put out."""
    config = changed(BASE, **changes)
    run = bench.train(config, "run", *words) if frozen is None else bench.train_and_thaw(frozen, config, "run", *words)
    check_events(run.events, config)
    check_whole(run, cases.reference(config))
    names = [event["event"] for event in run.events]
    equal((names[:2], names[-1]), (["start", "plan"], "done"), "first and last events")
    with open(bench.path("run", "events.jsonl"), encoding="utf-8") as file:
        equal(file.read(), run.out, "events.jsonl and standard output")
    with open(bench.path("run", "config.yaml"), "rb") as file:
        equal(run.one("start")["config_sha256"], hashlib.sha256(file.read()).hexdigest(), "config_sha256")
    with open(bench.path("run", "plan.json"), encoding="utf-8") as file:
        equal(json.load(file)["stages"], run.one("plan")["stages"], "stages in plan.json")
    for event in run.all("joined"):
        check(os.path.exists(bench.path("run", "logs", f"node-{event['node']}.log")), f"log of node {event['node']}")

    done = run.one("done")
    check(HEX64.fullmatch(done["weights_sha256"]) and HEX64.fullmatch(done["state_sha256"]), "hashes are not hex")
    equal(done["loss"], run.all("step")[-1]["loss"], "loss")
    equal(done["bytes_copied"], sum(event["bytes"] for event in run.all("copied")), "bytes_copied")
    pauses = sorted(event["pause_ms"] for event in run.all("recovered"))
    if pauses:
        middle = (pauses[(len(pauses) - 1) // 2] + pauses[len(pauses) // 2]) / 2
        check(abs(done["pause_ms_median"] - middle) < 1e-6 and abs(done["pause_ms_max"] - pauses[-1]) < 1e-6, "pauses")

    model = tensors_of(bench.path("run", "model.safetensors"))
    equal({name: shape for name, (shape, _) in model.items()}, wanted_shapes(config["model"]), "names and shapes of the model")
    equal(hash_of(model), done["weights_sha256"], "weights_sha256 of model.safetensors")
    path = bench.path("run", "checkpoints", f"step-{config['steps']:08d}")
    stored = checkpoint_of(path)
    weights = {name: content for name, content in stored.items() if not is_state(name)}
    state = {name: content for name, content in stored.items() if is_state(name)}
    equal(weights, model, "weights of the last checkpoint")
    equal(set(state), {name + end for name in model for end in (".exp_avg", ".exp_avg_sq")}, "names of the state")
    equal(hash_of(state, config["steps"]), done["state_sha256"], "state_sha256 of the checkpoint")
    kept = sorted(os.listdir(bench.path("run", "checkpoints")))
    check(len(kept) <= config["checkpoint"]["keep"], f"checkpoints kept: {kept}")
    written = {event["step"]: event["path"] for event in run.all("checkpoint") if event["ok"]}
    check(set(kept) <= {os.path.basename(path) for path in written.values()}, f"{kept} and {written}")

    for target in (path, bench.path("run")):
        shown = bench.run("ckpt", "show", target, "--json")
        equal((shown.code, shown.err), (0, ""), "ckpt show")
        shown = json.loads(shown.out)
        equal((shown["step"], shown["weights_sha256"], shown["state_sha256"]),
              (config["steps"], done["weights_sha256"], done["state_sha256"]), "ckpt show --json")
        equal({tensor["name"]: tensor["shape"] for tensor in shown["tensors"]},
              {name: shape for name, (shape, _) in stored.items()}, "tensors of ckpt show --json")
    shown = json.loads(bench.run("ckpt", "show", bench.path("run", "model.safetensors"), "--json").out)
    equal(shown["weights_sha256"], done["weights_sha256"], "ckpt show of the model")


cases.add("a plain run", whole_run, {}, [], first=True)
cases.add("a run with a loss", whole_run, {"steps": 60}, fault(1, 3, "backward"), first=True)
cases.add("a run with two losses and no redundancy", whole_run, {"steps": 60, "redundancy": "none"},
          fault(1, 3, "backward") + fault(3, 5, "send"))
cases.add("a run with a frozen worker",
          whole_run, {"steps": 60, "cluster__suspect_ms": 10000, "cluster__kill_suspect_ms": 60000}, fault(1, 3, "backward", "stop"), 1,
          kind="waits", seconds=11)
cases.add("one process", whole_run, {"pipelines": 1, "stages": 1}, [])
cases.add("a constant rate, no clipping, no decay", whole_run,
          {"schedule": {"name": "constant"}, "optimizer__clip_norm": 0, "optimizer__weight_decay": 0.0}, [])
cases.add("no warm-up", whole_run, {"schedule__warmup": 0}, [])
cases.add("one checkpoint kept, at the end only", whole_run, {"checkpoint": {"every": 0, "keep": 1}}, [])


def rolled_back(bench):
    config = changed(BASE, pipelines=1, redundancy="none", checkpoint__every=2)
    run = bench.train(config, "run", *fault(1, 9, "forward"))
    check_events(run.events, config)
    check_whole(run, cases.reference(config), rollbacks=1)


def failed(bench):
    config = changed(BASE, cluster__wait_ms=300)
    with open(bench.path("trace"), "w", encoding="ascii") as file:
        file.write("0,add,one\n")
    ended = bench.run(*bench.train_words(config, "run", "--preempt-trace", bench.path("trace")))
    events = [json.loads(line) for line in ended.out.splitlines()]
    check_events(events, config)
    equal(events[-1]["event"], "error", "last event")
    equal(len(ended.err.splitlines()), 1, "lines on stderr")


def stopped_and_resumed(bench):
    """Resumed events follow the first ones in the file, and a later line of a step wins."""
    config = changed(BASE, steps=80)
    process = bench.start(*bench.train_words(config, "run", *hold(0, 60)))  # where we find it at the latest
    path = bench.path("run", "events.jsonl")
    wait_until(lambda: os.path.exists(path) and b'"step":20,' in open(path, "rb").read(), 120, "step 20")
    process.send_signal(signal.SIGKILL)
    bench.end(process)
    before = read_events(path)
    run = bench.train(config, "run", "--resume")
    check_events(run.events, config)
    after = read_events(path)
    equal(after, before + run.events, "events.jsonl")
    steps = {event["step"]: event["loss_bits"] for event in after if event["event"] == "step"}
    equal(sorted(steps), list(range(1, 81)), "steps")
    for event in before:
        if event["event"] == "step":
            equal(event["loss_bits"], steps[event["step"]], f"loss of step {event['step']} before and after")
    equal(run.hashes(), cases.reference(config), "weights_sha256 and state_sha256")


cases.add("events of a roll-back", rolled_back)
cases.add("events of a failure", failed, first=True)
cases.add("events of a resume", stopped_and_resumed, first=True)


def no_steps(bench):
    """The initial model: the same whatever the shape, decided by the seed, as GPT-2 starts."""
    hashes = set()
    for name, changes in (("a", {}), ("b", {"pipelines": 1, "stages": 1}), ("c", {"stages": 2, "redundancy": "none"})):
        config = changed(BASE, steps=0, **changes)
        run = bench.train(config, name)
        check_events(run.events, config)
        equal(run.one("done")["steps"], 0, "steps")
        hashes.add(run.hashes())
    equal(len(hashes), 1, "different initial models")
    other = bench.train(changed(BASE, steps=0, seed=4), "d")
    check(other.hashes()[0] not in {weights for weights, _ in hashes}, "another seed makes the same model")
    model = tensors_of(bench.path("a", "model.safetensors"))
    equal(hash_of(model), hashes.copy().pop()[0], "weights_sha256 of model.safetensors")
    for name, (_, data) in model.items():
        values = struct.unpack(f"<{len(data) // 4}f", data)
        if name.endswith("bias"):
            check(not any(values), f"{name} does not start at 0")
        elif ".ln_" in name:
            check(all(value == 1 for value in values), f"{name} does not start at 1")
        else:
            spread = math.sqrt(sum(value * value for value in values) / len(values))
            wanted = 0.02 / math.sqrt(2 * 3) if name.endswith("c_proj.weight") else 0.02
            check(abs(spread / wanted - 1) < 0.15, f"{name} starts with a spread of {spread}, not {wanted}")
    state = {name: content for name, content in checkpoint_of(bench.path("a", "checkpoints", "step-00000000")).items()
             if is_state(name)} if os.path.exists(bench.path("a", "checkpoints", "step-00000000")) else None
    if state:
        equal(hash_of(state, 0), hashes.copy().pop()[1], "state_sha256 of the initial state")


cases.add("steps 0 writes the initial model", no_steps, first=True)


def samples(bench):
    """Sample i is bytes [i*context, i*context+context] inclusive: the last byte of the last sample counts, the tail does not."""
    context, count = 16, 40
    config = changed(BASE, data__path=bench.path("text"), batch={"global": 8, "micro": 2, "lanes": 4}, steps=5)

    def hashes_with(at, out):
        make_text(bench.path("text"), count * context + 1 + 5)
        if at is not None:
            with open(bench.path("text"), "r+b") as file:
                file.seek(at)
                file.write(b"#")
        return bench.train(config, out).hashes()

    plain = hashes_with(None, "plain")
    for at in (0, context, 17 * context + 3, count * context - 1, count * context):
        check(hashes_with(at, f"at-{at}") != plain, f"byte {at} belongs to a sample, and changes nothing")
    for at in (count * context + 1, count * context + 5):
        equal(hashes_with(at, f"at-{at}"), plain, f"hashes after a change of byte {at} in the tail")


def several_files(bench):
    """A list of files: every one of them counts."""
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        make_text(bench.path(name), 3000, seed)
    hashes = [bench.train(changed(BASE, steps=4, data__path=[bench.path(name) for name in names]), out).hashes()
              for out, names in (("1", "ab"), ("2", "ab"), ("3", "ba"), ("4", "ac"), ("5", "a"))]
    equal(hashes[0], hashes[1], "the same list twice")
    equal(len(set(hashes)), 4, "different lists")


cases.add("sample i, and the tail", samples)
cases.add("a list of files", several_files)


def seeds_and_dropout(bench):
    """What must change the result does."""
    short = changed(BASE, steps=3)
    hashes = {name: bench.train(changed(short, **changes), name).hashes()[0]
              for name, changes in (("plain", {}), ("seed", {"seed": 9}), ("dropout", {"model__dropout": 0.2}),
                                    ("lr", {"optimizer__lr": 0.003}), ("clip", {"optimizer__clip_norm": 0.1}),
                                    ("decay", {"optimizer__weight_decay": 0.2}), ("warmup", {"schedule__warmup": 2}))}
    equal(len(set(hashes.values())), len(hashes), f"different results of {hashes}")


cases.add("settings that must matter do", seeds_and_dropout)


def learns(bench):
    """The loss falls from that of a uniform guess."""
    config = changed(BASE, steps=300, optimizer__lr=0.01)
    losses = [event["loss"] for event in bench.train(config).all("step")]
    check(abs(losses[0] - math.log(256)) < 0.2, f"the first loss is {losses[0]}, not near ln 256")
    check(sum(losses[-10:]) / 10 < 0.6 * losses[0], f"the loss went from {losses[0]} to {losses[-1]} only")


cases.add("the loss falls", learns, first=True)


def within_the_plan(bench):
    """Undisturbed, no worker takes more memory for tensors than the plan says."""
    check_memory(bench.train(BASE), least=0.6)  # tensors so small leave scratch alone, which is half of the plan


cases.add("memory within the plan", within_the_plan, first=True)

# --- commands ---------------------------------------------------------------------------------------------------------------


def dry_run(bench):
    path = bench.config(BASE)
    for words in ([], ["--json"]):
        ended = bench.run("train", path, "--dry-run", "--out", bench.path("run"), *words)
        equal((ended.code, ended.err), (0, ""), "exit code and stderr")
        check(not os.path.exists(bench.path("run")), "a dry run wrote something")
        if words:
            events = [json.loads(line) for line in ended.out.splitlines()]
            equal([event["event"] for event in events], ["plan"], "events")
            check_events(events, BASE)
        else:
            check(ended.out.count("stage ") >= 3 and "param" in ended.out, f"the plan: {ended.out}")


def default_out(bench):
    bench.config(changed(BASE, steps=2), "my.config.yaml")
    ended = bench.run("train", "my.config.yaml")
    equal(ended.code, 0, "exit code")
    check(os.path.exists(bench.path("runs", "my.config", "model.safetensors")), "no runs/my.config/model.safetensors")


def set_wins(bench):
    config = changed(BASE, steps=6, seed=8)
    run = bench.train(BASE, "run", "--set", "steps=6", "--set=seed=8")
    equal(run.hashes(), cases.reference(config), "weights_sha256 and state_sha256")


def for_people(bench):
    """Without --json: who, what and how long, line by line, and a summary."""
    path = bench.config(changed(BASE, steps=60))
    ended = bench.run("train", path, "--out", bench.path("run"), *fault(1, 3, "backward"))
    equal((ended.code, ended.err), (0, ""), "exit code and stderr")
    for part in ("step 60/60", "lost node 1 at step 3", "node 1's work continues", "pipeline 0: stage 0 on node 0",
                 "workers lost       1", "0 lost, 0 repeated", "roll-backs         0", bench.path("run")):
        check(part in ended.out, f"not said: {part!r}\n{ended.out}")
    times = [float(time) for time in re.findall(r"^\[ *([0-9.]+) s\]", ended.out, re.M)]
    check(times and times[-1] > 0 and times == sorted(times), f"times {times}")
    bench.run("train", path, "--out", bench.path("other"))
    told = bench.run("report", bench.path("run"), "--against", bench.path("other"))
    equal(told.code, 0, "exit code of report")
    check("identical          yes" in told.out, told.out)


def diff(bench):
    config = changed(BASE, steps=8)
    bench.train(config, "a")
    bench.train(changed(config, pipelines=1, stages=1), "b")
    bench.train(changed(config, seed=9), "c")
    a, b, c = bench.path("a"), bench.path("b"), bench.path("c")
    for left, right, code in ((a, b, 0), (a, c, 1), (b, c, 1), (a, a, 0),
                              (os.path.join(a, "model.safetensors"), os.path.join(b, "model.safetensors"), 0),
                              (os.path.join(a, "model.safetensors"), os.path.join(c, "model.safetensors"), 1),
                              (os.path.join(a, "checkpoints", "step-00000004"), a, 1),
                              (os.path.join(a, "checkpoints", "step-00000004"), os.path.join(b, "checkpoints", "step-00000004"), 0)):
        ended = bench.run("ckpt", "diff", left, right)
        equal((ended.code, ended.err), (code, ""), f"ckpt diff {left} {right}")
        check(ended.out.strip(), "nothing was printed")
        if code:
            check("transformer." in ended.out, f"no tensor is named: {ended.out}")


def helps(bench):
    for words in (["help"], ["--help"], ["version"], ["help", "config"]):
        ended = bench.run(*words)
        equal((ended.code, ended.err), (0, ""), f"culm {' '.join(words)}")
        check(ended.out, f"culm {' '.join(words)} prints nothing")
    for command in ("train", "ckpt", "model", "bench", "version", "help", "report", "generate", "eval"):
        asked, helped = bench.run(command, "--help"), bench.run("help", command)
        equal((asked.code, asked.err, helped.code), (0, "", 0), f"culm {command} --help")
        equal(asked.out, helped.out, f"culm {command} --help and culm help {command}")
    told = bench.run("help", "config").out
    for section, keys in BASE.items():
        check(section in told, f"help config does not name {section}")
        for key in keys if isinstance(keys, dict) else []:
            check(key in told, f"help config does not name {section}.{key}")


def models(bench):
    path = bench.config(BASE)
    for name in ("gpt2", path):
        ended = bench.run("model", "show", name, "--json")
        equal((ended.code, ended.err), (0, ""), "exit code and stderr")
        shown = json.loads(ended.out)
        for key in ("parameters", "flops_per_sample", "memory_bytes"):
            check(isinstance(shown[key], NUMBER) and shown[key] > 0, f"{key} of {name}")
        check(isinstance(shown["name"], str), "name")
    equal(json.loads(bench.run("model", "show", "gpt2", "--json").out)["parameters"], 124439808, "parameters of gpt2")
    equal(bench.run("model", "list").code, 0, "exit code of model list")


def bench_step(bench):
    ended = bench.run("bench", "step", bench.config(BASE), "--batch", "2", "--threads", "1", "--iters", "3", "--json")
    equal((ended.code, ended.err), (0, ""), "exit code and stderr")
    shown = json.loads(ended.out)
    equal((shown["dtype"], shown["threads"], shown["batch"]), ("f32", 1, 2), "dtype, threads, batch")
    check(0 < shown["step_s"]["min"] <= shown["step_s"]["median"], "step_s")
    check(shown["rate_per_s"] > 0 and shown["gflops"] > 0 and shown["peak_memory_bytes"] > 0 and shown["model"], "figures")
    for option, wrong, allowed in (("--dtype", "f16", "f32, bf16"), ("--recompute", "all", "none, block")):
        ended = bench.run("bench", "step", "gpt2", option, wrong)
        equal((ended.code, len(ended.err.splitlines())), (2, 1), f"{option} {wrong}: exit code and lines")
        check(f"{option}: '{wrong}'" in ended.err and f"allowed: {allowed}" in ended.err, f"message {ended.err!r}")


def bench_leader(bench):
    for words, job, nodes in (((), "train", 20), (("--job", "gnn"), "gnn", 21)):
        ended = bench.run("bench", "leader", *words, "--workers", "20", "--iters", "3", "--json")
        equal((ended.code, ended.err), (0, ""), "exit code and stderr")
        shown = json.loads(ended.out)
        equal((shown["job"], shown["workers"], shown["nodes"], shown["rounds"], shown["loss"]["nodes"]), (job, 20, nodes, 3, 2), "what was measured")
        check(0 < shown["round_cpu_s"]["median"] <= shown["round_cpu_s"]["max"] and shown["join_s"] > 0, "times of a round")
        check(0 < shown["commit_s"]["median"] <= shown["commit_s"]["max"] and shown["loss"]["seconds"] > 0, "times of a commit and of the losses")
        equal(shown["loss"]["views"], 1, "views for nodes that are lost at the same moment")
        check(0 < shown["loss"]["bytes_per_node"] <= shown["loss"]["queued_bytes"], "what the losses cost")
    equal(bench.run("bench", "leader", "--workers", "2", "--iters", "1").code, 0, "exit code with the fewest workers")
    for words, message in ((("--workers", "1000000"), "change --workers"), (("--workers", "1"), "leads 2 to 4096 workers"),
                           (("--width", "4"), "write 'culm bench leader'"), (("--threads", "1"), "write 'culm bench leader'")):
        ended = bench.run("bench", "leader", *words)
        equal((ended.code, len(ended.err.splitlines())), (2, 1), f"{words}: exit code and lines")
        check(message in ended.err, f"message {ended.err!r}")


def no_place(bench):
    """An output that is no place for a file is refused before anything is looked at, written or computed: there is no such run, and what is
    written beside the output would have too long a name."""
    pipe = bench.path("place", "p" * 250)
    os.mkdir(bench.path("place"))
    os.mkfifo(pipe)
    for words in (("report", "missing", "--html"), ("gnn", "predict", "missing", "--out"), ("gnn", "bundle", "--out")):
        ended = bench.run(*words, pipe)
        equal((ended.code, ended.out, ended.err.count("\n")), (3, "", 1), f"exit code, output and lines of {words}")
        check("is not a plain file" in ended.err, f"{words}: {ended.err!r}")
        equal(sorted(os.listdir(bench.path("place"))), [os.path.basename(pipe)], f"what there is after {words}")
        check(stat.S_ISFIFO(os.stat(pipe).st_mode), f"{words} took the pipe's place")


for name, function in (("dry run", dry_run), ("--out defaults to runs/<config name>", default_out), ("--set wins", set_wins),
                       ("output for people", for_people), ("ckpt diff", diff), ("help and version", helps),
                       ("model list and show", models), ("bench step", bench_step), ("bench leader", bench_leader),
                       ("no place for an output", no_place)):
    cases.add(name, function, first=True)

if __name__ == "__main__":
    cases.run()
