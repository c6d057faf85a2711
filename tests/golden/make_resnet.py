#!/usr/bin/env python3
"""Makes resnet.safetensors and bottleneck.safetensors: what torchvision's ResNet of a few channels says.

    python3 make_resnet.py resnet.safetensors          # basic blocks 2, 1, 1
    python3 make_resnet.py bottleneck.safetensors      # bottlenecks 1, 2
"""
import sys

import torch
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

import golden

WIDTH, CLASSES, IMAGE, BATCH = 4, 5, 32, 4


def build(block, blocks):
    model = ResNet(block, [1, 1, 1, 1])
    model.inplanes = WIDTH
    model.conv1 = torch.nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False)
    model.bn1 = torch.nn.BatchNorm2d(WIDTH)
    for s in range(4):
        layer = torch.nn.Identity()
        if s < len(blocks):
            layer = model._make_layer(block, WIDTH << s, blocks[s], stride=2 if s else 1)
        setattr(model, f"layer{s + 1}", layer)
    model.fc = torch.nn.Linear((WIDTH << (len(blocks) - 1)) * block.expansion, CLASSES)
    return model


model = build(Bottleneck, [1, 2]) if "bottleneck" in sys.argv[1] else build(BasicBlock, [2, 1, 1])
golden.randomize(model, 11)
golden.classify(model, IMAGE, BATCH, CLASSES, [0.05, 1e-3])
