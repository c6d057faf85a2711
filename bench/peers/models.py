"""The models of `culm bench step`, written the way PyTorch runs them best on a CPU.

Each entry of MODELS says how Culm is asked for the same thing and how to build the PyTorch side: a
module whose forward(*batch) is the loss, and one batch of random samples. Where a stock module does
needless work it is left out, as Culm leaves it out: BERT predicts masked positions only, the
sentences of GNMT are all full and so not packed.
"""
import collections
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

# culm: NAME|CONFIG for `culm bench step`, None where it has no such model. batch, context: unless asked otherwise.
# layouts: memory formats to try. compiles: whether torch.compile takes it in reasonable time. part: the whole step, or only
# "layer": forward and backward of a layer, inputs' gradients too, from a given gradient; "optimizer": its step.
Model = collections.namedtuple("Model", "culm batch context build layouts compiles part", defaults=["whole"])


# --- GPT-2 ---


class GptBlock(nn.Module):
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


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocab, positions, dropout):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(GptBlock(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def gpt(layers, width, heads, vocab, positions):
    def build(batch, context, dropout):
        model = Gpt(layers, width, heads, vocab, max(positions, context), 0.1 if dropout is None else dropout)
        return model, [torch.randint(vocab, (batch, context)) for _ in range(2)]

    return build


# --- BERT ---


class BertSparse(nn.Module):
    """transformers' BertForPreTraining; the decoder sees only the rows of masked positions."""

    def __init__(self, dropout):
        super().__init__()
        from transformers import BertConfig, BertForPreTraining

        self.model = BertForPreTraining(BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
                                                   attn_implementation="sdpa"))

    def forward(self, tokens, types, mask, positions, targets, follows):
        bert, heads = self.model.bert, self.model.cls
        out = bert(input_ids=tokens, token_type_ids=types, attention_mask=mask)
        x = out.last_hidden_state
        rows = x.gather(1, positions[:, :, None].expand(-1, -1, x.shape[2]))
        words = F.cross_entropy(heads.predictions(rows).flatten(0, 1), targets.flatten())
        return words + F.cross_entropy(heads.seq_relationship(out.pooler_output), follows)


def bert(batch, context, dropout):
    model = BertSparse(0.1 if dropout is None else dropout)
    masked = math.ceil(0.15 * context)
    tokens, targets = torch.randint(30522, (batch, context)), torch.randint(30522, (batch, masked))
    positions = torch.stack([torch.randperm(context)[:masked] for _ in range(batch)])
    types, follows = torch.randint(2, (batch, context)), torch.randint(2, (batch,))
    return model, [tokens, types, torch.ones(batch, context, dtype=torch.long), positions, targets, follows]


# --- images ---


class Classify(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images), labels)


def image(name):
    def build(batch, _, dropout):
        import torchvision

        options = {} if dropout is None or name.startswith("resnet") else {"dropout": dropout}
        model = Classify(getattr(torchvision.models, name)(weights=None, **options))
        return model, [torch.randn(batch, 3, 224, 224), torch.randint(1000, (batch,))]

    return build


# --- LSTM, GNMT ---


LSTM_WIDTH = 1024


class Lstm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def lstm(batch, context, _):
    """One layer; the batch is its input and the gradient of its output."""
    shape = (batch, context, LSTM_WIDTH)
    return Lstm(LSTM_WIDTH), [torch.randn(shape, requires_grad=True), torch.randn(shape)]


class Attention(nn.Module):
    """Normalised Bahdanau attention."""

    def __init__(self, n):
        super().__init__()
        self.query, self.key = nn.Linear(n, n, bias=False), nn.Linear(n, n, bias=False)
        self.v, self.scale = nn.Parameter(torch.randn(n)), nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(n))

    def forward(self, x, memory):
        pair = self.query(x)[:, :, None] + self.key(memory)[:, None] + self.bias
        scores = torch.tanh(pair) @ (self.scale * self.v / self.v.norm())
        return scores.softmax(-1).to(memory.dtype) @ memory


class Gnmt(nn.Module):
    def __init__(self, layers, n, vocab, share, dropout):
        super().__init__()
        self.source = nn.Embedding(vocab, n)
        self.target = self.source if share else nn.Embedding(vocab, n)
        self.drop = nn.Dropout(dropout)
        self.both = nn.LSTM(n, n, batch_first=True, bidirectional=True)
        self.encoder = nn.ModuleList(nn.LSTM(n * (1 + (i == 0)), n, batch_first=True) for i in range(layers - 1))
        self.first, self.attention = nn.LSTM(n, n, batch_first=True), Attention(n)
        self.decoder = nn.ModuleList(nn.LSTM(2 * n, n, batch_first=True) for _ in range(layers - 1))
        self.classifier = nn.Linear(n, vocab)

    def forward(self, source, tokens, targets):
        x = self.both(self.drop(self.source(source)))[0]
        for i, layer in enumerate(self.encoder):
            y = layer(self.drop(x))[0]
            x = y if i == 0 else x + y
        memory = x
        x = self.first(self.drop(self.target(tokens)))[0]
        context = self.attention(x, memory)
        for i, layer in enumerate(self.decoder):
            y = layer(self.drop(torch.cat((x, context), dim=2)))[0]
            x = y if i == 0 else x + y
        return F.cross_entropy(self.classifier(x).flatten(0, 1), targets.flatten(), label_smoothing=0.1)


def gnmt(layers, width, vocab, source, share):
    def build(batch, context, dropout):
        model = Gnmt(layers, width, vocab, share, 0.2 if dropout is None else dropout)
        lengths = [source or context, context, context]
        return model, [torch.randint(vocab, (batch, length)) for length in lengths]

    return build


# --- the optimizer alone ---


class Parameters(nn.Module):
    """Tensors shaped as GPT-2's: nothing but AdamW runs over them."""

    def __init__(self):
        super().__init__()
        block = [(768,)] * 6 + [(2304,), (3072,), (768, 2304), (768, 768), (768, 3072), (3072, 768)]
        shapes = [(50257, 768), (1024, 768), (768,), (768,)] + 12 * block
        self.all = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in shapes)


def adamw(*_):
    model = Parameters()
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    return model, []


PLAIN, VISION = ["plain"], ["plain", "channels_last"]
MODELS = {
    "gpt2": Model("gpt2", 4, 256, gpt(12, 768, 12, 50257, 1024), PLAIN, True),
    "gpt-small": Model("examples/main.yaml", 8, 128, gpt(6, 256, 8, 256, 0), PLAIN, True),
    "bert-base": Model("bert-base", 4, 128, bert, PLAIN, True),
    "resnet18": Model("resnet18", 16, 0, image("resnet18"), VISION, True),
    "resnet50": Model("resnet50", 8, 0, image("resnet50"), VISION, True),
    "vgg16": Model("vgg16", 4, 0, image("vgg16"), VISION, True),
    "alexnet": Model("alexnet", 32, 0, image("alexnet"), VISION, True),
    "lstm": Model(None, 32, 50, lstm, PLAIN, False, "layer"),
    "gnmt-small": Model("examples/gnmt.yaml", 16, 18, gnmt(2, 128, 4096, 16, True), PLAIN, False),
    "gnmt-16": Model("gnmt-16", 4, 50, gnmt(8, 1024, 32320, 50, False), PLAIN, False),
    "adamw": Model(None, 0, 0, adamw, PLAIN, False, "optimizer"),
}
