#!/usr/bin/env python3
"""Makes gpt2.safetensors: what transformers' GPT2LMHeadModel of two narrow layers says. Dropout is off.

    python3 make_gpt2.py gpt2.safetensors
"""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import golden

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, BATCH = 2, 32, 2, 16, 64, 2

config = GPT2Config(vocab_size=VOCAB, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0.0,
                    embd_pdrop=0.0, attn_pdrop=0.0,
                    attn_implementation="eager", bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config)
golden.randomize(model, 7, matrix=0.2)
stream = torch.randint(VOCAB, (golden.STEPS, BATCH, CONTEXT + 1))
tokens, targets = stream[:, :, :-1], stream[:, :, 1:]
logits = lambda m, step: m(tokens[step]).logits
loss = lambda m, step: torch.nn.functional.cross_entropy(logits(m, step).reshape(-1, VOCAB), targets[step].reshape(-1))
golden.make(model, {"tokens": tokens, "targets": targets}, loss, logits, [0.1, 1e-3])
