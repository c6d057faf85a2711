#!/usr/bin/env python3
"""Events are the record of truth: warnings are in it, and text that is not UTF-8 takes nothing out of it."""
import fcntl
import json
import os
import re
import subprocess

import families
from harness import Cases, changed, check, equal, flip_bit, hold, read_events, tiny_config, wait_until
from train_harness import Watched

cases = Cases(job="train")
CONFIG = changed(tiny_config(cases.text), pipelines=1, stages=2)
LATIN_1 = os.fsdecode(b"caf\xe9")


def warnings_of(run):
    """Standard error's warnings, each of which must be one event between start and plan."""
    said = [line.removeprefix("culm train: warning: ") for line in run.err.splitlines()]
    kinds = [event["event"] for event in run.events]
    equal([event["message"] for event in run.all("warning")], said, "warnings as events, and on standard error")
    equal(kinds[:2 + len(said)], ["start"] + len(said) * ["warning"] + ["plan"], "the first events")
    return said


def manifest_of(bench, step):
    return bench.path("run", "checkpoints", f"step-{step:08}", "manifest.json")


def other_signature(bench):
    run = bench.train(CONFIG)
    equal(warnings_of(run), [], "warnings of an undisturbed run")
    with open(manifest_of(bench, 8), encoding="utf-8") as file:
        manifest = json.load(file)
    manifest["signature"] = "another"
    with open(manifest_of(bench, 8), "w", encoding="utf-8") as file:
        json.dump(manifest, file)
    said = warnings_of(bench.train(CONFIG, "run", "--resume"))
    check(len(said) == 1 and "another" in said[0] and "the bits may differ" in said[0], f"said {said}")


def broken_checkpoint(bench):
    bench.train(CONFIG)
    folder = os.path.dirname(manifest_of(bench, 8))
    flip_bit(os.path.join(folder, "stage-1.safetensors"))
    said = warnings_of(bench.train(CONFIG, "run", "--resume"))
    check(len(said) == 1 and "step-00000008" in said[0], f"said {said}")


def said_once(bench):
    """Without --json too: on standard error, not again on standard output; and in events.jsonl."""
    bench.train(CONFIG)
    with open(manifest_of(bench, 8), encoding="utf-8") as file:
        text = file.read()
    with open(manifest_of(bench, 8), "w", encoding="utf-8") as file:
        file.write(text.replace('"signature": "', '"signature": "not '))
    words = [word for word in bench.train_words(CONFIG, "run", "--resume") if word != "--json"]
    ended = bench.run(*words)
    equal(ended.code, 0, "exit code")
    equal((ended.err.count("the bits may differ"), ended.out.count("the bits may differ")), (1, 0), "times said")
    told = [event for event in read_events(bench.path("run", "events.jsonl")) if event["event"] == "warning"]
    equal(len(told), 1, "events")


def latin_1_folder(bench):
    """A folder whose name is not UTF-8: every event is there, with U+FFFD where the name stands."""
    run = bench.train(changed(CONFIG, eval={"every": 4}, data__held_out=0.2), LATIN_1)
    equal([event["step"] for event in run.all("checkpoint") if event["ok"]], [4, 8], "checkpoints")
    check(all("caf\ufffd" in event["path"] for event in run.all("checkpoint")), "paths")
    equal([(event["step"], event["ok"]) for event in run.all("eval")][-1], (8, True), "the last evaluation")
    run.one("start"), run.one("done")
    ended = bench.run("ckpt", "show", os.path.join(run.dir, "checkpoints", "step-00000008"), "--json")
    check("caf\ufffd" in json.loads(ended.out)["path"], f"ckpt show says {ended.out!r}")
    os.rename(run.dir, bench.path("plain"))


def latin_1_reason(bench):
    """The reason why a checkpoint was given up names a file there: a file stands where its folder should be."""
    config = changed(CONFIG, checkpoint__every=0, cluster__suspect_ms=60000)
    process = bench.start(*bench.train_words(config, LATIN_1, *hold(0, 3)))
    watched, events = Watched(bench, process, LATIN_1), bench.path(LATIN_1, "events.jsonl")
    watched.wait()
    with open(bench.path(LATIN_1, "checkpoints"), "x", encoding="ascii"):
        pass
    watched.go_on()
    ended = bench.end(process)
    why = [event.get("message", "") for event in read_events(events) if event["event"] in ("checkpoint", "error")]
    check(ended.code != 0 and any("caf\ufffd" in text for text in why), f"exit code {ended.code}; reasons {why}")
    os.rename(bench.path(LATIN_1), bench.path("plain"))


def signature(bench):
    """Libraries that decide pixels and tokens are part of it, where a run uses them."""
    def of(config, name):
        return bench.train(changed(config, steps=0, pipelines=1, stages=1), name).one("start")["signature"]
    check("libjpeg" not in of(CONFIG, "text"), "libjpeg decides no text")
    images = of(families.config_of("vgg11_bn"), "images")
    check(re.search("/libpng-[0-9.]+/libjpeg-[0-9a-f]{16}/libwebp-[0-9.]+$", images), f"the signature of images is {images}")
    tokenizer = os.path.join(os.path.dirname(families.GOLDEN), "data", "tokenizer", "vocab.txt")
    with open(tokenizer, encoding="utf-8") as file:
        words = len(file.readlines())
    tokens = of(changed(CONFIG, data__tokenizer=tokenizer, model__vocab=words), "tokens")
    check(re.search("/utf8proc-[0-9.]+$", tokens), f"the signature of tokenized text is {tokens}")


def unread(bench, json_lines):
    """Nobody reads standard output, a pipe that holds few events: the run comes to its end, and all of it is there afterwards."""
    words = bench.train_words(changed(CONFIG, steps=300, checkpoint__every=0, cluster__orphan_ms=4000, cluster__suspect_ms=4000))
    words = [word for word in words if json_lines or word != "--json"]
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with open(bench.path("err"), "wb") as err:
        process = subprocess.Popen([bench.culm, *words], stdin=subprocess.DEVNULL, stdout=writing, stderr=err, cwd=bench.folder,
                                   start_new_session=True)
    bench.children.append(process)
    os.close(writing)
    events = bench.path("run", "events.jsonl")
    wait_until(lambda: any(event["event"] == "done" for event in read_events(events)), 120,
               "the run to end, though nobody reads what it prints")
    with open(reading, encoding="utf-8") as file:
        out = file.read()
    equal(process.wait(300), 0, "exit code")
    if json_lines:
        with open(events, encoding="utf-8") as file:
            equal(out, file.read(), "standard output, and events.jsonl")
    else:
        check("done: 300 steps" in out, f"the end of what is printed: {out[-300:]}")


cases.add("the signature names libraries that make samples", signature)
cases.add("a checkpoint of another build: the warning is an event", other_signature)
cases.add("a broken checkpoint: the warning is an event", broken_checkpoint, first=True)
cases.add("a warning is said once", said_once)
cases.add("a folder that is not UTF-8 takes no event away", latin_1_folder)
cases.add("a reason that is not UTF-8 is told", latin_1_reason)
cases.add("nobody reads the events on standard output", unread, True, seconds=10)
cases.add("nobody reads the progress on standard output", unread, False, seconds=10)

if __name__ == "__main__":
    cases.run()
