#!/usr/bin/env python3
"""The kill matrix on real processes: every worker x every phase x every kind of fault.

Two pipelines of three stages. Each fault must fire, and whatever it is, the run ends with the weights and the
optimizer state of the undisturbed run, no sample lost or repeated and no roll-back: a copy always lives.
"""
from harness import EVERYTHING, PHASES, Cases, Failed, changed, check, check_fired, check_recovered, check_whole, equal, fault, tiny_config

cases = Cases()
BASE = tiny_config(cases.text)
WORKERS, STAGES = 6, 3
STEP = 3
# A freeze this short is nobody's business; a long one is found by heartbeat and put out; then we thaw it, and it is fenced.
SHORT_MS, SUSPECT_MS = 60, 1000


def setting(phase, kind, redundancy):
    """Steps enough that what is expected comes before the end; suspicion only where it is wanted."""
    steps = {"kill": 60, "short": 10, "long": 200, "forever": 12}[kind]
    config = changed(BASE, steps=steps, redundancy=redundancy)
    if phase == "checkpoint":
        config = changed(config, checkpoint__every=2)
    if kind in ("long", "forever"):
        # Who loads is dialed for twice as long: that must not be over before, and the loss another one.
        config = changed(config, cluster__suspect_ms=SUSPECT_MS * (2 if phase == "load" else 1),
                         cluster__kill_suspect_ms=300 if kind == "forever" else 60000)
    return config


def before(phase, worker, redundancy):
    """What must be lost before this worker passes this phase: (worker, step, phase) of each, and whether it is replaced."""
    first, mine = worker // STAGES * STAGES, worker % STAGES
    if phase == "transfer":  # the neighbour's stage gets a new shadow: this worker
        return [(first + (mine + 1) % STAGES, STEP - 1, "forward")], False
    if phase == "checkpoint" and worker >= STAGES:  # the first pipeline writes when it has an owner of the stage
        shadow = (mine - 1) % STAGES
        return [(mine, 2, "forward")] + ([(shadow, 2, "forward")] if redundancy != "none" else []), False
    return [], True


def spec_of(worker, phase, kind):
    how = "kill" if kind == "kill" else "stop"
    for_ms = SHORT_MS if kind == "short" else None
    step = {"load": 1, "checkpoint": 2}.get(phase, STEP)
    return (worker, step, phase), fault(worker, step, phase, how, for_ms)


def train(bench, config, words, tries, thawed, held):
    """Redundant forwards are done when there is nothing else to do; on a busy machine a step may go by without one."""
    def once(out):
        if held:
            return bench.train_and_join([WORKERS], held, config, out, *words)
        return bench.train(config, out, *words) if thawed is None else bench.train_and_thaw(thawed, config, out, *words)

    for number in range(tries - 1):
        try:
            return once(f"run-{number}")
        except Failed:
            if "never fired" not in bench.last.err:
                raise
    return once("run")


def one(bench, worker, phase, kind, redundancy):
    config = setting(phase, kind, redundancy)
    earlier, replaced = before(phase, worker, redundancy)
    if not replaced:
        config = changed(config, cluster__replace_ms=-1)
    fired, words = spec_of(worker, phase, kind)
    words = list(words)
    for other in earlier:
        words += fault(*other)
    tries = 5 if phase == "frc" else 1
    # The run waits for the replacement, in a worker of the other pipeline.
    held = ((worker + STAGES) % WORKERS, 20, "forward") if replaced and kind == "kill" else None
    run = train(bench, config, words, tries, worker if kind == "long" else None, held)
    check_whole(run, cases.reference(config))
    check_fired(run, earlier + [fired] + ([held] if held else []))
    check_recovered(run)
    lost = {event["node"]: event for event in run.all("lost")}
    wanted = {other[0] for other in earlier} | (set() if kind == "short" else {worker})
    equal(set(lost), wanted, "workers lost")
    if worker in lost:
        causes = {"kill": ("eof", "exit")}.get(kind, ("heartbeat", "stuck"))
        check(lost[worker]["cause"] in causes, f"cause of the loss is {lost[worker]['cause']}, not one of {causes}")
    equal({event["node"] for event in run.all("fenced")}, {worker} if kind == "long" else set(), "workers fenced")
    if replaced and kind in ("kill", "long"):
        equal([event["node"] for event in run.all("joined")][WORKERS:], [WORKERS], "replacements joined")


def kinds(redundancy, worker, phase):
    """Which kinds of fault to try; with CULM_SYSTEM_ALL set, all of them."""
    if EVERYTHING:
        return ["kill", "short", "long", "forever"]
    if redundancy != "eager":
        return ["kill"]
    return ["kill"] + (["short", "forever"] if (worker + PHASES.index(phase)) % 2 else ["long"])


for redundancy in ("eager", "lazy", "none"):
    for worker in range(WORKERS):
        for phase in PHASES:
            if phase == "frc" and redundancy != "eager":
                continue
            if redundancy == "none" and (phase == "transfer" or (phase == "checkpoint" and worker >= STAGES)):
                continue  # see losses.py for transfers; and after the loss before it no copy might be left
            for kind in kinds(redundancy, worker, phase):
                cases.add(f"{redundancy}: worker {worker}, {phase}, {kind}", one, worker, phase, kind, redundancy)
cases.run()
