#!/usr/bin/env python3
"""Training on workers that join from other hosts, with a folder and a copy of the data of their own: `culm train --listen`, `culm node`.

Hosts are network namespaces (hosts.py); where there can be none, a case says so. What a run computed is compared with an undisturbed one, step by
step: runs go on until a case has seen what it waits for.
"""
import json
import os
import shutil
import signal

from harness import Cases, Skipped, changed, check, children_of, equal, read_events, sha256_of, tiny_config, wait_until
from hosts import Hosts, Unavailable

cases = Cases(kind="waits", job="train")
ENDLESS = changed(tiny_config("text"), steps=1000000, schedule={"name": "constant"}, checkpoint__every=25, cluster__orphan_ms=20000)
LIMIT_S = 120


class There:
    """Where a node works: a folder with a copy of the data, at the same relative path and with other times."""

    def __init__(self, bench, name="there"):
        self.bench, self.folder = bench, bench.path(name)
        os.mkdir(self.folder)
        shutil.copyfile(cases.text, os.path.join(self.folder, "text"))
        os.utime(os.path.join(self.folder, "text"), (1, 1))

    def node(self, address, token, workers, *words):
        self.process = self.bench.start("node", "--join", address.removeprefix("tcp:"), "--token-file", token, "--workers", workers, *words,
                                        cwd=self.folder)
        return self.process

    def workers(self):
        """The processes that the node has."""
        return sorted(children_of(self.process.pid))

    def end(self, code):
        ended = self.bench.end(self.process)
        equal(ended.code, code, f"exit code of the node; {ended.err!r}")
        return ended.err


class Run:
    """A launcher, in a folder that has the data."""

    def __init__(self, bench, config, *words, listen="127.0.0.1:0"):
        self.bench = bench
        self.here = bench.path("here")
        if not os.path.isdir(self.here):
            os.mkdir(self.here)
            shutil.copyfile(cases.text, os.path.join(self.here, "text"))
        self.token = bench.path("run.token")
        if not os.path.exists(self.token):
            equal(bench.run("keys", "new", self.token).code, 0, "exit code of keys new")
        self.process = bench.start("train", bench.config(config, "run.yaml"), "--out", bench.path("run"), "--json", "--listen", listen,
                                   "--token-file", self.token, *words, cwd=self.here)

    def events(self):
        """Of this launch."""
        with open(self.process.out_path, encoding="utf-8", errors="replace"):
            return read_events(self.process.out_path)

    def told(self, name):
        return [event for event in self.events() if event["event"] == name]

    def wait(self, condition, what):
        wait_until(lambda: condition() or self.process.poll() is not None, LIMIT_S, what)
        check(condition(), f"the run ended before {what}: {self.events()[-1:]}")

    def address(self):
        self.wait(lambda: self.told("start"), "the start")
        start = self.told("start")[0]
        equal(start["survives_its_host"], False, "survives_its_host")
        return start["address"]

    def steps(self):
        return max((event["step"] for event in self.told("step")), default=0)

    def more_steps(self, count=30):
        before = self.steps()
        self.wait(lambda: self.steps() >= before + count, f"{count} more steps")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        equal(self.bench.end(self.process).code, 75, "exit code of the launcher")


def check_losses(bench, config):
    """Every step's loss is that of an undisturbed run, in all launches."""
    steps = [event for event in bench.events() if event["event"] == "step"]
    last = max(event["step"] for event in steps)
    _, plain = cases.plain(changed(config, data__path=cases.text, steps=last))
    right = {event["step"]: event["loss_bits"] for event in plain}
    for event in steps:
        equal(event["loss_bits"], right[event["step"]], f"loss of step {event['step']}")


def other_hosts(bench):
    """None of the workers is on the launcher's host: some are killed, all of a host are cut off, and what one wrote of checkpoints is fetched by
    those who begin after a roll-back."""
    try:
        hosts = Hosts(os.path.basename(bench.folder), 3)
    except Unavailable as error:
        raise Skipped(str(error)) from None
    config = changed(ENDLESS, cluster__suspect_ms=2000)
    with hosts:
        run = Run(hosts.run_on(0, bench), config, "--workers", 0, listen=f"{hosts.address(0)}:0")
        address = run.address()
        first, second = There(bench, "first"), There(bench, "second")
        hosts.run_on(1, bench)
        first.node(address, run.token, 3)
        run.wait(lambda: len(run.told("joined")) == 3, "three workers")
        equal(run.told("step"), [], "steps with half of the workers")
        hosts.run_on(2, bench)
        second.node(address, run.token, 3, "--dir", bench.path("kept"))
        run.wait(lambda: any(event["ok"] for event in run.told("checkpoint")), "a checkpoint")
        os.kill(first.workers()[0], signal.SIGKILL)
        run.wait(lambda: run.told("lost"), "a loss")
        run.wait(lambda: len(run.told("joined")) == 7, "another one")
        run.more_steps()
        hosts.link(2, "down")
        run.wait(lambda: len(run.told("lost")) >= 4, "the loss of a host")
        run.more_steps()
        for pid in first.workers():
            os.kill(pid, signal.SIGKILL)
        run.wait(lambda: run.told("rollback"), "a roll-back")
        run.wait(lambda: run.told("rollback")[0]["to_step"] > 0 and run.steps() > run.told("rollback")[0]["to_step"], "steps after it")
        run.more_steps()
        run.stop()
        first.end(75)
        second.process.kill()
    check_losses(bench, config)


def apart(bench):
    """Two hosts, and one pipeline: a worker of the second host is given a seat, and then the first host is cut off. No copy is lost."""
    config = changed(ENDLESS, cluster__suspect_ms=2000, pipelines=1, stages=2, batch={"global": 8, "micro": 2, "lanes": 2})
    try:
        hosts = Hosts(os.path.basename(bench.folder), 3)
    except Unavailable as error:
        raise Skipped(str(error)) from None
    with hosts:
        run = Run(hosts.run_on(0, bench), config, "--workers", 0, listen=f"{hosts.address(0)}:0")
        address = run.address()
        first, second = There(bench, "first"), There(bench, "second")
        hosts.run_on(1, bench)
        first.node(address, run.token, 2, "--zone", "east")
        run.more_steps()
        hosts.run_on(2, bench)
        second.node(address, run.token, 1, "--zone", "west")
        run.wait(lambda: len(run.told("joined")) == 3, "the third")
        late = run.told("joined")[2]
        equal((late["zone"], [event["zone"] for event in run.told("joined")[:2]]), ("west", ["east", "east"]), "zones")

        def covers():
            view = run.told("view")[-1]
            return all(late["node"] in (place["owner"], place["shadow"]) for place in view["map"]) and view["copies"] == [2, 2]

        run.wait(covers, "copies of all stages on the second host")
        run.more_steps()
        hosts.link(1, "down")
        run.wait(lambda: len(run.told("lost")) == 2, "the loss of the first host")
        run.more_steps()
        equal(run.told("rollback"), [], "roll-backs")
        run.stop()
        second.end(75)
        first.process.kill()
    check_losses(bench, config)


def every_address(bench):
    """The launcher listens at all addresses of its host, whose workers are at the loopback one: they and those of another host reach each other."""
    try:
        hosts = Hosts(os.path.basename(bench.folder), 2)
    except Unavailable as error:
        raise Skipped(str(error)) from None
    with hosts:
        run = Run(hosts.run_on(0, bench), ENDLESS, "--workers", 3, listen=":0")
        port = run.address().rsplit(":", 1)[1]
        equal(run.address(), f"tcp:0.0.0.0:{port}", "the address that the event tells")
        there = There(hosts.run_on(1, bench))
        there.node(f"{hosts.address(0)}:{port}", run.token, 3)
        run.more_steps()
        equal(len(run.told("joined")), 6, "workers")
        os.kill(there.workers()[0], signal.SIGKILL)
        run.wait(lambda: run.told("recovered"), "a recovery")
        run.more_steps()
        equal((run.told("rollback"), [event for event in run.told("lost") if event["cause"] != "eof"]), ([], []), "what else was lost")
        run.stop()
        there.end(75)
    check_losses(bench, ENDLESS)


def plant_another(bench, kept, workers):
    """Where workers keep checkpoints, one of the newest step of another run: its pieces are as long, and its manifest is proper."""
    newest = sorted(name for name in os.listdir(bench.path("run", "checkpoints")) if name.startswith("step-"))[-1]
    for number in range(workers):
        folder = os.path.join(kept, f"worker-{number}", "checkpoints", newest)
        shutil.copytree(bench.path("run", "checkpoints", newest), folder)
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        for piece in manifest["pieces"]:
            path = os.path.join(folder, piece["file"])
            with open(path, "r+b") as file:
                file.seek(-8, os.SEEK_END)
                file.write(bytes(8))
            piece["sha256"] = sha256_of(path)
        with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)


def resumed(bench):
    """A stop, and a launcher that is killed: nodes end, and a new one goes on from the checkpoint, which it does not see."""
    run = Run(bench, ENDLESS, "--workers", 0)
    there = There(bench)
    there.node(run.address(), run.token, 6)
    run.more_steps()
    run.stop()
    equal(there.end(75), "culm node: the run was stopped; once it is resumed, start this node again\n", "what the node says")
    plant_another(bench, bench.path("kept"), 6)
    again = Run(bench, ENDLESS, "--workers", 0, "--resume")
    there.node(again.address(), again.token, 6, "--dir", bench.path("kept"))
    again.wait(lambda: any(event["ok"] for event in again.told("checkpoint")), "a checkpoint")
    again.process.kill()
    bench.end(again.process)
    for pid in there.workers():
        os.kill(pid, signal.SIGKILL)
    check("the run's launcher is gone" in there.end(1), "no line about it")
    third = Run(bench, ENDLESS, "--workers", 2, "--resume")
    there.node(third.address(), third.token, 4)
    third.more_steps()
    equal(sum(event["name"] == "node" for event in third.told("joined")), 4, "workers from there")
    equal([event["reason"] for event in third.told("leader")], ["nobody is left who has seen a view"], "what is told of a new leader")
    third.stop()
    there.end(75)
    equal([event for event in bench.events() if event["event"] == "rollback"], [], "roll-backs")
    check_losses(bench, ENDLESS)
    equal(os.listdir(there.folder), ["text"], "left in the node's folder")


def outlived(bench):
    """The launcher is killed, and resumed: workers from elsewhere have gone on, nothing that was committed is done again, and every step is in the
    events. The same once more, with one of them killed in between."""
    config = changed(ENDLESS, checkpoint__every=0)
    run = Run(bench, config, "--workers", 0)
    there = There(bench)
    address = run.address()
    there.node(address, run.token, 6)
    run.more_steps()
    for kills in (0, 1):
        before = run.steps()
        run.process.kill()
        bench.end(run.process)
        for pid in there.workers()[:kills]:
            os.kill(pid, signal.SIGKILL)
        if kills:  # the one that comes in its place finds nobody, and that is no reason to end the others
            wait_until(lambda: "Connection refused" in open(there.process.err_path, encoding="utf-8").read(), LIMIT_S, "one that finds nobody")
        run = Run(bench, config, "--workers", 0, "--resume", "--from-start", listen=address.removeprefix("tcp:"))
        run.wait(lambda: run.told("leader"), "the new leader")
        leader = run.told("leader")[0]
        equal((leader["term"], leader["reason"]), (2 + kills, "the process that led is gone"), "what it says")
        check(leader["took_ms"] < 1500, f"it took {leader['took_ms']} ms")
        run.wait(lambda: run.told("view"), "its view")
        equal(len(run.told("lost")), kills, "losses")
        run.more_steps()
        again = [event["step"] for event in run.told("step") if event.get("again")]
        equal(again, list(range(1, len(again) + 1)), "steps that are told again")
        check(len(again) >= before, f"{before} steps had been told, and {len(again)} are told again")
        done = [event["step"] for event in run.told("step") if not event.get("again")]
        equal(done[0], len(again) + 1, "the first step that is done")
        equal(run.told("rollback"), [], "roll-backs")
    run.wait(lambda: len(run.told("joined")) == 1, "another worker")
    run.stop()
    there.end(75)
    check_losses(bench, config)
    check(not os.path.exists(bench.path("run", "nodes.jsonl")), "nodes.jsonl is left")


def outlived_elsewhere(bench):
    """The same where connections are encrypted, with workers of the launcher's own, which end with it, and checkpoints: the next one is of the new
    launcher, to whom workers elsewhere send their parts."""
    try:
        hosts = Hosts(os.path.basename(bench.folder), 2)
    except Unavailable as error:
        raise Skipped(str(error)) from None
    with hosts:
        here = hosts.run_on(0, bench).culm
        run = Run(bench, ENDLESS, "--workers", 2, listen=f"{hosts.address(0)}:0")
        address = run.address()
        there = There(bench)
        hosts.run_on(1, bench)
        there.node(address, run.token, 4)
        run.wait(lambda: any(event["ok"] for event in run.told("checkpoint")), "a checkpoint")
        run.more_steps(5)
        run.process.kill()
        bench.end(run.process)
        bench.culm = here
        run = Run(bench, ENDLESS, "--workers", 2, "--resume", listen=address.removeprefix("tcp:"))
        run.wait(lambda: run.told("leader"), "the new leader")
        run.wait(lambda: any(event["ok"] for event in run.told("checkpoint")), "a checkpoint of the new one")
        run.more_steps()
        equal(run.told("rollback"), [], "roll-backs")
        equal(sum(event["name"] != "node" for event in run.told("joined")), 2, "workers of its own")
        run.stop()
        there.end(75)
    check_losses(bench, ENDLESS)


def copies_take_long(bench):
    """One takes the place of a lost one, and asks for its copy so slowly that it takes many steps: none of them waits for it. By how much a step would
    be longer than others depends on the machine; that several are done meanwhile does not, as copies take seconds."""
    config = changed(ENDLESS, pipelines=2, stages=1, model__layers=4, model__width=64, batch={"global": 16, "micro": 2, "lanes": 2}, checkpoint__every=0,
                     cluster__replace_ms=600000, cluster__join_ms=600000, cluster__copy_mb_per_s=1, cluster__slice_mb=1)
    run = Run(bench, config, "--workers", 2)
    there = There(bench)
    there.node(run.address(), run.token, 1)
    run.wait(lambda: len(run.told("joined")) == 3, "the third")
    run.more_steps(5)
    late = run.told("joined")[2]
    os.kill(run.told("joined")[0]["pid"], signal.SIGKILL)
    run.wait(lambda: run.told("copied"), "its copy")
    run.more_steps(5)
    events = run.events()
    names = [event["event"] for event in events]
    copied = run.told("copied")[0]
    survivor = run.told("joined")[1]["node"]
    equal((copied["node"], copied["stage"], copied["source"]), (late["node"], 0, survivor), "who has copied what from whom")
    check(copied["bytes"] > 2000000, f"only {copied['bytes']} bytes were copied")
    check(copied["took_ms"] > copied["bytes"] / 1000 * 0.7, f"{copied['bytes']} bytes in {copied['took_ms']} ms are more than 1 MB/s")
    between = events[names.index("lost"):names.index("copied")]
    check(sum(event["event"] == "step" for event in between) >= 4, f"steps waited for the copy: {between}")
    run.wait(lambda: any(place["owner"] == late["node"] for place in run.told("view")[-1]["map"]), "its place")
    run.stop()
    there.end(75)
    check_losses(bench, config)


def comes_late(bench):
    """All workers are here; one comes and stands by, and takes the place of one that is lost."""
    config = changed(ENDLESS, cluster__replace_ms=60000)
    run = Run(bench, config, "--advertise", "127.0.0.1:0", listen=":0")
    there = There(bench)
    run.more_steps(5)
    there.node(run.address(), run.token, 1, "--dir", bench.path("kept"))
    run.wait(lambda: len(run.told("joined")) == 7, "the seventh")
    late = run.told("joined")[6]
    equal((late["pipeline"], late["stage"], late["name"]), (None, None, "node"), "where it sits")
    os.kill(run.told("joined")[0]["pid"], signal.SIGKILL)
    run.wait(lambda: run.told("recovered"), "a recovery")
    run.wait(lambda: any(place["owner"] == late["node"] or place["shadow"] == late["node"] for place in run.told("view")[-1]["map"]),
             "its place")
    run.more_steps()
    there.process.send_signal(signal.SIGTERM)
    there.end(75)
    run.wait(lambda: any(event["node"] == late["node"] for event in run.told("lost")), "that it has left")
    equal([event["cause"] for event in run.told("lost")], ["eof", "left"], "who is gone, and why")
    equal(len(run.told("recovered")), 1, "what had to be made up for")
    run.more_steps()
    run.stop()
    check_losses(bench, config)


def done(bench):
    """A run that comes to its end: so do nodes, and the result is that of one machine."""
    config = changed(tiny_config("text"), steps=30)
    run = Run(bench, config, "--workers", 0)
    there = There(bench)
    there.node(run.address(), run.token, 6)
    equal(bench.end(run.process).code, 0, "exit code of the launcher")
    equal(there.end(0), "", "what the node says")
    equal(run.told("done")[0]["weights_sha256"], cases.reference(changed(config, data__path=cases.text))[0], "hash of the weights")


def any_number(bench):
    """More workers than the run needs come, and stand by; where it is said how many there may be, one more is refused."""
    config = changed(ENDLESS, pipelines=1)
    del config["cluster"]["max_nodes"]
    run = Run(bench, config, "--workers", 0)
    there = There(bench)
    there.node(run.address(), run.token, 10)
    run.wait(lambda: len(run.told("joined")) == 10, "ten workers")
    run.more_steps()
    run.stop()
    there.end(75)
    again = Run(bench, changed(config, cluster__max_nodes=4), "--workers", 0, "--resume")
    there.node(again.address(), again.token, 4)
    again.more_steps()
    more = bench.run("node", "--join", again.address().removeprefix("tcp:"), "--token-file", again.token)
    equal((more.code, "cluster.max_nodes is 4" in more.err), (1, True), f"one more: {more.err!r}")
    again.stop()
    there.end(75)
    check_losses(bench, config)


def refused(bench):
    """Another token, other data, a run that lets nobody in, and nobody there: each is one line and its exit code."""
    run = Run(bench, ENDLESS, "--workers", 5)
    address = run.address()
    other = bench.path("other.token")
    equal(bench.run("keys", "new", other).code, 0, "exit code of keys new")
    there = There(bench)
    there.node(address, other, 1)
    check("token" in there.end(1), "nothing about the token")
    run.wait(lambda: run.told("refused"), "that the run tells of it")
    told = run.told("refused")[0]
    check(told["address"] == "127.0.0.1" and "token" in told["reason"], f"what it tells: {told}")
    with open(os.path.join(there.folder, "text"), "r+", encoding="ascii") as file:
        file.write("another text")
    there.node(address, run.token, 1)
    err = there.end(3)
    check("'text' is not what it was when the run began" in err and err.endswith(
        "copy it from the launcher's machine, or name with --data-dir where relative paths begin\n"), f"what it says of the data: {err!r}")
    shutil.rmtree(there.folder)
    there = There(bench)
    there.node(address, run.token, 1)  # the sixth
    run.more_steps()
    equal(run.told("lost"), [], "losses")
    run.stop()
    there.end(75)
    there.node(address, run.token, 1)
    there.end(4)
    check_losses(bench, ENDLESS)


cases.add("workers on other hosts", other_hosts, seconds=20, first=True)
cases.add("a stop, a launcher that is killed, and resumes", resumed, seconds=15, first=True)
cases.add("a launcher that is killed is outlived", outlived, seconds=12, first=True)
cases.add("a launcher on another host is outlived", outlived_elsewhere, seconds=12, first=True)
cases.add("copies on two hosts", apart, seconds=10, first=True)
cases.add("a launcher at every address", every_address, seconds=8, first=True)
cases.add("a run that is done", done)
cases.add("any number of workers", any_number)
cases.add("one that comes late takes over", comes_late, seconds=8)
cases.add("copies that take many steps", copies_take_long, seconds=10)
cases.add("who is refused", refused, seconds=8)

if __name__ == "__main__":
    cases.run()
