"""Cases of the system scripts (tests/system) as jobs, each in a process forked from this one."""
import datetime
import hashlib
import importlib
import json
import os
import sys

from outcome import Outcome
from pool import Job, code_of

SYSTEM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system")
EVERY = 10  # days, after which each case of a product has had its turn


def name_of(case):
    """system/SCRIPT: CASE; before the script the folder in which it is."""
    return f"{os.path.basename(os.path.dirname(case.cases.path))}/{case.cases.script}: {case.name}"


class CaseJob(Job):
    def __init__(self, case, harness):
        super().__init__(name_of(case), case.kind, case.seconds)
        self.case, self.harness = case, harness
        self.told = os.path.join(case.cases.folder, f"told-{case.number}")

    def child(self):
        told = self.case.cases.one(self.case)
        with open(self.told, "w", encoding="utf-8") as file:
            json.dump(told, file)

    def ended(self, status, seconds):
        notes = []
        try:
            with open(self.told, encoding="utf-8") as file:
                verdict, notes, why = json.load(file)
        except (OSError, ValueError):
            with open(self.output, encoding="utf-8", errors="replace") as file:
                why = file.read().splitlines()
            verdict = "failed"
            why.insert(0, f"it had not ended after {seconds:.0f} s" if status is None else f"its process ended with {code_of(status)}")
        if verdict == "failed":
            self.harness.Suite.keep = True
        outcome = Outcome(verdict == "passed", [("", why)] if verdict == "skipped" else [], [("", why)] if verdict == "failed" else [])
        outcome.notes = notes
        return outcome, []


def today():
    return datetime.date.today().toordinal()


def has_its_turn(case, day):
    """Whether this case of a product is among those of that day: each comes every tenth day, whatever else is in the product."""
    return (int.from_bytes(hashlib.sha256(name_of(case).encode()).digest()[:4], "big") + day) % EVERY == 0


def load(culm):
    """The harness, with all scripts imported: those that make cases."""
    sys.path.insert(0, SYSTEM)
    harness = importlib.import_module("harness")
    harness.Suite.culm = os.path.abspath(culm)
    for name in sorted(os.listdir(SYSTEM)):
        with open(os.path.join(SYSTEM, name), "rb") as file:
            if name.endswith(".py") and b"= Cases(" in file.read():
                importlib.import_module(name[:-len(".py")])
    return harness


def jobs_of(harness, choose):
    """A job for each case of which choose(case) holds."""
    return [CaseJob(case, harness) for script in harness.Suite.scripts for case in script.cases if choose(case)]
