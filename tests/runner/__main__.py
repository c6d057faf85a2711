"""Builds Culm and runs its tests: `./dev test` after the packages are there.

    (nothing), first   what everybody runs: unit tests, simulated histories, checks of the sources, fuzz corpora, the installed tree, and
                       the system cases that prove the promises of the documents
    rest               all that `first` leaves out: the other system cases (of products a tenth, another one each day), more histories,
                       the quick programs once more under the address and undefined-behaviour sanitizers, threads under theirs
    all                both
    near [COMMIT]      what the files that differ from COMMIT can reach; COMMIT is what the branch has landed, if it is not named
    only TEXT...       the tests that have one of these in their names, as they are printed
    quick | sim | system | sanitize | tsan ...         these alone

Ends with `N passed, N failed, N skipped`, after what failed and the command that repeats it.
"""
import argparse
import os
import shlex
import sys

import builds
import cases
import near
import outcome
import run
from builds import BuildJob, in_suites

FIRST = "unit", "check", "fuzz", "embed", "sim"
ASAN = "unit", "fuzz", "sim", "sim-more", "sanitize"
# What is for a part of the tests: their suites in the plain build.
PARTS = {"quick": ("unit", "check", "fuzz", "embed"), "sim": ("sim", "sim-more"), "system": (), "sanitize": (), "tsan": ()}


class PlainBuild(BuildJob):
    """The plain build, which brings system cases, too: those of which choose_case(case) holds."""

    def __init__(self, choose, choose_case):
        super().__init__(builds.plain(), choose)
        self.choose_case = choose_case

    def ended(self, status, seconds):
        result, jobs = super().ended(status, seconds)
        return result, jobs if status else jobs + self.cases()

    def cases(self):
        harness = cases.load(os.path.join(self.build.path, "src/cli/culm"))
        return cases.jobs_of(harness, self.choose_case)


class NearBuild(PlainBuild):
    """When everything is built, what it is made of says what these changed files reach."""

    def __init__(self, changed):
        super().__init__(None, None)
        self.changed = changed

    def ended(self, status, seconds):
        if not status:
            choice = near.Choice(self.build, self.changed)
            print("\n".join(choice.said))
            self.choose, self.choose_case = choice.chooses, choice.chooses_case
        return super().ended(status, seconds)


def no_case(case):
    return False


def only(texts):
    """The builds of tests that have one of these in their names."""
    found = []
    for build in builds.plain(), builds.asan(), builds.tsan():
        # A name begins with the label of its build, if that has one.
        mine = [text for text in texts if builds.label_of(text) == build.label]

        def chooses(test, build=build, mine=tuple(mine)):
            return any(text in build.name_of(test) for text in mine)

        def chooses_case(case, mine=tuple(mine)):
            return any(text in cases.name_of(case) for text in mine)
        if mine:
            found.append(BuildJob(build, chooses, everything=False) if build.label else PlainBuild(chooses, chooses_case))
    return found


def jobs_for(what, rest, options):
    """The builds with which it begins; what they bring is the rest."""
    def in_turn(case):
        return case.first or not case.product or options.all or cases.has_its_turn(case, options.day)

    asan = BuildJob(builds.asan(), in_suites(*ASAN), everything=False)
    tsan = BuildJob(builds.tsan(), in_suites("tsan"), everything=False)
    if what == "first":
        return [PlainBuild(in_suites(*FIRST), lambda case: case.first)]
    if what == "rest":
        return [PlainBuild(in_suites("sim-more"), lambda case: not case.first and in_turn(case)), asan, tsan]
    if what == "all":
        return [PlainBuild(in_suites(*FIRST, "sim-more"), in_turn), asan, tsan]
    if what == "only":
        return only(rest)
    if what == "near":
        changed = near.changed_since(rest[0] if rest else near.landed())
        return [NearBuild(changed)] if changed else []
    parts = [what, *rest]
    suites = [suite for part in parts for suite in PARTS[part]]
    found = [PlainBuild(in_suites(*suites), in_turn if "system" in parts else no_case)] if suites or "system" in parts else []
    return found + [job for part, job in (("sanitize", asan), ("tsan", tsan)) if part in parts]


def repeat(job):
    """The command that runs it alone."""
    if isinstance(job, BuildJob):
        return f"ninja -C {job.build.folder}"
    if isinstance(job, builds.Program) and job.build.label not in ("", *builds.LABELS):
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
    what, *rest = options.words or ["first"]
    parts = {what, *rest} <= set(PARTS)
    if not (parts or what == "only" and rest or what == "near" and len(rest) < 2 or what in ("first", "rest", "all") and not rest):
        parser.error(f"unknown '{' '.join(options.words)}'; there are first, rest, all, near [COMMIT], only TEXT..., "
                     f"and one or more of {', '.join(PARTS)}")
    os.chdir(builds.ROOT)
    report = outcome.Report(os.path.join(builds.ROOT, "build/test-logs", what + ".jsonl"), repeat)
    for label, why in options.missing:
        report.skipped.append((builds.Job(label), "", [why]))
    if options.programs or options.missing:
        try:
            jobs = [program for label, folder, pattern, wrapper in options.programs
                    for program in builds.programs(builds.Build(folder, label, wrapper=shlex.split(wrapper)), pattern)]
        except ValueError as problem:
            sys.exit(f"./dev: {problem}")
    else:
        try:
            jobs = jobs_for(what, rest, options)
        except ValueError as problem:
            sys.exit(f"./dev: test {what}: {problem}")
        if not jobs:
            print("nothing differs: nothing to test")
            print("0 passed, 0 failed, 0 skipped")
            sys.exit(0)
        if (what in ("rest", "all") or "system" in options.words) and not options.all:
            print(f"of products of circumstances, the tenth of day {options.day} (--day {options.day} repeats it, --all takes all)", flush=True)
    sys.exit(run.run(jobs, report))


main()
