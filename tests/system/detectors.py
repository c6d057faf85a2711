#!/usr/bin/env python3
"""Detectors as people have them: ONNX files whose boxes are worked out in the file, read as what they are, or refused; never as classes."""
import json
import math
import os
import struct
import sys
import zlib

from harness import Cases, check, equal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz"))
import onnx_corpus as onnx  # pylint: disable=wrong-import-position

cases = Cases(job="edge")
NODE = onnx.node
SIDE = 64
STRIDES = (8, 16, 32)
CLASSES = 2
BINS = 4  # of the distances of YOLOv8, which has 16
ANCHORS = {8: [(10, 13), (16, 30), (33, 23)], 16: [(30, 61), (62, 45), (59, 119)], 32: [(116, 90), (156, 198), (373, 326)]}


def numbers(count, seed):
    """Pseudo-random numbers between -1 and 1."""
    state, out = seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2 ** 31
        out.append(struct.unpack("<f", struct.pack("<f", state / 2 ** 30 - 1))[0])
    return out


def picture(path, width=SIDE, height=SIDE, seed=5):
    """A PNG of coloured patches of 8 x 8 pixels; its rows of pixels."""
    values = [int(127.5 + 127.5 * x) for x in numbers(3 * ((width + 7) // 8) * ((height + 7) // 8), seed)]
    rows = [[values[3 * (y // 8 * ((width + 7) // 8) + x // 8):][:3] for x in range(width)] for y in range(height)]
    raw = b"".join(b"\0" + bytes(c for pixel in row for c in pixel) for row in rows)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(raw))
                   + chunk(b"IEND", b""))
    return rows


def int_tensor(name, values):
    return onnx.tensor(name, [len(values)], onnx.ints(values), onnx.INT64)


class Net:
    """A file as it grows: layers that see the mean of each cell, and whatever stands behind them."""

    def __init__(self, dims=("batch", 3, SIDE, SIDE)):
        self.nodes, self.weights, self.layers, self.dims = [], [], {}, list(dims)

    def add(self, op, inputs, outputs, **attributes):
        self.nodes.append(NODE(op, inputs.split(), outputs.split(), **attributes))

    def const(self, name, dims, values):
        self.weights.append(onnx.tensor(name, dims, values))

    def ints(self, name, values):
        self.weights.append(int_tensor(name, values))

    def layer(self, name, stride, channels, seed, bias=0.0, gain=3.0):
        """Of the picture's means over cells of `stride`, `channels` sums."""
        w, b = [gain * x for x in numbers(3 * channels, seed)], [bias + x for x in numbers(channels, seed + 1)]
        if f"pool{stride}" not in self.layers:
            self.add("AveragePool", "x", f"pool{stride}", kernel_shape=[stride] * 2, strides=[stride] * 2)
            self.layers[f"pool{stride}"] = None
        self.const(f"{name}.w", [channels, 3, 1, 1], w)
        self.const(f"{name}.b", [channels], b)
        self.add("Conv", f"pool{stride} {name}.w {name}.b", name, kernel_shape=[1, 1])
        self.layers[name] = (stride, w, b)

    def value(self, name, pixels, i, j):
        """The numbers of a layer in cell (i, j), of pixels 0 to 1."""
        stride, w, b = self.layers[name]
        mean = [sum(pixels[i * stride + y][j * stride + x][c] for y in range(stride) for x in range(stride)) / stride ** 2 for c in range(3)]
        return [b[k] + sum(w[3 * k + c] * mean[c] for c in range(3)) for k in range(len(b))]

    def save(self, path, outputs, names=None, opset=17, extra=()):
        data = onnx.model(onnx.graph(self.nodes, [onnx.end("x", self.dims)], [onnx.end(o) for o in outputs], self.weights), opset)
        meta = dict(extra)
        if names:
            meta["names"] = "{" + ", ".join(f"{i}: '{name}'" for i, name in enumerate(names)) + "}"
        data += b"".join(onnx.block(14, onnx.block(1, key) + onnx.block(2, value)) for key, value in meta.items())
        with open(path, "wb") as file:
            file.write(data)
        return path


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def grid(stride):
    return [(i, j) for i in range(SIDE // stride) for j in range(SIDE // stride)]


def overlap(a, b):
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    both = max(0, w) * max(0, h)
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def chosen(found, most=0.45):
    """Non-maximum suppression of (class, score, x, y, width, height), class by class."""
    kept = []
    for one in sorted(found, key=lambda box: -box[1]):
        if all(other[0] != one[0] or overlap(one[2:], other[2:]) <= most for other in kept):
            kept.append(one)
    return kept


def answers(bench, file, what, *more):
    ended = bench.run("predict", file, what, "--json", *more)
    equal(ended.code, 0, f"exit code of predict {file}; {ended.err!r}")
    return [[(box["class"], box["score"], box["x"], box["y"], box["width"], box["height"]) for box in json.loads(line)["boxes"]]
            for line in ended.out.splitlines()]


def same(got, wanted, what):
    check(len(wanted) > 3, f"{what}: {len(wanted)} boxes show nothing")
    equal(len(got), len(wanted), f"boxes of {what}")
    left = list(wanted)
    for one in got:
        near = [other for other in left if other[0] == one[0] and all(abs(a - b) < 2e-3 + 2e-5 * abs(b) for a, b in zip(one[1:], other[1:]))]
        check(near, f"{what}: {one} is none of {left[:9]}")
        left.remove(near[0])


def refused(bench, words, *texts):
    """In one line, which says all of this."""
    ended = bench.run(*words)
    equal((ended.code, ended.err.count("\n")), (3, 1), f"exit code and lines of {words}; {ended.err!r}, {ended.out[:200]!r}")
    for text in texts:
        check(text in ended.err, f"{words}: no {text!r} in {ended.err!r}")


# --- YOLOv8, v9, v11 ---

def yolov8(path, names=("cat", "dog"), turned=False, seed=0, **how):
    """The head of Ultralytics' export, as `simplify=True` writes it: [batch, 4 + classes, candidates]."""
    net, parts, cells = Net(**how), [], 0
    for s, stride in enumerate(STRIDES):
        net.layer(f"box{s}", stride, 4 * BINS, 11 + s)  # boxes alike, classes not
        net.layer(f"cls{s}", stride, CLASSES, 31 + s + 100 * seed, bias=-1.0)
        net.add("Concat", f"box{s} cls{s}", f"both{s}", axis=1)
        net.ints(f"shape{s}", [0, 4 * BINS + CLASSES, -1])
        net.add("Reshape", f"both{s} shape{s}", f"flat{s}")
        parts.append(f"flat{s}")
        cells += len(grid(stride))
    net.add("Concat", " ".join(parts), "all", axis=2)
    net.ints("split", [4 * BINS, CLASSES])
    net.add("Split", "all split", "box cls", axis=1)
    net.ints("bins", [0, 4, BINS, cells])
    net.add("Reshape", "box bins", "d4")
    net.add("Transpose", "d4", "dT", perm=[0, 2, 1, 3])
    net.add("Softmax", "dT", "dS", axis=1)
    net.const("dfl", [1, BINS, 1, 1], [float(k) for k in range(BINS)])
    net.add("Conv", "dS dfl", "dC", kernel_shape=[1, 1])
    net.ints("four", [0, 4, cells])
    net.add("Reshape", "dC four", "dist")
    for name, value in (("zero", 0), ("two", 2), ("end", 4), ("one", 1)):
        net.ints(name, [value])
    net.add("Slice", "dist zero two one", "lt")
    net.add("Slice", "dist two end one", "rb")
    places = [(j + 0.5, i + 0.5) for stride in STRIDES for i, j in grid(stride)]
    net.const("anchors", [1, 2, cells], [place[0] for place in places] + [place[1] for place in places])
    net.add("Sub", "anchors lt", "p1")
    net.add("Add", "anchors rb", "p2")
    net.add("Add", "p1 p2", "sum")
    net.const("half", [], [2.0])
    net.add("Div", "sum half", "centre")
    net.add("Sub", "p2 p1", "size")
    net.add("Concat", "centre size", "xywh", axis=1)
    net.const("strides", [1, cells], [float(stride) for stride in STRIDES for _ in grid(stride)])
    net.add("Mul", "xywh strides", "pixels")
    net.add("Sigmoid", "cls", "scores")
    net.add("Concat", "pixels scores", "tall" if turned else "output0", axis=1)
    if turned:
        net.add("Transpose", "tall", "output0", perm=[0, 2, 1])
    net.save(path, ["output0"], names)
    return net


def yolov8_boxes(net, pixels, score):
    found = []
    for s, stride in enumerate(STRIDES):
        for i, j in grid(stride):
            t = net.value(f"box{s}", pixels, i, j)
            distance = []
            for side in range(4):
                e = [math.exp(x) for x in t[side * BINS:(side + 1) * BINS]]
                distance.append(sum(k * x for k, x in enumerate(e)) / sum(e))
            x1, y1 = j + 0.5 - distance[0], i + 0.5 - distance[1]
            x2, y2 = j + 0.5 + distance[2], i + 0.5 + distance[3]
            for c, x in enumerate(net.value(f"cls{s}", pixels, i, j)):
                if sigmoid(x) >= score:
                    found.append((c, sigmoid(x), x1 * stride, y1 * stride, (x2 - x1) * stride, (y2 - y1) * stride))
    return chosen(found)


def scaled(rows):
    return [[[c / 255 for c in pixel] for pixel in row] for row in rows]


def ultralytics(bench):
    """YOLOv8's export, against the same computed here: with names, without, turned, in proportion; and its classes are told by name."""
    pixels = scaled(picture(bench.path("p.png")))
    net = yolov8(bench.path("m.onnx"))
    wanted = yolov8_boxes(net, pixels, 0.5)
    same(answers(bench, "m.onnx", "p.png", "--score", 0.5)[0], wanted, "yolov8")
    check('"dog"' in bench.run("predict", "m.onnx", "p.png", "--json").out, "no names of classes")
    told = json.loads(bench.run("model", "show", "m.onnx", "--json").out)
    equal((told["answers"], told["classes"], told["candidates"]), ("boxes", CLASSES, 84), "what model show says")
    yolov8(bench.path("bare.onnx"), names=None)
    same(answers(bench, "bare.onnx", "p.png", "--score", 0.5)[0], wanted, "yolov8 without names")
    yolov8(bench.path("turned.onnx"), turned=True)
    same(answers(bench, "turned.onnx", "p.png", "--score", 0.5)[0], wanted, "yolov8, candidates first")
    # in its own proportions, with grey around it; stretched if that is asked for
    wide = scaled(picture(bench.path("wide.png"), SIDE, SIDE // 2))
    grey = [[[114 / 255] * 3] * SIDE] * (SIDE // 4)
    moved = [(c, p, x, y - SIDE // 4, w, h) for c, p, x, y, w, h in yolov8_boxes(net, grey + wide + grey, 0.5)]
    same(answers(bench, "m.onnx", "wide.png", "--score", 0.5)[0], moved, "a letterbox")
    check(answers(bench, "m.onnx", "wide.png", "--score", 0.5, "--fit", "stretch") != answers(bench, "m.onnx", "wide.png", "--score", 0.5),
          "--fit stretch makes no difference")
    refused(bench, ["predict", "m.onnx", "p.png", "--decode", "yolov5"], "[1,6,84]", "2 classes have names")
    refused(bench, ["predict", "m.onnx", "p.png", "--decode", "yolov4"], "yolov4", "yolov8")


cases.add("detectors: YOLOv8 as exported", ultralytics, first=True)


def free_size(bench):
    """A size that the file leaves open: from its metadata, or asked for, or one line; -1 is open, too."""
    for name, dims in (("named", ["batch", 3, "height", "width"]), ("minus", [-1, 3, -1, -1])):
        net = Net(dims)
        net.layer("out", 8, CLASSES, 3)
        net.add("GlobalAveragePool", "out", "mean")
        net.add("Flatten", "mean", "y")
        net.save(bench.path(f"{name}.onnx"), ["y"])
        net.save(bench.path(f"{name}-said.onnx"), ["y"], extra={"imgsz": "[32, 64]"})
        refused(bench, ["model", "show", f"{name}.onnx"], "leaves the size of its input open", "--size")
        told = json.loads(bench.run("model", "show", f"{name}.onnx", "--size", "40x24", "--json").out)
        equal(told["input"], {"width": 40, "height": 24, "channels": 3}, "the size that was asked for")
        told = json.loads(bench.run("model", "show", f"{name}-said.onnx", "--json").out)
        equal(told["input"], {"width": 64, "height": 32, "channels": 3}, "the size of the metadata")
    yolov8(bench.path("fixed.onnx"))
    refused(bench, ["model", "show", "fixed.onnx", "--size", "32"], "its input is 64 x 64")
    refused(bench, ["model", "show", "fixed.onnx", "--size", "32x"], "WIDTHxHEIGHT")


cases.add("detectors: a size that is left open", free_size, first=True)

# --- YOLOv5, v7 ---

def yolov5(path, names=("cat", "dog"), offsets=False):
    """[batch, candidates, 5 + classes], as YOLOv5's export.py writes it; with values of five dimensions."""
    net, parts, numbers_each = Net(), [], 5 + CLASSES
    net.const("2", [], [2.0])
    net.ints("parts", [2, 2, 1 + CLASSES])
    net.ints("rows", [0, -1, numbers_each])
    for s, stride in enumerate(STRIDES):
        g = SIDE // stride
        net.layer(f"t{s}", stride, 3 * numbers_each, 51 + s, gain=2.0)
        net.ints(f"shape{s}", [0, 3, numbers_each, g, g])
        net.add("Reshape", f"t{s} shape{s}", f"r{s}")
        net.add("Transpose", f"r{s}", f"T{s}", perm=[0, 1, 3, 4, 2])
        net.add("Sigmoid", f"T{s}", f"S{s}")
        if not offsets:
            net.const(f"grid{s}", [1, 3, g, g, 2], [v for _ in range(3) for i, j in grid(stride) for v in (j - 0.5, i - 0.5)])
            net.const(f"anchor{s}", [1, 3, g, g, 2], [float(v) for a in range(3) for _ in grid(stride) for v in ANCHORS[stride][a]])
            net.const(f"stride{s}", [], [float(stride)])
            net.add("Split", f"S{s} parts", f"xy{s} wh{s} conf{s}", axis=4)
            net.add("Mul", f"xy{s} 2", f"xa{s}")
            net.add("Add", f"xa{s} grid{s}", f"xb{s}")
            net.add("Mul", f"xb{s} stride{s}", f"xc{s}")
            net.add("Mul", f"wh{s} 2", f"wa{s}")
            net.add("Pow", f"wa{s} 2", f"wb{s}")
            net.add("Mul", f"wb{s} anchor{s}", f"wc{s}")
            net.add("Concat", f"xc{s} wc{s} conf{s}", f"S2{s}", axis=4)
        net.add("Reshape", f"{'S' if offsets else 'S2'}{s} rows", f"z{s}")
        parts.append(f"z{s}")
    net.add("Concat", " ".join(parts), "output", axis=1)
    net.save(path, ["output"], names)
    return net


def yolov5_boxes(net, pixels, score):
    found = []
    for s, stride in enumerate(STRIDES):
        for i, j in grid(stride):
            t = net.value(f"t{s}", pixels, i, j)
            for a in range(3):
                p = [sigmoid(x) for x in t[a * (5 + CLASSES):(a + 1) * (5 + CLASSES)]]
                x, y = (2 * p[0] - 0.5 + j) * stride, (2 * p[1] - 0.5 + i) * stride
                w, h = (2 * p[2]) ** 2 * ANCHORS[stride][a][0], (2 * p[3]) ** 2 * ANCHORS[stride][a][1]
                found += [(c, p[4] * p[5 + c], x - w / 2, y - h / 2, w, h) for c in range(CLASSES) if p[4] * p[5 + c] >= score]
    return chosen(found)


def five_dimensions(bench):
    pixels = scaled(picture(bench.path("p.png")))
    net = yolov5(bench.path("m.onnx"))
    wanted = yolov5_boxes(net, pixels, 0.3)
    same(answers(bench, "m.onnx", "p.png", "--score", 0.3)[0], wanted, "yolov5")
    yolov5(bench.path("bare.onnx"), names=None)
    same(answers(bench, "bare.onnx", "p.png", "--score", 0.3)[0], wanted, "yolov5 without names")
    yolov5(bench.path("offsets.onnx"), offsets=True)
    refused(bench, ["predict", "offsets.onnx", "p.png"], "[1,252,7]", "offsets within a grid")


cases.add("detectors: YOLOv5 as exported", five_dimensions, first=True)

# --- boxes and scores apart, chosen ones, DETR ---

def candidates(path, outputs, names=None, producer=None):
    """A candidate in each cell of 8 x 8: box numbers "b" (centre and size, as fractions of the picture), logits "l" of 1 + CLASSES; `outputs`
    goes on from these and says what the outputs are."""
    net = Net()
    net.layer("bm", 8, 4, 61, bias=-2.0, gain=6.0)
    net.layer("lm", 8, 1 + CLASSES, 72, gain=6.0)
    net.ints("b3", [0, 4, 64])
    net.ints("l3", [0, 1 + CLASSES, 64])
    for name in "bl":
        net.add("Reshape", f"{name}m {name}3", f"{name}f")
        net.add("Transpose", f"{name}f", name, perm=[0, 2, 1])
    net.add("Sigmoid", "b", "centre")
    for name, value in (("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("four", 4), ("six", 6)):
        net.ints(name, [value])
    net.const("half", [], [0.5])
    net.const("side", [], [float(SIDE)])
    net.add("Slice", "centre zero two two", "xy")
    net.add("Slice", "centre two four two", "wh")
    net.add("Mul", "wh half", "reach")
    net.add("Sub", "xy reach", "low")
    net.add("Add", "xy reach", "high")
    net.add("Concat", "low high", "corners", axis=2)
    net.add("Mul", "corners side", "pixels")
    net.add("Softmax", "l", "probabilities", axis=-1)
    outs = outputs(net)
    net.save(path, outs, names, extra=())
    if producer:
        with open(path, "ab") as file:
            file.write(onnx.block(2, producer))
    return net


def candidate_boxes(net, pixels, score, kind):
    """`kind`: softmax with the background first or last, or sigmoids of the last CLASSES."""
    found = []
    for i, j in grid(8):
        x, y, w, h = (SIDE * sigmoid(t) for t in net.value("bm", pixels, i, j))
        logits = net.value("lm", pixels, i, j)
        e = [math.exp(t) for t in logits]
        scores = [t / sum(e) for t in e]
        scores = {"first": scores[1:], "last": scores[:-1], "each": [sigmoid(t) for t in logits[1:]]}[kind]
        found += [(c, p, x - w / 2, y - h / 2, w, h) for c, p in enumerate(scores) if p >= score]
    return found


def ssd(net):
    net.add("Identity", "probabilities", "scores")
    net.add("Identity", "corners", "boxes")
    return ["scores", "boxes"]


def retina(net):
    net.add("Slice", "l one three two", "cut")
    net.add("Sigmoid", "cut", "scores")
    net.add("Identity", "pixels", "boxes")
    return ["boxes", "scores"]


def detr(net):
    net.add("Identity", "l", "logits")
    net.add("Identity", "centre", "pred_boxes")
    return ["logits", "pred_boxes"]


def rtdetr(net):
    net.add("Slice", "l one three two", "cut")
    net.add("Sigmoid", "cut", "scores")
    net.add("Concat", "centre scores", "output0", axis=2)
    return ["output0"]


def nms(net):
    """Of scores with the background in front, as SSD has them."""
    net.add("Transpose", "probabilities", "s", perm=[0, 2, 1])
    net.ints("most", [50])
    net.const("iou", [1], [0.5])
    net.add("NonMaxSuppression", "corners s most iou", "chosen")
    net.add("Gather", "chosen two", "picked", axis=1)
    return ["picked"]


def end_to_end(net):
    """As YOLOv10 and exports with a choice inside: the best of [batch, 4 + classes, candidates], with TopK."""
    net.add("Slice", "l one three two", "cut")
    net.add("Sigmoid", "cut", "scores")
    net.const("whole", [], [float(SIDE)])
    net.add("Mul", "centre whole", "big")
    net.add("Concat", "big scores", "rows", axis=2)
    net.add("ReduceMax", "scores", "best", axes=[2], keepdims=0)
    net.ints("k", [20])
    net.add("TopK", "best k", "top index", axis=1)
    net.ints("last", [2])
    net.add("Unsqueeze", "index last", "index3")
    net.ints("wide", [1, 1, 4 + CLASSES])
    net.add("Tile", "index3 wide", "index6")
    net.add("GatherElements", "rows index6", "output0", axis=1)
    return ["output0"]


def labelled(net):
    """A score and a class each, TensorFlow's names: y first."""
    net.add("Slice", "probabilities one three two", "classes")
    net.add("ReduceMax", "classes", "detection_scores", axes=[2], keepdims=0)
    net.add("Slice", "low zero one two", "x1")
    net.add("Slice", "low one two two", "y1")
    net.add("Slice", "high zero one two", "x2")
    net.add("Slice", "high one two two", "y2")
    net.add("Concat", "y1 x1 y2 x2", "detection_boxes", axis=2)
    net.const("no", [], [0.0])
    net.add("Mul", "detection_scores no", "detection_classes")
    return ["detection_boxes", "detection_scores", "detection_classes"]


def apart(bench):
    pixels = scaled(picture(bench.path("p.png")))
    two, score = ["cat", "dog"], 0.4

    def told(name, *words):
        return answers(bench, f"{name}.onnx", "p.png", "--score", score, *words)[0]
    for name, outputs in (("ssd", ssd), ("retina", retina), ("detr", detr), ("rtdetr", rtdetr), ("nms", nms), ("end", end_to_end), ("tf", labelled)):
        candidates(bench.path(f"{name}.onnx"), outputs, None if name in ("nms", "tf") else two)
    net = candidates(bench.path("other.onnx"), ssd)
    first, last, each = (candidate_boxes(net, pixels, score, kind) for kind in ("first", "last", "each"))
    same(told("ssd", "--decode", "ssd"), chosen(first), "SSD")
    same(told("retina", "--decode", "boxes"), chosen(each), "RetinaNet")
    same(told("detr", "--decode", "detr"), last, "DETR, which chooses by itself")
    same(told("detr"), last, "DETR by its names")
    same(told("rtdetr", "--decode", "detr"), each, "RT-DETR")
    refused(bench, ["predict", "rtdetr.onnx", "p.png"], "cannot be told")  # six numbers could be corners, score and class, too
    same(told("nms", "--decode", "ssd"), [(c, *rest) for c, *rest in chosen(first)], "a NonMaxSuppression in the file")
    same(told("end", "--decode", "yolov8"), chosen(each), "a TopK in the file")
    got, wanted = told("tf"), [max((b for b in first if b[2:] == box), key=lambda b: b[1]) for box in {b[2:] for b in first}]
    same(got, [(0, *b[1:]) for b in wanted], "TensorFlow's names")
    for name in ("ssd", "retina", "nms"):
        refused(bench, ["predict", f"{name}.onnx", "p.png"], "in which unit", "'decode: boxes'")
    refused(bench, ["predict", "ssd.onnx", "p.png", "--decode", "yolov8"], "'decode: boxes', 'ssd' or 'detr'")
    candidates(bench.path("nameless.onnx"), detr)
    refused(bench, ["predict", "nameless.onnx", "p.png"], "names of its classes")


cases.add("detectors: boxes and scores apart, and chosen ones", apart, first=True)

# --- what is not understood ---

def raw(path, shape, names=None, outputs=1):
    """A file whose output has this shape behind the batch, and means nothing that it says."""
    net = Net()
    count = math.prod(shape)
    net.layer("t", 32, 2, 7)
    net.add("Flatten", "t", "f")
    for k in range(outputs):
        net.const(f"w{k}", [8, count], numbers(8 * count, 3 + k))
        net.add("MatMul", f"f w{k}", f"m{k}")
        net.ints(f"shape{k}", [0, *shape])
        net.add("Reshape", f"m{k} shape{k}", f"y{k}")
    net.save(path, [f"y{k}" for k in range(outputs)], names)


def not_classes(bench):
    """Whatever has more than one row of numbers is no classifier: refused in one line, with its shapes and what to do."""
    picture(bench.path("p.png"))
    for name, shape, names in (("wide", [22, 100], None), ("one", [5, 50], None), ("rows", [40, 6], None), ("named", [84, 33], ["a", "b", "c"])):
        raw(bench.path(f"{name}.onnx"), shape, names)
        told = f"[1,{shape[0]},{shape[1]}]"
        for words in (["predict", f"{name}.onnx", "p.png"], ["model", "show", f"{name}.onnx"]):
            refused(bench, words, told, "yolov8")
        refused(bench, ["predict", f"{name}.onnx", "p.png", "--decode", "classes"], told)
        bench.config({"feeds": {"camera": {"file": "p.png"}}, "queries": [{"name": "q", "model": f"{name}.onnx", "feed": "camera"}]}, "w.yaml")
        refused(bench, ["merge", "w.yaml", "--out", "package"], told)
        refused(bench, ["edge", "plan", "w.yaml"], told)
    raw(bench.path("row.onnx"), [1, 7])
    equal(json.loads(bench.run("model", "show", "row.onnx", "--json").out)["classes"], 7, "one row of numbers is classes")
    raw(bench.path("many.onnx"), [196])
    for decode, kind in (("auto", "points"), ("classes", "classes"), ("points", "points")):
        equal(json.loads(bench.run("model", "show", "many.onnx", "--decode", decode, "--json").out)["answers"], kind, f"decode {decode}")
    raw(bench.path("pose.onnx"), [56, 84], ["person"])
    refused(bench, ["predict", "pose.onnx", "p.png"], "[1,56,84]", "more than boxes")
    raw(bench.path("two.onnx"), [30, 4], None, 2)
    refused(bench, ["predict", "two.onnx", "p.png"], "'y0' [1,30,4]", "'y1' [1,30,4]", "decode")


cases.add("detectors: what is not understood is not classes", not_classes, first=True)

# --- operators ---

def operators(bench):
    """Sums of one, two and three; whatever else is not run is named, and quantised files are called that."""
    picture(bench.path("p.png"))

    def classifier(name, op, count):
        net = Net()
        for k in range(3):
            net.layer(f"a{k}", 8, CLASSES, 5 + k)
        if op == "adds":
            net.add("Add", "a0 a1", "s")
            net.add("Add", "s a2", "out")
        elif op == "Sum":
            net.add("Sum", " ".join(f"a{k}" for k in range(count)), "out")
        elif op == "quantised":
            net.const("scale", [], [0.1])
            net.weights.append(onnx.tensor("zero", [], onnx.block(9, b"\0"), 2))
            net.add("QuantizeLinear", "a0 scale zero", "q")
            net.add("DequantizeLinear", "q scale zero", "out")
        elif op == "dynamic":
            net.add("DynamicQuantizeLinear", "a0", "q qs qz")
            net.add("Cast", "q", "out", to=1)
        else:
            net.add(op, "a0", "out", **({"size": 3} if op == "LRN" else {}))
        net.add("GlobalAveragePool", "out", "mean")
        net.add("Flatten", "mean", "y")
        return net.save(bench.path(name), ["y"])

    def told(name):
        ended = bench.run("predict", name, "p.png", "--json")
        equal(ended.code, 0, f"exit code of predict {name}; {ended.err!r}")
        return {one["class"]: one["score"] for one in json.loads(ended.out)["classes"]}
    adds, three, one = (told(classifier(f"{op}{count}.onnx", op, count)) for op, count in (("adds", 3), ("Sum", 3), ("Sum", 1)))
    check(all(abs(adds[c] - three[c]) < 1e-6 for c in adds), f"a sum of three is {three}, and not {adds}")
    check(one != three, "it does not matter how many are summed")
    check(told(classifier("Sum2.onnx", "Sum", 2)) not in (one, three), "a sum of two")
    for op in ("LRN", "Hardmax"):
        refused(bench, ["predict", classifier(f"{op}.onnx", op, 1), "p.png"], f"'{op}'", "is not supported")
    for op, first in (("quantised", "QuantizeLinear"), ("dynamic", "DynamicQuantizeLinear")):
        refused(bench, ["predict", classifier(f"{op}.onnx", op, 1), "p.png"], f"quantised models (operator '{first}')")


cases.add("detectors: operators that run, and that do not", operators)

# --- labels ---

def many_classes(bench):
    """Labels of more than 256 classes, in an IDX file of two or four bytes each: the accuracy of merging is counted by these."""
    count, classes = 12, 1000
    os.mkdir(bench.path("pictures"))
    for k in range(count):
        picture(bench.path(f"pictures/{k:02}.png"), seed=100 + k)
    for name, seed in (("a", 5), ("b", 9)):
        net = Net()
        net.layer("t", 8, 1, seed, gain=9.0)
        net.add("Flatten", "t", "f")
        net.const("w", [64, classes], numbers(64 * classes, seed))
        net.add("MatMul", "f w", "y")
        net.save(bench.path(f"{name}.onnx"), ["y"])
    ended = bench.run("predict", "a.onnx", "pictures", "--top", 1, "--json")
    best = [json.loads(line)["classes"][0]["class"] for line in ended.out.splitlines()]
    check(any(one > 255 for one in best), f"all labels fit into bytes: {best}")
    wanted = [one if k % 2 else (one + 256) % classes for k, one in enumerate(best)]  # every second one is right
    for kind, form in ((0x0B, "h"), (0x0C, "i")):
        with open(bench.path("labels"), "wb") as file:
            file.write(bytes([0, 0, kind, 1]) + struct.pack(f">I{count}{form}", count, *wanted))
        queries = [{"name": name, "model": f"{name}.onnx", "feed": "camera", "labels": "labels"} for name in "ab"]
        bench.config({"feeds": {"camera": {"file": "pictures"}}, "queries": queries, "merge": {"held_out": 0.5, "method": "none"}}, "w.yaml")
        ended = bench.run("merge", "w.yaml", "--out", f"package{kind}", "--json")
        equal(ended.code, 0, f"exit code of merge; {ended.err!r}")
        told = {one["query"]: one["original"] for one in json.loads(ended.out.splitlines()[-1])["queries"]}
        equal(told["a"], 0.5, f"accuracy by labels of {kind:#x}")
    with open(bench.path("labels"), "wb") as file:
        file.write(bytes([0, 0, 0x0C, 1]) + struct.pack(f">I{count}i", count, *[-1] * count))
    refused(bench, ["merge", "w.yaml", "--out", "other"], "label 0 is negative")


cases.add("classifiers: labels of more than 256 classes", many_classes)

# --- merging ---

def merged(bench):
    """Two detectors that work out their boxes are merged, judged by these, and answer from the package as its query says."""
    os.mkdir(bench.path("pictures"))
    for k in range(24):
        picture(bench.path(f"pictures/{k:02}.png"), seed=100 + k)
    yolov8(bench.path("a.onnx"))
    yolov8(bench.path("b.onnx"), seed=1)
    queries = [{"name": name, "model": f"{name}.onnx", "feed": "camera", "score": 0.5, "decode": "yolov8", "fit": "stretch"} for name in "ab"]
    path = bench.config({"feeds": {"camera": {"file": "pictures"}}, "queries": queries, "merge": {"held_out": 0.25, "steps": 20, "seed": 3}}, "w.yaml")
    ended = bench.run("merge", path, "--out", "package", "--json")
    equal(ended.code, 0, f"exit code of merge; {ended.err!r}")
    done = json.loads(ended.out.splitlines()[-1])
    equal([(one["query"], one["original"]) for one in done["queries"]], [("a", 1), ("b", 1)], "queries")
    check(done["saved"] > 0, f"nothing is shared: {done}")
    equal(bench.run("merge", "show", "package", "--check").code, 0, "merge show --check")
    check(answers(bench, "package:a", "pictures", "--score", 0.5)[0], "no boxes from the package")
    same(answers(bench, "package:a", "pictures/00.png", "--score", 0.5)[0],
         answers(bench, "package:a", "pictures", "--score", 0.5, "--frames", "0")[0], "a picture of the folder")
    bench.config({"feeds": {"camera": {"file": "pictures", "fps": 100, "ends": True}}, "queries": [{**one, "deadline_ms": 5000} for one in queries]}, "e.yaml")
    ended = bench.run("edge", "run", "e.yaml", "--package", "package", "--out", "run", "--set", "edge.memory=all", "--set", "edge.originals=never")
    equal(ended.code, 0, f"exit code of edge run; {ended.err!r}")
    with open(bench.path("run/a.jsonl"), encoding="utf-8") as file:
        told = {line["frame"]: [(b["class"], b["score"], b["x"], b["y"], b["width"], b["height"]) for b in line["boxes"]] for line in map(json.loads, file)}
    equal(told[0], answers(bench, "package:a", "pictures", "--score", 0.5, "--frames", "0")[0], "answers of edge run")
    refused(bench, ["merge", path, "--out", "other", "--set", "merge.method=gemel"], "method: culm")


cases.add("detectors: merged, and run from the package", merged, first=True)

if __name__ == "__main__":
    cases.run()
