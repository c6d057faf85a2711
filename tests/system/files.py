#!/usr/bin/env python3
"""Data files as users have them: pictures of all kinds and corpora of many files. What is not read is counted or refused, and what a line
advises works."""
import json
import os
import shutil

from harness import Cases, changed, check, equal
from vision_harness import model, two_queries

cases = Cases(job="train")
INPUT = 3
PICTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "data", "pictures")


def put(path, content=b"x"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def classes(bench, folder="set", names=("cat", "dog")):
    """A folder of two classes of four pictures each."""
    for number, name in enumerate(names):
        os.makedirs(bench.path(folder, name))
        for k in range(4):
            shutil.copy(os.path.join(PICTURES, f"turned{1 + k + 4 * number}.jpg"), bench.path(folder, name))
    return folder


def of_classes(bench, folder, **changes):
    config = model(1, [1, 1])
    return changed({**config, "model": {**config["model"], "classes": 2}, "data": {"kind": "images", "path": bench.path(folder)},
                    "batch": {"global": 4, "micro": 2, "lanes": 2}, "pipelines": 1, "stages": 1}, **changes)


# --- what is left out -------------------------------------------------------------------------------------------------------


def left_out(bench):
    """Training, evaluation, prediction and merging say how many files of a folder they leave out; what they advise makes them whole."""
    folder = classes(bench)
    put(bench.path(folder, "cat", "a.bmp"))
    put(bench.path(folder, "dog", "notes.txt"))
    config = of_classes(bench, folder)
    run = bench.train(config)
    told = run.one("warning")["message"]
    for part in ("1 picture of other kinds (1 .bmp; convert it to JPEG, PNG or WebP)", "1 file that is no picture", "notes.txt'"):
        check(part in told, f"the warning does not say {part!r}: {told!r}")
    evaluated = bench.run("eval", bench.path("run"), "--data", bench.path(folder), "--json")
    equal((evaluated.code, json.loads(evaluated.out)["samples"]), (0, 8), "code and samples of culm eval")
    check("1 .bmp" in evaluated.err, f"culm eval says {evaluated.err!r}")
    predicted = bench.run("predict", bench.path("run"), bench.path(folder), "--json")
    equal((predicted.code, len(predicted.out.splitlines())), (0, 8), "code and answers of culm predict")
    check("1 .bmp" in predicted.err, f"culm predict says {predicted.err!r}")
    merged = bench.run("merge", two_queries(bench, {"file": bench.path(folder)}), "--out", bench.path("merged"), "--json")
    warnings = [json.loads(line)["message"] for line in merged.out.splitlines() if json.loads(line)["event"] == "warning"]
    equal(sum("1 .bmp" in text for text in warnings), 1, f"warnings of culm merge ({warnings})")
    os.remove(bench.path(folder, "cat", "a.bmp"))
    os.remove(bench.path(folder, "dog", "notes.txt"))
    shutil.copy(os.path.join(PICTURES, "lossy.webp"), bench.path(folder, "cat", "a.webp"))
    whole = bench.train(config, "whole")
    equal(whole.all("warning"), [], "warnings")
    predicted = bench.run("predict", bench.path("whole"), bench.path(folder), "--json")
    equal((predicted.code, len(predicted.out.splitlines()), predicted.err), (0, 9, ""), "culm predict with the WebP")


def bad_picture(bench):
    """It costs itself alone: named, the others answered, exit code 3. What the line advises is done: exit code 0."""
    folder = classes(bench)
    words = ["predict", bench.config(of_classes(bench, folder), "c.yaml"), bench.path(folder)]
    good = bench.run(*words, "--json")
    equal(good.code, 0, "exit code")
    bad = [bench.path(folder, "cat", "b.jpg"), bench.path(folder, "dog", "gone.png")]
    put(bad[0], b"<html>404 not found</html>")
    os.symlink("/nowhere/at/all", bad[1])
    mixed = bench.run(*words, "--json")
    equal(mixed.code, INPUT, "exit code")
    lines = [json.loads(line) for line in mixed.out.splitlines()]
    equal([line["file"] for line in lines if "error" in line], bad, "files with an error")
    equal([line["classes"] for line in lines if "classes" in line], [json.loads(line)["classes"] for line in good.out.splitlines()],
          "the other answers")
    equal(len(mixed.err.splitlines()), 1, f"lines on stderr ({mixed.err!r})")
    check("2 of 10 pictures cannot be read, the others are answered" in mixed.err, f"stderr is {mixed.err!r}")
    text = bench.run(*words)
    equal((text.code, len(text.out.splitlines())), (INPUT, 8), "exit code and answers")
    for path in bad:
        check(any(path in line for line in text.err.splitlines()), f"{path} is not named: {text.err!r}")
    named = bench.run("predict", words[1], bad[1], bench.path(folder, "cat", "turned1.jpg"), "--json")
    equal((named.code, ["error" in json.loads(line) for line in named.out.splitlines()]), (INPUT, [True, False]), "two files by name")
    alone = bench.run("predict", words[1], bad[0], "--json")
    equal((alone.code, alone.out), (INPUT, ""), "a bad picture alone")
    for path in bad:
        os.remove(path)
    equal(bench.run(*words, "--json").out, good.out, "answers when the files are removed")


cases.add("pictures: what is left out of a folder", left_out, first=True, seconds=3)
cases.add("predict: one bad picture of several", bad_picture, first=True)

if __name__ == "__main__":
    cases.run()
