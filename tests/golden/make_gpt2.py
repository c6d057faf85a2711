#!/usr/bin/env python3
"""Makes gpt2.safetensors: what PyTorch says of a small GPT-2, for tests/unit/model/golden.c.

Needs torch. Writes initial weights, tokens, targets, the logits, the loss, every gradient, and ten training losses
with AdamW (decay on matrices only), clipping by global norm and a cosine schedule with warm-up. Dropout is off.

    python3 make_gpt2.py gpt2.safetensors
"""
import json
import math
import struct
import sys

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, BATCH, STEPS = 2, 32, 2, 16, 64, 2, 10
LR, MIN_LR, WARMUP, DECAY, BETAS, EPS, CLIP = 1e-3, 1e-4, 3, 0.1, (0.9, 0.95), 1e-8, 1.0


def shapes():
    c = WIDTH
    yield "wte.weight", (VOCAB, c)
    yield "wpe.weight", (CONTEXT, c)
    for i in range(LAYERS):
        h = f"h.{i}."
        yield h + "ln_1.weight", (c,)
        yield h + "ln_1.bias", (c,)
        yield h + "attn.c_attn.weight", (c, 3 * c)
        yield h + "attn.c_attn.bias", (3 * c,)
        yield h + "attn.c_proj.weight", (c, c)
        yield h + "attn.c_proj.bias", (c,)
        yield h + "ln_2.weight", (c,)
        yield h + "ln_2.bias", (c,)
        yield h + "mlp.c_fc.weight", (c, 4 * c)
        yield h + "mlp.c_fc.bias", (4 * c,)
        yield h + "mlp.c_proj.weight", (4 * c, c)
        yield h + "mlp.c_proj.bias", (c,)
    yield "ln_f.weight", (c,)
    yield "ln_f.bias", (c,)


def forward(p, tokens):
    b, t = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:t]
    for i in range(LAYERS):
        w = lambda name: p[f"h.{i}.{name}"]
        h = F.layer_norm(x, (WIDTH,), w("ln_1.weight"), w("ln_1.bias"), 1e-5)
        q, k, v = (h @ w("attn.c_attn.weight") + w("attn.c_attn.bias")).split(WIDTH, dim=2)
        q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        h = (scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + h @ w("attn.c_proj.weight") + w("attn.c_proj.bias")
        h = F.layer_norm(x, (WIDTH,), w("ln_2.weight"), w("ln_2.bias"), 1e-5)
        h = F.gelu(h @ w("mlp.c_fc.weight") + w("mlp.c_fc.bias"), approximate="tanh")
        x = x + h @ w("mlp.c_proj.weight") + w("mlp.c_proj.bias")
    x = F.layer_norm(x, (WIDTH,), p["ln_f.weight"], p["ln_f.bias"], 1e-5)
    return x @ p["wte.weight"].T


def rate(step):
    if step <= WARMUP:
        return LR * step / WARMUP
    return MIN_LR + (LR - MIN_LR) / 2 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def save(path, tensors):
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    p, out = {}, {}
    for name, shape in shapes():
        data = torch.randn(shape) * (0.2 if len(shape) == 2 else 0.1)
        if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")):
            data = data + 1
        p[name] = data.requires_grad_()
        out["weight." + name] = data.detach().clone()
    stream = torch.randint(VOCAB, (STEPS, BATCH, CONTEXT + 1))
    out["stream"] = stream
    matrices = [x for x in p.values() if x.dim() == 2]
    vectors = [x for x in p.values() if x.dim() == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        tokens, targets = stream[step - 1, :, :-1], stream[step - 1, :, 1:]
        logits = forward(p, tokens)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            out["logits"] = logits
            for name, x in p.items():
                out["grad." + name] = x.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item())
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses)
    out["norms"] = torch.tensor(norms)
    for name, x in p.items():
        out["final." + name] = x
    save(sys.argv[1], out)
    print("losses", losses)


main()
