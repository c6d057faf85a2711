"""What system tests of models of pictures share: pictures, small classifiers of them that need no file of weights, and merging that
stands still."""
import contextlib
import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import time

from harness import check, equal


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
    """Merging that goes on only as its events are read: (process, a function that reads the next one, b"" after the last). The pipe holds one
    event, however short, so that it waits with the second one that is not read."""
    ours, its = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    try:
        fcntl.fcntl(its, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)  # a page, which is one packet
        process = subprocess.Popen([bench.culm, "merge", *words, "--json"], stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL,
                                   cwd=bench.folder, start_new_session=True)
    finally:
        os.close(its)
    bench.children.append(process)
    with open(ours, "rb", buffering=0) as told:
        yield process, lambda: told.read(select.PIPE_BUF)


def killed_in_search(bench, path, out):
    """A merge that is killed once it has tried something, and before it has ended."""
    with telling(bench, path, "--out", bench.path(out)) as (process, told):
        while not os.path.exists(bench.path(out, "search")):
            check(told(), "it ended before it had tried anything")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def killed_behind(bench, number, pause_s, *words):
    """Whether a merge was killed when it had told so many events, and had gone on for a while; it always is if at least two more would come."""
    with telling(bench, *words) as (process, told):
        if not all(told() for _ in range(number)):
            equal(process.wait(300), 0, "exit code")
            return False
        time.sleep(pause_s)  # a moment of no plan, not a wait for something
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait() == -signal.SIGKILL
