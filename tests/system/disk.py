#!/usr/bin/env python3
"""Disks with little room: older checkpoints give way, what is done is not thrown away, and the line that says what to do is right."""
import json
import os
import re
import signal

from harness import Cases, Disk, changed, check, equal, needs_disk, tiny_config, wait_until

cases = Cases(job="train")
# A checkpoint of some 600 kB, weights of 200 kB.
CONFIG = changed(tiny_config(cases.text), pipelines=1, stages=2, redundancy="none", steps=12, checkpoint__every=2)
LIMIT_S = 120


def start(bench, config, *words):
    path = bench.config(config, "small.yaml")
    return bench.start("train", path, "--out", bench.path("disk", "run"), "--json", *words)


def told(process):
    """Events so far: of standard output, since the disk has no room for more of them."""
    with open(process.out_path, encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith("\n")]


def wait_for(process, name):
    def found():
        return [event for event in told(process) if event["event"] == name]
    wait_until(lambda: found() or process.poll() is not None, LIMIT_S, f"event {name}")
    check(found(), f"no event {name}")
    return found()[0]


def ended(bench, process, code):
    end = bench.end(process)
    equal(end.code, code, f"exit code; {end.err!r}")
    end.events = [json.loads(line) for line in end.out.splitlines()]
    return end


def whole(end):
    equal(end.hashes(), cases.reference(CONFIG), "weights_sha256 and state_sha256")


def gives_way(bench):
    """Room for two checkpoints, of which two are to be kept while a third one is written."""
    with Disk(bench, 1600):
        end = ended(bench, start(bench, CONFIG), 0)
        whole(end)
        equal([event for event in end.all("checkpoint") if "No space" in event.get("message", "")], [], "checkpoints without room")
        early, late = (event["message"] for event in end.all("warning"))
        check("are free where" in early and "older checkpoints give way" in early, f"before the start: {early}")
        check("older ones in" in late and "give way" in late, f"during the run: {late}")
        check(early in end.err, f"standard error: {end.err!r}")


def promised(bench):
    """Whoever frees as much as the line says has the run end well."""
    size_kb = 880
    with Disk(bench, size_kb) as disk:
        process = start(bench, CONFIG)
        line = wait_for(process, "held")["message"]
        need = re.search(r": free ([0-9.]+) (kB|MB) there", line)
        check(need, f"no figure: {line}")
        wait_for(process, "weights")
        disk.resize(size_kb + int(float(need[1]) * {"kB": 1000, "MB": 1000000}[need[2]] / 1024 + 1))
        whole(ended(bench, process, 0))
        kept = sorted(os.listdir(bench.path("disk", "run", "checkpoints")))
        check("step-00000012" in kept and not [name for name in kept if name.startswith("weights")], f"kept: {kept}")


def rescued(bench):
    """No checkpoint fits: the weights alone are saved, and all of it where the command says, which --resume finds."""
    with Disk(bench, 500):
        process = start(bench, CONFIG)
        line = wait_for(process, "held")["message"]
        command = re.search(r"'culm (ckpt rescue \S+ --to )PATH'", line)
        check(command, f"no command: {line}")
        weights = wait_for(process, "weights")["path"]
        shown = json.loads(bench.run("ckpt", "show", weights, "--json").out)
        done = bench.run(*command[1].split(), bench.path("other"))
        equal((done.code, done.err), (0, ""), "exit code and standard error of rescue")
        equal(done.out.strip(), bench.path("other", "checkpoints", "step-00000012"), "what it prints")
        end = ended(bench, process, 0)
        whole(end)
        equal(shown["weights_sha256"], end.one("done")["weights_sha256"], "the weights that were saved alone")
        again = ended(bench, start(bench, CONFIG, "--resume"), 0)
        equal((again.all("step"), again.hashes()), ([], end.hashes()), "steps and hashes of a resumed run")
        nobody = bench.run("ckpt", "rescue", bench.path("disk", "run"), "--to", bench.path("third"))
        equal(nobody.code, 1, "exit code where no run is")
        check("no run is at work" in nobody.err, nobody.err)


def stopped(bench):
    """A stop that finds no room saves the weights, waits, and then says what is lost; from outside it can be ended at once."""
    config = changed(CONFIG, steps=100000, checkpoint__every=0, cluster__wait_ms=1)
    with Disk(bench, 500):
        process = start(bench, config)
        wait_for(process, "step")
        process.send_signal(signal.SIGTERM)
        end = ended(bench, process, 1)
        step = end.all("step")[-1]["step"]
        equal([event["step"] for event in end.all("held")], [step], "the step that was held")
        check(f"stopped without a checkpoint of step {step}" in end.err and "--resume begins anew" in end.err, f"standard error: {end.err!r}")


def in_vain(bench):
    """wait_ms passes: the line says what is left, and the run that is resumed comes to the same."""
    with Disk(bench, 880) as disk:
        end = ended(bench, start(bench, changed(CONFIG, cluster__wait_ms=1)), 4)
        check("the last checkpoint could not be written" in end.err and "--resume goes on from step 2" in end.err, f"standard error: {end.err!r}")
        equal(sorted(event["step"] for event in end.all("checkpoint") if event["ok"]), [2], "checkpoints that were written")
        disk.resize(4096)
        whole(ended(bench, start(bench, CONFIG, "--resume"), 0))


for name, function, first in (("older checkpoints give way", gives_way, True), ("as much as the line says", promised, True),
                              ("rescued", rescued, True), ("stopped", stopped, False), ("in vain", in_vain, False)):
    cases.add(f"little room: {name}", needs_disk, __file__, f"little room: {name}", function, first=first)

if __name__ == "__main__":
    cases.run()
