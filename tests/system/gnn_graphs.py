#!/usr/bin/env python3
"""Data graphs: made, imported, looked at and cut; bad input gets one clear line, the right exit code, and writes nothing."""
import gzip
import hashlib
import json
import math
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

from harness import Cases, Skipped, check, equal, memory_group, peak_kb

cases = Cases(kind="waits", job="gnn")


class Numpy:
    """numpy, from when it is first used: Debian's package is for Debian's own Python, and another one may run this."""

    def __getattr__(self, name):
        try:
            import numpy
        except ImportError:
            if sys.executable == "/usr/bin/python3":  # to build the packages needs Debian's
                raise
            raise Skipped("this Python has no numpy; /usr/bin/python3 may have (Debian's python3-numpy)") from None
        return getattr(numpy, name)


np = Numpy()
INPUT, ENVIRONMENT, USAGE = 3, 4, 2
SPLITS = {"none": 0, "train": 1, "valid": 2, "test": 3}


def load(folder, name):
    return np.load(os.path.join(folder, name + ".npy"), allow_pickle=False)


def show(bench, graph, *words):
    ended = bench.run("gnn", "show", graph, "--json", *words)
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    return json.loads(ended.out)


def done(bench, *words):
    ended = bench.run("gnn", *words)
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    return ended.out


def refused(bench, code, words, *parts):
    ended = bench.run("gnn", *words)
    equal(ended.code, code, f"exit code ({ended.err!r})")
    equal(ended.out, "", "standard output")
    equal(len(ended.err.splitlines()), 1, f"lines on standard error ({ended.err!r})")
    check(ended.err.startswith("culm gnn: "), f"standard error does not say who speaks: {ended.err!r}")
    for part in parts:
        check(part in ended.err, f"standard error does not say {part!r}: {ended.err!r}")


def digest(folder):
    return {name: hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()
            for name in sorted(os.listdir(folder))}


# --- made -------------------------------------------------------------------------------------------------------------------


def blocks(bench):
    """What a seed gives is always the same; classes can be learned from neighbours, and not all of them."""
    words = ["make", "sbm", "--vertices", 3000, "--edges", 30000, "--classes", 5, "--features", 8]
    for out, seed in ("a/g", 3), ("b/g", 3), ("c/g", 4):
        done(bench, *words, "--seed", seed, "--out", bench.path(out))
    graph = bench.path("a/g")
    about = show(bench, graph)
    equal({k: about[k] for k in ("vertices", "edges", "features", "classes", "train", "valid", "test")},
          {"vertices": 3000, "edges": 30000, "features": 8, "classes": 5, "train": 1800, "valid": 600, "test": 600}, "show")
    equal(digest(graph), digest(bench.path("b/g")), "the same seed")
    check(digest(graph) != digest(bench.path("c/g")), "another seed gives the same graph")
    edges, labels = load(graph, "edges").astype(np.int64), load(graph, "labels")
    votes = np.zeros((3000, 5))
    np.add.at(votes, (edges[:, 0], labels[edges[:, 1]]), 1)
    np.add.at(votes, (edges[:, 1], labels[edges[:, 0]]), 1)
    right = (votes.argmax(axis=1) == labels).mean()
    bench.note(f"neighbours know {100 * right:.1f} % of the labels")
    check(0.8 < right < 0.98, f"neighbours know {right} of the labels")


def rmat(bench):
    done(bench, "make", "rmat", "--vertices", 5000, "--edges", 60000, "--out", bench.path("g"))
    about = show(bench, bench.path("g"))
    equal((about["vertices"], about["edges"], about["features"], about["classes"], about["train"]), (5000, 60000, 0, 0, 0), "show")
    check(about["degree_max"] > 10 * 2 * 60000 / 5000, f"the largest degree is {about['degree_max']}")
    done(bench, "make", "rmat", "--vertices", 5, "--edges", 10, "--classes", 2, "--out", bench.path("all"))
    equal(show(bench, bench.path("all"))["edges"], 10, "edges of a complete graph")


def idx(path, array, packed):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    with (gzip.open if packed else open)(path, "wb") as file:
        file.write(head + array.tobytes())


def nearest(bench):
    """Against the plainest search for neighbours."""
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, (60, 5, 7), dtype=np.uint8)
    images[7] = images[3]
    images[9] = images[3]  # ties: the first ones count
    labels = draw.integers(0, 3, 60, dtype=np.uint8)
    idx(bench.path("images.gz"), images, True)
    idx(bench.path("labels"), labels, False)
    done(bench, "make", "knn", bench.path("images.gz"), bench.path("labels"), "--vertices", 50, "--edges", 200, "--out", bench.path("g"))
    flat = images[:50].reshape(50, -1).astype(np.int64)
    wanted = set()
    for v in range(50):
        distance = ((flat - flat[v]) ** 2).sum(axis=1)
        near = sorted((d, u) for u, d in enumerate(distance) if u != v)[:4]
        wanted |= {(min(u, v), max(u, v)) for _, u in near}
    equal([tuple(edge) for edge in load(bench.path("g"), "edges").tolist()], sorted(wanted), "edges")
    equal(load(bench.path("g"), "labels").tolist(), labels[:50].tolist(), "labels")
    check((load(bench.path("g"), "features") == (flat / np.float32(255)).astype(np.float32)).all(), "pixels")


cases.add("make sbm", blocks, first=True)
cases.add("make rmat", rmat, first=True)
cases.add("make knn", nearest, first=True)


# --- imported ---------------------------------------------------------------------------------------------------------------


def put(bench, name, text):
    with open(bench.path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return bench.path(name)


def edges(bench):
    a = put(bench, "a.csv", "id_1,id_2\r\n0,1\r\n4,2\r\n1,0\r\n2,2\r\n")
    b = put(bench, "b.txt", "# a comment\n\n3\t1\n 0  4 0.5\n")
    labels = put(bench, "labels.csv", 'id,name,kind\n0,"x, y",tv\n2,z,politics\n3,w,"tv"\n4,v,government\n')
    features = put(bench, "features.json", '{"0": [3, 1, 3], "3": [], "5": [0]}')
    done(bench, "import", "edges", a, b, "--labels", labels, "--features", features, "--vertices", 6, "--out", bench.path("g"))
    graph = bench.path("g")
    equal(load(graph, "edges").tolist(), [[0, 1], [0, 4], [1, 3], [2, 4]], "edges")
    equal(load(graph, "labels").tolist(), [2, -1, 1, 2, 0, -1], "labels")
    equal(load(graph, "features_start").tolist(), [0, 2, 2, 2, 2, 2, 3], "features_start")
    equal(load(graph, "features_column").tolist(), [1, 3, 0], "features_column")
    head = json.load(open(os.path.join(graph, "graph.json"), encoding="utf-8"))
    equal((head["class_names"], head["edges_listed"], head["directed"]), (["government", "politics", "tv"], 6, False), "graph.json")
    done(bench, "import", "edges", a, b, "--directed", "--labels", put(bench, "plain", "1\n-1\n0\n2\n1\n"), "--split", "50/25/25",
         "--out", bench.path("d"))
    equal(load(bench.path("d"), "edges").tolist(), [[0, 1], [0, 4], [1, 0], [3, 1], [4, 2]], "directed edges")
    about = show(bench, bench.path("d"))
    equal((about["directed"], about["train"], about["valid"], about["test"]), (True, 2, 1, 1), "directed graph")


def imported(bench, pairs, labels=None):
    """The edges and the labels of an import, and the names of its classes."""
    words = ["--labels", put(bench, "labels.csv", labels)] if labels else []
    shutil.rmtree(bench.path("g"), ignore_errors=True)
    done(bench, "import", "edges", put(bench, "edges.csv", pairs), *words, "--out", bench.path("g"))
    with open(bench.path("g/graph.json"), encoding="utf-8") as file:
        names = json.load(file).get("class_names")
    return load(bench.path("g"), "edges").tolist(), load(bench.path("g"), "labels").tolist() if labels else None, names


def headings(bench):
    """A first line without numbers names columns, and nothing else is passed over."""
    both = [[0, 1], [1, 2]]
    for pairs in "0,1\n1,2\n", "\ufeff0,1\n1,2\n", "\ufeffid_1,id_2\n0,1\n1,2\n", '"vertex 1","vertex 2"\n0,1\n1,2\n', "a b\n0 1\n1 2\n":
        equal(imported(bench, pairs)[0], both, f"edges of {pairs!r}")
    for labels, wanted, names in (
            ("\ufeff1\n0\n1\n", [1, 0, 1], None),
            ("\ufeffid,label\n0,1\n1,0\n2,1\n", [1, 0, 1], None),
            ("target\n1\n0\n1\n", [1, 0, 1], None),
            ('"target"\n1\n-1\n0\n', [1, -1, 0], None),
            ("target\n0,1\n1,0\n2,1\n", [1, 0, 1], None),
            ("target\nb\na\n", [2, 1, 0], ["a", "b", "target"]),
            ("b\n-1\na\n", [1, -1, 0], ["a", "b"]),
            ("0,b\n1,-1\n2,a\n", [1, -1, 0], ["a", "b"]),
            ('"x y"\nz \n"x y"\n', [0, 1, 0], ["x y", "z"]),
            ('id,name,kind\n0,"x, 1",b\n2,y,"a ""c"""\n', [1, -1, 0], ['a ""c""', "b"])):
        equal(imported(bench, "0,1\n1,2\n", labels), (both, wanted, names), f"what {labels!r} gives")
    good = put(bench, "edges.csv", "0,1\n1,2\n")
    for pairs in "-1 5\n0 1\n", '"0","1"\n1,2\n', "id,7\n0,1\n", "1st 2nd\n0 1\n":
        refused(bench, INPUT, ["import", "edges", put(bench, "bad", pairs), "--out", bench.path("h")], "line 1", "is not an edge")
    for labels, line, part in (("x,5\n0,1\n", 1, "is not a vertex id and a label"), ("id,label\n0,a\nb\n", 3, "is not a vertex id and a label"),
                               ("computer science\nmath\n", 2, "is not a vertex id and a label"), ("a\nb\n2 c\n", 3, "is not a label alone"),
                               ("0,a\n1,\n", 2, "has an empty label")):
        refused(bench, INPUT, ["import", "edges", good, "--labels", put(bench, "bad", labels), "--out", bench.path("h")], f"line {line}", part)
    with open(bench.path("latin"), "wb") as file:
        file.write("0,a\n1,caf\u00e9\n".encode("latin-1"))
    refused(bench, INPUT, ["import", "edges", good, "--labels", bench.path("latin"), "--out", bench.path("h")],
            f"labels '{bench.path('latin')}': line 2: the label of vertex 1 is not UTF-8")
    check(not os.path.exists(bench.path("h")), "something was written")


def csr(rows, columns):
    start = np.cumsum([0] + [len(row) for row in rows])
    return {"indptr": start.astype(np.int32), "indices": np.array([c for row in rows for c in row], np.int32),
            "shape": np.array([len(rows), columns])}


def archives(bench):
    adjacency = csr([[2, 1], [0], [0, 2], []], 4)
    attributes = csr([[4, 0], [], [3], [1]], 5)
    members = {f"adj_{k}": v for k, v in adjacency.items()} | {f"attr_{k}": v for k, v in attributes.items()}
    np.savez(bench.path("a.npz"), adj_data=np.ones(5, np.float64), attr_data=np.array([2, 1, 0.5, 1], np.float32),
             labels=np.array([0, 1, 1, 2]), **members)
    done(bench, "import", "npz", bench.path("a.npz"), "--split", "50/25/25", "--seed", "0", "--splits", "3", "--out", bench.path("g"))
    graph = bench.path("g")
    equal(load(graph, "edges").tolist(), [[0, 1], [0, 2]], "edges")
    equal(load(graph, "features_column").tolist(), [0, 4, 3, 1], "columns rise")
    equal(load(graph, "features_value").tolist(), [1, 2, 0.5, 1], "values follow")
    for s in range(3):
        order = sorted(range(4), key=lambda v: hashlib.sha256(f"g {s} {v}".encode()).digest())
        wanted = [0] * 4
        for place, v in enumerate(order):
            wanted[v] = [1, 1, 2, 3][place]
        equal(load(graph, "split")[s].tolist(), wanted, f"split {s}")
    masks = np.array([[1, 0, 0, 0], [0, 0, 1, 0]], bool)
    np.savez_compressed(bench.path("b.npz"), edges=np.array([[1, 0], [2, 3], [3, 2]]), node_features=np.arange(12).reshape(4, 3) / 2,
                        node_labels=np.array([0, 1, 0, 1]), train_masks=masks, val_masks=masks[:, ::-1], test_masks=masks * 0)
    done(bench, "import", "npz", bench.path("b.npz"), "--out", bench.path("h"))
    equal(load(bench.path("h"), "edges").tolist(), [[0, 1], [2, 3]], "edges")
    equal(load(bench.path("h"), "split").tolist(), [[1, 0, 0, 2], [0, 2, 1, 0]], "split")
    equal(load(bench.path("h"), "features").tolist(), (np.arange(12).reshape(4, 3) / 2).tolist(), "features")


def published(bench):
    """A published archive, put together again from its folder, gives that folder, byte for byte."""
    for place in "../shared/data/graphs", "../../shared/data/graphs":
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..", place, "cora_ml")
        if os.path.isdir(folder):
            break
    else:
        raise Skipped("no published graphs beside the tree")
    pairs, labels = load(folder, "edges"), load(folder, "labels")
    rows = [[] for _ in labels]
    for u, v in pairs:
        rows[u].append(v)
    members = {f"adj_matrix.{k}": v for k, v in csr(rows, len(labels)).items()}
    members |= {"attr_matrix.indptr": load(folder, "features_start"), "attr_matrix.indices": load(folder, "features_column"),
                "attr_matrix.data": load(folder, "features_value"), "attr_matrix.shape": np.array([len(labels), 2879])}
    np.savez_compressed(bench.path("cora_ml.npz"), labels=labels, **members)
    done(bench, "import", "npz", bench.path("cora_ml.npz"), "--split", "60/20/20", "--splits", 10, "--out", bench.path("cora_ml"))
    ours, theirs = digest(bench.path("cora_ml")), digest(folder)
    for name in theirs:
        if name != "graph.json":  # the list of edges was shorter here
            equal(ours[name], theirs[name], name)


cases.add("import edges", edges, first=True)
cases.add("headings of imported files", headings)
cases.add("import npz", archives, first=True)
cases.add("import a published graph", published)


# --- cut --------------------------------------------------------------------------------------------------------------------


def partitions(bench):
    done(bench, "make", "sbm", "--vertices", 4000, "--edges", 40000, "--out", bench.path("g"))
    graph, found = bench.path("g"), {}
    for method in "metis", "stream":
        words = ["partition", graph, "--intervals", 16, "--servers", 4, "--method", method, "--json"]
        found[method] = json.loads(done(bench, *words, "--out", bench.path(method)))
        equal(json.loads(done(bench, *words)), found[method], f"{method} twice")
        check(1 <= found[method]["balance"] < 1.2, f"balance {found[method]['balance']}")
    check(found["metis"]["cut_edges"] < 0.5 * 40000 * 3 / 4, f"METIS cuts {found['metis']['cut_edges']} edges")
    again = json.loads(done(bench, "partition", graph, "--intervals", 16, "--servers", 4, "--method", bench.path("metis"), "--json"))
    equal(again | {"method": "metis"}, found["metis"], "the intervals of a file")
    equal(json.loads(done(bench, "partition", graph, "--intervals", 16, "--servers", 4, "--json")), found["metis"], "no method")
    intervals = np.loadtxt(bench.path("metis"), dtype=np.int64)
    pairs = load(graph, "edges").astype(np.int64)
    one = json.loads(done(bench, "partition", graph, "--intervals", 16, "--method", bench.path("metis"), "--json"))
    equal(one["cut_edges"], int((intervals[pairs[:, 0]] != intervals[pairs[:, 1]]).sum()), "cut edges, counted here")
    both = np.concatenate([pairs, pairs[:, ::-1]])
    far = intervals[both[:, 0]] != intervals[both[:, 1]]
    ghosts = len({(int(intervals[v]), int(u)) for u, v in both[far]})
    equal(one["ghosts"], ghosts, "ghosts, counted here")


cases.add("partition", partitions, first=True)


# --- refused ----------------------------------------------------------------------------------------------------------------


def damage(bench):
    """One thing wrong at a time, in a graph with all that a graph can have."""
    rng = random.Random(11)
    good = bench.path("good")
    draw = np.random.default_rng(2)
    members = {f"adj_{k}": v for k, v in csr([[1, 2, 5], [3], [4], [], [5], []], 6).items()}
    members |= {f"attr_{k}": v for k, v in csr([[0, 7], [], [3, 4, 5], [1], [], [2]], 8).items()}
    np.savez(bench.path("g.npz"), attr_data=draw.random(7, np.float32), labels=np.arange(6) % 3, **members)
    done(bench, "import", "npz", bench.path("g.npz"), "--split", "60/20/20", "--out", good)

    def edit(name, at, data):
        def change(folder):
            with open(os.path.join(folder, name), "r+b") as file:
                file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
                file.write(data)
        return change

    def cut(name, size):
        return lambda folder: os.truncate(os.path.join(folder, name), size)

    def head(**changes):
        def change(folder):
            path = os.path.join(folder, "graph.json")
            with open(path, encoding="utf-8") as file:
                value = json.load(file) | changes
            with open(path, "w", encoding="utf-8") as file:
                json.dump(value, file)
        return change

    def save(name, array):
        return lambda folder: np.save(os.path.join(folder, name), array, allow_pickle=True)

    wrong = [
        (edit("edges.npy", -8, struct.pack("<II", 2, 6)), "edges.npy", "row 5, (2, 6), has a vertex that is not there"),
        (edit("edges.npy", 128, struct.pack("<II", 1, 0)), "edges.npy", "row 0"),
        (edit("labels.npy", 128, struct.pack("<i", 7)), "labels.npy", "vertex 0 is 7"),
        (edit("split.npy", -1, b"\x09"), "split.npy", "has 9 for vertex 5"),
        (edit("features_value.npy", -4, struct.pack("<f", float("nan"))), "features_value.npy", "entry 6 is NaN"),
        (edit("features_value.npy", 128, struct.pack("<f", float("inf"))), "features_value.npy", "entry 0 is infinity"),
        (edit("features_column.npy", -2, struct.pack("<H", 8)), "features_column.npy", "entry 6 is column 8 of 8"),
        (edit("features_start.npy", -8, struct.pack("<Q", 2**63)), "features_start.npy", "there are 7 entries"),
        (head(vertices=7), "labels.npy", "has shape [6]; according to graph.json it must be [7]"),
        (head(vertices=10**12), "graph.json", "'vertices' is 1000000000000"),
        (head(edges=10**10), "edges.npy", "according to graph.json it must be [10000000000, 2]"),
        (head(format="culm-graph-9"), "graph.json", "culm-graph-9"),
        (save("labels.npy", np.array([None] * 6)), "labels.npy", "not numbers"),
        (save("labels.npy", np.zeros(6, np.int64)), "labels.npy", "has elements of type i8"),
        (save("labels.npy", np.zeros(6, ">i4")), "labels.npy", "not little-endian"),
        (save("split.npy", np.zeros((6, 1), np.uint8)), "split.npy", "has shape [6, 1]"),
        (save("edges.npy", np.asfortranarray(np.zeros((5, 2), "<u4"))), "edges.npy", "Fortran order"),
        (lambda folder: os.remove(os.path.join(folder, "labels.npy")), "labels.npy", "No such file"),
        (lambda folder: os.remove(os.path.join(folder, "graph.json")), "bad", "is not a folder with a graph.json"),
    ]
    for name in sorted(os.listdir(good)):
        size = os.path.getsize(os.path.join(good, name))
        wrong += [(cut(name, rng.randrange(size)), name, "") for _ in range(3)]
    for change, *parts in wrong:
        folder = bench.path("bad")
        shutil.copytree(good, folder)
        change(folder)
        refused(bench, INPUT, ["show", folder, "--json"], *parts)
        if parts[0] in ("edges.npy", "graph.json"):
            refused(bench, INPUT, ["partition", folder, "--intervals", 2], *parts)
        shutil.rmtree(folder)


def zeros(bench, name, shape):
    """An IDX file of zeros."""
    with open(bench.path(name), "wb") as file:
        file.write(struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(math.prod(shape)))
    return bench.path(name)


def wrong_words(bench):
    done(bench, "make", "sbm", "--vertices", 40, "--edges", 90, "--out", bench.path("g"))
    graph, out = bench.path("g"), bench.path("new")
    part = put(bench, "part", "0\n1\n" * 20)
    partition = ["partition", graph, "--intervals"]
    for code, words, *parts in [
            (INPUT, [*partition, 4, "--servers", 5], "5 servers for 4 intervals"),
            (INPUT, [*partition, 41], "41 intervals for 40 vertices"),
            (INPUT, [*partition, 5000], "allowed: 1 to 4096"),
            (INPUT, [*partition, 3, "--method", part], "interval 2 of 3 has no vertices"),
            (INPUT, [*partition, 2, "--method", put(bench, "short", "0\n1\n")], "has 2 numbers; the graph has 40 vertices"),
            (INPUT, [*partition, 2, "--method", put(bench, "text", "0\nx\n")], "line 2 is not an integer"),
            (INPUT, [*partition, 2, "--method", bench.path("nothing")], "No such file"),
            (INPUT, [*partition, 2, "--out", graph], "is a folder; name a file"),
            (INPUT, ["make", "knn", zeros(bench, "pixels", [16, 2, 2]), zeros(bench, "digits", [19]), "--out", out], "are 19 for 16 images"),
            (USAGE, ["make", "knn", zeros(bench, "pixels", [16, 2, 2]), "--edges", 100, "--out", out], "--edges needs --vertices"),
            (USAGE, ["partition", graph], "--intervals"),
            (INPUT, ["show", bench.path("nothing")], "is not a folder with a graph.json"),
            (INPUT, ["show", graph, "--split", 1], "there is no split 1"),
            (USAGE, ["show", graph, "--split", "x"], "--split x"),
            (USAGE, ["show", graph, graph], "and nothing else"),
            (USAGE, ["paint", graph], "no such command: 'paint'"),
            (INPUT, ["make", "sbm", "--vertices", 40, "--edges", 90, "--out", graph], "already exists"),
            (INPUT, ["make", "rmat", "--vertices", 40, "--edges", 90, "--out", part], "already exists"),
            (USAGE, ["make", "sbm", "--vertices", 40, "--edges", 90], "--out"),
            (USAGE, ["make", "sbm", "--vertices", 40, "--edges", 781, "--out", out], "allowed: 1 to 780"),
            (USAGE, ["make", "sbm", "--vertices", 40, "--out", out], "needs --vertices and --edges"),
            (ENVIRONMENT, ["make", "sbm", "--vertices", 10**9, "--edges", 40, "--features", 10**6, "--out", out], "there are"),
            (USAGE, [*partition, 2, "--method", "stream", "--seed", 3], "--seed is for METIS"),
            (USAGE, [*partition, 2, "--method", part, "--seed", 3], "--seed is for METIS"),
            (USAGE, ["import", "edges", part, "--seed", 3, "--out", out], "--seed needs --split"),
            (USAGE, ["make", "knn", bench.path("pixels"), "--seed", 3, "--out", out], "needs a file of labels"),
            (USAGE, ["make", "grid", "--out", out], "allowed: rmat, sbm, knn"),
            (USAGE, ["make", "rmat", part, "--vertices", 4, "--edges", 3, "--out", out], "'rmat' takes no file"),
            (USAGE, ["import", "edges", "--out", out], "'edges' takes files"),
            (USAGE, ["import", "npz", part, part, "--out", out], "one archive"),
            (INPUT, ["import", "npz", part, "--out", out], "is not a readable .npz"),
            (INPUT, ["import", "edges", put(bench, "e", "0 1\n2\n"), "--out", out], "line 2", "is not an edge"),
            (INPUT, ["import", "edges", put(bench, "f", "0 1\n2 99999999999\n"), "--out", out], "line 2", "is not an edge"),
            (INPUT, ["import", "edges", put(bench, "n", "0 1\n2 3\0\n"), "--out", out], "line 2", "has a NUL"),
            (INPUT, ["import", "edges", put(bench, "h", "a b\n"), "--out", out], "there is no vertex"),
            (INPUT, ["import", "edges", put(bench, "v", "0 9\n"), "--vertices", 9, "--out", out], "vertex 9"),
            (INPUT, ["import", "edges", put(bench, "w", "0 1\n"), "--split", "60/20/20", "--out", out], "needs labels"),
            (USAGE, ["import", "edges", bench.path("w"), "--split", "60/20/30", "--out", out], "60/20/30"),
            (USAGE, ["import", "edges", bench.path("w"), "--split", "60/20/20", "--splits", 1000001, "--out", out], "--splits 1000001: at most 1000000"),
            (INPUT, ["import", "edges", bench.path("w"), "--features", put(bench, "x.json", '{"2": [1]}'), "--out", out],
             "has a key that is not a vertex"),
            (INPUT, ["import", "edges", bench.path("w"), "--labels", put(bench, "l", "0 a\n0 b\n"), "--out", out],
             "line 2", "has a label already")]:
        refused(bench, code, words, *parts)
        check(not os.path.exists(out), f"{words} left {out}")
    equal(sorted(name for name in os.listdir(bench.folder) if "tmp" in name), [], "what is left over")


def larger_than_the_group(bench):
    """What the machine could hold is refused where a cgroup does not: at once, rather than killed after minutes."""
    out, far = bench.path("large"), put(bench, "far", "0 1\n1 300000000\n")
    near, labels = put(bench, "near", "0 1\n"), put(bench, "labels", "0 a\n200000000 b\n")
    for words, *parts in (
            (["make", "rmat", "--vertices", 10**7, "--edges", 2 * 10**8, "--features", 60, "--classes", 4],),
            (["import", "edges", far], f"edges '{far}': line 2: 300000001 vertices with 2 edges take 2 GB"),
            (["import", "edges", near, "--labels", labels], f"labels '{labels}': line 2: 200000001 vertices"),
            (["import", "edges", near, "--vertices", 300000000], "300000000 vertices")):
        with memory_group() as (set_limit, inside):
            set_limit(2 * 10**9)
            command = inside(bench.culm, "gnn", *words, "--out", out)
            ended = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, timeout=300, check=False)
        equal(ended.returncode, ENVIRONMENT, f"exit code in the group: {ended.stderr}")
        for part in ("there are 2 GB here", *parts):
            check(part in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr)
        check(not os.path.exists(out), "something was written")


def hostile_archives(bench):
    good = {f"adj_{k}": v for k, v in csr([[1], [0]], 2).items()} | {"labels": np.array([0, 1])}
    for changes, part in [
            ({"adj_indices": np.array([1, 2])}, "has a column that is out of range"),
            ({"adj_indices": np.array([1, -1])}, "has a column that is out of range"),
            ({"adj_indptr": np.array([0, 3, 2])}, "does not rise"),
            ({"adj_indptr": np.array([0, 1])}, "does not fit"),
            ({"adj_shape": np.array([2**40, 2])}, "valid shape"),
            ({"adj_shape": np.array([2, 3])}, "is not square"),
            ({"labels": np.array([0, 1, 2])}, "as many labels"),
            ({"labels": np.array([0.5, 1])}, "not an integer"),
            ({"labels": np.array(["a", "b"])}, "not numbers"),
            ({"labels": np.array([{}, None], object)}, "not numbers"),
            ({"node_features": np.array([[1.0], [np.nan]])}, "not finite"),
            ({"train_masks": np.array([[1, 0]]), "val_masks": np.array([[1, 1]])}, "another mask has")]:
        np.savez(bench.path("a.npz"), **(good | changes))
        refused(bench, INPUT, ["import", "npz", bench.path("a.npz"), "--out", bench.path("g")], part)
    pairs = {"edges": np.array([[0, 1]])}
    for members, part in [
            (pairs, "a.npz: edges': does not say how many vertices there are"),
            (pairs | {"node_features": np.ones((2**31 - 1, 0), np.float32)}, "does not say how many vertices there are"),
            ({"edges": np.array([[0.0, 1.0]]), "node_labels": np.array([0, 1])}, "a.npz: edges': is not of integers"),
            (pairs | {"node_labels": np.array([0])}, "has a vertex that is out of range")]:
        np.savez(bench.path("a.npz"), **members)
        refused(bench, INPUT, ["import", "npz", bench.path("a.npz"), "--out", bench.path("g")], part)
    np.savez_compressed(bench.path("a.npz"), **(good | {"node_features": np.ones((2, 5000), np.float32)}))
    whole = open(bench.path("a.npz"), "rb").read()
    rng = random.Random(5)
    for _ in range(60):  # torn and flipped: refused, or a graph as before
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)):]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        open(bench.path("b.npz"), "wb").write(data)
        ended = bench.run("gnn", "import", "npz", bench.path("b.npz"), "--out", bench.path("g"))
        check(ended.code in (0, 3), f"exit code {ended.code}: {ended.err!r}")
        check(len(ended.err.splitlines()) == (1 if ended.code else 0), f"standard error: {ended.err!r}")
        shutil.rmtree(bench.path("g"), ignore_errors=True)


cases.add("a damaged graph", damage, first=True)
cases.add("wrong words", wrong_words)
cases.add("hostile archives", hostile_archives)


# --- whole or not at all ----------------------------------------------------------------------------------------------------


def killed(bench):
    """A graph is there as a whole or not at all, whenever its maker dies."""
    words = ["make", "sbm", "--vertices", 20000, "--edges", 400000, "--features", 64, "--out"]
    start = time.monotonic()
    done(bench, *words, bench.path("whole"))
    took, left = time.monotonic() - start, 0
    wanted = digest(bench.path("whole"))
    del wanted["graph.json"], wanted["split.npy"]  # which have the name
    for i in range(12):
        process = bench.start("gnn", *words, bench.path(f"g{i}"))
        try:
            process.wait(0.005 + took * i / 10)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if os.path.exists(bench.path(f"g{i}")):
            found = digest(bench.path(f"g{i}"))
            equal({name: found[name] for name in wanted}, wanted, "a graph that is there")
            left += 1
    bench.note(f"{left} of 12 were there")
    check(left < 12, "no maker was killed in time")


def no_space(bench):
    """A write that fails leaves nothing, and is the environment's fault."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    command = [bench.culm, "gnn", "make", "rmat", "--vertices", "9000", "--edges", "90000", "--out", bench.path("g")]
    ended = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    equal(ended.returncode, ENVIRONMENT, f"exit code ({ended.stderr!r})")
    equal(len(ended.stderr.splitlines()), 1, "lines on standard error")
    check("edges.npy" in ended.stderr, f"standard error does not name the file: {ended.stderr!r}")
    equal([name for name in os.listdir(bench.folder) if name.startswith("g")], [], "what is left over")


def large_features(bench):
    """Features larger than memory are checked where they are, whatever a graph is opened for."""
    graph, config = bench.path("g"), bench.path("c.yaml")
    done(bench, "make", "sbm", "--vertices", "1000", "--edges", "3000", "--features", "16384", "--out", graph)  # 64 MB
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"graph: {{path: {graph}}}\nepochs: 1\nmodel: {{width: 2}}\n")
    for path in graph, config:
        peak = peak_kb([bench.culm, "gnn", "show", path])
        check(peak < 48000, f"show {path} took {peak} kB")


def counts(bench):
    """A configuration of Reddit's shape, where Dorylus gathers 858 floats an edge; and its epochs are timed."""
    done(bench, "make", "sbm", "--vertices", "600", "--edges", "3000", "--classes", "41", "--features", "602", "--split", "60/20/20",
         "--out", bench.path("g"))
    with open(bench.path("c.yaml"), "w", encoding="utf-8") as file:
        file.write(f"graph: {{path: {bench.path('g')}}}\nepochs: 1\nservers: 2\nmodel: {{width: 128}}\n")
    about = show(bench, bench.path("c.yaml"))
    equal((about["floats_per_edge"], about["bytes_per_vertex"], about["ghost_floats_per_vertex"]), (82, 328, 82), "counts")
    equal((about["order"], about["parameters"]), (["cached", "multiply"], 602 * 128 + 128 + 128 * 41 + 41), "order, parameters")
    check(about["vertices"] == 600 and about["train"] == 360 and about["cut_edges"] > 0, f"the graph: {about}")
    ended = bench.run("bench", "gnn", "epoch", bench.path("c.yaml"), "--iters", "3", "--json")
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    epoch = json.loads(ended.out)
    equal(epoch["gathered_floats"], 82 * (2 * about["edges"] + 600), "floats of an epoch: edges both ways, and loops")
    check(0 < epoch["epoch_s"]["min"] <= epoch["epoch_s"]["median"] and epoch["gb_per_s"] > 0, f"times: {epoch}")
    ended = bench.run("bench", "gnn", "epoch", bench.path("c.yaml"), "--iters", "1", "--dtype", "bf16", "--json")
    equal((ended.code, json.loads(ended.out)["dtype"]), (0, "bf16"), "an epoch with rows of 16 bits")
    with open(bench.path("half.yaml"), "w", encoding="utf-8") as file:
        file.write(f"graph: {{path: {bench.path('g')}}}\nepochs: 1\nservers: 2\nmodel: {{width: 128}}\nprecision: bf16\n")
    about = show(bench, bench.path("half.yaml"))
    equal((about["floats_per_edge"], about["bytes_per_vertex"]), (82, 164), "numbers of 16 bits")
    with open(bench.path("c.yaml"), "a", encoding="utf-8") as file:
        file.write("order: published\n")
    about = show(bench, bench.path("c.yaml"))
    equal((about["floats_per_edge"], about["order"]), (858, ["gather", "gather"]), "Dorylus's own order")


def kernels_timed(bench):
    """Each kernel reads a row for each edge, in both directions, and each vertex its own."""
    done(bench, "make", "rmat", "--vertices", 100, "--edges", 400, "--out", bench.path("g"))
    for kernel, width, words in (("spmm", 41, ["--width", 41, "--dtype", "bf16"]), ("sddmm", 64, []), ("sddmm", 24, ["--width", 24]),
                                 ("softmax", 8, ["--threads", 2])):
        ended = bench.run("bench", "gnn", kernel, bench.path("g"), "--json", "--iters", 3, *words)
        equal((ended.code, ended.err), (0, ""), "exit code and standard error")
        about = json.loads(ended.out)
        equal((about["kernel"], about["gathered_floats"]), (kernel, 900 * width), "what was read")
        check(0 < about["call_s"]["min"] <= about["call_s"]["median"] and about["gb_per_s"] > 0, ended.out)
    for words in (["spmm", "--width", 1000000], ["softmax", "--dtype", "bf16"], ["softmax", "--width", 32], ["sums"], ["epoch", "--width", 3]):
        ended = bench.run("bench", "gnn", words[0], bench.path("g"), *words[1:])
        equal((ended.code, ended.err.count("\n")), (USAGE, 1), f"exit code of {words}: {ended.err}")


def no_test_part(bench):
    """Of a part of the split that has no vertices nothing is told, nor of it at the best of another one."""
    pairs = put(bench, "edges.csv", "".join(f"{v} {(v * 5 + 1) % 12}\n" for v in range(12)))
    labels = put(bench, "labels.csv", "".join(f"{v % 2}\n" for v in range(12)))
    features = put(bench, "features.json", json.dumps({str(v): [v % 3] for v in range(12)}))
    done(bench, "import", "edges", pairs, "--labels", labels, "--features", features, "--split", "50/50/0", "--out", bench.path("graph"))
    config = bench.config({"graph": {"path": bench.path("graph")}, "model": {"layers": 1}, "epochs": 2, "intervals": 1, "eval": {"every": 1}})
    ended = bench.run("gnn", "train", config, "--out", bench.path("run"), "--json")
    equal(ended.code, 0, f"exit code; {ended.err}")
    last = json.loads(ended.out.splitlines()[-1])
    check("valid" in last and not [key for key in last if key.startswith("test")], f"{last}")


def learned(bench):
    """What a finished run knows: as its last event says, and as its logits do."""
    done(bench, "make", "sbm", "--vertices", "300", "--edges", "1200", "--classes", "2", "--features", "12", "--split", "40/20/40",
         "--out", bench.path("g"))
    done(bench, "make", "rmat", "--vertices", "5", "--edges", "6", "--features", "12", "--out", bench.path("plain"))
    with open(bench.path("c.yaml"), "w", encoding="utf-8") as file:
        file.write(f"graph: {{path: {bench.path('g')}, features: as-is}}\nepochs: 20\n")
    ended = bench.run("gnn", "train", bench.path("c.yaml"), "--out", bench.path("run"), "--json")
    equal((ended.code, ended.err), (0, ""), "exit code and standard error")
    last = json.loads(ended.out.splitlines()[-1])
    about = json.loads(done(bench, "eval", bench.path("run"), "--json"))
    equal([about[part] for part in ("train", "valid", "test")], [last[part] for part in ("train", "valid", "test")], "accuracies")
    done(bench, "predict", bench.path("run"), "--out", bench.path("l.npy"))
    logits, label, split = np.load(bench.path("l.npy")), load(bench.path("g"), "labels"), load(bench.path("g"), "split")[0]
    equal((logits.shape, logits.dtype), ((300, 2), np.float32), "logits")
    score = logits[:, 1].astype("f4") - logits[:, 0]
    for part in ("train", "valid", "test"):
        there = split == SPLITS[part]
        equal(about[part], ((logits.argmax(1) == label) & there).sum() / there.sum(), f"right of {part}")
        first, second = score[there & (label == 0)], score[there & (label == 1)]
        pairs = (second[:, None] > first).sum() + (second[:, None] == first).sum() / 2
        check(abs(about[part + "_auc"] - pairs / (len(first) * len(second))) < 1e-12, f"area of {part}: {about}")
    done(bench, "predict", bench.path("run"), "--graph", bench.path("plain"), "--out", bench.path("p.npy"))
    equal(np.load(bench.path("p.npy")).shape, (5, 2), "logits of a graph without labels")
    refused(bench, USAGE, ["predict", bench.path("run")], "--out LOGITS.npy")
    refused(bench, INPUT, ["eval", bench.path("plain")], "config.yaml")
    os.unlink(bench.path("run/model.safetensors"))
    refused(bench, INPUT, ["eval", bench.path("run")], "has no model yet")


cases.add("features larger than memory", large_features)
cases.add("counts of a configuration", counts, first=True)
cases.add("kernels are timed", kernels_timed)
cases.add("what was learned", learned, first=True)
cases.add("a split without vertices to test with", no_test_part)
cases.add("a graph too large for the control group", larger_than_the_group)
cases.add("makers are killed", killed, first=True)
cases.add("no space", no_space)

if __name__ == "__main__":
    cases.run()
