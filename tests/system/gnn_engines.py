#!/usr/bin/env python3
"""Workers of `culm gnn train` that are not processes of the launcher: functions of AWS Lambda, in a stand-in (lambda_standin.py).

usage: gnn_engines.py CULM [CASE...]

Wherever workers run and whatever becomes of them, the bits are those of one server and one parameter server. Each injected
failure must have happened.
"""
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
import zipfile

import lambda_standin
from gnn_harness import ENDLESS, ONE, PATIENT, SILENT_MS, Graphs
from harness import Cases, Skipped, changed, check, equal, wait_until

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12")

CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 8},
    "intervals": 8,
    "servers": 2,
    "parameter_servers": 1,
    "workers": 3,
    "cluster": PATIENT,
    **ENDLESS,
}
LAMBDA = {"engine": "lambda", "lambda": {"function": "worker", "region": lambda_standin.REGION}}
ENVIRONMENT = lambda_standin.ENVIRONMENT
KEYS = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
LISTEN = "--listen", "127.0.0.1:0"
# More time after its time-out, for a function on a machine that is too busy to leave in time.
GRACE_S = 120


class Run:
    """A run whose workers are functions of a stand-in, which is told first what is to go wrong. It goes on until all of that has
    happened, and until(self) says so; then it is stopped, and its losses are those of a run without workers."""

    def __init__(self, bench, orders=(), until=None, changes=None, command=None, look=None, env=None, **service):
        config = changed({**CONFIG, **LAMBDA}, **(changes or {}))
        self.log_path = bench.path("function.log")
        with lambda_standin.Lambda(command or [bench.culm, "gnn", "function"], log=self.log_path, **service) as self.service:
            for what, times in orders:
                self.service.order(what, times)
            self.counts = self.service.counts
            self.run = graphs.going(bench, config, "run", *LISTEN, "--set", f"lambda.endpoint={self.service.endpoint}",
                                    env=env(self.service) if env else ENVIRONMENT)
            self.run.wait(lambda: all(self.counts[what] >= times for what, times in orders), f"all of {orders}")
            self.run.wait(lambda: (until or Run.work)(self), "what it is about")
            self.run.more_epochs()
            self.run.stop()
            for what, times in orders:
                equal(self.counts[what], times, f"how often there was '{what}'")
            if look:
                look(self.service)
        bench.note(" ".join(f"{what}: {times}" for what, times in sorted(self.counts.items())))
        equal(self.run.told("rollback"), [], "roll-backs")
        graphs.check_losses(bench, self.run, config)

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def workers(self):
        return self.run.came()

    def work(self):
        return len(self.workers()) >= 3 and len(self.run.told("worker")) >= 3 and any(
            event["worker_bytes"] for event in self.run.told("epoch"))

    def lost(self):
        return self.run.lost()

    def errors(self, text):
        return [event for event in self.run.told("error") if text in event["message"]]


# --- AWS Lambda, as it should be ---


def undisturbed(bench):
    it = Run(bench)
    equal([event["name"] for event in sorted(it.workers(), key=lambda event: event["node"])],
          ["lambda-3", "lambda-4", "lambda-5"], "workers")
    equal([event["cold"] for event in it.run.told("worker")], [True] * 3, "which workers were cold")
    equal((it.counts["dry"], it.counts["cold"], it.counts["invoked"]), (1, 3, 3), "dry, cold and all invocations")
    equal(it.lost(), [], "losses")
    equal(it.run.told("error"), [], "errors")


def deadlines(bench):
    """Longer than a function may run: workers leave in time, and others take their places in the same warm processes. On a busy machine
    some are late, though none is as late as one that does not leave: each of the first three does, and its function ends."""
    def first_have_left(it):
        first = sorted((event["node"], event["name"]) for event in it.workers())[:3]
        released = {event["node"] for event in it.run.told("released")}
        return len(first) == 3 and all(node in released and name in it.service.left for node, name in first)

    it = Run(bench, until=lambda it: first_have_left(it) and not all(event["cold"] for event in it.run.told("worker"))
             and it.counts["in time"] and it.counts["thaw"] and it.counts["warm"], timeout_s=2.5, grace_s=GRACE_S)
    equal(it.lost(), [], "losses")
    equal(it.counts["timed out"], 0, "functions that did not leave at their time-out")
    check(it.counts["in time"] > 0, "none left in time")
    check(it.counts["thaw"] > 0 and it.counts["warm"] > 0, "no process was frozen and used again")
    check(it.service.most <= 3, f"{it.service.most} invocations at once for three workers")


def one_at_a_time(bench):
    it = Run(bench, until=lambda it: len(it.workers()) >= 2, changes={"lambda": {**LAMBDA["lambda"], "concurrency": 1}}, timeout_s=3,
             grace_s=GRACE_S)
    equal(it.service.most, 1, "invocations at once")


def latest(bench):
    """The version that every function has, by its name: a '$' is not signed as it is."""
    Run(bench, changes={"lambda": {**LAMBDA["lambda"], "function": "worker:$LATEST"}})


# --- and as it is ---


def throttled(bench):
    Run(bench, [("throttle", 5)], lambda it: it.errors("429 TooManyRequestsException") and it.work())


def crowded(bench):
    """Fewer may run at once than are wanted: it asks until the run is over, and says so once."""
    it = Run(bench, until=lambda it: it.counts["TooManyRequestsException"] > 1 and len(it.workers()) >= 2, concurrency=2)
    equal(len(it.errors("429")), 1, "events that say so")
    equal(it.service.most, 2, "invocations at once")


def broken(bench):
    Run(bench, [("service error", 4)], lambda it: it.errors("500 ServiceException") and it.work())


def unanswered(bench):
    """The connection ends instead of an answer, again and again."""
    it = Run(bench, [("lost answer", 3)], timeout_s=2.5, grace_s=GRACE_S)
    equal(it.lost(), [], "losses")


def without_keys(**more):
    return {**{name: value for name, value in ENVIRONMENT.items() if name not in KEYS}, **more}


def keys_expire(bench, environment, write=None):
    """The keys that a run began with expire, and it goes on with those that their source has by then: a file, which others write
    some time later, or an endpoint. `environment` says which."""
    expired = []

    def until(it):
        if not expired and it.work():
            it.service.renew_keys()
            expired.append(time.monotonic())
        if write and it.errors("ExpiredTokenException"):
            write(it.service.keys)
        invoked = {name for at, name, _ in it.service.requests if expired and at > expired[0]}  # with other keys
        return it.errors("ExpiredTokenException") and invoked & {event["name"] for event in it.workers()}

    it = Run(bench, until=until, env=environment, timeout_s=2.5, grace_s=GRACE_S)
    check("asks again" in it.errors("ExpiredTokenException")[0]["message"], "it does not say that it asks again")
    equal(it.lost(), [], "losses")


def keys_of_file(bench):
    path = bench.path("keys")

    def write(keys):
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("[default]\naws_access_key_id = other\naws_secret_access_key = other\n\n# of a role\n[ standin ]\n"
                       "aws_access_key_id = {}\naws_secret_access_key={}\naws_session_token =   {}\n".format(*keys))
        os.replace(path + ".new", path)

    def environment(service):
        write(service.keys)
        return without_keys(AWS_SHARED_CREDENTIALS_FILE=path, AWS_PROFILE="standin")

    keys_expire(bench, environment, write)


def keys_of_environment(bench):
    """They cannot be replaced: the run goes on without workers, and says what can be done."""
    def until(it):
        if it.work() and not it.service.expired:
            it.service.renew_keys()
        return it.errors("ExpiredTokenException")

    it = Run(bench, until=until, timeout_s=2.5, grace_s=GRACE_S)
    check("--resume" in it.errors("ExpiredTokenException")[0]["message"], "it does not say what can be done")


def in_container(bench, service):
    return without_keys(AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{service.endpoint}/container", HOME=bench.path("nowhere"),
                        AWS_CONTAINER_AUTHORIZATION_TOKEN=lambda_standin.AUTHORIZATION)


def keys_of_container(bench):
    keys_expire(bench, lambda service: in_container(bench, service))


def keys_in_time(bench):
    """Of keys that expire soon others are taken before they do, so that no request is refused."""
    def environment(service):
        service.keys_last_s = 200
        return in_container(bench, service)

    def until(it):
        if it.work() and len(it.service.valid) == 1:
            it.service.renew_keys(expire=False)
        return len(it.service.valid) > 1 and it.counts["invoked by " + it.service.keys[0]]

    it = Run(bench, until=until, env=environment, timeout_s=2.5, grace_s=GRACE_S)
    equal(it.errors("403"), [], "errors that say that keys have expired")


def keys_of_instance(bench):
    keys_expire(bench, lambda service: without_keys(AWS_EC2_METADATA_SERVICE_ENDPOINT=service.endpoint + "/",
                                                    AWS_EC2_METADATA_DISABLED="false", HOME=bench.path("nowhere")))


def taken(bench):
    """A start is refused that was delivered all the same: when its worker has come, it is not asked for again."""
    def later(it):
        refused = [at for at, _, answer in it.service.requests if answer == "refused, and run"]
        return time.monotonic() > refused[0] + lambda_standin.LATER_S + 1

    it = Run(bench, [("refused, and run", 1)], lambda it: it.work() and later(it))
    name = next(name for _, name, answer in it.service.requests if answer == "refused, and run")
    asked = [at for at, one, _ in it.service.requests if one == name]
    if any(event["t_ms"] < 1000 * (lambda_standin.LATER_S - 1) for event in it.workers() if event["name"] == name):
        equal(len(asked), 1, f"how often {name} was asked for")
    else:
        bench.note("its worker came so late that it may have been asked for twice")


def twice(bench):
    it = Run(bench, [("twice", 3)], lambda it: it.work() and it.log().count("turned away") >= 3)
    equal(len(it.workers()), 3, "workers")
    equal(it.log().count("turned away"), 3, "functions that were turned away")
    equal(it.lost(), [], "losses")


def after_work(count, signal_number, then):
    """When workers are at work, so many of their processes get the signal; then that."""
    hit = []

    def until(it):
        if not hit and it.work():
            hit.extend(list(it.service.all.values())[:count])
            for environment in hit:
                environment.process.send_signal(signal_number)
        return hit and then(it)

    return until


def crashed(bench):
    it = Run(bench, until=after_work(2, signal.SIGKILL, lambda it: len(it.lost()) >= 2 and len(it.workers()) >= 5))
    equal(it.lost(), ["worker", "worker"], "losses")


def stuck(bench):
    """A process that does nothing any more: missed by its silence, and killed at its time-out. Until then it counts: nobody may take
    its place, though the run knows that it is lost, or there would be more functions than are paid for."""
    it = Run(bench, until=after_work(1, signal.SIGSTOP, lambda it: it.lost() and it.counts["timed out"] >= 1),
             changes={"cluster__suspect_ms": SILENT_MS}, timeout_s=2 * SILENT_MS / 1000)
    equal(set(it.lost()), {"worker"}, "roles of who was lost")
    check(it.service.most <= 3, f"{it.service.most} invocations at once for three workers")


def useless(bench):
    """A function that cannot start: servers do what workers would, and it is said why there are none."""
    it = Run(bench, until=lambda it: it.errors("Runtime exited with error: 1"), command=["/bin/false"])
    equal(it.workers(), [], "workers")


def too_small(bench):
    Run(bench, until=lambda it: it.errors("the function has 512 MB of memory, and lambda.memory_mb is 3008"),
        changes={"lambda": {**LAMBDA["lambda"], "memory_mb": 3008}}, memory_mb=512)


def slow_to_start(bench):
    """The run neither waits for functions nor minds when they come."""
    it = Run(bench, cold_s=1.0)
    equal(len(it.workers()), 3, "workers")


def outlived(bench):
    """The launcher is killed: functions end by themselves, and the run goes on with processes."""
    config = changed({**CONFIG, **LAMBDA}, checkpoint__every=50)
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("function.log")) as service:
        going = graphs.going(bench, config, "run", *LISTEN, "--set", f"lambda.endpoint={service.endpoint}", env=ENVIRONMENT)
        going.wait(lambda: len(going.told("checkpoint")) >= 2 and going.came(), "two checkpoints, and a function")
        going.process.kill()
        going.process.wait()
        wait_until(lambda: service.counts["freeze"] >= service.counts["invoked"], 120, "the end of all invocations")
    before = len(going.told("epoch"))
    resumed = graphs.going(bench, config, "run", "--resume", "--set", "engine=local", "--set", "workers=1")
    resumed.wait(lambda: len(resumed.told("epoch")) >= before + 60, "epochs after the resume")
    resumed.stop()
    graphs.check_losses(bench, resumed, config, again=True)


def stopped(bench, how):
    """Stopped by a signal or killed, and resumed with the functions that there are still; they have what they had."""
    config = changed({**CONFIG, **LAMBDA}, checkpoint__every=2)
    log = bench.path("function.log")
    with lambda_standin.Lambda([bench.culm, "gnn", "function"], log=log) as service:
        words = *LISTEN, "--set", f"lambda.endpoint={service.endpoint}"
        going = graphs.going(bench, config, "run", *words, env=ENVIRONMENT)
        going.wait(lambda: len(going.told("worker")) == 3, "three functions")
        going.more_epochs(20)
        if how == "kill":
            going.process.kill()
            going.end(-9)
        else:
            going.stop()
        wait_until(lambda: service.counts["freeze"] >= service.counts["invoked"], 120, "the end of all invocations")
        before = len(going.told("epoch"))
        resumed = graphs.going(bench, config, "run", *words, "--resume", env=ENVIRONMENT)
        resumed.wait(lambda: len(resumed.told("worker")) == 6 and len(resumed.told("epoch")) > before, "the same functions again")
        resumed.stop()
        equal((service.counts["cold"], service.counts["warm"]), (3, 3), "cold and warm invocations")
    with open(log, encoding="utf-8") as file:
        equal(file.read().count("worked, warm"), 3, "functions that had everything ready")
    cold = [event["cold"] for event in resumed.told("worker")]
    equal(cold[:3], [True] * 3, "which workers were cold at first")
    check(not all(cold[3:]), "no worker had kept anything")
    graphs.check_losses(bench, resumed, config, again=how == "kill")


def other_graph(bench):
    """Two runs in the same warm functions, the second on other features in the same place, and nothing else another."""
    config = changed({**CONFIG, **LAMBDA}, epochs=20, graph__path=shutil.copytree(graphs.make(bench), bench.path("changing")))
    with lambda_standin.Lambda([bench.culm, "gnn", "function"]) as service:
        words = *LISTEN, "--set", f"lambda.endpoint={service.endpoint}"
        first = graphs.train(bench, config, "first", *words, env=ENVIRONMENT)
        wait_until(lambda: service.counts["freeze"] >= service.counts["invoked"], 120, "the end of all invocations")
        path = os.path.join(config["graph"]["path"], "features.npy")
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            head = data.index(b"\n") + 1
            data[head:] = data[head:][::-1]
            for at in range(head, len(data), 4):
                data[at:at + 4] = data[at:at + 4][::-1]
            file.seek(0)
            file.write(data)
        second = graphs.train(bench, config, "second", *words, env=ENVIRONMENT)
    alone = graphs.train(bench, {**config, **ONE, "engine": "local"}, "alone")
    check(first.hashes() != alone.hashes(), "the other features make no difference")
    equal(second.hashes(), alone.hashes(), "weights of the second run")


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
    config = changed({**CONFIG, **LAMBDA}, **changes)
    graphs.make(bench)
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


def refuse(name, *args, first=False, **more):
    cases.add(name, lambda bench: refused(bench, *args, **more), first=first)


cases.add("functions as workers", undisturbed, first=True)
cases.add("functions by $LATEST", latest)
cases.add("longer than a function may run", deadlines, seconds=12, first=True)
cases.add("one function at a time", one_at_a_time)
cases.add("throttled", throttled, first=True)
cases.add("fewer functions than workers", crowded)
cases.add("a service with errors", broken)
cases.add("answers that are lost", unanswered)
cases.add("invocations that are delivered twice", twice, first=True)
cases.add("a start that was refused and delivered", taken)
cases.add("keys of a file that expire", keys_of_file, seconds=8, first=True)
cases.add("keys of a container that expire", keys_of_container, seconds=8)
cases.add("keys in the environment that expire", keys_of_environment, seconds=8)
cases.add("keys that are about to expire", keys_in_time, seconds=8)
cases.add("keys of an instance that expire", keys_of_instance, seconds=8)
cases.add("functions that crash", crashed, first=True)
cases.add("a function that is stuck", stuck, seconds=15)
cases.add("a function that cannot start", useless)
cases.add("a function with too little memory", too_small, first=True)
cases.add("slow cold starts", slow_to_start)
cases.add("a launcher that is killed", outlived)
cases.add("a run that is stopped", stopped, "stop", first=True)
cases.add("a run whose launcher is killed", stopped, "kill")
cases.add("another graph in the same functions", other_graph)
cases.add("outsiders vouch for the stand-in", outsiders)
cases.add("a package in an empty root", alone, kind="computes", seconds=9, first=True)
cases.add("a package as AWS starts it", bootstrap, kind="computes", seconds=9)
cases.add("a package that cannot be written", not_written)
refuse("no key", {}, "AWS_ACCESS_KEY_ID", env={"AWS_ACCESS_KEY_ID": None})
refuse("no secret", {}, "AWS_SECRET_ACCESS_KEY", env={"AWS_SECRET_ACCESS_KEY": ""})
refuse("no keys anywhere", {}, "write them to ~/.aws/credentials", env={**dict.fromkeys(KEYS), "HOME": "/nowhere"})
refuse("no such keys in the file", {}, "[none]", env={**dict.fromkeys(KEYS), "HOME": "/nowhere", "AWS_PROFILE": "none",
                                                       "AWS_SHARED_CREDENTIALS_FILE": os.path.abspath(__file__)})
refuse("keys in the clear from others", {}, "AWS_CONTAINER_CREDENTIALS_FULL_URI",
       env={**dict.fromkeys(KEYS), "HOME": "/nowhere", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://10.0.0.1/keys"})
refuse("nobody who gives keys", {}, "127.0.0.1:1", code=4,
       env={**dict.fromkeys(KEYS), "HOME": "/nowhere", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/keys"})
refuse("a wrong secret", {}, "403 InvalidSignatureException", env={"AWS_SECRET_ACCESS_KEY": "wrong"}, first=True)
refuse("no session token", {}, "403 UnrecognizedClientException", env={"AWS_SESSION_TOKEN": None})
refuse("no region", {"lambda": {"function": "worker"}}, "lambda.region")
refuse("no function", {"lambda": {"region": "eu-test-1"}}, "lambda.function")
refuse("another function", lambda_of(function="other"), "404 ResourceNotFoundException")
refuse("no name of a function", lambda_of(function="arn:aws:lambda:eu-test-1:1:function:worker"), "lambda.function")
refuse("no URL", lambda_of(endpoint="localhost:80"), "lambda.endpoint", service=False)
refuse("in the clear to others", lambda_of(endpoint="http://10.0.0.1:80"), "https://", service=False)
refuse("in the clear to a name like an address", lambda_of(endpoint="http://127.0.0.1.culm.invalid:80"), "https://", service=False)
refuse("nobody there in IPv6", lambda_of(endpoint="http://[::1]:1/path"), "[::1]:1", code=4, service=False)
refuse("nobody there", lambda_of(endpoint="http://127.0.0.1:1"), "127.0.0.1:1", code=4, service=False)
refuse("nowhere to call", {}, "--listen", words=())
refuse("a fault of a function", {}, "engine: local", words=("--listen", "127.0.0.1:0", "--fault", "node=worker:0,epoch=3"))

if __name__ == "__main__":
    cases.run()
