#!/usr/bin/env python3
"""The kill matrix on real processes: every worker x every phase x every kind of fault. It is a product: of it runs a tenth a day.

Two pipelines of three stages. Each fault must fire, and whatever it is, the run ends with the weights and the
optimizer state of the undisturbed run, no sample lost or repeated and no roll-back: a copy always lives.
"""
from harness import PHASES, Cases, changed, check, check_fired, check_recovered, check_whole, equal, fault, hold, tiny_config
from train_harness import STAGES, Watched, idle_of

cases = Cases(kind="waits", job="train")
BASE = changed(tiny_config(cases.text), cluster__suspect_ms=60000)
WORKERS = 6
STEP = 3
# A freeze this short is nobody's business; a long one is found by heartbeat and put out; then we thaw it, and it is fenced.
SHORT_MS = 60
# How much silence that takes; everybody else is heard more often, on a busy machine, too. In long ones a keeper is frozen until what the
# test waits for has come, which must take less; as each of these cases lasts that long, it is no more.
SUSPECT_MS = {"long": 15000, "forever": 6000}
# One of each promise: no redundancy is needed for a whole run, a replacement comes, who was silent is fenced or killed, the rest of a
# checkpoint is no checkpoint.
FIRST = {
    ("eager", 1, "backward", "kill"), ("lazy", 4, "step", "kill"), ("none", 2, "forward", "kill"), ("eager", 0, "frc", "kill"),
    ("eager", 3, "reduce", "long"), ("lazy", 5, "commit", "forever"), ("eager", 2, "send", "short"), ("lazy", 1, "transfer", "kill"),
    ("eager", 0, "checkpoint", "kill"), ("none", 4, "load", "kill"),
}
LATE = 20  # a step that comes when all that is expected has had its time, or in which the run waits for it


def suspect_ms(phase, kind):
    """Who loads is dialed for twice as long: there is to be time between, or the loss is another one."""
    return SUSPECT_MS[kind] * (2 if (phase, kind) == ("load", "forever") else 1)


def setting(phase, kind, redundancy):
    """Suspicion only where it is wanted."""
    config = changed(BASE, steps=30 if kind in ("kill", "long") else 12, redundancy=redundancy)
    if phase == "checkpoint":
        config = changed(config, checkpoint__every=2)
    if kind in SUSPECT_MS:
        config = changed(config, cluster__suspect_ms=suspect_ms(phase, kind), cluster__kill_suspect_ms=300 if kind == "forever" else 60000)
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


def keeper_of(phase, worker):
    """Who holds the run in a late step: one that works whatever has been lost."""
    if phase == "checkpoint" and worker >= STAGES:
        return STAGES + (worker + 1) % STAGES  # the other pipeline has none
    return (worker + STAGES) % WORKERS


def train(bench, config, words, idle, thawed, keeper, until):
    """A whole run. idle: (worker, step, phase), frozen until another fault has fired, too; thawed: a worker that is frozen and goes on once
    it has been put out; keeper: who keeps the run from its end until all these events, (name, node), are told."""
    words = list(words) + list(fault(*idle, "stop") if idle else ()) + list(hold(keeper, LATE) if until else ())
    process = bench.start(*bench.train_words(config, "run", *words))
    run = Watched(bench, process)
    if idle:
        run.until(lambda: run.stands(idle[0]) and any(event["phase"] == "frc" for event in run.told("fault")), "the redundant forward")
        run.thaw(idle[0])
    if thawed is not None:
        run.until(lambda: run.told("lost", thawed), "the loss of the frozen worker")
        run.thaw(thawed)
    if until:
        run.until(lambda: run.stands(keeper) and all(run.told(*event) for event in until), f"{until}")
        run.thaw(keeper)
    return bench.trained(process)


def one(bench, worker, phase, kind, redundancy):
    config = setting(phase, kind, redundancy)
    earlier, replaced = before(phase, worker, redundancy)
    if not replaced:
        config = changed(config, cluster__replace_ms=-1)
    fired, words = spec_of(worker, phase, kind)
    words = list(words)
    for other in earlier:
        words += fault(*other)
    idle = idle_of(worker, STEP) if phase == "frc" else None
    until = [("fenced", worker)] if kind == "long" else []
    if replaced and kind in ("kill", "long"):
        until.append(("joined", WORKERS))
    keeper = keeper_of(phase, worker)
    run = train(bench, config, words, idle, worker if kind == "long" else None, keeper, until)
    check_whole(run, cases.reference(config))
    check_fired(run, earlier + [fired] + ([idle] if idle else []) + ([(keeper, LATE, "forward")] if until else []))
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


for redundancy in ("eager", "lazy", "none"):
    for worker in range(WORKERS):
        for phase in PHASES:
            if phase == "frc" and redundancy != "eager":
                continue
            if redundancy == "none" and (phase == "transfer" or (phase == "checkpoint" and worker >= STAGES)):
                continue  # see losses.py for transfers; and after the loss before it no copy might be left
            for kind in ("kill", "short", "long", "forever"):
                cases.add(f"{redundancy}: worker {worker}, {phase}, {kind}", one, worker, phase, kind, redundancy,
                          seconds=1 + suspect_ms(phase, kind) // 1000 if kind in SUSPECT_MS else 1,
                          first=(redundancy, worker, phase, kind) in FIRST, product=True)

if __name__ == "__main__":
    cases.run()
