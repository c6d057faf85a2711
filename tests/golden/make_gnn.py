#!/usr/bin/env python3
"""Makes gnn/: small graphs in the format culm-graph-1, and what plain PyTorch says of networks on them.

    python3 make_gnn.py gnn

PyTorch computes in float64 with dense matrices, so that what differs is our rounding alone; dropout is off. A file
CASE.safetensors holds the weights to start from under the names of PyTorch Geometric, and

    logits           [V, classes] of the first weights
    grad.NAME        of the first step's loss, without weight decay
    losses           ten, each before its step: Adam (0.9, 0.999), lr 0.01, L2 0.05 in the gradient
    final.NAME       the weights after ten steps
"""
import json
import pathlib
import sys

import numpy
import torch

STEPS, LR, DECAY = 10, 0.01, 0.05

# name: graph, arch, layers, width, activation, bias, what decays
CASES = {
    "gcn-1": ("sparse", "gcn", 1, 0, "relu", True, "first"),
    "gcn-2": ("sparse", "gcn", 2, 9, "relu", True, "first"),
    "gcn-2-narrow": ("sparse", "gcn", 2, 3, "tanh", False, "all"),
    "gcn-2-dense": ("dense", "gcn", 2, 7, "tanh", True, "all"),
    "gcn-4": ("dense", "gcn", 4, 8, "relu", True, "first"),
    "gcn-4-directed": ("directed", "gcn", 4, 4, "tanh", True, "all"),
    "sage-1": ("dense", "sage", 1, 0, "relu", True, "first"),
    "sage-2": ("sparse", "sage", 2, 9, "relu", True, "first"),
    "sage-4-directed": ("directed", "sage", 4, 6, "tanh", True, "all"),
    "gat-1": ("sparse", "gat", 1, 0, "elu", True, "first"),
    "gat-2": ("sparse", "gat", 2, 6, "elu", True, "all"),
    "gat-2-directed": ("directed", "gat", 2, 8, "elu", True, "first"),
    "gat-4": ("dense", "gat", 4, 5, "elu", True, "all"),
    "sage-3-narrow": ("dense", "sage", 3, 3, "relu", True, "all"),
    "sage-2-wide": ("dense", "sage", 2, 16, "relu", True, "all"),
}
HEADS = {"gat-1": (1, 1), "gat-2": (3, 2), "gat-2-directed": (8, 1), "gat-4": (2, 3)}  # of hidden layers, of the last


def make_graph(folder, kind, seed):
    """67 vertices in five classes whose neighbours and features tell a little of them; vertex 5 has many neighbours, and
    vertex 9 none."""
    rng = numpy.random.default_rng(seed)
    V, F, C = 67, 23, 5
    label = rng.integers(C, size=V).astype("<i4")
    label[::17] = -1
    rows = []
    for u in range(V):
        for v in range(V):
            if u == v or 9 in (u, v) or (kind != "directed" and u > v):
                continue
            p = 0.5 if 5 in (u, v) else 0.12 if label[u] == label[v] else 0.03
            if rng.random() < p:
                rows.append((u, v))
    split = rng.integers(4, size=(2, V)).astype("u1")
    split[:, label < 0] = 0
    folder.mkdir(parents=True, exist_ok=True)
    about = {"format": "culm-graph-1", "name": kind, "vertices": V, "edges": len(rows), "edges_listed": len(rows),
             "directed": kind == "directed", "classes": C, "splits": 2}
    numpy.save(folder / "edges.npy", numpy.array(rows, "<u4"))
    numpy.save(folder / "labels.npy", label)
    numpy.save(folder / "split.npy", split)
    x = rng.random((V, F)) * (rng.random((V, F)) < 0.2)
    x[:, :C] += 0.5 * (label[:, None] == numpy.arange(C)) * (rng.random((V, C)) < 0.7)
    x[13] = 0
    x = x.astype("<f4")
    if kind == "sparse":
        where = numpy.argwhere(x)
        numpy.save(folder / "features_start.npy", numpy.concatenate([[0], numpy.cumsum((x != 0).sum(1))]).astype("<u8"))
        numpy.save(folder / "features_column.npy", where[:, 1].astype("<u2"))
        numpy.save(folder / "features_value.npy", x[where[:, 0], where[:, 1]].astype("<f4"))
        about["features"] = {"kind": "sparse", "columns": F, "entries": len(where), "ones": False}
    else:
        numpy.save(folder / "features.npy", x)
        about["features"] = {"kind": "dense", "columns": F}
    (folder / "graph.json").write_text(json.dumps(about, indent=1) + "\n")
    return {"x": x.astype("f8"), "edges": rows, "directed": kind == "directed", "label": label, "split": split[0],
            "classes": C, "V": V}


def propagation(graph):
    """D^-1/2 (A + I) D^-1/2 with A[v, u] = 1 where v gathers from u."""
    a = torch.eye(graph["V"], dtype=torch.float64)
    for u, v in graph["edges"]:
        a[v, u] = 1
        if not graph["directed"]:
            a[u, v] = 1
    d = a.sum(1) ** -0.5
    return d[:, None] * a * d[None, :]


def neighbours(graph, loops):
    """[v, u]: v gathers from u."""
    a = torch.eye(graph["V"], dtype=torch.bool) & loops
    for u, v in graph["edges"]:
        a[v, u] = True
        if not graph["directed"]:
            a[u, v] = True
    return a


ACTIVATION = {"relu": torch.relu, "tanh": torch.tanh, "elu": torch.nn.functional.elu}


def gcn(graph, x, w, heads):
    x = propagation(graph) @ (x @ w["lin.weight"].T)
    return x + w["bias"] if "bias" in w else x


def sage(graph, x, w, heads):
    a = neighbours(graph, False).double()
    mean = (a @ x) / a.sum(1, keepdim=True).clamp(min=1)
    return mean @ w["lin_l.weight"].T + w["lin_l.bias"] + x @ w["lin_r.weight"].T


def gat(graph, x, w, heads):
    """Heads side by side; with the last layer's bias, which is shorter, their mean."""
    a = neighbours(graph, True)
    t = (x @ w["lin.weight"].T).view(x.shape[0], heads, -1)
    source, target = (t * w["att_src"]).sum(2), (t * w["att_dst"]).sum(2)
    e = torch.nn.functional.leaky_relu(target[:, None] + source[None, :], 0.2)  # [v, u, head]
    alpha = torch.softmax(e.masked_fill(~a[:, :, None], -torch.inf), 1)
    out = torch.einsum("vuh,uhf->vhf", alpha, t)
    out = out.flatten(1) if w["bias"].numel() == out[0].numel() else out.mean(1)
    return out + w["bias"]


def network(graph, weights, arch, layers, activation, heads):
    x = torch.tensor(graph["x"])
    total = x.sum(1, keepdim=True)
    x = x / torch.where(total == 0, torch.ones_like(total), total)
    for l in range(layers):
        own = {k.split(".", 2)[2]: w for k, w in weights.items() if k.startswith(f"convs.{l}.")}
        x = {"gcn": gcn, "sage": sage, "gat": gat}[arch](graph, x, own, heads[l + 1 == layers])
        x = ACTIVATION[activation](x) if l + 1 < layers else x
    return x


def first_weights(graph, arch, layers, width, bias, heads):
    weights = {}
    F, C = graph["x"].shape[1], graph["classes"]
    random = lambda *shape, size: torch.randn(*shape, dtype=torch.float64) * size
    for l in range(layers):
        last = l + 1 == layers
        H = heads[last] if arch == "gat" else 1
        ins, outs = F if l == 0 else width * (heads[0] if arch == "gat" else 1), C if last else width
        name = f"convs.{l}."
        if arch == "sage":
            weights[name + "lin_l.weight"] = random(outs, ins, size=(1 / ins) ** 0.5)
            weights[name + "lin_r.weight"] = random(outs, ins, size=(1 / ins) ** 0.5)
            weights[name + "lin_l.bias"] = random(outs, size=0.1)
            continue
        weights[name + "lin.weight"] = random(H * outs, ins, size=(2 / ins) ** 0.5)
        if arch == "gat":
            weights[name + "att_src"] = random(1, H, outs, size=0.5)
            weights[name + "att_dst"] = random(1, H, outs, size=0.5)
        if bias:
            weights[name + "bias"] = random(outs if last else H * outs, size=0.1)
    # what we start from has few bits too
    return {k: w.float().double().requires_grad_() for k, w in weights.items()}


def save(path, tensors):
    """safetensors, float32."""
    header, at = {}, 0
    data = []
    for name, t in tensors.items():
        part = t.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(part)]}
        at += len(part)
        data.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))


def make(path, graph, arch, layers, width, activation, bias, decays):
    heads = HEADS.get(path.stem, (1, 1))
    weights = first_weights(graph, arch, layers, width, bias, heads)
    out = dict(weights)
    train = torch.tensor(graph["split"] == 1)
    target = torch.tensor(graph["label"]).long()
    run = lambda: network(graph, weights, arch, layers, activation, heads)
    loss = lambda y: torch.nn.functional.cross_entropy(y[train], target[train])
    logits = run()
    out["logits"] = logits
    for name, g in zip(weights, torch.autograd.grad(loss(logits), list(weights.values()))):
        out["grad." + name] = g
    out = {k: t.detach().clone() for k, t in out.items()}
    first = lambda name: decays == "all" or name.startswith("convs.0.")
    adam = torch.optim.Adam([{"params": [w for k, w in weights.items() if first(k)], "weight_decay": DECAY},
                             {"params": [w for k, w in weights.items() if not first(k)]}], lr=LR)
    losses = []
    for _ in range(STEPS):
        adam.zero_grad()
        value = loss(run())
        value.backward()
        losses.append(value.item())
        adam.step()
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    for name, w in weights.items():
        out["final." + name] = w
    save(path, out)


def main():
    out = pathlib.Path(sys.argv[1])
    graphs = {kind: make_graph(out / kind, kind, seed) for seed, kind in enumerate(("sparse", "dense", "directed"))}
    for seed, (name, (graph, *how)) in enumerate(CASES.items()):
        torch.manual_seed(seed)
        make(out / f"{name}.safetensors", graphs[graph], *how)


main()
