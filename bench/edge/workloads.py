#!/usr/bin/env python3
"""Writes workloads for `culm merge` and `culm edge` of published detectors and classifiers.

    python3 workloads.py ../shared/data/edge FOLDER [NAME...]

NAME: body, nano, fastest, xl, cifar, face, mobile, corridor, detectors, everything; none: all of them. They are those
of golden/structure.json, which says what each could save, and consist of the models that it names. FOLDER/NAME.yaml
is the workload. What is measured with one says `merge.*` by `--set`.

Detectors see clips/one-by-one-person-detection.mp4 (1,394 frames, of which the last 418 are held out), ResNets the
4,000 images of cifar10-clean with their labels, face networks the part of head-pose-face-detection-female.gif with
the face in it (23 frames). Of a detector's or a face network's frames what the original answers is right.
"""
import argparse
import json
import os
import sys

CLIP = "clips/one-by-one-person-detection.mp4"
FACE = "clips/head-pose-face-detection-female.gif"
FACE_INPUT = [122.782 / 255, 117.001 / 255, 104.298 / 255, 1, 1, 1]
IMAGES = "images/cifar10-clean-images-idx4-ubyte.gz"
LABELS = "images/cifar10-clean-labels-idx1-ubyte.gz"
FEEDS = {
    "hall": "file: {edge}/" + CLIP + ", loop: true",
    "face": "file: {edge}/" + FACE + ", loop: true, crop: [186, 66, 84, 84]",
    "images": "file: {edge}/" + IMAGES + ", fps: 30, loop: true",
}
RESNET = """\
model: {{arch: resnet, blocks: [{blocks}, {blocks}, {blocks}], small_stem: true, width: 16, image: 32, classes: 10, shortcut: pad,
        init: {edge}/classifiers/{name}.safetensors}}
data: {{kind: images, path: none, normalize: imagenet}}
steps: 1
"""


def written(path, text):
    """Writes a file whole or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".part", path)


def query(edge, folder, model):
    """A query for a model of structure.json, and the feed that it reads."""
    if model.startswith("cifar10-resnet"):
        config = os.path.join(folder, f"{model}.yaml")
        written(config, RESNET.format(blocks=(int(model[len("cifar10-resnet"):]) - 2) // 6, edge=edge, name=model))
        return f"{{name: {model}, model: {config}, feed: images, labels: {edge}/{LABELS}, target: 0.95}}", "images"
    if model.startswith("face-"):
        return f"{{name: {model}, model: {edge}/classifiers/{model}.onnx, feed: face, normalize: {FACE_INPUT}, target: 0.95}}", "face"
    return f"{{name: {model.replace('.', '_')}, model: {edge}/detectors/{model}.cfg, feed: hall, target: 0.95}}", "hall"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("edge", help="folder with detectors, classifiers, clips, images and golden")
    parser.add_argument("folder")
    parser.add_argument("name", nargs="*")
    args = parser.parse_args()
    edge, folder = os.path.abspath(args.edge), os.path.abspath(args.folder)
    with open(os.path.join(edge, "golden/structure.json"), encoding="utf-8") as file:
        workloads = json.load(file)["workloads"]
    unknown = [name for name in args.name if name not in workloads]
    if unknown:
        sys.exit(f"no workload '{unknown[0]}'; there are: {', '.join(workloads)}")
    os.makedirs(folder, exist_ok=True)
    for name in args.name or workloads:
        made = [query(edge, folder, model) for model in workloads[name]["models"]]
        feeds = "".join(f"  {feed}: {{{how.format(edge=edge)}}}\n" for feed, how in FEEDS.items() if feed in [used for _, used in made])
        queries = "".join(f"  - {text}\n" for text, _ in made)
        written(os.path.join(folder, f"{name}.yaml"),
                f"feeds:\n{feeds}queries:\n{queries}merge: {{method: culm, held_out: 0.3, seed: 1}}\n")
        print(os.path.join(folder, f"{name}.yaml"))


main()
