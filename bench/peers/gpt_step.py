#!/usr/bin/env python3
"""Seconds per training step of a GPT-2-architecture model in PyTorch: the figure Culm is compared with.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python gpt_step.py [--compile] [--threads N] ...

Prints one JSON line. The settings are PyTorch's best known for a CPU: scaled_dot_product_attention,
fused AdamW, set_to_none, the tanh GELU, weights tied. For the allocator add
LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=thp:always. On an AMD processor MKL runs AVX2 code; preloading
a library with `int mkl_serv_intel_cpu_true(void) { return 1; }` gives its AVX-512 code and doubles its
matrix products: the fair peer there. Needs torch 2.x; --compile needs g++.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.width), nn.Embedding(a.context, a.width)
        self.drop = nn.Dropout(a.dropout)
        self.blocks = nn.ModuleList(Block(a.width, a.heads, a.dropout) for _ in range(a.layers))
        self.ln_f = nn.LayerNorm(a.width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=6, width=256, heads=8, context=128, vocab=256, batch=8, threads=2, iters=20,
                            warmup=4).items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    a = parser.parse_args()
    if os.environ.get("OPENBLAS_CORETYPE") or os.environ.get("OPENBLAS_L2_SIZE"):
        parser.error("OPENBLAS_CORETYPE or OPENBLAS_L2_SIZE is set and would slow the peer down: unset both")
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    model = GPT(a)
    decay = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.95), eps=1e-8, fused=True)
    loss_of = torch.compile(model) if a.compile else model
    data = torch.randint(0, a.vocab, (a.batch, a.context + 1))
    tokens, targets = data[:, :-1].contiguous(), data[:, 1:].contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for _ in range(a.warmup):
        step()
    if a.profile:
        with torch.profiler.profile() as profiler:
            step()
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))
    seconds = []
    for _ in range(a.iters):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"peer": "torch " + torch.__version__, "compile": a.compile, "threads": a.threads, "batch": a.batch,
                      "step_s": {"median": round(statistics.median(seconds), 5), "min": round(min(seconds), 5)},
                      "tokens_per_s": round(a.batch * a.context / statistics.median(seconds))}))


if __name__ == "__main__":
    main()
