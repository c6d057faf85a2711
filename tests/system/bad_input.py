#!/usr/bin/env python3
"""Bad input: one clear line, the right exit code, and nothing written or overwritten."""
import hashlib
import json
import os
import shutil
import signal
import subprocess

from harness import (Cases, Disk, changed, check, check_whole, equal, fault, hold, make_text, needs_disk, read_events, tiny_config,
                     wait_until, workers_of, write_config)
from train_harness import Watched

cases = Cases(job="train")
BASE = changed(tiny_config(cases.text), cluster__suspect_ms=60000)
CONFIGURATION, ENVIRONMENT, USAGE = 3, 4, 2


def tree(path):
    """Every name below, with its bytes; the lock holds only a pid."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders:
            found[os.path.join(folder, name)] = "folder"
        for name in sorted(set(files) - {"lock"}):
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.join(folder, name)] = hashlib.sha256(file.read()).hexdigest()
    return found


def one_line(ended, code, *parts):
    equal(ended.code, code, "exit code")
    equal(len(ended.err.splitlines()), 1, f"lines on stderr ({ended.err!r})")
    equal(ended.out, "", "standard output")
    check(ended.err.startswith("culm"), f"stderr does not say who speaks: {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"stderr does not say {part!r}: {ended.err!r}")


def refused(bench, words, code, *parts, out="run"):
    """Fails with one line, and leaves what is at `out` as it was, or absent."""
    before = tree(bench.path(out))
    there = os.path.lexists(bench.path(out))
    ended = bench.run(*words)
    one_line(ended, code, *parts)
    equal(os.path.lexists(bench.path(out)), there, "the run directory is there")
    equal(tree(bench.path(out)), before, "the run directory")
    equal(workers_of(bench.path(out)), [], "workers")
    return ended


# --- the configuration ------------------------------------------------------------------------------------------------------


def wrong_value(bench, changes, parts):
    words = bench.train_words(changed(BASE, **changes))
    ended = refused(bench, words, CONFIGURATION, *parts)
    where = ended.err.split(": ")[1]
    check(where.startswith(bench.path("run.yaml") + ":") and where.rpartition(":")[2].isdigit(),
          f"no FILE:LINE in {ended.err!r}")


WRONG = {
    "unknown key": ({"stagse": 2}, ["stagse", "stages"]),
    "unknown key in a section": ({"model__wdith": 2}, ["model.wdith", "width"]),
    "text for a number": ({"steps": "many"}, ["steps", "many"]),
    "a list for a number": ({"steps": [1]}, ["steps"]),
    "a section for a number": ({"steps": {"a": 1}}, ["steps"]),
    "a number for a section": ({"model": 3}, ["model"]),
    "a fraction for a whole number": ({"stages": 1.5}, ["stages"]),
    "no pipelines": ({"pipelines": 0}, ["pipelines"]),
    "no stages": ({"stages": 0}, ["stages"]),
    "negative stages": ({"stages": -3}, ["stages"]),
    "more stages than layers": ({"stages": 4}, ["stages", "layers"]),
    "more pipelines than lanes": ({"pipelines": 5}, ["pipelines", "lanes"]),
    "global not a multiple of micro": ({"batch__micro": 3}, ["batch"]),
    "lanes that do not divide": ({"batch__lanes": 3}, ["batch"]),
    "no lanes": ({"batch__lanes": 0}, ["batch.lanes"]),
    "heads that do not divide the width": ({"model__heads": 5}, ["model"]),
    "no layers": ({"model__layers": 0}, ["model.layers"]),
    "no context": ({"model__context": 0}, ["model.context"]),
    "a vocabulary too small for bytes": ({"model__vocab": 100}, ["vocab"]),
    "dropout above 1": ({"model__dropout": 1.5}, ["model.dropout"]),
    "negative steps": ({"steps": -1}, ["steps"]),
    "no threads": ({"threads": 0}, ["threads"]),
    "threads beyond reason": ({"threads": 1000000}, ["threads"]),
    "max_nodes below 0": ({"cluster__max_nodes": -1}, ["cluster.max_nodes"]),
    "fewer max_nodes than workers": ({"cluster__max_nodes": 5}, ["cluster.max_nodes"]),
    "no heartbeat": ({"cluster__heartbeat_ms": 0}, ["cluster.heartbeat_ms"]),
    "suspicion faster than heartbeats": ({"cluster__suspect_ms": 10}, ["suspect_ms"]),
    "unknown redundancy": ({"redundancy": "double"}, ["redundancy", "double", "eager"]),
    "unknown architecture": ({"model__arch": "gtp2"}, ["model.arch", "gtp2", "gpt2"]),
    "unknown precision": ({"precision": "f8"}, ["precision"]),
    "unknown optimizer": ({"optimizer__name": "adm"}, ["optimizer.name"]),
    "unknown schedule": ({"schedule__name": "cosin"}, ["schedule.name"]),
    "unknown kind of data": ({"data__kind": "txt"}, ["data.kind"]),
    "negative learning rate": ({"optimizer__lr": -1.0}, ["optimizer.lr"]),
    "beta of 1": ({"optimizer__beta1": 1.0}, ["optimizer.beta1"]),
    "two channels": ({"model__channels": 2}, ["model.channels"]),
    "nothing kept": ({"checkpoint__keep": 0}, ["checkpoint.keep"]),
    "negative every": ({"checkpoint__every": -1}, ["checkpoint.every"]),
    "not a number at all": ({"optimizer__lr": ".nan"}, ["optimizer.lr"]),
}
for name, (changes, parts) in WRONG.items():
    cases.add(f"configuration: {name}", wrong_value, changes, parts, first=name == "unknown key in a section")


def wrong_text(bench, text, parts):
    with open(bench.path("bad.yaml"), "wb") as file:
        file.write(text)
    refused(bench, ["train", bench.path("bad.yaml"), "--out", bench.path("run"), "--json"], CONFIGURATION, "bad.yaml", *parts)


for name, text, parts in [
        ("empty", b"", []),
        ("not YAML", b"model: {arch: gpt2\nsteps: ]", []),
        ("binary", bytes(range(256)), []),
        ("a list", b"- 1\n- 2\n", []),
        ("a key twice", b"steps: 1\nsteps: 2\ndata: {path: x}\n", [":2:", "steps"]),
        ("steps missing", b"data: {path: x}\n", ["steps"]),
        ("data.path missing", b"steps: 3\n", ["data.path"]),
        ("an anchor to itself", b"a: &a [*a]\n", []),
        ("nested too deep", b"a: " + b"[" * 5000 + b"]" * 5000, []),
        ("a tab", b"model:\n\tarch: gpt2\n", []),
]:
    cases.add(f"configuration file: {name}", wrong_text, text, parts, first=name == "a key twice")


def no_config(bench, kind):
    path = bench.path("config")
    words = ["train", path, "--out", bench.path("run"), "--json"]
    if kind == "directory":
        os.mkdir(path)
    elif kind == "unreadable":
        write_config(path, BASE)
        os.chmod(path, 0)
        bench.as_user()
    elif kind == "a device":
        os.symlink("/dev/zero", path)
    refused(bench, words, ENVIRONMENT if kind == "unreadable" else CONFIGURATION, "config")


for kind in ("missing", "directory", "unreadable", "a device"):
    cases.add(f"configuration file: {kind}", no_config, kind)


def wrong_set(bench, word, parts):
    refused(bench, bench.train_words(BASE, "run", "--set", word), CONFIGURATION if parts else USAGE, "--set", *parts)


for word, parts in [("steps", []), ("stepz=3", ["stepz"]), ("steps=x", ["steps"]), ("=3", []), ("model=3", ["model"]),
                    ("cluster.max_nodes=-1", ["max_nodes"]), ("stages=9", ["stages"])]:
    cases.add(f"--set {word}", wrong_set, word, parts)


def set_not_utf8(bench):
    """A name of a file that no JSON can hold: refused now, or trained to the end, but never lost at a checkpoint."""
    path = os.path.join(os.fsencode(bench.folder), b"te\xffxt")
    shutil.copy(cases.text, path)
    words = bench.train_words(BASE)
    ended = subprocess.run([bench.culm, *words, b"--set", b"data.path=" + path], capture_output=True, cwd=bench.folder,
                           check=False, timeout=300)
    if ended.returncode == 0:
        check(os.path.exists(bench.path("run", "model.safetensors")), "no model")
    else:
        equal(ended.returncode, CONFIGURATION, "exit code")
        check(not os.path.exists(bench.path("run")), "the run directory was made")
        equal(len(ended.stderr.splitlines()), 1, "lines on stderr")


cases.add("a file name that is no UTF-8", set_not_utf8)

# --- the text ---------------------------------------------------------------------------------------------------------------


def wrong_data(bench, kind):
    path = bench.path("text")
    if kind in ("empty", "too short"):
        with open(path, "wb") as file:
            file.write(b"" if kind == "empty" else b"sixteen bytes...")
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "a device":
        path = "/dev/zero"
    elif kind == "unreadable":
        make_text(path)
        os.chmod(path, 0)
        bench.as_user()
    given = [cases.text, path] if kind == "one of two missing" else path
    code = ENVIRONMENT if kind == "unreadable" else CONFIGURATION
    refused(bench, bench.train_words(changed(BASE, data__path=given)), code, os.path.basename(path))


for kind in ("missing", "empty", "too short", "directory", "a device", "unreadable", "one of two missing"):
    cases.add(f"text: {kind}", wrong_data, kind, first=kind in ("missing", "unreadable"))


def no_right(bench, kind):
    """A missing right is the environment's fault, whichever file it is."""
    path = bench.path("file")
    if kind == "model.init":
        shutil.copy(cases.text, path)
        config = changed(BASE, model={**BASE["model"], "init": path})
    elif kind == "model.file":
        shutil.copy(cases.text, path)
        config = changed(BASE, model={"arch": "onnx", "file": path})
    else:
        os.makedirs(os.path.join(path, "class"))
        config = changed(BASE, model={"name": "resnet18", "width": 4, "small_stem": True, "image": 32, "channels": 3, "classes": 2},
                         data={"kind": "images", "path": path})
    os.chmod(path, 0)
    bench.as_user()
    refused(bench, bench.train_words(config), ENVIRONMENT, path)


for kind in ("model.init", "model.file", "images"):
    cases.add(f"no right to read: {kind}", no_right, kind)


def one_sample(bench):
    """Seventeen bytes are one sample, read again in every epoch."""
    with open(bench.path("text"), "wb") as file:
        file.write(b"seventeen bytes !")
    run = bench.train(changed(BASE, data__path=bench.path("text")))
    equal(run.one("done")["steps"], 8, "steps")


cases.add("text: of one sample", one_sample)


def outside_the_vocabulary(bench):
    """Bytes that the model has no row for are refused, or a vocabulary below 256 is."""
    ended = bench.run(*bench.train_words(changed(BASE, model__vocab=255)))
    one_line(ended, CONFIGURATION)


cases.add("text: bytes outside the vocabulary", outside_the_vocabulary)


def shrinks(bench):
    """The text is cut while it is read: an error and an end, no crash without a word and no endless run."""
    path = bench.path("text")
    make_text(path)
    process = bench.start(*bench.train_words(changed(BASE, data__path=path, steps=100000, cluster__wait_ms=3000)))
    events = bench.path("run", "events.jsonl")
    wait_until(lambda: os.path.exists(events) and b'"step":5,' in open(events, "rb").read(), 120, "step 5")
    os.truncate(path, 0)
    ended = bench.end(process)
    check(ended.code in (1, 3, 4), f"exit code {ended.code}")
    check(ended.err.strip(), "nothing on stderr")
    equal(workers_of(bench.path("run")), [], "workers left behind")


cases.add("text: cut during the run", shrinks)

# --- the run directory ------------------------------------------------------------------------------------------------------


def existing(bench, inside):
    os.mkdir(bench.path("run"))
    path = bench.path("run", inside)
    if inside in ("checkpoints", "logs"):
        os.mkdir(path)
    else:
        with open(path, "wb") as file:
            file.write(b"precious")
    refused(bench, bench.train_words(BASE), CONFIGURATION, "run", "--resume")


for inside in ("config.yaml", "events.jsonl", "plan.json", "model.safetensors", "checkpoints", "logs"):
    cases.add(f"existing run: {inside}", existing, inside)


def existing_run(bench):
    bench.train(BASE)
    refused(bench, bench.train_words(BASE), CONFIGURATION, "run", "--resume")


cases.add("existing run: a whole one", existing_run, first=True)


def wrong_out(bench, kind):
    out = {"a file": bench.path("run"), "below a file": bench.path("run", "deeper"), "in /proc": "/proc/culm-run",
           "no name": "", "too long": bench.path("x" * 5000), "unwritable": bench.path("locked", "run")}[kind]
    if kind in ("a file", "below a file"):
        with open(bench.path("run"), "wb") as file:
            file.write(b"precious")
    if kind == "unwritable":
        os.mkdir(bench.path("locked"), 0o555)
        bench.as_user()
    path = bench.config(BASE)
    ended = bench.run("train", path, "--out", out, "--json")
    check(ended.code in (USAGE, CONFIGURATION, ENVIRONMENT), f"exit code {ended.code}")
    one_line(ended, ended.code)
    if kind in ("a file", "below a file"):
        with open(bench.path("run"), "rb") as file:
            equal(file.read(), b"precious", "the file")


for kind in ("a file", "below a file", "in /proc", "no name", "too long", "unwritable"):
    cases.add(f"--out: {kind}", wrong_out, kind)

# --- resuming ---------------------------------------------------------------------------------------------------------------


def nothing_to_resume(bench):
    refused(bench, bench.train_words(BASE, "run", "--resume"), CONFIGURATION, "no run to resume")


cases.add("resume: nothing there", nothing_to_resume)


def resume_changed(bench, changes, allowed):
    bench.train(BASE)
    config = changed(BASE, **changes)
    if allowed:
        run = bench.train(config, "run", "--resume")
        equal(run.hashes(), cases.reference(BASE), "weights_sha256 and state_sha256")
        equal(run.all("step"), [], "steps after the end")
        return
    refused(bench, bench.train_words(config, "run", "--resume"), CONFIGURATION, list(changes)[0].replace("__", "."))


for changes in ({"model__layers": 4}, {"model__width": 64}, {"model__dropout": 0.2}, {"model__context": 8}, {"seed": 4},
                {"steps": 9}, {"steps": 4}, {"batch__lanes": 8}, {"batch__global": 32}, {"optimizer__lr": 0.1},
                {"schedule__warmup": 4}):
    name = ", ".join(f"{key.replace('__', '.')}={value}" for key, value in changes.items())
    cases.add(f"resume: {name} is refused", resume_changed, changes, False, first="seed" in changes)
for changes in ({"pipelines": 1}, {"stages": 1}, {"redundancy": "none"}, {"threads": 2}, {"checkpoint__every": 1},
                {"cluster__max_nodes": 6}, {}):
    name = ", ".join(f"{key.replace('__', '.')}={value}" for key, value in changes.items()) or "nothing changed"
    cases.add(f"resume of a finished run: {name}", resume_changed, changes, True)


def stopped_run(bench, config):
    """A run with two checkpoints, stopped before its end; their names, oldest first."""
    process = bench.start(*bench.train_words(config, "run", *hold(3, 6), *hold(3, 11)))
    held = Watched(bench, process)
    for count in 1, 2:  # one is written at a time
        held.wait(lambda events, count=count: sum(event["event"] == "checkpoint" and event["ok"] for event in events) >= count,
                  f"{count} checkpoints")
        if count == 2:
            process.send_signal(signal.SIGTERM)
        held.go_on()
    equal(bench.end(process).code, 75, "exit code of the run that was stopped")
    found = sorted(name for name in os.listdir(bench.path("run", "checkpoints")) if name.startswith("step-"))
    equal(len(found), 2, "checkpoints kept")
    return found


def harm(path, how):
    """Spoils one checkpoint."""
    piece, manifest = os.path.join(path, "stage-1.safetensors"), os.path.join(path, "manifest.json")
    if how == "flipped bit":
        with open(piece, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 4]))
    elif how == "truncated safetensors":
        os.truncate(piece, os.path.getsize(piece) // 2)
    elif how == "empty safetensors":
        os.truncate(piece, 0)
    elif how == "missing safetensors":
        os.remove(piece)
    elif how == "header of 2^60 bytes":
        with open(piece, "r+b") as file:
            file.write((1 << 60).to_bytes(8, "little"))
    elif how == "truncated manifest":
        os.truncate(manifest, os.path.getsize(manifest) // 2)
    elif how == "corrupted manifest":
        with open(manifest, "w", encoding="ascii") as file:
            file.write('{"format": "culm-checkpoint-1", "step": "four"}')
    elif how == "manifest of another step":
        with open(manifest, encoding="utf-8") as file:
            content = json.load(file)
        content["step"] += 1
        with open(manifest, "w", encoding="utf-8") as file:
            json.dump(content, file)
    elif how == "manifest missing":
        os.remove(manifest)


HARMS = ["flipped bit", "truncated safetensors", "empty safetensors", "missing safetensors", "header of 2^60 bytes",
         "truncated manifest", "corrupted manifest", "manifest of another step", "manifest missing"]
LONG = changed(BASE, steps=60, checkpoint__every=5)


def newest_broken(bench, how):
    """It says so, and goes on from the one before, to the same bits."""
    names = stopped_run(bench, LONG)
    newest = bench.path("run", "checkpoints", names[-1])
    harm(newest, how)
    if how not in ("manifest missing", "manifest of another step"):  # what is no checkpoint, and what is one by itself
        one_line(bench.run("ckpt", "show", newest), CONFIGURATION, names[-1])
        one_line(bench.run("ckpt", "diff", newest, bench.path("run", "checkpoints", names[0])), CONFIGURATION, names[-1])
    run = bench.train(LONG, "run", "--resume")
    equal(len(run.err.splitlines()), 1, f"lines on stderr ({run.err!r})")
    check(names[-1] in run.err, f"stderr does not name the broken checkpoint: {run.err!r}")
    equal(run.all("step")[0]["step"], int(names[0][5:]) + 1, "first step after the resume")
    equal(run.hashes(), cases.reference(LONG), "weights_sha256 and state_sha256")


def all_broken(bench, how):
    """No checkpoint is whole: refused, and the broken ones are left for whoever can mend them."""
    names = stopped_run(bench, LONG)
    for name in names:
        harm(bench.path("run", "checkpoints", name), how)
    refused(bench, bench.train_words(LONG, "run", "--resume"), CONFIGURATION, "step-")
    one_line(bench.run("ckpt", "show", bench.path("run")), CONFIGURATION)


for how in HARMS:
    cases.add(f"resume: newest checkpoint: {how}", newest_broken, how, first=how == "flipped bit")
    cases.add(f"resume: all checkpoints: {how}", all_broken, how)


def torn_events(bench):
    """The last line was cut by a crash of the machine; the resumed run goes on below it."""
    stopped_run(bench, LONG)
    path = bench.path("run", "events.jsonl")
    os.truncate(path, os.path.getsize(path) - 10)
    run = bench.train(LONG, "run", "--resume")
    equal(run.hashes(), cases.reference(LONG), "weights_sha256 and state_sha256")
    equal(bench.run("report", bench.path("run")).code, 0, "exit code of report")


cases.add("resume: a torn line in events.jsonl", torn_events)

# --- a full disk ------------------------------------------------------------------------------------------------------------


def full_at_start(bench):
    with Disk(bench, 64) as disk:
        disk.fill()
        path = bench.config(BASE)
        ended = bench.run("train", path, "--out", bench.path("disk", "run"), "--json")
        one_line(ended, ENVIRONMENT, "disk/run")
        check(not os.path.exists(bench.path("disk", "run", "config.yaml")), "half a run was written")
        disk.resize(16384)
        again = bench.run("train", path, "--out", bench.path("disk", "run"), "--json")
        equal(again.code, 0, "exit code once there is room")


def full_in_the_middle(bench, size_kb):
    """Checkpoints that find no room are given up; the last one is waited for in vain, so the run fails, and goes on when there is room."""
    config = changed(BASE, steps=30, checkpoint__every=5, cluster__wait_ms=1)
    with Disk(bench, size_kb) as disk:
        path = bench.config(config)
        ended = bench.run("train", path, "--out", bench.path("disk", "run"), "--json")
        equal(ended.code, ENVIRONMENT, "exit code")
        check("No space left" in ended.err, f"stderr: {ended.err!r}")
        check(not os.path.exists(bench.path("disk", "run", "model.safetensors")), "a model was written")
        told = [event for event in map(json.loads, ended.out.splitlines()) if event["event"] == "checkpoint" and not event["ok"]]
        check(told, "no checkpoint was told to be given up")
        whole = bench.run("ckpt", "show", bench.path("disk", "run"), "--json")
        kept = os.listdir(bench.path("disk", "run", "checkpoints")) if whole.code else None
        check(whole.code == 0 or not [name for name in kept if name.startswith("step-")], "a checkpoint is half there")
        equal(workers_of(bench.path("disk", "run")), [], "workers left behind")
        disk.resize(32768)
        again = bench.run("train", path, "--out", bench.path("disk", "run"), "--json", "--resume", "--set", "cluster.wait_ms=120000")
        equal(again.code, 0, "exit code once there is room")
        again.events = [json.loads(line) for line in again.out.splitlines()]
        equal(again.hashes(), cases.reference(config), "weights_sha256 and state_sha256")


cases.add("full disk: at the start", needs_disk, __file__, "full disk: at the start", full_at_start)
for size_kb in (64, 400, 700, 1000):
    name = f"full disk: in the middle, {size_kb} kB"
    cases.add(name, needs_disk, __file__, name, full_in_the_middle, size_kb, first=size_kb == 700)

# --- faults, traces, plans --------------------------------------------------------------------------------------------------


def wrong_fault(bench, spec, part):
    refused(bench, bench.train_words(BASE, "run", "--fault", spec), CONFIGURATION, "--fault", part)


for spec, part in [("worker=1", "step"), ("step=3", "worker"), ("worker=1,step=0", "step"), ("worker=1,step=9", "9"),
                   ("worker=-1,step=1", "worker"), ("worker=1,step=3,phase=sleep", "sleep"),
                   ("worker=1,step=3,how=explode", "explode"), ("worker=1,step=3,micro=8", "8"),
                   ("worker=1,step=3,for_ms=5", "for_ms"), ("worker=1,step=3,phase=commit,micro=1", "micro"),
                   ("worker=1,step=3,colour=red", "colour"), ("", "name=value"), ("worker=1,worker=2,step=3", "twice")]:
    cases.add(f"impossible fault: '{spec}'", wrong_fault, spec, part)


def wrong_fault_here(bench, changes, spec):
    refused(bench, bench.train_words(changed(BASE, **changes), "run", "--fault", spec), CONFIGURATION, "--fault")


cases.add("impossible fault: frc without eager", wrong_fault_here, {"redundancy": "lazy"}, "worker=1,step=3,phase=frc")
cases.add("impossible fault: no such worker, none is replaced", wrong_fault_here, {"cluster__replace_ms": -1}, "worker=6,step=3")


def never_fired(bench, spec):
    ended = bench.run(*bench.train_words(BASE, "run", "--fault", spec))
    equal(ended.code, 1, "exit code")
    check("never fired" in ended.err and spec in ended.err, f"stderr: {ended.err!r}")
    equal(len(ended.err.splitlines()), 1, "lines on stderr")
    done = json.loads(ended.out.splitlines()[-1])
    equal((done["event"], done["faults_fired"]), ("done", 0), "last event and its faults_fired")


cases.add("a fault that never fires: no replacement came", never_fired, "worker=6,step=3,phase=forward", first=True)
cases.add("a fault that never fires: nobody got a copy", never_fired, "worker=1,step=3,phase=transfer")


def wrong_file(bench, option, content, code, parts):
    if content is not None:
        with open(bench.path("given"), "wb") as file:
            file.write(content)
    refused(bench, bench.train_words(BASE, "run", option, bench.path("given")), code, "given", *parts)


for name, content, parts in [("missing", None, []), ("a word for the time", b"soon,add,node0\n", [":1"]),
                             ("unknown verb", b"0,add,node0\n5,pause,node0\n", [":2", "add", "remove"]),
                             ("two fields", b"0,add\n", [":1"]), ("removes who is not there", b"0,remove,node0\n", [":1"]),
                             ("adds twice", b"0,add,node0\n1,add,node0\n", [":2"]), ("negative time", b"-5,add,node0\n", [":1"]),
                             ("binary", bytes(range(256)), []), ("a bad name", b"0,add,no de\n", [":1"])]:
    cases.add(f"trace: {name}", wrong_file, "--preempt-trace", content, CONFIGURATION, parts, first=name == "unknown verb")
for name, content in [("missing", None), ("empty", b""), ("not JSON", b"{"), ("a list", b"[]"), ("of nothing", b"{}"),
                      ("of another model", b'{"format":1,"parameters":5,"pipelines":2,"lanes":4,"stages":[]}')]:
    cases.add(f"plan: {name}", wrong_file, "--plan", content, CONFIGURATION, [])


def usage(bench, words):
    bench.config(BASE)
    ended = bench.run(*words)
    one_line(ended, USAGE)
    check(not os.path.exists(bench.path("runs")), "a run directory was made")


for words in (["train"], ["train", "config.yaml", "more"], ["train", "--frobnicate", "config.yaml"], ["train", "config.yaml", "--out"],
              ["train", "config.yaml", "--time-scale", "2"], ["train", "config.yaml", "--time-scale", "0", "--preempt-trace", "x"],
              ["train", "config.yaml", "--resume=yes"], ["frobnicate"], ["ckpt"], ["ckpt", "show"], ["ckpt", "diff", "a"],
              ["ckpt", "look", "a"], ["ckpt", "list"], ["ckpt", "prune", "a"], ["status"], ["stop"], ["help", "frobnicate"]):
    cases.add(f"usage: culm {' '.join(words)}", usage, words, first="--frobnicate" in words)


def no_checkpoint(bench, path, code):
    os.mkdir(bench.path("folder"))
    with open(bench.path("file"), "wb") as file:
        file.write(b"no safetensors at all, but long enough for a header")
    one_line(bench.run("ckpt", "show", path), code, path)
    one_line(bench.run("ckpt", "diff", path, path), code, path)


for path in ("missing", "folder", "file", "/dev/zero"):
    cases.add(f"ckpt show and diff: {path}", no_checkpoint, path, CONFIGURATION)

# --- standard output --------------------------------------------------------------------------------------------------------


def nowhere_to_write(bench):
    """Events that cannot be printed are told once; training goes on, and the file has them all."""
    path = bench.config(BASE)
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([bench.culm, "train", path, "--out", bench.path("run"), "--json"], stdout=full,
                               stderr=subprocess.PIPE, check=False, timeout=300, cwd=bench.folder)
    equal(len(ended.stderr.splitlines()), 1, f"lines on stderr ({ended.stderr!r})")
    events = read_events(bench.path("run", "events.jsonl"))
    equal(events[-1]["event"], "done", "last event in events.jsonl")
    equal((events[-1]["weights_sha256"], events[-1]["state_sha256"]), cases.reference(BASE), "hashes")


def reader_went_away(bench):
    """`culm train --json | head -1` ends with a whole run directory."""
    path = bench.config(BASE)
    process = subprocess.Popen([bench.culm, "train", path, "--out", bench.path("run"), "--json"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, cwd=bench.folder)
    bench.children.append(process)
    json.loads(process.stdout.readline())
    process.stdout.close()
    process.wait(300)
    events = read_events(bench.path("run", "events.jsonl"))
    equal(events[-1]["event"], "done", "last event in events.jsonl")


cases.add("standard output is full", nowhere_to_write)
cases.add("the reader of standard output went away", reader_went_away, first=True)


def faults_do_not_outlive(bench):
    """A fault of the first run is none of the resumed one."""
    run = bench.train(changed(BASE, steps=30), "run", *fault(1, 3, "forward"))
    check_whole(run, cases.reference(changed(BASE, steps=30)))
    again = bench.train(changed(BASE, steps=30), "run", "--resume")
    equal(again.one("done")["faults_fired"], 0, "faults_fired after the resume")


cases.add("faults end with their run", faults_do_not_outlive)

if __name__ == "__main__":
    cases.run()
