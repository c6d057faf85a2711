#!/usr/bin/env python3
"""What `culm gnn` tells of a run that goes wrong or has nothing to do, and what it refuses before it begins."""
import array
import hashlib
import json
import math
import os
import re
import shutil
import socket

from gnn_harness import ENDLESS, ONE, PATIENT, Graphs, fault
from harness import Cases, Disk, changed, check, check_goodput, equal, needs_disk, thaw, wait_until

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "200", "--edges", "800", "--features", "8", "--classes", "3", "--seed", "2")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 4},
    "epochs": 6,
    "intervals": 4,
    "servers": 2,
    "checkpoint": {"every": 1},
    "cluster": PATIENT,
}


def one_line(ended, code, *parts):
    """It ends with that code, and one line on standard error that has these parts."""
    equal(ended.code, code, f"exit code; {ended.err.strip()[-300:]}")
    equal(len(ended.err.splitlines()), 1, f"lines of {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")


# --- runs that go wrong, or have nothing to do ---------------------------------------------------------------------------------


def diverged(bench, changes):
    """A loss that is not finite ends the run, and only what was saved before is left."""
    run = graphs.train(bench, changed(CONFIG, optimizer={"lr": 1e30}, **changes), code=3)
    one_line(run, 3, "epoch ", "not finite", "optimizer.lr")
    told = [event["epoch"] for event in run.all("epoch")]
    equal(told, list(range(1, len(told) + 1)), "epochs told")
    equal((len(run.all("done")), run.one("error")["code"]), (0, "config"), "events done and error")
    check(told[-1] < 6, f"all epochs were told: {told}")
    for event in run.all("checkpoint"):
        check(event["epoch"] <= told[-1], f"a checkpoint of epoch {event['epoch']}")
        shown = bench.run("ckpt", "show", event["path"])
        equal((shown.code, shown.err), (0, ""), "exit code and standard error of ckpt show")
    check(not os.path.exists(os.path.join(run.dir, "model.safetensors")), "a model was written")


def disk_full(bench):
    """A checkpoint that finds no room is given up, and costs no node; the last one is waited for, so the run fails in the end, and goes on when
    there is room."""
    config = changed(CONFIG, model__width=2000, cluster__wait_ms=1)  # a checkpoint of 330 kB
    with Disk(bench, 550) as disk:
        ended = bench.run(*graphs.words_of(bench, config, os.path.join("disk", "run")))
        equal(ended.code, 4, f"exit code; {ended.err!r}")
        before, after = ended.err.splitlines()
        check("warning: " in before and "are free where" in before, f"before the run: {before}")
        check("the last checkpoint could not be written: the checkpoint of epoch 6 takes" in after and "culm ckpt rescue" in after, f"after it: {after}")
        check("--resume goes on from epoch 1" in after, f"after it: {after}")
        events = [json.loads(line) for line in ended.out.splitlines()]
        told = [event for event in events if event["event"] == "checkpoint"]
        check([event["ok"] for event in told] == [True] + 5 * [False], f"checkpoints: {told}")
        check(all(re.search("free [0-9.]+ kB there", event["message"]) for event in told[1:]), f"why they were not written: {told}")
        equal([event["epoch"] for event in events if event["event"] == "held"], [6], "epochs that were held")
        weights = bench.path("disk", "run", "checkpoints", "weights-step-00000006")
        check(weights in after, f"the weights alone are not named: {after}")
        shown = json.loads(bench.run("ckpt", "show", weights, "--json").out)
        equal([event for event in events if event["event"] in ("lost", "rollback")], [], "nodes lost and roll-backs")
        check(not os.path.exists(bench.path("disk", "run", "model.safetensors")), "a model was written")
        disk.resize(4096)
        again = graphs.train(bench, config, os.path.join("disk", "run"), "--resume")
        equal(again.hashes(), graphs.train(bench, config, "whole").hashes(), "weights_sha256 and state_sha256")
        equal(shown["weights_sha256"], again.one("done")["weights_sha256"], "the weights that were saved alone")


def disk_rescued(bench):
    """While the run holds its last epoch, another folder is named, and --resume finds it there."""
    config = changed(CONFIG, model__width=2000, checkpoint__every=0)
    with Disk(bench, 300):
        process = bench.start(*graphs.words_of(bench, config, os.path.join("disk", "run")))
        def held():
            with open(process.out_path, encoding="utf-8") as file:
                return [line for line in file if '"held"' in line and line.endswith("\n")]
        wait_until(lambda: held() or process.poll() is not None, 120, "event held")
        check(held(), "no event held")
        command = re.search(r"'culm (ckpt rescue \S+ --to )PATH'", json.loads(held()[0])["message"])
        check(command, f"no command: {held()}")
        done = bench.run(*command[1].split(), bench.path("other"))
        equal((done.code, done.err, done.out.strip()), (0, "", bench.path("other", "checkpoints", "step-00000006")), "rescue")
        equal(bench.end(process).code, 0, "exit code")
        again = graphs.train(bench, config, os.path.join("disk", "run"), "--resume")
        equal((again.all("epoch"), again.hashes()), ([], graphs.train(bench, config, "whole").hashes()), "epochs and hashes of a resumed run")


def change_features(graph, to):
    with open(os.path.join(graph, "features.npy"), "r+b") as file:
        file.seek(128)
        values = array.array("f", file.read())
        file.seek(128)
        array.array("f", map(to, values)).tofile(file)


def overflows(bench, changes):
    """Features and weights so large that a gradient overflows where the loss does not: no step is taken with it."""
    graph = bench.path("large")
    shutil.copytree(graphs.make(bench), graph)
    change_features(graph, lambda value: 1e6 * value)
    width, wide = 4, 3e38
    tensors = {"convs.0.lin.weight": ([width, 8], [1e-36] * 8 * width), "convs.0.bias": ([width], [0.0] * width),
               "convs.1.lin.weight": ([3, width], [wide] * width + [-wide] * width + [0.0] * width), "convs.1.bias": ([3], [0.0] * 3)}
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        at, data = len(data), data + array.array("f", values).tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, len(data)]}
    text = json.dumps(head).encode()
    with open(bench.path("large.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    model = {"layers": 2, "width": width, "dropout": 0, "init": bench.path("large.safetensors")}
    run = graphs.train(bench, changed(CONFIG, graph__path=graph, model=model, **changes), code=3)
    one_line(run, 3, "epoch 1", "gradient is not finite (loss ", "optimizer.lr")
    loss = float(run.err.partition("(loss ")[2].partition(")")[0])
    check(math.isfinite(loss), f"the loss is {loss}")
    equal((len(run.all("epoch")), len(run.all("checkpoint")), run.all("lost")), (0, 0, []), "epochs, checkpoints and losses")
    check(not os.path.exists(os.path.join(run.dir, "model.safetensors")), "a model was written")


def no_answer(bench):
    """Logits that are not finite are no answer: nothing is written, and no share is told."""
    graph = shutil.copytree(graphs.make(bench), bench.path("huge"))
    change_features(graph, lambda value: math.copysign(3e38, value))
    config = {**changed(CONFIG, graph__path=graph, epochs=0, **ONE), "eval": {"every": 0}}
    run = graphs.train(bench, config)
    for words in ["eval", run.dir], ["eval", bench.config(config)], ["predict", run.dir, "--out", bench.path("l.npy")]:
        ended = bench.run("gnn", *words)
        one_line(ended, 3, "the logits of vertex ", "are not finite")
        equal((ended.out, os.path.exists(bench.path("l.npy"))), ("", False), "standard output, and whether a file is there")


def large_intervals(bench):
    """Intervals of several blocks and pieces: servers that do all themselves, and workers, come to the same bits."""
    graph = bench.path("large")
    made = bench.run("gnn", "make", "sbm", "--vertices", 9000, "--edges", 30000, "--features", 24, "--classes", 3, "--out", graph)
    equal(made.code, 0, made.err)
    config = changed(CONFIG, graph__path=graph, epochs=4, intervals=2, model={"layers": 2, "width": 8})
    hashes = {workers: graphs.train(bench, changed(config, workers=workers), f"run-{workers}").hashes() for workers in (0, 2)}
    equal(hashes[0], hashes[2], "hashes without workers and with two")


def nothing_to_do(bench):
    """Without an epoch there is no loss, and none is shown."""
    words = graphs.words_of(bench, changed(CONFIG, epochs=0), "run")[:-1]
    ended = bench.run(*words)
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    check("done: 0 epochs\n" in ended.out, f"it says {ended.out!r}")
    words = graphs.words_of(bench, changed(CONFIG, epochs=1), "one")[:-1]
    ended = bench.run(*words)
    check("done: 1 epoch, loss 1." in ended.out, f"it says {ended.out!r}")
    ended = bench.run(*words, "--resume")
    equal((ended.code, ended.err), (0, ""), "exit code and standard error of a resume")
    check("done: 1 epoch\n" in ended.out, f"it says {ended.out!r}")


def events(bench):
    """Each has the number of its view; who is lost is named by its pid and its epoch."""
    run = graphs.train(bench, changed(CONFIG, epochs=8), "run", *fault("server:1", 4, "gather"))
    lost, done = run.one("lost"), run.one("done")
    equal((lost["epoch"], lost["role"]), (4, "server"), "epoch and role of the loss")
    equal(lost["pid"], next(event["pid"] for event in run.all("joined") if event["node"] == lost["node"]), "pid of the loss")
    views = {event["epoch"]: event["view"] for event in run.all("epoch")}
    check(views[1] >= 1, f"view of the first epoch: {views[1]}")
    check(views[8] > views[3], f"views of epochs before and after a loss: {views}")
    equal(done["view"], max(event["view"] for event in run.events), "view of done")
    equal((done["losses"], done["nodes_lost"]), (1, 1), "losses in done")
    told, recovered = run.all("view"), run.one("recovered")
    equal([told[0]["reason"], len(told[0]["owners"]), told[0]["epoch"]], ["start", 4, 1], "the first view")
    equal([event["view"] for event in told], list(range(1, len(told) + 1)), "numbers of views")
    after = next(event for event in told if event["reason"] == "lost")
    check(lost["node"] in told[0]["owners"] and lost["node"] not in after["owners"], f"owners before and after the loss of {lost['node']}: {told}")
    check(run.events.index(lost) < run.events.index(after) < run.events.index(recovered), "lost, view and recovered are not in this order")
    equal([recovered[key] for key in ("node", "role", "source")], [lost["node"], "server", "peer"], "what was recovered")
    check(0 <= recovered["redone_tasks"] < run.all("epoch")[3]["tasks"], f"an epoch or more was done again: {recovered}")
    # Each end of it lies between two events.
    least = run.events[run.events.index(recovered) - 1]["t_ms"] - lost["t_ms"]
    most = recovered["t_ms"] - run.events[run.events.index(lost) - 1]["t_ms"]
    check(least - 1 <= recovered["pause_ms"] <= most + 1, f"the pause is not from {lost} to {recovered}, {least} to {most}")
    equal((done["pause_ms_median"], done["pause_ms_max"]), (recovered["pause_ms"],) * 2, "pauses in done")
    check("pause per loss" in bench.run("report", run.dir).out, "the report has no pauses")
    paused = check_goodput(bench, run.dir)["paused_ms"]
    check(done["eval_ms"] > 0, f"how long the evaluation after training took: {done}")
    check(abs(paused - (recovered["t_ms"] - lost["t_ms"])) < 0.01, f"{paused} ms were paused, from {lost} to {recovered}")
    other = graphs.train_with_workers(bench, changed(CONFIG, epochs=8, parameter_servers=2, workers=1), "other",
                                      [("parameter:1", 4, "commit"), ("worker:0", 3, "apply")])
    equal([event["role"] for event in other.all("recovered")], ["parameter"], "roles that were recovered; workers need not be")
    holders = [len(event["holders"]) for event in other.all("view")]
    equal((holders[0], min(holders)), (2, 2), "holders of the weights in every view")


def removed(bench):
    """A run whose directory is removed under it goes on, and says what became of it."""
    going = graphs.going(bench, changed(CONFIG, epochs=100, checkpoint={"every": 0}, **ONE), "run", *fault("server:0", 50, "gather", "stop"))
    going.wait(lambda: going.told("fault"), "an epoch in which it stands still")
    pid = going.pid("server", 0)
    shutil.rmtree(going.out)
    thaw(pid)
    ended = going.end()
    check(going.out in ended.err and "was removed or replaced during the run" in ended.err, f"it says {ended.err!r}")
    equal(len(ended.err.splitlines()), 1, f"lines of {ended.err!r}")


# --- refused before it begins --------------------------------------------------------------------------------------------------


def never_begun(bench, changes, words, code, *parts):
    """One line, and no file."""
    one_line(bench.run(*graphs.words_of(bench, changed(CONFIG, **changes), "run"), *words), code, *parts)
    check(not os.path.exists(bench.path("run")), "a run directory was made")


def port_taken(bench):
    """Where somebody listens already, nothing is written, so the same command with another port begins the run."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        never_begun(bench, {}, ["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], 4, "in use")


def nothing_validates(bench):
    """A split without vertices that validate: nothing is said of these."""
    graph = bench.path("graph")
    shutil.copytree(graphs.make(bench), graph)
    with open(os.path.join(graph, "split.npy"), "r+b") as file:
        data = file.read()
        start = data.index(b"\n") + 1
        file.seek(start)
        file.write(data[start:].replace(b"\2", b"\0"))
    ended = bench.run("gnn", "train", bench.config(changed(CONFIG, epochs=2, graph={"path": graph}, **ONE), "c.yaml"), "--out", bench.path("run"))
    equal(ended.code, 0, f"exit code; {ended.err}")
    said = ended.out + ended.err
    check("test " in said and "validation" not in said, f"what it said: {said}")


def other_shape(bench):
    """First weights of another width, and a file that lacks one."""
    before = graphs.train(bench, changed(CONFIG, epochs=0, **ONE), "before")
    init = {"layers": 2, "width": 4, "init": os.path.join(before.dir, "model.safetensors")}
    never_begun(bench, {"model": {**init, "width": 8}}, [], 3, "model.init", "convs.0")
    never_begun(bench, {"model": {**init, "layers": 3}}, [], 3, "model.init", "convs.1")
    graphs.train(bench, changed(CONFIG, model=init, epochs=1), "right")


def without_validation(bench):
    """Nothing could tell when to stop; and what there is none of is not shown."""
    graph = bench.path("unchecked")
    made = bench.run("gnn", "make", "sbm", "--vertices", "100", "--edges", "300", "--split", "80/0/20", "--out", graph)
    equal(made.code, 0, made.err)
    for key, value in ("accuracy", 0.5), ("patience", 2):
        never_begun(bench, {"graph__path": graph, "stop": {key: value}}, [], 3, f"stop.{key}", graph, "no vertices for validation")
    run = graphs.train(bench, changed(CONFIG, graph__path=graph, epochs=2, **ONE))
    equal(("valid" in run.one("done"), "test" in run.one("done")), (False, True), "parts in done")
    told = json.loads(bench.run("gnn", "eval", run.dir, "--json").out)
    equal(("valid" in told, "test" in told), (False, True), "parts that eval tells")
    text = bench.run("gnn", "eval", run.dir).out
    check(text.startswith("train ") and ", test " in text and "valid" not in text, f"eval says {text!r}")


def stops(bench, key, value, lr):
    """At the first evaluation that says so, and not before."""
    run = graphs.train(bench, changed(CONFIG, epochs=60, eval={"every": 2}, stop={key: value}, optimizer={"lr": lr}, checkpoint={"every": 0}))
    told, best, since, wanted = run.all("epoch"), -1, 0, None
    for event in told:
        if "valid" in event and wanted is None:
            since = 0 if event["valid"] > best else since + 1
            best = max(best, event["valid"])
            wanted = event["epoch"] if (best >= value if key == "accuracy" else since >= value) else None
    check(wanted and wanted < 60, f"it should have gone on: {[event.get('valid') for event in told]}")
    equal((told[-1]["epoch"], run.one("done")["epochs"]), (wanted, wanted), "last epoch")


def record_cut(run, digest):
    """As if the run had been begun by a machine that cuts like that."""
    checkpoints = os.path.join(run, "checkpoints")
    records = {os.path.join(run, "plan.json"): lambda content: content}
    for name in os.listdir(checkpoints):
        records[os.path.join(checkpoints, name, "manifest.json")] = lambda content: content["choices"]
    for path, place in records.items():
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        place(content)["cut_sha256"] = digest
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


def own_cut(bench):
    """A run keeps its cut: it goes on with that wherever it is resumed, and with no other."""
    config = changed(CONFIG, epochs=3)
    run = graphs.train(bench, config)
    kept, plan = os.path.join(run.dir, "cut.npy"), os.path.join(run.dir, "plan.json")
    other = bench.path("other")
    ended = bench.run("gnn", "partition", graphs.path, "--intervals", "4", "--method", "stream", "--out", other)
    equal(ended.code, 0, ended.err)
    with open(other, "rb") as file:
        bytes_of_other = file.read()
    words = graphs.words_of(bench, config, "run")
    shutil.copy(other, kept)
    one_line(bench.run(*words, "--resume"), 3, "another cut", kept)
    one_line(bench.run(*words, "--resume", "--dry-run"), 3, "another cut", kept)
    os.rename(plan, bench.path("plan.json"))  # checkpoints have it as well
    one_line(bench.run(*words, "--resume"), 3, "another cut", kept, "checkpoints")
    os.rename(bench.path("plan.json"), plan)
    record_cut(run.dir, hashlib.sha256(array.array("I", map(int, bytes_of_other.split())).tobytes()).hexdigest())
    again = graphs.train(bench, config, "run", "--resume")
    with open(plan, encoding="utf-8") as file:
        equal(again.one("plan")["cut_sha256"], json.load(file)["cut_sha256"], "the cut of the resumed run")
    again = graphs.going(bench, changed({**CONFIG, **ENDLESS}, epochs=3), "run", "--resume").end()  # servers read it as well
    equal(again.err, "", "standard error")
    # What is evaluated and predicted adds up in the order of that cut, and in no other.
    def logits(out):
        ended = bench.run("gnn", "predict", run.dir, "--out", bench.path(out))
        equal((ended.code, ended.err), (0, ""), "exit code and standard error of predict")
        with open(bench.path(out), "rb") as file:
            return file.read()

    kept_so = logits("kept.npy")
    with open(kept, "rb") as file:
        bytes_kept = file.read()
    equal(bench.run("gnn", "eval", run.dir).code, 0, "exit code of eval")
    os.unlink(kept)  # this machine would cut otherwise
    for words in ["eval", run.dir], ["predict", run.dir, "--out", bench.path("x.npy")]:
        one_line(bench.run("gnn", *words), 3, "another cut", kept)
    with open(kept, "wb") as file:
        file.write(bytes_kept)
    equal(logits("again.npy"), kept_so, "logits with the cut put back")
    own = bench.path("own-cut.npy")
    ended = bench.run("gnn", "partition", graphs.path, "--intervals", "4", "--out", own)
    equal(ended.code, 0, ended.err)
    shutil.copy(own, kept)
    for words in ["eval", run.dir], ["predict", run.dir, "--out", bench.path("x.npy")]:
        one_line(bench.run("gnn", *words), 3, "another cut", kept)


def cut_changed(bench):
    """A cut that somebody changes while the run goes on is named when another server reads it; the others go on."""
    going = graphs.going(bench, changed(CONFIG, **ENDLESS), "run")
    going.wait(lambda: len(going.told("epoch")) > 1, "an epoch")
    kept, other = bench.path("run", "cut.npy"), bench.path("other")
    ended = bench.run("gnn", "partition", graphs.path, "--intervals", "4", "--method", "stream", "--out", other)
    equal(ended.code, 0, ended.err)
    shutil.copy(other, kept)
    going.kill("server", 0)
    going.wait(lambda: going.told("error"), "what is wrong")
    check(f"'{kept}' is not the cut of the graph that the run was begun with" in going.told("error")[0]["message"], f"{going.told('error')}")
    going.stop()


def cut_of_joiner(bench):
    """A server that joins takes over the run's cut, though it would cut otherwise itself."""
    config = changed({**CONFIG, **ENDLESS}, servers=1, checkpoint={"every": 1})
    graphs.make(bench)
    words = ["--listen", "127.0.0.1:0"]
    going = graphs.going(bench, config, "run", *words)
    going.wait(lambda: going.told("checkpoint"), "a checkpoint")
    going.stop()
    other, kept = bench.path("other"), bench.path("run", "cut.npy")
    ended = bench.run("gnn", "partition", graphs.path, "--intervals", "4", "--method", "stream", "--out", other)
    equal(ended.code, 0, ended.err)
    shutil.copy(other, kept)
    with open(other, encoding="ascii") as file:
        record_cut(going.out, hashlib.sha256(array.array("I", map(int, file.read().split())).tobytes()).hexdigest())
    before = len(going.told("start"))
    again = graphs.going(bench, config, "run", "--resume", *words)
    again.wait(lambda: len(again.told("start")) > before, "the start")
    address = again.told("start")[-1]["address"].removeprefix("tcp:")
    joiner = bench.start("gnn", "server", "--join", address, "--token-file", bench.path("run", "token"))
    again.wait(lambda: len(again.came("server")) == before + 2, "both servers")
    again.kill("server", -1)
    again.wait(again.lost, "a loss")
    again.more_epochs()
    again.stop()
    equal(bench.end(joiner).code, 0, "exit code of the server")


def own_graph(bench):
    """What a run is evaluated on is the graph and the model that it has been, and where that can't be known it is what is there."""
    graph, other = bench.path("graph"), bench.path("other")
    shutil.copytree(graphs.make(bench), graph)
    made = bench.run("gnn", "make", "sbm", *graphs.words[:-1], "3", "--out", other)
    equal(made.code, 0, made.err)
    config = changed(CONFIG, graph__path=graph, **ONE)
    first = graphs.train(bench, changed(config, epochs=0), "first")
    init = os.path.join(first.dir, "model.safetensors")
    run = graphs.train(bench, changed(config, model={"layers": 2, "width": 4, "init": init}))
    plan, model, log = (os.path.join(run.dir, name) for name in ("plan.json", "model.safetensors", "events.jsonl"))
    evaluated, shown = ["eval", run.dir], ["show", run.dir]
    predicted = ["predict", run.dir, "--out", bench.path("x.npy")]

    def works(*commands):
        ended = [bench.run("gnn", *words) for words in commands]
        equal([(one.code, one.err) for one in ended], [(0, "")] * len(ended), "exit codes and standard error")
        return ended[0].out

    def replace(path, by):
        with open(by, "rb") as file, open(path, "wb") as out:
            out.write(file.read())

    def refused(commands, *parts):
        for words in commands:
            one_line(bench.run("gnn", *words), 3, *parts)

    before = works(evaluated, predicted, shown)
    for name in os.listdir(graph):  # the same content, written anew
        replace(os.path.join(graph, name), os.path.join(graphs.path, name))
    os.unlink(init)  # nothing is made of that any more
    equal(works(evaluated, predicted, shown), before, "what eval says of a graph that was written anew")
    for name in "features.npy", "edges.npy":
        replace(os.path.join(graph, name), os.path.join(other, name))
        refused([evaluated, predicted, shown], os.path.join(graph, name), "is not what it was when the run began")
        works([*predicted, "--graph", graph])
        replace(os.path.join(graph, name), os.path.join(graphs.path, name))
    os.rename(plan, bench.path("plan.json"))
    replace(os.path.join(graph, "features.npy"), os.path.join(other, "features.npy"))
    check(works(evaluated, shown) != before, "another graph comes to the same")
    os.rename(bench.path("plan.json"), plan)
    shutil.rmtree(graph)
    made = bench.run("gnn", "make", "sbm", "--vertices", "100", *graphs.words[2:], "--out", graph)
    equal(made.code, 0, made.err)
    refused([evaluated, predicted, shown], graph, "is not what it was when the run began")
    shutil.rmtree(graph)
    shutil.copytree(graphs.path, graph)
    replace(bench.path("model"), model)
    replace(model, os.path.join(graphs.train(bench, changed(config, epochs=1), "short").dir, "model.safetensors"))
    refused([evaluated, predicted, [*predicted, "--graph", other]], model, "does not have the weights")
    works(shown)
    with open(log, encoding="utf-8") as file:
        lines = file.readlines()
    with open(log, "w", encoding="utf-8") as file:
        file.writelines(line for line in lines if '"event":"done"' not in line)
    check(works(evaluated, predicted) != before, "another model comes to the same")
    replace(model, bench.path("model"))
    equal(works(evaluated), before, "what eval says with everything put back")


# --- addresses -------------------------------------------------------------------------------------------------------------------


def server_refused(bench, words, code, *parts):
    with open(bench.path("token"), "w", encoding="ascii") as file:
        file.write("0" * 32 + "\n")
    ended = bench.run("gnn", "server", "--join", "127.0.0.1:1", "--token-file", bench.path("token"), *words)
    one_line(ended, code, *parts)


def nobody_there(bench, role, words, code):
    """A worker, or server, that cannot join says why in one line."""
    with open(bench.path("token"), "w", encoding="ascii") as file:
        file.write("0" * 32 + "\n")
    token = ["--token-file", bench.path("token")] if "--join" in words else []
    one_line(bench.run("gnn", role, *words, *token), code)


def calls_to(address):
    """How many connections of this machine lead to that number, 127.0.0.0/8."""
    wanted = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sum(row[2].startswith(wanted + ":") and row[3] == "01" for row in rows)


def advertised(bench, insecure):
    """Launcher and server listen everywhere, and are called where they say.

    Of two servers either may call the other; a worker calls, and is never called.
    """
    config = changed({**CONFIG, **ENDLESS}, servers=1, workers=1)
    launcher, server = "127.77.0.1", "127.77.0.2"
    going = graphs.going(bench, config, "run", "--listen", "0.0.0.0:0", *insecure, "--advertise", f"{launcher}:0")
    address = going.address()
    check(address.startswith(f"tcp:{launcher}:") and not address.endswith(":0"), f"address {address}")
    words = ["--join", address.removeprefix("tcp:"), "--token-file", bench.path("run", "token")]
    if insecure:
        for role in "server", "worker":
            one_line(bench.run("gnn", role, *words), 3, "--insecure")
    other = bench.start("gnn", "server", *words, "--listen", "0.0.0.0:0", *insecure, "--advertise", f"{server}:0")
    going.wait(lambda: len(going.came("server")) == 2, "the server from outside")
    names = [event["name"] == "newcomer" for event in going.came("server")]
    equal(["pid" in event for event in going.came("server")], [not name for name in names], "pids of both servers")
    going.more_epochs(2)
    going.kill("server", 0)
    going.wait(going.lost, "a loss")
    going.more_epochs()
    for address in launcher, server:
        wait_until(lambda address=address: calls_to(address) > 0, 120, f"a call to {address}")
    going.stop()
    graphs.check_losses(bench, going, config)
    equal(bench.end(other).code, 0, "exit code of the server")


# --- counts ------------------------------------------------------------------------------------------------------------------------


def counted(bench, order, precision="f32"):
    """An epoch sends what `show` says: rows to other servers, and to and from workers that are warm."""
    config = changed({**CONFIG, **ENDLESS}, order=order, workers=1, precision=precision)
    number = 2 if precision == "bf16" else 4
    shown = json.loads(bench.run("gnn", "show", bench.config({**config, "graph": {**config["graph"], "path": graphs.make(bench)}}), "--json").out)
    going = graphs.going(bench, config)
    there = shown["bytes_per_vertex"] * shown["vertices"]
    going.wait(lambda: any(event["worker_bytes"] == there for event in going.told("epoch")), "an epoch of a warm worker alone")
    going.stop()
    undisturbed = [event for event in going.told("epoch")[2:] if event["retried"] == 0]
    loops = shown["vertices"]
    equal({event["ghost_bytes"] for event in undisturbed}, {number * shown["ghost_floats_per_vertex"] * shown["ghosts"]}, "bytes of rows to servers")
    equal({event["gathered_floats"] for event in undisturbed}, {shown["floats_per_edge"] * (2 * shown["edges"] + loops)}, "floats gathered")


def figures(bench):
    """What a gather reads is told alike by an epoch of a run, by `bench` and by `show`, however much of a row neighbours read."""
    rows = {}
    for arch in "gcn", "gat", "sage":
        for servers in 1, 4:
            config = changed(CONFIG, epochs=1, servers=servers, intervals=8, model={"arch": arch, "layers": 2, "width": 4})
            epoch = graphs.train(bench, config, f"{arch}-{servers}").one("epoch")
            path = bench.path(f"{arch}-{servers}.yaml")
            shown = json.loads(bench.run("gnn", "show", path, "--json").out)
            timed = json.loads(bench.run("bench", "gnn", "epoch", path, "--iters", 1, "--json").out)
            edges = 2 * shown["edges"] + (shown["vertices"] if arch != "sage" else 0)  # means leave the vertex out
            equal((epoch["gathered_floats"], timed["gathered_floats"]), (edges * shown["floats_per_edge"],) * 2, f"floats of {arch} on {servers}")
            rows[arch, servers] = sum(epoch["ages"])
    # One server has all rows at hand, and of four each is sent what it needs: as many for each gather, whatever it sums.
    for arch in "gat", "sage":
        equal(rows[arch, 1] % rows["gcn", 1], 0, f"rows of {rows}")
        equal(rows[arch, 4], rows["gcn", 4] * (rows[arch, 1] // rows["gcn", 1]), f"rows that {arch} gathers on four servers: {rows}")


def published_counts(bench):
    """Features, hidden and classes of Amazon and of Reddit, in our order and in that of Dorylus: the paper's counts.

    Of rows to and from functions, Dorylus's have two more than ours in its order: z, which they return and fetch again and ours
    compute again, and labels as rows with a one, which ours have with the features.
    """
    for name, features, width, classes, ours, theirs in (("amazon", 300, 64, 25, (50, 200, 50), (428, 4036, 128)),
                                                         ("reddit", 602, 128, 41, (82, 328, 82), (858, 8052, 256))):
        graph = bench.path(name)
        made = bench.run("gnn", "make", "sbm", "--vertices", 400, "--edges", 1600, "--features", features, "--classes", classes, "--out", graph)
        equal(made.code, 0, made.err)
        floats, sent, ghosts = theirs
        for order, wanted in ("auto", ours), ("published", (floats, sent - 4 * (2 * width + classes), ghosts)):
            for precision, halves in ("f32", 1), ("bf16", 2):
                config = changed(CONFIG, graph__path=graph, model={"layers": 2, "width": width}, order=order, precision=precision)
                shown = json.loads(bench.run("gnn", "show", bench.config(config, f"{name}-{order}.yaml"), "--json").out)
                got = tuple(shown[key] for key in ("floats_per_edge", "bytes_per_vertex", "ghost_floats_per_vertex"))
                equal(got, (wanted[0], wanted[1] // halves, wanted[2]), f"{name}, {order}, {precision}")


# --- command lines -----------------------------------------------------------------------------------------------------------------


def slips(bench):
    """Words and options that a command knows nothing of are refused, not passed over."""
    graph = graphs.make(bench)
    other = bench.path("other")
    made = bench.run("gnn", "make", "sbm", "--vertices", "60", "--edges", "200", "--features", "9", "--out", other)
    equal((made.code, "largest degree" in made.out and "isolated vertices" in made.out), (0, True), f"what make says: {made.out!r}")
    run = graphs.train(bench, changed(CONFIG, epochs=0, **ONE))
    config = bench.config(CONFIG)
    for words, code, *parts in (
        (["gnn", "foo"], 2, "no such command: 'foo'"),
        (["gnn"], 2, "needs a command"),
        (["gnn", "show"], 2, "'show' needs GRAPH|CONFIG|DIR"),
        (["gnn", "show", graph, graph], 2, "nothing else"),
        (["gnn", "show", config, "--split", 1], 2, "--split is for a graph", "graph.split"),
        (["gnn", "show", run.dir, "--split", 0], 2, "--split is for a graph", "graph.split"),
        (["gnn", "partition", graph, "--intervals", 2, "--vertices", 5], 2, "--vertices", "import|make"),
        (["gnn", "show", graph, "--intervals", 4], 2, "--intervals", "partition"),
        (["gnn", "show", graph, "--labels", "foo"], 2, "--labels", "import"),
        (["gnn", "eval", run.dir, "--seed", 3], 2, "--seed", "import|make|partition"),
        (["gnn", "predict", run.dir, "--out", bench.path("x"), "--split", 1], 2, "--split"),
        (["gnn", "make", "foo", "--out", bench.path("x")], 2, "unknown kind 'foo'; allowed: rmat"),
        (["gnn", "make", "rmat", "--labels", "foo", "--out", bench.path("x")], 2, "--labels"),
        (["gnn", "server", "--gearman", "127.0.0.1:1"], 2, "unknown option '--gearman'"),
        (["gnn", "worker", "--listen", "127.0.0.1:1"], 2, "unknown option '--listen'"),
        (["gnn", "worker", "--gearman", "127.0.0.1:1"], 4, "no job server"),
        (["bench", "gnn", "epoch", graph], 2, "takes a configuration", "is a graph"),
        (["gnn", "predict", run.dir, "--graph", other, "--out", bench.path("x")], 3, f"--graph '{other}' has 9 features",
         f"the model of '{run.dir}' expects 8"),
        (["help", "config", "predict"], 2, "'predict'"),
    ):
        if "--gearman" in words and "worker" in words and bench.run(*words).err.find("libgearman") >= 0:
            continue  # it is not installed
        one_line(bench.run(*words), code, *parts)
    told = bench.run("gnn", "partition", graph, "--intervals", 1, "--servers", 1).out
    check(told.startswith("1 interval on 1 server ("), f"partition says {told!r}")
    equal(bench.run("gnn", "show", config).code, 0, "exit code of show CONFIG")


def tree(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                found[os.path.relpath(os.path.join(root, name), folder)] = file.read()
    return found


def own_inputs(bench):
    """No answer takes the place of what it was computed from, nor of another run's or graph's files."""
    graph = shutil.copytree(graphs.make(bench), bench.path("own"))
    config = changed(CONFIG, epochs=0, graph__path=graph, **ONE)
    run = graphs.train(bench, config)
    before = tree(graph), tree(run.dir)
    predict, part = ["gnn", "predict", run.dir, "--out"], ["gnn", "partition", graph, "--intervals", 2, "--out"]
    step = os.listdir(os.path.join(run.dir, "checkpoints"))[0]
    for words in (*([*predict, os.path.join(run.dir, name)] for name in
                    ("model.safetensors", "config.yaml", "cut.npy", "lock", f"checkpoints/{step}/manifest.json")),
                  [*part, os.path.join(run.dir, "plan.json")], ["gnn", "bundle", "--out", os.path.join(run.dir, "events.jsonl")]):
        one_line(bench.run(*words), 3, "is a file of a run", words[-1])
    for words in ([*predict, os.path.join(graph, "features.npy")], [*part, os.path.join(graph, "edges.npy")], [*part, os.path.join(graph, "new")],
                  ["gnn", "bundle", "--out", os.path.join(graph, "labels.npy")]):
        one_line(bench.run(*words), 3, "is in the folder of a graph", words[-1])
    one_line(bench.run("gnn", "train", bench.config(config), "--out", graph), 3, f"'{graph}' is the folder of a graph")
    equal((tree(graph), tree(run.dir)), before, "the graph and the run")
    for words in ([*predict, os.path.join(run.dir, "logits.npy")], [*part, bench.path("part")]):
        equal(bench.run(*words).code, 0, f"exit code of {words}")


def helps(bench):
    """What --help, `culm help`, the manual page and completions say of the parts of `culm gnn`."""
    def says(*words):
        ended = bench.run(*words)
        equal((ended.code, ended.err), (0, ""), f"exit code and standard error of {words}")
        return ended.out

    train = says("gnn", "train", "--help")
    equal(says("help", "gnn", "train"), train, "help gnn train")
    for part in ", edge,", "edge, push-gradient", "--resume may change only":
        check(part in train or part == ", edge,", f"{part!r} is not in {train!r}")
    keys = train.split("--resume may change only\n")[1].split("\n")[0]
    for key in "servers", "workers", "engine", "graph.memory_mb":
        check(key in keys, f"{key} is not among {keys!r}")
    check("--gearman" not in says("gnn", "server", "--help"), "gnn server --help has --gearman")
    config = says("help", "config", "gnn")
    for key in "optimizer.momentum", "gearman.server", "graph.path", "stop.patience":
        check(key in config, f"{key} is not in the reference")
    check("| `optimizer.momentum` |" in says("help", "config", "gnn", "--markdown"), "no table")
    check("model.context" in says("help", "config"), "the reference of culm train")
    page = says("help", "--man", "gnn")
    for part in "CULM GNN TRAIN", "advertise", "token\\-file", "gearman", "prices":
        check(part in page, f"{part!r} is not in the manual page")
    for shell in "bash", "zsh", "fish":
        script = says("help", "--completion", shell)
        for option in "advertise", "token-file", "gearman":
            check(option in script, f"{option} is not among completions of {shell}")


cases.add("the disk is full", needs_disk, __file__, "the disk is full", disk_full, first=True)
cases.add("the disk is full: rescued", needs_disk, __file__, "the disk is full: rescued", disk_rescued)
cases.add("outputs in the place of inputs", own_inputs, first=True)
cases.add("the cut is changed in mid-run", cut_changed)
cases.add("it diverges", diverged, {}, first=True)
cases.add("it diverges, with workers and older rows", diverged, {"mode": "async", "workers": 1})
cases.add("it diverges, with patience", diverged, {"stop": {"patience": 3}})
cases.add("a gradient overflows", overflows, {})
cases.add("a gradient overflows, with workers and older rows", overflows, {"mode": "async", "workers": 1, "parameter_servers": 2})
cases.add("logits that are not finite", no_answer)
cases.add("intervals of thousands of vertices", large_intervals)
cases.add("nothing to do", nothing_to_do)
cases.add("what events tell", events, first=True)
cases.add("its directory is removed", removed)
cases.add("listening everywhere without an address to call", never_begun, {}, ["--listen", "0.0.0.0:0"], 3, "--advertise", first=True)
cases.add("advertising nowhere", never_begun, {}, ["--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:1"], 3, "--advertise 0.0.0.0:1")
cases.add("listening where somebody listens already", port_taken)
cases.add("a split in which nothing validates", nothing_validates)
cases.add("listening at no address", never_begun, {}, ["--listen", "here"], 2, "--listen", "here")
cases.add("first weights of another shape", other_shape)
cases.add("no vertices for validation", without_validation, first=True)
cases.add("it stops at an accuracy", stops, "accuracy", 0.6, 0.05)
cases.add("it stops when its patience is over", stops, "patience", 3, 0.05, first=True)
cases.add("a run keeps its cut", own_cut, first=True)
cases.add("a run is evaluated on its own graph and model", own_graph, first=True)
cases.add("a server that joins takes the cut over", cut_of_joiner)
cases.add("a server that listens at no address", server_refused, ["--listen", "nowhere"], 2, "--listen", "nowhere")
cases.add("a server that is called nowhere", server_refused, ["--advertise", "0.0.0.0:5"], 3, "--advertise")
cases.add("a server, and nobody there", server_refused, ["--listen", "127.0.0.1:0"], 4, "127.0.0.1:1")
cases.add("a worker, and nobody there", nobody_there, "worker", ["--join", "127.0.0.1:1"], 4)
cases.add("a worker, and no address", nobody_there, "worker", ["--join", "there"], 2)
cases.add("they are called where they say", advertised, [], first=True)
cases.add("they are called where they say, in the clear", advertised, ["--insecure"])
cases.add("what is sent, in our order", counted, "auto", first=True)
cases.add("what is sent, in the published order", counted, "published")
cases.add("what is sent, of half the size", counted, "auto", "bf16", first=True)
cases.add("what is sent, in the published order and of half the size", counted, "published", "bf16")
cases.add("an epoch, bench and show agree", figures)
cases.add("counts of Amazon and Reddit", published_counts, first=True)
cases.add("slips", slips)
cases.add("help", helps)

if __name__ == "__main__":
    cases.run()
