"""A system script that was started by itself: tests/system/NAME.py CULM [PART OF A CASE'S NAME]..."""
import os
import shlex
import sys
import tempfile
import time

import outcome
from cases import CaseJob
from pool import Interrupted, Pool


def run(cases, parts):
    harness = sys.modules["harness"]
    # The script itself is __main__; of those it imports, no case is run.
    jobs = [CaseJob(case, harness) for case in cases.cases if not parts or any(part in case.name for part in parts)]
    if not jobs:
        sys.exit(f"{sys.argv[0]}: no case's name has {' or '.join(map(repr, parts))} in it")
    with tempfile.TemporaryDirectory() as folder:
        report = outcome.Report(None, lambda job: shlex.join([os.path.relpath(cases.path), os.path.relpath(cases.culm), job.case.name]),
                                tap=not sys.stdout.isatty())
        if report.tap:
            print(f"1..{len(jobs)}")
        pool = Pool(folder, report.told)
        pool.add(jobs)
        started = time.monotonic()
        interrupted = False
        try:
            pool.run()
        except Interrupted:
            interrupted = True
        well = report.end(time.monotonic() - started, interrupted)
    outcome.hide_broken_pipes()
    sys.exit(130 if interrupted else 0 if well else 1)
