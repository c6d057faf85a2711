#!/usr/bin/env python3
"""Makes gnmt.safetensors: what PyTorch says of a narrow GNMT, built as NVIDIA's GNMT v2 modules are, with their names:
a bidirectional first layer over packed sequences, residual connections from the third layer, normalised Bahdanau
attention of the first decoder layer whose answer goes beside the input of all others. Dropout is off.

    python3 make_gnmt.py gnmt.safetensors
"""
import torch
from torch import nn

import golden

LAYERS, WIDTH, VOCAB, SOURCE, CONTEXT, BATCH, SMOOTHING = 3, 10, 30, 7, 6, 3, 0.1


class Attention(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear_q = nn.Linear(n, n, bias=False)
        self.linear_k = nn.Linear(n, n, bias=False)
        self.linear_att = nn.Parameter(torch.empty(n))
        self.normalize_scalar = nn.Parameter(torch.empty(1))
        self.normalize_bias = nn.Parameter(torch.empty(n))

    def forward(self, query, memory, lengths):
        pair = self.linear_q(query)[:, :, None] + self.linear_k(memory)[:, None] + self.normalize_bias
        v = self.normalize_scalar * self.linear_att / self.linear_att.norm()
        hidden = torch.arange(memory.shape[1]) >= lengths[:, None]
        scores = (torch.tanh(pair) @ v).masked_fill(hidden[:, None], -torch.inf)
        return scores.softmax(-1) @ memory


class First(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.rnn = nn.LSTM(n, n, batch_first=True)
        self.attn = Attention(n)


class Classifier(nn.Module):
    def __init__(self, n, vocab):
        super().__init__()
        self.classifier = nn.Linear(n, vocab)


class Encoder(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.embedder = table
        first = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        second = nn.LSTM(2 * WIDTH, WIDTH, batch_first=True)
        self.rnn_layers = nn.ModuleList([first, second] +
                                        [nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(LAYERS - 2)])

    def forward(self, tokens, lengths):
        x = nn.utils.rnn.pack_padded_sequence(self.embedder(tokens), lengths, batch_first=True, enforce_sorted=False)
        x, _ = self.rnn_layers[0](x)
        x, _ = nn.utils.rnn.pad_packed_sequence(x, batch_first=True, total_length=tokens.shape[1])
        x, _ = self.rnn_layers[1](x)
        for layer in self.rnn_layers[2:]:
            x = x + layer(x)[0]
        return x


class Decoder(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.embedder = table
        self.att_rnn = First(WIDTH)
        self.rnn_layers = nn.ModuleList([nn.LSTM(2 * WIDTH, WIDTH, batch_first=True) for _ in range(LAYERS - 1)])
        self.classifier = Classifier(WIDTH, VOCAB)

    def forward(self, tokens, memory, lengths):
        x, _ = self.att_rnn.rnn(self.embedder(tokens))
        context = self.att_rnn.attn(x, memory, lengths)
        x, _ = self.rnn_layers[0](torch.cat((x, context), dim=2))
        for layer in self.rnn_layers[1:]:
            x = x + layer(torch.cat((x, context), dim=2))[0]
        return self.classifier.classifier(x)


class Gnmt(nn.Module):
    def __init__(self):
        super().__init__()
        table = nn.Embedding(VOCAB, WIDTH)
        self.encoder, self.decoder = Encoder(table), Decoder(table)

    def forward(self, source, lengths, tokens):
        return self.decoder(tokens, self.encoder(source, lengths), lengths)


model = Gnmt()
golden.randomize(model, 3, matrix=0.4)
shape = (golden.STEPS, BATCH)
length = torch.randint(2, SOURCE + 1, shape + (1,))
length[:, 0] = SOURCE
written = torch.randint(2, CONTEXT + 1, shape + (1,))
source = torch.randint(VOCAB, shape + (SOURCE,))
stream = torch.randint(VOCAB, shape + (CONTEXT + 1,))
inside = torch.arange(CONTEXT) < written
tokens = torch.where(inside, stream[:, :, :-1], -1)
targets = torch.where(inside, stream[:, :, 1:], -1)
padded = torch.where(torch.arange(SOURCE) < length, source, -1)


def logits(m, step):
    return m(source[step], length[step].reshape(-1), stream[step, :, :-1])


def loss(m, step):
    sum_ = nn.functional.cross_entropy(logits(m, step).reshape(-1, VOCAB), targets[step].reshape(-1), ignore_index=-1,
                                       label_smoothing=SMOOTHING, reduction="sum")
    return sum_ / (BATCH * CONTEXT)


def inside_logits(m, step):
    return logits(m, step) * inside[step][..., None]


fields = {"source": padded, "length": length, "tokens": tokens, "targets": targets}
golden.make(model, fields, loss, inside_logits, [0.2, 5e-3])
