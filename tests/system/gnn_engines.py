#!/usr/bin/env python3
"""Workers of `culm gnn train` that are not processes of the launcher: functions of AWS Lambda, in a stand-in (lambda_standin.py).

usage: gnn_engines.py CULM [CASE...]

Wherever workers run and whatever becomes of them, the bits are those of one server and one parameter server. Each injected
failure must have happened.
"""
import json
import os
import shlex
import signal
import subprocess
import zipfile

import lambda_standin
from harness import Cases, Skipped, changed, check, equal, wait_until, workers_of

cases = Cases()

CONFIG = {
    "graph": {"path": None, "features": "as-is"},
    "model": {"layers": 2, "width": 8},
    "epochs": 150,
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 3,
    "eval": {"every": 0},
    "checkpoint": {"every": 0},
    "cluster": {"heartbeat_ms": 50, "suspect_ms": 1500},
}
LAMBDA = {"engine": "lambda", "lambda": {"function": "worker", "region": lambda_standin.REGION}}
LONG = {"epochs": 600}
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
               "AWS_ACCESS_KEY_ID": lambda_standin.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": lambda_standin.SECRET_KEY,
               "AWS_SESSION_TOKEN": lambda_standin.SESSION_TOKEN}


def graph(bench):
    with cases.lock:
        path = cases.shared.get("graph")
        if not path:
            path = os.path.join(cases.folder, "graph")
            subprocess.run([bench.culm, "gnn", "make", "sbm", "--vertices", "600", "--edges", "3000", "--classes", "4",
                            "--features", "12", "--out", path], check=True, stdout=subprocess.DEVNULL)
            cases.shared["graph"] = path
    return path


def train(bench, config, name, *words, code=0, env=None):
    path = bench.config(changed(config, graph__path=graph(bench)), f"{name}.yaml")
    ended = bench.run("gnn", "train", path, "--out", bench.path(name), "--json", *words, env=env or ENVIRONMENT)
    equal(ended.code, code, f"exit code; {ended.err.strip()[-300:]}")
    ended.dir = bench.path(name)
    ended.events = [json.loads(line) for line in ended.out.splitlines()]
    equal(workers_of(ended.dir), [], "processes left behind")
    return ended


def reference(bench, epochs):
    """Hashes of the undisturbed run of one server, one parameter server and no worker."""
    with cases.lock:
        if epochs in cases.shared:
            return cases.shared[epochs]
    run = train(bench, changed(CONFIG, epochs=epochs, servers=1, workers=0), f"reference-{epochs}")
    with cases.lock:
        cases.shared[epochs] = run.hashes()
    return run.hashes()


class Run:
    """A run whose workers are functions of a stand-in, which is told first what is to go wrong."""

    def __init__(self, bench, orders=(), changes=None, listen="127.0.0.1:0", command=None, look=None, **service):
        config = changed({**CONFIG, **LAMBDA}, **(changes or {}))
        command = command or [bench.culm, "gnn", "function"]
        wanted = reference(bench, config["epochs"])
        with lambda_standin.Lambda(command, log=bench.path("function.log"), **service) as self.service:
            for what, times in orders:
                self.service.order(what, times)
            self.run = train(bench, config, "run", "--listen", listen, "--set", f"lambda.endpoint={self.service.endpoint}")
            self.counts = self.service.counts
            for what, times in orders:
                equal(self.counts[what], times, f"how often there was '{what}'")
            if look:
                look(self.service)
        with open(bench.path("function.log"), encoding="utf-8") as file:
            self.log = file.read()
        bench.note(" ".join(f"{what}: {times}" for what, times in sorted(self.counts.items())))
        equal(self.run.hashes(), wanted, "weights_sha256 and state_sha256")
        equal(self.run.one("done")["rollbacks"], 0, "roll-backs")

    def workers(self):
        return [event for event in self.run.all("joined") if event["role"] == "worker"]

    def lost(self):
        return [event["role"] for event in self.run.all("lost")]

    def errors(self, text):
        return [event for event in self.run.all("error") if text in event["message"]]


# --- AWS Lambda, as it should be ---


def undisturbed(bench):
    it = Run(bench)
    equal([event["name"] for event in sorted(it.workers(), key=lambda event: event["node"])],
          ["lambda-3", "lambda-4", "lambda-5"], "workers")
    equal([event["cold"] for event in it.run.all("worker")], [True] * 3, "which workers were cold")
    equal((it.counts["dry"], it.counts["cold"], it.counts["invoked"]), (1, 3, 3), "dry, cold and all invocations")
    equal(it.lost(), [], "losses")
    equal(it.run.all("error"), [], "errors")
    check(sum(event["worker_bytes"] for event in it.run.all("epoch")) > 0, "no worker did anything")


def deadlines(bench):
    """Longer than a function may run: workers leave in time, and others take their places in the same warm processes."""
    it = Run(bench, changes=LONG, timeout_s=1.5)
    released = it.run.all("released")
    check(len(released) >= 3, f"{len(released)} workers left in time")
    equal(it.lost(), [], "losses")
    equal(it.counts["timed out"], 0, "functions killed at their time-out")
    check(it.counts["thaw"] > 0 and it.counts["warm"] > 0, "no process was frozen and used again")
    check(not all(event["cold"] for event in it.run.all("worker")), "no worker was warm")
    check(it.service.most <= 3, f"{it.service.most} invocations at once for three workers")


def one_at_a_time(bench):
    it = Run(bench, changes={**LONG, "lambda": {**LAMBDA["lambda"], "concurrency": 1}}, timeout_s=1.2)
    equal(it.service.most, 1, "invocations at once")
    check(len(it.workers()) >= 2, "there was one worker in all")


# --- and as it is ---


def wrong(bench, orders, said=None, **more):
    it = Run(bench, orders, **more)
    if said:
        check(it.errors(said), f"no event says {said!r}: {it.run.all('error')}")
    return it


def throttled(bench):
    wrong(bench, [("throttle", 5)], "429 TooManyRequestsException", changes=LONG)


def crowded(bench):
    """Fewer may run at once than are wanted: it asks until the run is over, and says so once."""
    it = Run(bench, changes=LONG, concurrency=2)
    check(it.counts["TooManyRequestsException"] > 1, "nothing was refused")
    equal(len(it.errors("429")), 1, "events that say so")
    equal(it.service.most, 2, "invocations at once")


def broken(bench):
    wrong(bench, [("service error", 4)], "500 ServiceException", changes=LONG)


def unanswered(bench):
    """The connection ends instead of an answer, again and again."""
    it = wrong(bench, [("lost answer", 3)], changes=LONG, timeout_s=1.5)
    equal(it.lost(), [], "losses")


def twice(bench):
    it = wrong(bench, [("twice", 3)])
    equal(len(it.workers()), 3, "workers")
    equal(it.log.count("turned away"), 3, "functions that were turned away")
    equal(it.lost(), [], "losses")


def crashed(bench):
    it = wrong(bench, [("crash", 2)], changes=LONG)
    equal(it.lost(), ["worker", "worker"], "losses")
    check(len(it.workers()) >= 4, "they were not replaced")


def stuck(bench):
    """A process that does nothing any more: missed by its silence, and killed at its time-out."""
    it = wrong(bench, [("stuck", 1)], changes={"epochs": 1000}, timeout_s=2.5)
    equal(it.lost(), ["worker"], "losses")
    check(it.counts["timed out"] >= 1, "it was not killed")


def useless(bench):
    """A function that cannot start: servers do what workers would, and it is said why there are none."""
    it = Run(bench, command=["/bin/false"])
    check(it.errors("Runtime exited with error: 1"), f"nobody says why: {it.run.all('error')}")
    equal(it.workers(), [], "workers")


def too_small(bench):
    it = Run(bench, changes={"lambda": {**LAMBDA["lambda"], "memory_mb": 3008}}, memory_mb=512)
    check(it.errors("the function has 512 MB of memory, and lambda.memory_mb is 3008"), f"{it.run.all('error')}")


def slow_to_start(bench):
    """The run neither waits for functions nor minds when they come."""
    it = Run(bench, changes=LONG, cold_s=1.0)
    equal(len(it.workers()), 3, "workers")


def outlived(bench):
    """The launcher is killed: functions end by themselves, and the run goes on with processes."""
    config = changed({**CONFIG, **LAMBDA}, epochs=3000, checkpoint__every=50, graph__path=graph(bench))
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("function.log")) as service:
        path = bench.config(config)
        words = ["gnn", "train", path, "--out", bench.path("run"), "--json"]
        process = bench.start(*words, "--listen", "127.0.0.1:0", "--set", f"lambda.endpoint={service.endpoint}", env=ENVIRONMENT)
        wait_until(lambda: len(os.listdir(bench.path("run", "checkpoints"))) > 1 if os.path.isdir(bench.path("run", "checkpoints"))
                   else process.poll() is not None, 60, "two checkpoints")
        check(service.counts["invoked"] > 0, "no function was invoked")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until(lambda: service.counts["freeze"] >= service.counts["invoked"], 30, "the end of all invocations")
    ended = bench.run(*words, "--resume", "--set", "engine=local", "--set", "workers=1")
    equal(ended.code, 0, f"exit code; {ended.err[-300:]}")
    ended.events = [json.loads(line) for line in ended.out.splitlines()]
    equal(ended.hashes(), reference(bench, 3000), "weights_sha256 and state_sha256")


def stopped(bench):
    """Stopped by a signal, and resumed with the functions that there are still."""
    config = changed({**CONFIG, **LAMBDA}, epochs=900, checkpoint__every=50, graph__path=graph(bench))
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("function.log")) as service:
        words = ["gnn", "train", bench.config(config), "--out", bench.path("run"), "--json", "--listen", "127.0.0.1:0",
                 "--set", f"lambda.endpoint={service.endpoint}"]
        process = bench.start(*words, env=ENVIRONMENT)
        wait_until(lambda: process.poll() is not None or service.counts["cold"] == 3 and os.path.isdir(bench.path("run", "checkpoints")),
                   60, "functions, and a checkpoint")
        process.send_signal(signal.SIGTERM)
        equal(bench.end(process).code, 75, "exit code")
        wait_until(lambda: service.counts["freeze"] >= service.counts["invoked"], 30, "the end of all invocations")
        ended = bench.run(*words, "--resume", env=ENVIRONMENT)
        equal(ended.code, 0, f"exit code; {ended.err[-300:]}")
        equal((service.counts["cold"], service.counts["warm"]), (3, 3), "cold and warm invocations")
    ended.events = [json.loads(line) for line in ended.out.splitlines()]
    equal([event["cold"] for event in ended.all("worker")], [False] * 3, "which workers of the resumed run were cold")
    equal(ended.hashes(), reference(bench, 900), "weights_sha256 and state_sha256")


# --- the package of a function ---


def unpack(bench):
    """The package, written twice; and a folder with what is in it."""
    for name, zone in ("one.zip", "UTC"), ("two.zip", "Asia/Tokyo"):
        ended = bench.run("gnn", "bundle", "--out", bench.path(name), "--json", env={**os.environ, "TZ": zone})
        equal(ended.code, 0, f"exit code; {ended.err}")
    about = json.loads(ended.out)
    with open(bench.path("one.zip"), "rb") as one, open(bench.path("two.zip"), "rb") as two:
        check(one.read() == two.read(), "the same package has other bytes")
    folder = bench.path("root")
    with zipfile.ZipFile(bench.path("one.zip")) as package:
        equal(package.testzip(), None, "what is damaged")
        entries = package.infolist()
        package.extractall(folder)
    equal([entry.filename for entry in entries][:2], ["bootstrap", "culm"], "what comes first")
    equal(about["files"], len(entries), "files told")
    for entry in entries:
        equal((entry.create_system, entry.external_attr >> 16), (3, 0o100755), f"mode of {entry.filename}")
        os.chmod(os.path.join(folder, entry.filename), 0o755)
    bench.note(f"{len(entries)} files, {about['bytes'] / 1e6:.1f} MB, {about['zip_bytes'] / 1e6:.1f} MB as a zip")
    return folder


def alone(bench):
    """In a root that has nothing else: neither a shell nor a library of the system."""
    folder = unpack(bench)
    with open(os.path.join(folder, "bootstrap"), encoding="ascii") as file:
        last = file.read().splitlines()[-1]
    words = shlex.split(last.replace("$here", ""))
    equal(words[0], "exec", "how it starts")
    root = ["chroot", folder] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot", folder]
    if subprocess.run([*root, *words[1:-2], "version"], capture_output=True, check=False).returncode:
        if os.geteuid() != 0 and subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode:
            raise Skipped("neither root nor allowed to make a user namespace")
    it = Run(bench, command=[*root, *words[1:]])
    equal(len(it.workers()), 3, "workers")


def bootstrap(bench):
    """As AWS starts it; no library but its own is in the process."""
    folder = unpack(bench)

    def look(service):
        for environment in service.all.values():
            with open(f"/proc/{environment.process.pid}/maps", encoding="utf-8") as file:
                mapped = {line.split(maxsplit=5)[5].strip() for line in file if len(line.split(maxsplit=5)) == 6}
            strange = [path for path in mapped if path.startswith("/") and ".so" in path and not path.startswith(folder)]
            equal(strange, [], "libraries of the system")
            check(any("libc.so" in path for path in mapped), f"no library at all: {mapped}")

    libraries = f"/lib64:/usr/lib64:/var/runtime:/var/runtime/lib:{folder}:{folder}/lib:/opt/lib"
    it = Run(bench, command=[os.path.join(folder, "bootstrap")], folder=folder, look=look,
             environment={"LAMBDA_TASK_ROOT": folder, "LD_LIBRARY_PATH": libraries})
    equal(len(it.workers()), 3, "workers")


def not_written(bench):
    """A limit on the size of files: one line, and nothing is left."""
    command = f"ulimit -f 1000; trap '' XFSZ; exec {shlex.quote(bench.culm)} gnn bundle --out function.zip"
    ended = subprocess.run(["sh", "-c", command], cwd=bench.folder, capture_output=True, text=True, check=False)
    equal(ended.returncode, 4, f"exit code; {ended.stderr!r}")
    equal(len(ended.stderr.splitlines()), 1, f"lines of {ended.stderr!r}")
    equal(os.listdir(bench.folder), [], "what is left")


# --- who vouches for the stand-in ---


def outsiders(bench):
    """AWS's own clients meet on it: boto3, and awslambdaric. The one also invokes our function."""
    python = os.environ.get("CULM_LAMBDA_OUTSIDERS")
    if not python:
        raise Skipped("CULM_LAMBDA_OUTSIDERS names no Python that has boto3 and awslambdaric")
    here = os.path.dirname(os.path.abspath(__file__))
    command = [python, "-m", "awslambdaric", "lambda_outsiders.handler"]
    with lambda_standin.Lambda(command, folder=here, timeout_s=2, log=bench.path("function.log")) as service:
        ended = subprocess.run([python, os.path.join(here, "lambda_outsiders.py"), service.endpoint, lambda_standin.ACCESS_KEY,
                                lambda_standin.SECRET_KEY, lambda_standin.SESSION_TOKEN, lambda_standin.REGION],
                               capture_output=True, text=True, check=False)
        equal((ended.returncode, ended.stdout), (0, "ok\n"), f"what they say: {ended.stderr[-800:]}")
        equal((service.counts["timed out"], service.counts["warm"] > 0), (1, True), "time-outs, and warm invocations")
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("ours.log")) as service:
        script = ("import boto3, sys; r = boto3.client('lambda', endpoint_url=sys.argv[1]).invoke(FunctionName='worker', Payload=b'{}'); "
                  "print(r['FunctionError'], r['Payload'].read().decode())")
        ended = subprocess.run([python, "-c", script, service.endpoint], capture_output=True, text=True, check=False,
                               env={**ENVIRONMENT, "AWS_DEFAULT_REGION": lambda_standin.REGION})
    check(ended.stdout.startswith("Unhandled ") and '"Culm.Event"' in ended.stdout, f"{ended.stdout!r} {ended.stderr[-800:]}")


# --- what is refused before anything starts ---


def refused(bench, changes, text, code=3, words=("--listen", "127.0.0.1:0"), env=None, service=True):
    config = changed({**CONFIG, **LAMBDA}, graph__path=graph(bench), **changes)
    with lambda_standin.Lambda([bench.culm, "gnn", "function"]) as standin:
        if service:
            config["lambda"] = {"endpoint": standin.endpoint, **config["lambda"]}
        ended = bench.run("gnn", "train", bench.config(config), "--out", bench.path("run"), *words,
                          env={name: value for name, value in {**ENVIRONMENT, **(env or {})}.items() if value is not None})
        equal(standin.counts["invoked"], 0, "invocations")
    equal(ended.code, code, f"exit code; {ended.err!r}")
    equal(len(ended.err.splitlines()), 1, f"lines of {ended.err!r}")
    check(text in ended.err, f"{text!r} is not in {ended.err!r}")
    check(not os.path.exists(bench.path("run")), "something was written")


def lambda_of(**keys):
    return {"lambda": {**LAMBDA["lambda"], **keys}}


def refuse(name, *args, **more):
    cases.add(name, lambda bench: refused(bench, *args, **more))


cases.add("functions as workers", undisturbed)
cases.add("longer than a function may run", deadlines)
cases.add("one function at a time", one_at_a_time)
cases.add("throttled", throttled)
cases.add("fewer functions than workers", crowded)
cases.add("a service with errors", broken)
cases.add("answers that are lost", unanswered)
cases.add("invocations that are delivered twice", twice)
cases.add("functions that crash", crashed)
cases.add("a function that is stuck", stuck)
cases.add("a function that cannot start", useless)
cases.add("a function with too little memory", too_small)
cases.add("slow cold starts", slow_to_start)
cases.add("a launcher that is killed", outlived)
cases.add("a run that is stopped", stopped)
cases.add("outsiders vouch for the stand-in", outsiders)
cases.add("a package in an empty root", alone)
cases.add("a package as AWS starts it", bootstrap)
cases.add("a package that cannot be written", not_written)
refuse("no key", {}, "AWS_ACCESS_KEY_ID", env={"AWS_ACCESS_KEY_ID": None})
refuse("no secret", {}, "AWS_SECRET_ACCESS_KEY", env={"AWS_SECRET_ACCESS_KEY": ""})
refuse("a wrong secret", {}, "403 InvalidSignatureException", env={"AWS_SECRET_ACCESS_KEY": "wrong"})
refuse("no session token", {}, "403 UnrecognizedClientException", env={"AWS_SESSION_TOKEN": None})
refuse("no region", {"lambda": {"function": "worker"}}, "lambda.region")
refuse("no function", {"lambda": {"region": "eu-test-1"}}, "lambda.function")
refuse("another function", lambda_of(function="other"), "404 ResourceNotFoundException")
refuse("no name of a function", lambda_of(function="arn:aws:lambda:eu-test-1:1:function:worker"), "lambda.function")
refuse("no URL", lambda_of(endpoint="localhost:80"), "lambda.endpoint", service=False)
refuse("in the clear to others", lambda_of(endpoint="http://10.0.0.1:80"), "https://", service=False)
refuse("in the clear to a name like an address", lambda_of(endpoint="http://127.0.0.1.culm.invalid:80"), "https://", service=False)
refuse("nobody there", lambda_of(endpoint="http://127.0.0.1:1"), "127.0.0.1:1", code=4, service=False)
refuse("nowhere to call", {}, "--listen", words=())
refuse("open to others", {}, "--insecure", words=("--listen", "0.0.0.0:0"))
refuse("a fault of a function", {}, "engine: local", words=("--listen", "127.0.0.1:0", "--fault", "node=worker:0,epoch=3"))

if __name__ == "__main__":
    cases.run()
