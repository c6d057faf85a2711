#!/usr/bin/env python3
"""Choices by trial belong to the run: a resume has them from its checkpoint, whatever became of plan.json."""
import json
import os
import shutil

import families
from harness import Cases, changed, check, equal, hold
from train_harness import Watched

cases = Cases(job="train")


def config_of():
    return changed(families.config_of("vgg11_bn"), kernels="trial", pipelines=1, stages=2, redundancy="none", steps=8,
                   checkpoint__every=4)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)


def unlikely_plan(bench, config):
    """A plan with algorithms that no trial would choose: the other one wherever the convolution can be done by it."""
    first = bench.train(changed(config, steps=0), "trial")
    plan = read(os.path.join(first.dir, "plan.json"))
    path, flipped = bench.path("unlikely.json"), 0
    words = ["train", bench.config(config, "flip.yaml"), "--out", bench.path("flip"), "--dry-run", "--plan", path]
    for row in plan["choices"]["algorithms"]:
        before = row[1:]
        row[1:] = [1 if algorithm == 2 else 2 for algorithm in before]
        write(path, plan)
        if bench.run(*words).code != 0:
            row[1:] = before
        else:
            flipped += 1
    check(flipped > 0, "no convolution has another algorithm")
    write(path, plan)
    return path


def interrupted(bench, config, plan):
    """A run with that plan, killed after its checkpoint of step 4; the hashes that it would have had. Another pipeline holds it in step 6:
    the first one writes."""
    whole = bench.train(config, "whole", "--plan", plan)
    process = bench.start(*bench.train_words(changed(config, pipelines=2), "run", "--plan", plan, *hold(2, 6)))
    Watched(bench, process).wait(lambda events: any(event["event"] == "checkpoint" and event["ok"] and event["step"] == 4 for event in events),
                              "a checkpoint")
    process.kill()
    bench.end(process)
    return whole.hashes()


def checkpoints(bench):
    folder = bench.path("run", "checkpoints")
    return [os.path.join(folder, name, "manifest.json") for name in os.listdir(folder) if name.startswith("step-")]


def goes_on(bench, harm):
    config = config_of()
    hashes = interrupted(bench, config, unlikely_plan(bench, config))
    path = bench.path("run", "plan.json")
    if harm == "gone":
        os.remove(path)
    elif harm == "cut":
        with open(path, "r+", encoding="utf-8") as file:
            file.truncate(40)
    elif harm == "gone, other stages":
        os.remove(path)
        config = changed(config, stages=3)
    elif harm == "another":
        shutil.copy(bench.path("trial", "plan.json"), path)
    run = bench.train(config, "run", "--resume")
    equal(run.hashes(), hashes, "weights and state after the resume")
    if harm in ("cut", "another"):
        check("plan.json" in run.err and "algorithms of the checkpoint" in run.err, f"no word of it: {run.err!r}")


for harm in ("gone", "cut", "gone, other stages", "another"):
    cases.add(f"plan.json {harm}: the checkpoint has the choices", goes_on, harm, first=harm == "gone")


def refused(bench):
    """What would change the bits in the middle of a run is one line and exit 3."""
    config = config_of()
    plan = unlikely_plan(bench, config)
    interrupted(bench, config, plan)
    words = bench.train_words(config, "run", "--resume")
    ended = bench.run(*words, "--plan", bench.path("trial", "plan.json"))
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"--plan with other algorithms: {ended.err!r}")
    check("--plan" in ended.err and "algorithms" in ended.err, f"refused with {ended.err!r}")
    for path in checkpoints(bench):  # as of a version that did not store them
        manifest = read(path)
        manifest.pop("choices", None)
        write(path, manifest)
    kept = read(bench.path("run", "plan.json"))
    os.remove(bench.path("run", "plan.json"))
    ended = bench.run(*words)
    equal((ended.code, len(ended.err.splitlines())), (3, 1), f"neither plan nor choices: {ended.err!r}")
    check("kernels: trial" in ended.err and "plan.json" in ended.err, f"refused with {ended.err!r}")
    write(bench.path("run", "plan.json"), kept)
    equal(bench.run(*words).code, 0, "exit code with the plan again")


cases.add("--resume refuses other choices", refused)

if __name__ == "__main__":
    cases.run()
