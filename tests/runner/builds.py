"""Build folders, and the test programs of each as jobs. Meson knows the programs; it does not run them here, because it knows
only whether a test may run beside others."""
import json
import os
import random
import re
import shlex
import subprocess

import outcome
from pool import Job, code_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A sanitizer ends a program at its first fault.
SANITIZERS = {"ASAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_summary=1",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


class Build:
    """folder: in ROOT; label: what the names of its tests begin with, '' for the plain one; options: of meson setup."""

    def __init__(self, folder, label="", options=(), wrapper=()):
        self.folder, self.label, self.options, self.wrapper = folder, label, list(options), list(wrapper)
        self.path = os.path.join(ROOT, folder)

    def is_set_up(self):
        return os.path.exists(os.path.join(self.path, "build.ninja"))

    def read(self, name):
        with open(os.path.join(self.path, "meson-info", name + ".json"), encoding="utf-8") as file:
            return json.load(file)

    def tests(self):
        """Meson's records of its tests, those of the last setup; suites without the project's name in front."""
        tests = self.read("intro-tests")
        for test in tests:
            test["suite"] = [suite.split(":", 1)[-1] for suite in test["suite"]]
        return tests

    def targets_of(self, tests):
        """What ninja must make for them."""
        files = {target["id"]: [os.path.relpath(file, self.path) for file in target["filename"]] for target in self.read("intro-targets")}
        return sorted({file for test in tests for target in test["depends"] for file in files.get(target, [])})

    def name_of(self, test):
        return "/".join(filter(None, (self.label, test["suite"][0], test["name"].removeprefix(test["suite"][0] + "/"))))


def plain():
    """The one of `./dev build`. CULM_KERNELS: for which processors; if it is not set, this one."""
    return Build("build", options=["-Dkernels=" + (os.environ.get("CULM_KERNELS") or "native")])


# Half the compile time of -O2 -g, and stacks that name files and lines all the same. With -O1 the compiler warns of what cannot be.
SANITIZED = ["-Db_lundef=false", "-Doptimization=1", "-Ddebug=false", "-Dc_args=-g1", "-Dwerror=false"]


LABELS = "asan", "tsan"


def label_of(name):
    """Of the build in which the test of that name is."""
    label = name.split("/")[0]
    return label if label in LABELS else ""


def asan():
    return Build("build-asan", "asan", ["-Db_sanitize=address,undefined", *SANITIZED])


def tsan():
    return Build("build-tsan", "tsan", ["-Db_sanitize=thread", *SANITIZED])


class BuildJob(Job):
    """Sets up and builds all, or what the tests need of which choose(test) holds, and brings these tests as jobs."""

    def __init__(self, build, choose, everything=True):
        super().__init__(f"build {build.folder}", "builds")
        self.build, self.choose, self.everything = build, choose, everything

    def chosen(self):
        return [test for test in self.build.tests() if self.choose(test)]

    def child(self):
        build = self.build
        if not build.is_set_up() and subprocess.run(["meson", "setup", build.path, ROOT, *build.options], check=False).returncode:
            return 1
        if os.environ.get("CULM_KERNELS") and not build.label and subprocess.run(["meson", "configure", build.path, *build.options],
                                                                               check=False).returncode:  # where it had others
            return 1
        if subprocess.run(["ninja", "-C", build.path, "build.ninja"], check=False).returncode:  # meson, where its files have changed
            return 1
        targets = [] if self.everything else build.targets_of(self.chosen())
        return subprocess.run(["ninja", "-C", build.path, *targets], check=False).returncode if targets or self.everything else 0

    def ended(self, status, seconds):
        if status:
            with open(self.output, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            first = next((at for at, line in enumerate(lines) if line.startswith("FAILED:") or "ERROR" in line), len(lines) - 20)
            return outcome.Outcome(failed=[("it did not build", lines[max(first, 0):])]), []
        return outcome.Outcome(), [Program(self.build, test) for test in self.chosen()]


class Program(Job):
    """A test program of a build."""

    def __init__(self, build, test):
        suites = test["suite"]
        kind = "alone" if not test["is_parallel"] or "alone" in suites else "waits" if "waits" in suites else "computes"
        super().__init__(build.name_of(test), kind, test["priority"])
        self.build, self.test = build, test
        self.perturb = random.randint(1, 255)  # what memory is filled with: a program that reads what it did not write shows

    def child(self):
        environment = {"MALLOC_PERTURB_": str(self.perturb), **SANITIZERS, **os.environ, **self.test["env"],
                       "CMOCKA_MESSAGE_OUTPUT": "TAP"}
        os.chdir(self.test["workdir"] or self.build.path)
        command = [*self.build.wrapper, *self.test["cmd"]]
        os.execvpe(command[0], command, environment)

    def ended(self, status, seconds):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            text = file.read()
        why = f"still running after {seconds:.0f} s" if status is None else f"exit code {code_of(status)}"
        result = outcome.of_program(text, 1 if status is None else code_of(status), why)
        for _, said in result.failed:
            if said is not None:
                said.append(f"it ran: MALLOC_PERTURB_={self.perturb} {shlex.join([*self.build.wrapper, *self.test['cmd']])}")
        return result, []


def in_suites(*suites):
    return lambda test: bool(set(test["suite"]) & set(suites))


def programs(build, pattern):
    """The unit tests of a build whose names begin so, which is a regular expression."""
    found = [Program(build, test) for test in build.tests() if "unit" in test["suite"] and re.match(pattern, test["name"])]
    if not found:
        raise ValueError(f"no unit test of {build.folder} has a name that begins with {pattern}")
    return found
