#!/usr/bin/env python3
"""One list of cases for every engine that workers of `culm gnn train` may come from.

usage: gnn_suite.py CULM [CASE...]

A case says what is learned and what befalls a worker, an engine how workers come and are lost. What is special to one engine
is in gnn_engines.py (AWS Lambda) and gnn_gearman.py.
"""
import signal

import lambda_standin
from gearman_service import Service
from gnn_harness import ENDLESS, PATIENT, Graphs, fault
from harness import Cases, changed, check, equal

cases = Cases(kind="waits", job="gnn")
graphs = Graphs(cases, "--vertices", "600", "--edges", "3000", "--classes", "4", "--features", "12", "--seed", "3")
CONFIG = {
    "graph": {"path": graphs.path, "features": "as-is"},
    "model": {"layers": 2, "width": 8},
    "intervals": 4,
    "servers": 2,
    "workers": 2,
    "cluster": PATIENT,
    **ENDLESS,
}
LISTEN = "--listen", "127.0.0.1:0"


class Local:
    """Processes of the launcher."""

    settings, words, env = {}, (), None

    def __init__(self, bench):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def lose(self, going):
        going.kill("worker", 0)


class Functions:
    """Functions of AWS Lambda, in the stand-in."""

    env = lambda_standin.ENVIRONMENT

    def __init__(self, bench):
        self.service = lambda_standin.Lambda([bench.culm, "gnn", "function"], log=bench.path("function.log"))

    def __enter__(self):
        self.service.__enter__()
        self.settings = {"engine": "lambda", "lambda": {"function": "worker", "region": lambda_standin.REGION, "endpoint": self.service.endpoint}}
        self.words = LISTEN
        return self

    def __exit__(self, *what):
        self.service.__exit__(*what)

    def lose(self, going):
        next(iter(self.service.all.values())).process.send_signal(signal.SIGKILL)


class Jobs:
    """Workers that ask a Gearman job server."""

    words, env = LISTEN, None

    def __init__(self, bench):
        self.service = Service(bench, workers=2)
        self.settings = {"engine": "gearman", "gearman": {"server": self.service.address}}

    def __enter__(self):
        self.service.__enter__()
        return self

    def __exit__(self, *what):
        self.service.__exit__(*what)

    def lose(self, going):
        self.service.workers[0].kill()
        self.service.add()


ENGINES = {"local": Local, "lambda": Functions, "gearman": Jobs}


def at_work(going, workers):
    return len(going.came()) >= workers and any(event["worker_bytes"] for event in going.told("epoch"))


def undisturbed(bench, make, changes):
    with make(bench) as engine:
        going = graphs.going(bench, changed(CONFIG, **changes, **engine.settings), "run", *engine.words, env=engine.env)
        going.wait(lambda: at_work(going, 2), "two workers at work")
        going.more_epochs(3)
        going.stop()
    equal(going.lost(), [], "losses")
    graphs.check_losses(bench, going, changed(CONFIG, **changes))


def loses_worker(bench, make, changes):
    """Another comes in its place, and both do their part."""
    with make(bench) as engine:
        going = graphs.going(bench, changed(CONFIG, **changes, **engine.settings), "run", *engine.words, env=engine.env)
        going.wait(lambda: at_work(going, 2), "two workers at work")
        engine.lose(going)
        going.wait(lambda: going.lost() and at_work(going, 3), "a loss, and a third worker")
        going.more_epochs(3)
        going.stop()
    equal(going.lost(), ["worker"], "losses")
    graphs.check_losses(bench, going, changed(CONFIG, **changes))


def loses_server(bench, make, changes):
    """Workers do the tasks of whoever owns the lost server's intervals then."""
    with make(bench) as engine:
        config = changed(CONFIG, **changes, **engine.settings)
        going = graphs.going(bench, config, "run", *engine.words, *fault("server:0", 6, "gather"), env=engine.env)
        going.wait(lambda: at_work(going, 2) and going.lost() and len(going.came("server")) == 3, "workers, a loss, and its replacement")
        going.more_epochs(3)
        going.stop()
    equal(going.lost(), ["server"], "losses")
    graphs.check_losses(bench, going, changed(CONFIG, **changes))


def old_rows(bench, make, changes):
    """With rows that may be old the bits are not those of another run. Some are old, but not in the first epoch, and none is older than allowed."""
    with make(bench) as engine:
        # One server stands still for a moment, so that the other has only its rows of the epoch before, on whatever machine.
        frozen = fault("server:1", 6, "gather", "stop", for_ms=300)
        going = graphs.going(bench, changed(CONFIG, **changes, **engine.settings), "run", *engine.words, *frozen, env=engine.env)
        going.wait(lambda: at_work(going, 2), "two workers at work")
        going.wait(lambda: any(event["ages"][-1] for event in going.told("epoch")), "a gather of rows of the epoch before")
        going.more_epochs(3)
        going.stop()
    equal(going.lost(), [], "losses")
    ages = [event["ages"] for event in going.told("epoch")]
    check(all(len(rows) == 2 for rows in ages), f"ages of rows, up to one epoch: {ages[:9]}")
    equal(ages[0][1], 0, "old rows in the first epoch")
    equal({sum(rows) for rows in ages}, {sum(ages[0])}, "how many rows are gathered in an epoch")


def model(arch, precision):
    return {"model": {"arch": arch, "layers": 2, "width": 8, **({"heads": 2} if arch == "gat" else {})}, "precision": precision}


LIST = [(f"{arch}, {precision}", undisturbed, model(arch, precision)) for arch in ("gcn", "gat", "sage") for precision in ("f32", "bf16")]
LIST += [
    ("gcn, a worker is lost", loses_worker, model("gcn", "f32")),
    ("gat in bf16, a worker is lost", loses_worker, model("gat", "bf16")),
    ("sage, a server is lost", loses_server, model("sage", "f32")),
    ("gcn, published order", undisturbed, {**model("gcn", "f32"), "order": "published"}),
    ("gcn, rows that may be old", old_rows, {**model("gcn", "f32"), "mode": "async"}),
]
for what, case, settings in LIST:
    for name, make in ENGINES.items():
        cases.add(f"{what}: {name}", case, make, settings, first=case == loses_worker and name != "lambda" and settings["precision"] == "f32")

if __name__ == "__main__":
    cases.run()
