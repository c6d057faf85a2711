"""From the maps of a YOLO network, as an exported graph gives them, to boxes: what a user of another runtime adds to it.

No slower than it need be: objects are looked at first, and the rest only of cells that may reach the score.
"""
import math

import numpy

OVERLAP = 0.45  # boxes of a class that overlap a better one by more are dropped


def sections(path):
    """The sections of a darknet file, [(name, {key: value})]."""
    found = []
    for line in open(path, encoding="utf-8", errors="replace"):
        line = line.split("#")[0].strip()
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif "=" in line:
            key, value = line.split("=", 1)
            found[-1][1][key.strip()] = value.strip()
    return found


class Heads:
    """The [yolo] sections of a darknet file. `read` takes the maps that enter them, [1, A (5 + classes), h, w] each, in their order."""

    def __init__(self, path, score):
        net, self.heads = None, []
        for name, keys in sections(path):
            if name == "net":
                net = keys
            elif name == "yolo":
                anchors = numpy.array([float(a) for a in keys["anchors"].split(",")], dtype=numpy.float32).reshape(-1, 2)
                mask = [int(m) for m in keys["mask"].split(",")]
                self.heads.append((anchors[mask], int(keys["classes"]), float(keys.get("scale_x_y", 1))))
        self.width, self.height = int(net["width"]), int(net["height"])
        self.score, self.least = score, math.log(score / (1 - score))

    def read(self, maps):
        """[(class, score, x, y, width, height)] in pixels of the input."""
        import cv2
        found = []
        for (anchors, classes, scale), values in zip(self.heads, maps):
            _, _, h, w = values.shape
            values = values.reshape(len(anchors), 5 + classes, h, w)
            a, i, j = numpy.nonzero(values[:, 4] >= self.least)
            if len(a) == 0:
                continue
            t = values[a, :, i, j]
            t[:, :2] = 1 / (1 + numpy.exp(-t[:, :2]))
            t[:, 4:] = 1 / (1 + numpy.exp(-t[:, 4:]))
            scores = t[:, 4:5] * t[:, 5:]
            cell, label = numpy.nonzero(scores >= self.score)
            if len(cell) == 0:
                continue
            t = t[cell]
            width = numpy.exp(t[:, 2]) * anchors[a[cell], 0]
            height = numpy.exp(t[:, 3]) * anchors[a[cell], 1]
            x = (t[:, 0] * scale - (scale - 1) / 2 + j[cell]) / w * self.width - width / 2
            y = (t[:, 1] * scale - (scale - 1) / 2 + i[cell]) / h * self.height - height / 2
            found.append((label, scores[cell, label], numpy.stack([x, y, width, height], 1)))
        if not found:
            return []
        label, score, box = (numpy.concatenate(part) for part in zip(*found))
        kept = cv2.dnn.NMSBoxesBatched(box, score, label.astype(numpy.int32), self.score, OVERLAP)
        return [(int(label[k]), float(score[k]), *map(float, box[k])) for k in kept]
