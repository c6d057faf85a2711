"""What system tests of models of pictures share: pictures, small classifiers of them that need no file of weights, and merging that
stands still."""
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess

from harness import check


def images(path, count=48, size=8):
    """Pictures of blobs, seeded, as IDX: brighter or darker to one side, so that models differ in what they say of them."""
    draw = random.Random(7)
    pixels = bytearray()
    for _ in range(count):
        level, slope = draw.randrange(256), draw.randrange(-24, 25)
        for y in range(size):
            for x in range(size):
                for c in range(3):
                    pixels.append(max(0, min(255, level + slope * (x if c else y) + draw.randrange(-40, 41))))
    with open(path, "wb") as file:
        file.write(struct.pack(">BBBBIIII", 0, 0, 8, 4, count, size, size, 3) + bytes(pixels))


def model(seed, blocks, width=4):
    return {"model": {"arch": "resnet", "blocks": blocks, "width": width, "small_stem": True, "image": 8, "channels": 3, "classes": 4},
            "data": {"kind": "images", "path": "images"}, "steps": 1, "seed": seed}


def two_queries(bench, feed=None, width=4, **sections):
    """A workload of two models on one feed, and the models."""
    images(bench.path("images"))
    for name, seed, blocks in (("a", 1, [1, 1]), ("b", 2, [1, 2])):
        bench.config(model(seed, blocks, width), f"{name}.yaml")
    queries = [{"name": name, "model": f"{name}.yaml", "feed": "camera", "target": 0.2} for name in "ab"]
    return bench.config({"feeds": {"camera": {"file": "images", **(feed or {})}}, "queries": queries, **sections}, "w.yaml")


@contextlib.contextmanager
def telling(bench, *words):
    """Merging that goes on only as its events are read, from the socket: it tells each to us alone, and few are on their way. (process,
    socket)."""
    ours, its = socket.socketpair()
    its.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as little as there is
    with ours, its:
        process = subprocess.Popen([bench.culm, "merge", *words, "--json"], stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL,
                                   cwd=bench.folder, start_new_session=True)
        bench.children.append(process)
        its.close()
        yield process, ours


def killed_in_search(bench, path, out):
    """A merge that is killed once it has tried something, and before it has ended."""
    with telling(bench, path, "--out", bench.path(out)) as (process, told):
        while not os.path.exists(bench.path(out, "search")):
            check(told.recv(4096), "it ended before it had tried anything")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
