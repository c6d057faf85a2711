#!/usr/bin/env python3
"""Makes alexnet.safetensors: what torchvision's AlexNet of a few channels says.

    python3 make_alexnet.py alexnet.safetensors
"""
import torch
from torchvision.models import AlexNet

import golden

WIDTH, HIDDEN, CLASSES, IMAGE, POOL, BATCH = 4, 24, 5, 64, 2, 4

model = AlexNet(num_classes=CLASSES, dropout=0.0)
inputs = 3
for i, layer in enumerate(model.features):
    if isinstance(layer, torch.nn.Conv2d):
        out = layer.out_channels * WIDTH // 64
        model.features[i] = torch.nn.Conv2d(inputs, out, layer.kernel_size, layer.stride, layer.padding)
        inputs = out
model.avgpool = torch.nn.AdaptiveAvgPool2d(POOL)
model.classifier[1] = torch.nn.Linear(inputs * POOL * POOL, HIDDEN)
model.classifier[4] = torch.nn.Linear(HIDDEN, HIDDEN)
model.classifier[6] = torch.nn.Linear(HIDDEN, CLASSES)
golden.randomize(model, 17)
golden.classify(model, IMAGE, BATCH, CLASSES, [0.02, 5e-3])
