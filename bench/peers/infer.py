#!/usr/bin/env python3
"""Seconds that a model of pictures takes for a frame, in turns with ONNX Runtime and OpenCV's DNN.

    python infer.py --culm build/src/cli/culm --threads 1,2 --feed CLIP MODEL...
    python infer.py --culm build/src/cli/culm --json detectors/*.cfg

MODEL is FILE.cfg (darknet) or a configuration that `culm model export` writes. All three run what that writes: the
same ONNX file, which both peers optimise as they like (they fold batch norm into the weights). Rounds: a block of
frames of each, in turns and in one process for the peers (`culm bench infer` is a new process each time, with three
frames that do not count), so that a machine that is slow for a while is slow for all. Printed are medians and least
times of a frame, and the ratio of the faster peer to Culm: the median over the rounds. Above 1 Culm is faster.

Two ratios: `maps`, all outputs of the network; and `boxes`, where Culm computes no more of the outputs than the boxes of
a frame need, and reads these boxes, while peers have computed all outputs and not read them. How much of the
outputs boxes need depends on what is in the frame, so --feed should name a clip; peers do not care.

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


def culm_times(culm, model, threads, frames, feed):
    seen = ["--feed", feed] if feed else []
    said = subprocess.run([culm, "bench", "infer", model, "--threads", str(threads), "--iters", str(frames), "--json", *seen],
                          capture_output=True, text=True, check=True).stdout
    said = json.loads(said)
    return said["frame_s"], said["answer_s"], said["answers"]


class Onnxruntime:
    name = "onnxruntime"

    def __init__(self, path, threads, image):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.feed = {self.session.get_inputs()[0].name: image}
        self.version = onnxruntime.__version__

    def run(self):
        return self.session.run(None, self.feed)


class Opencv:
    name = "opencv"

    def __init__(self, path, threads, image):
        import cv2
        cv2.setNumThreads(threads)
        self.net = cv2.dnn.readNetFromONNX(path)
        self.outputs = self.net.getUnconnectedOutLayersNames()
        self.image = image
        self.version = cv2.__version__

    def run(self):
        self.net.setInput(self.image)
        return self.net.forward(self.outputs)


def block(peer, frames):
    took = []
    for _ in range(frames):
        start = time.perf_counter()
        peer.run()
        took.append(time.perf_counter() - start)
    return {"median": statistics.median(took), "min": min(took)}


def compare(culm, model, threads, rounds, frames, feed):
    import numpy
    import onnxruntime
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        subprocess.run([culm, "model", "export", model, "--onnx", path], check=True, capture_output=True)
        shape = [d if isinstance(d, int) else 1 for d in onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()[0].shape]
        image = numpy.random.default_rng(1).random(shape, dtype=numpy.float32)
        peers, failed = [], {}
        for kind in (Onnxruntime, Opencv):
            try:
                peer = kind(path, threads, image)
                block(peer, 3)
                peers.append(peer)
            except Exception as error:  # a peer that cannot run the model is left out, and named
                failed[kind.name] = str(error).strip().split("\n")[0]
        times = {"culm": [], "culm_boxes": [], **{p.name: [] for p in peers}}
        for _ in range(rounds):
            whole, answered, boxes = culm_times(culm, model, threads, frames, feed)
            times["culm"].append(whole)
            times["culm_boxes"].append(answered)
            for peer in peers:
                times[peer.name].append(block(peer, frames))
    best = min(peers, key=lambda p: statistics.median(t["median"] for t in times[p.name])).name

    def ratio(name):
        return statistics.median(p["median"] / c["median"] for p, c in zip(times[best], times[name]))

    return {"model": os.path.basename(model), "threads": threads, "best_peer": best, "ratio": ratio("culm"),
            "ratio_boxes": ratio("culm_boxes"), "boxes": boxes,
            **{name: {"median": statistics.median(t["median"] for t in all_), "min": min(t["min"] for t in all_)} for name, all_ in times.items()},
            "versions": {p.name: p.version for p in peers}, "failed": failed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=20, help="of a block")
    parser.add_argument("--feed", help="a picture, folder or clip that Culm looks at (default: noise)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    for model in args.models:
        for threads in map(int, args.threads.split(",")):
            r = compare(args.culm, model, threads, args.rounds, args.frames, args.feed)
            if args.json:
                print(json.dumps(r), flush=True)
            else:
                rest = ", ".join(f"{n} {1e3 * r[n]['median']:.2f} ms (min {1e3 * r[n]['min']:.2f})" for n in ("culm", "culm_boxes", "onnxruntime", "opencv") if n in r)
                print(f"{r['model']}, {threads} threads: {rest}; {r['best_peer']} / culm {r['ratio']:.2f} maps, {r['ratio_boxes']:.2f} boxes ({r['boxes']:.1f} a frame)", *r["failed"].items(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
