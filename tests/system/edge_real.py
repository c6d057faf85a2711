#!/usr/bin/env python3
"""bench/edge/real.py for some seconds: published models on a clip within what holds their limit of memory, a cgroup and RLIMIT_DATA."""
import json
import os
import subprocess
import sys

from harness import Cases, Skipped, check, equal

cases = Cases()
HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.environ.get("CULM_EDGE", os.path.join(HERE, "..", "..", "..", "shared", "data", "edge"))


def real(bench, limit):
    """Nothing is killed, no load fails, and another process sees what events say. Other tests run beside it, so how many frames are in time is not judged."""
    words = ["--workload", "nano", "--memory", "min", "--seconds", "4", "--within", "100", "--limit", limit]
    ended = subprocess.run([sys.executable, os.path.join(HERE, "..", "..", "bench", "edge", "real.py"), bench.culm, PUBLISHED, bench.path("real"), *words],
                           capture_output=True, text=True, timeout=150, check=False)
    if ended.stdout.startswith("skipped"):
        raise Skipped(ended.stdout.strip())
    row = json.loads(ended.stdout) if ended.stdout else {}
    equal(ended.returncode, 0, f"exit code: {ended.stdout} {ended.stderr}")
    equal((row["wrong"], row["code"]), ([], 0), "what does not hold")
    check(row["limited_by"].lower().startswith("rlimit" if limit == "rlimit" else "cgroup"), f"limited by {row['limited_by']}")
    check(min(row["by_query"].values()) > 0, f"answered in time: {row['by_query']}")
    bench.note(f"{row['limited_by']}: {row['limited_to']} bytes for a limit of {row['limit_bytes']}, seen {row['seen_bytes']}, {row['processed']:.3f} in time")


cases.add("a real run in a memory cgroup", lambda bench: real(bench, "cgroup"))
cases.add("a real run under RLIMIT_DATA", lambda bench: real(bench, "rlimit"))
cases.run()
