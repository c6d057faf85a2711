#!/usr/bin/env python3
"""bench/edge/real.py for some seconds: published models on a clip within what holds their limit of memory, a cgroup and RLIMIT_DATA."""
import json
import os
import re
import subprocess
import sys

from harness import Cases, Skipped, check, equal, read_events

cases = Cases(kind="alone", job="edge")
HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHED = os.environ.get("CULM_EDGE", os.path.join(HERE, "..", "..", "..", "shared", "data", "edge"))


NOTHING = "nothing was given back"


def real(bench, limit):
    """Nothing is killed, no load fails, and another process sees what events say. Other programs may run beside it, so how many frames are in time is not judged."""
    for seconds in 4, 20, 100:  # other programs may leave it so little time that nothing comes of it: then for longer
        folder = bench.path(f"real-{seconds}")
        words = ["--workload", "nano", "--memory", "min", "--seconds", seconds, "--within", "100", "--limit", limit]
        ended = subprocess.run([sys.executable, os.path.join(HERE, "..", "..", "bench", "edge", "real.py"), bench.culm, PUBLISHED, folder,
                                *map(str, words)], capture_output=True, text=True, timeout=900, check=False)
        if ended.stdout.startswith("skipped"):
            raise Skipped(ended.stdout.strip())
        row = json.loads(ended.stdout) if ended.stdout else {}
        failed = [event for out in ("real-min-first", "real-min") for event in read_events(os.path.join(folder, out, "events.jsonl"))
                  if event["event"] == "load_failed"]
        equal(failed, [], "loads that failed")
        if row:
            nothing = row["wrong"] == [NOTHING] or not row["wrong"] and min(row["by_query"].values()) == 0
        else:
            nothing = re.search(r"^ValueError: (min|max)\(\) .* empty", ended.stderr, re.M)  # nothing was loaded, or seen to go
        if not nothing:
            break
    equal(ended.returncode, 0, f"exit code: {ended.stdout} {ended.stderr}")
    equal((row["wrong"], row["code"]), ([], 0), "what does not hold")
    check(row["limited_by"].lower().startswith("rlimit" if limit == "rlimit" else "cgroup"), f"limited by {row['limited_by']}")
    check(min(row["by_query"].values()) > 0, f"answered in time: {row['by_query']}")
    bench.note(f"{row['limited_by']}: {row['limited_to']} bytes for a limit of {row['limit_bytes']}, seen {row['seen_bytes']}, {row['processed']:.3f} in time")


cases.add("a real run in a memory cgroup", real, "cgroup", seconds=12)
cases.add("a real run under RLIMIT_DATA", real, "rlimit", seconds=12)

if __name__ == "__main__":
    cases.run()
