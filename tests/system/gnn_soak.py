#!/usr/bin/env python3
"""A graph network that is struck again and again, for as long as wanted, and what it cost.

usage: gnn_soak.py CULM [SECONDS]

Trains a graph network with three servers, two parameter servers and two workers, which two servers and two workers join in
folders of their own, each with a copy of the graph. Every 15 seconds on average (CULM_SOAK_EVERY_S) a blow falls: some of them,
whoever they are, are killed, frozen until they are put out, or frozen for a moment; now and then all who hold the weights are
killed together. Who came from elsewhere comes again. Then the run is stopped, resumed for some more epochs, and compared with one
that nothing befell: each loss and the weights have the same bits. It goes back to a checkpoint only when all who held the weights
were lost, it never stands still for long, and its launcher does not grow.
"""
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SEED = int(os.environ.get("CULM_SOAK_SEED", "1"))
EVERY_S = float(os.environ.get("CULM_SOAK_EVERY_S", "15"))
SUSPECT_MS = 3000
STANDSTILL_S = 180  # without an epoch: that is a fault, on whatever machine
MORE_EPOCHS = 10    # after the resume
GROWTH_MB = 8       # of the launcher, at most, beside what its summary keeps of each epoch
EPOCH_MB = 0.00016
GRAPH = ["--vertices", "6000", "--edges", "30000", "--classes", "6", "--features", "32", "--seed", "3"]
CONFIG = {
    "graph": {"path": "graph", "features": "as-is"},  # wherever a node runs
    "model": {"arch": "gcn", "layers": 3, "width": 32, "dropout": 0.3},
    "epochs": 10 ** 8,
    "intervals": 12,
    "servers": 3,
    "parameter_servers": 2,
    "workers": 2,
    "seed": 5,
    "eval": {"every": 50},
    "checkpoint": {"every": 40, "keep": 2},
    "cluster": {"heartbeat_ms": 100, "suspect_ms": SUSPECT_MS, "kill_suspect_ms": 4000, "replace_ms": 500, "max_nodes": 24},
}
ELSEWHERE = ["server", "worker", "server", "worker"]


def write(path, config):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


class Told:
    """What the run has said so far."""

    def __init__(self, path):
        self.path, self.at, self.rest = path, 0, b""
        self.alive = {}                 # role and pid by node; pid None: from elsewhere
        self.holders, self.full = set(), set()  # in the last view; who has had the weights since a commit
        self.epoch, self.again, self.epoch_s = 0, 0, time.monotonic()
        self.loss = {}
        self.count = collections.Counter()
        self.causes = collections.Counter()
        self.pauses, self.wrong = [], []
        self.address = None

    def read(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                data = file.read()
        except FileNotFoundError:
            return
        self.at += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            self.hear(json.loads(line))

    def hear(self, event):
        name = event["event"]
        self.count[name] += 1
        if name == "start":
            self.address = event.get("address")
            self.alive, self.holders, self.full = {}, set(), set()
        elif name == "joined":
            self.alive[event["node"]] = event["role"], event.get("pid")
        elif name in ("lost", "released"):
            self.alive.pop(event["node"], None)
            self.full.discard(event["node"])
            if name == "lost":
                self.causes[event["cause"]] += 1
        elif name == "view":
            self.holders = set(event["holders"])
            self.full &= self.holders
        elif name == "epoch":
            if self.loss.setdefault(event["epoch"], event["loss_bits"]) != event["loss_bits"]:
                self.wrong.append(f"epoch {event['epoch']} has another loss when it is done again")
            self.again += event["epoch"] <= self.epoch
            self.epoch, self.epoch_s, self.full = event["epoch"], time.monotonic(), self.holders & set(self.alive)
        elif name == "recovered":
            self.pauses.append(event["pause_ms"])
        elif name == "rollback":
            if self.full or event["reason"] != "no copy of the weights is left":
                self.wrong.append(f"a roll-back from {event['from_epoch']} to {event['to_epoch']} ({event['reason']}), and nodes {sorted(self.full)} had the weights")
        elif name == "error":
            print(f"  error: {event['message'][:200]}", flush=True)


class Newcomer:
    """A node in a folder of its own, which comes again some time after it has ended."""

    def __init__(self, culm, folder, number, role):
        self.culm, self.role = culm, role
        self.folder = os.path.join(folder, f"away-{number}")
        self.token = os.path.join(folder, "run", "token")
        os.mkdir(self.folder)
        shutil.copytree(os.path.join(folder, "graph"), os.path.join(self.folder, "graph"))
        self.process, self.again_s, self.ends = None, 0.0, collections.Counter()

    def tend(self, address, draw):
        now = time.monotonic()
        if self.process and self.process.poll() is not None:
            self.ends[self.process.returncode] += 1
            self.process, self.again_s = None, now + draw.uniform(0, 10)
        elif not self.process and now >= self.again_s:
            with open(os.path.join(self.folder, "log"), "ab") as log:
                self.process = subprocess.Popen([self.culm, "gnn", self.role, "--join", address, "--token-file", self.token], cwd=self.folder,
                                                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)


class Soak:
    def __init__(self, culm, folder, seconds):
        self.culm, self.folder, self.seconds = culm, folder, seconds
        self.draw = random.Random(SEED)
        self.told = Told(os.path.join(folder, "run", "events.jsonl"))
        self.thaws = []  # when, and whom
        self.blows = collections.Counter()
        self.sizes = []
        made = subprocess.run([culm, "gnn", "make", "sbm", *GRAPH, "--out", os.path.join(folder, "graph")], capture_output=True, check=False)
        if made.returncode:
            sys.exit(made.stderr.decode())
        write(os.path.join(folder, "run.yaml"), CONFIG)
        write(os.path.join(folder, "plain.yaml"), {**CONFIG, "servers": 1, "parameter_servers": 1, "workers": 0, "cluster": {"suspect_ms": 600000},
                                                   "checkpoint": {"every": 0}})
        self.newcomers = [Newcomer(culm, folder, number, role) for number, role in enumerate(ELSEWHERE)]

    def train(self, out, *words):
        with open(os.path.join(self.folder, f"{out}.err"), "ab") as err:
            return subprocess.Popen([self.culm, "gnn", "train", f"{out}.yaml", "--out", out, "--json", *words], cwd=self.folder,
                                    stdout=subprocess.DEVNULL, stderr=err, stdin=subprocess.DEVNULL)

    def size(self, process):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            anonymous = next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))
        self.sizes.append((anonymous / 1024, len(os.listdir(f"/proc/{process.pid}/fd"))))

    # --- blows ---

    def victims(self):
        """Pids of those who can be struck, by what they are."""
        found = collections.defaultdict(list)
        for node, (role, pid) in sorted(self.told.alive.items()):
            if pid:
                found[role].append((node, pid))
        for newcomer in self.newcomers:
            if newcomer.process and newcomer.process.poll() is None:
                found[f"{newcomer.role} from elsewhere"].append((None, newcomer.process.pid))
        return found

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def strike(self):
        found = self.victims()
        if not found:
            return
        dice = self.draw.random()
        if dice < 0.06:  # whoever has the weights, together; those from elsewhere are not known by their pids
            pids = [self.told.alive[node][1] for node in sorted(self.told.holders) if self.told.alive.get(node, (None, None))[1]]
            for number in signal.SIGSTOP, signal.SIGKILL:
                for pid in pids:
                    self.send(pid, number)
            self.blows["all holders killed"] += 1
            return
        for _ in range(1 if dice < 0.8 else 2 if dice < 0.95 else 3):
            what = self.draw.choice(sorted(found))
            _, pid = self.draw.choice(found[what])
            how = self.draw.random()
            if how < 0.55:
                self.blows[f"{what} killed"] += 1
                self.send(pid, signal.SIGKILL)
                continue
            long = how < 0.8
            self.blows[f"{what} frozen"] += long
            self.blows["naps"] += not long
            # Some wake up before they are killed, and are told to end; those from elsewhere are killed by nobody.
            rest_s = self.draw.uniform(1.2, 4.0) * SUSPECT_MS / 1000 if long else self.draw.uniform(0.05, 0.5) * SUSPECT_MS / 1000
            self.send(pid, signal.SIGSTOP)
            self.thaws.append((time.monotonic() + rest_s, pid))

    def thaw(self, all_of_them=False):
        now, left = time.monotonic(), []
        for at, pid in self.thaws:
            if all_of_them or now >= at:
                self.send(pid, signal.SIGCONT)
            else:
                left.append((at, pid))
        self.thaws = left

    # --- the run ---

    def disturbed(self):
        process = self.train("run", "--listen", "127.0.0.1:0")
        begun = next_s = time.monotonic()
        while process.poll() is None:
            self.told.read()
            now = time.monotonic()
            if self.told.epoch < 5:
                next_s = now + self.draw.expovariate(1 / EVERY_S)
                begun = now
            elif now - begun > self.seconds:
                break
            elif now >= next_s:
                self.strike()
                next_s = now + self.draw.expovariate(1 / EVERY_S)
            if now - self.told.epoch_s > STANDSTILL_S:
                self.told.wrong.append(f"no epoch for {STANDSTILL_S} s")
                break
            if self.told.epoch >= 5 and int(now - begun) // 60 >= len(self.sizes):
                self.size(process)
                print(f"  {now - begun:.0f} s: epoch {self.told.epoch}, {self.told.count['lost']} lost, {self.told.count['rollback']} roll-backs, "
                      f"launcher {self.sizes[-1][0]:.1f} MB, {self.sizes[-1][1]} descriptors", flush=True)
            if self.told.address:
                for newcomer in self.newcomers:
                    newcomer.tend(self.told.address, self.draw)
            self.thaw()
            time.sleep(0.02)
        if process.poll() is None:
            self.size(process)
            self.thaw(all_of_them=True)
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(300)
        except subprocess.TimeoutExpired:
            process.kill()
            code = "none: a stop was not heard for 300 s"
        self.told.read()
        if code != 75:
            self.told.wrong.append(f"exit code {code}")
        return time.monotonic() - begun

    def end_newcomers(self):
        for newcomer in self.newcomers:
            if newcomer.process:
                try:
                    newcomer.ends[newcomer.process.wait(60)] += 1
                except subprocess.TimeoutExpired:
                    self.told.wrong.append(f"a {newcomer.role} from elsewhere outlives the run")
                    newcomer.process.kill()
                    newcomer.process.wait()

    def whole(self, out, epochs, *words):
        """A run to its end: what it says of it, and all its losses."""
        process = self.train(out, *words, "--set", f"epochs={epochs}")
        if process.wait():
            self.told.wrong.append(f"{out} {' '.join(words)}: exit code {process.returncode}")
            return None, {}
        done, losses = None, {}
        with open(os.path.join(self.folder, out, "events.jsonl"), encoding="utf-8") as file:
            for line in file:
                event = json.loads(line)
                if event["event"] == "epoch":
                    losses[event["epoch"]] = event["loss_bits"]
                done = event if event["event"] == "done" else done
        return done, losses


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3600
    folder = tempfile.mkdtemp(prefix="culm-gnn-soak-")
    soak = Soak(os.path.abspath(sys.argv[1]), folder, seconds)
    told = soak.told
    print(f"seed {SEED} (CULM_SOAK_SEED), {seconds:.0f} s, a blow every {EVERY_S:g} s (CULM_SOAK_EVERY_S)", flush=True)
    took_s = soak.disturbed()
    soak.end_newcomers()
    epochs = told.epoch + MORE_EPOCHS
    done, losses = soak.whole("run", epochs, "--resume")
    wanted, plain = soak.whole("plain", epochs)
    same = bool(done and wanted and losses == plain and all(done[key] == wanted[key] for key in ("weights_sha256", "state_sha256")))
    print(f"blows: {', '.join(f'{count} {what}' for what, count in sorted(soak.blows.items()))}")
    print(f"{told.epoch} epochs in {took_s:.0f} s, {told.again} of them again; {told.count['lost']} nodes lost "
          f"({', '.join(f'{count} {cause}' for cause, count in sorted(told.causes.items()))}), {told.count['fenced']} woke up and were told to end, "
          f"{told.count['rollback']} roll-backs, {told.count['checkpoint']} checkpoints")
    print(f"pause per loss: median {statistics.median(told.pauses or [0]):.1f} ms, longest {max(told.pauses, default=0):.1f} ms, over {len(told.pauses)}")
    ends = sum((newcomer.ends for newcomer in soak.newcomers), collections.Counter())
    print(f"from elsewhere: {', '.join(f'{count} ended with {code}' for code, count in sorted(ends.items()))}")
    if soak.sizes:
        first, last = soak.sizes[min(1, len(soak.sizes) - 1)], soak.sizes[-1]
        print(f"launcher: {first[0]:.1f} MB, then {last[0]:.1f} MB; {first[1]} descriptors, then {last[1]}")
        if last[0] > first[0] + GROWTH_MB + EPOCH_MB * told.epoch or last[1] > first[1] + 32:
            told.wrong.append("the launcher grows")
    print(f"identical: {'yes' if same else 'no'}")
    for what in told.wrong:
        print(f"wrong: {what}")
    if same and not told.wrong:
        shutil.rmtree(folder)
        return
    print(f"files: {folder}")
    sys.exit(1)


main()
