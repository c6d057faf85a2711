"""Pages that show what to type and what comes of it, such as docs/tour-train.md: they are typed, and what comes is compared.

A page is read so:

    ```sh         commands to be copied. The first such block of a page prepares the clone, and is not run.
    ```console    commands behind "$ ", and below each all that it prints, standard error too.

    ...           by itself: any number of lines; within a line: any text
    ^C            Control-C, typed when all that is above it has been printed
    ^Z            Control-Z, likewise; then bash says that the job is stopped
    What depends on how fast a machine is, and on nothing else, is not compared: MASKS.

A command must succeed, unless it was interrupted. That has nothing to do with luck: a run is held still until the key is typed, by words
behind the command that the page does not show (`added`), as the other scripts do it with theirs; what cannot be held waits for its output
to be read, since the pipe has room for one write.
"""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

from harness import Failed, check, children_of, equal, signal_all, stands_still, wait_until

LIMIT_S = 300  # of one command
SHOWN = 4000  # characters of what was printed that a message has
MASKS = [(re.compile(pattern), text) for pattern, text in (
    (r"\[ *\d+\.\d s\]", "[# s]"),
    (r"\b\d+(?:\.\d+)? (s|ms|tokens/s|samples/s|epochs/s)(?![\w/])", r"# \1"),
    (r"\bpid \d+", "pid #"),
    (r"\d+(?:\.\d+)? % of \d+ frames in time", "# % of # frames in time"),
)]
KEYS = {"^C": signal.SIGINT, "^Z": signal.SIGTSTP}  # what a terminal sends to the job in the foreground
END = "\x1e"  # what bash says when a command has ended, with its exit code
NOT_PRINTED = re.compile(r"\[\d+\][-+] +(?:Stopped|Killed) |bash: line \d+: +\d+ Killed ")  # what bash says of jobs, sooner or later
HELD = re.compile(r"\[ *\d+\.\d s\] fault injected into node \d+.*")


class Command:
    """line: of the page, counted from 1. shown: what the page says that it prints; None: it is not compared."""

    def __init__(self, line, text, shown):
        self.line, self.text, self.shown = line, text, shown


def masked(line):
    for pattern, text in MASKS:
        line = pattern.sub(text, line)
    return line.rstrip()


def blocks_of(page):
    """(language, line number of its first line, lines) of each fenced block."""
    found, inside = [], None
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                inside = (line[3:].strip(), number + 1, [])
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside[2].append(line)
    check(inside is None, "a block does not end")
    return found


def commands_of(page):
    """What a page says to type, in order, without the first block."""
    commands = []
    for language, number, lines in blocks_of(page)[1:]:
        if language == "sh":
            commands.append(Command(number, "\n".join(lines), None))
            continue
        equal(language, "console", f"language of the block in line {number}: there are sh and console")
        check(lines and lines[0].startswith("$ "), f"line {number}: a block of what is printed begins with a command, behind '$ '")
        goes_on = False
        for offset, line in enumerate(lines):
            if goes_on:
                commands[-1].text += "\n" + line
            elif line.startswith("$ "):
                commands.append(Command(number + offset, line[2:], []))
            else:
                commands[-1].shown.append(line)
            goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    return commands


def pattern_of(shown, more=False):
    """What matches such output; with `more`, its beginning."""
    parts = []
    for line in shown:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(masked(part)) if k == 0 else re.escape(masked("x" + part)[1:])
                                    for k, part in enumerate(line.split("..."))) + r"\n")
    return re.compile("".join(parts) + (r"(?:.*\n)*" if more else ""))


def matches(shown, printed, more=False):
    """Whether lines are what a page shows."""
    return pattern_of(shown, more).fullmatch("".join(masked(line) + "\n" for line in printed)) is not None


def difference(command, printed):
    """Where what was printed leaves what the page shows."""
    shown = command.shown
    right = max((k for k in range(len(shown) + 1) if matches(shown[:k], printed, more=True)), default=0)
    wrong = f"'{shown[right]}'" if right < len(shown) else "nothing more"
    return f"line {command.line}: '{command.text}' does not print {wrong}" + (f" behind '{shown[right - 1]}'" if right else "") + \
        ", but\n" + "\n".join(printed)[-SHOWN:]


class Terminal:
    """A shell that is typed into, and what comes of it. It has a terminal, for its jobs, but what they print does not go there, or programs
    would draw."""

    def __init__(self, folder, path):
        self.read, write = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(self.read, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)
        self.terminal, its_end = pty.openpty()
        self.bash = subprocess.Popen(["bash", "--norc", "--noprofile", "-m"], stdin=subprocess.PIPE, stdout=write, stderr=its_end, cwd=folder,
                                     start_new_session=True, preexec_fn=lambda: fcntl.ioctl(its_end, termios.TIOCSCTTY, 0),
                                     env={**os.environ, "PATH": path})
        os.close(write)
        os.close(its_end)
        self.text, self.deadline = "", 0.0
        self.bash.stdin.write(b"trap : INT\n")  # or it ends with a program that Control-C ends

    def close(self):
        signal_all(self.bash.pid, signal.SIGSTOP)  # nobody starts anybody any more
        for job in children_of(self.bash.pid):
            signal_all(job, signal.SIGKILL)
        self.bash.kill()
        self.bash.wait()
        os.close(self.read)
        os.close(self.terminal)
        self.bash.stdin.close()

    def more(self):
        """Reads what is there next."""
        ready, _, _ = select.select([self.read], [], [], max(0.0, self.deadline - time.monotonic()))
        check(ready, f"nothing came for {LIMIT_S} s, after\n{self.text[-SHOWN:]}")
        got = os.read(self.read, select.PIPE_BUF)
        check(got, f"the shell has ended, after\n{self.text[-SHOWN:]}")
        self.text += got.decode(errors="replace")

    def frozen(self):
        """Processes that the job in the foreground has started and that stand still."""
        found = []
        for job in children_of(self.bash.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may have ended, or they
                found += [pid for pid in children_of(job) if stands_still(pid)]
        return found

    def press(self, key, held):
        if held:
            wait_until(self.frozen, LIMIT_S, "the run to stand still")
        frozen = self.frozen()
        os.killpg(os.tcgetpgrp(self.terminal), KEYS[key])
        if held and key == "^Z":  # or the run would go on
            wait_until(lambda: any(map(stands_still, children_of(self.bash.pid))), LIMIT_S, "the job to be stopped")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    def type(self, command, added, hold):
        """Types a command with words added, and the keys that the page has below it: (lines, exit code). hold: words by which it stands
        still until then, or none."""
        self.text, self.deadline = "", time.monotonic() + LIMIT_S
        words = " ".join(filter(None, (command.text, added, hold)))
        self.bash.stdin.write((f"{{ {words}\n}} </dev/null 2>&1\nprintf '\\n{END}%d\\n' $?\n").encode())
        self.bash.stdin.flush()
        above = []
        for line in command.shown or ():
            if line in KEYS:
                wanted = pattern_of(above, more=True)
                while not wanted.fullmatch("".join(masked(each) + "\n" for each in self.text.splitlines() if self.text.endswith("\n"))):
                    check(END not in self.text, f"line {command.line}: '{command.text}' ended by itself, before {line}:\n{self.text[-SHOWN:]}")
                    self.more()
                self.press(line, bool(hold))
            else:
                above.append(line)
        while not re.search(f"\n{END}\\d+\n", self.text):
            self.more()
        printed, code = re.fullmatch(f"(.*)\n{END}(\\d+)\n", self.text, re.DOTALL).groups()
        return [line for line in printed.splitlines() if not NOT_PRINTED.match(line) and not (hold and HELD.fullmatch(line))], int(code)


def follow(page, folder, path, added):
    """Types the commands of a page in a folder, with this search path. added: by the beginning of a command, words to add to it always, and
    words that hold it still, for one that is interrupted. Raises Failed where the page is wrong. The commands, without keys, with what each
    one printed."""
    terminal = Terminal(folder, path)
    try:
        told = []
        for command in commands_of(page):
            shown = [line for line in command.shown or () if line not in KEYS and not NOT_PRINTED.match(line)]
            interrupted = any(line in KEYS for line in command.shown or ())
            always, hold = next((words for begin, words in added.items() if command.text.startswith(begin)), ("", ""))
            printed, code = terminal.type(command, always, hold if interrupted else "")
            command = Command(command.line, command.text, shown if command.shown is not None else None)
            if command.shown is not None and not matches(shown, printed):
                raise Failed(difference(command, printed))
            check(code or not interrupted, f"line {command.line}: '{command.text}' ended by itself, before a key was typed")
            check(code == 0 or interrupted, f"line {command.line}: '{command.text}': exit code {code}, after\n" + "\n".join(printed)[-SHOWN:])
            told.append((command, printed))
        return told
    finally:
        terminal.close()
