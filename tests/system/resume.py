#!/usr/bin/env python3
"""--resume: what it finds is compared with what the events tell; inputs that have changed, more steps and other settings are taken up
knowingly; and each line that refuses one says what to do, which is done here."""
import json
import math
import os
import re
import shutil
import signal

import families
from gnn_harness import ONE, Graphs
from harness import Cases, Held, changed, check, equal, fault, flip_bit, hold, thaw, tiny_config

cases = Cases(job="train")
BASE = changed(tiny_config(cases.text), pipelines=1, stages=1, redundancy="none", steps=9, checkpoint__every=3)
USAGE, INPUT, ENVIRONMENT = 2, 3, 4


def one_line(ended, code, *parts):
    """One line on standard error, which says all of this."""
    equal((ended.code, len(ended.err.splitlines())), (code, 1), f"exit code, and lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"standard error does not say {part!r}: {ended.err!r}")


def resume(bench, config, *words, out="run"):
    return bench.run(*bench.train_words(config, out, "--resume", *words))


def again(bench, config, *words, out="run"):
    """A resume that comes to its end."""
    return bench.train(config, out, "--resume", *words)


def checkpoint(bench, step, out="run"):
    return bench.path(out, "checkpoints", f"step-{step:08d}")


def older(bench, out="run"):
    """The step of the checkpoint before the newest. Which one that is depends on how long it took to write."""
    return sorted(int(name[5:]) for name in os.listdir(bench.path(out, "checkpoints")) if name.startswith("step-"))[-2]


def exact(run, *why):
    """What the event done says of it: which words there are, if it is not exact."""
    done = run.one("done")
    equal((done["exact"], done.get("inexact", [])), (not why, list(why)), "exact, and why not")


# --- checkpoints that are gone ----------------------------------------------------------------------------------------------


def all_gone(bench):
    """The volume with the checkpoints is not mounted: nothing begins anew without a word, and either advice works."""
    hashes = bench.train(BASE).hashes()
    events = len(bench.events())
    os.rename(bench.path("run", "checkpoints"), bench.path("elsewhere"))
    one_line(resume(bench, BASE), INPUT, checkpoint(bench, 9), "step 9", bench.path("run", "checkpoints"), "bring it back", "--from-start",
             "9 steps")
    equal(len(bench.events()), events, "events after the refusal")
    os.rename(bench.path("elsewhere"), bench.path("run", "checkpoints"))
    equal(again(bench, BASE).all("step"), [], "steps that are done again once they are back")
    shutil.rmtree(bench.path("run", "checkpoints"))
    run = again(bench, BASE, "--from-start")
    equal(run.one("resumed")["again"], 9, "steps to be done again, as events tell")
    check("9 steps are done again" in run.err, f"standard error: {run.err!r}")
    equal([event["step"] for event in run.all("step")], list(range(1, 10)), "steps")
    equal(run.hashes(), hashes, "weights and state")
    exact(run)
    equal(again(bench, BASE).err, "", "standard error of a plain resume after that")


def all_cut(bench):
    """None is whole: the line says to begin anew by the same word."""
    hashes = bench.train(BASE).hashes()
    for name in os.listdir(bench.path("run", "checkpoints")):
        os.truncate(bench.path("run", "checkpoints", name, "stage-0.safetensors"), 100)
    one_line(resume(bench, BASE), INPUT, "step-00000009", "--from-start")
    equal(again(bench, BASE, "--from-start").hashes(), hashes, "weights and state")


def newest_gone(bench):
    """An older one is there: said, with what is done again, and told; not said twice."""
    hashes = bench.train(BASE).hashes()
    step = older(bench)
    shutil.rmtree(checkpoint(bench, 9))
    run = again(bench, BASE)
    one_line(run, 0, checkpoint(bench, 9), "is gone", f"after step {step}", f"{9 - step} steps again")
    told = run.one("resumed")
    equal((told["step"], told["path"], told["done"], told["again"]), (step, checkpoint(bench, step), 9, 9 - step), "what is told")
    equal(run.hashes(), hashes, "weights and state")
    equal(again(bench, BASE).err, "", "standard error of the next one")


def nothing_was_saved(bench):
    """The launcher was killed before its first checkpoint: it begins anew, as ever, without a flag."""
    config = changed(BASE, checkpoint__every=0)
    process = bench.start(*bench.train_words(config, "run", *hold(0, 5)))
    Held(bench, process).wait()
    os.kill(process.pid, signal.SIGKILL)
    bench.end(process)
    run = again(bench, config)
    equal((run.err, run.one("resumed")["again"]), ("", 4), "standard error; steps done again")


def from_start_misused(bench):
    """Not beside a whole checkpoint, whose work it would throw away; nor of a run that is not resumed."""
    bench.train(BASE)
    one_line(resume(bench, BASE, "--from-start"), INPUT, checkpoint(bench, 9), "leave it out")
    for word in "--from-start", "--accept-inputs":
        one_line(bench.run(*bench.train_words(BASE, "other", word)), USAGE, word, "--resume")
        check(not os.path.exists(bench.path("other")), "a run directory was made")


def damage(path):
    """One line of the events is gone, and so are those that tell of checkpoints."""
    with open(path, "rb") as file:
        lines = [line for line in file.read().splitlines(keepends=True) if b'"checkpoint"' not in line]
    with open(path, "wb") as file:
        file.write(b"".join(bytes(len(line) - 1) + b"\n" if i == 3 else line for i, line in enumerate(lines)))


def log_damaged(bench):
    """Events that cannot all be read do not say that nothing was saved."""
    hashes = bench.train(BASE).hashes()
    path = bench.path("run", "events.jsonl")
    damage(path)
    one_line(again(bench, BASE), 0, "line 4", path, "is not an event")
    shutil.rmtree(bench.path("run", "checkpoints"))
    shutil.copytree(bench.path("run"), bench.path("nolog"))
    with open(bench.path("run", "model.safetensors"), "rb") as file:
        model = file.read()
    one_line(resume(bench, BASE), INPUT, "line 4", path, bench.path("run", "checkpoints"), "--from-start")
    with open(bench.path("run", "model.safetensors"), "rb") as file:
        equal(file.read(), model, "model.safetensors")
    run = again(bench, BASE, "--from-start")
    equal(run.hashes(), hashes, "weights and state")
    os.unlink(bench.path("nolog", "events.jsonl"))  # what it has made is told by its model
    one_line(resume(bench, BASE, out="nolog"), INPUT, bench.path("nolog", "model.safetensors"), "--from-start")
    equal(again(bench, BASE, "--from-start", out="nolog").hashes(), hashes, "weights and state")


def killed_at(bench, step, *words, config=BASE):
    """A resume whose launcher is killed while its worker stands still before that step."""
    told = len(bench.events())
    process = bench.start(*bench.train_words(config, "run", "--resume", *words, *hold(0, step)))
    Held(bench, process).wait(lambda events: len(events) > told)
    os.kill(process.pid, signal.SIGKILL)
    bench.end(process)


def killed_anew(bench):
    """Begun anew over damaged checkpoints, and killed before the first of its own: it goes on without a flag."""
    config = changed(BASE, checkpoint__every=0)
    hashes = bench.train(config).hashes()
    for name in os.listdir(bench.path("run", "checkpoints")):
        os.truncate(bench.path("run", "checkpoints", name, "stage-0.safetensors"), 100)
    killed_at(bench, 5, "--from-start", config=config)
    equal(again(bench, config).hashes(), hashes, "weights and state")


cases.add("checkpoints: all gone", all_gone, first=True)
cases.add("checkpoints: gone with a damaged log", log_damaged)
cases.add("checkpoints: damaged, begun anew, killed", killed_anew)
cases.add("checkpoints: all cut", all_cut)
cases.add("checkpoints: the newest gone", newest_gone)
cases.add("checkpoints: none was written", nothing_was_saved)
cases.add("--from-start where it does not belong", from_start_misused)

# --- more steps, other settings ---------------------------------------------------------------------------------------------


def cosine(config, step):
    """The documented formula."""
    lr, schedule = config["optimizer"]["lr"], config["schedule"]
    warmup, least = schedule["warmup"], schedule["min_lr"]
    if step <= warmup:
        return lr * step / warmup
    return least + (lr - least) / 2 * (1 + math.cos(math.pi * (step - warmup) / (config["steps"] - warmup)))


def more_steps(bench):
    """Later ones follow the schedule for the new number, those done keep what they had; a plain resume knows of it."""
    bench.train(BASE)
    run = again(bench, BASE, "--set", "steps=15")
    longer = changed(BASE, steps=15)
    told = [(event["step"], event["lr"]) for event in run.all("step")]
    equal([step for step, _ in told], list(range(10, 16)), "steps")
    check(all(math.isclose(lr, cosine(longer, step), rel_tol=1e-12) for step, lr in told), f"rates: {told}")
    equal(run.one("settings")["changed"], [{"key": "steps", "was": "9", "now": "15"}], "what is told")
    exact(run, "steps")
    equal(json.loads(bench.run("report", bench.path("run"), "--json").out)["exact"], False, "exact in culm report --json")
    shutil.rmtree(checkpoint(bench, 15))
    plain = again(bench, BASE)  # though its configuration has 9
    check("steps=15" in plain.err and "--set" in plain.err, f"standard error: {plain.err!r}")
    equal(plain.hashes(), run.hashes(), "weights and state of a plain resume")
    exact(plain, "steps")
    said = bench.run("report", bench.path("run"))
    check(re.search(r"exact +no: resumed with another number of steps", said.out), f"the summary: {said.out!r}")
    one_line(resume(bench, BASE, "--set", "steps=6"), INPUT, "step 15", "'steps' is 6", "15 or more")
    equal(again(bench, BASE, "--set", "steps=15").all("step"), [], "steps, as the line says")
    one_line(resume(bench, changed(BASE, steps=18)), INPUT, "steps", "15", "18", "--set steps=N")


def more_steps_alike(bench, schedule):
    """Where rates do not depend on the number of steps, the longer run is as if it had been so long from the beginning."""
    config = changed(BASE, schedule=schedule)
    whole = bench.train(changed(config, steps=15), "whole")
    bench.train(config)
    run = again(bench, config, "--set", "steps=15")
    equal(run.hashes(), whole.hashes(), "weights and state")
    exact(run)


SETS = ("--set", "steps=12", "--set", "optimizer.lr=0.0005", "--set", "optimizer.clip_norm=0.5", "--set", "schedule.name=linear")


def rolled_back_before(bench, out):
    """Resumed with the settings; the checkpoint from which it goes on is removed before the only worker is lost, so that steps are done again
    that were done before the settings changed."""
    words = bench.train_words(BASE, out, "--resume", *SETS, "--set", "checkpoint.every=0", *hold(0, 11), *fault(0, 12, "forward"))
    process = bench.start(*words)
    held = Held(bench, process, out)
    held.wait()
    shutil.rmtree(checkpoint(bench, 9, out))
    thaw([event["pid"] for event in held.events() if event["event"] == "joined"][-1])  # those of the run before are told, too
    run = bench.trained(process, out)
    check(run.all("rollback")[-1]["to_step"] < 9, "no step before the settings changed was done again")
    return run


def other_settings(bench):
    """Another rate, clip and schedule after step 9: the same bits however the run is disturbed after that, and even where steps before are
    done again, with what they had."""
    bench.train(BASE)
    for copy in "lost", "rolled", "ended":
        shutil.copytree(bench.path("run"), bench.path(copy))
    run = again(bench, BASE, *SETS)
    wanted = run.hashes()
    exact(run, "optimizer")
    equal([change["key"] for change in run.one("settings")["changed"]],
          ["steps", "optimizer.lr", "optimizer.clip_norm", "schedule.name"], "what is told")
    lost = again(bench, BASE, *SETS, *fault(0, 11, "forward"), out="lost")
    equal(len(lost.all("rollback")), 1, "roll-backs")
    equal(lost.hashes(), wanted, "weights and state after a loss")
    equal(rolled_back_before(bench, "rolled").hashes(), wanted, "weights and state after a roll-back to before")
    alone = ("--set", "cluster.replace_ms=-1", "--set", "cluster.wait_ms=1")
    bench.train(BASE, "ended", "--resume", *SETS, *alone, *fault(0, 10, "forward"), code=ENVIRONMENT)
    shutil.copytree(bench.path("ended"), bench.path("anew"))
    plain = again(bench, BASE, out="ended")  # no checkpoint says so yet
    equal(plain.hashes(), wanted, "weights and state of a plain resume")
    shutil.rmtree(bench.path("anew", "checkpoints"))
    equal(again(bench, BASE, "--from-start", out="anew").hashes(), wanted, "weights and state of all steps, each with its settings")


def another_kind(bench):
    """What one optimizer keeps another cannot go on with: refused, and the way that the line names works."""
    bench.train(BASE)
    ended = resume(bench, BASE, "--set", "optimizer.name=sgd")
    one_line(ended, INPUT, "optimizer.name", "adamw", "--out NEW --set model.init=")
    word = re.search(r"model\.init=\S+", ended.err).group(0)
    config = changed(BASE, optimizer=families.SGD)
    bench.train(config, "new", "--set", word)


def edited(bench):
    """A rate that was edited is not taken up in passing: the line says how."""
    bench.train(BASE)
    config = changed(BASE, optimizer__lr=0.001, steps=12)
    one_line(resume(bench, config), INPUT, "steps")
    ended = resume(bench, config, "--set", "steps=12")
    one_line(ended, INPUT, "optimizer.lr", "0.002", "0.001")
    word = re.search(r"--set (\S+)", ended.err).group(1)
    run = again(bench, config, "--set", "steps=12", "--set", word)
    equal([event["step"] for event in run.all("step")], [10, 11, 12], "steps")


CONSTANT = changed(BASE, schedule={"name": "constant"}, checkpoint__every=0, steps=5, checkpoint__keep=9)


def rates(run):
    return [(event["step"], event["lr"]) for event in run.all("step")]


def older_checkpoint(bench):
    """Steps that are done again, from an older checkpoint or from the start, keep the rates that they had, though another number of steps is
    set, and plain resumes after that know them too."""
    bench.train(CONSTANT)
    bench.train(CONSTANT, "run", "--resume", "--set", "steps=7")
    bench.train(CONSTANT, "run", "--resume", "--set", "steps=9", "--set", "optimizer.lr=0.02")
    shutil.copytree(bench.path("run"), bench.path("anew"))
    for step in 7, 9:
        shutil.rmtree(checkpoint(bench, step))
    run = again(bench, CONSTANT, "--set", "steps=11")
    equal(rates(run), [(step, 0.002 if step <= 7 else 0.02) for step in range(6, 12)], "rates after step 5")
    check("up to step 7 the run goes on with the settings that it had there" in run.err, f"standard error: {run.err!r}")
    exact(run, "optimizer")
    shutil.rmtree(bench.path("anew", "checkpoints"))
    run = again(bench, CONSTANT, "--from-start", "--set", "steps=11", out="anew")
    equal(rates(run), [(step, 0.002 if step <= 7 else 0.02) for step in range(1, 12)], "rates from the start")
    exact(run, "optimizer")
    shutil.rmtree(bench.path("anew", "checkpoints"))
    plain = again(bench, CONSTANT, "--from-start", "--set", "steps=11", out="anew")
    equal(plain.hashes(), run.hashes(), "weights and state once more")


def older_plan(bench):
    """A plan.json that was copied back does not make a run exact, nor forget its settings; checkpoints take precedence."""
    bench.train(CONSTANT)
    shutil.copy(bench.path("run", "plan.json"), bench.path("plan.json"))
    again(bench, CONSTANT, "--set", "steps=7", "--set", "optimizer.lr=0.02")
    shutil.copy(bench.path("plan.json"), bench.path("run", "plan.json"))
    run = again(bench, CONSTANT, "--set", "steps=8")
    equal(rates(run), [(8, 0.02)], "rates")
    exact(run, "optimizer")


def nothing_to_do(bench):
    """A finished run to which something is set has done nothing with it, and stays exact; not once it goes on."""
    run = bench.train(CONSTANT)
    idle = again(bench, CONSTANT, "--set", "optimizer.lr=0.02")
    equal(idle.hashes(), run.hashes(), "weights and state")
    exact(idle)
    exact(again(bench, CONSTANT))
    exact(again(bench, CONSTANT, "--set", "steps=6"), "optimizer")


cases.add("from an older checkpoint: each step as it was", older_checkpoint, first=True)
cases.add("plan.json: an older one", older_plan)
cases.add("a finished run: nothing is done with what is set", nothing_to_do)
cases.add("more steps: cosine", more_steps, first=True)
cases.add("more steps: constant", more_steps_alike, {"name": "constant"})
cases.add("more steps: falls by steps", more_steps_alike, {"name": "step", "warmup": 2, "every": 5, "gamma": 0.5})
cases.add("other settings: the same bits, however disturbed", other_settings)
cases.add("another kind of optimizer", another_kind)
cases.add("settings that were edited", edited)

# --- inputs that have changed -----------------------------------------------------------------------------------------------


MORE = ("--set", "steps=9")


def own_text(bench):
    """A run of 6 steps is there that goes on to 9 as if it had been so long from the beginning."""
    shutil.copy(cases.text, bench.path("corpus"))
    config = changed(BASE, data__path=bench.path("corpus"), schedule={"name": "constant"}, steps=6)
    bench.train(config)
    return changed(config, steps=9)


def accepted(bench, change):
    """Refused with a line; what the line says is done; it is told, and stays true of the run."""
    config = own_text(bench)
    change(bench.path("corpus"))
    one_line(resume(bench, config, *MORE), INPUT, bench.path("corpus"), "put it back", "--resume --accept-inputs")
    run = again(bench, config, *MORE, "--accept-inputs")
    one_line(run, 0, bench.path("corpus"))
    equal((run.one("inputs")["step"], run.one("inputs")["changed"]), (6, [bench.path("corpus")]), "what is told")
    equal([event["step"] for event in run.all("step")], [7, 8, 9], "steps")
    check(run.hashes() != cases.reference(changed(config, data__path=cases.text)), "the same weights of other data")
    exact(run, "inputs")
    plain = again(bench, config)
    equal((plain.err, plain.hashes()), ("", run.hashes()), "standard error and result of a plain resume")
    exact(plain, "inputs")
    said = bench.run("report", bench.path("run"))
    check(re.search(r"exact +no: resumed with changed inputs", said.out), f"the summary: {said.out!r}")


def edit(path):
    with open(path, "r+b") as file:
        file.write(bytes(60000 - 3))


def cut(path):
    os.truncate(path, 50000)


def back_again(bench):
    """The other advice: put back, it goes on to the same bits."""
    config = own_text(bench)
    edit(bench.path("corpus"))
    equal(resume(bench, config, *MORE).code, INPUT, "exit code")
    shutil.copy(cases.text, bench.path("corpus"))
    run = again(bench, config, *MORE, "--accept-inputs")
    equal(run.hashes(), cases.reference(changed(config, data__path=cases.text)), "weights and state")
    exact(run)


def other_path(bench):
    """Another file in the configuration is a changed input like any other."""
    config = own_text(bench)
    os.rename(bench.path("corpus"), bench.path("moved"))
    edit(bench.path("moved"))
    config = changed(config, data__path=bench.path("moved"))
    one_line(resume(bench, config, *MORE), INPUT, "data.path", "--resume --accept-inputs")
    run = again(bench, config, *MORE, "--accept-inputs")
    equal(sorted(run.one("inputs")["changed"]), [bench.path("corpus"), bench.path("moved")], "what is told")
    exact(run, "inputs")


def other_model(bench):
    """A model whose tensors are others has no place for the checkpoint: one line, before anything starts."""
    base = families.config_of("resnet.onnx")
    shutil.copy(os.path.join(families.GOLDEN, "resnet.onnx"), bench.path("model.onnx"))
    config = changed(base, model={**base["model"], "file": bench.path("model.onnx")}, pipelines=1, stages=1, redundancy="none", steps=2,
                     checkpoint={"every": 0, "keep": 1})
    bench.train(config)
    with open(bench.path("model.onnx"), "rb") as file:
        content = file.read()
    name = re.search(rb"conv1\.weight|[a-z0-9.]+\.weight", content).group(0)
    with open(bench.path("model.onnx"), "wb") as file:
        file.write(content.replace(name, name[:-1] + b"x"))
    equal(resume(bench, config).code, INPUT, "exit code without the word")
    one_line(resume(bench, config, "--accept-inputs"), INPUT, (name[:-1] + b"x").decode())


def damaged_pictures(bench, way):
    """Pictures that are cut short end the run; the line says what to do, which is done: replaced, removed or left out, and the run goes on."""
    folder = families.image_folder(bench)
    model = {"name": "resnet18", "width": 4, "small_stem": True, "image": 32, "channels": 3, "classes": 2}
    config = changed(BASE, model=model, data={"kind": "images", "path": folder, "check_s": 0}, optimizer=families.SGD, checkpoint__every=1,
                     batch={"global": 2, "micro": 2, "lanes": 1}, cluster__replace_ms=0)
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    whole = bench.path("kept")
    shutil.copytree(folder, whole)
    for path in paths[::2]:
        os.truncate(path, os.path.getsize(path) // 2)
    ended = bench.run(*bench.train_words(config))
    equal(ended.code, INPUT, "exit code")
    for part in "replace the file or remove it, or leave it out with data.skip; then go on with --resume --accept-inputs", folder:
        check(part in ended.err, f"standard error does not say {part!r}: {ended.err!r}")
    for path in paths[::2]:
        if way == "removed":
            os.unlink(path)
        elif way == "replaced":
            shutil.copy(os.path.join(whole, os.path.relpath(path, folder)), path)
    words = ()
    if way == "left out":
        equal(bench.run("data", "check", bench.path("run.yaml"), "--out", bench.path("list")).code, INPUT, "exit code of the check")
        words = ("--set", f"data.skip={bench.path('list')}")
        one_line(resume(bench, config, *words), INPUT, "data.skip", "--resume --accept-inputs")
    run = again(bench, config, "--accept-inputs", *words)
    equal(run.one("inputs")["changed"], [bench.path("list") if words else folder], "what is told")
    equal(run.one("done")["steps"], 9, "steps")


def accepted_and_killed(bench):
    """Killed before the first checkpoint on new files: a plain resume goes on with these; with the old ones put back the run is exact."""
    config = own_text(bench)
    longer = changed(config, data__path=cases.text)
    edit(bench.path("corpus"))
    killed_at(bench, 8, *MORE, "--set", "checkpoint.every=0", "--accept-inputs", config=config)
    for copy in "back", "other":
        shutil.copytree(bench.path("run"), bench.path(copy))
    run = again(bench, config)
    check("put it back" not in run.err, f"standard error: {run.err!r}")
    exact(run, "inputs")
    cut(bench.path("corpus"))  # others were not taken up
    one_line(resume(bench, config, *MORE, out="other"), INPUT, bench.path("corpus"), "--accept-inputs")
    shutil.copy(cases.text, bench.path("corpus"))
    run = again(bench, config, out="back")
    equal(run.hashes(), cases.reference(longer), "weights and state with the old files")
    exact(run)


def finished_and_changed(bench):
    """A run that has nothing left to do is no other for files that it does not read any more."""
    config = own_text(bench)
    edit(bench.path("corpus"))
    exact(again(bench, changed(config, steps=6), "--accept-inputs"))
    exact(again(bench, changed(config, steps=6)))
    exact(again(bench, config, *MORE), "inputs")


def images_of(bench):
    """A run of three steps on two classes, and its configuration."""
    folder = families.image_folder(bench)
    model = {"name": "resnet18", "width": 4, "small_stem": True, "image": 32, "channels": 3, "classes": 2}
    config = changed(BASE, model=model, data={"kind": "images", "path": folder, "check_s": 0}, optimizer=families.SGD, steps=3,
                     batch={"global": 2, "micro": 2, "lanes": 1}, schedule={"name": "constant"})
    bench.train(config)
    return folder, config


def other_classes(bench):
    """Classes in another order would mean other things to the weights: refused even where changed inputs are accepted; either advice works."""
    folder, config = images_of(bench)
    os.rename(os.path.join(folder, "class-0"), os.path.join(folder, "last"))
    words = "--accept-inputs", "--set", "steps=4"
    ended = resume(bench, config, *words)
    one_line(ended, INPUT, "'class-1', 'last'", "'class-0', 'class-1'", "--out NEW --set model.init=DIR")
    bench.train(config, "new", "--set", f"model.init={bench.path('run')}")
    os.rename(os.path.join(folder, "last"), os.path.join(folder, "class-0"))
    exact(again(bench, config, *words))


def skip_stays(bench):
    """What was named with --set and accepted goes on without being named again, also where nothing was saved since; --set takes it back."""
    folder, config = images_of(bench)
    with open(os.path.join(folder, "class-0", sorted(os.listdir(os.path.join(folder, "class-0")))[0]), "wb") as file:
        file.write(b"no picture")
    equal(bench.run("data", "check", bench.path("run.yaml"), "--out", bench.path("list")).code, INPUT, "exit code of the check")
    sets = "--set", f"data.skip={bench.path('list')}"
    killed_at(bench, 5, "--accept-inputs", *sets, "--set", "steps=6", "--set", "checkpoint.every=0", config=config)
    for _ in range(2):
        run = again(bench, config)
        check(f"data.skip={bench.path('list')}" in run.err and "--set changes it" in run.err, f"standard error: {run.err!r}")
        exact(run, "inputs")
    one_line(resume(bench, config, "--set", "data.skip=[]", "--set", "steps=6"), INPUT, "data.skip", "--resume --accept-inputs")


def best_before(bench):
    """The best on other samples is said, and begun anew as the line says."""
    config = changed(own_text(bench), data__held_out=0.1, eval={"every": 3}, checkpoint__best="loss", steps=6)
    bench.train(config, "best")
    edit(bench.path("corpus"))
    path = bench.path("best", "best.safetensors")
    words = "--accept-inputs", "--set", "steps=9"
    shutil.copytree(bench.path("best"), bench.path("anew"))
    check(path in again(bench, config, *words, out="best").err, "nothing is said of best.safetensors")
    os.unlink(bench.path("anew", "best.safetensors"))
    run = again(bench, config, *words, out="anew")
    check("best.safetensors" not in run.err, f"standard error: {run.err!r}")
    equal([event["best"] for event in run.all("eval")], [True], "whether the only one that was evaluated is the best")


def evaluated(bench):
    """Of changed files, culm eval says what it can do itself."""
    config = changed(own_text(bench), data__held_out=0.1, steps=6)
    bench.train(config, "held")
    edit(bench.path("corpus"))
    words = "--weights", checkpoint(bench, 6, "held")
    ended = bench.run("eval", bench.path("held"), *words)
    line = ended.err
    equal(len(line.splitlines()), 1, "lines")
    check("--resume" not in line and f"name '{bench.path('held', 'config.yaml')}' with --weights '{words[1]}'" in line, f"standard error: {line!r}")
    equal(bench.run("eval", bench.path("held", "config.yaml"), *words).code, 0, "exit code of what the line says")


cases.add("changed text", accepted, edit, first=True)
cases.add("changed, accepted, killed", accepted_and_killed, first=True)
cases.add("changed once it is finished", finished_and_changed)
cases.add("classes in another order", other_classes, first=True)
cases.add("a list of samples to skip stays", skip_stays)
cases.add("changed, with a best so far", best_before)
cases.add("changed, and evaluated", evaluated)
cases.add("fewer samples", accepted, cut)
cases.add("changed and put back", back_again)
cases.add("another path", other_path)
cases.add("a model with other tensors", other_model)
for way in "replaced", "removed", "left out":
    cases.add(f"damaged pictures: {way}", damaged_pictures, way)

# --- graph networks ---------------------------------------------------------------------------------------------------------

graphs = Graphs(cases, "--vertices", "200", "--edges", "600", "--features", "8")
GRAPH = {"graph": {"path": graphs.path}, "model": {"width": 4}, "epochs": 9, "intervals": 2, "seed": 3, **ONE,
         "checkpoint": {"every": 3, "keep": 2}, "eval": {"every": 0}}


def of_graphs(bench):
    """The same of graph networks: gone, begun anew, more epochs (their rate is constant), another rate, with and without a loss."""
    hashes = graphs.train(bench, GRAPH).hashes()
    words = graphs.words_of(bench, GRAPH, "run")
    shutil.copytree(bench.path("run"), bench.path("copy"))
    shutil.rmtree(bench.path("run", "checkpoints"))
    one_line(bench.run(*words, "--resume"), INPUT, checkpoint(bench, 9), "epoch 9", "--from-start")
    run = graphs.train(bench, GRAPH, "run", "--resume", "--from-start")
    equal((run.hashes(), run.one("resumed")["again"]), (hashes, 9), "weights and state; epochs done again")
    exact(run)
    whole = graphs.train(bench, changed(GRAPH, epochs=14), "whole").hashes()
    run = graphs.train(bench, GRAPH, "run", "--resume", "--set", "epochs=14")
    equal(run.hashes(), whole, "weights and state of more epochs")
    exact(run)
    sets = ("--set", "epochs=14", "--set", "optimizer.lr=0.1")
    run = graphs.train(bench, GRAPH, "copy", "--resume", *sets)
    check(run.hashes() != whole, "another rate changed nothing")
    exact(run, "optimizer")
    shutil.rmtree(bench.path("copy", "checkpoints"))
    plain = graphs.train(bench, GRAPH, "copy", "--resume", "--from-start")
    equal(plain.hashes(), run.hashes(), "weights and state of all epochs done again, each with its rate")


def of_graphs_changed(bench):
    """Features that have changed, taken up knowingly."""
    graphs.make(bench)
    shutil.copytree(graphs.path, bench.path("graph"))
    config = changed(GRAPH, graph__path=bench.path("graph"))
    graphs.train(bench, config)
    path = os.path.join(bench.path("graph"), "features.npy")
    flip_bit(path, -2)
    one_line(bench.run(*graphs.words_of(bench, config, "run"), "--resume"), INPUT, path, "--resume --accept-inputs")
    one_line(bench.run("gnn", "eval", bench.path("run")), INPUT, path, "config.yaml of the run with --weights")
    equal(bench.run("gnn", "eval", bench.path("run", "config.yaml"), "--weights", bench.path("run")).code, 0, "exit code of that")
    one_line(bench.run("gnn", "predict", bench.path("run"), "--out", bench.path("a.npy")), INPUT, path, "--graph")
    equal(bench.run("gnn", "predict", bench.path("run"), "--graph", bench.path("graph"), "--out", bench.path("a.npy")).code, 0, "of that")
    run = graphs.train(bench, config, "run", "--resume", "--accept-inputs", "--set", "epochs=12")
    equal(run.one("inputs")["changed"], [path], "what is told")
    exact(run, "inputs")


def of_graphs_resized(bench):
    """Another number of vertices: one line, whose advice works, whether changes are accepted or not; a damaged log is no dead end."""
    made = bench.run("gnn", "make", "sbm", "--vertices", "60", "--edges", "150", "--features", "8", "--out", bench.path("graph"))
    equal(made.code, 0, made.err)
    config = changed(GRAPH, graph__path=bench.path("graph"))
    hashes = graphs.train(bench, config).hashes()
    words = graphs.words_of(bench, config, "run")
    os.rename(bench.path("graph"), bench.path("before"))
    made = bench.run("gnn", "make", "sbm", "--vertices", "70", "--edges", "150", "--features", "8", "--out", bench.path("graph"))
    equal(made.code, 0, made.err)
    for more in (), ("--accept-inputs",):
        one_line(bench.run(*words, "--resume", *more), INPUT, bench.path("graph"), "70 vertices", "60", "--out NEW --set model.init=")
    graphs.train(bench, config, "new", "--set", f"model.init={bench.path('run')}")
    shutil.rmtree(bench.path("graph"))
    made = bench.run("gnn", "make", "sbm", "--vertices", "60", "--edges", "150", "--features", "9", "--out", bench.path("graph"))
    equal(made.code, 0, made.err)
    one_line(bench.run(*words, "--resume", "--accept-inputs"), INPUT, checkpoint(bench, 9), "convs.0.lin.weight", "put back")
    shutil.rmtree(bench.path("graph"))
    os.rename(bench.path("before"), bench.path("graph"))
    exact(graphs.train(bench, config, "run", "--resume", "--set", "optimizer.lr=0.5"))  # no epoch is done with it
    path = bench.path("run", "events.jsonl")
    damage(path)
    shutil.rmtree(bench.path("run", "checkpoints"))
    rate = "--set", "optimizer.lr=0.01"  # which it was begun with
    one_line(bench.run(*words, "--resume", *rate), INPUT, "line 4", path, "--from-start")
    equal(graphs.train(bench, config, "run", "--resume", "--from-start", *rate).hashes(), hashes, "weights and state")
    damage(path)
    equal(bench.run("gnn", "eval", bench.path("run")).code, 0, "exit code of an evaluation")


cases.add("graphs: another number of vertices, a damaged log", of_graphs_resized)
cases.add("graphs: gone, more epochs, another rate", of_graphs, first=True)
cases.add("graphs: changed features", of_graphs_changed)

if __name__ == "__main__":
    cases.run()
