"""Builds Culm and runs its tests: `./dev test` after the packages are there.

    (nothing), first   what everybody runs: unit tests, simulated histories, checks of the sources, fuzz corpora, the installed tree, and
                       the system cases that prove the promises of the documents
    rest               all that `first` leaves out: the other system cases (of products a tenth, another one each day), more histories,
                       everything that is small once more under the address and undefined-behaviour sanitizers, threads under theirs
    all                both
    near [COMMIT]      what the files that differ from COMMIT can reach; COMMIT is what the branch has landed, if it is not named
    only TEXT...       the tests that have one of these in their names, as they are printed
    quick | sim | system | sanitize | tsan ...         these alone

Ends with `N passed, N failed, N skipped`, after what failed and the command that repeats it.
"""
import argparse
import os
import shlex
import shutil
import sys
import tempfile
import time

import builds
import cases
import near
import outcome
from pool import Interrupted, Pool

FIRST = "unit", "check", "fuzz", "embed", "sim"
ASAN = "unit", "fuzz", "sim", "sanitize"
SUITES = {"quick": ("unit", "check", "fuzz", "embed"), "sim": ("sim", "sim-more")}


class BuildWithCases(builds.BuildJob):
    """A build that brings system cases, too: those of which choose_case(case) holds, if there is such a thing."""

    def __init__(self, build, choose, everything, choose_case):
        super().__init__(build, choose, everything, ["src/cli/culm", "tests/system/slow_disk.so"] if choose_case else [])
        self.choose_case = choose_case

    def ended(self, status, seconds):
        result, jobs = super().ended(status, seconds)
        if not status and self.choose_case:
            jobs += cases.jobs_of(cases.load(os.path.join(self.build.path, "src/cli/culm")), self.choose_case)
        return result, jobs


def either(*choosers):
    """Chooses what any of them chooses."""
    return lambda tests: [test for test in tests if any(test in choose(tests) for choose in choosers)]


def jobs_for(words, options):
    """The builds with which it begins; what they bring is the rest."""
    plain, asan, tsan = builds.plain(), builds.asan(), builds.tsan()

    def in_turn(case):
        return not case.product or options.all or cases.has_its_turn(case, options.day)

    def sanitized():
        return [builds.BuildJob(asan, builds.in_suites(*ASAN)), builds.BuildJob(tsan, builds.in_suites("tsan"))]

    what, rest = (words[0], words[1:]) if words else ("first", [])
    if what == "first":
        return [BuildWithCases(plain, builds.in_suites(*FIRST), True, lambda case: case.first)]
    if what == "rest":
        return [BuildWithCases(plain, builds.in_suites("sim-more"), True, lambda case: not case.first and in_turn(case)), *sanitized()]
    if what == "all":
        return [BuildWithCases(plain, builds.in_suites(*FIRST, "sim-more"), True, in_turn), *sanitized()]
    if what == "only":
        found = []
        for build in plain, asan, tsan:
            mine = [text for text in rest if text.split("/")[0] == build.label] if build.label else [
                text for text in rest if text.split("/")[0] not in (asan.label, tsan.label)]
            if mine:
                found.append(BuildWithCases(build, either(*(builds.by_name(build, text) for text in mine)), build is plain,
                                   None if build.label else lambda case, mine=tuple(mine): any(
                                       text in f"system/{case.cases.script}: {case.name}" for text in mine)))
        return found
    if what == "near":
        if not plain.is_set_up():
            print(f"nothing is built in {plain.folder} yet, so what a change reaches is not known: everything of `first` runs")
            return jobs_for(["first"], options)
        commit = rest[0] if rest else near.landed()
        try:
            changed = near.changed_since(commit)
        except ValueError as problem:
            sys.exit(f"./dev: test near: {problem}")
        choice = near.Choice(plain, changed)
        print("\n".join(choice.said))
        if not changed:
            return []
        return [BuildWithCases(plain, lambda tests: [test for test in tests if choice.chooses(test)], False, choice.chooses_case)]
    found = []
    suites = [suite for word in words for suite in SUITES.get(word, ())]
    if suites or "system" in words:
        found.append(BuildWithCases(plain, builds.in_suites(*suites), True, in_turn if "system" in words else None))
    return found + [job for word, job in zip(("sanitize", "tsan"), sanitized()) if word in words]


def repeat(job):
    """The command that runs it alone."""
    if isinstance(job, builds.BuildJob):
        return f"ninja -C {job.build.folder}"
    if isinstance(job, builds.Program) and job.build.label not in ("", "asan", "tsan"):
        return "./dev port"
    return "./dev test only " + shlex.quote(job.name)


def main():
    parser = argparse.ArgumentParser(prog="./dev test", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WHAT")
    parser.add_argument("--all", action="store_true", help="of products of circumstances every case, not a tenth")
    parser.add_argument("--day", type=int, default=cases.today(), help="the tenth of that day (printed by every run)")
    parser.add_argument("--programs", nargs=4, action="append", metavar=("LABEL", "FOLDER", "PATTERN", "WRAPPER"), default=[],
                        help="unit tests of a folder that is built, under a wrapper ('' for none)")
    parser.add_argument("--missing", nargs=2, action="append", metavar=("LABEL", "WHY"), default=[], help="counted as skipped")
    options = parser.parse_args()
    words = options.words
    known = {"first", "rest", "all"}
    if words and words[0] in ("near", "only"):
        if words[0] == "only" and len(words) < 2:
            parser.error("only what? a part of a test's name, as it is printed")
    elif len(words) > 1 and known & set(words) or set(words) - known - {*SUITES, "system", "sanitize", "tsan"}:
        parser.error(f"unknown '{' '.join(words)}'; there are first, rest, all, near [COMMIT], only TEXT, "
                     f"and of quick, sim, system, sanitize, tsan one or more")
    os.chdir(builds.ROOT)
    started = time.monotonic()
    if options.programs or options.missing:
        jobs = []
        for label, folder, pattern, wrapper in options.programs:
            build = builds.Build(folder, label, wrapper=shlex.split(wrapper))
            jobs += [builds.Program(build, test) for test in builds.matching(pattern)(build.tests())]
    else:
        jobs = jobs_for(words, options)
        if set(words) & {"rest", "all", "system"} and not options.all:
            print(f"of products of circumstances, the tenth of day {options.day} (--day {options.day} repeats it, --all takes all)", flush=True)
    folder = tempfile.mkdtemp(prefix="culm-tests-")
    report = outcome.Report(os.path.join(builds.ROOT, "build/test-logs", f"{'-'.join(words[:1]) or 'first'}.jsonl"), repeat)
    for label, why in options.missing:
        report.skipped.append((builds.Job(label), "", [why]))
    pool = Pool(folder, report.told)
    pool.add(jobs)
    interrupted = False
    try:
        pool.run()
    except Interrupted:
        interrupted = True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not jobs and not options.missing:
        print("nothing differs: nothing to test" if words[:1] == ["near"] else "there is no such test")
    well = report.end(time.monotonic() - started, interrupted)
    outcome.hide_broken_pipes()
    sys.exit(130 if interrupted else 0 if well or not jobs and words[:1] == ["near"] else 1)


main()
