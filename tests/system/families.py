#!/usr/bin/env python3
"""Every family of models in pipelines that lose workers: the result is that of one undisturbed process.

Here at an eighth of the published width, or less, on small inputs. CULM_SYSTEM_FULL runs the published sizes for a few steps
each with one loss, and prints the peak memory of the workers: a quarter of an hour and 20 GB.
"""
import functools
import os
import random
import shutil

from harness import Cases, Skipped, changed, check, check_fired, check_memory, check_recovered, check_whole, fault, tiny_config
from samples import make_images, make_pairs, make_tokens

FULL = bool(os.environ.get("CULM_SYSTEM_FULL"))
cases = Cases(job="train")


# --- sections `data`, whose files are made when somebody first needs them -----------------------------------------------------


def image_data(size, classes=10):
    path = cases.once(f"families images {size} {classes}", lambda: make_images(cases.folder, size, classes=classes))
    return {"kind": "images", "path": path, "crop": "padded", "padding": 2, "flip": True, "normalize": "custom", "mean": 0.3, "std": 0.3}


def large_image_data():
    path = cases.once("families images 224", lambda: make_images(cases.folder, 224, channels=3, count=8))
    return {"kind": "images", "path": path, "normalize": "custom"}


def pair_data():
    return {"kind": "pairs", "path": cases.once("families pairs", lambda: make_pairs(cases.folder))}


def token_data(vocab):
    return {"kind": "tokens", "path": cases.once(f"families tokens {vocab}", lambda: make_tokens(cases.folder, vocab))}


def masked_token_data(vocab):
    return {**token_data(vocab), "kind": "masked", "masked_of": "tokens"}


def text_data():
    return {"kind": "text", "path": cases.text}


def masked_data():
    return {"kind": "masked", "masked_of": "text", "path": cases.text}


SGD = {"name": "sgd", "lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.0005, "clip_norm": 0.0}

# name: (model, what makes its data, optimizer, stages)
FAMILIES = {
    "gpt2": ({"arch": "gpt2", "layers": 4, "width": 96, "heads": 3, "context": 32, "vocab": 256, "dropout": 0.1}, text_data, None, 3),
    "bert": ({"arch": "bert", "layers": 3, "width": 96, "heads": 3, "context": 32, "vocab": 264, "dropout": 0.1},
             masked_data, None, 3),
    "resnet18": ({"name": "resnet18", "width": 8, "small_stem": True, "image": 28, "channels": 1, "classes": 10},
                 functools.partial(image_data, 28), SGD, 4),
    "resnet50": ({"name": "resnet50", "width": 8, "small_stem": True, "image": 28, "channels": 1, "classes": 10},
                 functools.partial(image_data, 28), SGD, 3),
    "vgg11_bn": ({"name": "vgg11_bn", "width": 8, "image": 32, "channels": 1, "classes": 10, "pool": 1, "hidden": 64},
                 functools.partial(image_data, 32), SGD, 3),
    "alexnet": ({"name": "alexnet", "width": 8, "image": 64, "channels": 1, "classes": 10, "pool": 1, "hidden": 64},
                functools.partial(image_data, 64), SGD, 2),
    "gnmt": ({"arch": "gnmt", "layers": 3, "width": 64, "context": 10, "source": 10, "vocab": 80, "dropout": 0.1,
              "label_smoothing": 0.1}, pair_data, None, 3),
}

# Files of PyTorch's exporters; every size is the file's, but where it is free.
GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "onnx")


def image_folder(bench):
    """Two classes, of the golden images' files."""
    folder, source = bench.path("images"), os.path.join(os.path.dirname(GOLDEN), "data", "images")
    images = sorted(os.path.join(root, name) for root, _, found in os.walk(source)
                    for name in found if name.endswith((".png", ".jpg")))
    check(images, "no golden images")
    for label in range(2):
        os.makedirs(os.path.join(folder, f"class-{label}"))
        for i in range(24):
            image = images[(i + 5 * label) % len(images)]
            shutil.copy(image, os.path.join(folder, f"class-{label}", f"{i:02d}{os.path.splitext(image)[1]}"))
    return folder


ONNX = sorted(name for name in os.listdir(GOLDEN) if name.endswith(".onnx"))
for name in ONNX:
    MODEL = {"file": os.path.join(GOLDEN, name)}
    if name.startswith(("resnet", "vit", "convnext", "densenet", "shufflenet", "inception")):
        FAMILIES[name] = (MODEL, functools.partial(image_data, 32, classes=5), SGD, 3)
    elif name.startswith("bert"):
        FAMILIES[name] = (MODEL, functools.partial(masked_token_data, 46), None, 3)
    else:
        context = {"context": 16} if "free" in name else {}
        FAMILIES[name] = ({**MODEL, **context}, functools.partial(token_data, 64), None, 3)
# One of each exporter dies in backward; the rest of the cases takes one of each architecture.
THOROUGH = [name for name in FAMILIES if name not in ONNX or name in ("resnet.onnx", "gpt2.onnx", "bert.onnx")]


def config_of(family):
    model, data, optimizer, stages = FAMILIES[family]
    config = tiny_config(cases.text)
    config["model"], config["data"] = model, data()
    if optimizer:
        config["optimizer"] = optimizer
    return changed(config, batch__global=16, batch__micro=2, batch__lanes=4, stages=stages, steps=5,
                   cluster__join_ms=60000, cluster__suspect_ms=60000)


def gain(config):
    """By how much training has lowered the loss of the last step's samples: against a run with learning rate 0."""
    still = changed(config, optimizer={**config["optimizer"], "lr": 0.0}, schedule={"name": "constant"})
    return cases.plain(still)[1][-1]["loss"] - cases.plain(config)[1][-1]["loss"]


def check_learns(config):
    """Every step has gradients, and training lowers the loss; five steps on images need not."""
    norms = [event["grad_norm"] for event in cases.plain(config)[1]]
    check(min(norms) > 1e-3, f"gradient norms {norms}")
    check(gain(config) > 0 or config["data"]["kind"] == "images", f"training has lowered the loss by {gain(config)}")


def loses_worker(bench, family, phase, worker, changes):
    """One worker dies in step 3 and is replaced; bit for bit the undisturbed process of one stage, which learns."""
    config = changed(config_of(family), **changes)
    check_learns(config)
    run = bench.train(config, "run", *fault(worker, 3, phase))
    check_whole(run, cases.reference(config))
    check_fired(run, [(worker, 3, phase)])
    check_recovered(run)


for name, (_, _, _, stages) in FAMILIES.items():
    cases.add(f"{name}: a worker dies in backward", loses_worker, name, "backward", 1, {},
              first=name in ("gpt2", "bert", "resnet18", "vgg11_bn", "alexnet", "gnmt", "resnet.onnx"))
    if name in THOROUGH:
        cases.add(f"{name}: a worker dies while it steps, lazy", loses_worker, name, "step", stages, {"redundancy": "lazy"})
for name in ("resnet18", "gpt2"):
    cases.add(f"{name}: recompute changes no bit", loses_worker, name, "forward", 0, {"recompute": "block"})


def recompute_is_equal(bench, family):
    config = changed(config_of(family), pipelines=1, stages=2, redundancy="none")
    kept = bench.train(config, "kept")
    again = bench.train(changed(config, recompute="block"), "again")
    check(kept.hashes() == again.hashes(), "recomputation gives other bits")
    memory = [sum(stage["memory_bytes"] for stage in run.one("plan")["stages"]) for run in (kept, again)]
    check(memory[1] < memory[0], f"planned memory {memory[0]} -> {memory[1]}")


for name in THOROUGH:
    cases.add(f"{name}: recomputed and kept activations are the same", recompute_is_equal, name, first=name == "gpt2")


def bf16(bench, family):
    """bf16 loses workers as well as f32; its losses and gradients stay near."""
    exact = config_of(family)
    config = changed(exact, precision="bf16")
    run = bench.train(config, "run", *fault(1, 3, "backward"))
    check_whole(run, cases.reference(config))
    check_learns(config)
    for a, b in zip(cases.plain(exact)[1], cases.plain(config)[1]):
        for what, most in (("loss", 0.03), ("grad_norm", 0.2)):
            off = abs(a[what] / b[what] - 1)
            check(off < most, f"step {a['step']}: {what} {a[what]} in f32, {b[what]} in bf16")


for name in ("gpt2", "bert", "resnet18", "vgg11_bn", "gnmt", "gpt2.onnx"):
    cases.add(f"{name}: bf16 loses a worker", bf16, name, first=name == "gpt2")


# --- the published depths at an eighth of the width -------------------------------------------------------------------------

IMAGES = functools.partial(image_data, 32)
SMALL = {"image": 32, "channels": 1, "classes": 10}
# name: (the rest of the model, data, stages, redundancy)
EIGHTHS = {
    "gpt2": ({"width": 96, "context": 32, "vocab": 256}, text_data, 3, "eager"),
    "gpt2-medium": ({"width": 128, "context": 32, "vocab": 256}, text_data, 3, "lazy"),
    "bert-large": ({"width": 128, "context": 32, "vocab": 264}, masked_data, 3, "lazy"),
    "resnet152": ({"width": 8, **SMALL}, IMAGES, 4, "eager"),
    "vgg19": ({"width": 8, "hidden": 512, "pool": 1, **SMALL}, IMAGES, 3, "eager"),
    "alexnet": ({"width": 8, "hidden": 512, "pool": 1, **SMALL, "image": 64}, functools.partial(image_data, 64), 2, "eager"),
    "gnmt-16": ({"width": 128, "context": 10, "source": 10, "vocab": 80}, pair_data, 4, "lazy"),
}


def eighth(bench, name):
    model, data, stages, redundancy = EIGHTHS[name]
    config = tiny_config(cases.text)
    config["model"], config["data"] = {"name": name, **model}, data()
    if config["data"]["kind"] == "images":
        config["optimizer"] = SGD
    config = changed(config, batch__global=8, batch__micro=2, batch__lanes=2, pipelines=2, stages=stages, steps=4,
                     redundancy=redundancy, cluster__join_ms=60000, cluster__suspect_ms=60000, cluster__max_nodes=2 * stages + 1)
    plain = bench.train(changed(config, pipelines=1, stages=1, redundancy="none"), "plain")
    run = bench.train(config, "run", *fault(1, 2, "backward"))
    check_whole(run, plain.hashes())
    check_fired(run, [(1, 2, "backward")])
    check_recovered(run)
    shares = [check_memory(plain), check_memory(bench.train(config, "undisturbed"))]
    bench.note(f"{name}: fullest worker {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the planned memory")


for name in EIGHTHS:
    cases.add(f"{name} at an eighth of its width loses a worker", eighth, name, seconds=8 if name in ("gpt2-medium", "bert-large") else 3)


# --- the published sizes, on demand -----------------------------------------------------------------------------------------

# name: (model, data, batch of a micro-batch, stages, redundancy)
PUBLISHED = {
    "gpt2": ({"name": "gpt2", "context": 128}, text_data, 1, 3, "eager"),
    "gpt2-medium": ({"name": "gpt2-medium", "context": 64}, text_data, 1, 3, "lazy"),
    "bert-large": ({"name": "bert-large", "context": 64}, masked_data, 1, 3, "lazy"),
    "resnet152": ({"name": "resnet152", "image": 224}, large_image_data, 1, 4, "eager"),
    "vgg19": ({"name": "vgg19", "image": 224}, large_image_data, 1, 3, "eager"),
    "alexnet": ({"name": "alexnet", "image": 224}, large_image_data, 2, 2, "eager"),
    "gnmt-16": ({"name": "gnmt-16", "context": 16, "source": 16}, pair_data, 2, 4, "lazy"),
}


def published(bench, name):
    if not FULL:
        raise Skipped("set CULM_SYSTEM_FULL to train the published sizes")
    model, data, micro, stages, redundancy = PUBLISHED[name]
    config = tiny_config(cases.text)
    config["model"] = model
    config["data"] = data()
    config["optimizer"] = SGD if data is large_image_data else {"name": "adamw", "lr": 0.0001}
    config["schedule"] = {"name": "constant"}
    config = changed(config, batch__global=4 * micro, batch__micro=micro, batch__lanes=2, pipelines=1, stages=stages, steps=3,
                     redundancy=redundancy, recompute="auto", checkpoint__every=0, cluster__max_nodes=stages + 1,
                     cluster__stuck_ms=600000, cluster__join_ms=600000, cluster__suspect_ms=60000)
    plain = bench.train(config, "plain", limit_s=3000)
    run = bench.train(config, "run", *fault(1, 2, "backward"), limit_s=3000)
    check_whole(run, plain.hashes())
    peaks = []
    for log in sorted(os.listdir(os.path.join(run.dir, "logs"))):
        with open(os.path.join(run.dir, "logs", log), encoding="utf-8", errors="replace") as file:
            peaks += [line.strip() for line in file if "process" in line][-1:]
    bench.note(f"{name}: {stages} stages, {redundancy}: " + "; ".join(peaks))


for name in PUBLISHED:
    cases.add(f"published {name} loses a worker", published, name, kind="alone" if FULL else "waits", seconds=600 if FULL else 0)

if __name__ == "__main__":
    cases.run()
