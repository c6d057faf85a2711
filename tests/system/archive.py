#!/usr/bin/env python3
"""Checkpoints that are kept apart from their run (`checkpoint.to`): in a folder, and in a bucket of S3 (s3_standin.py), which fails, is away, refuses.

What a run computed is compared with an undisturbed one: its hashes, or each step's loss where it is stopped before its end.
"""
import json
import os
import shutil
import signal
import subprocess
import sys

import radosgw as radosgw_server
import s3_standin
from gnn_harness import Graphs
from harness import Cases, Skipped, changed, check, equal, read_events, tiny_config, wait_until

cases = Cases(kind="waits", job="train")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12")
ENDLESS = changed(tiny_config(cases.text), steps=1000000, schedule={"name": "constant"}, checkpoint__every=10)
PLACE = f"s3://{s3_standin.BUCKET}/runs/one"
FROM = r"objects/(0000001[5-9]|000000[2-9])"  # objects of checkpoints after step 15


def kept_in(config, to, **more):
    return changed(config, checkpoint={**config["checkpoint"], "to": to, **more})


def in_bucket(config, s3, **more):
    return kept_in(config, PLACE, endpoint=s3.endpoint, **more)


def undisturbed(config):
    """The same in one process, and not kept anywhere."""
    return cases.plain(changed(config, checkpoint={"every": 0}))


def start(bench, config, out, *words, env=s3_standin.ENVIRONMENT):
    return bench.start(*bench.train_words(config, out, *words), env=env)


def told(bench, out, name):
    path = bench.path(out, "events.jsonl")
    return [event for event in (read_events(path) if os.path.exists(path) else []) if event["event"] == name]


def wait(process, condition, what):
    wait_until(lambda: condition() or process.poll() is not None, 120, what)
    check(condition(), f"the run ended before {what}")


def listed(bench, place, *words, env=s3_standin.ENVIRONMENT):
    ended = bench.run("ckpt", "list", place, "--json", *words, env=env)
    equal((ended.code, ended.err), (0, ""), "ckpt list")
    return {one["step"]: one["whole"] for one in json.loads(ended.out)["checkpoints"]}


def check_losses(bench, config, outs):
    events = [event for out in outs for event in bench.events(out) if event["event"] == "step"]
    last = max(event["step"] for event in events)
    _, plain = undisturbed(changed(config, steps=last))
    right = {event["step"]: event["loss_bits"] for event in plain}
    for event in events:
        equal(event["loss_bits"], right[event["step"]], f"loss of step {event['step']}")


# --- what goes on elsewhere ---


def cut_off(bench):
    """Every seventh request fails; the launcher is killed while it sends a checkpoint, and its folder is lost. From the bucket alone the run comes to
    the same end, in a folder that is not there yet."""
    config = changed(tiny_config(cases.text), steps=40, checkpoint__every=5)
    with s3_standin.S3(every=7) as s3:
        config = in_bucket(config, s3)
        s3.hold("PUT .*" + FROM)
        process = start(bench, config, "run")
        wait(process, lambda: s3.waiting > 0, "a checkpoint that is being sent")
        process.kill()
        bench.end(process)
        there = listed(bench, PLACE, "--endpoint", s3.endpoint)
        check(there and all(there.values()) and max(there) < 15, f"checkpoints that are there: {there}")
        shutil.rmtree(bench.path("run"))
        s3.hold(None)
        run = bench.trained(start(bench, config, "elsewhere", "--resume"), "elsewhere")
        equal(run.one("resumed")["step"], max(there), "the step from which it goes on")
        equal(run.hashes(), undisturbed(config)[0], "hashes")
        equal(sorted({event["step"] for event in told(bench, "elsewhere", "step")}), list(range(1, 41)), "steps that are told of, in one file")
        there = listed(bench, PLACE, "--endpoint", s3.endpoint)
        check(there[40] and len(there) <= 2, f"checkpoints at the end: {there}")
        check(min(s3.counts[what] for what in s3_standin.FAILURES) > 0, f"failures: {s3.counts}")


def back_and_forth(bench):
    """A run that is stopped goes on in another folder, is stopped there, and goes on where it was begun."""
    config = kept_in(ENDLESS, bench.path("kept"))
    for turn, out in enumerate(("one", "two", "one", "three")):
        words = ["--resume"] if turn else []
        process = start(bench, config, out, *words)
        before = len(told(bench, out, "resumed"))
        wait(process, lambda: len(told(bench, out, "resumed")) > before - 1 and len(
            [event for event in read_events(process.out_path) if event["event"] == "stored" and event["ok"]]) > 1, "checkpoints that are kept")
        process.send_signal(signal.SIGINT)
        ended = bench.end(process)
        equal(ended.code, 75, f"exit code; {ended.err}")
        newest = max(event["step"] for event in read_events(process.out_path) if event["event"] == "checkpoint")
        there = listed(bench, bench.path("kept"))
        equal((max(there), all(there.values()), len(there) <= 2), (newest, True, True), f"kept: {there}; the newest")
        if turn:
            check("goes on in" in ended.err, f"it does not say where it goes on: {ended.err!r}")
    steps = sorted({event["step"] for event in told(bench, "three", "step")})
    equal(steps, list(range(1, steps[-1] + 1)), "steps that are told of, in one file")
    check_losses(bench, config, ["one", "two", "three"])
    check([name for name in os.listdir(bench.path("one")) if name.startswith("events-before-")], "events that were there are gone")


def brought_twice(bench):
    """A launcher is killed while it fetches a checkpoint into a new folder: the next one mends that."""
    config = changed(tiny_config(cases.text), steps=30, checkpoint__every=10)
    with s3_standin.S3() as s3:
        config = in_bucket(config, s3)
        bench.trained(start(bench, config, "run"))
        for pattern in ("GET .*objects/", "GET .*manifests/", "GET .*objects/"):
            s3.hold(pattern)
            process = start(bench, config, "new", "--resume", "--set", "steps=40")
            wait(process, lambda: s3.waiting > 0, "a request")
            process.kill()
            bench.end(process)
            s3.hold(None)
        run = bench.trained(start(bench, config, "new", "--resume", "--set", "steps=40"), "new")
        equal(run.one("resumed")["step"], 30, "the step from which it goes on")
        check(not os.path.exists(bench.path("new", ".fetching")), "the mark is left")


def graph_network(bench):
    """A graph network in another folder, with the cut of the first."""
    graphs.make(bench)
    config = {"graph": {"path": graphs.path, "features": "as-is"}, "model": {"layers": 2, "width": 8}, "intervals": 8, "servers": 2, "parameter_servers": 1,
              "workers": 2, "epochs": 12, "checkpoint": {"every": 4, "keep": 2, "to": bench.path("kept")}}
    plain = graphs.train(bench, {**config, "checkpoint": {"every": 4}, "epochs": 20}, "plain").one("done")["weights_sha256"]
    graphs.train(bench, config, "one")
    run = graphs.train(bench, config, "two", "--resume", "--set", "epochs=20")
    equal(run.one("resumed")["epoch"], 12, "the epoch from which it goes on")
    equal(run.one("done")["weights_sha256"], plain, "hash of the weights")
    equal([event["ok"] for event in run.all("stored") if event["epoch"] == 20], [True], "the last one is kept")


# --- a storage that is away, refuses, is full of others ---


def away(bench):
    """Training goes on while it is away; it is said, and made up for."""
    with s3_standin.S3() as s3:
        config = in_bucket(ENDLESS, s3)
        process = start(bench, config, "run")
        wait(process, lambda: told(bench, "run", "stored"), "the first one that is kept")
        s3.away = True
        wait(process, lambda: any(not event["ok"] for event in told(bench, "run", "stored")), "a word that it is away")
        lost = [event for event in told(bench, "run", "stored") if not event["ok"]][0]
        steps = len(told(bench, "run", "step"))
        wait(process, lambda: len(told(bench, "run", "step")) > steps + 50, "more steps")
        s3.away = False
        wait(process, lambda: any(event["ok"] and event["step"] > lost["step"] for event in told(bench, "run", "stored")), "a later one that is kept")
        process.send_signal(signal.SIGINT)
        equal(bench.end(process).code, 75, "exit code")
        check_losses(bench, config, ["run"])


def waits_at_the_end(bench):
    """The run has not ended before its last checkpoint is there; who does not want to wait is told what lacks, and --resume sends it."""
    config = changed(tiny_config(cases.text), steps=10, checkpoint__every=0)
    with s3_standin.S3() as s3:
        config = in_bucket(config, s3)
        s3.hold("PUT .*manifests/")
        process = start(bench, config, "run")
        wait(process, lambda: s3.waiting > 0, "the manifest")
        equal(told(bench, "run", "done"), [], "done before it is there")
        process.send_signal(signal.SIGINT)
        ended = bench.end(process)
        equal((ended.code, len(ended.err.splitlines())), (1, 1), f"exit code and lines; {ended.err!r}")
        check("lacks the checkpoint of step 10" in ended.err and "--resume sends it" in ended.err, f"it says {ended.err!r}")
        equal(listed(bench, PLACE, "--endpoint", s3.endpoint), {}, "what is there")
        s3.hold(None)
        bench.trained(start(bench, config, "run", "--resume"))
        equal(listed(bench, PLACE, "--endpoint", s3.endpoint), {10: True}, "what is there")


def new_keys(bench):
    """Keys that have expired are taken anew from their file."""
    path = bench.path("credentials")

    def write(access, secret, token):
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\naws_session_token = {token}\n")
        os.rename(path + ".new", path)

    write(s3_standin.ACCESS_KEY, s3_standin.SECRET_KEY, s3_standin.SESSION_TOKEN)
    env = {name: value for name, value in s3_standin.ENVIRONMENT.items() if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")}
    with s3_standin.S3() as s3:
        process = start(bench, in_bucket(ENDLESS, s3), "run", env={**env, "AWS_SHARED_CREDENTIALS_FILE": path})
        wait(process, lambda: told(bench, "run", "stored"), "the first one that is kept")
        s3.expire_keys("AKIDOTHER", "another", "one")
        write("AKIDOTHER", "another", "one")
        kept = len(told(bench, "run", "stored"))
        wait(process, lambda: len([event for event in told(bench, "run", "stored") if event["ok"]]) > kept + 1, "more that are kept")
        process.send_signal(signal.SIGINT)
        equal(bench.end(process).code, 75, "exit code")


def refuse(bench, text, code, change, env):
    """One line, and nothing is left."""
    with s3_standin.S3() as s3:
        s3.denied = change.pop("denied", False)
        checkpoint = {"to": PLACE, "endpoint": s3.endpoint, **change}
        config = changed(tiny_config(cases.text), checkpoint={name: value for name, value in checkpoint.items() if value})
        given = {name: value for name, value in {**s3_standin.ENVIRONMENT, **env}.items() if value is not None}
        for words in ([], ["--resume"]):
            ended = bench.end(start(bench, config, "run", *words, env=given))
            if words and code == 3 and ended.code == 3 and s3.denied:
                continue  # who only reads finds nothing
            equal((ended.code, len(ended.err.splitlines())), (code, 1), f"exit code and lines; {ended.err!r}")
            check(text in ended.err, f"it says {ended.err!r}")
            check("secret/of" not in ended.err and "token/of" not in ended.err, f"it tells secrets: {ended.err!r}")
            check(not os.path.exists(bench.path("run")), "something is left")


def of_another_run(bench):
    """A new run does not begin where another one keeps its checkpoints; nor goes one on that is another."""
    config = kept_in(changed(tiny_config(cases.text), steps=8), bench.path("kept"))
    bench.train(config, "one")
    ended = bench.run(*bench.train_words(config, "two"))
    equal((ended.code, "continue it with --resume" in ended.err), (3, True), f"a new run: {ended.err!r}")
    check(not os.path.exists(bench.path("two")), "something is left of it")
    bench.train(changed(config, checkpoint={"every": 4}, steps=4), "three")
    ended = bench.run(*bench.train_words(config, "three", "--resume"))
    equal((ended.code, "another one" in ended.err), (3, True), f"another run: {ended.err!r}")
    equal(sorted(os.listdir(bench.path("three", "checkpoints"))), ["step-00000004"], "its checkpoints")
    ended = bench.run(*bench.train_words(changed(config, model__width=16), "four", "--resume"))
    equal(ended.code, 3, f"another model: {ended.err!r}")


def damaged(bench):
    """An object is gone: the checkpoint before is taken, and it is said."""
    config = kept_in(changed(tiny_config(cases.text), steps=20, checkpoint__every=10), bench.path("kept"))
    bench.train(config, "one")
    folder = next(name for name in os.listdir(bench.path("kept", "objects")) if name.startswith("00000020-"))
    os.unlink(bench.path("kept", "objects", folder, sorted(os.listdir(bench.path("kept", "objects", folder)))[0]))
    ended = bench.run("ckpt", "list", bench.path("kept"))
    check("not whole" in ended.out, f"ckpt list: {ended.out!r}")
    run = bench.trained(start(bench, config, "two", "--resume"), "two")
    equal(run.one("resumed")["step"], 10, "the step from which it goes on")
    equal(run.hashes(), undisturbed(config)[0], "hashes")
    equal(listed(bench, bench.path("kept")), {10: True, 20: True}, "what is there at the end")


# --- commands, servers ---


def commands(bench):
    """culm ckpt list, show, diff, export and prune, of a bucket, and of a run."""
    config = changed(tiny_config(cases.text), steps=4, checkpoint__every=0, checkpoint__keep=3)
    with s3_standin.S3(page=2) as s3:
        config = in_bucket(config, s3)
        bench.trained(start(bench, config, "run"))  # the last one of each launch is written on any machine
        bench.trained(start(bench, config, "run", "--resume", "--set", "steps=8"))
        run = bench.trained(start(bench, config, "run", "--resume", "--set", "steps=12"))
        os.mkdir(bench.path("tmp"))
        place, env = [PLACE, "--endpoint", s3.endpoint], {**s3_standin.ENVIRONMENT, "TMPDIR": bench.path("tmp")}

        def culm(*words, code=0):
            ended = bench.run("ckpt", *words, env=env)
            equal(ended.code, code, f"ckpt {words[0]}; {ended.err!r}")
            return ended

        equal(listed(bench, *place), {4: True, 8: True, 12: True}, "what is there")
        shown = json.loads(culm("show", *place, "--json").out)
        equal((shown["step"], shown["weights_sha256"]), (12, run.hashes()[0]), "what show tells")
        culm("diff", *place, bench.path("run"))
        culm("export", *place, "--out", bench.path("w.safetensors"))
        culm("diff", bench.path("w.safetensors"), bench.path("run", "model.safetensors"))
        culm("show", *place, "--step", "11", code=3)
        culm("prune", *place, "--keep", "1")
        equal((listed(bench, *place), listed(bench, bench.path("run"))), ({12: True}, {4: True, 8: True, 12: True}), "what is left")
        culm("prune", bench.path("run"), "--keep", "2")
        equal(listed(bench, bench.path("run")), {8: True, 12: True}, "what is left of the run's")
        culm("prune", bench.path("run"), "--keep", "0", code=2)
    equal(os.listdir(bench.path("tmp")), [], "folders left behind")


def conforms(bench, **how):
    """What every storage keeps (tests/unit/cloud/storage.c), on a bucket."""
    program = os.path.join(os.path.dirname(bench.culm), "../../tests/unit/cloud/unit_cloud_storage")
    if not os.path.exists(program):
        raise Skipped("tests/unit/cloud/unit_cloud_storage is not built")
    with s3_standin.S3(**how) as s3:
        env = {**s3_standin.ENVIRONMENT, "CULM_TEST_STORAGE": PLACE, "CULM_TEST_ENDPOINT": s3.endpoint}
        if not how.get("conditions", True):
            env["CULM_TEST_NO_CONDITIONS"] = "1"
        if how.get("every"):
            env["CULM_TEST_UNANSWERED"] = "1"
        ended = subprocess.run([program], env=env, capture_output=True, text=True, check=False)
        equal(ended.returncode, 0, f"exit code; {ended.stdout[-500:]} {ended.stderr[-800:]}")
        check(s3.counts["put"] > 10 and s3.counts["pages"] > 3, f"requests: {s3.counts}")


def on_server(bench, place, endpoint, env):
    """What every storage keeps, and a run that goes on in another folder."""
    program = os.path.join(os.path.dirname(bench.culm), "../../tests/unit/cloud/unit_cloud_storage")
    ended = subprocess.run([program], env={**env, "CULM_TEST_STORAGE": place, "CULM_TEST_ENDPOINT": endpoint}, capture_output=True, text=True,
                           check=False)
    equal(ended.returncode, 0, f"exit code; {ended.stdout[-500:]} {ended.stderr[-800:]}")
    config = kept_in(changed(tiny_config(cases.text), steps=20), place + "/of-a-run", endpoint=endpoint)
    first = bench.trained(start(bench, config, "run", env=env))
    equal([event["message"] for event in first.all("stored") if "message" in event], [], "what failed")
    run = bench.trained(start(bench, config, "new", "--resume", "--set", "steps=24", env=env), "new")
    equal(run.one("resumed")["step"], 20, "the step from which it goes on")
    equal(listed(bench, place + "/of-a-run", "--endpoint", endpoint, env=env)[24], True, "the last one is there")


# One request at a time: between its look for an object (If-None-Match) and its write moto holds no lock, so that of rivals two may win.
MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
import boto3
moto, alone = DomainDispatcherApplication(create_backend_app), threading.Lock()
def serve(environ, start_response):
    with alone:
        return moto(environ, start_response)
server = make_server("127.0.0.1", 0, serve, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
endpoint = "http://127.0.0.1:%d" % server.server_port
boto3.client("s3", endpoint_url=endpoint, region_name=sys.argv[2]).create_bucket(
    Bucket=sys.argv[1], CreateBucketConfiguration={"LocationConstraint": sys.argv[2]})
print(endpoint, flush=True)
sys.stdin.read()
"""


def moto(bench):
    """The same, and a run, on moto (PyPI), which knows all of S3."""
    python = next((path for path in (os.environ.get("CULM_MOTO_PYTHON"), sys.executable, shutil.which("python3")) if path and not subprocess.run(
        [path, "-c", "import moto.server, boto3"], capture_output=True, check=False).returncode), None)
    if not python:
        raise Skipped("CULM_MOTO_PYTHON names no Python that has moto[server] and boto3")
    env = s3_standin.ENVIRONMENT
    with open(bench.path("moto.log"), "wb") as log, subprocess.Popen(
            [python, "-c", MOTO, s3_standin.BUCKET, s3_standin.REGION], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env,
            text=True) as server:
        try:
            endpoint = next((line.strip() for line in server.stdout if line.startswith("http://")), None)
            check(endpoint, "moto does not begin")
            on_server(bench, PLACE, endpoint, env)
        finally:
            server.stdin.close()


def radosgw(bench):
    """The same on Ceph's radosgw, which checks signatures."""
    env = {**s3_standin.ENVIRONMENT, "AWS_ACCESS_KEY_ID": radosgw_server.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": radosgw_server.SECRET_KEY,
           "AWS_REGION": radosgw_server.REGION}
    del env["AWS_SESSION_TOKEN"]
    try:
        with radosgw_server.Radosgw(bench.path("ceph")) as server:
            on_server(bench, f"s3://{radosgw_server.BUCKET}/runs/one", server.endpoint, env)
            ended = bench.run("ckpt", "list", f"s3://{radosgw_server.BUCKET}/x", "--endpoint", server.endpoint, env={**env, "AWS_SECRET_ACCESS_KEY": "no"})
            equal((ended.code, "SignatureDoesNotMatch" in ended.err), (3, True), f"a wrong secret: {ended.err!r}")
    except radosgw_server.Unavailable as reason:
        raise Skipped(str(reason)) from None


cases.add("a launcher that is killed while it sends, and its folder lost", cut_off, first=True)
cases.add("from folder to folder", back_and_forth)
cases.add("a launcher that is killed while it fetches", brought_twice)
cases.add("a graph network", graph_network, job="gnn")
cases.add("a storage that is away", away, seconds=8)
cases.add("the end waits for the last one", waits_at_the_end)
cases.add("keys that expire", new_keys)
cases.add("of another run", of_another_run)
cases.add("damaged", damaged)
cases.add("culm ckpt", commands, first=True)
cases.add("what every storage keeps", conforms)
cases.add("what every storage keeps: every fifth request fails", lambda bench: conforms(bench, every=5, page=2), seconds=8)
cases.add("what every storage keeps: without conditions", lambda bench: conforms(bench, conditions=False, page=1))
cases.add("moto", moto, seconds=8)
cases.add("radosgw", radosgw, seconds=20)
for name, text, code, change, env in [
        ("a wrong secret", "403 SignatureDoesNotMatch", 3, {}, {"AWS_SECRET_ACCESS_KEY": "wrong"}),
        ("no keys", "AWS_ACCESS_KEY_ID", 3, {}, {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "HOME": "/nowhere"}),
        ("half of the keys", "AWS_SECRET_ACCESS_KEY", 3, {}, {"AWS_SECRET_ACCESS_KEY": None}),
        ("no such bucket", "NoSuchBucket", 3, {"to": "s3://another-bucket/x"}, {}),
        ("another region", "SignatureDoesNotMatch", 3, {"region": "us-west-2"}, {}),
        ("only to be read", "AccessDenied", 3, {"denied": True}, {}),
        ("no place", "is no place in S3", 3, {"to": "s3://Bad_Bucket/x"}, {}),
        ("another service", "neither a folder nor in S3", 3, {"to": "gs://bucket/x"}, {}),
        ("nobody there", "connect to server", 1, {"endpoint": "http://127.0.0.1:9"}, {}),
        ("no URL", "checkpoint.endpoint", 3, {"endpoint": "localhost:80"}, {}),
        ("no region", "checkpoint.region", 3, {"region": "no region"}, {})]:
    cases.add(f"refused: {name}", refuse, text, code, change, env)

if __name__ == "__main__":
    cases.run()
