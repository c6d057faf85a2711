#!/usr/bin/env python3
"""What a run at an etcd has to say that no etcd would take: a plan of more than 1 MB lies in the storage of its checkpoints, under its SHA-256. And
data of more than 64 MB, of which the plan has the hash of the whole before any other machine compares its own with it.
"""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import signal

from cluster_harness import ClusterRun
from gnn_harness import ENDLESS as ENDLESS_EPOCHS, Graphs
from harness import Cases, changed, check, children_of, equal, tiny_config
from s3_standin import BUCKET, S3
from vision_harness import model

cases = Cases(kind="waits", job="train")
graphs = Graphs(cases, "--vertices", "400", "--edges", "1600", "--features", "24", "--classes", "4", "--seed", "3")
CROWD = {"heartbeat_ms": 50, "suspect_ms": 60000, "orphan_ms": 30000, "lease_ms": 5000}
PICTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "data", "pictures")
LIMIT = 1 << 20  # of a value in an etcd, as Culm sees it
LARGE = 66 << 20  # of data that is not read as a whole each time it is opened


def many_classes():
    """A folder of so many classes, of such long names, that a plan with them has more than 1 MB. One picture each."""
    def make():
        folder, picture = os.path.join(cases.folder, "classes"), os.path.join(cases.folder, "one.jpg")
        shutil.copy(os.path.join(PICTURES, "plain.jpg"), picture)
        for number in range(6000):
            name = os.path.join(folder, f"{number:04}-" + "class" * 40)
            os.makedirs(name)
            os.link(picture, os.path.join(name, "one.jpg"))
        return folder

    return cases.once("many classes", make)


def of_classes():
    config = model(1, [1, 1])
    return {**config, "model": {**config["model"], "classes": 6000}, "data": {"kind": "images", "path": many_classes()},
            "batch": {"global": 4, "micro": 2, "lanes": 2}, "pipelines": 1, "stages": 2, "redundancy": "eager", "steps": 1000000,
            "schedule": {"name": "constant"}, "checkpoint": {"every": 10, "keep": 1}, "cluster": CROWD}


class Run(ClusterRun):
    command = ("train",)

    def give(self, folder):
        """All have the same folder."""

    def check(self):
        steps = self.told("step")
        _, plain = cases.plain(changed(of_classes(), steps=max(event["step"] for event in steps), checkpoint__every=0))
        right = {event["step"]: event["loss_bits"] for event in plain}
        for event in steps:
            equal(event["loss_bits"], right[event["step"]], f"loss of step {event['step']}")

    def join(self, *words):
        return self.bench.run("node", "--join", self.place(), "--name", "one", "--token-file", self.token, *words, env=self.env, limit_s=60)


def apart(run):
    """What the store says of the plan, which it does not have: (its hash, its size)."""
    equal(run.key("plan"), None, "the key of the plan")
    check(run.key("config"), "the configuration is not in the store")
    said = json.loads(run.key("run"))["apart"]
    equal(sorted(said["plan"]), ["bytes", "sha256"], "what is said of the plan")
    return said["plan"]["sha256"], said["plan"]["bytes"]


def one_line(ended, code, *parts):
    equal((ended.code, ended.err.count("\n")), (code, 1), f"{ended.err!r}")
    for part in parts:
        check(part in ended.err, f"{part!r} is not in {ended.err!r}")


def whole_plan(run, text):
    sha256, size = apart(run)
    equal((len(text), hashlib.sha256(text).hexdigest()), (size, sha256), "what lies there")
    check(size > LIMIT, f"a plan of {size} bytes shows nothing")
    equal(len(json.loads(text)["inputs"]["classes"]), 6000, "classes")


def taken_over(run):
    """Who created the run is killed, machine and all; who leads next has the plan from the storage, and prunes there."""
    run.machines[0].kill()
    run.wait(lambda: run.terms() == [2], "another leader")
    before = json.loads(run.key("saved") or '{"step": 0}')["step"]
    run.wait(lambda: json.loads(run.key("saved") or '{"step": 0}')["step"] >= before + 30, "checkpoints under it")
    equal(run.told("rollback"), [], "roll-backs")


def in_folder(bench):
    """A plan of 1.2 MB. Whoever leads next fetches it; pruning leaves it; a stopped run goes on with it elsewhere."""
    with Run(bench, of_classes()) as run:
        run.create("--workers", 0)
        path = bench.path("store", "texts", apart(run)[0])
        with open(path, "rb") as file:
            whole_plan(run, file.read())
        run.node(2), run.node(0)
        run.more_steps(10)
        taken_over(run)
        equal(bench.run("ckpt", "prune", bench.path("store"), "--keep", "1").code, 0, "exit code of prune")
        with open(path, "rb") as file:
            whole_plan(run, file.read())
        with open(os.path.join(os.path.dirname(run.leader().reigns()[-1]), "plan.json"), encoding="utf-8") as file:
            equal(len(json.load(file)["inputs"]["classes"]), 6000, "classes of who leads now")
        equal(bench.run("stop", "one", "--cluster", run.place()).code, 0, "exit code of stop")
        for machine in run.machines[1:]:
            machine.end(75)
        run.create("--resume", "--workers", 2)
        run.more_steps(10)
        run.check()


def in_bucket(bench):
    """The same in a bucket whose every seventh request fails."""
    with S3(every=7) as s3, Run(bench, of_classes(), s3=s3) as run:
        run.create("--workers", 0)
        name = f"runs/one/texts/{apart(run)[0]}"
        whole_plan(run, s3.objects[name])
        run.node(2), run.node(0)
        run.more_steps(10)
        taken_over(run)
        whole_plan(run, s3.objects[name])
        with s3.lock:
            kept = s3.objects.pop(name)
        one_line(run.join("--workers", 0), 3, f"the run's plan: 's3://{BUCKET}/{name}' is gone")
        with s3.lock:
            s3.objects[name] = kept[:-1] + b"?"
        one_line(run.join("--workers", 0), 3, f"the run's plan: 's3://{BUCKET}/{name}' is damaged: it has other bytes than its name says")
        run.more_steps(10)
        run.check()


@contextlib.contextmanager
def moved(path):
    os.rename(path, path + ".away")
    yield
    os.replace(path + ".away", path)


def said_by(machine):
    with open(machine.process.err_path, encoding="utf-8") as file:
        return file.read()


def damaged(bench):
    """The plan is gone, cut short, too long, or another one: one line, to whoever comes or goes on; those who are there work on. Put back, it is found."""
    with Run(bench, of_classes()) as run:
        run.create("--workers", 0)
        path = bench.path("store", "texts", apart(run)[0])
        late = run.node(2)
        run.more_steps(10)
        with open(path, "rb") as file:
            text = file.read()
        again = ("train", bench.path("run.yaml"), "--cluster", run.place(), "--name", "one", "--token-file", run.token, "--out", bench.path("again"))
        with moved(path):
            for content, said in ((None, "is gone"), (text[:-100], "is damaged: it was cut short"), (text + b"\n", "is damaged: it is too long"),
                                  (text[:-1] + b"?", "is damaged: it has other bytes than its name says"), (b"", "is damaged: it was cut short")):
                if content is not None:
                    with open(path, "wb") as file:
                        file.write(content)
                one_line(run.join(), 3, f"the run's plan: '{path}' {said}")
                one_line(bench.run(*again), 3, f"the run's plan: '{path}' {said}")
                check(not os.path.exists(bench.path("again")), "a folder is left")
            # Who may lead on a machine that computes is killed: it stands again when the plan is back, and the machine computes on.
            os.kill(min(children_of(late.process.pid)), signal.SIGKILL)
            run.wait(lambda: "who may lead ended; another one stands in 2 s" in said_by(late), "that it cannot")
            check(f"the run's plan: '{path}' is damaged" in said_by(late), f"what it says: {said_by(late)!r}")
            run.more_steps(10)
        run.wait(lambda: len(glob.glob(os.path.join(late.folder, "kept", "lead-*", "plan.json"))) == 2, "one that stands there")
        run.machines[0].kill()
        run.wait(lambda: run.terms() == [2], "that it leads")
        run.more_steps(10)
        run.check()


class GraphRun(ClusterRun):
    command = ("gnn", "train")
    unit = "epoch"

    def give(self, folder):
        os.symlink(graphs.path, os.path.join(folder, "graph"))


CONFIG = {"graph": {"path": "graph", "features": "as-is"}, "model": {"layers": 2, "width": 16, "dropout": 0.5}, "intervals": 8, "servers": 2,
          "parameter_servers": 1, "workers": 1, "optimizer": {"lr": 0.01}, **ENDLESS_EPOCHS, "checkpoint": {"every": 50}, "cluster": CROWD}


def on_graph(bench, bucket):
    """Plans of graph networks are small; so one is made long, and put where it would lie. Who leads next has it from there."""
    graphs.make(bench)
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(S3()) if bucket else None
        run = stack.enter_context(GraphRun(bench, CONFIG, s3=s3))
        run.create()
        text = (run.key("plan") + " " * LIMIT).encode()
        sha256 = hashlib.sha256(text).hexdigest()
        place = {"to": run.config["checkpoint"]["to"], **({"endpoint": s3.endpoint} if s3 else {})}
        if s3:
            s3.objects[f"runs/one/texts/{sha256}"] = text
        else:
            os.makedirs(bench.path("store", "texts"), exist_ok=True)
            with open(bench.path("store", "texts", sha256), "wb") as file:
                file.write(text)
        run.put("run", json.dumps({**json.loads(run.key("run")), "apart": {**place, "plan": {"bytes": len(text), "sha256": sha256}}}))
        run.remove("plan")
        for role in "server", "server", "parameter", "worker":
            run.node(1, "--role", role, *(("--lead", "no") if role != "server" else ()))
        run.more_steps()
        run.machines[0].kill()
        run.wait(lambda: run.terms() == [2], "another leader")
        run.more_steps()
        with open(os.path.join(os.path.dirname(run.leader().reigns()[-1]), "plan.json"), encoding="utf-8") as file:
            equal(json.load(file)["vertices"], 400, "the plan of who leads now")
        equal(run.told("rollback"), [], "roll-backs")
        graphs.check_losses(bench, run, changed(CONFIG, graph__path=graphs.path, checkpoint={"every": 0}), again=True)


# --- data of which the plan has the hash ------------------------------------------------------------------------------------


class LargeRun(ClusterRun):
    """Each machine has a copy of a text of zeros, of another time."""
    command = ("train",)

    def give(self, folder):
        path = os.path.join(folder, "text")
        with open(path, "wb") as file:
            file.truncate(LARGE)
        os.utime(path, (1, 1))


def other_byte(path):
    """In none of the blocks that are compared each time."""
    with open(path, "r+b") as file:
        file.seek(100 << 10)
        file.write(b"?")


def large_data(bench):
    """66 MB of which one byte differs: refused before it may lead, though nobody has led yet, and as a worker; the same bytes of another time are taken."""
    config = changed(tiny_config("text"), steps=1000000, schedule={"name": "constant"}, pipelines=1, stages=1, redundancy="none", cluster=CROWD)
    with LargeRun(bench, config) as run:
        run.create("--workers", 0)
        files = json.loads(run.key("plan"))["inputs"]["files"]
        with open(os.path.join(run.machines[0].folder, "text"), "rb") as file:
            equal(files[0].get("sha256"), hashlib.file_digest(file, "sha256").hexdigest(), "the hash of the whole in the plan")
        run.machines[0].kill()
        os.mkdir(bench.path("elsewhere"))
        run.give(bench.path("elsewhere"))
        other_byte(bench.path("elsewhere", "text"))
        for words in (), ("--workers", 0):
            ended = bench.run("node", "--join", run.place(), "--name", "one", "--token-file", run.token, "--data-dir", bench.path("elsewhere"), *words,
                              limit_s=60)
            equal((ended.code, "'text' is not what it was when the run began: its content has changed" in ended.err), (3, True), f"{words}: {ended.err!r}")
        run.node(1)
        run.wait(lambda: run.leader() is run.machines[-1], "that it leads")
        run.more_steps(5)
        one_line(run.bench.run("node", "--join", run.place(), "--name", "one", "--token-file", run.token, "--data-dir", bench.path("elsewhere"), "--lead", "no",
                               limit_s=60), 3, "its content has changed")
        run.more_steps(5)


def large_graph(bench):
    """Features of 66 MB of which one byte differs."""
    folder = bench.path("data", "graph")
    os.mkdir(bench.path("data"))
    made = bench.run("gnn", "make", "sbm", "--vertices", "400", "--edges", "1600", "--features", 43 << 10, "--classes", "4", "--seed", "3", "--out", folder)
    equal(made.code, 0, f"making a graph: {made.err}")
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    large = [name for name in sizes if sizes[name] > 64 << 20]
    equal(len(large), 1, f"large files among {sizes}")

    class Large(ClusterRun):
        command = ("gnn", "train")
        unit = "epoch"

        def give(self, folder_of):
            shutil.copytree(folder, os.path.join(folder_of, "graph"))

    with Large(bench, changed(CONFIG, model__width=2)) as run:
        run.create("--workers", 0)
        files = {os.path.basename(one["path"]): one for one in json.loads(run.key("plan"))["inputs"]["files"]}
        check("sha256" in files[large[0]], f"the hash of the whole is not in the plan: {files[large[0]]}")
        run.machines[0].kill()
        other_byte(bench.path("data", "graph", large[0]))
        for words in (), ("--workers", 0):
            ended = bench.run("node", "--join", run.place(), "--name", "one", "--token-file", run.token, "--data-dir", bench.path("data"), *words, limit_s=60)
            equal((ended.code, "is not what it was when the run began: its content has changed" in ended.err), (3, True), f"{words}: {ended.err!r}")


cases.add("a plan that is too large for an etcd", in_folder, seconds=15, first=True)
cases.add("such a plan in a bucket", in_bucket, seconds=15)
cases.add("such a plan is gone, or damaged", damaged, seconds=15)
cases.add("such a plan of a graph network", on_graph, False, seconds=8, job="gnn")
cases.add("such a plan of a graph network in a bucket", on_graph, True, seconds=8, job="gnn")
cases.add("large data that differs in a byte", large_data, seconds=10)
cases.add("a large graph that differs in a byte", large_graph, seconds=8, job="gnn")

if __name__ == "__main__":
    cases.run()
