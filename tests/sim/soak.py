#!/usr/bin/env python3
"""Histories of the simulated world, very many of them: `./dev soak SEEDS [train|gnn] [--first N]`.

Each program plays SEEDS seeds, in parts, as many programs at a time as there are cores. A seed that fails ends nothing: it is printed with
the command that repeats it. A part whose program crashes, or takes more time than it may, is played again seed by seed, to find which it is.
Copies of the programs are played, so that sources may be built meanwhile.
Without --first the seeds are those of the minute in which it is started, so that no two soaks play the same ones.
"""

import argparse
import collections
import concurrent.futures
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAMS = {"train": ["histories"], "gnn": ["gnn_histories", "sim_gnn_reigns", "sim_gnn_reigns --stale"]}  # with arguments
PART = 250  # seeds
PART_CPU_S, SEED_CPU_S = 900, 120
SEEDS_MAX = 10**6
SUMS = ["histories", "failed", "takeovers", "outages", "rollbacks"]


class Soak:
    def __init__(self, folder, copies):
        self.folder, self.copies = folder, copies
        self.sums = collections.Counter()
        self.nodes = collections.Counter()
        self.lock = threading.Lock()

    def command(self, folder, program, first, count):
        name, *more = program.split()
        return [os.path.join(folder, name), *more, "--soak", "--first", str(first), "--count", str(count)]

    def play(self, program, first, count, cpu_s):
        """What it printed, or None when it was ended by a signal."""

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))

        done = subprocess.run(
            self.command(self.copies, program, first, count), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            preexec_fn=limit, check=False,
        )
        return (done.stdout, done.returncode) if done.returncode in (0, 1) and "\ntally: " in "\n" + done.stdout else (None, done.returncode)

    def take(self, program, first, count):
        text, code = self.play(program, first, count, PART_CPU_S if count > 1 else SEED_CPU_S)
        if text is not None:
            self.add(text)
        elif count > 1:
            for seed in range(first, first + count):
                self.take(program, seed, 1)
        else:
            with self.lock:
                self.sums["histories"] += 1
                self.sums["failed"] += 1
                print(
                    f"not ok - {program}, seed {first}: it ended with {code} (below 0: by that signal; -24: {SEED_CPU_S} s of CPU time were not enough)\n"
                    f"    replay: {' '.join(self.command(self.folder, program, first, 1))}",
                    flush=True,
                )

    def add(self, text):
        with self.lock:
            for line in text.splitlines():
                if line.startswith("tally: "):
                    words = line.split()
                    for name in SUMS:
                        self.sums[name] += int(words[words.index(name) + 1])
                    for pair in words[words.index("nodes") + 1 :]:
                        nodes, number = pair.split(":")
                        self.nodes[int(nodes)] += int(number)
                else:
                    print(line.replace("replay: ", f"replay: {self.folder}/"), flush=True)


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def median(nodes):
    seen, half = 0, sum(nodes.values()) / 2
    for number in sorted(nodes):
        seen += nodes[number]
        if seen >= half:
            return number
    return 0


def play_all(soak, parts, cores):
    begun = time.monotonic()

    def tell(what):
        minutes = (time.monotonic() - begun) / 60
        sums = soak.sums
        print(f"{what}{minutes:.0f} min: {sums['histories']} histories, {sums['failed']} failed, {cpu_s():.0f} s of CPU time", flush=True)

    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        left = {pool.submit(soak.take, *part) for part in parts}
        try:
            while left:
                done, left = concurrent.futures.wait(left, timeout=60)
                for each in done:
                    each.result()
                if left:
                    tell(f"# {100 * (len(parts) - len(left)) // len(parts)} % of the seeds; ")
        except KeyboardInterrupt:
            print("# interrupted: what follows is of what was played")
        finally:
            pool.shutdown(cancel_futures=True)
    tell("")


def main():
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.splitlines()[0])
    parser.add_argument("seeds", metavar="SEEDS", type=int)
    parser.add_argument("job", nargs="?", choices=sorted(PROGRAMS))
    parser.add_argument("--first", metavar="N", type=int, help="the first seed")
    parser.add_argument("--build", default="build", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not 1 <= args.seeds <= SEEDS_MAX:
        parser.error(f"SEEDS is a number from 1 to {SEEDS_MAX}")
    first = args.first if args.first is not None else int(time.strftime("%Y%m%d%H%M", time.gmtime())) * SEEDS_MAX
    programs = [p for job in sorted(PROGRAMS, reverse=True) if args.job in (None, job) for p in PROGRAMS[job]]
    cores = len(os.sched_getaffinity(0))
    folder = os.path.join(args.build, "tests", "sim")
    # Parts of all programs in turn, so that whoever ends it early has had of each.
    parts = [(program, first + at, min(PART, args.seeds - at)) for at in range(0, args.seeds, PART) for program in programs]
    with tempfile.TemporaryDirectory(prefix="culm-soak-") as copies:
        for program in {program.split()[0] for program in programs}:
            shutil.copy(os.path.join(folder, program), copies)
        soak = Soak(folder, copies)
        print(f"{args.seeds} seeds from {first} on, of each of {', '.join(programs)}; {cores} at a time", flush=True)
        play_all(soak, parts, cores)
    played = sum(soak.nodes.values())
    above = sum(number for nodes, number in soak.nodes.items() if nodes > 32)
    print(
        f"nodes: median {median(soak.nodes)}, above 32 in {100 * above / max(played, 1):.1f} %; {soak.sums['takeovers']} leaders that took over, "
        f"{soak.sums['outages']} outages of the store, {soak.sums['rollbacks']} roll-backs"
    )
    print(f"{'not ok' if soak.sums['failed'] else 'ok'} - {soak.sums['histories']} histories, {soak.sums['failed']} failed; seeds from {first} on")
    return 1 if soak.sums["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
