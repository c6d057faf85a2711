"""Runs jobs side by side on the cores that there are, and leaves no process behind.

A job is a process: a test program, a case of a system script, or a build, which brings more jobs when it ends. Its kind says
what may run beside it:

    computes    takes a core: as many at once as there are cores
    waits       mostly waits: up to twelve at once, beside those that compute
    alone       measures time, or needs the machine: nothing beside it, after all others
    builds      takes all cores: no job that computes beside it, nor before it

Those that take longest start first. A process that a job leaves behind is ended, and that is noted: descendants of the runner come
to it when their parents end (it is their subreaper), and the variable CULM_TEST_JOB says whose they are. One thread, one loop:
signals of ended children and of interruption come in by sigtimedwait.
"""
import ctypes
import os
import signal
import time
import traceback

KINDS = "builds", "waits", "computes", "alone"  # in the order in which they are looked at
WAITS_AT_ONCE = 12
# Only what hangs may reach it, on whatever machine, whatever runs beside; ten times as long as it takes, where that is more.
DEADLINE_S = 1500
MARK = "CULM_TEST_JOB"
PR_SET_CHILD_SUBREAPER = 36
SIGNALS = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Job:
    """name: what people call it by; kind: above; seconds: about how long it takes, where known."""

    def __init__(self, name, kind="computes", seconds=0.0):
        self.name, self.kind, self.seconds = name, kind, seconds

    def child(self):
        """What its process does; its output goes to the file at self.output. The exit code is what it returns, if it returns."""
        raise NotImplementedError

    def ended(self, status, seconds):
        """(outcome, jobs that follow) of its end; status as waitpid gives it, None where it had to be ended for taking too long."""
        raise NotImplementedError


def code_of(status):
    """What a shell would say."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def parents():
    """Of every process that has not ended, its parent."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]  # the name before may hold anything
            except (OSError, ValueError):
                continue
            if state not in b"ZX":
                found[int(name)] = int(parent)
    return found


def descendants(of):
    """Pids of all that descend from the process `of` and have not ended."""
    parent = parents()
    found, last = set(), {of}
    while last:
        last = {pid for pid, its in parent.items() if its in last} - found
        found |= last
    return found


def marked(mark):
    """Pids of all that carry this mark."""
    found = set()
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.add(int(name))
            except OSError:
                pass
    return found


def kill(pids, number=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def adopt():
    """Makes processes whose parent ends children of this one, so that none is lost sight of."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants():
    """Kills all that descend from this process, which has adopted them, until there is none."""
    while True:
        kill(descendants(os.getpid()))
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


class Interrupted(Exception):
    """Somebody wants it to end."""


class Pool:
    """`told(job, outcome, seconds, cpu_seconds)` is called when a job has ended."""

    def __init__(self, folder, told, cores=None):
        self.folder, self.told = folder, told
        self.cores = cores or len(os.sched_getaffinity(0))
        self.waiting = {kind: [] for kind in KINDS}
        self.running = {}
        self.number = 0

    def add(self, jobs):
        for job in jobs:
            self.waiting[job.kind].append(job)
        for waiting in self.waiting.values():
            waiting.sort(key=lambda job: -job.seconds)

    def count(self, *kinds):
        return sum(job.kind in kinds for job in self.running.values())

    def may_start(self, kind):
        if kind == "alone":  # nothing else is left, or may still come
            return not self.running and not any(self.waiting[other] for other in KINDS if other != "alone")
        if self.count("alone"):
            return False
        if kind == "builds":
            return not self.count("builds", "computes")
        if kind == "waits":
            return self.count("waits") < WAITS_AT_ONCE
        return not self.count("builds") and not self.waiting["builds"] and self.count("computes") < self.cores

    def next(self):
        """A job that may start now, or None."""
        for kind in KINDS:
            if self.waiting[kind] and self.may_start(kind):
                return self.waiting[kind].pop(0)
        return None

    def start(self, job):
        self.number += 1
        job.output = os.path.join(self.folder, f"job-{self.number}")
        job.mark = f"{os.getpid()}-{self.number}"
        job.started = time.monotonic()
        job.late = False
        pid = os.fork()
        if pid:
            job.pid = pid
            self.running[pid] = job
            return
        code = 1
        try:
            os.setsid()
            os.environ[MARK] = job.mark
            out = os.open(job.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(out, 2)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            code = job.child() or 0
        except BaseException:  # its process must end here, whatever it is
            traceback.print_exc()
        finally:
            os._exit(code)

    def reap(self):
        """Takes notice of all that have ended; those nobody asked for were orphans."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            job = self.running.pop(pid, None)
            if job:
                seconds = time.monotonic() - job.started
                left = marked(job.mark)
                kill(left)
                outcome, more = job.ended(None if job.late else status, seconds)
                if left:
                    outcome.notes.append(f"{len(left)} of its processes were still there, and are ended")
                self.add(more)
                self.told(job, outcome, seconds, usage.ru_utime + usage.ru_stime)

    def end_late(self):
        for pid, job in self.running.items():
            if job.kind != "builds" and time.monotonic() - job.started > max(DEADLINE_S, 10 * job.seconds) and not job.late:
                job.late = True
                kill(descendants(pid) | {pid})

    def run(self):
        """Runs all, and what follows from them. Raises Interrupted when it was told to end; then nothing runs any more either."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        adopt()
        try:
            while self.running or any(self.waiting.values()):
                while job := self.next():
                    self.start(job)
                got = signal.sigtimedwait(SIGNALS, 1)
                if got and got.si_signo != signal.SIGCHLD:
                    raise Interrupted
                self.reap()
                self.end_late()
        finally:
            end_descendants()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
