#!/usr/bin/env python3
"""Darknet's files as people have them: headers of training and testing at once, YOLOv4's new coordinates, YOLOv2's regions, shortcuts of
unequal maps, letterboxes, files of names that do not fit."""
import math
import struct

from detectors import chosen, numbers, picture, refused, same, scaled, sigmoid
from detectors import answers as all_answers
from harness import Cases, check, equal

cases = Cases(job="edge")
SIDE, CELL, CLASSES = 64, 8, 2
ANCHORS = [(10, 14), (23, 27), (37, 58)]
FILTERS = len(ANCHORS) * (5 + CLASSES)
NET = f"[net]\nbatch=1\nsubdivisions=1\nbatch=64\nsubdivisions=16\nwidth={SIDE}\nheight={SIDE}\nchannels=3\nmax_batches=500\nmax_batches=900\n"


class Net:
    """Layers of darknet as they are written: each sees the mean of a cell, or the layer in front of it."""

    def __init__(self, net=NET):
        self.text, self.raw, self.layers, self.channels = net, struct.pack("<iiiq", 0, 2, 0, 0), [], 0

    def conv(self, filters, seed, activation="linear", gain=3.0):
        """The first is a mean over cells; the others are 1x1."""
        first, into = not self.channels, self.channels or 3
        b, w = numbers(filters, seed + 1), [gain / (1 if first else into) * x for x in numbers(filters * into, seed)]
        size = CELL if first else 1
        self.text += f"[convolutional]\nfilters={filters}\nsize={size}\nstride={size}\npad=0\nactivation={activation}\n"
        spread = [x / size ** 2 for x in w for _ in range(size ** 2)]
        self.raw += struct.pack(f"<{filters + len(spread)}f", *b, *spread)
        self.layers.append(("conv", w, b, activation))
        self.channels = filters

    def shortcut(self, back):
        self.text += f"[shortcut]\nfrom={-back}\nactivation=linear\n"
        self.layers.append(("shortcut", back))

    def save(self, path, head):
        with open(path + ".cfg", "w", encoding="ascii") as file:
            file.write(self.text + head)
        with open(path + ".weights", "wb") as file:
            file.write(self.raw)

    def value(self, pixels, i, j):
        x = [sum(pixels[i * CELL + v][j * CELL + u][c] for v in range(CELL) for u in range(CELL)) / CELL ** 2 for c in range(3)]
        made = []
        for layer in self.layers:
            if layer[0] == "conv":
                _, w, b, activation = layer
                x = [b[k] + sum(w[k * len(x) + c] * x[c] for c in range(len(x))) for k in range(len(b))]
                x = [sigmoid(v) for v in x] if activation == "logistic" else x
            else:
                other = made[len(made) - layer[1]]
                x = [v + (other[k] if k < len(other) else 0) for k, v in enumerate(x)]
            made.append(x)
        return x


def boxes(net, pixels, score, how):
    """`how`: of the numbers of an anchor, x and y in the cell, stretch of width and height, object, classes."""
    found = []
    for i in range(SIDE // CELL):
        for j in range(SIDE // CELL):
            t = net.value(pixels, i, j)
            for a, anchor in enumerate(ANCHORS):
                x, y, w, h, there, classes = how(t[a * (5 + CLASSES):(a + 1) * (5 + CLASSES)])
                w, h, x, y = w * anchor[0], h * anchor[1], (x + j) * CELL, (y + i) * CELL
                found += [(c, there * p, x - w / 2, y - h / 2, w, h) for c, p in enumerate(classes) if there * p >= score]
    return chosen(found)


def plain(t):
    return sigmoid(t[0]), sigmoid(t[1]), math.exp(t[2]), math.exp(t[3]), sigmoid(t[4]), [sigmoid(x) for x in t[5:]]


def squared(p):
    """YOLOv4's new coordinates, of what is behind sigmoids already."""
    return p[0] * 2 - 0.5, p[1] * 2 - 0.5, 4 * p[2] ** 2, 4 * p[3] ** 2, p[4], p[5:]


def softmax(t):
    e = [math.exp(x) for x in t[5:]]
    return sigmoid(t[0]), sigmoid(t[1]), math.exp(t[2]), math.exp(t[3]), sigmoid(t[4]), [x / sum(e) for x in e]


def anchors(by=1.0):
    return f"classes={CLASSES}\nanchors=" + ",".join(f"{v / by:g}" for anchor in ANCHORS for v in anchor) + f"\nnum={len(ANCHORS)}\n"


def answers(bench, *words):
    return all_answers(bench, *words, "--score", 0.3)[0]


def heads(bench):
    pixels = scaled(picture(bench.path("p.png")))
    for name, activation, head, how in (("yolo", "linear", "[yolo]\n" + anchors(), plain),
                                        ("new", "logistic", "[yolo]\n" + anchors() + "scale_x_y=2.0\nnew_coords=1\n", squared),
                                        ("region", "linear", "[region]\n" + anchors(CELL) + "softmax=1\ncoords=4\nbias_match=1\nthresh=.6\n", softmax)):
        net = Net()
        net.conv(FILTERS, 7, activation)
        net.save(bench.path(name), head)
        same(answers(bench, f"{name}.cfg", "p.png"), boxes(net, pixels, 0.3, how), name)
    # a letterbox, as the original darknet has it
    wide = scaled(picture(bench.path("wide.png"), SIDE, SIDE // 2))
    grey = [[[128 / 255] * 3] * SIDE] * (SIDE // 4)
    moved = [(c, p, x, y - SIDE // 4, w, h) for c, p, x, y, w, h in boxes(net, grey + wide + grey, 0.3, softmax)]
    same(answers(bench, "region.cfg", "wide.png", "--fit", "letterbox"), moved, "a letterbox")
    refused(bench, ["model", "show", "yolo.cfg", "--decode", "yolov8"], "leave 'decode: yolov8' out")
    with open(bench.path("twice.cfg"), "w", encoding="ascii") as file:
        file.write(NET.replace("height=64", "height=64\nwidth=32") + "[convolutional]\n")
    refused(bench, ["model", "show", "twice.cfg"], "'width' is given twice in [net]", "line 8")
    with open(bench.path("yolo9000.cfg"), "w", encoding="ascii") as file:
        file.write(net.text + "[region]\n" + anchors(CELL) + "softmax=1\ntree=9k.tree\n")
    refused(bench, ["model", "show", "yolo9000.cfg"], "'tree=9k.tree'")
    # what reads a map behind sigmoids that its head has taken over would read another one
    with open(bench.path("new.cfg"), encoding="ascii") as file:
        new = file.read()
    for name, more in (("behind", "[convolutional]\nfilters=2\nsize=1\nactivation=linear\n"), ("named", "[route]\nlayers=-1\n")):
        with open(bench.path(f"{name}.cfg"), "w", encoding="ascii") as file:
            file.write(new + more)
        refused(bench, ["model", "show", f"{name}.cfg"], "new_coords=1")


cases.add("darknet: heads of all kinds, and headers given twice", heads, first=True)


def unequal(bench):
    """A shortcut adds the channels that both maps have."""
    pixels = scaled(picture(bench.path("p.png")))
    for name, first in (("fewer", 6), ("more", 30)):
        net = Net()
        net.conv(first, 3)
        net.conv(FILTERS, 9)
        net.shortcut(2)
        net.save(bench.path(name), "[yolo]\n" + anchors())
        same(answers(bench, f"{name}.cfg", "p.png"), boxes(net, pixels, 0.3, plain), f"a shortcut of {name} channels")


cases.add("darknet: shortcuts of unequal maps", unequal, first=True)


def names(bench):
    """Lines that are empty at the end do not count; a file beside the model that does not fit is told of."""
    picture(bench.path("p.png"))
    net = Net()
    net.conv(FILTERS, 7)
    net.save(bench.path("m"), "[yolo]\n" + anchors())
    for text, fits in (("cat\ndog", True), ("cat\r\ndog\r\n\r\n \n\n", True), ("cat\n", False), ("cat\ndog\ncow\n", False)):
        with open(bench.path("m.names"), "w", encoding="ascii", newline="") as file:
            file.write(text)
        ended = bench.run("predict", "m.cfg", "p.png")
        equal(ended.code, 0, f"exit code; {ended.err!r}")
        check(("dog" in ended.out) == fits and ("class 1" in ended.out) != fits, f"names {text!r}: {ended.out!r}")
        check((f"{text.count(chr(10))} lines for a model of 2 classes" in ended.err) != fits, f"names {text!r}: said {ended.err!r}")


cases.add("darknet: files of names", names, first=True)

if __name__ == "__main__":
    cases.run()
