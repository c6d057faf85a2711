#!/usr/bin/env python3
"""Seconds per training step in PyTorch, alone or in turns with Culm: forward, loss, backward, clipping, AdamW.

    python step.py --model resnet50 --dtype f32 --threads 2 --culm build/src/cli/culm
    python step.py --model all --dtype f32,bf16 --threads 1,2 --culm build/src/cli/culm --json
    python step.py --model lstm,adamw --kernels build/bench

One measurement is a model, a number format and a number of threads, in a process of its own. In it every
way to run the model (eager and torch.compile, each memory layout that makes sense) is warmed up and timed for
two steps; those within 15 % of the fastest stay. Then rounds: a block of steps of Culm (`culm bench step`,
a new process each time), a block of each way, and again. A machine that is slow for a while is slow for both.
Printed are medians over all steps and the ratio PyTorch / Culm: the median of the ratios of the rounds,
for the way with the best median. Above 1 Culm is faster.

PyTorch gets what is known to help it on a CPU; `settings` says what this machine had of it:
  - jemalloc with transparent huge pages, if installed (Debian: libjemalloc2);
  - on an AMD processor, MKL's AVX-512 code, which it uses when a preloaded library says so (needs cc);
  - denormals are flushed; OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are not passed on;
  - fused AdamW, clipping over all tensors at once, scaled_dot_product_attention, set_to_none, weights tied.
bf16 is autocast. README.md says what to install. Stop other work on the machine while it runs.
"""
import argparse
import contextlib
import ctypes.util
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEEP = 1.15  # ways slower than this many times the fastest are dropped
TRIAL = 2  # steps of that comparison

# --- the environment of a measurement ---


def mkl_switch():
    """A library that lets MKL use AVX-512 on AMD processors, or None."""
    try:
        with open("/proc/cpuinfo") as f:
            info = f.read()
    except OSError:
        return None
    if "AuthenticAMD" not in info or "avx512f" not in info:
        return None
    path = os.path.join(tempfile.gettempdir(), f"culm-peer-mkl-{os.getuid()}.so")
    code = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"
    made = subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=code, text=True)
    return path if made.returncode == 0 else None


def environment(threads):
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    jemalloc, mkl = ctypes.util.find_library("jemalloc"), mkl_switch()
    preload = [x for x in (jemalloc, mkl, env.get("LD_PRELOAD")) if x]
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    env["MALLOC_CONF"] = "thp:always,metadata_thp:always"
    env["OMP_NUM_THREADS"] = str(threads)
    env["CULM_PEER_SETTINGS"] = json.dumps({"jemalloc": bool(jemalloc), "mkl_avx512_on_amd": bool(mkl)})
    return env


# --- Culm ---


class Culm:
    """`culm bench step` of the same thing. A dropout other than the model's goes by a configuration."""

    def __init__(self, path, model, args, threads):
        name = model.culm if "/" not in model.culm else os.path.join(ROOT, model.culm)
        self.file = None
        if args.dropout is not None:
            if "/" in model.culm:
                sys.exit("step.py: --dropout and --culm go together for named models only")
            self.file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
            self.file.write(f"model: {{name: {model.culm}, dropout: {args.dropout}}}\ndata: {{path: none}}\nsteps: 1\n"
                            "pipelines: 1\nstages: 1\nbatch: {global: 1, micro: 1, lanes: 1}\n")
            self.file.flush()
            name = self.file.name
        self.command = [path, "bench", "step", name, "--threads", str(threads), "--dtype", args.dtype, "--iters",
                        str(args.iters), "--json", "--batch", str(args.batch)]
        if args.context and model.context:
            self.command += ["--context", str(args.context)]

    def block(self):
        run = subprocess.run(self.command, capture_output=True, text=True, env=without_preload())
        if run.returncode:
            sys.exit(f"step.py: {' '.join(self.command)}: {run.stderr.strip()}")
        return json.loads(run.stdout)["step_s"]


def without_preload():
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "MALLOC_CONF")}


class CulmKernels:
    """A part of a step: AdamW's line of bench_kernels over a table as large as GPT-2, one LSTM layer of bench_sequence."""

    def __init__(self, folder, part, args, threads):
        from models import LSTM_WIDTH

        self.part = part
        folder = folder if os.path.isdir(folder) else os.path.dirname(folder)  # one of the programs is fine too
        common = ["--threads", str(threads), "--iters", str(args.iters)]
        if part == "optimizer":
            self.command = [os.path.join(folder, "bench_kernels"), *common, "--layers", "12", "--width", "768", "--heads", "12",
                            "--vocab", "50257", "--batch", "1", "--context", "64"]
        else:
            self.command = [os.path.join(folder, "bench_sequence"), "lstm", *common, "--batch", str(args.batch), "--time",
                            str(args.context), "--width", str(LSTM_WIDTH)]

    def block(self):
        try:
            run = subprocess.run(self.command, capture_output=True, text=True, check=True, env=without_preload())
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"step.py: {self.command[0]}: {getattr(error, 'stderr', None) or error}; README.md says how to build it")
        if self.part == "layer":
            both = json.loads(run.stdout)["both_ms"]
            return {"median": both["median"] / 1e3, "min": both["min"] / 1e3}
        line = next(x for x in run.stdout.splitlines() if x.startswith("adamw"))
        ms = float(line.split()[2])
        return {"median": ms / 1e3, "min": ms / 1e3}


# --- PyTorch ---


class Way:
    """One way to run a model: eager or compiled, in one memory layout."""

    def __init__(self, model, how, layout, args):
        import torch

        self.torch, self.args, self.part = torch, args, model.part
        torch.manual_seed(1)
        module, self.batch = model.build(args.batch, args.context, args.dropout)
        if layout == "channels_last":
            module = module.to(memory_format=torch.channels_last)
            self.batch = [x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in self.batch]
        self.module = module.train()
        self.parameters = list(module.parameters())
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        kind = {"foreach": True} if how == "foreach" else {"fused": True}
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, **kind)
        self.loss = module
        if how == "compile":
            self.loss = torch.compile(module)
        elif how == "autotune":
            self.loss = torch.compile(module, mode="max-autotune-no-cudagraphs")
        self.times = []

    def step(self):
        torch = self.torch
        if self.part == "optimizer":
            self.optimizer.step()
            return 0.0
        cast = torch.autocast("cpu", torch.bfloat16) if self.args.dtype == "bf16" else contextlib.nullcontext()
        self.optimizer.zero_grad(set_to_none=True)
        if self.part == "layer":
            x, gradient = self.batch
            x.grad = None
            self.loss(x).backward(gradient)
            return 0.0
        with cast:
            loss = self.loss(*self.batch)
        loss.backward()
        if not self.args.no_clip:
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        return loss.item()

    def block(self, count):
        took = []
        for _ in range(count):
            start = time.perf_counter()
            self.step()
            took.append(time.perf_counter() - start)
        return took


def ways_of(model, args):
    if model.part == "optimizer":
        return [("fused", "plain"), ("foreach", "plain")]
    hows = [how for how in args.how.split(",") if how == "eager" or model.compiles or args.force_compile]
    layouts = args.layout.split(",") if args.layout else model.layouts
    return [(how, layout) for how in hows for layout in layouts if layout in model.layouts]


def open_ways(model, args, notes):
    """Builds and tries them; a way that fails is a note, not the end."""
    kept, tried = {}, []
    for how, layout in ways_of(model, args):
        name = how if layout == "plain" else f"{how}, {layout}"
        tried.append(name)
        try:
            way = Way(model, how, layout, args)
            way.block(args.warmup)
            kept[name] = (way, min(way.block(TRIAL)))
        except Exception as error:  # torch.compile raises whatever its passes raise
            notes[name] = "failed: " + (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            continue
        least = min(took for _, took in kept.values())
        for other, (_, took) in list(kept.items()):
            if took > KEEP * least and not args.keep:
                notes[other] = f"dropped after a trial: {took:.4f} s"
                del kept[other]
        way = None
        gc.collect()
    compiled = [name for name in tried if not name.startswith(("eager", "fused", "foreach"))]
    if compiled and all(notes.get(name, "").startswith("failed") for name in compiled):
        print(f"step.py: {args.model}, {args.dtype}: torch.compile works in no way here, so the peer is PyTorch without it "
              f"(it needs g++ and python3-dev): {notes[compiled[0]]}", file=sys.stderr)
    return {name: way for name, (way, _) in kept.items()}


def measure(args):
    import torch

    from models import MODELS

    model = MODELS[args.model]
    args.batch, args.context = args.batch or model.batch, args.context or model.context
    threads = int(args.threads)
    torch.set_num_threads(threads)
    flushed = torch.set_flush_denormal(True)
    culm = None
    if model.part != "whole" and args.kernels:
        culm = CulmKernels(args.kernels, model.part, args, threads)
    elif args.culm and model.culm:
        culm = Culm(args.culm, model, args, threads)
    notes = {}
    ways = open_ways(model, args, notes)
    if args.profile:
        for name, way in ways.items():
            with torch.profiler.profile() as profiler:
                way.step()
            print(name, profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=25), file=sys.stderr)
    gc.collect()
    gc.disable()
    ours, rounds = [], {name: [] for name in ways}
    for _ in range(args.rounds):
        if culm:
            ours.append(culm.block())
        for name, way in ways.items():
            took = way.block(args.iters)
            way.times += took
            rounds[name].append(statistics.median(took))
    settings = dict(json.loads(os.environ.get("CULM_PEER_SETTINGS", "{}")), flush_denormals=flushed)
    result = {"model": args.model, "dtype": args.dtype, "threads": threads, "batch": args.batch, "context": args.context,
              "dropout": args.dropout, "rounds": args.rounds, "iters": args.iters, "peer": "torch " + torch.__version__,
              "settings": settings, "notes": notes,
              "peer_s": {name: {"median": statistics.median(way.times), "min": min(way.times)}
                         for name, way in ways.items()}}
    if not ways:
        return result
    result["best"] = best = min(ways, key=lambda name: result["peer_s"][name]["median"])
    if ours:
        result["culm_s"] = {"median": statistics.median(x["median"] for x in ours), "min": min(x["min"] for x in ours)}
        result["ratio"] = statistics.median(p / c["median"] for p, c in zip(rounds[best], ours))
        result["ratio_of_min"] = result["peer_s"][best]["min"] / result["culm_s"]["min"]
    return result


# --- the command ---


def show(r):
    print(f"{r['model']}, {r['dtype']}, {r['threads']} threads, batch {r['batch']}"
          + (f" x {r['context']}" if r["context"] else ""))
    for name, s in r["peer_s"].items():
        print(f"  PyTorch {name:24s} median {s['median']:8.4f} s  min {s['min']:8.4f}" + ("  *" if name == r["best"] else ""))
    for name, text in r["notes"].items():
        print(f"  PyTorch {name:24s} {text}")
    if "culm_s" in r:
        s = r["culm_s"]
        print(f"  Culm    {'':24s} median {s['median']:8.4f} s  min {s['min']:8.4f}  ratio {r['ratio']:.2f} "
              f"(of the shortest {r['ratio_of_min']:.2f})")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="gpt-small", help="a name, several with commas, or all")
    parser.add_argument("--dtype", default="f32", help="f32, bf16 or both with a comma")
    parser.add_argument("--threads", default="2", help="a number, or several with commas")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--context", type=int, default=0, help="tokens in a sample")
    parser.add_argument("--dropout", type=float, help="instead of the model's")
    parser.add_argument("--culm", help="the program; without it PyTorch is measured alone")
    parser.add_argument("--kernels", help="the folder of bench_kernels and bench_sequence, for --model adamw and lstm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iters", type=int, default=5, help="steps of a block")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--how", default="eager,compile", help="of eager, compile, autotune")
    parser.add_argument("--layout", help="of plain, channels_last")
    parser.add_argument("--keep", action="store_true", help="slow ways too")
    parser.add_argument("--force-compile", action="store_true", help="also models whose LSTMs take minutes to compile")
    parser.add_argument("--no-clip", action="store_true", help="PyTorch does not clip; Culm always forms the norm")
    parser.add_argument("--profile", action="store_true", help="print where PyTorch's time goes")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print("\n" + json.dumps(measure(args)))
        return
    names = ["gpt2", "gpt-small", "bert-base", "resnet18", "resnet50", "vgg16", "alexnet", "lstm", "gnmt-small", "gnmt-16",
             "adamw"]
    names = names if args.model == "all" else args.model.split(",")
    failed = False
    for name in names:
        for dtype in args.dtype.split(","):
            for threads in args.threads.split(","):
                if name in ("adamw", "lstm") and dtype == "bf16":
                    continue  # these pairs are of f32
                # argparse takes the last of a repeated option
                command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--model", name, "--dtype", dtype,
                           "--threads", threads, "--child"]
                run = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(threads))
                if run.returncode:
                    print(f"step.py: {name}, {dtype}, {threads} threads: no result", file=sys.stderr)
                    failed = True
                    continue
                result = json.loads(run.stdout.splitlines()[-1])
                if args.json:
                    print(json.dumps(result), flush=True)
                else:
                    show(result)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
