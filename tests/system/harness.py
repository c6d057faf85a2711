"""What the system tests share: configurations, real runs of `culm train`, checks, and cases.

A script gathers cases with Cases.add. The runner (tests/runner) imports all scripts and runs their cases, each in a process of its
own that is forked from it; a script that is started by itself runs its own cases in the same way. Cases share nothing in memory:
what several need and is dear to make, they make by Cases.once. Each case gets a folder, which is kept when the case fails.
"""
import atexit
import contextlib
import copy
import errno
import fcntl
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PHASES = ["load", "forward", "backward", "frc", "send", "reduce", "commit", "step", "transfer", "checkpoint"]
RUN_LIMIT_S = 300  # of what takes seconds: only what hangs may reach it, on whatever machine
NOBODY = 65534
# Kinds of cases, as tests/runner/pool.py has them; and the jobs of Culm that a script is about.
KINDS = ("computes", "waits", "alone")
JOBS = ("train", "edge", "gnn", "all")


class Failed(Exception):
    """A check that does not hold."""


class Skipped(Exception):
    """A case that this machine cannot run."""


def as_root(script, culm, name):
    """Runs one case again as root of a user namespace, where a small disk can be mounted. Its verdict is raised."""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, script, culm, name]
    if subprocess.run(command[:4] + ["true"], capture_output=True, check=False).returncode:
        raise Skipped("neither root nor allowed to make a user namespace")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode or not ended.stdout.endswith("\n1 passed, 0 failed, 0 skipped\n"):
        raise Failed(f"as root of a user namespace: {ended.stdout[-2000:]}")


class Disk:
    """A small tmpfs, for root only; needs_disk sees to that."""

    def __init__(self, bench, size_kb):
        self.path = bench.path("disk")
        os.mkdir(self.path)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", self.path], capture_output=True,
                                 check=False)
        if mounted.returncode:
            raise Skipped(f"root cannot mount a tmpfs here: {mounted.stderr.decode()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)

    def resize(self, size_kb):
        subprocess.run(["mount", "-i", "-o", f"remount,size={size_kb}k", "tmpfs", self.path], check=True)

    def fill(self):
        try:
            with open(os.path.join(self.path, "filler"), "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        except OSError:
            pass


def needs_disk(bench, script, name, function, *args):
    """A case that makes a Disk: again as root of a user namespace if this is not root."""
    if os.geteuid() == 0:
        function(bench, *args)
    else:
        as_root(script, bench.culm, name)


def check(holds, what):
    if not holds:
        raise Failed(what)


def equal(got, wanted, what):
    if got != wanted:
        raise Failed(f"{what}: {got!r} instead of {wanted!r}")


# --- configurations ---------------------------------------------------------------------------------------------------------


def make_text(path, size_bytes=60000, seed=7):
    """Words in lines, the same bytes on every machine."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(2, 8))) for _ in range(200)]
    out, length = [], 0
    while length < size_bytes:
        line = " ".join(draw.choice(words) for _ in range(10)) + ".\n"
        out.append(line)
        length += len(line)
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(out)[:size_bytes])


def tiny_config(text):
    """A model of fractions of a second: 3 layers of 32, context 16, as 2 pipelines of 3 stages."""
    return {
        "model": {"arch": "gpt2", "layers": 3, "width": 32, "heads": 2, "context": 16, "vocab": 256, "dropout": 0.1},
        "data": {"kind": "text", "path": text},
        "batch": {"global": 16, "micro": 2, "lanes": 4},
        "pipelines": 2,
        "stages": 3,
        "redundancy": "eager",
        "precision": "f32",
        "threads": 1,
        "seed": 3,
        "steps": 8,
        "optimizer": {"name": "adamw", "lr": 0.002, "beta1": 0.9, "beta2": 0.95, "eps": 1e-08, "weight_decay": 0.1,
                      "clip_norm": 1.0},
        "schedule": {"name": "cosine", "warmup": 3, "min_lr": 0.0001},
        "checkpoint": {"every": 4, "keep": 2},
        # Nobody is missed because the machine is busy, or stood still for seconds.
        "cluster": {"heartbeat_ms": 50, "suspect_ms": 60000, "kill_suspect_ms": 300, "replace_ms": 0,
                    "join_ms": 60000, "wait_ms": 120000, "max_nodes": 12},
    }


def changed(config, **changes):
    """A copy with keys set; a__b is key b of section a."""
    result = copy.deepcopy(config)
    for name, value in changes.items():
        at = result
        *sections, key = name.split("__")
        for section in sections:
            at = at[section]
        at[key] = value
    return result


def write_config(path, config):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)  # JSON is YAML
        file.write("\n")


# --- processes --------------------------------------------------------------------------------------------------------------


def workers_of(run_dir):
    """Pids of living processes that the launcher of the run there started: zombies do not count."""
    found = []
    wanted = os.fsencode(run_dir)
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        ours = words[1:3] == [b"worker", wanted] or (words[1:2] == [b"node"] and words[3:4] == [wanted])
        if ours and state not in (b"Z", b"X"):
            found.append(int(name))
    return sorted(found)


def stands_still(pid):
    """Whether the process is stopped, all of it."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"


def thaw(pid):
    """Lets a worker go on which freezes itself: it says so just before it does, so this waits for that."""
    wait_until(lambda: stands_still(pid), 120, f"process {pid} to stand still")
    os.kill(pid, signal.SIGCONT)


def flip_bit(path, at=-1):
    """Another bit in the byte there; below 0: from the end on."""
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def children_of(pid):
    """Pids of processes that its threads started. A thread that ends meanwhile hands its children to another: look again."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found.update(map(int, file.read().split()))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@contextlib.contextmanager
def killed_at_birth(pid):
    """The system kills whatever that process starts meanwhile, before its first instruction and however busy the machine is: there is hardly
    any room for its stack. The process itself has what it has."""
    kept = resource.prlimit(pid, resource.RLIMIT_STACK)
    resource.prlimit(pid, resource.RLIMIT_STACK, (4096, kept[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_STACK, kept)


# Runs a command as a child of a process that is small itself: to begin with, a child's peak is what its parent held.
PEAK = """import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
_, code, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet), 0)
print(os.waitstatus_to_exitcode(code), usage.ru_maxrss)"""


def peak_kb(command):
    """Kilobytes of memory that a command held at most, which has to succeed."""
    told = subprocess.run([sys.executable, "-S", "-c", PEAK, *map(str, command)], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    equal(int(told[0]), 0, f"exit code of {command}")
    return int(told[1])


def signal_all(pid, number):
    """Sends a signal to a process and all that it has started, as a scheduler does."""
    everyone = [pid, *children_of(pid)]
    for one in everyone:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)
    return everyone


def end_group(group):
    """Ends whatever is left in a cgroup, and removes it. What has just ended may keep it for a moment."""
    def gone():
        with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
            for pid in file.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            os.rmdir(group)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        return not os.path.exists(group)

    wait_until(gone, 120, f"the end of {group}")


@contextlib.contextmanager
def memory_group():
    """A memory cgroup, version 1 or 2: a function that sets its limit, and one that turns a command into one that runs in it."""
    base = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
    group = os.path.join(base, f"culm-{os.getpid()}-{threading.get_ident()}")
    try:
        os.mkdir(group)
    except OSError as error:
        raise Skipped(f"no memory cgroup can be made: {error}") from None

    def limit(most):
        try:
            with open(os.path.join(group, "memory.limit_in_bytes" if base.endswith("memory") else "memory.max"), "w", encoding="utf-8") as file:
                file.write(str(most))
        except OSError as error:
            raise Skipped(f"the memory cgroup has no limit to set: {error}") from None
    try:
        yield limit, lambda *command: ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *map(str, command)]
    finally:
        end_group(group)


def resident(pid, low, high):
    """Bytes in memory between two addresses, as another process sees them."""
    total, inside = 0, False
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            first = line.split()[0]
            if "-" in first and ":" not in first:
                begins, ends = (int(edge, 16) for edge in first.split("-"))
                inside = low <= begins and ends <= high
            elif inside and first == "Rss:":
                total += int(line.split()[1]) * 1024
    return total


def wait_until(condition, limit_s, what):
    """Looks again and again: the event has no other sign."""
    end, rest_s = time.monotonic() + limit_s, 0.002
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"after {limit_s} s still not: {what}")
        time.sleep(rest_s)
        rest_s = min(1.2 * rest_s, 0.02)  # many cases wait at once: none is to take a core for it


READ = {}  # of each file of lines: where the last whole one ends, that line, and what all of them say


def read_events(path):
    """What the whole lines of a file of JSON lines say; nothing if there is no file. It is asked again and again while the file grows:
    what has been read is not read again, unless it is another file by now, in which another line stands there."""
    end, last, said = READ.get(path, (0, b"", []))
    try:
        with open(path, "rb") as file:
            file.seek(end - len(last))
            if file.read(len(last)) != last:
                file.seek(0)
                end, last, said = 0, b"", []
            whole, newline, _ = file.read().rpartition(b"\n")
    except FileNotFoundError:
        return []
    if newline:
        lines = whole.split(b"\n")
        end, last, said = end + len(whole) + 1, lines[-1] + newline, said + [json.loads(line) for line in lines]
    READ[path] = end, last, said
    return list(said)


class Ended:
    """A command that has ended."""

    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds
        self.events = []

    def all(self, name):
        return [event for event in self.events if event["event"] == name]

    def one(self, name):
        found = self.all(name)
        check(len(found) == 1, f"{len(found)} events '{name}' instead of one")
        return found[0]

    def hashes(self):
        done = self.one("done")
        return done["weights_sha256"], done["state_sha256"]


class Bench:
    """Where one case works: its folder and the commands it has run."""

    def __init__(self, culm, folder, text):
        self.culm, self.folder, self.text = culm, folder, text
        self.installed = culm  # whatever runs it
        self.commands = []
        self.last = None
        self.children = []
        self.notes = []
        self.user = None

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def as_user(self):
        """Root reads and writes everything: from here on commands run as an ordinary user, who owns this folder."""
        if os.geteuid() != 0:
            return
        self.user = NOBODY
        copied = self.path("culm")
        # By another process: a program that any child of this one still has open for writing cannot be executed.
        subprocess.run(["cp", self.culm, copied], check=True)
        self.culm = copied
        for folder in Suite.folder, os.path.dirname(self.folder):
            os.chmod(folder, 0o711)
        os.chown(self.folder, NOBODY, NOBODY)

    def config(self, config, name="config.yaml"):
        write_config(self.path(name), config)
        return self.path(name)

    def start(self, *words, env=None, cwd=None):
        """Starts culm without waiting; its output goes to files, so that nothing ever blocks on a pipe. `cwd`: None: the case's folder."""
        command = [self.culm, *map(str, words)]
        self.commands.append(command)
        number = len(self.commands)
        out, err = self.path(f"out-{number}"), self.path(f"err-{number}")
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
                                       cwd=cwd or self.folder, start_new_session=True, env=env,
                                       **({"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}))
        process.started, process.out_path, process.err_path, process.command = time.monotonic(), out, err, command
        self.children.append(process)
        return process

    def end(self, process, limit_s=RUN_LIMIT_S):
        """Waits for the end of what start started."""
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {limit_s} s") from None
        with open(process.out_path, encoding="utf-8", errors="replace") as file:
            out = file.read()
        with open(process.err_path, encoding="utf-8", errors="replace") as file:
            err = file.read()
        self.last = Ended(process.command, code, out, err, time.monotonic() - process.started)
        return self.last

    def run(self, *words, limit_s=RUN_LIMIT_S, env=None):
        return self.end(self.start(*words, env=env), limit_s)

    def train_words(self, config, out="run", *words):
        path = self.config(config, f"{out}.yaml")
        return ["train", path, "--out", self.path(out), "--json", *words]

    def events(self, out="run"):
        """What the run in that folder has told so far."""
        return read_events(self.path(out, "events.jsonl"))

    def note(self, text):
        """A line of the report, whatever the verdict."""
        self.notes.append(text)

    def train(self, config, out="run", *words, code=0, limit_s=RUN_LIMIT_S):
        """A whole run with --json; its events are read from standard output, pure JSON lines."""
        return self.trained(self.start(*self.train_words(config, out, *words)), out, code, limit_s)

    def trained(self, process, out="run", code=0, limit_s=RUN_LIMIT_S):
        """What train says, of a run that was started before."""
        ended = self.end(process, limit_s)
        ended.dir = self.path(out)
        equal(ended.code, code, "exit code")
        ended.events = [json.loads(line) for line in ended.out.splitlines()]
        equal(workers_of(ended.dir), [], "workers left behind")
        return ended

    def train_and_thaw(self, node, config, out="run", *words, code=0):
        """A whole run in which this worker freezes, and goes on once it has been put out."""
        process, path = self.start(*self.train_words(config, out, *words)), self.path(out, "events.jsonl")

        def told(name):
            return [event for event in read_events(path) if event["event"] == name and event["node"] == node]

        wait_until(lambda: told("lost") or process.poll() is not None, 120, "the loss of the frozen worker")
        if process.poll() is None:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the run may be ending
                thaw(told("joined")[0]["pid"])
        return self.trained(process, out, code)

    def train_and_join(self, nodes, held, config, out="run", *words):
        """A whole run that stands still in a late step, of a worker, until these nodes have joined: `held` is (worker, step, "forward")."""
        process = self.start(*self.train_words(config, out, *words, *hold(*held[:2])))
        still = Held(self, process, out)
        still.wait(lambda events: set(nodes) <= {event["node"] for event in events if event["event"] == "joined"} and
                   any(event["event"] == "fault" and event["node"] == held[0] for event in events), f"nodes {nodes} to join")
        still.go_on()
        return self.trained(process, out)

    def clean_up(self):
        for process in self.children:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # Workers of a launcher that was killed end by themselves; what a failing test left is ended here.
        for name in os.listdir(self.folder):
            for pid in workers_of(self.path(name)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


# --- what every finished run must show --------------------------------------------------------------------------------------


def check_whole(run, reference, rollbacks=0):
    """The result is that of the undisturbed run, and every step and sample counted once."""
    done = run.one("done")
    equal(run.hashes(), reference, "weights_sha256 and state_sha256")
    equal((done["samples_lost"], done["samples_repeated"]), (0, 0), "samples lost and repeated")
    if rollbacks is not None:
        equal((done["rollbacks"], len(run.all("rollback"))), (rollbacks, rollbacks), "roll-backs")
    equal(done["losses"], len(run.all("lost")), "losses in done")
    last = {event["step"]: event for event in run.all("step")}
    equal(sorted(last), list(range(1, done["steps"] + 1)), "steps")
    if not done["rollbacks"]:
        equal(len(run.all("step")), done["steps"], "step events")


def check_recovered(run):
    """Each owner lost is taken over exactly once."""
    owners = sorted(event["node"] for event in run.all("lost") if event["stages"])
    equal(sorted(event["node"] for event in run.all("recovered")), owners, "nodes recovered, one for each owner lost")


# Megabytes that a process may take beside what is counted, on a busy machine: pages of the program and its libraries that the
# kernel maps ahead, and what the C library keeps of memory given back.
BESIDE_MB = 32


GOODPUT = ["useful_ms", "redone_ms", "paused_ms", "waiting_ms", "saving_ms"]


def check_goodput(bench, out="run"):
    """What the report says of the time of a run: the kinds add up to the wall time that its events tell, of each launch and in all."""
    walls = []
    for event in read_events(bench.path(out, "events.jsonl")):
        walls += [0.0] if event["event"] == "start" else []
        walls[-1] += event.get("waited_ms", 0.0) if event["event"] == "eval" else 0.0
        last = last_ms if event["event"] != "start" else 0.0
        walls[-1] += event["t_ms"] - last
        last_ms = event["t_ms"]
    goodput = json.loads(bench.run("report", bench.path(out), "--json").out)["goodput"]
    equal(len(goodput["launches"]), len(walls), "launches")
    for told, wall in zip([goodput, *goodput["launches"]], [sum(walls), *walls]):
        check(abs(sum(told[kind] for kind in GOODPUT) - wall) < 0.01, f"{told} do not add up to {wall} ms")
        check(min(told[kind] for kind in GOODPUT) >= 0, f"negative: {told}")
        check(abs(told["share"] * wall - told["useful_ms"]) < 0.01, f"the share is another: {told}")
    line = next(line for line in bench.run("report", bench.path(out)).out.splitlines() if "goodput" in line)
    check(f"{100 * goodput['share']:.1f} %: useful" in line, f"the report says {line!r} of {goodput}")
    return goodput


def peaks_of(run):
    """By node, the megabytes (of 1000 x 1000 bytes) that tensors, and that the process, took at most; those killed do not say."""
    peaks = {}
    for event in run.all("joined"):
        with open(os.path.join(run.dir, "logs", f"node-{event['node']}.log"), encoding="utf-8", errors="replace") as file:
            took = re.search(r"blobs ([0-9.]+) MB at most, process ([0-9.]+) MB at most", file.read())
        if took:
            peaks[event["node"]] = float(took.group(1)), float(took.group(2))
    return peaks


def check_held(peaks, node, allowed_mb):
    tensors, process = peaks[node]
    check(tensors <= allowed_mb + 0.05, f"tensors of node {node} took {tensors} MB of {allowed_mb}")
    check(process <= allowed_mb + BESIDE_MB, f"node {node} took {process} MB of {allowed_mb}")


def check_memory(run, least=0.8):
    """Of an undisturbed run: no worker took more than the plan says, and the fullest at least that share. The share that it took."""
    stages, peaks = run.one("plan")["stages"], peaks_of(run)
    planned = {event["node"]: stages[event["stage"]]["memory_bytes"] / 1e6 for event in run.all("joined")}
    for node in planned:
        check_held(peaks, node, planned[node])
    most = max(peaks[node][1] / planned[node] for node in planned)
    check(most > least, f"the fullest worker took {most} of the planned memory")
    return most


def check_fired(run, faults):
    """Each (worker, step, phase) fired, once."""
    fired = sorted((event["node"], event["step"], event["phase"]) for event in run.all("fault"))
    equal(fired, sorted(faults), "faults that fired")
    equal(run.one("done")["faults_fired"], len(faults), "faults_fired")


def fault(worker, step, phase, how="kill", for_ms=None, micro=None):
    words = [f"worker={worker}", f"step={step}", f"phase={phase}", f"how={how}"]
    if micro is not None:
        words.append(f"micro={micro}")
    if for_ms is not None:
        words.append(f"for_ms={for_ms}")
    return "--fault", ",".join(words)


def hold(worker, step):
    """Words by which a run stands still in that step, until `Held` lets it go: however slow a test is, the run has not ended. The worker is
    frozen: it writes no part of a checkpoint meanwhile, for which the first pipeline is there.
    """
    return fault(worker, step, "forward", "stop")


def pauses(worker, steps, ms):
    """Words by which a worker freezes for so long in each of these steps, which is nobody's business: a run takes that long on any machine."""
    return [word for step in steps for word in fault(worker, step, "forward", "stop", ms)]


class Held:
    """A run that stands still in steps that were named by `hold`, one after the other."""

    def __init__(self, bench, process, out="run"):
        self.process, self.path, self.number = process, bench.path(out, "events.jsonl"), 0

    def events(self):
        return read_events(self.path)

    def wait(self, condition=lambda events: True, what="it to stand still"):
        """Until it stands still for the next time, and the condition holds of its events, too."""
        self.number += 1

        def holds():
            events = self.events()
            return sum(event["event"] == "fault" for event in events) >= self.number and condition(events)

        wait_until(lambda: holds() or self.process.poll() is not None, 120, what)
        check(self.process.poll() is None, f"the run ended before {what}")

    def go_on(self):
        events = self.events()
        node = [event["node"] for event in events if event["event"] == "fault"][-1]
        thaw([event["pid"] for event in events if event["event"] == "joined" and event["node"] == node][-1])


# --- cases ------------------------------------------------------------------------------------------------------------------


class Suite:
    """What all scripts of this process share: the program, and a folder, which is removed at the end unless a case failed in it."""

    culm = None
    folder = None
    keep = False
    scripts = []

    @classmethod
    def begin(cls):
        """Called by the first script."""
        if cls.folder is None:
            if cls.culm is None:
                if len(sys.argv) < 2:
                    sys.exit(f"usage: {sys.argv[0]} CULM [PART OF A CASE'S NAME]...")
                cls.culm = os.path.abspath(sys.argv[1])
            cls.folder = tempfile.mkdtemp(prefix="culm-system-")
            make_text(os.path.join(cls.folder, "text"))
            atexit.register(cls.end)

    @classmethod
    def end(cls):
        if not cls.keep:
            shutil.rmtree(cls.folder, ignore_errors=True)


class Case:
    def __init__(self, cases, name, function, args, kind, seconds, first, product, job, reads):
        self.cases, self.name, self.function, self.args = cases, name, function, args
        self.kind, self.seconds, self.first, self.product, self.job, self.reads = kind, seconds, first, product, job, reads
        self.number = len(cases.cases)


class Cases:
    """The cases of a script. kind: of those that name none. job: which job of Culm they are about."""

    def __init__(self, kind="computes", job="all"):
        Suite.begin()
        self.path = os.path.abspath(sys._getframe(1).f_globals["__file__"])
        self.script = os.path.basename(self.path)[:-len(".py")]
        self.kind, self.job = kind, job
        check(kind in KINDS and job in JOBS, f"{self.script}: kind {kind}, job {job}")
        self.culm, self.text = Suite.culm, os.path.join(Suite.folder, "text")
        self.folder = os.path.join(Suite.folder, self.script)
        os.makedirs(self.folder, exist_ok=True)
        self.cases = []
        Suite.scripts.append(self)

    def add(self, name, function, *args, kind=None, seconds=0.0, first=False, product=False, job=None, reads=None):
        """function(bench, *args) raises Failed or Skipped, or all is well. seconds: about how long it takes, where that is long.
        first: it proves a promise of the documents, and is among the tests that everybody runs. product: one of a product of
        circumstances, of which the long set runs a tenth each day (--all: every one). job: if not that of the script. reads: a file of
        the project, by its path in it, that it is about."""
        check(kind in (None, *KINDS) and job in (None, *JOBS), f"{name}: kind {kind}, job {job}")
        check(all(case.name != name for case in self.cases), f"{self.script}: two cases '{name}'")
        self.cases.append(Case(self, name, function, args, kind or self.kind, seconds, first, product, job or self.job, reads))

    def once(self, key, make):
        """What make() returns, a value that JSON can hold: made by whoever comes first, for all cases of all scripts."""
        path = os.path.join(Suite.folder, "once-" + hashlib.sha256(key.encode()).hexdigest())
        with open(path + ".lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(path):
                value = make()
                with open(path + ".tmp", "w", encoding="utf-8") as file:
                    json.dump(value, file)
                os.rename(path + ".tmp", path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def plain(self, config):
        """The undisturbed run in one process of one stage, made once for all with the same numbers: its hashes and step events."""
        same = {key: config.get(key) for key in ("model", "data", "batch", "precision", "seed", "steps", "optimizer", "schedule")}

        def make():
            bench = Bench(self.culm, tempfile.mkdtemp(prefix="reference-", dir=self.folder), self.text)
            run = bench.train(changed(config, pipelines=1, stages=1, redundancy="none", threads=1))
            return run.hashes(), run.all("step")

        hashes, steps = self.once("plain " + json.dumps(same, sort_keys=True), make)
        return tuple(hashes), steps

    def reference(self, config):
        """Hashes of the undisturbed run."""
        return self.plain(config)[0]

    def one(self, case):
        """Runs it, in this process: (verdict, what it is about, notes, lines that say why)."""
        folder = os.path.join(self.folder, f"case-{case.number}")
        os.mkdir(folder)
        bench = Bench(self.culm, folder, self.text)
        verdict, why = "passed", []
        try:
            case.function(bench, *case.args)
        except Skipped as reason:
            verdict, why = "skipped", [str(reason)]
        except Failed as reason:
            verdict, why = "failed", [str(reason)]
        except Exception:  # a fault of the test itself is a failure of the case
            verdict, why = "failed", traceback.format_exc().splitlines()
        bench.clean_up()
        if verdict == "failed":
            why += [f"it ran: {shlex.join(command)}" for command in bench.commands]
            why += [f"its files: {folder}"]
            if bench.last:
                why += [f"exit code {bench.last.code}"] + ["stderr: " + line for line in bench.last.err.splitlines()[-5:]]
                why += ["event: " + line[:400] for line in bench.last.out.splitlines()
                        if '"event":"step"' not in line][-25:]
        else:
            shutil.rmtree(folder, ignore_errors=True)
        return verdict, bench.notes, why

    def run(self):
        """Of a script that was started by itself: its cases, or those whose names have one of the parts that the command line names."""
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runner"))
        import script
        script.main(self, sys.argv[2:])


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
