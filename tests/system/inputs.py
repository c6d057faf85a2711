#!/usr/bin/env python3
"""What a run reads is pinned: data, tokenizers, models, first weights, configuration and plan. Whatever happens to the files,
the result is the same bits, or the run ends with a line that names the file and goes on once it is back."""
import json
import os
import shutil
import signal

from harness import Cases, changed, check, check_whole, equal, make_text, read_events, tiny_config, wait_until

import families

cases = Cases()
# Long enough that what is done at step 3 is done before the end.
LONG = changed(tiny_config(cases.text), steps=250, checkpoint__every=20)
FAILED, INPUT, STOPPED = 1, 3, 75
GOLDEN = families.GOLDEN


def events_of(bench):
    try:
        return read_events(bench.path("run", "events.jsonl"))
    except OSError:
        return []


def started(bench, config, step, *words):
    process = bench.start(*bench.train_words(config, "run", *words))
    wait_until(lambda: process.poll() is not None or
               max((e["step"] for e in events_of(bench) if e["event"] == "step"), default=0) >= step, 60, f"step {step}")
    check(process.poll() is None, "the run ended before the test could disturb it")
    return process


def kill_owner(bench, stage):
    """SIGKILLs a living worker that owns the stage; its node."""
    events = events_of(bench)
    pids = {e["node"]: e["pid"] for e in events if e["event"] == "joined"}
    owners = [e for e in events if e["event"] == "view"][-1]["map"]
    node = next(slot["owner"] for slot in owners if slot["stage"] == stage and slot["owner"] is not None)
    os.kill(pids[node], signal.SIGKILL)
    return node


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
    manifests = sorted(os.listdir(bench.path("run", "checkpoints")))
    again = bench.run(*bench.train_words(config, "run", "--resume"))
    equal(again.code, INPUT, "exit code of --resume")
    equal(len(again.err.splitlines()), 1, f"lines on stderr ({again.err!r})")
    for part in (path, *parts):
        check(part in again.err, f"stderr does not say {part!r}: {again.err!r}")
    equal(sorted(os.listdir(bench.path("run", "checkpoints"))), manifests, "checkpoints")


def goes_on(bench, config, reference):
    run = bench.train(config, "run", "--resume")
    check_whole(run, reference, rollbacks=None) if not run.all("resume") else None
    return run


def same_after_resume(bench, config, reference):
    run = bench.train(config, "run", "--resume")
    equal(run.hashes(), reference, "weights_sha256 and state_sha256 after the resume")
    done = run.one("done")
    equal((done["samples_lost"], done["samples_repeated"]), (0, 0), "samples lost and repeated")
    return run


# --- configuration and plan travel with the welcome -------------------------------------------------------------------------


def edited(bench, name, edit):
    process = started(bench, LONG, 3)
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
    run = ended(bench, process)
    equal(run.code, 0, "exit code")
    check_whole(run, cases.reference(LONG), rollbacks=None)
    check(len(run.all("joined")) > 6, "no replacement joined")


cases.add("config.yaml edited in mid-run", edited, "config.yaml", lambda text: text.replace(b"lr: 0.002", b"lr: 0.02"))
cases.add("config.yaml removed in mid-run", edited, "config.yaml", lambda text: None)
cases.add("plan.json edited in mid-run", edited, "plan.json",
          lambda text: json.dumps({**json.loads(text), "choices": {"cuts": [0, 2, 3], "algorithms": []}}).encode())
cases.add("plan.json emptied in mid-run", edited, "plan.json", lambda text: b"")

cases.run()
