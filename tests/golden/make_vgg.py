#!/usr/bin/env python3
"""Makes vgg.safetensors and vgg_bn.safetensors: what torchvision's VGG-11 of a few channels says.

    python3 make_vgg.py vgg.safetensors
    python3 make_vgg.py vgg_bn.safetensors
"""
import sys

import torch
from torchvision.models.vgg import VGG, cfgs, make_layers

import golden

WIDTH, HIDDEN, CLASSES, IMAGE, POOL, BATCH = 2, 16, 5, 32, 2, 4

norm = "_bn" in sys.argv[1]
layers = [x if x == "M" else x * WIDTH // 64 for x in cfgs["A"]]
model = VGG(make_layers(layers, batch_norm=norm), num_classes=CLASSES, init_weights=False, dropout=0.0)
model.avgpool = torch.nn.AdaptiveAvgPool2d(POOL)
model.classifier[0] = torch.nn.Linear(8 * WIDTH * POOL * POOL, HIDDEN)
model.classifier[3] = torch.nn.Linear(HIDDEN, HIDDEN)
model.classifier[6] = torch.nn.Linear(HIDDEN, CLASSES)
golden.randomize(model, 13)
golden.classify(model, IMAGE, BATCH, CLASSES, [0.02, 5e-3])
