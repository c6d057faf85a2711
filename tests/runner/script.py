"""A system script that was started by itself: tests/system/NAME.py CULM [PART OF A CASE'S NAME]..."""
import os
import shlex
import sys

import outcome
import run
from cases import CaseJob


def main(cases, parts):
    """Of the scripts that it imports, no case is run."""
    harness = sys.modules["harness"]
    jobs = [CaseJob(case, harness) for case in cases.cases if not parts or any(part in case.name for part in parts)]
    if not jobs:
        sys.exit(f"{sys.argv[0]}: no case's name has {' or '.join(map(repr, parts))} in it")
    report = outcome.Report(None, lambda job: shlex.join([os.path.relpath(cases.path), os.path.relpath(cases.culm), job.case.name]),
                            tap=not sys.stdout.isatty())
    if report.tap:
        print(f"1..{len(jobs)}")
    sys.exit(run.run(jobs, report))
