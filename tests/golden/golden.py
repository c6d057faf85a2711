"""What the make_<family>.py scripts share: random weights, the two training runs, and the file.

A file holds, all as F32 so that one reader serves:

    weight.NAME      what the model starts from, in PyTorch's names and layouts; statistics too
    field.NAME       [10, ...] the samples of ten steps; images are made by a formula instead (see images)
    logits           of the first step's samples, as in evaluation: no dropout, running statistics
    grad.NAME        of the first step, as in training
    losses.sgd       ten losses: SGD with momentum 0.9, decay 0.01 on matrices and filters, lr[0], a tenth after 5
    losses.adamw     ten losses: AdamW (0.9, 0.95), eps 1e-8, decay 0.1 on the same, norm clipped to 1, lr[1] warmed up
                     over 3 steps and then falling by a cosine to a tenth
    norms.adamw      gradient norms before clipping
    final.NAME       running statistics after the run with SGD
    lr               [2]
    bf16.sgd         ten losses of the run with SGD by PyTorch's automatic mixed precision with bf16
    bf16.adamw       likewise with AdamW
    bf16.gradient    [1] how far the first step's gradient is off by it, as a part of the gradient's norm

PyTorch computes in float64, but for bf16.*, so that what differs is our rounding alone. What bf16 may cost is what it
costs PyTorch: models of a few channels whose batch norm sees a few pixels are far off by it after a step.
"""
import json
import math
import struct
import sys

import numpy
import torch

STEPS, WARMUP = 10, 3


def images(step, batch, size, channels=3):
    """NHWC images that C makes too: element i is the high byte of i * 2654435761 mod 2^32, as a number in [-1, 1)."""
    count = batch * size * size * channels
    i = numpy.arange(step * count, (step + 1) * count, dtype=numpy.uint64)
    high = (i * 2654435761 % 2**32) >> 24
    x = high.astype(numpy.float64) / 128 - 1
    return torch.from_numpy(x.reshape(batch, size, size, channels))


def randomize(model, seed, matrix=None):
    """Weights whose gradients are all far from zero. matrix: deviation for a tensor; None: by its inputs."""
    torch.manual_seed(seed)
    model.double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, matrix or math.sqrt(2 / (p.numel() // p.shape[0])))
            elif name.endswith("weight") or name.endswith("scalar"):
                p.normal_(1, 0.1)
            else:
                p.normal_(0, 0.1)
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.normal_(0, 0.1)
            elif name.endswith("running_var"):
                b.uniform_(0.5, 1.5)


def statistics(model):
    return {n: b for n, b in model.named_buffers() if n.endswith(("running_mean", "running_var"))}


def rate(step, lr):
    if step <= WARMUP:
        return lr * step / WARMUP
    return lr / 10 + (lr - lr / 10) / 2 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def groups(model, decay):
    p = list(model.parameters())
    return [{"params": [x for x in p if x.dim() > 1], "weight_decay": decay},
            {"params": [x for x in p if x.dim() == 1], "weight_decay": 0.0}]


def train(model, loss_of, optimizer, step_rate, clip):
    losses, norms, first = [], [], None
    bf16 = next(model.parameters()).dtype == torch.float32
    for step in range(1, STEPS + 1):
        model.train()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = loss_of(model, step - 1)
        loss.backward()
        if first is None:
            first = {n: p.grad.clone() for n, p in model.named_parameters()}
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        for group in optimizer.param_groups:
            group["lr"] = step_rate(step)
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, first


def train_sgd(model, loss_of, lr):
    optimizer = torch.optim.SGD(groups(model, 0.01), lr=lr, momentum=0.9)
    losses, _, first = train(model, loss_of, optimizer, lambda step: lr * (0.1 if step > 5 else 1), None)
    return losses, first


def train_adamw(model, loss_of, lr):
    optimizer = torch.optim.AdamW(groups(model, 0.1), lr=lr, betas=(0.9, 0.95), eps=1e-8)
    losses, norms, _ = train(model, loss_of, optimizer, lambda step: rate(step, lr), 1.0)
    return losses, norms


def save(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make(model, fields, loss_of, logits_of, lr):
    """fields: {name: [STEPS, ...]}; loss_of(model, step) and logits_of(model, step) read them."""
    torch.set_num_threads(1)
    start = {n: x.clone() for n, x in model.state_dict().items()}
    out = {"lr": torch.tensor(lr)}
    for name, p in list(model.named_parameters()) + list(statistics(model).items()):
        out["weight." + name] = p.detach().clone()
    for name, field in fields.items():
        out["field." + name] = field
    model.eval()
    with torch.no_grad():
        out["logits"] = logits_of(model, 0)
    losses, first = train_sgd(model, loss_of, lr[0])
    out["losses.sgd"] = torch.tensor(losses)
    for name, grad in first.items():
        out["grad." + name] = grad
    for name, b in statistics(model).items():
        out["final." + name] = b.clone()
    print("sgd  ", " ".join(f"{x:.4f}" for x in losses))
    model.load_state_dict(start)
    losses, norms = train_adamw(model, loss_of, lr[1])
    out["losses.adamw"], out["norms.adamw"] = torch.tensor(losses), torch.tensor(norms)
    print("adamw", " ".join(f"{x:.4f}" for x in losses))
    print("norms", " ".join(f"{x:.4f}" for x in norms))
    model.float()
    model.load_state_dict(start)
    losses, rounded = train_sgd(model, loss_of, lr[0])
    out["bf16.sgd"] = torch.tensor(losses)
    off = sum((rounded[n] - first[n]).square().sum() for n in first) / sum(first[n].square().sum() for n in first)
    out["bf16.gradient"] = off.sqrt().reshape(1)
    model.load_state_dict(start)
    out["bf16.adamw"] = torch.tensor(train_adamw(model, loss_of, lr[1])[0])
    print(f"bf16: gradient off by {off.sqrt().item():.3f}; losses by", *(
        f"{(out['bf16.' + o] - out['losses.' + o]).abs().mean().item():.4f}" for o in ("sgd", "adamw")))
    save(sys.argv[1], out)


def classify(model, size, batch, classes, lr):
    """For models of images: [N, C, H, W] -> logits."""
    labels = torch.randint(classes, (STEPS, batch, 1))

    def logits_of(m, step):
        image = images(step, batch, size).permute(0, 3, 1, 2).contiguous()
        return m(image.to(next(m.parameters()).dtype))

    loss_of = lambda m, step: torch.nn.functional.cross_entropy(logits_of(m, step), labels[step].reshape(-1))
    make(model, {"label": labels}, loss_of, logits_of, lr)
