"""What the system tests of runs that no machine has to stay for share: a real etcd, machines, and a run of several reigns.

Each machine is a folder with a copy of the data of its own, at another time, and a process of `culm node`; what it has is lost with it. Whoever leads
writes events into its own folder, so that a run looks into all of them.
"""
import base64
import glob
import json
import os
import signal

from etcd import Etcd, Unavailable
from harness import Skipped, changed, check, children_of, equal, read_events, wait_until
from s3_standin import BUCKET, ENVIRONMENT

LIMIT_S = 120


class Machine:
    """A folder with a copy of the data, and an agent there."""

    def __init__(self, run, name, host=None):
        self.run, self.name, self.folder, self.host = run, name, run.bench.path(name), host
        os.mkdir(self.folder)
        run.give(self.folder)
        self.process = None

    def start(self, *words, cwd):
        """On its host, where there are some."""
        plain = self.run.bench.culm
        if self.host is not None:
            self.run.hosts.run_on(self.host, self.run.bench)
        process = self.run.bench.start(*words, cwd=cwd, env=self.run.env_of(self))
        self.run.bench.culm = plain
        return process

    def create(self, config, *words):
        """The one that creates the run, or resumes it."""
        self.process = self.start(*self.run.command, self.run.bench.config(config, "run.yaml"), "--cluster", self.run.place(), "--name", "one",
                                  "--token-file", self.run.token, "--out", os.path.join(self.folder, "run"), *words, cwd=self.folder)
        return self

    def node(self, workers, *words):
        self.process = self.start("node", "--join", self.run.place(), "--name", "one", "--token-file", self.run.token, "--workers", workers,
                                  "--dir", os.path.join(self.folder, "kept"), *words, cwd=self.folder)
        return self

    def kill(self):
        """It vanishes with all its processes."""
        for pid in [self.process.pid, *children_of(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended meanwhile
                pass
        self.run.bench.end(self.process)

    def leading(self):
        """The process here that leads, or has led last: it has locked its folder."""
        newest = max(self.reigns(), key=os.path.getmtime)
        with open(os.path.join(os.path.dirname(newest), "lock"), encoding="ascii") as file:
            return int(file.read())

    def end(self, code):
        ended = self.run.bench.end(self.process)
        equal(ended.code, code, f"exit code of {self.name}; {ended.err[-600:]!r}")
        return ended.err

    def reigns(self):
        return sorted(glob.glob(os.path.join(self.folder, "run", "events.jsonl")) + glob.glob(os.path.join(self.folder, "kept", "lead-*", "events.jsonl")))


class ClusterRun:
    """A run at a store of keys; a class below says which."""

    command = ()   # that creates it
    unit = "step"  # what its events are of

    def give(self, folder):
        """Puts a copy of the data there, of another time."""
        raise NotImplementedError

    def __init__(self, bench, config, *words, members=1, hosts=None, s3=None, spread=()):
        """`hosts`: machines are on these, and the etcd is on the first; `spread`: or each of its members on one of its own."""
        self.bench, self.hosts, self.env = bench, hosts, ENVIRONMENT if s3 else None
        place = {"checkpoint__to": f"s3://{BUCKET}/runs/one", "checkpoint__endpoint": s3.endpoint} if s3 else {"checkpoint__to": bench.path("store")}
        self.config = changed(config, **place)
        try:
            places = [(hosts.address(number), hosts.on(number)) for number in spread or ([0] if hosts else [])]
            host, on = places[0] if places else ("127.0.0.1", ())
            self.etcd = Etcd(bench.path("etcd"), members, host=host, on=on, spread=places if spread else ())
        except Unavailable as reason:
            raise Skipped(str(reason)) from None
        self.token = bench.path("run.token")
        equal(bench.run("keys", "new", self.token).code, 0, "exit code of keys new")
        self.machines, self.words = [], words

    def env_of(self, _machine):
        return self.env

    def place(self):
        return self.etcd.place("runs")

    def __enter__(self):
        self.etcd.__enter__()
        return self

    def __exit__(self, *what):
        for machine in self.machines:
            if machine.process.poll() is None:
                machine.kill()
            else:
                self.bench.end(machine.process)
        self.etcd.__exit__(*what)

    def create(self, *words, host=None):
        self.machines.append(Machine(self, f"machine-{len(self.machines)}", host).create(self.config, *words))
        self.wait(lambda: self.key("leader"), "that it leads")
        return self.machines[-1]

    def node(self, workers, *words, host=None):
        self.machines.append(Machine(self, f"machine-{len(self.machines)}", host).node(workers, *words))
        return self.machines[-1]

    def events(self):
        """Of every reign, in the order in which they began."""
        found = [read_events(path) for machine in self.machines for path in machine.reigns()]
        return [event for reign in found for event in reign]

    def told(self, name):
        return [event for event in self.events() if event["event"] == name]

    def wait(self, condition, what):
        wait_until(condition, LIMIT_S, what)

    def steps(self):
        return max((event[self.unit] for event in self.told(self.unit)), default=0)

    def more_steps(self, count=30):
        before = self.steps()
        self.wait(lambda: self.steps() >= before + count, f"{count} more steps after {before}")

    def terms(self):
        return sorted({event["term"] for event in self.told("leader")})

    def key(self, name):
        """The value of a key of the run; None: it is not there."""
        key = base64.b64encode(f"runs/one/{name}".encode()).decode()
        pairs = json.loads(self.etcd.post("kv/range", json.dumps({"key": key}))).get("kvs")
        return base64.b64decode(pairs[0]["value"]).decode() if pairs else None

    def put(self, name, value):
        words = {key: base64.b64encode(text.encode()).decode() for key, text in (("key", f"runs/one/{name}"), ("value", value))}
        self.etcd.post("kv/put", json.dumps(words))

    def remove(self, name):
        self.etcd.post("kv/deleterange", json.dumps({"key": base64.b64encode(f"runs/one/{name}".encode()).decode()}))

    def leader(self):
        """The machine that leads, by where it lets nodes in."""
        value = self.key("leader")
        if value is None:
            return None
        address = json.loads(value)["address"]
        for machine in self.machines:
            for path in machine.reigns():
                starts = [event for event in read_events(path) if event["event"] == "start"]
                if starts and starts[-1]["address"] == address:
                    return machine
        return None
