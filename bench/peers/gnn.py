#!/usr/bin/env python3
"""Graph networks in Culm, DGL and PyG: sums over neighbours, and epochs of GCN and GAT, in turns.

    python3 gnn.py --dgl ~/dgl/bin/python --pyg ~/pyg/bin/python --culm build/src/cli/culm \\
        --gather build/bench/bench_gather facebook cora

DGL 2.1.0 and a current PyTorch cannot share an environment, so each peer has its own, and this script needs
no package. A peer runs in a process of its own and waits while the others measure: a block of calls of Culm
(a new process), a block of each way of each peer, and again. Printed are medians over all calls, and the
ratio peer / Culm: the median of the ratios of the rounds, for the peer's way with the best median. Above 1
Culm is faster. Memory is the most that a process had resident, of Culm from its start, of peers once they
have read their graph; each way of a model has a process of its own.

  spmm WIDTH   y = A x, A with loops. DGL: copy_u_sum. torch.sparse: a CSR matrix, with and without `reduce`.
               --gather: the limit, a loop that loads the same rows and does nothing else
  gcn, gat     forward, loss, backward, Adam. Hidden 64 (Cora 16), dropout 0.5; GAT 8 heads of 8, one out,
               dropout 0.6 of features and attention. DGL: GraphConv, GATConv. PyG: GCNConv (normalised once)
               and GATConv, on edge_index and on a CSR matrix. by hand: PyTorch with X and A in CSR

Each peer gets jemalloc with transparent huge pages, MKL's AVX-512 code on AMD processors, and flushed
denormals, as step.py has it. Stop other work on the machine while it runs.

A graph of a hundred million edges takes minutes to sort: --sorted FOLDER keeps what came of it (--prepare
does nothing else). --ways leaves out what needs a row for each edge, --warm 1 some of the epochs in front.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# --- what runs inside a peer's process ---


class Graph:
    """Edges by the vertex that they lead to, `src` and `start`; `kept`: a folder where these are, or will be."""

    def __init__(self, path, need, kept=None):
        import numpy as np

        with open(f"{path}/graph.json") as f:
            about = json.load(f)
        self.n, self.classes, features = about["vertices"], about["classes"], about.get("features") or {}
        if kept and os.path.exists(f"{kept}/start.npy"):
            self.src, self.start = np.load(f"{kept}/src.npy"), np.load(f"{kept}/start.npy")
        else:
            edge = np.load(f"{path}/edges.npy").astype(np.int64)
            loop = np.arange(self.n)
            key = [edge[:, 1] * self.n + edge[:, 0], loop * self.n + loop]
            if not about["directed"]:
                key.append(edge[:, 0] * self.n + edge[:, 1])
            del edge
            key = np.concatenate(key)
            key.sort()
            self.start = np.searchsorted(key, np.arange(self.n + 1) * self.n)
            key %= self.n
            self.src = key.astype(np.int32)
            del key
            if kept:
                os.makedirs(kept, exist_ok=True)
                np.save(f"{kept}/src.npy", self.src)
                np.save(f"{kept}/start.npy", self.start)
        if not need:
            return
        self.y = np.load(f"{path}/labels.npy").astype(np.int64)
        self.train = np.load(f"{path}/split.npy")[0] == 1
        self.x = self.csr = None
        if features["kind"] == "dense":
            self.x = np.load(f"{path}/features.npy")
            self.columns = self.x.shape[1]
        else:
            start = np.load(f"{path}/features_start.npy").astype(np.int64)
            column = np.load(f"{path}/features_column.npy").astype(np.int64)
            value = np.ones(len(column), np.float32)
            if not features.get("ones"):
                value = np.load(f"{path}/features_value.npy")
            self.columns = features["columns"]
            self.csr = start, column, value

    def dense(self):
        import numpy as np

        if self.x is None:
            start, column, value = self.csr
            self.x = np.zeros((self.n, self.columns), np.float32)
            self.x[np.repeat(np.arange(self.n), np.diff(start)), column] = value
            self.csr = None
        return self.x


def csr_of(torch, g, value=None):
    import warnings

    warnings.filterwarnings("ignore")
    value = torch.ones(len(g.src)) if value is None else value
    return torch.sparse_csr_tensor(torch.from_numpy(g.start.astype("int64")), torch.from_numpy(g.src).long(), value, (g.n, g.n))


def dst_of(torch, g):
    start = torch.from_numpy(g.start)
    return torch.repeat_interleave(torch.arange(g.n, dtype=torch.int32), start[1:] - start[:-1])


def dgl_of(torch, g, formats):
    import dgl

    graph = dgl.graph((torch.from_numpy(g.src), dst_of(torch, g)), num_nodes=g.n).formats(formats)
    graph.create_formats_()
    return graph


def norm_of(torch, g):
    degree = torch.from_numpy((g.start[1:] - g.start[:-1]).astype("float32")).rsqrt()
    return degree[torch.from_numpy(g.src)] * degree[dst_of(torch, g)]


def spmm_ways(peer, path, width):
    import torch

    g = Graph(path, False)
    x = torch.rand(g.n, width)
    if peer == "dgl":
        import dgl

        graph = dgl_of(torch, g, ["csc"])
        return {"copy_u_sum": lambda: dgl.ops.copy_u_sum(graph, x)}
    a = csr_of(torch, g)
    return {"csr @ x": lambda: a @ x, "csr, reduce": lambda: torch.sparse.mm(a, x, "sum")}


def model_of(peer, arch, way, g, how):
    """(module, its inputs) of two layers."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    hidden, drop = how["width"], how["dropout"]
    if peer == "dgl":
        from dgl.nn import GATConv, GraphConv

        graph = dgl_of(torch, g, ["csr", "csc"] if arch == "gcn" else ["coo", "csr", "csc"])
        if arch == "gcn":
            layers = nn.ModuleList([GraphConv(g.columns, hidden), GraphConv(hidden, g.classes)])
        else:
            layers = nn.ModuleList([GATConv(g.columns, hidden, 8, feat_drop=drop, attn_drop=drop),
                                    GATConv(hidden * 8, g.classes, 1, feat_drop=drop, attn_drop=drop)])
        x = torch.from_numpy(g.dense())

        def run(module):
            if arch == "gcn":
                h = F.relu(layers[0](graph, F.dropout(x, drop, module.training)))
                return layers[1](graph, F.dropout(h, drop, module.training))
            return layers[1](graph, F.elu(layers[0](graph, x).flatten(1))).mean(1)

        return layers, run
    if way == "by hand":
        w = nn.ParameterList([torch.empty(g.columns, hidden), torch.empty(hidden, g.classes)])
        b = nn.ParameterList([torch.zeros(hidden), torch.zeros(g.classes)])
        for one in w:
            nn.init.xavier_uniform_(one)
        a = csr_of(torch, g, norm_of(torch, g))
        start, column, value = (torch.from_numpy(part) for part in g.csr)
        layers = nn.ModuleList([w, b])

        def run(module):
            x = torch.sparse_csr_tensor(start, column, F.dropout(value, drop, module.training), (g.n, g.columns))
            h = F.relu(a @ torch.sparse.mm(x, w[0]) + b[0])
            return a @ (F.dropout(h, drop, module.training) @ w[1]) + b[1]

        return layers, run
    from torch_geometric.nn import GATConv, GCNConv

    if way == "csr":
        edges = csr_of(torch, g, norm_of(torch, g) if arch == "gcn" else None)
    else:
        edges = torch.stack([torch.from_numpy(g.src).long(), dst_of(torch, g).long()])
    if arch == "gcn":
        more = {"normalize": False} if way == "csr" else {"cached": True, "add_self_loops": False}
        layers = nn.ModuleList([GCNConv(g.columns, hidden, **more), GCNConv(hidden, g.classes, **more)])
    else:
        more = {"dropout": drop, "add_self_loops": False}
        layers = nn.ModuleList([GATConv(g.columns, hidden, 8, **more), GATConv(hidden * 8, g.classes, 1, **more)])
    x = torch.from_numpy(g.dense())
    act = F.relu if arch == "gcn" else F.elu

    def run(module):
        h = act(layers[0](F.dropout(x, drop, module.training), edges))
        return layers[1](F.dropout(h, drop, module.training), edges)

    return layers, run


def epoch_ways(peer, path, arch, way, how, kept):
    import torch
    import torch.nn.functional as F

    g = Graph(path, True, kept)
    layers, run = model_of(peer, arch, way, g, how)
    g.src = g.start = None
    y, train = torch.from_numpy(g.y), torch.from_numpy(g.train)
    y = y[train]
    optimizer = torch.optim.Adam([{"params": layers[0].parameters(), "weight_decay": 5e-4},
                                  {"params": layers[1].parameters()}], lr=0.01)

    def epoch():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(run(layers)[train], y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return {way or "": epoch}


def child(spec):
    """Answers "N" with the seconds of N calls of each way, and the end of its input with its memory."""
    import torch

    torch.set_num_threads(spec["threads"])
    torch.set_flush_denormal(True)
    if spec["what"] == "spmm":
        ways = spmm_ways(spec["peer"], spec["graph"], spec["width"])
    else:
        ways = epoch_ways(spec["peer"], spec["graph"], spec["what"], spec["way"], spec["how"], spec["kept"])
    versions = {"torch": torch.__version__}
    if spec["peer"] == "dgl":
        import dgl

        versions["dgl"] = dgl.__version__
    elif spec["what"] != "spmm":
        import torch_geometric

        versions["torch_geometric"] = torch_geometric.__version__
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the most memory, from here on
    for call in ways.values():
        for _ in range(spec["warm"]):
            call()
    print("\n@" + json.dumps(versions), flush=True)
    for line in sys.stdin:
        took = {}
        for name, call in ways.items():
            took[name] = []
            for _ in range(int(line)):
                start = time.perf_counter()
                call()
                took[name].append(time.perf_counter() - start)
        print("\n@" + json.dumps(took), flush=True)
    with open("/proc/self/status") as f:
        print("\n@" + next(line.split()[1] for line in f if line.startswith("VmHWM:")), flush=True)


# --- the other side of it ---


class Peer:
    def __init__(self, python, threads, **spec):
        from step import environment

        self.name = spec["peer"] + (f", {spec['way']}" if spec.get("way") else "")
        self.took, self.rounds, self.peak, self.failed = {}, {}, 0, None
        command = [python, os.path.abspath(__file__), "--child", json.dumps(dict(spec, threads=threads))]
        env = environment(threads)
        env["PYTHONWARNINGS"] = "ignore"
        env["DGLBACKEND"] = "pytorch"
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        self.versions = self.answer() or {}

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        self.log.seek(0)
        self.failed = (self.log.read().strip().splitlines() or ["no answer"])[-1][:200]
        self.process.wait()
        self.failed += f" (exit {self.process.returncode})"
        return None

    def block(self, count):
        if self.failed:
            return
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        for way, took in (self.answer() or {}).items():
            self.took.setdefault(way, []).extend(took)
            self.rounds.setdefault(way, []).append(statistics.median(took))

    def close(self):
        if not self.failed:
            self.process.stdin.close()
            self.peak = self.answer() * 1024
            self.process.wait()

    def lines(self):
        return {(self.name if not way or way in self.name else f"{self.name}, {way}"): way for way in self.took}


def config_of(args, path, arch):
    small = os.path.basename(os.path.normpath(path)) in ("cora", "citeseer")
    how = {"width": 16 if small else 64, "dropout": 0.5} if arch == "gcn" else {"width": 8, "dropout": 0.6}
    how["width"] = args.hidden or how["width"]
    text = (f"graph: {{path: {os.path.abspath(path)}, features: as-is}}\nepochs: 1\nintervals: {args.intervals}\n"
            f"model: {{arch: {arch}, layers: 2, width: {how['width']}, dropout: {how['dropout']}"
            + (", heads: 8, out_heads: 1, activation: elu}\n" if arch == "gat" else "}\n") + "".join(f"{line}\n" for line in args.set))
    return how, text


def kept_of(args, path):
    return args.sorted and os.path.join(args.sorted, os.path.basename(os.path.normpath(path)))


def run_json(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"gnn.py: {' '.join(command)}: exit {run.returncode}")
    return json.loads(run.stdout)


def measure(args, path, what, width):
    t, how, config = args.threads, None, None
    bench = [args.culm, "bench", "gnn"]
    if what == "spmm":
        bench += ["spmm", path, "--width", str(width), "--dtype", args.dtype]
        same = {"what": what, "graph": path, "width": width, "warm": args.warm}
        peers = [Peer(args.dgl, t, peer="dgl", **same)] if args.dgl else []
        peers += [Peer(args.pyg, t, peer="torch", **same)] if args.pyg else []
    else:
        how, text = config_of(args, path, what)
        config = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        config.write(text)
        config.flush()
        bench += ["epoch", config.name]
        by_hand = what == "gcn" and os.path.exists(f"{path}/features_start.npy")
        ways = [way for way in args.ways.split(",") if way != "by hand" or by_hand]
        same = {"what": what, "graph": path, "how": how, "warm": args.warm, "kept": kept_of(args, path)}
        peers = [Peer(args.dgl, t, peer="dgl", way=None, **same)] if args.dgl else []
        peers += [Peer(args.pyg, t, peer="pyg", way=way, **same) for way in ways] if args.pyg else []
    bench += ["--threads", str(t), "--json", "--iters"]
    ours, limits = [], []
    for _ in range(args.rounds):
        ours.append(run_json(bench + [str(args.iters * args.more)]))
        if args.gather and what == "spmm":
            limits.append(run_json([args.gather, path, "--width", str(width), "--threads", str(t), "--dtype", args.dtype]))
        for peer in peers:
            peer.block(args.iters)
    for peer in peers:
        peer.close()
    took = [(r.get("call_s") or r["epoch_s"]) for r in ours]
    result = {"graph": os.path.basename(os.path.normpath(path)), "what": what, "width": width, "threads": t,
              "culm_s": {"median": statistics.median(x["median"] for x in took), "min": min(x["min"] for x in took)},
              "culm_peak_bytes": max(r["peak_memory_bytes"] for r in ours), "peers": {}}
    for limit, x in zip(limits, took):
        result.setdefault("of_limit", []).append(limit["call_s"]["median"] / x["median"])
        result.setdefault("of_limit_min", []).append(limit["call_s"]["min"] / x["min"])
    for peer in peers:
        if peer.failed:
            result["peers"][peer.name] = {"failed": peer.failed}
        for name, way in peer.lines().items():
            result["peers"][name] = {
                "median": statistics.median(peer.took[way]), "min": min(peer.took[way]), "peak_bytes": peer.peak,
                "ratio": statistics.median(p / c["median"] for p, c in zip(peer.rounds[way], took)),
                "memory": result["culm_peak_bytes"] / peer.peak, "versions": peer.versions}
    return result


def show(r):
    print(f"{r['graph']}, {r['what']}" + (f" {r['width']}" if r["width"] else "") + f", {r['threads']} threads")
    print(f"  {'Culm':24s} median {r['culm_s']['median'] * 1e3:9.3f} ms  min {r['culm_s']['min'] * 1e3:9.3f} ms"
          f"  {r['culm_peak_bytes'] / 1e6:7.0f} MB"
          + (f"  {100 * statistics.median(r['of_limit']):.0f} % of the limit ({100 * statistics.median(r['of_limit_min']):.0f} % of the "
             "shortest)" if "of_limit" in r else ""))
    for name, p in r["peers"].items():
        if "failed" in p:
            print(f"  {name:24s} {p['failed']}")
            continue
        print(f"  {name:24s} median {p['median'] * 1e3:9.3f} ms  min {p['min'] * 1e3:9.3f} ms  {p['peak_bytes'] / 1e6:7.0f} MB"
              f"  ratio {p['ratio']:.2f} (of the shortest {p['min'] / r['culm_s']['min']:.2f}), memory {p['memory']:.2f}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="*", help="folders of culm-graph-1")
    parser.add_argument("--dgl", help="python of the environment with DGL")
    parser.add_argument("--pyg", help="python of the environment with PyG")
    parser.add_argument("--culm", default="build/src/cli/culm")
    parser.add_argument("--gather", help="bench_gather, for the limit of spmm")
    parser.add_argument("--what", default="spmm,gcn,gat")
    parser.add_argument("--width", default="32,41,256", help="of spmm")
    parser.add_argument("--dtype", default="f32", help="of Culm's spmm; peers have f32")
    parser.add_argument("--hidden", type=int, default=0, help="hidden features; of gat each head's")
    parser.add_argument("--intervals", type=int, default=8, help="pieces that Culm cuts the graph into")
    parser.add_argument("--set", action="append", default=[], help="one more line of Culm's configuration")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iters", type=int, default=10, help="calls of a block")
    parser.add_argument("--more", type=int, default=3, help="times as many calls in a block of Culm")
    parser.add_argument("--ways", default="edge_index,csr,by hand", help="of PyG")
    parser.add_argument("--warm", type=int, default=3, help="calls of a peer in front")
    parser.add_argument("--sorted", help="a folder that keeps sorted edges")
    parser.add_argument("--prepare", action="store_true", help="sort edges, into --sorted; needs NumPy")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(json.loads(args.child))
        return
    for path in args.graphs:
        if args.prepare:
            Graph(path, False, kept_of(args, path))
            continue
        for what in args.what.split(","):
            for width in [int(w) for w in args.width.split(",")] if what == "spmm" else [0]:
                result = measure(args, path, what, width)
                print(json.dumps(result), flush=True) if args.json else show(result)


if __name__ == "__main__":
    main()
