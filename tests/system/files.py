#!/usr/bin/env python3
"""Data files as users have them: pictures of all kinds and corpora of many files. What is not read is counted or refused, and what a line
advises works."""
import bz2
import gzip
import json
import os
import shutil
import signal
import struct
import subprocess

import pinned_inputs
from harness import Cases, changed, check, check_whole, equal, fault, wait_until
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
    for part in ("1 picture of other kinds (1 .bmp; convert it to JPEG, PNG or WebP)", "1 file that is not a picture", "notes.txt'"):
        check(part in told, f"the warning does not say {part!r}: {told!r}")
    evaluated = bench.run("eval", bench.path("run"), "--data", bench.path(folder), "--json")
    equal((evaluated.code, json.loads(evaluated.out)["samples"]), (0, 8), "code and samples of culm eval")
    check("1 .bmp" in evaluated.err, f"culm eval says {evaluated.err!r}")
    predicted = bench.run("predict", bench.path("run"), bench.path(folder), "--json")
    equal((predicted.code, len(predicted.out.splitlines())), (0, 8), "code and answers of culm predict")
    check("1 .bmp" in predicted.err, f"culm predict says {predicted.err!r}")
    put(bench.path(folder, "dog", "b.jpg"), b"<html>404 not found</html>")
    merged = bench.run("merge", two_queries(bench, {"file": bench.path(folder)}), "--out", bench.path("merged"), "--json")
    os.remove(bench.path(folder, "dog", "b.jpg"))
    equal(merged.code, 0, "exit code of culm merge")
    warnings = [json.loads(line)["message"] for line in merged.out.splitlines() if json.loads(line)["event"] == "warning"]
    equal(sum("1 .bmp" in text for text in warnings), 1, f"warnings of culm merge ({warnings})")
    equal(sum("1 picture cannot be read, and is left out: image" in text for text in warnings), 1, f"warnings of culm merge ({warnings})")
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


# --- text -------------------------------------------------------------------------------------------------------------------


def text_of(bench, path, **changes):
    model_ = {"arch": "gpt2", "layers": 1, "width": 16, "heads": 2, "context": 16, "vocab": 256, "dropout": 0.0}
    return changed({"model": model_, "data": {"kind": "text", "path": path}, "batch": {"global": 4, "micro": 2, "lanes": 2},
                    "pipelines": 1, "stages": 1, "steps": 3, "seed": 1}, **changes)


def packed(bench):
    """A gzip file gives the bits of what is in it; what is no text is refused, and what the line advises works."""
    with open(cases.text, "rb") as file:
        content = file.read()[:4000]
    put(bench.path("plain.txt"), content)
    put(bench.path("packed.txt.gz"), gzip.compress(content[:1000]) + gzip.compress(content[1000:]))
    plain = bench.train(text_of(bench, bench.path("plain.txt")), "plain")
    unpacked = bench.train(text_of(bench, bench.path("packed.txt.gz")), "unpacked")
    equal(unpacked.hashes(), plain.hashes(), "hashes of what was unpacked")
    put(bench.path("wide.txt"), content.decode("ascii").encode("utf-16"))
    put(bench.path("packed.bz2"), bz2.compress(content))
    for name, part, command in (("wide.txt", "iconv -f UTF-16 -t UTF-8", "iconv -f UTF-16 -t UTF-8 wide.txt"),
                                ("packed.bz2", "unpack it with bunzip2", "bunzip2 < packed.bz2")):
        refused = bench.run(*bench.train_words(text_of(bench, bench.path(name)), "refused"))
        equal((refused.code, len(refused.err.splitlines())), (INPUT, 1), f"exit code and lines of {name}")
        check(part in refused.err and name in refused.err, f"stderr of {name} is {refused.err!r}")
        check(not os.path.exists(bench.path("refused")), "something was written")
        if shutil.which(command.split()[0]):
            put(bench.path("as-advised"), subprocess.run(command, shell=True, cwd=bench.folder, capture_output=True, check=True).stdout)
            advised = bench.train(text_of(bench, bench.path("as-advised")), "advised-" + name)
            equal(advised.hashes(), plain.hashes(), f"hashes of {name} as it was advised")


def corpus(bench, count=300):
    with open(cases.text, "rb") as file:
        content = file.read()[:20 * count]
    for i in range(count):
        put(bench.path("corpus", f"{i:03d}.txt"), content[20 * i:20 * i + 20])
    put(bench.path("joined.txt"), content)
    return bench.path("corpus")


def many_files(bench):
    """A folder or a pattern of more files than may be open gives the bits of one file with all of it."""
    folder = corpus(bench)
    joined = bench.train(text_of(bench, bench.path("joined.txt")), "joined")
    for name, path in (("folder", folder), ("pattern", folder + "/*.txt"), ("list", sorted(os.path.join(folder, file) for file in os.listdir(folder)))):
        words = bench.train_words(text_of(bench, path), name)
        ended = subprocess.run(["sh", "-c", 'ulimit -n 64 && exec "$0" "$@"', bench.culm, *words], capture_output=True, text=True, cwd=bench.folder,
                               check=False)
        equal((ended.returncode, ended.stderr), (0, ""), f"exit code and stderr with a {name}")
        done = next(json.loads(line) for line in ended.stdout.splitlines() if '"event":"done"' in line)
        equal((done["weights_sha256"], done["state_sha256"]), joined.hashes(), f"hashes with a {name}")
    with open(bench.path("folder", "plan.json"), encoding="utf-8") as file:
        equal([pin["files"] for pin in json.load(file)["inputs"]["files"]], [300], "pinned files of the folder")


def changed_corpus(bench, change):
    """One of many files is another in mid-run: the run ends with its name, and goes on when it is back."""
    folder = corpus(bench)
    config = changed(pinned_inputs.LONG, data__path=folder)
    reference = bench.train(config, "undisturbed").hashes()
    process = pinned_inputs.started(bench, config, 3)
    victims = [os.path.join(folder, f"{i:03d}.txt") for i in range(300)]
    kept = {path: pinned_inputs.read(path) for path in victims}
    for path in victims:
        change(path)
    pinned_inputs.kill_owner(bench, 0)
    run = pinned_inputs.ended(bench, process)
    pinned_inputs.names(run, folder, "--resume")
    pinned_inputs.refuses(bench, config, folder)
    for path, content in kept.items():
        put(path, content)
    pinned_inputs.same_after_resume(bench, config, reference)


def nowhere(bench):
    """A file that never could be read is not said to have changed; the run begins when it is gone."""
    folder = classes(bench)
    link = bench.path(folder, "cat", "z.png")
    os.symlink("/nowhere/at/all", link)
    config = of_classes(bench, folder)
    refused = bench.run(*bench.train_words(config, "run"))
    equal((refused.code, len(refused.err.splitlines())), (INPUT, 1), "exit code and lines on stderr")
    check(f"'{link}' cannot be read: it is a link that leads nowhere" in refused.err and "is not what it was" not in refused.err,
          f"stderr is {refused.err!r}")
    os.remove(link)
    bench.train(config)


# --- names ------------------------------------------------------------------------------------------------------------------


def class_names(bench):
    """They stay with a run and its model: in predict, from its checkpoints, in an exported file; eval goes by them, not by the order of folders."""
    folder = classes(bench)
    run = bench.train(of_classes(bench, folder, steps=2))
    picture = bench.path(folder, "dog", "turned5.jpg")
    checkpoint = bench.path("run", "checkpoints", max(os.listdir(bench.path("run", "checkpoints"))))

    def said(*words):
        ended = bench.run("predict", *words, picture, "--json")
        equal(ended.code, 0, "exit code")
        return sorted((one["class"], one["name"]) for one in json.loads(ended.out)["classes"])

    named = [(0, "cat"), (1, "dog")]
    equal(said(bench.path("run")), named, "classes of the run")
    equal(said(bench.path("run"), "--weights", checkpoint), named, "classes of a checkpoint")
    check("dog 0." in bench.run("predict", bench.path("run"), picture).out, "the text has no name")
    equal(bench.run("model", "export", bench.path("run"), "--onnx", bench.path("out.onnx")).code, 0, "exit code of the export")
    equal(said(bench.path("out.onnx")), named, "classes of the exported file")
    put(bench.path("own.names"), b"tom\nrex\n")
    equal(said(bench.path("out.onnx"), "--names", bench.path("own.names")), [(0, "tom"), (1, "rex")], "--names goes before")
    shutil.copytree(bench.path(folder, "dog"), bench.path("dogs", "dog"))
    one, two = (json.loads(bench.run("eval", run.dir, "--data", bench.path(path), "--json").out) for path in ("dogs", folder))
    shutil.copytree(bench.path(folder, "cat"), bench.path("cats", "cat"))
    other = json.loads(bench.run("eval", run.dir, "--data", bench.path("cats"), "--json").out)
    check(abs((one["loss"] + other["loss"]) / 2 - two["loss"]) < 1e-5, f"losses of dogs, cats and both: {one}, {other}, {two}")
    os.rename(bench.path("dogs", "dog"), bench.path("dogs", "zebra"))
    refused = bench.run("eval", run.dir, "--data", bench.path("dogs"))
    equal((refused.code, len(refused.err.splitlines())), (INPUT, 1), "exit code and lines on stderr")
    check("'zebra' is not one of the 2 classes" in refused.err, f"stderr is {refused.err!r}")
    os.rename(bench.path("dogs", "zebra"), bench.path("dogs", "dog"))
    equal(json.loads(bench.run("eval", run.dir, "--data", bench.path("dogs"), "--json").out), one, "as it was advised")


# --- tokenizers -------------------------------------------------------------------------------------------------------------


def settings_beside(bench):
    """What lies beside vocab.json and merges.txt counts: the loss on a text is that on the ids of Hugging Face's library; what is not known is refused."""
    golden = os.path.join(os.path.dirname(PICTURES), "tokenizer")
    with open(os.path.join(golden, "settings.json"), encoding="ascii") as file:
        case = json.load(file)[1]
    shutil.copytree(os.path.join(golden, "bpe"), bench.path("tokenizer"))
    for name, text in case["files"].items():
        put(bench.path("tokenizer", name), text.encode())
    one = next(text for text in case["texts"] if "<|im_start|>" in text["text"])
    put(bench.path("text.txt"), one["text"].encode())
    put(bench.path("ids.u16"), struct.pack(f"<{len(one['ids'])}H", *one["ids"]))
    config = text_of(bench, bench.path("text.txt"), model__context=8, model__vocab=1000)

    def loss(**data):
        bench.config(changed(config, **{f"data__{key}": value for key, value in data.items()}), "c.yaml")
        ended = bench.run("eval", bench.path("c.yaml"), "--data", data["path"], "--json")
        equal(ended.code, 0, "exit code")
        return json.loads(ended.out)

    equal(loss(path=bench.path("text.txt"), tokenizer=bench.path("tokenizer")), loss(path=bench.path("ids.u16"), kind="tokens"), "losses of text and ids")
    put(bench.path("tokenizer", "tokenizer_config.json"), b'{"some_rule": true}')
    refused = bench.run(*bench.train_words(changed(config, data__tokenizer=bench.path("tokenizer")), "run"))
    equal((refused.code, len(refused.err.splitlines())), (INPUT, 1), "exit code and lines on stderr")
    check("tokenizer_config.json': 'some_rule' is not known" in refused.err, f"stderr is {refused.err!r}")


def left_out_live(bench):
    """An edge says so once it has opened the folder."""
    folder = classes(bench)
    put(bench.path(folder, "cat", "a.gif"))
    path = two_queries(bench, {"file": bench.path(folder), "loop": True, "fps": 30})

    def told():
        return [event["message"] for event in bench.events() if event["event"] == "warning" and "left out" in event["message"]]

    process = bench.start("edge", "run", path, "--out", bench.path("run"), "--json")
    wait_until(lambda: process.poll() is not None or told(), 120, "a warning")
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 0, "exit code")
    equal(told(), [f"folder '{bench.path(folder)}': left out: 1 picture of other kinds (1 .gif; convert it to JPEG, PNG or WebP)"], "warnings")


# --- samples that cannot be used --------------------------------------------------------------------------------------------


def unusable(bench):
    """A picture that is cut short is found before anything is written; what the line advises lists it and leaves it out, also when a worker dies."""
    folder = classes(bench)
    cut = bench.path(folder, "dog", "turned7.jpg")
    os.truncate(cut, os.path.getsize(cut) // 2)
    config = {**of_classes(bench, folder, steps=8, stages=2), "checkpoint": {"every": 2}}
    refused = bench.run(*bench.train_words(config, "run"))
    equal((refused.code, len(refused.err.splitlines())), (INPUT, 1), "exit code and lines on stderr")
    for part in (cut, "1 of 8 samples cannot be used", "'culm data check CONFIG --out FILE'", "data.skip: FILE"):
        check(part in refused.err, f"the line does not say {part!r}: {refused.err!r}")
    check(not os.path.exists(bench.path("run")), "something was written")
    path, listed = bench.config(config), bench.path("skip.txt")
    found = bench.run("data", "check", path, "--out", listed, "--json")
    equal((found.code, len(found.err.splitlines())), (INPUT, 1), "exit code and lines on stderr of culm data check")
    told = json.loads(found.out)
    equal((told["samples"], told["left_out"], [one["file"] for one in told["bad"]]), (8, 0, [cut]), "what culm data check finds")
    check("is damaged" in told["bad"][0]["why"], f"why is {told['bad'][0]['why']!r}")
    config = changed(config, data__skip=listed)
    again = bench.run("data", "check", bench.config(config), "--json")
    equal((again.code, json.loads(again.out)), (0, {"samples": 8, "left_out": 1, "bad": []}), "code and answer with data.skip")
    plain = bench.train(config)
    equal(plain.one("warning")["message"], "1 of 8 samples are left out, as data.skip says", "the warning")
    check_whole(bench.train(config, "killed", *fault(1, 5, "backward")), plain.hashes(), rollbacks=None)
    os.remove(cut)
    missing = bench.run("data", "check", bench.config(config))
    equal(missing.code, INPUT, "exit code once the picture is gone")
    check("line 2: '" + cut + "' is not among the samples of data.path" in missing.err, f"stderr is {missing.err!r}")


cases.add("samples: one that cannot be used", unusable, first=True)
cases.add("edge: what is left out of a folder", left_out_live)
cases.add("text: settings beside a tokenizer", settings_beside, first=True)
cases.add("pictures: names of classes", class_names, first=True)
cases.add("text: packed, and no text", packed, first=True)
cases.add("text: more files than may be open", many_files, first=True)
cases.add("text: many files in mid-run, overwritten", changed_corpus, pinned_inputs.overwrite)
cases.add("text: many files in mid-run, cut", changed_corpus, pinned_inputs.truncate)
cases.add("pictures: a link that leads nowhere", nowhere, first=True)
cases.add("pictures: what is left out of a folder", left_out, first=True, seconds=3)
cases.add("predict: one bad picture of several", bad_picture, first=True)

if __name__ == "__main__":
    cases.run()
