#!/usr/bin/env python3
"""Who has no token attacks every listening address of a run at an etcd, of both jobs: the run does not notice. And nothing that the run writes or
says of itself has the token.
"""
import base64
import contextlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys

import gnn_cluster
import train_cluster
from cluster_harness import LIMIT_S
from harness import Cases, Failed, changed, check, children_of, equal, wait_until
from intruder import (DEPOSED, HELLO, LEADER, NEWCOMER, PROOF, REFUSED, TAKE_OVER, VISITOR, WELCOME, Call, Crowd, Shut, frame, introduction, listeners,
                      text)
from s3_standin import S3, SECRET_KEY, SESSION_TOKEN

cases = Cases(kind="waits", job="all")
# Beside so many connections a busy machine is slow to say anything. Who is killed is seen without it.
PATIENT = {"cluster__suspect_ms": 20000, "cluster__lease_ms": 20000, "cluster__kill_suspect_ms": 20000}
CROWD = 10000  # connections to whoever leads
SMALL_CROWD = 1500  # and to each node


def trained(bench, s3):
    """Two machines with three workers each, and two that may lead."""
    run = train_cluster.Run(bench, changed(train_cluster.ENDLESS, **PATIENT), s3=s3)
    return run, lambda: [run.node(3), run.node(3), run.node(0), run.node(0)], 6, 6


def on_graph(bench, _):
    """Every role, and two that may lead."""
    run = gnn_cluster.Run(bench, changed(gnn_cluster.CONFIG, **PATIENT))
    return run, lambda: [*run.roles(), run.node(0), run.node(0)], 4, 3


def everyone(run):
    found = []
    for machine in run.machines:
        if machine.process.poll() is None:
            found += [machine.process.pid, *children_of(machine.process.pid)]
    return found


def all_keys(run):
    """Every key and value of the etcd, as one text."""
    zero = base64.b64encode(b"\0").decode()
    pairs = json.loads(run.etcd.post("kv/range", json.dumps({"key": zero, "range_end": zero})))["kvs"]
    return [base64.b64decode(pair["key"]) + b" " + base64.b64decode(pair.get("value", "")) for pair in pairs]


def nodes(run):
    """(id, address) of all that listen, as the store has them."""
    found = []
    for pair in all_keys(run):
        key, _, value = pair.partition(b" ")
        if key.startswith(b"runs/one/node/"):
            about = json.loads(value)
            found += [(about["node"], about["address"])] if about["address"] else []
    return sorted(found)


def refused(what, call, *more):
    """REFUSED, or nothing but the end; never in."""
    try:
        kind, _ = call(*more)
    except Shut:
        return
    equal(kind, REFUSED, f"what the run answers to {what}")


def garbage(address, listener):
    """Each is shown out at once: none of it is the beginning of a hello to this listener."""
    hello = struct.pack("<ii", NEWCOMER, LEADER) + bytes(32)
    for data in (os.urandom(4096), b"GET /checkpoints HTTP/1.1\r\nHost: here\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(512),
                 struct.pack("<IHHIIQQ", 0x6d6c7543, HELLO, 0, 0xffffffff, 0, 1 << 62, 0), frame(HELLO, hello + bytes(2000)),
                 frame(HELLO, struct.pack("<ii", 0, listener + 1000) + bytes(32)), frame(PROOF, introduction() + bytes(32)),
                 frame(TAKE_OVER, struct.pack("<Q", 99) + text(b"tcp:127.0.0.1:1")), frame(HELLO, hello)[:-1] + b"?"):
        with Call(address) as call:
            try:
                call.send(data)
            except Shut:
                continue
            call.ended()


def without_token(address, listener, other):
    """Who has another run's token, or none; as whoever may call there."""
    for caller in (NEWCOMER, VISITOR, 0) if listener == LEADER else (LEADER, 0, 5):
        for token in other, b"":
            with Call(address) as call:
                try:
                    call.greet(caller, listener)
                except Shut:
                    continue
            with Call(address) as call:
                refused(f"{caller} with another token", forced, call, token, caller, listener)


def forced(call, token, caller, listener):
    """A handshake of one that does not mind that the other side has another token."""
    try:
        return call.get_in(token, caller, listener)
    except AssertionError:
        call.send(frame(PROOF, introduction() + os.urandom(32)))
        return call.frame()


def recorded(address, listener, token):
    """What one that has the token said, said once more: nonces are others by then."""
    caller = NEWCOMER if listener == LEADER else LEADER
    with Call(address) as call:
        kind, _ = call.get_in(token, caller, listener)
        equal(kind, WELCOME, "what one with the token is answered")
        if listener != LEADER:  # a leader of a term that is over
            call.send(frame(TAKE_OVER, struct.pack("<Q", 1) + text(b"tcp:127.0.0.1:1")))
            kind, fields = call.frame()
            while kind not in (DEPOSED, REFUSED):
                kind, fields = call.frame()
            equal((kind, fields), (DEPOSED, struct.pack("<Q", 2)), "what a leader of an old term is told")
        said = call.sent
    for _ in range(2):
        with Call(address) as call:
            call.send(said)
            kinds = []
            try:
                while REFUSED not in kinds:
                    kinds.append(call.frame()[0])
            except Shut:
                pass
            check(WELCOME not in kinds and DEPOSED not in kinds, f"a recorded handshake is answered with {[hex(kind) for kind in kinds]}")


def slow(address):
    """Handshakes that come to nothing: nothing at all, half a header, a hello and nothing more. They are open until who listens ends them."""
    hello = frame(HELLO, struct.pack("<ii", NEWCOMER, LEADER) + bytes(32))
    calls = [Call(address) for _ in range(3)]
    for call, part in zip(calls, (b"", hello[:20], hello[:-1])):
        call.send(part)
    return calls


def look_for(run, secrets):
    """In all keys of the etcd, in all files of the run, its storage and its etcd, in the arguments of its processes, and in what they were given as an
    environment, which has nothing that the test has not put there."""
    def free(data, where, which):
        for secret in which:
            check(secret not in data, f"a secret is in {where}")

    for pair in all_keys(run):
        free(pair, f"the key {pair.split(b' ')[0]}", secrets)
    seen = 0
    for top in run.bench.folder, run.etcd.data:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if path == run.token or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    free(file.read(), path, secrets)
                seen += 1
    check(seen > 20, f"only {seen} files")
    for pid in everyone(run):
        for name, which in ("cmdline", secrets), ("environ", secrets[:2]):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                free(file.read(), f"{name} of {pid}", which)


ABORTS = "import os; os.abort()"


def no_core(run, secret):
    """Processes of each kind are killed as by an error of their own, where core files would be left."""
    cwd = os.path.join(run.bench.folder, "cores")
    os.mkdir(cwd)
    ours = subprocess.run([sys.executable, "-c", ABORTS], cwd=cwd, check=False)
    equal(ours.returncode, -signal.SIGABRT, "what leaves a core file")
    if not any("core" in name for name in os.listdir(cwd)):
        run.bench.note("no core files are left here, so that none was looked for")
        return
    shutil.rmtree(cwd)
    pids = everyone(run)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended with its agent
            os.kill(pid, signal.SIGABRT)
    wait_until(lambda: not everyone(run), LIMIT_S, "the end of all")
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids), LIMIT_S, "the end of all")
    for folder, _, names in os.walk(run.bench.folder):
        for name in names:
            if name.split(".")[0] == "core":
                with open(os.path.join(folder, name), "rb") as file:
                    check(secret not in file.read(), f"the token is in the core file {name} in {folder}")
                raise Failed(f"a core file in {folder}")


def attacked(bench, make):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    with S3() as s3:
        run, bring, count, listening = make(bench, s3)
        other = bench.path("other.token")
        equal(bench.run("keys", "new", other).code, 0, "exit code of keys new")
        with open(run.token, encoding="ascii") as file, open(other, encoding="ascii") as others:
            token, wrong = file.read().strip().encode(), others.read().strip().encode()
        with run:
            attack(bench, run, bring, count, listening, token, wrong)


def attack(bench, run, bring, count, listening, token, wrong):
    run.create("--workers", 0)
    bring()
    run.wait(lambda: len(run.told("joined")) == count, "all nodes")
    run.more_steps()
    run.machines[0].kill()  # so that there is an old term
    run.wait(lambda: run.terms() == [2], "another leader")
    run.more_steps()
    here = listeners(everyone(run))
    check(all(address.split(":")[0] == "0100007F" for address, _ in here), f"who listens beyond loopback: {here}")
    known = [(LEADER, json.loads(run.key("leader"))["address"]), *nodes(run)]
    equal(len(known), 1 + listening, "nodes that listen, and who leads")
    ports = {int(address.split(":")[1], 16) for address, _ in here}
    check({int(address.rsplit(":", 1)[1]) for _, address in known} <= ports, f"{known} are not among {here}")
    unknown = [("tcp:127.0.0.1:" + str(port), LEADER) for port in ports - {int(address.rsplit(":", 1)[1]) for _, address in known}]
    before = len(run.told("joined"))
    waits = []
    for address, listener in [*((address, number) for number, address in known), *unknown]:
        waits += slow(address)
        garbage(address, listener)
        without_token(address, listener, wrong)
    for number, address in known:
        recorded(address, number, token)
        ended = bench.run("node", "--join", address.removeprefix("tcp:"), "--token-file", bench.path("other.token"), "--role", "worker", limit_s=60)
        equal((ended.code, ended.err.count("\n"), "token" in ended.err), (1, 1, True), f"who has another run's token, at {address}: {ended.err!r}")
    run.more_steps()
    crowds = [Crowd(address, CROWD if number == LEADER else SMALL_CROWD) for number, address in known]
    run.node(1, *(("--role", "server") if run.unit == "epoch" else ()), "--lead", "no")
    run.wait(lambda: len(run.told("joined")) > before, "one that comes through the crowd")
    run.more_steps()
    look_for(run, [token, bytes.fromhex(token.decode()), SECRET_KEY.encode(), SESSION_TOKEN.encode()])
    for crowd in crowds:
        with crowd:
            pass
    for call in waits:
        with call:
            call.ended()
    run.more_steps()
    equal((run.terms(), run.told("lost"), run.told("rollback"), run.told("stalled")), ([2], [], [], []), "leaders, losses, roll-backs, stalls")
    run.check()
    no_core(run, token)


cases.add("who has no token attacks training", attacked, trained, seconds=30, first=True, job="train")
cases.add("who has no token attacks a graph network", attacked, on_graph, seconds=30, job="gnn")

if __name__ == "__main__":
    cases.run()
