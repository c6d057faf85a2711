"""What came of a job, and how it is told: a line for each as it ends; at the end the slowest, then, once, all that failed, and the count."""
import json
import os
import re

LINES_OF_A_FAILURE = 40
SLOWEST = 20


class Outcome:
    """passed: how many cases; skipped, failed: (case, what is said of it, line by line) of each. A job of one case calls it by ''."""

    def __init__(self, passed=0, skipped=(), failed=()):
        self.passed, self.skipped, self.failed = passed, list(skipped), list(failed)
        self.notes = []


CASE = re.compile(r"^(not )?ok (\d+\b.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*$")
SKIP_CODE = 77  # as automake and meson have it


def of_program(text, code, why):
    """Of a program that printed `text` and ended with `code` (why: in words). Each line of TAP is a case; a program without any is one
    case. Cases that were planned and did not come have failed, and so has a program that ends badly although no case failed."""
    passed, skipped, planned, failed = 0, [], 0, []
    told = None  # where the comments behind a case go: to the case when it failed
    for line in text.splitlines():
        case, plan = CASE.match(line), PLAN.match(line)
        if line.startswith("#"):
            if told is not None:
                told.append(line)
            continue
        told = None
        if plan:
            planned += int(plan.group(1))
        elif case and re.search(r"#\s*skip\b", case.group(2), re.I):  # cmocka writes `not ok N # SKIP`
            skipped.append((case.group(2).strip(), []))
        elif case and case.group(1):
            told = []
            failed.append((case.group(2).strip(), told))
        elif case:
            passed += 1
    seen = passed + len(skipped) + len(failed)
    rest = text.splitlines()[-LINES_OF_A_FAILURE:]
    if not seen and not planned:
        if code == SKIP_CODE:
            return Outcome(skipped=[("", rest)])
        return Outcome(passed=1) if code == 0 else Outcome(failed=[("", [f"it ended badly: {why}", *rest])])
    missing = max(planned - seen, 0)
    if missing:
        failed.append((f"{missing} cases did not run", [f"it ended before them: {why}", *rest]))
        failed += [("", None)] * (missing - 1)
    elif code not in (0, SKIP_CODE) and not failed:
        failed.append(("", [f"it ended badly after its last case: {why}", *rest]))
    return Outcome(passed, skipped, failed)


class Report:
    """`path`: gets a line of JSON for each job; None: nobody does. `repeat(job)`: the command that runs it alone. `tap`: lines are those of TAP,
    for a runner that counts them; a failure is then told with its line."""

    def __init__(self, path, repeat, tap=False):
        self.path, self.repeat, self.tap = path, repeat, tap
        self.passed, self.skipped, self.failures, self.took = 0, [], [], []
        if path:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path or os.devnull, "w", encoding="utf-8")

    def told(self, job, outcome, seconds, cpu):
        self.passed += outcome.passed
        self.skipped += [(job, case, why) for case, why in outcome.skipped]
        self.failures += [(job, case, why) for case, why in outcome.failed]
        self.took.append((seconds, cpu, job))
        count = outcome.passed + len(outcome.skipped) + len(outcome.failed)
        if self.tap:
            print(f"{'not ok' if outcome.failed else 'ok'} {len(self.took)} - {job.name}"
                  f"{' # SKIP ' + ' '.join(outcome.skipped[0][1]) if outcome.skipped else ''}")
            for line in [*outcome.notes, f"{seconds:.1f} s, {cpu:.1f} s of processor time", *(line for _, why in outcome.failed for line in why or ())]:
                print(f"# {line}", flush=True)
            return
        word = "not ok" if outcome.failed else "ok" if outcome.passed else "skip" if outcome.skipped else "ok"
        print(f"{word:6} {seconds:7.1f} s {cpu:7.1f} s CPU  {job.name}{f' ({count})' if count > 1 else ''}", flush=True)
        for note in outcome.notes:
            print(f"         {note}")
        self.file.write(json.dumps({"name": job.name, "kind": job.kind, "seconds": round(seconds, 3), "cpu": round(cpu, 3),
                                    "passed": outcome.passed, "skipped": [case for case, _ in outcome.skipped],
                                    "failed": [case for case, _ in outcome.failed]}) + "\n")
        self.file.flush()

    def end(self, seconds, interrupted=False):
        """Says it all; True if all is well."""
        self.took.sort(key=lambda one: -one[0])
        if len(self.took) > SLOWEST:
            print(f"\nthe {SLOWEST} that took longest (seconds, of processor time, kind):")
            for took, cpu, job in self.took[:SLOWEST]:
                print(f"  {took:7.1f} {cpu:7.1f}  {job.kind:8}  {job.name}")
        for job, case, why in self.skipped:
            print(f"skipped {job.name}{': ' + case if case else ''}{': ' + ' '.join(why[-1:]) if why else ''}")
        if self.failures:
            print()
        for job, case, why in [] if self.tap else self.failures:
            if why is None:  # counted, and said with the one before
                continue
            print(f"FAILED {job.name}{': ' + case if case else ''}")
            for line in why[:LINES_OF_A_FAILURE]:
                print(f"    {line}")
            print(f"    repeat with: {self.repeat(job)}")
        print(f"{'interrupted after' if interrupted else 'took'} {seconds:.0f} s"
              + (f"; seconds of each: {os.path.relpath(self.path)}" if self.path else ""))
        print(f"{self.passed} passed, {len(self.failures)} failed, {len(self.skipped)} skipped", flush=True)
        return not interrupted and not self.failures and self.passed + len(self.skipped) > 0
