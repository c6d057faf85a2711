"""Network namespaces that stand for hosts, on one bridge:

      host 0          host 1          host 2
    10.77.0.1 ──┬── 10.77.0.2  ┌── 10.77.0.3
                └── a bridge ──┘

Needs root, and `ip` with namespaces, virtual Ethernet and bridges; `rate` needs `tc` with tbf. Raises Unavailable where they are not there.
"""
import os
import shlex
import shutil
import subprocess
import sys


class Unavailable(Exception):
    """Why there can be no hosts here."""


class Hosts:
    """`tag` makes the names unique. `rate`: how fast the links of all hosts but the first are in either direction, as tc writes it. `named`: each has a
    name of its own, too, which is `name_of` it; else all have that of this machine."""

    def __init__(self, tag, count, rate=None, named=False):
        for program in ["ip", *(["tc"] if rate else []), *(["unshare"] if named else [])]:
            if os.geteuid() != 0 or not shutil.which(program):
                raise Unavailable(f"neither root nor `{program}`: no network namespaces")
        self.names = [f"culm-{os.getpid()}-{tag}-{number}" for number in range(count)]
        self.made, self.named = [], named
        try:
            self.make(rate)
        except subprocess.CalledProcessError as error:
            self.remove()
            raise Unavailable(f"no network namespaces here: {error.stderr.strip()}") from None

    @staticmethod
    def do(*words):
        subprocess.run(words, check=True, capture_output=True, text=True)

    @classmethod
    def ip(cls, *words):
        cls.do("ip", *words)

    @classmethod
    def limit(cls, name, device, rate):
        cls.do("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")

    @staticmethod
    def address(number):
        return f"10.77.0.{number + 1}"

    def make(self, rate):
        for name in self.names:
            self.ip("netns", "add", name)
            self.made.append(name)
            self.ip("-n", name, "link", "set", "lo", "up")
        first = self.names[0]
        self.ip("-n", first, "link", "add", "bridge", "type", "bridge")
        for number, name in enumerate(self.names[1:], 1):
            self.ip("-n", first, "link", "add", f"port{number}", "type", "veth", "peer", "name", "net", "netns", name)
            self.ip("-n", first, "link", "set", f"port{number}", "master", "bridge", "up")
            self.ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "net")
            self.ip("-n", name, "link", "set", "net", "up")
            if rate:
                self.limit(first, f"port{number}", rate)
                self.limit(name, "net", rate)
        self.ip("-n", first, "address", "add", f"{self.address(0)}/24", "dev", "bridge")
        self.ip("-n", first, "link", "set", "bridge", "up")

    def remove(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def link(self, number, state):
        """Takes the cable of a host out, or plugs it in."""
        self.ip("-n", self.names[0], "link", "set", f"port{number}", state)

    def cut(self, sender, receiver):
        """Nothing more that `sender` sends arrives at `receiver`: it goes to a card that nobody has."""
        self.ip("-n", self.names[sender], "neigh", "replace", self.address(receiver), "lladdr", "02:00:00:00:00:01", "dev",
                "net" if sender else "bridge", "nud", "permanent")

    def mend(self, sender, receiver):
        self.ip("-n", self.names[sender], "neigh", "del", self.address(receiver), "dev", "net" if sender else "bridge")

    @staticmethod
    def name_of(number):
        return f"host-{number}"

    def on(self, number, *words):
        """A command line that runs on that host."""
        command = ["ip", "netns", "exec", self.names[number]]
        if self.named:
            command += ["unshare", "--uts", "sh", "-c", f'echo {self.name_of(number)} >/proc/sys/kernel/hostname && exec "$@"', "sh"]
        return [*command, *words]

    def run_on(self, number, bench):
        """From here on, culm runs on that host; returns the bench."""
        path = bench.path(f"culm-{number}")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(f'#!/bin/sh\nexec {shlex.join(self.on(number, bench.installed))} "$@"\n')
            os.chmod(path, 0o755)
        bench.culm = path
        return bench

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


# Writes what each connection between hosts says in each direction to a file of its own, and says when it has begun. Told to end, it takes no
# more packets, and first writes what has come: on a busy machine that is much.
SNIFFER = """
import os, select, signal, socket, struct, sys
wires, files, ends = [], {}, []
for name in os.listdir("/sys/class/net"):
    if name.startswith("port"):  # the cables of the other hosts: what is between them passes both
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        wire.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        wire.bind((name, 0))
        wire.setblocking(False)
        wires.append(wire)

def end(*_):
    ends.append(True)
    for wire in wires:
        wire.bind(("lo", 0))

def hear(wire):
    packet, about = wire.recvfrom(1 << 17)
    if about[0] == "lo":  # what has come before is written
        wires.remove(wire)
    if not about[0].startswith("port") or packet[12:14] != b"\\x08\\0" or packet[23] != 6:
        return
    tcp = 14 + 4 * (packet[14] & 15)
    last = 14 + struct.unpack_from(">H", packet, 16)[0]
    ports = struct.unpack_from(">HH", packet, tcp)
    if ports not in files:
        name = "%s%d-%d" % ("etcd-" if 2379 in ports else "", *ports)
        files[ports] = open(os.path.join(sys.argv[1], name), "wb", buffering=0)
    files[ports].write(packet[tcp + 4 * (packet[tcp + 12] >> 4):last])

signal.signal(signal.SIGTERM, end)
print("listening", flush=True)
while wires:
    ready = select.select(wires, [], [], 0 if ends else 0.2)[0]
    for wire in ready:
        hear(wire)
    if ends and not ready:
        break
"""


class Sniffer:
    """Hears, as long as it is entered, what the hosts say to each other over TCP, but for packets that are lost or said twice."""

    def __init__(self, hosts, folder):
        self.hosts, self.folder = hosts, folder
        os.mkdir(folder)

    def __enter__(self):
        self.process = subprocess.Popen(self.hosts.on(0, sys.executable, "-c", SNIFFER, self.folder), stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "listening\n":
            raise AssertionError("the sniffer does not begin")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def flows(self, etcd):
        """What was said, one of bytes for each direction of a connection: to and from etcd, or others."""
        flows = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("etcd-") == etcd:
                with open(os.path.join(self.folder, name), "rb") as file:
                    flows.append(file.read())
        return flows
