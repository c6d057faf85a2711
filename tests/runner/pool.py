"""Runs jobs side by side on the cores that there are, and leaves no process behind.

A job is a process: a test program, a case of a system script, or a build, which brings more jobs when it ends. Its kind says
what may run beside it:

    computes    takes a core: as many at once as there are cores
    waits       mostly waits: up to twelve at once, beside those that compute
    alone       measures time, or needs the machine: nothing beside it, after all others
    builds      takes all cores: no job that computes beside it, nor before it

Those that take longest start first. Every process that a job leaves behind is ended: descendants of the runner come to it when
their parents end (it is their subreaper), and the variable CULM_TEST_JOB says whose they are. One thread, one loop: signals of
ended children, of interruption and of time come in by sigtimedwait.
"""
import ctypes
import os
import signal
import time

WAITS_AT_ONCE = 12
# Only what hangs may reach it, on whatever machine, whatever runs beside.
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
    """Of every living process, its parent."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                pass
    return found


def descendants(of):
    """Pids of all that descend from the process `of`."""
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


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Interrupted(Exception):
    """Somebody wants it to end."""


class Pool:
    """`told(job, outcome, seconds, cpu_seconds)` is called when a job has ended."""

    def __init__(self, folder, told, cores=None):
        self.folder, self.told = folder, told
        self.cores = cores or len(os.sched_getaffinity(0))
        self.waiting, self.running = [], {}
        self.number = 0

    def add(self, jobs):
        self.waiting += jobs
        self.waiting.sort(key=lambda job: -job.seconds)

    def count(self, *kinds):
        return sum(job.kind in kinds for job in self.running.values())

    def may_start(self, job):
        if job.kind == "alone":  # nothing else is left, or may still come
            return not self.running and all(other.kind == "alone" for other in self.waiting)
        if self.count("alone"):
            return False
        if job.kind == "builds":
            return not self.count("builds", "computes")
        if job.kind == "waits":
            return self.count("waits") < WAITS_AT_ONCE
        building = self.count("builds") or any(other.kind == "builds" for other in self.waiting)
        return not building and self.count("computes") < self.cores

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
            import traceback
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
                kill(marked(job.mark))
                outcome, more = job.ended(None if job.late else status, seconds)
                self.add(more)
                self.told(job, outcome, seconds, usage.ru_utime + usage.ru_stime)

    def end_late(self):
        for pid, job in self.running.items():
            if job.kind != "builds" and time.monotonic() - job.started > DEADLINE_S and not job.late:
                job.late = True
                kill(descendants(pid) | {pid})

    def run(self):
        """Runs all, and what follows from them. Raises Interrupted when it was told to end; then nothing runs any more either."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            while self.waiting or self.running:
                for job in list(self.waiting):
                    if self.may_start(job):
                        self.waiting.remove(job)
                        self.start(job)
                got = signal.sigtimedwait(SIGNALS, 1)
                if got and got.si_signo != signal.SIGCHLD:
                    raise Interrupted
                self.reap()
                self.end_late()
        finally:
            self.end_all()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end_all(self):
        """Every process that descends from this one, until there is none."""
        while True:
            left = descendants(os.getpid())
            if not left:
                return
            kill(left)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            time.sleep(0.01)
