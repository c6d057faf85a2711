#!/usr/bin/env python3
"""The promise about memory: what cannot fit does not start, and no loss makes a worker take more."""
import json
import math
import os

from harness import (Cases, changed, check, check_held, check_memory, check_recovered, check_whole, equal, fault, peaks_of,
                     tiny_config)

cases = Cases(job="train")
# Large enough that tensors outweigh the program.
CONFIG = changed(tiny_config(cases.text), model={"arch": "gpt2", "layers": 6, "width": 192, "heads": 4, "context": 32, "vocab": 256,
                                                 "dropout": 0.1}, steps=6, cluster__join_ms=60000, cluster__suspect_ms=60000)
ONE = changed(CONFIG, pipelines=1)


def planned_mb(bench, config):
    """The fullest worker's part with nothing lost, in whole megabytes."""
    plan = bench.run(*bench.train_words(config, "plan", "--dry-run"))
    equal(plan.code, 0, "exit code of --dry-run")
    return math.ceil(max(stage["memory_bytes"] for stage in json.loads(plan.out)["stages"]) / 2**20)


def check_all_held(run, limit):
    peaks = peaks_of(run)
    for node in peaks:
        check_held(peaks, node, limit * 1.048576)


def undisturbed(bench, redundancy, pipelines):
    """Peaks are what the plan says: a worker that runs below its promise is not refused."""
    config = changed(CONFIG, redundancy=redundancy, pipelines=pipelines)
    limit = planned_mb(bench, config)
    run = bench.train(changed(config, memory_mb=limit), "run")
    check_whole(run, cases.reference(config))
    bench.note(f"{redundancy}, {pipelines} pipelines: the fullest worker took {100 * check_memory(run):.0f} % of what was planned")
    check_all_held(run, limit)


for redundancy in ("eager", "lazy", "none"):
    cases.add(f"peaks are as planned: {redundancy}", undisturbed, redundancy, 2)
cases.add("peaks are as planned: one pipeline", undisturbed, "eager", 1, first=True)


def refused(bench, words):
    """A plan that breaks the promise is refused before anything is written."""
    config = changed(ONE, memory_mb=planned_mb(bench, ONE) - 2, cuts="analytic")
    run = bench.run(*bench.train_words(config, "run", *words))
    equal(run.code, 4, "exit code")
    lines = run.err.splitlines()
    check(len(lines) == 1 and "memory_mb" in lines[0], f"stderr: {run.err!r}")
    check(not os.path.exists(bench.path("run")), "the run directory was made")


cases.add("what cannot fit is refused", refused, [], first=True)
cases.add("what cannot fit is refused by --dry-run", refused, ["--dry-run"])


def tokens_in_memory(bench):
    """Ids that a tokenizer makes stay in every worker: they are part of the plan, and so is the text while it is encoded."""
    words, text = bench.path("vocab.txt"), bench.path("long")
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    with open(words, "w", encoding="ascii") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."] + letters + ["##" + c for c in letters]) + "\n")
    with open(cases.text, encoding="ascii") as file, open(text, "w", encoding="ascii") as long:
        long.write(file.read() * 200)
    config = changed(ONE, data={"kind": "text", "path": text, "tokenizer": words}, stages=2, steps=1, checkpoint__every=0)
    raw = planned_mb(bench, changed(ONE, stages=2))
    limit = planned_mb(bench, config)
    check(limit > raw + 15, f"{limit} MB are planned with 12 MB of text and their ids, {raw} MB without")
    run = bench.train(config, "run")
    bench.note(f"the fullest worker took {100 * check_memory(run):.0f} % of what was planned")
    tight = bench.run(*bench.train_words(changed(config, memory_mb=limit - 2, cuts="analytic"), "tight"))
    equal(tight.code, 4, "exit code with less than it takes")


cases.add("ids in memory are in the plan", tokens_in_memory, seconds=8)


def waits(bench, pipelines, steps, faults):
    """A shadow without room for a second stage waits for the replacement, and says so."""
    config = changed(CONFIG, pipelines=pipelines, steps=steps, redundancy="lazy")
    limit = planned_mb(bench, config)
    words = [word for spec in faults for word in fault(*spec)]
    run = bench.train(changed(config, memory_mb=limit, cluster__replace_ms=300), "run", *words)
    check_whole(run, cases.reference(config))
    check_recovered(run)
    check(any("memory_mb" in event.get("message", "") for event in run.all("waiting")), "nothing says that it waits for memory")
    check_all_held(run, limit)


cases.add("a stage waits for its replacement", waits, 1, 6, [(1, 3, "backward")], first=True)
cases.add("lanes wait for their pipeline", waits, 2, 6, [(1, 3, "backward")])
cases.add("lanes wait twice", waits, 2, 8, [(1, 3, "backward"), (5, 5, "forward")])


def takes_over(bench):
    """With room for two stages the shadow takes over, and nobody waits."""
    limit = 3 * planned_mb(bench, ONE)
    run = bench.train(changed(ONE, memory_mb=limit), "run", *fault(1, 3, "backward"))
    check_whole(run, cases.reference(ONE))
    check_recovered(run)
    check(not any("message" in event for event in run.all("waiting")), "it waited for memory")
    equal([event["source"] for event in run.all("recovered")], ["shadow"], "source")
    check_all_held(run, limit)


cases.add("with room the shadow takes over", takes_over)


def nobody_comes(bench):
    """Without a replacement the run ends with a line, and goes on with more memory."""
    config = changed(ONE, memory_mb=planned_mb(bench, ONE), cluster__replace_ms=-1)
    run = bench.train(config, "run", *fault(1, 6, "backward"), code=4)
    check("memory_mb" in run.one("error")["message"], "the error does not name memory_mb")
    again = bench.train(changed(config, memory_mb=0), "run", "--resume")
    equal(again.hashes(), cases.reference(ONE), "weights_sha256 and state_sha256 after the resume")


cases.add("nobody comes in its place", nobody_comes)

if __name__ == "__main__":
    cases.run()
