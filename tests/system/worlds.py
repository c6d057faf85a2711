#!/usr/bin/env python3
"""Random worlds: runs that no machine has to stay for, on real processes, which are struck again and again.

usage: worlds.py CULM [PART OF A CASE'S NAME]...                                   the cases that the tests run: a few short worlds
       worlds.py CULM [--first SEED] [--seconds N] [--mean S] [--at-once N]        as many as there is time for; an hour, for one

A seed draws a world: training or a graph network, its shape, machines in up to three zones (network namespaces, where this process may make them),
one etcd or three, and what falls on it, every S seconds on average (default: 15): processes and machines are killed and frozen, links and zones are
cut, in one direction or both, members of the etcd are killed, frozen and started again, machines come. Who is killed is replaced. What it must come
to: the run is done, and all that live end with 0; every step has the loss of an undisturbed run, and the result has its bits; it goes back to a
checkpoint only when what it lost may have been all that there was; nothing is left of it but its storage, which tells of every step. A run is held
back to a few steps a second, by processes that stand still for a moment, so that it takes as long on any machine.
"""
import argparse
import collections
import glob
import json
import os
import random
import signal
import sys
import time

import gnn_cluster
import train_cluster
from harness import Cases, check, changed, children_of, equal, read_events, tiny_config, wait_until
from hosts import Hosts, Unavailable as NoHosts

cases = Cases(kind="waits")
SEED, MEAN_S = 1, 15.0
STANDSTILL_S = 240  # without a step: that is a fault, on whatever machine
SPARE = 2           # hosts for machines that come
STRUCK_S = 5        # before and after a blow in which what it struck may have been missed for it
JOBS = {  # the class; links that are slow enough for frames to be under way at any moment; steps a second
    "train": (train_cluster.Run, "40mbit", 10),
    "gnn": (gnn_cluster.Run, "4mbit", 20),
}
TOLD_S = 30         # in which whoever leads tells that it is done, once that is so, if it lives
GRACE_S = 26         # of who is told to end, and a second
AWAY_S = 30         # after which nobody fails to reach the store for a blow that is over
NAP_S = 0.4         # for which a process is held at most: that is nobody's business


class Post:
    """Where a machine is to be, and what is to run there: an agent for each (workers, words)."""

    def __init__(self, host, *agents):
        self.host, self.agents, self.machines = host, agents, []


class World:
    def __init__(self, bench, seed, mean_s):
        self.bench, self.seed, self.mean_s = bench, seed, mean_s
        draw = self.draw = random.Random(f"world {seed}")
        self.job = draw.choice(["train", "gnn"])
        self.seconds = mean_s * draw.uniform(4, 8)
        self.zones = draw.randint(1, 3)
        per_zone = draw.randint(1, 2) if self.zones > 1 else draw.randint(2, 4)
        self.zone_of = [None] + [zone for zone in range(self.zones) for _ in range(per_zone)]
        self.zone_of += [draw.randrange(self.zones) for _ in range(SPARE)]
        self.members = draw.choice([1, 3])
        self.spread = [1 + zone * per_zone for zone in range(3)] if self.members == 3 and self.zones == 3 else []
        self.suspect_ms, self.lease_ms, self.orphan_ms = draw.choice([3000, 4000]), draw.choice([3000, 5000]), 12000
        kind, rate, self.pace = JOBS[self.job]
        try:
            self.hosts = Hosts(f"w{seed}", len(self.zone_of), rate, named=True)
        except NoHosts as reason:
            bench.note(f"one host, and no links to cut: {reason}")
            self.hosts, self.spread = None, []
        self.config = self.drawn_train() if self.job == "train" else self.drawn_gnn()
        try:
            self.run = kind(bench, self.config, members=self.members, hosts=self.hosts, spread=self.spread)
        except Exception:
            if self.hosts:
                self.hosts.remove()
            raise
        self.run.env_of = self.env_of
        self.posts, self.killed = [], set()
        self.later, self.coming = [], []       # (when, what), (when, which post)
        self.cuts = collections.Counter()      # how many blows have cut (sender, receiver)
        self.etcd_struck = set()
        self.blows, self.told = collections.Counter(), []
        self.begun = time.monotonic()
        self.read = collections.Counter()      # events of each reign that were looked at
        self.views = {}                        # by reign: the last view and when it was seen
        self.host_of = {}                      # by node
        self.struck = collections.defaultdict(list)  # by host: from when to when
        self.rollbacks, self.wrong = [], []
        self.moved_s, self.steps, self.joins = time.monotonic(), 0, 0
        self.again, self.trouble_s = {}, 0.0   # machines that came when the store was away; when there was a reason for it
        self.frozen = set()                    # by blows
        self.leaving = []                      # machines that were told to end
        self.held, self.held_s, self.credit, self.counted = [], 0.0, 0.0, (0, time.monotonic())

    # --- what is drawn ---

    def drawn_cluster(self):
        return {"heartbeat_ms": 100, "suspect_ms": self.suspect_ms, "kill_suspect_ms": self.draw.choice([300, 4000]),
                "replace_ms": self.draw.choice([0, 500]), "orphan_ms": self.orphan_ms, "lease_ms": self.lease_ms,
                "store_ms": self.draw.choice([600000, 600000, 4000]), "join_ms": 20000, "wait_ms": 600000, "max_nodes": 64}

    def drawn_train(self):
        draw = self.draw
        pipelines, stages = draw.choice([1, 2, 2]), draw.choice([2, 3])
        config = changed(tiny_config("text"), pipelines=pipelines, stages=stages, steps=int(self.seconds * self.pace), schedule={"name": "constant"},
                         redundancy=draw.choice(["eager", "eager", "lazy", "none"]), checkpoint={"every": draw.choice([10, 25, 60]), "keep": 2})
        self.needs = pipelines * stages
        self.shape = f"{pipelines} x {stages}, {config['redundancy']}"
        return {**config, "cluster": self.drawn_cluster()}

    def drawn_gnn(self):
        draw = self.draw
        self.needs = [draw.randint(1, 3), draw.randint(1, 2), draw.randint(0, 2)]
        self.shape = "{} servers, {} parameter servers, {} workers".format(*self.needs)
        return changed(gnn_cluster.CONFIG, servers=self.needs[0], parameter_servers=self.needs[1], workers=self.needs[2],
                       epochs=int(self.seconds * self.pace), checkpoint={"every": draw.choice([20, 50, 120])}, cluster=self.drawn_cluster())

    def layout(self):
        """Posts, of which the first creates the run; the number of workers that it brings."""
        draw, hosts = self.draw, list(range(1, len(self.zone_of) - SPARE))
        draw.shuffle(hosts)
        if self.job == "train":
            here = draw.randint(0, 2)
            left, agents = self.needs + draw.randint(0, 2) - here, []
            while left > 0:
                workers = min(left, draw.randint(1, 3))
                agents.append((workers, ("--lead", "no") if draw.random() < 0.2 else ()))
                left -= workers
            parts = ((here, ()),)
        else:
            here = draw.randint(0, 1)
            agents = []
            for role, needed in zip(("server", "parameter", "worker"), self.needs):
                left = needed + draw.randint(0, 1) - here
                while left > 0:
                    workers = min(left, draw.randint(1, 2))
                    agents.append((workers, self.role(role)))
                    left -= workers
            parts = tuple((1, self.role(role)) for role, needed in zip(("server", "parameter", "worker"), self.needs) if needed) if here else ((0, ()),)
        agents += [(0, ())] * draw.randint(1, 2)
        posts = [Post(hosts[0], *parts)]
        for number, agent in enumerate(agents, 1):
            posts.append(Post(hosts[number % len(hosts)], agent))
        return posts, here

    def role(self, role):
        """A machine of that role: one that has no servers may have no graph, and then does not lead."""
        if role == "server" or self.draw.random() < 0.3:
            return "--role", role
        return "--role", role, "--lead", "no", "--data-dir", self.bench.path("empty")

    # --- machines ---

    def tmp(self, machine):
        return self.bench.path(f"{machine.name}.tmp")

    def env_of(self, machine):
        os.makedirs(self.tmp(machine), exist_ok=True)
        return {**os.environ, "TMPDIR": self.tmp(machine), "CULM_TEST_WORLD": self.bench.folder}

    def left(self):
        """Pids of processes of this world."""
        wanted, found = f"CULM_TEST_WORLD={self.bench.folder}".encode(), []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if wanted in file.read().split(b"\0"):
                            found.append(int(name))
                except OSError:
                    pass
        return found

    def on(self, post):
        return {"host": post.host} if self.hosts else {}

    def start(self, post):
        zone = ("--zone", f"zone-{self.zone_of[post.host]}") if self.hosts else ()
        post.machines = [self.run.node(workers, *zone, *words, **self.on(post)) for workers, words in post.agents]

    def alive(self):
        return [(post, machine) for post in self.posts for machine in post.machines if machine.process.poll() is None]

    @staticmethod
    def leads(machine):
        """Pids of the processes there that lead or stand for it."""
        found = set()
        for path in [os.path.join(machine.folder, "run", "lock"), *glob.glob(os.path.join(machine.folder, "kept", "lead-*", "lock"))]:
            try:
                with open(path, encoding="ascii") as file:
                    found.add(int(file.read()))
            except (OSError, ValueError):
                pass
        return found & Machines.children(machine)

    def leading(self):
        """The post, the machine and the process that leads as far as is told."""
        reigns = [(self.term(path), post, machine, path) for post, machine in self.alive() for path in machine.reigns()]
        if not reigns:
            return None
        term, post, machine, path = max(reigns, key=lambda one: one[0])
        if term < max((self.term(path) for path in self.read), default=1):
            return None
        try:
            with open(os.path.join(os.path.dirname(path), "lock"), encoding="ascii") as file:
                pid = int(file.read())
        except (OSError, ValueError):
            return None
        return (post, machine, pid) if pid in Machines.children(machine) else None

    @staticmethod
    def term(path):
        return max((event["term"] for event in read_events(path) if event["event"] == "leader"), default=1)

    # --- blows; each says what it did, or None: there is nobody to strike ---

    def after(self, seconds, what):
        self.later.append((time.monotonic() + seconds, what))

    def hit(self, host, seconds=0.0):
        now = time.monotonic()
        self.struck[host].append((now, now + seconds))

    def while_s(self, draw):
        """About as long as somebody takes to be missed; now and then longer than it may be."""
        if draw.random() < 0.08:
            return self.orphan_ms / 1000 * draw.uniform(1, 1.5)
        return draw.choice([self.suspect_ms, self.lease_ms]) / 1000 * draw.uniform(0.2, 2)

    def freeze(self, pids, seconds):
        self.frozen.update(pids)
        stopped = Stopped(pids)

        def thaw():
            self.frozen.difference_update(pids)
            stopped.go_on()

        self.after(seconds, thaw)

    def hold_back(self):
        """Holds a worker, and one more as long as there are still steps, while there are more of them than there should be: some only stand by."""
        now, (steps, then) = time.monotonic(), self.counted
        self.credit = min(self.credit + self.pace * (now - then) - (self.steps - steps), self.pace)
        self.counted = self.steps, now
        if self.credit >= 0 or (self.held and now > self.held_s + NAP_S):
            self.let_go()
        if self.credit < 0 and (not self.held or self.steps > steps):
            pids = {pid for _, machine in self.alive() for pid in Machines.children(machine) - self.leads(machine)} - self.frozen
            pids = sorted(pids.difference(*(stopped.pids for stopped in self.held)))
            if pids:
                self.held_s = self.held_s if self.held else now
                self.held.append(Stopped([random.choice(pids)]))

    def let_go(self):
        for stopped in self.held:
            stopped.go_on()
        self.held = []

    @staticmethod
    def kill(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def a_worker(self, draw):
        found = [(post, machine, pid) for post, machine in self.alive() for pid in sorted(Machines.children(machine) - self.leads(machine))]
        return draw.choice(found) if found else None

    def kill_worker(self, draw):
        found = self.a_worker(draw)
        if not found:
            return None
        post, machine, pid = found
        self.hit(post.host)
        self.kill(pid)
        return f"process {pid} of {machine.name} is killed"

    def freeze_worker(self, draw):
        found = self.a_worker(draw)
        if not found:
            return None
        post, machine, pid = found
        seconds = self.while_s(draw)
        self.hit(post.host, seconds)
        self.freeze([pid], seconds)
        return f"process {pid} of {machine.name} is frozen for {seconds:.1f} s"

    def freeze_agent(self, draw):
        found = self.alive()
        if not found:
            return None
        post, machine = draw.choice(found)
        seconds = self.while_s(draw)
        self.hit(post.host, seconds)
        self.freeze([machine.process.pid, *sorted(Machines.children(machine))], seconds)
        return f"{machine.name} is frozen for {seconds:.1f} s"

    def gone(self, post, draw, wait_s=0.0):
        """Others come, as other machines, there or at a host that is free."""
        wait_s += draw.uniform(0.3, 1) * self.mean_s
        if self.hosts and draw.random() < 0.3:
            post.host = draw.randrange(1, len(self.zone_of))
        self.coming.append((time.monotonic() + wait_s, post))
        return wait_s

    def kill_agent(self, draw, post=None):
        """With all that it has, or alone: what it has ends with it. Or the machine vanishes, and says nothing any more."""
        if post is None:
            found = [post for post, _ in self.alive()]
            if not found:
                return None
            post = draw.choice(found)
        machines, host, how = [machine for machine in post.machines if machine.process.poll() is None], post.host, draw.random()
        self.hit(host)
        self.killed.update(post.machines)
        silent_s = draw.uniform(0.5, 6) if self.hosts and how < 0.4 else 0.0
        if silent_s:
            self.cut([(host, other) for other in self.others([host])], silent_s)
        for machine in machines:
            if how > 0.7:
                self.kill(machine.process.pid)
                self.bench.end(machine.process)
            else:
                machine.kill()
        post.machines = []
        wait_s = self.gone(post, draw, silent_s)
        names = ", ".join(machine.name for machine in machines)
        return f"{names} of host {host} vanishes{f' without a word for {silent_s:.1f} s' if silent_s else ''}{' (the agent alone)' if how > 0.7 else ''}; " \
               f"another one comes in {wait_s:.1f} s"

    def tell_to_end(self, draw):
        """A notice: SIGTERM to the agents of a host, which leave with all that they have, within --grace; others come, as after a loss. One who
        created the run would stop it."""
        found = [post for post, machine in self.alive() if machine.process.command[1] == "node" and Machines.children(machine)]
        if not found:
            return None
        post = draw.choice(found)
        machines = [machine for machine in post.machines if machine.process.poll() is None]
        if any(machine.process.command[1] != "node" or not Machines.children(machine) for machine in machines):
            return None
        self.hit(post.host, GRACE_S)  # who has what nobody else gets in time ends all the same
        for machine in machines:
            os.kill(machine.process.pid, signal.SIGTERM)
        self.leaving.extend(machines)
        post.machines = []
        wait_s = self.gone(post, draw)
        return f"{', '.join(machine.name for machine in machines)} of host {post.host} is told to end; another one comes in {wait_s:.1f} s"

    def kill_leader(self, draw):
        found = self.leading()
        if not found:
            return None
        post, machine, pid = found
        if draw.random() < 0.5:
            return "who leads: " + self.kill_agent(draw, post)
        self.kill(pid)
        return f"process {pid} of {machine.name}, which leads, is killed"

    def freeze_leader(self, draw):
        found = self.leading()
        if not found:
            return None
        _, machine, pid = found
        seconds = self.while_s(draw)
        self.freeze([pid], seconds)
        return f"process {pid} of {machine.name}, which leads, is frozen for {seconds:.1f} s"

    def others(self, hosts):
        return [host for host in range(len(self.zone_of)) if host not in hosts]

    def cut(self, pairs, seconds):
        """Nothing goes from one host of a pair to the other, nor back."""
        self.cut_ways([way for a, b in pairs for way in ((a, b), (b, a))], seconds)

    def cut_ways(self, ways, seconds):
        for way in ways:
            if not self.cuts[way]:
                self.hosts.cut(*way)
            self.cuts[way] += 1
        for host in {way[0] for way in ways} | {way[1] for way in ways if len(ways) < 3}:
            self.hit(host, seconds)

        def mend():
            for way in ways:
                self.cuts[way] -= 1
                if not self.cuts[way]:
                    self.hosts.mend(*way)

        self.after(seconds, mend)

    def cut_link(self, draw):
        if not self.hosts:
            return None
        used = sorted({post.host for post, _ in self.alive()} | {0})
        if len(used) < 2:
            return None
        a, b = draw.sample(used, 2)
        seconds, one_way = self.while_s(draw), draw.random() < 0.5
        self.cut_ways([(a, b)] if one_way else [(a, b), (b, a)], seconds)
        return f"from host {a} to host {b}{'' if one_way else ' and back'} nothing goes for {seconds:.1f} s"

    def cut_zone(self, draw):
        if not self.hosts:
            return None
        zone, seconds, one_way = draw.randrange(self.zones), self.while_s(draw), draw.random() < 0.25
        inside = [host for host, its in enumerate(self.zone_of) if its == zone]
        ways = [(a, b) for a in inside for b in self.others(inside)]
        self.cut_ways(ways if one_way else ways + [(b, a) for a, b in ways], seconds)
        for host in inside:
            self.hit(host, seconds)
        return f"zone {zone} (hosts {inside}) is cut off for {seconds:.1f} s{', outwards alone' if one_way else ''}"

    def strike_etcd(self, draw):
        which = [number for number in range(self.members) if number not in self.etcd_struck]
        if not which:
            return None
        if draw.random() < 0.5:
            which = [draw.choice(which)]
        seconds, frozen, etcd = self.while_s(draw), draw.random() < 0.5, self.run.etcd
        self.etcd_struck.update(which)
        if frozen:
            self.freeze([etcd.process[number].pid for number in which], seconds)
        else:
            for number in which:
                etcd.kill(number)

        def again():
            for number in which:
                if not frozen:
                    etcd.start(number)
                self.etcd_struck.discard(number)

        self.after(seconds, again)
        return f"of etcd, {which} of {self.members} {'freeze' if frozen else 'are killed, and away'} for {seconds:.1f} s"

    def join(self, draw):
        if self.joins == SPARE:
            return None
        host = len(self.zone_of) - SPARE + self.joins
        self.joins += 1
        words = () if self.job == "train" else self.role(draw.choice(["server", "parameter", "worker"]))
        self.posts.append(Post(host, (draw.randint(0 if self.job == "train" else 1, 2), words)))
        self.start(self.posts[-1])
        return f"{self.posts[-1].machines[0].name} comes, at host {host}"

    BLOWS = [("a worker is killed", 5, kill_worker), ("a worker freezes", 4, freeze_worker), ("a machine vanishes", 4, kill_agent),
             ("a machine freezes", 3, freeze_agent), ("a machine is told to end", 3, tell_to_end), ("who leads is killed", 4, kill_leader),
             ("who leads freezes", 3, freeze_leader), ("a link is cut", 3, cut_link), ("a zone is cut off", 2, cut_zone), ("etcd", 4, strike_etcd), ("a machine comes", 1, join)]

    def strike(self, number):
        self.let_go()
        draw = random.Random(f"{self.seed} {number}")
        kinds = draw.choices(self.BLOWS, [weight for _, weight, _ in self.BLOWS], k=8)
        for name, _, blow in kinds:
            said = blow(self, draw)
            if said:
                self.blows[name] += 1
                self.say(said)
                return

    def say(self, text):
        self.told.append(f"{time.monotonic() - self.begun:6.1f} s, step {self.steps}: {text}")
        with open(self.bench.path("blows"), "a", encoding="utf-8") as file:
            file.write(self.told[-1] + "\n")

    # --- looking on ---

    def look(self):
        now = time.monotonic()
        for machine in self.run.machines:
            for path in machine.reigns():
                events = read_events(path)
                for event in events[self.read[path]:]:
                    self.hear(path, event, now)
                self.read[path] = len(events)

    def hear(self, path, event, now):
        name = event["event"]
        if name == "joined":
            self.host_of[event["node"]] = event.get("host")
        elif name == "view":
            self.views[path] = event, now
        elif name == self.run.unit:
            if event[self.run.unit] > self.steps:
                self.steps, self.moved_s = event[self.run.unit], now
        elif name == "rollback":
            self.went_back(path, event, now)

    def went_back(self, path, event, now):
        """Whether somebody held each thing whom no blow has come near since the view before, and was there all the time."""
        reigns = [reign for reign in self.views if reign == path or self.term(reign) < self.term(path)]
        view, seen_s = self.views[max(reigns, key=self.term)] if reigns else ({}, now)
        unhurt = {f"host-{host}" for host in range(1, len(self.zone_of))
                  if not any(ended >= seen_s - STRUCK_S and begun <= now for begun, ended in self.struck[host])}
        things = collections.defaultdict(set)
        for part in view.get("map", []):
            things[part["stage"]] |= {part["owner"], part["shadow"]} - {-1}
        if "holders" in view:
            things["weights"] = set(view["holders"])
        kept = bool(things) and view.get("phase") != "load" and all(any(self.host_of.get(node) in unhurt for node in nodes) for nodes in things.values())
        orphans = now - self.moved_s > 0.7 * self.orphan_ms / 1000
        self.rollbacks.append(event)
        self.say(f"a roll-back: {event['reason']}; {dict(things)} were at {[self.host_of.get(node) for nodes in things.values() for node in sorted(nodes)]}, "
                 f"unhurt: {sorted(unhurt)}; {now - self.moved_s:.1f} s after the last step")
        if kept and not orphans and self.hosts:
            self.wrong.append(f"a roll-back, and each of {dict(things)} had a copy that nothing had happened to")

    def done(self):
        return any(event["event"] == "done" for path in self.read for event in read_events(path)[-3:])

    def tend(self, everything=False):
        """What is due."""
        now = time.monotonic()
        due = [one for one in self.later if everything or one[0] <= now]
        self.later = [one for one in self.later if one not in due]
        for _, what in sorted(due, key=lambda one: one[0]):
            what()
        for post in [post for when, post in self.coming if when <= now]:
            self.start(post)
        self.coming = [one for one in self.coming if one[0] > now]
        for number, process in enumerate(self.run.etcd.process):
            if number not in self.etcd_struck and process.poll() is not None:  # its port was taken
                self.say(f"etcd {number} had ended by itself")
                self.run.etcd.start(number)

    def live(self):
        """Until the run is done: that is told, or somebody has ended with 0 and nobody is left to tell it."""
        number, next_s, over_s = 0, time.monotonic() + self.draw.expovariate(1 / self.mean_s), None
        while not self.done():
            self.look()
            now = time.monotonic()
            if now >= next_s and not over_s:
                self.strike(number)
                number += 1
                next_s = time.monotonic() + self.draw.expovariate(1 / self.mean_s)
            self.tend()
            self.hold_back()
            if self.etcd_struck or any(self.cuts.values()):
                self.trouble_s = now
            for machine in [machine for post in self.posts for machine in post.machines]:
                if machine.process.poll() is not None and not self.away(machine):
                    equal(machine.process.returncode, 0, f"exit code of {machine.name} in the middle of the run; it says {self.err(machine)!r}")
                    over_s = over_s or now
            if over_s and now > over_s + TOLD_S:
                return
            check(now - self.moved_s < STANDSTILL_S, f"no step after {self.steps} for {STANDSTILL_S} s")
            check(not self.wrong, "; ".join(self.wrong))
            time.sleep(0.05)

    def away(self, machine):
        """Whether it came while it could not reach the store: then it comes again, as whatever starts it would see to."""
        now = time.monotonic()
        if machine.process.returncode != 4 or "etcd at" not in self.err(machine) or now > self.trouble_s + AWAY_S:
            return False
        if now > self.again.setdefault(machine, now) + 1:
            del self.again[machine]
            machine.process = machine.start(*machine.process.command[1:], cwd=machine.folder)
        return True

    @staticmethod
    def err(machine):
        with open(machine.process.err_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-500:]

    # --- the whole ---

    def judge(self):
        run = self.run
        self.let_go()
        self.coming = []
        self.tend(everything=True)
        run.etcd.wait()
        for machine in [machine for post in self.posts for machine in post.machines]:
            if self.bench.end(machine.process).code == 4 and self.away(machine):
                machine.process = machine.start(*machine.process.command[1:], cwd=machine.folder)
            machine.end(0)
        for machine in self.leaving:
            ended = self.bench.end(machine.process)
            check(ended.code in (75, 0), f"{machine.name}, which was told to end, ended with {ended.code}: {ended.err[-300:]!r}")
        late = run.node(1, *(("--role", "server") if self.job == "gnn" else ()), **({"host": 1} if self.hosts else {}))
        late.end(0)
        check(run.key("done"), "the store does not say that it is done")
        self.look()
        wait_until(lambda: not self.left(), 60, "that no process is left: " + ", ".join(map(str, self.left())))
        if self.job == "train":
            hashes, plain = cases.plain(changed(self.config, data__path=cases.text))
            losses = [event["loss_bits"] for event in plain]
        else:
            hashes, losses = gnn_cluster.graphs.reference(self.bench, gnn_cluster.here(self.config))
        right = dict(enumerate(losses, 1))
        told = set()
        for event in run.told(run.unit):
            equal(event["loss_bits"], right.get(event[run.unit]), f"loss of {run.unit} {event[run.unit]}")
            told.add(event[run.unit])
        equal(sorted(set(right) - told), [], "what is not told")
        ends = run.told("done")
        for event in ends:
            equal((event["weights_sha256"], event["state_sha256"]), tuple(hashes), "hashes")
            check(event["leaders"] >= max(run.terms(), default=1), f"it tells of {event['leaders']} leaders")
        self.alone(right, hashes)
        for machine in run.machines:
            if machine not in self.killed:
                equal(os.listdir(self.tmp(machine)), [], f"what is left in TMPDIR of {machine.name}")
        check(not self.wrong, "; ".join(self.wrong))
        return ends

    def alone(self, right, hashes):
        """What the storage has is enough: whoever has nothing else finds it done, with every step."""
        folder = self.bench.path("alone")
        os.mkdir(folder)
        self.run.give(folder)
        ended = self.bench.end(self.bench.start(*self.run.command, self.bench.path("run.yaml"), "--resume", "--out", os.path.join(folder, "run"), cwd=folder))
        equal(ended.code, 0, f"exit code of a resume from the storage; {ended.err[-500:]!r}")
        events = read_events(os.path.join(folder, "run", "events.jsonl"))
        last = {event[self.run.unit]: event["loss_bits"] for event in events if event["event"] == self.run.unit}
        equal(sorted(set(right.items()) ^ set(last.items())), [], "steps that the storage tells otherwise")
        done = [event for event in events if event["event"] == "done"]
        equal([(event["weights_sha256"], event["state_sha256"]) for event in done[-1:]], [tuple(hashes)], "hashes of what the storage has")

    def play(self):
        os.mkdir(self.bench.path("empty"))
        self.posts, here = self.layout()
        hosts = f"{self.zones} zones" if self.hosts else "one host"
        with self.hosts or Nothing(), self.run:
            first = self.posts[0]
            words = ("--workers", here) if here else ()
            first.machines = [self.run.create(*words, **self.on(first))]
            for post in self.posts[1:]:
                self.start(post)
            self.run.wait(lambda: self.run.steps() > 2, "that it begins")
            self.begun = self.moved_s = time.monotonic()
            self.steps = self.run.steps()
            self.counted = self.steps, self.begun
            try:
                self.live()
                took_s = time.monotonic() - self.begun
                ends = self.judge()
            except Exception:
                for line in self.told:
                    self.bench.note(line)
                self.bench.note(f"seed {self.seed}, a blow every {self.mean_s:g} s: {self.job}, {self.shape}, {hosts}, {self.members} of etcd")
                raise
        for line in self.told:
            if "a roll-back" in line:
                self.bench.note(line)
        terms = len(self.run.terms())
        what = ", ".join(f"{count} {name}" for name, count in sorted(self.blows.items())) or "none"
        self.bench.note(f"seed {self.seed}: {self.job} ({self.shape}), {hosts}, {self.members} of etcd: {took_s:.0f} s, {len(self.rollbacks)} roll-backs, "
                        f"{terms} changes of leader{'' if ends else ', nobody told the end'}; blows: {what}")
        tally = {"seconds": took_s, "blows": self.blows, "rollbacks": len(self.rollbacks), "terms": terms, "job": self.job}
        with open(os.path.join(cases.folder, f"tally-{self.seed}"), "w", encoding="utf-8") as file:
            json.dump(tally, file)


class Stopped:
    """Processes that stand still, by descriptors: a number may be another process by then."""

    def __init__(self, pids):
        self.pids, self.fds = pids, []
        for pid in pids:
            try:
                self.fds.append(os.pidfd_open(pid))
            except ProcessLookupError:
                pass
        self.send(signal.SIGSTOP)

    def send(self, number):
        for fd in self.fds:
            try:
                signal.pidfd_send_signal(fd, number)
            except ProcessLookupError:
                pass

    def go_on(self):
        self.send(signal.SIGCONT)
        for fd in self.fds:
            os.close(fd)


class Machines:
    @staticmethod
    def children(machine):
        try:
            return children_of(machine.process.pid)
        except (FileNotFoundError, ProcessLookupError):
            return set()


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def world(bench, seed, mean_s):
    World(bench, seed, mean_s).play()


for chosen in 201, 209, 212, 214:
    cases.add(f"world {chosen}", world, chosen, 4.0, seconds=45)


def soak(words):
    """Worlds one after the other, until the time is over."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runner"))
    import harness
    import outcome
    import run as runner
    from cases import CaseJob

    parser = argparse.ArgumentParser(prog="worlds.py CULM", description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=SEED, help="the seed of the first world (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3600, help="no world begins after that (default: %(default)s); 0: one world")
    parser.add_argument("--mean", type=float, default=MEAN_S, help="seconds between two blows, on average (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=1, help="worlds at a time (default: %(default)s)")
    chosen = parser.parse_args(words)
    until, seeds = time.monotonic() + chosen.seconds, iter(range(chosen.first, sys.maxsize))

    class Job(CaseJob):
        def ended(self, status, seconds):
            ended, _ = super().ended(status, seconds)
            return ended, [another()] if time.monotonic() < until else []

    def another():
        seed = next(seeds)
        cases.add(f"seed {seed}", world, seed, chosen.mean, seconds=10 * chosen.mean)
        return Job(cases.cases[-1], harness)

    print(f"worlds from seed {chosen.first} on, {chosen.seconds:g} s, a blow every {chosen.mean:g} s", flush=True)
    report = outcome.Report(None, lambda job: f"tests/system/worlds.py {os.path.relpath(cases.culm)} --first {job.case.args[0]} --seconds 0 "
                                              f"--mean {chosen.mean:g}")
    code = runner.run([another() for _ in range(chosen.at_once)], report)
    tallies = []
    for path in glob.glob(os.path.join(cases.folder, "tally-*")):
        with open(path, encoding="utf-8") as file:
            tallies.append(json.load(file))
    blows = sum((collections.Counter(one["blows"]) for one in tallies), collections.Counter())
    jobs = collections.Counter(one["job"] for one in tallies)
    print(f"{len(tallies)} worlds ({', '.join(f'{count} {job}' for job, count in sorted(jobs.items()))}), "
          f"{sum(blows.values())} blows in {sum(one['seconds'] for one in tallies):.0f} s, {sum(one['terms'] for one in tallies)} changes of leader, "
          f"{sum(one['rollbacks'] for one in tallies)} roll-backs")
    print(f"blows: {', '.join(f'{count} {name}' for name, count in sorted(blows.items()))}")
    sys.exit(code)


if __name__ == "__main__":
    if any(word.startswith("--") for word in sys.argv[2:]):
        soak(sys.argv[2:])
    cases.run()
