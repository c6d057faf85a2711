#!/usr/bin/env python3
"""Training that no machine has to stay for: `culm train --cluster`, `culm node --join etcd://...`, with a real etcd.

What a run computed is compared with an undisturbed one, step by step: runs go on until a case has seen what it waits for.
"""
import json
import os
import shutil
import signal
import time

from cluster_harness import LIMIT_S, ClusterRun
from harness import Cases, Skipped, changed, check, children_of, equal, read_events, tiny_config, wait_until
from hosts import Hosts, Unavailable as NoHosts
from s3_standin import ENVIRONMENT, S3

cases = Cases(kind="waits", job="train")
# A lease that a busy machine keeps. Who is killed is seen without it.
ENDLESS = changed(tiny_config("text"), steps=1000000, schedule={"name": "constant"}, checkpoint__every=25, cluster__orphan_ms=30000,
                  cluster__lease_ms=5000)


class Run(ClusterRun):
    command = ("train",)

    def give(self, folder):
        shutil.copyfile(cases.text, os.path.join(folder, "text"))
        os.utime(os.path.join(folder, "text"), (1, 1))

    def check(self):
        """Every step of every reign is that of an undisturbed run, and none was done twice."""
        steps = [event for event in self.events() if event["event"] == "step"]
        _, plain = cases.plain(changed(ENDLESS, data__path=cases.text, steps=max(event["step"] for event in steps)))
        right = {event["step"]: event["loss_bits"] for event in plain}
        for event in steps:
            equal(event["loss_bits"], right[event["step"]], f"loss of step {event['step']}")


def killed(bench):
    """Whoever leads is killed, machine and all, three times; the first time that is who created the run. Nothing that was committed is done again."""
    with Run(bench, ENDLESS) as run:
        run.create()
        for _ in range(2):
            run.node(3)
        run.node(0), run.node(0)
        run.more_steps()
        took = []
        for number in range(3):
            leader = run.leader()
            check(leader is not None, "nobody leads")
            equal(leader is run.machines[0], number == 0, "whether who created it leads")
            before, begun = run.steps(), time.monotonic()
            if len(children_of(leader.process.pid)) > 1:  # it has workers too, and so its loss would be more than that of who leads
                os.kill(leader.leading(), signal.SIGKILL)
            else:
                leader.kill()
            run.wait(lambda number=number: len(run.terms()) == number + 1, f"leader {number + 2}")
            run.wait(lambda before=before: run.steps() > before, "a step under it")
            took.append(round(time.monotonic() - begun, 2))
            run.more_steps()
        equal(run.terms(), [2, 3, 4], "terms")
        status = bench.run("status", "one", "--cluster", run.place(), "--token-file", run.token, "--json")
        now = json.loads(status.out)
        equal((now["state"], now["term"], now["store"], now["copies"], now["pipelines"], now["stages"], now["steps"]),
              ("running", 4, "ok", [4, 4, 4], 2, 3, 1000000), "status")
        equal((sorted(node["state"] for node in now["nodes"]), sum(agent["leads"] for agent in now["agents"])), (["member"] * 6, 1), "nodes, agents")
        check(now["step"] > 60 and isinstance(now["loss"], float), f"{now}")
        less = json.loads(bench.run("status", "one", "--cluster", run.place(), "--json").out)
        equal((less["state"], less["view"], less["stored"] > 0), ("running", None, True), "status without the token")
        listed = json.loads(bench.run("runs", "--cluster", run.place(), "--json").out)
        equal([(one["name"], one["state"], one["nodes"]) for one in listed], [("one", "running", 6)], "runs")
        equal((run.told("rollback"), run.told("lost")), ([], []), "roll-backs and losses")
        bench.note(f"seconds until it led, and had made a step: {took}; took_ms {sorted({round(event['took_ms'], 1) for event in run.told('leader')})}")
        run.check()


def vanish(bench):
    """Machines come and go, two of three at a time in the end; what is left goes on, from the storage if it has to."""
    with Run(bench, ENDLESS) as run:
        run.create()
        for _ in range(3):
            run.node(2)
        run.more_steps()
        for _ in range(3):
            for machine in run.machines[-3:-1]:
                machine.kill()
            run.node(2), run.node(2)
            run.more_steps()
        run.check()


def stopped(bench):
    """SIGTERM to who created it stops the run, for all; --resume goes on, here or elsewhere, and any other configuration is another run."""
    with Run(bench, ENDLESS) as run:
        first = run.create()
        nodes = [run.node(3), run.node(3)]
        run.more_steps()
        first.process.send_signal(signal.SIGTERM)
        first.end(75)
        equal(json.loads(bench.run("status", "one", "--cluster", run.place(), "--json").out)["state"], "stopped", "state")
        for node in nodes:
            check("the run was stopped; once it is resumed, start this node again" in node.end(75), "what a node says")
        again = bench.start("train", bench.config(run.config, "run.yaml"), "--cluster", run.place(), "--name", "one", "--token-file", run.token, "--out",
                            bench.path("again"), cwd=nodes[0].folder)
        equal((bench.end(again).code, "--resume goes on with it" in bench.last.err), (75, True), f"a run that was stopped: {bench.last.err}")
        other = bench.start("train", bench.config(changed(run.config, seed=4), "other.yaml"), "--cluster", run.place(), "--name", "one", "--token-file",
                            run.token, "--out", bench.path("again"), cwd=nodes[0].folder)
        equal((bench.end(other).code, "another configuration" in bench.last.err), (3, True), f"another configuration: {bench.last.err}")
        before = run.steps()
        run.create("--resume")
        run.node(6)
        run.more_steps()
        equal(min(event["step"] for event in run.machines[3].run.told("step") if event["step"] > before), before + 1, "the first step after it")
        equal(run.told("rollback"), [], "roll-backs")
        ended = bench.run("stop", "one", "--cluster", run.place())
        equal((ended.code, ended.out), (0, "'one' was stopped\n"), "what stop says")
        for machine in run.machines[3:]:
            machine.end(75)
        again = bench.run("stop", "one", "--cluster", run.place())
        equal((again.code, again.err), (1, "culm stop: nobody is at work for 'one', which was stopped\n"), "stop once more")
        run.check()


def away(bench):
    """The store is away for a while: training goes on, a worker that is lost meanwhile is made up for, and another one comes in when it is back."""
    with Run(bench, ENDLESS) as run:
        run.create()
        nodes = [run.node(3), run.node(3)]
        run.more_steps()
        joined = len(run.told("joined"))
        run.etcd.kill(0)
        run.more_steps()
        os.kill(max(children_of(nodes[0].process.pid)), signal.SIGKILL)
        run.wait(lambda: run.told("recovered"), "a recovery")
        run.more_steps()
        time.sleep(6)  # longer than a lease
        run.more_steps()
        equal(len(run.told("joined")), joined, "who came in while nobody could be let in")
        run.etcd.start(0)
        run.etcd.wait()
        run.wait(lambda: len(run.told("joined")) > joined, "another worker")
        run.more_steps()
        store = run.told("store")
        equal(([event["state"] for event in store], store[1]["for_ms"] > 5000), (["lost", "back"], True), f"what is told of it: {store}")
        equal(run.told("rollback"), [], "roll-backs")
        run.check()


def away_for_long(bench):
    """The store is away for longer than cluster.store_ms: what was done is saved, and the run waits; when it is back, all goes on. Away for
    cluster.orphan_ms more, who leads gives up, and its nodes end by themselves; the next one goes on from the checkpoint."""
    config = changed(ENDLESS, cluster__store_ms=2000, cluster__orphan_ms=6000, cluster__suspect_ms=3000)
    with Run(bench, config) as run:
        run.create()
        run.node(3), run.node(3)
        run.more_steps()
        run.etcd.kill(0)
        run.wait(lambda: any("nothing is committed" in event["message"] for event in run.told("warning")), "that it waits")
        waits = run.steps()
        run.wait(lambda: any(event["ok"] and event["step"] == waits for event in run.told("checkpoint")), "a checkpoint of what was done")
        time.sleep(1)
        equal(run.steps(), waits, "steps while it waits")
        run.etcd.start(0)
        run.etcd.wait()
        run.more_steps()
        equal((run.told("leader"), run.told("rollback")), ([], []), "leaders, roll-backs")
        run.etcd.kill(0)
        run.wait(lambda: all("is gone" in open(machine.process.err_path, encoding="utf-8").read() or "ended" in open(
            machine.process.err_path, encoding="utf-8").read() for machine in run.machines[1:]), "that nodes end by themselves")
        last = run.steps()
        run.etcd.start(0)
        run.etcd.wait()
        run.wait(lambda: run.steps() > last, "steps after that")
        run.more_steps()
        run.check()


def away_and_nobody_leads(bench):
    """The store is away, and who leads is lost: nobody can lead for longer than cluster.orphan_ms. Nodes wait, and all that they had is there."""
    with Run(bench, changed(ENDLESS, cluster__orphan_ms=8000, cluster__suspect_ms=4000, cluster__lease_ms=2000)) as run:
        first = run.create()
        nodes = [run.node(3), run.node(3)]
        run.more_steps()
        run.etcd.kill(0)
        first.kill()
        time.sleep(12)
        said = "".join(open(node.process.err_path, encoding="utf-8").read() for node in nodes)
        check("ended" not in said, f"what nodes say: {said}")
        last = run.steps()
        run.etcd.start(0)
        run.etcd.wait()
        run.wait(lambda: run.leader() in nodes and run.steps() > last, "another leader, and a step")
        run.more_steps()
        equal((run.told("rollback"), run.told("lost")), ([], []), "roll-backs, losses")
        run.check()


def at(bench, phase, how):
    """Whoever leads is killed, or frozen for longer than its lease, at exactly one point of its work; the next one goes on."""
    config = changed(ENDLESS, cluster__lease_ms=2000 if how == "stop" else 5000)
    with Run(bench, config) as run:
        more = ",for_ms=4000" if how == "stop" else ""
        first = run.create("--fault", f"leader,step=20,phase={phase},how={how}{more}")
        nodes = [run.node(3), run.node(3)]
        run.wait(lambda: run.steps() >= (25 if phase in ("view", "transaction") else 12), "steps")
        if phase == "view":  # a loss makes one
            os.kill(max(children_of(nodes[1].process.pid)), signal.SIGKILL)
        if phase == "transaction":  # a stop is one
            first.process.send_signal(signal.SIGTERM)
            first.end(75)
            for node in nodes:
                node.end(75)
            equal(json.loads(run.key("stop"))["term"], 1, "the term that has stopped it")
        else:
            run.wait(lambda: run.terms() == [2], "another leader")
            run.more_steps()
        equal(run.told("rollback"), [], "roll-backs")
        run.check()


def frozen(bench):
    """Whoever leads freezes for longer than its lease: another one leads, and the first, when it wakes, says nothing to anyone, and stands again."""
    with Run(bench, ENDLESS) as run:
        first = run.create()
        run.node(3), run.node(3)
        run.more_steps()
        pid = first.leading()
        os.kill(pid, signal.SIGSTOP)
        run.wait(lambda: run.told("leader"), "another leader")
        run.more_steps()
        os.kill(pid, signal.SIGCONT)
        run.wait(lambda: pid not in children_of(first.process.pid) and children_of(first.process.pid), "another one that stands there")
        run.more_steps()
        equal((run.terms(), run.told("rollback"), run.told("lost")), ([2], [], []), "terms, roll-backs, losses")
        run.check()


def zones(bench):
    """Three zones, and the etcd apart: the zone of whoever leads is cut off, and every stage has a copy elsewhere. Another zone leads when the lease has
    ended; when the first is back, what is left of it has ended or been put out, and its node comes in anew. All is encrypted."""
    try:
        hosts = Hosts(os.path.basename(bench.folder), 4)
    except NoHosts as error:
        raise Skipped(str(error)) from None
    config = changed(ENDLESS, cluster__suspect_ms=3000, cluster__orphan_ms=8000, cluster__lease_ms=3000, pipelines=1)
    with hosts, Run(bench, config, hosts=hosts) as run:
        first = run.create("--workers", 2, host=1)
        run.node(2, "--zone", "two", host=2), run.node(2, "--zone", "three", host=3)

        def elsewhere():
            others = {event["node"] for event in run.told("joined") if event.get("zone") in ("two", "three")}
            views = run.told("view")
            return views and all({role["owner"], role["shadow"]} & others for role in views[-1]["map"]) and min(views[-1]["copies"]) > 1
        run.wait(elsewhere, "copies in other zones")
        run.more_steps()
        starts = run.told("start")
        equal((len(starts), starts[0]["address"].split(":")[1]), (1, hosts.address(1)), "who leads, and where")
        hosts.link(1, "down")
        cut = time.monotonic()
        run.wait(lambda: run.terms() == [2], "another leader")
        led = time.monotonic() - cut
        before = run.steps()
        run.more_steps()
        bench.note(f"another one led {led:.1f} s after the cut; steps went on from {before}")
        equal(run.told("rollback"), [], "roll-backs")
        time.sleep(config["cluster"]["orphan_ms"] / 1000)  # whoever was cut off has ended by then
        joined = len(run.told("joined"))
        hosts.link(1, "up")
        run.wait(lambda: len(run.told("joined")) >= joined + 2, "those of the first zone")
        run.more_steps()
        equal((run.terms(), run.told("rollback")), ([2], []), "terms, roll-backs")
        check(first.process.poll() is None, "the first machine's agent has ended")
        run.check()


def await_resumed(path):
    """Until a run has gone on for some steps; from which it has. What was done before, elsewhere, is in its events too."""
    told = lambda what: [event for event in read_events(path) if event["event"] == what] if os.path.exists(path) else []
    wait_until(lambda: told("resumed"), LIMIT_S, "the resume")
    from_step = told("resumed")[-1]["step"]
    wait_until(lambda: max((event["step"] for event in told("step")), default=0) > from_step + 10, LIMIT_S, "steps")
    return from_step


def storage_alone(bench):
    """Everything is gone but the storage, after three reigns: the run goes on from there, in a new folder, with every step in its events."""
    with Run(bench, ENDLESS) as run:
        run.create()
        run.node(0), run.node(0), run.node(6, "--lead", "no")
        for _ in range(2):
            run.wait(lambda before=run.key("saved"): run.key("saved") != before, "a checkpoint")
            run.leader().kill()
            run.more_steps()
        run.wait(lambda before=run.key("saved"): run.key("saved") != before, "a checkpoint of the last one")
        saved = json.loads(run.key("saved"))["step"]
    shutil.copyfile(cases.text, bench.path("text"))
    process = bench.start("train", bench.path("run.yaml"), "--resume", "--out", bench.path("new"))
    path = bench.path("new", "events.jsonl")
    from_step = await_resumed(path)
    check(from_step >= saved, f"it goes on from {from_step}, and {saved} was saved")
    process.send_signal(signal.SIGTERM)
    equal(bench.end(process).code, 75, "exit code of what goes on")
    steps = [event for event in read_events(path) if event["event"] == "step"]
    for number in range(1, from_step + 10):
        check(any(event["step"] == number for event in steps), f"step {number} is not in the events")
    _, plain = cases.plain(changed(ENDLESS, data__path=cases.text, steps=steps[-1]["step"]))
    right = {event["step"]: event["loss_bits"] for event in plain}
    for event in steps:
        equal(event["loss_bits"], right[event["step"]], f"loss of step {event['step']}")


def bucket(bench):
    """Checkpoints in a bucket whose every seventh request fails. Whoever leads is killed in the middle of an upload: the checkpoint does not count, and
    the next one stores another. Then all is gone but the bucket, and the run goes on from there in a new folder."""
    config = changed(ENDLESS, checkpoint__every=5)
    with S3(every=7) as s3, Run(bench, config, s3=s3) as run:
        run.create()
        run.node(0), run.node(6, "--lead", "no")
        run.wait(lambda: s3.names("runs/one/manifests/"), "a checkpoint")
        s3.hold(r"PUT runs/one/manifests/")
        run.wait(lambda: s3.waiting, "one that is nearly there")
        saved = run.key("saved")
        run.machines[0].kill()
        run.wait(lambda: run.terms() == [2], "the next leader")
        run.more_steps()
        equal(run.key("saved"), saved, "the newest checkpoint that counts")
        s3.hold(None)
        run.wait(lambda: run.key("saved") != saved, "another checkpoint")
        run.more_steps()
        equal(run.told("rollback"), [], "roll-backs")
        run.check()
    shutil.copyfile(cases.text, bench.path("text"))
    with_s3 = changed(run.config, checkpoint__endpoint=s3.endpoint)
    with S3() as again:
        again.objects = s3.objects
        process = bench.start("train", bench.config(changed(with_s3, checkpoint__endpoint=again.endpoint), "again.yaml"), "--resume", "--out",
                              bench.path("new"), env=ENVIRONMENT)
        path = bench.path("new", "events.jsonl")
        from_step = await_resumed(path)
        process.send_signal(signal.SIGTERM)
        equal(bench.end(process).code, 75, "exit code of what goes on")
    check(from_step > json.loads(saved)["step"], f"it goes on from step {from_step}")


def done(bench):
    """A run that comes to its end, of which all hear; the result is that of one machine, and lies in the storage."""
    config = changed(tiny_config("text"), steps=30)
    with Run(bench, config) as run:
        first = run.create()
        nodes = [run.node(3), run.node(3)]
        for machine in first, *nodes:
            machine.end(0)
        equal(run.told("done")[0]["leaders"], 1, "leaders")
        equal(run.told("done")[0]["weights_sha256"], cases.reference(changed(config, data__path=cases.text))[0], "hash of the weights")
        late = run.node(1)
        late.end(0)
        again = bench.start("train", bench.path("run.yaml"), "--cluster", run.place(), "--name", "one", "--token-file", run.token, "--out",
                            os.path.join(first.folder, "run"), cwd=first.folder)
        ended = bench.end(again)
        equal((ended.code, ended.out, ended.err), (0, "'one' is done\n", ""), "the same command once more")
        listed = bench.run("ckpt", "list", bench.path("store"))
        check("30" in listed.out, f"what the storage has: {listed.out!r}")


def leave(bench):
    """SIGTERM to a node that has all there is: it works on until others have come, hands over to them, and ends; nothing is done again, nor
    counted as lost. Then the one that leads is told to: another one leads. A second signal ends a node as it is."""
    with Run(bench, ENDLESS) as run:
        first = run.create()
        nodes = [run.node(6, "--grace", 600)]
        run.more_steps()
        nodes[0].process.send_signal(signal.SIGTERM)
        run.wait(lambda: len(run.told("notice")) == 6, "that it says so")
        run.more_steps()
        now = json.loads(bench.run("status", "one", "--cluster", run.place(), "--token-file", run.token, "--json").out)
        # Where a step ends between what two of them say, the others, which have all, let the first go.
        equal({node["state"] for node in now["nodes"]}, {"leaving"}, "what they are at")
        nodes.append(run.node(6, "--grace", 600))
        check("leaving the run as soon as others have what is here" in nodes[0].end(75), "what it says")
        run.more_steps()
        equal([event["deadline_ms"] for event in run.told("notice")], [600000] * 6, "within what time")
        equal([event["cause"] for event in run.told("lost")], ["left"] * 6, "who is gone, and why")

        first.kill()  # another one leads, and has workers
        nodes.append(run.node(6, "--grace", 600))
        run.wait(lambda: run.leader() in nodes and len(run.told("joined")) == 18, "that a node leads, and all are there")
        run.more_steps()
        before, leader = run.terms(), run.leader()
        leader.process.send_signal(signal.SIGTERM)
        leader.end(75)
        run.wait(lambda: run.terms() == [*before, before[-1] + 1], "another leader")
        run.more_steps()
        last = next(node for node in nodes[1:] if node is not leader)
        equal(sum(event["cause"] == "left" for event in run.told("lost")), 12, "who has left")
        equal((run.told("rollback"), run.told("recovered"), len(run.told("lost"))), ([], [], 12), "roll-backs, what had to be made up for, losses")
        run.check()

        for _ in range(2):  # nobody is left who could lead, or has anything
            run.wait(lambda: last.process.poll() is None, "that it is there")
            last.process.send_signal(signal.SIGTERM)
            run.wait(lambda: "leaving the run" in open(last.process.err_path, encoding="utf-8").read(), "that it has heard")
        last.end(75)


def other_build(bench):
    """A node of another build does not lead: what it computes could differ, and it would put out all the others."""
    with Run(bench, ENDLESS) as run:
        run.create()
        run.node(6, "--lead", "no")
        run.more_steps()
        about = json.loads(run.key("run"))
        about["signature"] += "-other"
        run.put("run", json.dumps(about))
        node = run.node(0)
        check("; start nodes of the same build" in node.end(3), "what it says")
        run.more_steps()
        equal((run.terms(), run.told("lost")), ([], []), "leaders, losses")
        run.check()


def detached(bench):
    """`--detach` ends once somebody leads; what goes on is stopped as any."""
    with Run(bench, ENDLESS) as run:
        shutil.copyfile(cases.text, bench.path("text"))
        ended = bench.run("train", bench.config(run.config, "run.yaml"), "--cluster", run.place(), "--name", "one", "--token-file", run.token, "--out",
                          bench.path("kept"), "--workers", 2, "--listen", ":0", "--detach")
        check(ended.code == 0 and "'one' is led at tcp:127.0.0.1:" in ended.out and not ended.err, f"what it says: {ended}")
        events = bench.path("kept", "events.jsonl")
        run.node(4)
        run.wait(lambda: os.path.exists(events) and sum(event["event"] == "step" for event in read_events(events)) > 30, "steps")
        equal(sum(event["event"] == "joined" for event in read_events(events)), 6, "workers")
        equal(bench.run("stop", "one", "--cluster", run.place()).code, 0, "exit code of stop")
        run.machines[0].end(75)
        log = bench.path("kept", "agent.log")
        run.wait(lambda: "the run was stopped; --resume goes on with it" in open(log, encoding="utf-8").read(), "its end")


def stands_again(bench):
    """A process that may lead is killed before it ever has, where the run is to be kept: the next one there stands and leads."""
    with Run(bench, ENDLESS) as run:
        first = run.create()
        second = run.node(6, "--grace", 0)
        third = run.create()
        run.wait(lambda: len(children_of(third.process.pid)) == 1 and os.path.exists(os.path.join(third.folder, "run", "plan.json")), "another one that waits")
        pid = min(children_of(third.process.pid))
        os.kill(pid, signal.SIGKILL)
        run.wait(lambda: [child for child in children_of(third.process.pid) if child != pid], "one in its place")
        second.process.send_signal(signal.SIGTERM)
        second.end(75)
        first.kill()
        run.node(6, "--lead", "no")
        run.wait(lambda: run.leader() is third, "that it leads")
        run.more_steps()
        run.check()


def refused(bench):
    """No such run, no store, no storage, no token, a name that is none: each is one line and its exit code."""
    with Run(bench, ENDLESS) as run:
        config, token = bench.config(run.config, "run.yaml"), run.token
        shutil.copyfile(cases.text, bench.path("text"))

        def tried(code, text, *words):
            ended = bench.run(*words, limit_s=60)
            equal((ended.code, text in ended.err, ended.err.count("\n")), (code, True, 1), f"{words}: {ended.err!r}")
            check(not os.path.exists(bench.path("out")), "a folder is left")

        tried(3, "has no run 'one'", "node", "--join", run.place(), "--name", "one", "--token-file", token)
        other = bench.path("other.token")
        equal(bench.run("keys", "new", other).code, 0, "exit code of keys new")
        tried(2, "--join", "node", "--join", run.place(), "--token-file", token)
        tried(2, "--name", "node", "--join", "127.0.0.1:1", "--name", "one", "--token-file", token)
        tried(2, "--token-file", "train", config, "--cluster", run.place(), "--out", bench.path("out"))
        tried(2, "no name of a run", "train", config, "--cluster", run.place(), "--name", "a/b", "--token-file", token, "--out", bench.path("out"))
        tried(3, "checkpoint.to", "train", bench.config(ENDLESS, "apart.yaml"), "--cluster", run.place(), "--token-file", token, "--out", bench.path("out"))
        tried(3, "is no store of keys", "train", config, "--cluster", "redis://127.0.0.1:1", "--token-file", token, "--out", bench.path("out"))
        tried(4, "127.0.0.1:1", "train", config, "--cluster", "etcd://127.0.0.1:1", "--token-file", token, "--out", bench.path("out"))
        for code, text, fault in ((3, "step is missing", "leader"), (3, "allowed: prepared, commit", "leader,step=1,phase=frc"),
                                  (3, "for_ms means nothing", "leader,step=1,for_ms=5"), (3, "how", "leader,step=1,how=flip"),
                                  (2, "one of who leads here", "worker=1,step=3")):
            tried(code, text, "train", config, "--cluster", run.place(), "--name", "one", "--token-file", token, "--out", bench.path("out"), "--fault",
                  fault)
        os.mkdir(bench.path("other"))
        with open(bench.path("other", "config.yaml"), "w", encoding="ascii") as file:
            file.write("somebody's")
        elsewhere = ("train", config, "--cluster", run.place(), "--name", "one", "--token-file", token, "--out", bench.path("other"))
        tried(3, "has another run; choose another --out", *elsewhere)
        first = run.create()
        tried(3, "has another run; choose another --out", *elsewhere)
        with open(bench.path("other", "config.yaml"), encoding="ascii") as file:
            equal(file.read(), "somebody's", "what was there")
        tried(1, "is not that of the run", "node", "--join", run.place(), "--name", "one", "--token-file", other)
        tried(1, "is not that of the run", "train", config, "--cluster", run.place(), "--name", "one", "--token-file", other, "--out", bench.path("out"))
        with open(os.path.join(first.folder, "text"), "r+", encoding="ascii") as file:
            changed_text = file.read()[:-9] + "elsewhere"
        os.mkdir(bench.path("elsewhere"))
        with open(bench.path("elsewhere", "text"), "w", encoding="ascii") as file:
            file.write(changed_text)
        tried(3, "'text' is not what it was when the run began", "node", "--join", run.place(), "--name", "one", "--token-file", token, "--data-dir",
              bench.path("elsewhere"), "--workers", 0)
        tried(3, "to resume", "train", config, "--cluster", run.place(), "--resume", "--token-file", token, "--out", bench.path("out"))
        run.etcd.kill(0)
        first.process.send_signal(signal.SIGTERM)
        check("the run goes on without this process" in first.end(4), "what it says where it cannot ask")


cases.add("whoever leads is killed", killed, seconds=25, first=True)
cases.add("a zone is cut off", zones, seconds=40, first=True)
cases.add("machines vanish", vanish, seconds=40)
cases.add("the store is away", away, seconds=20, first=True)
cases.add("the store is away for long", away_for_long, seconds=30, first=True)
cases.add("the store is away, and nobody leads", away_and_nobody_leads, seconds=20, first=True)
for where in "prepared", "commit", "view", "save", "publish", "transaction":
    cases.add(f"killed at {where}", at, where, "kill", seconds=10, first=where == "commit")
cases.add("frozen at commit", at, "commit", "stop", seconds=12)
cases.add("whoever leads freezes", frozen, seconds=15)
cases.add("a stop, and a resume", stopped, seconds=15)
cases.add("all is gone but the storage", storage_alone, seconds=15)
cases.add("a bucket that fails, and a leader that is killed while it stores", bucket, seconds=20, first=True)
cases.add("a run that is done", done, seconds=8)
cases.add("nodes that leave", leave, seconds=20, first=True)
cases.add("one that is killed before it leads", stands_again, seconds=10)
cases.add("one that goes on by itself", detached, seconds=8)
cases.add("a node of another build", other_build, seconds=6)
cases.add("what is refused", refused, seconds=8)

if __name__ == "__main__":
    cases.run()
