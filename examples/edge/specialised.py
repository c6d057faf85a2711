#!/usr/bin/env python3
"""Six networks for six questions about the same pictures, and the workload that merges them.

usage: specialised.py FOLDER [--only TASK,TASK..] [--culm PROGRAM] [--steps N] [--data FOLDER]

Trains six small ResNets on Fashion-MNIST (Debian's package dataset-fashion-mnist), each from a seed of its own and with nothing frozen,
one after the other: what kind of garment it is, where it is worn, which shoe, which top, for which season, how it is put away. They have
all layers but the last in common, so up to 83 % of their bytes could be shared. Then `culm merge FOLDER/specialised.yaml` merges them.
What is there already is kept: the same command goes on where it was stopped. A network that was trained with other settings is refused.
"""
import argparse
import gzip
import os
import shutil
import signal
import struct
import subprocess
import sys

# T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, boot: the answer to each question.
TASKS = {
    "garment": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "worn": [0, 1, 0, 2, 0, 3, 0, 3, 4, 3],  # above, legs, all of it, feet, by hand
    "shoe": [0, 0, 0, 0, 0, 1, 0, 2, 0, 3],  # none, sandal, sneaker, boot
    "top": [1, 0, 2, 0, 3, 0, 4, 0, 0, 0],  # none, T-shirt, pullover, coat, shirt
    "season": [0, 1, 2, 0, 2, 0, 1, 1, 1, 2],  # summer, any, winter
    "kept": [0, 1, 0, 1, 2, 3, 1, 3, 4, 3],  # folded, ironed, hung, in the rack, on the hook
}
STOPPED = 75  # the exit code of a training that a signal has stopped
CONFIG = """\
model: {{arch: resnet, blocks: [1, 1, 1], width: 16, small_stem: true, image: 28, channels: 1, classes: {classes}}}
data:
  kind: images
  path: [{images}, {labels}]
  crop: padded
  padding: 2
  normalize: custom
  mean: 0.286
  std: 0.353
batch: {{global: 128, micro: 32, lanes: 4}}
pipelines: 1
stages: 1
redundancy: none
threads: 1
seed: {seed}
steps: {steps}
optimizer: {{name: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 5.0e-4, clip_norm: 0}}
schedule: {{name: cosine, warmup: 50, min_lr: 0.0}}
checkpoint: {{every: {steps}, keep: 1}}
"""


def written(path, data):
    """Writes a file whole or not at all."""
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def holds(path, data):
    """Whether that is what a file has."""
    try:
        with open(path, "rb") as file:
            return file.read() == data
    except FileNotFoundError:
        return False


def relabel(source, target, answers):
    """IDX labels of another question."""
    with gzip.open(source) as file:
        head, labels = file.read(8), file.read()
    magic, count = struct.unpack(">II", head)
    if magic != 0x801 or count != len(labels):
        sys.exit(f"{source}: these are no labels in IDX form")
    written(target, head + bytes(answers[label] for label in labels))


def main():
    signal.signal(signal.SIGINT, lambda *_: None)  # Control-C is for the training, which saves what it has
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--only", metavar="TASK,TASK..", default=",".join(TASKS), help="which of the six (default: %(default)s)")
    parser.add_argument("--culm", default="culm")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if not set(wanted) <= set(TASKS):
        parser.error(f"--only {args.only}: there are {', '.join(TASKS)}")
    if not shutil.which(args.culm):
        parser.error(f"there is no program '{args.culm}'; add its folder to PATH, or name it with --culm")
    if not os.path.isdir(args.data):
        parser.error(f"there is no folder '{args.data}'; install the package dataset-fashion-mnist, or name another folder with --data")
    os.makedirs(args.folder, exist_ok=True)
    place = lambda name: os.path.join(os.path.abspath(args.folder), name)
    queries = []
    for seed, (task, answers) in enumerate(TASKS.items(), 1):
        if task not in wanted:
            continue
        for part in "train", "t10k":
            relabel(os.path.join(args.data, f"{part}-labels-idx1-ubyte.gz"), place(f"{task}-{part}-labels"), answers)
        images = os.path.join(args.data, "train-images-idx3-ubyte.gz")
        config = CONFIG.format(classes=max(answers) + 1, images=images, labels=place(f"{task}-train-labels"), seed=seed, steps=args.steps)
        run = place(f"{task}-run")
        if os.path.exists(run) and not holds(place(f"{task}.yaml"), config.encode()):
            sys.exit(f"{sys.argv[0]}: '{run}' was trained with other settings than these, those of '{place(task + '.yaml')}'; "
                     "remove it, or give another FOLDER")
        written(place(f"{task}.yaml"), config.encode())
        if not (os.path.exists(run) and os.path.exists(run + ".done")):
            resume = ["--resume"] if os.path.exists(run) else []
            code = subprocess.run([args.culm, "train", place(f"{task}.yaml"), "--out", run, *resume], check=False).returncode
            if code == STOPPED:
                print(f"{sys.argv[0]}: stopped; the same command goes on", file=sys.stderr)
            if code:  # it has said why
                sys.exit(code)
            written(run + ".done", b"")
        queries.append(f"  - {{name: {task}, model: {run}, feed: pictures, "
                       f"labels: {place(task + '-t10k-labels')}, target: 0.95, deadline_ms: 100}}\n")
    feed = os.path.join(args.data, "t10k-images-idx3-ubyte.gz")
    written(place("specialised.yaml"), (f"feeds:\n  pictures: {{file: {feed}, fps: 30, loop: true}}\nqueries:\n{''.join(queries)}"
                                        "merge: {method: culm, held_out: 0.3, seed: 1}\n").encode())
    print(f"culm merge {place('specialised.yaml')}")


main()
