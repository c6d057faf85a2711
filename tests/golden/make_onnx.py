#!/usr/bin/env python3
"""Writes onnx/*.onnx: PyTorch's own training exports of the models behind gpt2, bert, resnet and vit.safetensors and so on.

The weights are those of the golden vectors, so the vectors say what an imported file must compute: logits, losses,
gradients. Of each model there is a file by the older exporter (dynamo=False), where that one still manages the model, and by
the newer one; and some of the newer one's variants: its optimizer on, attention written out, free dimensions.

    python3 make_onnx.py            # needs gpt2.safetensors and so on beside it
"""
import contextlib
import io
import os
import sys
import warnings

import onnx
import torch
from safetensors.torch import load_file
from torchvision.models.resnet import BasicBlock, ResNet

import classifiers

FOLDER = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(FOLDER, "onnx")


def load(model, name):
    vectors = load_file(os.path.join(FOLDER, name + ".safetensors"))
    weights = {n[len("weight."):]: t for n, t in vectors.items() if n.startswith("weight.")}
    missing, unknown = model.load_state_dict(weights, strict=False)
    missing = [n for n in missing if not n.endswith(("num_batches_tracked", "position_ids", "lm_head.weight", "decoder.weight",
                                                     "decoder.bias"))]
    assert not unknown and not missing, (unknown, missing)
    model.start = {n: b.clone() for n, b in model.named_buffers() if "running" in n}
    return model.train()


def gpt2(attention="sdpa", dropout=0.1):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, n_positions=16, vocab_size=64, use_cache=False, resid_pdrop=dropout,
                        embd_pdrop=dropout, attn_pdrop=dropout, attn_implementation=attention)
    return load(GPT2LMHeadModel(config), "gpt2")


def bert(attention="sdpa", dropout=0.1):
    from transformers import BertConfig, BertForPreTraining

    config = BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96,
                        max_position_embeddings=16, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
                        attn_implementation=attention)
    return load(BertForPreTraining(config), "bert")


def resnet():
    model = ResNet(BasicBlock, [1, 1, 1, 1])
    model.inplanes = 4
    model.conv1 = torch.nn.Conv2d(3, 4, 7, 2, 3, bias=False)
    model.bn1 = torch.nn.BatchNorm2d(4)
    for s, blocks in enumerate([2, 1, 1, 0]):
        layer = model._make_layer(BasicBlock, 4 << s, blocks, stride=2 if s else 1) if blocks else torch.nn.Identity()
        setattr(model, f"layer{s + 1}", layer)
    model.fc = torch.nn.Linear(16, 5)
    return load(model, "resnet")


def classifier(name):
    return lambda: load(classifiers.build(name, dropout=True), name)


def strip(path, model):
    """Takes away what the exporter notes about where each node comes from, most of the file. The older exporter runs the
    model once, which moves the running statistics: they are put back."""
    file = onnx.load(path)
    for tensor in file.graph.initializer:
        if "running" in tensor.name:
            tensor.raw_data = model.start[tensor.name].numpy().tobytes()
    del file.metadata_props[:], file.graph.metadata_props[:], file.graph.value_info[:]
    for part in list(file.graph.node) + list(file.graph.input) + list(file.graph.output) + list(file.graph.initializer):
        part.ClearField("doc_string")
        del part.metadata_props[:]
    onnx.save(file, path)


def export(name, model, inputs, names, **options):
    path = os.path.join(OUT, name + ".onnx")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(model, inputs, path, input_names=names, external_data=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, **options)
    strip(path, model)
    print(f"{name:16} {os.path.getsize(path):8} bytes")
    assert os.path.getsize(path) < 300_000


warnings.filterwarnings("ignore")
torch.manual_seed(1)
os.makedirs(OUT, exist_ok=True)
words = (torch.randint(64, (2, 16)),)
sentences = (torch.randint(1, 50, (4, 12)), torch.ones(4, 12, dtype=torch.long), torch.zeros(4, 12, dtype=torch.long))
fields = ["input_ids", "attention_mask", "token_type_ids"]
image = (torch.randn(4, 3, 32, 32),)
only = sys.argv[1:]
for name, make, inputs, names, options in [
    ("gpt2", gpt2, words, fields[:1], dict(dynamo=True, optimize=False)),
    ("gpt2-eager", lambda: gpt2("eager"), words, fields[:1], dict(dynamo=True, optimize=False, opset_version=18)),
    ("gpt2-optimized", gpt2, words, fields[:1], dict(dynamo=True)),
    ("gpt2-opset23", gpt2, words, fields[:1], dict(dynamo=True, optimize=False, opset_version=23)),
    ("gpt2-free", gpt2, words, fields[:1], dict(dynamo=True, optimize=False, dynamic_shapes={"input_ids": {0: "batch", 1: "length"}})),
    ("bert", bert, sentences, fields, dict(dynamo=False, opset_version=14)),
    ("bert-eager", lambda: bert("eager"), sentences, fields, dict(dynamo=False, opset_version=17)),
    ("bert-dynamo", bert, sentences, fields, dict(dynamo=True, optimize=False)),
    ("resnet", resnet, image, ["image"], dict(dynamo=False)),
    ("resnet-dynamo", resnet, image, ["image"], dict(dynamo=True, optimize=False)),
    *((name, classifier(name), image, ["image"], dict(dynamo=True, optimize=False)) for name in classifiers.NAMES),
]:
    if not only or name in only:
        try:
            export(name, make(), inputs, names, **options)
        except Exception as e:
            print(name, "failed", type(e), str(e)[:300])
