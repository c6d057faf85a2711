#!/usr/bin/env python3
"""What a run reads is pinned: data, tokenizers, models, first weights, configuration and plan. Whatever happens to the files,
the result is the same bits, or the run ends with a line that names the file and goes on once it is back."""
import contextlib
import json
import os
import shutil
import signal

import families
from harness import Cases, changed, check, check_whole, equal, hold, tiny_config, wait_until
from train_harness import Watched

cases = Cases(job="train")
# Nobody is missed while a run stands still, however long that is.
LONG = changed(tiny_config(cases.text), steps=60, checkpoint__every=20, cluster__suspect_ms=600000, cluster__orphan_ms=600000)
FAILED, INPUT, STOPPED = 1, 3, 75
GOLDEN = families.GOLDEN


def started(bench, config, step, *words):
    """A run that has done so many steps, and stands still in the next one: by worker 0, the owner of stage 0."""
    process = bench.start(*bench.train_words(config, "run", *hold(0, step + 1), *words))
    process.held = Watched(bench, process)
    process.held.wait(lambda events: any(e["event"] == "step" and e["step"] >= step for e in events), f"step {step}")
    return process


def kill_owner(bench, stage):
    """SIGKILLs the worker that owns the stage, unless it has met a changed file and ended by itself; its node. Of stage 0 that is the one by
    which the run stands still."""
    events = bench.events()
    pids = {e["node"]: e["pid"] for e in events if e["event"] == "joined"}
    owners = [e for e in events if e["event"] == "view"][-1]["map"]
    node = next(slot["owner"] for slot in owners if slot["stage"] == stage and slot["owner"] is not None)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pids[node], signal.SIGKILL)
    return node


# Words by which a run stands still once more, in a late step, by a worker of the other pipeline.
LATER = hold(4, 50)


def go_on_after(process, condition, what):
    """Lets a run go on that stands still for the second time, when the condition holds of its events."""
    process.held.wait(condition, what)
    process.held.go_on()


def replaced(events):
    return sum(event["event"] == "joined" for event in events) > 6


def ended(bench, process):
    run = bench.end(process)
    run.dir, run.events = bench.path("run"), [json.loads(line) for line in run.out.splitlines()]
    return run


def copy_of(bench, path, name):
    """The case's own file, so that cases do not disturb each other."""
    shutil.copy(path, bench.path(name))
    return bench.path(name)


def own_text(bench, config=LONG):
    return changed(config, data__path=copy_of(bench, cases.text, "corpus"))


def write(path, content, mode="wb"):
    with open(path, mode) as file:
        file.write(content)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def names(run, path, *parts):
    """The run failed, and its last line says which file."""
    equal(run.code, FAILED, "exit code")
    line = run.err.splitlines()[-1]
    for part in (path, *parts):
        check(part in line, f"the last line does not say {part!r}: {run.err!r}")
    check(any(path in e["message"] for e in run.all("error")), "no error event names the file")


def refuses(bench, config, path, *parts):
    """--resume is refused with one line; the run directory stays as it is."""
    kept = bench.path("run", "checkpoints")
    manifests = sorted(os.listdir(kept)) if os.path.isdir(kept) else None
    again = bench.run(*bench.train_words(config, "run", "--resume"))
    equal(again.code, INPUT, "exit code of --resume")
    equal(len(again.err.splitlines()), 1, f"lines on stderr ({again.err!r})")
    for part in (path, *parts):
        check(part in again.err, f"stderr does not say {part!r}: {again.err!r}")
    equal(sorted(os.listdir(kept)) if os.path.isdir(kept) else None, manifests, "checkpoints")


def same_after_resume(bench, config, reference):
    run = bench.train(config, "run", "--resume")
    equal(run.hashes(), reference, "weights_sha256 and state_sha256 after the resume")
    done = run.one("done")
    equal((done["samples_lost"], done["samples_repeated"]), (0, 0), "samples lost and repeated")
    return run


# --- configuration and plan travel with the welcome -------------------------------------------------------------------------


def edited(bench, name, edit):
    process = started(bench, LONG, 3, *LATER)
    path = bench.path("run", name)
    content = read(path)
    other = edit(content)
    check(other != content, "the edit changes nothing")
    if other is None:
        os.remove(path)
    else:
        write(path, other)
    for stage in (0, 2):
        kill_owner(bench, stage)
    go_on_after(process, replaced, "a replacement")
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    check_whole(run, cases.reference(LONG), rollbacks=None)


cases.add("config.yaml edited in mid-run", edited, "config.yaml", lambda text: text.replace(b"lr: 0.002", b"lr: 0.02"))
cases.add("config.yaml removed in mid-run", edited, "config.yaml", lambda text: None)
cases.add("plan.json edited in mid-run", edited, "plan.json",
          lambda text: json.dumps({**json.loads(text), "choices": {"cuts": [0, 2, 3], "algorithms": []}}).encode())
cases.add("plan.json emptied in mid-run", edited, "plan.json", lambda text: b"")

# --- data in mid-run --------------------------------------------------------------------------------------------------------


def append(path):
    write(path, b"one more line that was not there.\n", "ab")


def overwrite(path):
    """The same size, and even the same time of change."""
    info = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(info.st_size // 2)
        file.write(b"THIS WAS CHANGED")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def swap(path):
    content = read(path)
    write(path + ".new", content[:1000] + b"THIS WAS CHANGED" + content[1016:])
    os.replace(path + ".new", path)


def mid_run(bench, change, step):
    """In place: the workers that read the file see it, and the run ends, whatever copies it has."""
    config = own_text(bench)
    path = config["data"]["path"]
    content = read(path)
    process = started(bench, config, step)
    change(path)
    kill_owner(bench, 0)
    run = ended(bench, process)
    names(run, path, "--resume")
    equal(os.path.isdir(bench.path("run", "checkpoints")), step > 20, "a checkpoint is kept")
    refuses(bench, config, path)
    write(path, content)
    same_after_resume(bench, config, cases.reference(LONG))


for change in (append, overwrite, truncate):
    for step in (3, 25):
        cases.add(f"data in mid-run, step {step}: {change.__name__}", mid_run, change, step, first=change is overwrite and step == 3)


def touched(bench, how):
    config = own_text(bench)
    path = config["data"]["path"]
    process = started(bench, config, 3, *LATER)
    how(path)
    kill_owner(bench, 0)
    go_on_after(process, replaced, "a replacement")
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    check_whole(run, cases.reference(LONG), rollbacks=None)


def same_again(path):
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)


cases.add("data in mid-run: another time alone", touched, lambda path: os.utime(path, (1, 1)), first=True)
cases.add("data in mid-run: replaced by a copy", touched, same_again)
cases.add("data in mid-run: written again", touched, lambda path: write(path, read(path), "r+b"))


def whole_known(path):
    """Whether the first of the inputs that a plan lists has the digest of the whole."""
    with contextlib.suppress(OSError):
        return "sha256" in json.loads(read(path))["inputs"]["files"][0]
    return False


def touched_large(bench):
    """Above 64 MB the whole is known only after a while; from then on it is compared here too."""
    config = own_text(bench)
    path = config["data"]["path"]
    os.truncate(path, 66 << 20)
    reference = bench.train(config, "undisturbed").hashes()
    process = started(bench, config, 3)
    wait_until(lambda: process.poll() is not None or whole_known(bench.path("run", "plan.json")), 600, "the digest of the whole")
    check(process.poll() is None, "the run ended before the test could disturb it")
    os.link(path, path + ".link")
    os.chmod(path, 0o640)
    os.utime(path, (1, 1))
    process.held.go_on()
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    check_whole(run, reference)


cases.add("large data in mid-run: another time, link and rights", touched_large)


def swapped(bench, copies):
    """By rename: old workers have the old file still, a new one is refused. The run ends where it cannot go on without."""
    config = own_text(bench, LONG if copies else changed(LONG, pipelines=1, redundancy="none"))
    path = config["data"]["path"]
    content = read(path)
    process = started(bench, config, 3, *(LATER if copies else ()))
    swap(path)
    kill_owner(bench, 0)
    if copies:
        def refused():
            return any(e["event"] == "error" for e in bench.events())

        wait_until(lambda: process.poll() is not None or process.held.stands(4) and refused(), 120, "a refusal")
        if process.poll() is None:
            process.held.thaw(4)
    run = ended(bench, process)
    if copies and run.code == 0:
        check_whole(run, cases.reference(LONG), rollbacks=None)
        check(any(path in e["message"] for e in run.all("error")), "no error event names the file")
        return
    names(run, path, "--resume")
    check(len([e for e in run.all("error") if path in e["message"]]) <= 2, "the same is told again and again")
    refuses(bench, config, path)
    write(path, content)
    same_after_resume(bench, config, cases.reference(LONG))


cases.add("data in mid-run: swapped, with copies", swapped, True)
cases.add("data in mid-run: swapped, without copies", swapped, False)


def back_in_time(bench):
    """A swapped file that comes back while the run goes on: replacements join again."""
    config = own_text(bench)
    path = config["data"]["path"]
    content = read(path)
    process = started(bench, config, 3, *LATER)
    swap(path)
    kill_owner(bench, 0)
    wait_until(lambda: process.poll() is not None or any(e["event"] == "error" for e in bench.events()), 120, "a refusal")
    write(path + ".new", content)
    os.replace(path + ".new", path)
    go_on_after(process, replaced, "a replacement")
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    check_whole(run, cases.reference(LONG), rollbacks=None)


cases.add("data in mid-run: swapped and back", back_in_time)


def images_changed(bench, change, same):
    folder = families.image_folder(bench)
    model = {"name": "resnet18", "width": 4, "small_stem": True, "image": 32, "channels": 3, "classes": 2}
    config = changed(LONG, model=model, data={"kind": "images", "path": folder}, optimizer=families.SGD,
                     batch={"global": 8, "micro": 2, "lanes": 2}, steps=20, stages=2, checkpoint__every=10)
    reference = bench.train(config, "undisturbed").hashes()
    process = started(bench, config, 2)
    kept = bench.path("kept")
    shutil.copytree(folder, kept)
    named = change(folder)
    kill_owner(bench, 0)
    run = ended(bench, process)
    if same:
        equal(run.code, 0, "exit code")
        equal(run.hashes(), reference, "weights_sha256 and state_sha256")
        return
    names(run, named, "--resume")
    refuses(bench, config, folder)
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    same_after_resume(bench, config, reference)


def every_image(folder, change):
    for label in sorted(os.listdir(folder)):
        for name in sorted(os.listdir(os.path.join(folder, label))):
            change(os.path.join(folder, label, name))
    return folder


cases.add("images in mid-run: all overwritten", images_changed, lambda folder: every_image(folder, overwrite), False)
cases.add("images in mid-run: all cut", images_changed, lambda folder: every_image(folder, truncate), False)
cases.add("images in mid-run: all emptied", images_changed, lambda folder: every_image(folder, lambda path: os.truncate(path, 0)), False)
cases.add("images in mid-run: all removed", images_changed, lambda folder: every_image(folder, os.remove), False)
cases.add("images in mid-run: another time alone", images_changed,
          lambda folder: every_image(folder, lambda path: os.utime(path, (1, 1))), True)


def onnx_changed(bench, change, same):
    """Every copy of stage 0 is lost before the first checkpoint; the file is read again."""
    path = copy_of(bench, os.path.join(GOLDEN, "resnet.onnx"), "model.onnx")
    base = families.config_of("resnet.onnx")
    config = changed(base, model={**base["model"], "file": path}, pipelines=1, stages=2, redundancy="none", steps=20,
                     checkpoint={"every": 0, "keep": 1}, cluster__suspect_ms=600000, cluster__orphan_ms=600000)
    content = read(path)
    reference = bench.train(config, "undisturbed").hashes()
    process = started(bench, config, 3)
    change(path)
    kill_owner(bench, 0)
    run = ended(bench, process)
    if same:
        equal(run.code, 0, "exit code")
        check(run.all("rollback"), "no roll-back")
        equal(run.hashes(), reference, "weights_sha256 and state_sha256")
        return
    names(run, path, "--resume")
    refuses(bench, config, path)
    write(path, content)
    same_after_resume(bench, config, reference)


for change in (overwrite, truncate, swap):
    cases.add(f"an ONNX file in mid-run: {change.__name__}", onnx_changed, change, False)
cases.add("an ONNX file in mid-run: another time alone", onnx_changed, lambda path: os.utime(path, (1, 1)), True)

# --- evaluation beside training ---------------------------------------------------------------------------------------------


def evaluated(bench, change):
    """Workers keep the old content; an evaluation of the new one is none of this run."""
    config = own_text(bench, changed(LONG, eval={"every": 20}, data__held_out=0.1))
    path = config["data"]["path"]
    process = started(bench, config, 3)
    change(path)
    process.held.go_on()
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    evaluations = run.all("eval")
    check(evaluations, "nothing was evaluated")
    for event in evaluations:
        equal(event["ok"], False, "ok of an evaluation on other data")
        check(path in event["message"], f"the message does not name the file: {event}")
    newest = max(os.listdir(bench.path("run", "checkpoints")))
    again = bench.run("eval", bench.path("run"), "--weights", bench.path("run", "checkpoints", newest))
    equal(again.code, FAILED, "exit code of culm eval")
    check(path in again.err, f"stderr does not name the file: {again.err!r}")


cases.add("evaluation on data swapped in mid-run", evaluated, swap, first=True)


def evaluated_config(bench):
    """The checkpoint's configuration counts."""
    config = own_text(bench, changed(LONG, steps=40, eval={"every": 20}, data__held_out=0.1))
    before = bench.train(config, "before").all("eval")[-1]
    edit = bench.path("before", "config.yaml")
    write(edit, read(edit).replace(b"held_out: 0.1", b"held_out: 0.3"))
    again = bench.run("eval", bench.path("before"), "--weights", bench.path("before", "checkpoints", "step-00000040"), "--json")
    equal(again.code, 0, "exit code of culm eval")
    equal(json.loads(again.out)["loss"], before["loss"], "loss")


cases.add("evaluation of a checkpoint after an edit of config.yaml", evaluated_config)

# --- what is compared on --resume -------------------------------------------------------------------------------------------


def stopped(bench, config):
    process = started(bench, config, 3)
    process.send_signal(signal.SIGINT)
    process.held.go_on()
    run = bench.end(process)
    equal(run.code, STOPPED, "exit code")


def resumed_on(bench, config, path, change):
    reference = bench.train(config, "undisturbed").hashes()
    content = read(path)
    stopped(bench, config)
    change(path)
    refuses(bench, config, path)
    os.remove(path)
    refuses(bench, config, path)
    write(path, content)
    same_after_resume(bench, config, reference)


def resume_text(bench, change):
    config = own_text(bench)
    resumed_on(bench, config, config["data"]["path"], change)


for change in (append, overwrite, truncate, swap):
    cases.add(f"--resume on other data: {change.__name__}", resume_text, change, first=change is append)


def resume_tokenizer(bench):
    path = bench.path("vocab.txt")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [chr(c) for c in range(97, 123)] + ["##" + chr(c) for c in range(97, 123)] + ["."]
    write(path, ("\n".join(words) + "\n").encode())
    config = changed(own_text(bench), data__tokenizer=path)
    resumed_on(bench, config, path, lambda path: write(path, read(path).replace(b"\na\nb\n", b"\nb\na\n")))


cases.add("--resume on another tokenizer", resume_tokenizer)


def resume_init(bench):
    bench.train(changed(LONG, steps=2, seed=9), "before")
    path = copy_of(bench, bench.path("before", "model.safetensors"), "init.safetensors")
    config = changed(LONG, model={**LONG["model"], "init": path})
    resumed_on(bench, config, path, overwrite)


cases.add("--resume on other first weights", resume_init)


def old_checkpoint(bench):
    """Checkpoints of before have no list: a warning, and it goes on."""
    config = own_text(bench)
    stopped(bench, config)
    for name in os.listdir(bench.path("run", "checkpoints")):
        path = bench.path("run", "checkpoints", name, "manifest.json")
        manifest = json.loads(read(path))
        del manifest["inputs"]
        write(path, json.dumps(manifest).encode())
    run = same_after_resume(bench, config, cases.reference(LONG))
    check("does not say which inputs" in run.err, f"no warning: {run.err!r}")


cases.add("--resume from a checkpoint without a list", old_checkpoint)


def resume_config(bench):
    """What the checkpoint was made with counts, whoever has edited DIR/config.yaml."""
    stopped(bench, LONG)
    path = bench.path("run", "config.yaml")
    content = read(path)
    other = content.replace(b"lr: 0.002", b"lr: 0.02")
    check(other != content, "the edit changes nothing")
    write(path, other)
    refuses(bench, changed(LONG, optimizer__lr=0.02), bench.path("run", "checkpoints"), "optimizer.lr", "0.002")
    equal(read(path), other, "config.yaml")
    same_after_resume(bench, LONG, cases.reference(LONG))  # and puts config.yaml right


cases.add("--resume with another lr in both configurations", resume_config, first=True)

# --- read again at a roll-back ----------------------------------------------------------------------------------------------


def rolled_back(bench, change, same):
    """Every copy of stage 0 is lost before the first checkpoint: back to version 0, from the same first weights."""
    bench.train(changed(LONG, steps=2, seed=9), "before")
    path = copy_of(bench, bench.path("before", "model.safetensors"), "init.safetensors")
    content = read(path)
    config = changed(LONG, model={**LONG["model"], "init": path}, pipelines=1, redundancy="none", checkpoint__every=0)
    reference = bench.train(config, "undisturbed").hashes()
    process = started(bench, config, 3)
    change(path)
    kill_owner(bench, 0)
    run = ended(bench, process)
    if same:
        equal(run.code, 0, "exit code")
        check(run.all("rollback"), "no roll-back")
        equal(run.hashes(), reference, "weights_sha256 and state_sha256")
        return
    names(run, path, "--resume")
    write(path, content)
    same_after_resume(bench, config, reference)


for change in (overwrite, truncate, swap):
    cases.add(f"first weights in mid-run, then back to them: {change.__name__}", rolled_back, change, False)
cases.add("first weights in mid-run, then back to them: another time alone", rolled_back, lambda path: os.utime(path, (1, 1)), True)

if __name__ == "__main__":
    cases.run()
