"""Runs jobs to their end, or until somebody wants no more, and says what came of them."""
import os
import sys
import tempfile
import time

from pool import Interrupted, Pool


def run(jobs, report):
    """The exit status: 0, all is well; 1, something failed or nothing ran; 130, interrupted."""
    started, interrupted = time.monotonic(), False
    try:
        with tempfile.TemporaryDirectory(prefix="culm-tests-") as folder:
            pool = Pool(folder, report.told)
            pool.add(jobs)
            try:
                pool.run()
            except Interrupted:
                interrupted = True
        well = report.end(time.monotonic() - started, interrupted)
    except BrokenPipeError:  # whoever read the output has stopped reading; nothing runs any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 130 if interrupted else 0 if well else 1
