"""What a change can reach, by what the build knows: the files that each object was made of, the objects of each library, and which of
them the linker took into each program."""
import os
import re
import subprocess

from builds import ROOT

# Libraries whose code belongs to one job of Culm; what any other holds belongs to all.
JOBS = {"pipeline": "train", "pipeline_config": "train", "train_config": "train", "train_numeric": "train", "run": "train",
        "gnn_config": "gnn", "gnn_numeric": "gnn", "gnn_partition": "gnn", "interval": "gnn", "data_graphs": "gnn",
        "run_gnn": "gnn",
        "edge": "edge", "live": "edge", "live_memory": "edge", "merge": "edge", "query_files": "edge", "query": "edge", "query_subject": "train", "merge_learn": "edge", "vision": "edge",
        "darknet": "edge", "run_vision": "edge", "run_edge": "edge", "run_merge": "edge"}
EVERY_JOB = {"train", "gnn", "edge"}


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)


def landed():
    """The commit to compare with when none is named: where this branch left what it follows, or main there; without one, HEAD."""
    for name in "@{upstream}", "origin/main":
        base = git("merge-base", "HEAD", name)
        if base.returncode == 0:
            return base.stdout.strip()
    return "HEAD"


def changed_since(commit):
    """Paths of what differs, added and removed files too. Raises ValueError if there is no such commit."""
    differs = git("diff", "--name-only", "--no-renames", commit, "--")
    if differs.returncode:
        raise ValueError(differs.stderr.strip().splitlines()[-1] if differs.stderr else f"no commit '{commit}'")
    new = git("ls-files", "--others", "--exclude-standard")
    return sorted(set(differs.stdout.splitlines() + new.stdout.splitlines()))


def statements(text):
    """(outputs, rule, inputs) of each build statement of a ninja file."""
    for line in re.sub(r"\$\n *", "", text).splitlines():
        if line.startswith("build "):
            words = [re.sub(r"\$(.)", r"\1", word) for word in re.findall(r"(?:\$.|[^ :$])+|:", line[len("build "):])]
            at = words.index(":")
            outputs = [word for word in words[:at] if word != "|"]
            inputs = words[at + 2:]
            if "||" in inputs:  # what only has to be there before
                inputs = inputs[:inputs.index("||")]
            yield outputs, words[at + 1], [word for word in inputs if word != "|"]


class Reach:
    """Of a folder in which everything is built that is built by default, so that it says what is made of what now."""

    def __init__(self, build):
        self.build = build
        with open(os.path.join(build.path, "build.ninja"), encoding="utf-8") as file:
            self.made_of, self.linked = {}, set()
            for outputs, rule, inputs in statements(file.read()):
                self.made_of |= dict.fromkeys(outputs, inputs)
                if rule.endswith("_LINKER") and "STATIC" not in rule:
                    self.linked |= set(filter(self.is_there, outputs))
        self.included = {}
        deps = subprocess.run(["ninja", "-C", build.path, "-t", "deps"], capture_output=True, text=True, check=True).stdout
        for block in deps.split("\n\n"):
            lines = block.splitlines()
            if lines:
                self.included[lines[0].split(": #deps")[0]] = {line.strip() for line in lines[1:]}
        self.names, self.closures, self.read = {}, {}, {}

    def is_there(self, output):
        """It is not, if it is built on demand only."""
        return os.path.exists(os.path.join(self.build.path, output))

    def closure(self, output):
        """All that it is made of, itself too."""
        if output not in self.closures:
            found = {output}
            for each in self.made_of.get(output, ()):
                found |= self.closure(each)
            self.closures[output] = found
        return self.closures[output]

    def learn_names(self, objects):
        """Reads which names these objects define for others."""
        new = sorted(objects - set(self.names))
        self.names |= {path: set() for path in new}
        if new:
            said = subprocess.run(["nm", "--defined-only", "--extern-only", "--portability", "--print-file-name", *new],
                                  capture_output=True, text=True, check=True, cwd=self.build.path).stdout
            for line in said.splitlines():
                path, name = line.split(maxsplit=2)[:2]
                self.names[path[:-1]].add(name.encode() + b"\0")

    def bytes_of(self, program):
        """The file, in which are the names of all that was linked."""
        if program not in self.read:
            with open(os.path.join(self.build.path, program), "rb") as file:
                self.read[program] = file.read()
        return self.read[program]

    def objects(self, changed):
        """The objects that are made of any of these files (paths from the root)."""
        wanted = {os.path.relpath(os.path.join(ROOT, path), self.build.path) for path in changed}
        return {output for output, inputs in self.made_of.items()
                if output.endswith(".o") and (wanted & set(inputs) or wanted & self.included.get(output, set())) and self.is_there(output)}

    def holds(self, program, thing):
        """Whether the program has this object in it: of a library's objects the linker takes those that it needs."""
        if thing not in self.closure(program):
            return False
        if thing in self.made_of.get(program, ()):
            return True
        names = self.names[thing]
        return not names or any(name in self.bytes_of(program) for name in names)

    def programs(self, objects):
        """Programs and shared libraries that have any of them."""
        self.learn_names(objects)
        return {program for program in self.linked if objects & set(self.made_of[program])
                or any(self.holds(program, thing) for thing in objects & self.closure(program))}

    def jobs(self, objects):
        """The jobs of Culm that these objects belong to, as far as the program `culm` has them. After `programs`."""
        found = set()
        for thing in objects:
            if self.holds("src/cli/culm", thing):
                library = re.search(r"libculm_(\w+)\.a\.p/", thing)
                found |= {JOBS[library.group(1)]} if library and library.group(1) in JOBS else EVERY_JOB
        return found


def modules_that_import(folder, names):
    """Of the Python files there, those that import any of these, or what imports them, and these."""
    imports = {}
    for file in os.listdir(folder):
        if file.endswith(".py"):
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                imports[file[:-len(".py")]] = set(re.findall(r"^\s*(?:from|import) (\w+)", text.read(), re.M))
    found = set(names)
    while True:
        more = {name for name, what in imports.items() if what & found} - found
        if not more:
            return found
        found |= more


class Choice:
    """What to run for these changed files. `said`: lines about what they reach."""

    def __init__(self, build, changed):
        self.reach = Reach(build)
        objects = self.reach.objects(changed)
        self.programs = self.reach.programs(objects)
        self.files = {target["id"]: target["filename"] for target in build.read("intro-targets")}
        self.changed = set(changed)
        self.paths = {os.path.join(ROOT, path) for path in changed}
        self.jobs = self.reach.jobs(objects)
        scripts = {os.path.basename(path)[:-len(".py")] for path in changed if path.startswith("tests/system/") and path.endswith(".py")}
        self.scripts = scripts
        self.scripts_about = modules_that_import(os.path.join(ROOT, "tests/system"), scripts) if scripts else set()
        self.how = [path for path in changed if os.path.basename(path) in ("meson.build", "meson_options.txt")]
        if any(not path.startswith("tests/") for path in self.how):
            self.jobs = EVERY_JOB
        self.said = [f"{len(changed)} files differ, {len(objects)} objects are made of them"]
        if self.how:
            self.said.append(f"how things are built has changed ({', '.join(self.how[:3])}): all programs are tested")
        if self.jobs:
            self.said.append(f"first cases of the jobs they belong to: {', '.join(sorted(self.jobs))}")

    def chooses(self, test):
        """Whether this test of meson's is reached."""
        if "sim-more" in test["suite"]:
            return False
        if self.how or "check" in test["suite"]:
            return True
        if self.programs & {os.path.relpath(file, self.reach.build.path) for id in test["depends"] for file in self.files.get(id, ())}:
            return True
        words = [word for word in [*test["cmd"], *test["env"].values()] if word.startswith(ROOT)]
        words += [word.split("=", 1)[1] for word in test["cmd"] if f"={ROOT}" in word]
        for word in words:
            if word != ROOT and any(path == word or path.startswith(word + "/") for path in self.paths):
                return True
        return False

    def chooses_case(self, case):
        if case.reads in self.changed:
            return True
        if case.cases.script in self.scripts:
            return case.first or not case.product
        return case.first and (case.cases.script in self.scripts_about or case.job in self.jobs or case.job == "all" and bool(self.jobs))
