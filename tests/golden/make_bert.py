#!/usr/bin/env python3
"""Makes bert.safetensors: what transformers' BertForPreTraining of two narrow layers says. Dropout is off.

The second half of a sample is its second sentence; samples end at various lengths, which the mask says. Token 0 is padding to
transformers, which keeps its row from learning; it is not used.

    python3 make_bert.py bert.safetensors
"""
import torch
from transformers import BertConfig, BertForPreTraining

import golden

LAYERS, WIDTH, HEADS, CONTEXT, POSITIONS, VOCAB, MASKED, BATCH = 2, 24, 3, 12, 16, 50, 3, 4

config = BertConfig(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                    intermediate_size=4 * WIDTH, max_position_embeddings=POSITIONS, hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0, attn_implementation="eager")
model = BertForPreTraining(config)
golden.randomize(model, 5, matrix=0.1)

shape = (golden.STEPS, BATCH)
tokens = torch.randint(1, VOCAB, shape + (CONTEXT,))
lengths = torch.randint(CONTEXT // 2, CONTEXT + 1, shape)
mask = (torch.arange(CONTEXT) < lengths[..., None]).long()
types = (torch.arange(CONTEXT) >= CONTEXT // 2).long().expand(shape + (CONTEXT,)).contiguous()
positions = torch.stack([torch.randperm(int(n))[:MASKED].sort().values for n in lengths.reshape(-1)]).reshape(shape + (MASKED,))
mlm_targets = torch.randint(VOCAB, shape + (MASKED,))
nsp = torch.randint(2, shape + (1,))
labels = torch.full(shape + (CONTEXT,), -100).scatter(2, positions, mlm_targets)


def run(m, step):
    return m(input_ids=tokens[step], token_type_ids=types[step], attention_mask=mask[step], labels=labels[step],
             next_sentence_label=nsp[step].reshape(-1))


def logits(m, step):
    return run(m, step).prediction_logits.gather(1, positions[step][..., None].expand(BATCH, MASKED, VOCAB))


fields = {"tokens": tokens, "types": types, "mask": mask, "positions": positions, "mlm_targets": mlm_targets, "nsp": nsp}
golden.make(model, fields, lambda m, step: run(m, step).loss, logits, [0.05, 1e-3])
