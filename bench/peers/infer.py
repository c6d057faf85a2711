#!/usr/bin/env python3
"""Seconds that a model of pictures takes for a frame, in turns with ONNX Runtime and OpenCV's DNN.

    python infer.py --culm build/src/cli/culm --threads 1,2 --feed CLIP MODEL...
    python infer.py --culm build/src/cli/culm --json detectors/*.cfg

MODEL is FILE.cfg (darknet) or a configuration that `culm model export` writes. All three run what that writes: the
same ONNX file, which both peers optimise as they like (they fold batch norm into the weights). Rounds: a block of
frames of each, in turns and in one process for the peers (`culm bench infer` is a new process each time, with three
frames that do not count), so that a machine that is slow for a while is slow for all. Printed are medians and least
times of a frame, and the ratio of the faster peer to Culm: the median over the rounds. Above 1 Culm is faster.

Two ratios: `maps`, all outputs of the network for one picture; and, of a detector and with --feed, `boxes`: from one
frame of the clip after another to its boxes, which yolo.py reads from peers' maps. Culm computes no more of the outputs
than these boxes need. Printed is also how many boxes a frame has, by Culm and by the peer: they have to be the same,
but for boxes at the threshold (each scales the picture on its own).

Needs numpy, onnxruntime and opencv-python-headless. Stop other work on the machine while it runs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import yolo

SCORE = 0.25  # of the worst box
WARM_UP = 3  # frames, as in `culm bench infer`


def culm_times(culm, model, threads, frames, feed):
    seen = ["--feed", feed] if feed else []
    said = subprocess.run([culm, "bench", "infer", model, "--threads", str(threads), "--iters", str(frames), "--score", str(SCORE),
                           "--json", *seen], capture_output=True, text=True, check=True).stdout
    said = json.loads(said)
    return said["frame_s"], said["answer_s"], said["answers"]


class Onnxruntime:
    name = "onnxruntime"

    def __init__(self, path, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        self.version = onnxruntime.__version__

    def run(self, image):
        return self.session.run(None, {self.input: image})


class Opencv:
    name = "opencv"

    def __init__(self, path, threads):
        import cv2
        cv2.setNumThreads(threads)
        self.net = cv2.dnn.readNetFromONNX(path)
        self.outputs = self.net.getUnconnectedOutLayersNames()
        self.version = cv2.__version__

    def run(self, image):
        self.net.setInput(image)
        return self.net.forward(self.outputs)


def pictures(feed, shape, count):
    """The first frames of a clip as the network's input."""
    import cv2
    import numpy
    clip, images = cv2.VideoCapture(feed), []
    while len(images) < count:
        more, frame = clip.read()
        if not more:
            break
        frame = cv2.resize(frame, (shape[3], shape[2]), interpolation=cv2.INTER_LINEAR)[:, :, ::-1]
        images.append(numpy.ascontiguousarray(frame.transpose(2, 0, 1)[None], dtype=numpy.float32) / 255)
    return images


def block(peer, images, frames, heads):
    """Seconds of a frame, and boxes of one on average. Without heads the outputs are all that is asked for."""
    took, boxes = [], 0
    for k in range(-WARM_UP, frames):
        image = images[(k + WARM_UP) % len(images)]
        start = time.perf_counter()
        maps = peer.run(image)
        read = heads.read(maps) if heads else []
        if k >= 0:
            took.append(time.perf_counter() - start)
            boxes += len(read)
    return {"median": statistics.median(took), "min": min(took)}, boxes / frames


def compare(culm, model, threads, rounds, frames, feed):
    import numpy
    import onnxruntime
    heads = yolo.Heads(model, SCORE) if feed and model.endswith(".cfg") else None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        subprocess.run([culm, "model", "export", model, "--onnx", path], check=True, capture_output=True)
        shape = [d if isinstance(d, int) else 1 for d in onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()[0].shape]
        noise = [numpy.random.default_rng(1).random(shape, dtype=numpy.float32)]
        images = pictures(feed, shape, frames + WARM_UP) if heads else noise
        peers, failed = [], {}
        for kind in (Onnxruntime, Opencv):
            try:
                peer = kind(path, threads)
                block(peer, images, 1, heads)
                peers.append(peer)
            except Exception as error:  # a peer that cannot run the model is left out, and named
                failed[kind.name] = str(error).strip().split("\n")[0]
        times = {"culm": [], "culm_boxes": [], **{p.name: [] for p in peers}, **{p.name + "_boxes": [] for p in peers if heads}}
        boxes = {}
        for _ in range(rounds):
            whole, answered, boxes["culm"] = culm_times(culm, model, threads, frames, feed)
            times["culm"].append(whole)
            times["culm_boxes"].append(answered)
            for peer in peers:
                times[peer.name].append(block(peer, images, frames, None)[0])
                if heads:
                    took, boxes[peer.name] = block(peer, images, frames, heads)
                    times[peer.name + "_boxes"].append(took)

    def median(name):
        return statistics.median(t["median"] for t in times[name])

    def fastest(what):
        return min((p.name for p in peers), key=lambda name: median(name + what))

    def ratio(what):
        return statistics.median(p["median"] / c["median"] for p, c in zip(times[fastest(what) + what], times["culm" + what]))

    return {"model": os.path.basename(model), "threads": threads, "best_peer": fastest(""), "ratio": ratio(""),
            **({"best_peer_boxes": fastest("_boxes"), "ratio_boxes": ratio("_boxes"), "boxes": boxes} if heads else {}),
            **{name: {"median": median(name), "min": min(t["min"] for t in all_)} for name, all_ in times.items() if all_},
            "versions": {p.name: p.version for p in peers}, "failed": failed}


def say(r):
    print(f"{r['model']}, {r['threads']} threads")
    for what in ("", "_boxes"):
        names = [n for n in ("culm", "onnxruntime", "opencv") if n + what in r]
        if what and "ratio_boxes" not in r:
            break
        took = ", ".join(f"{n} {1e3 * r[n + what]['median']:.2f} ms (min {1e3 * r[n + what]['min']:.2f})" for n in names)
        best = r["best_peer" + what]
        least = r[best + what]["min"] / r["culm" + what]["min"]
        found = "".join(f", {n} {k:.1f} a frame" for n, k in r["boxes"].items()) if what else ""
        print(f"  {'boxes' if what else 'maps'}: {took}; {best} / culm {r['ratio' + what]:.2f} (shortest times {least:.2f}){found}")
    for name, why in r["failed"].items():
        print(f"  {name} cannot run it: {why}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=20, help="of a block")
    parser.add_argument("--feed", help="a clip to find boxes in (default: all outputs for noise, no boxes)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for model in args.models:
        for threads in map(int, args.threads.split(",")):
            r = compare(args.culm, model, threads, args.rounds, args.frames, args.feed)
            if args.json:
                print(json.dumps(r), flush=True)
            else:
                say(r)


if __name__ == "__main__":
    sys.exit(main())
