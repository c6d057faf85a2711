#!/usr/bin/env python3
"""Makes vit.safetensors and others that are only read as ONNX files: what torchvision's classifiers of a few channels say.

    python3 make_classifiers.py vit.safetensors          # or convnext, densenet, shufflenet, inception
"""
import os
import sys

import classifiers
import golden

# Seeds and rates with which PyTorch's own float32 stays near its float64 for ten steps.
CHOSEN = {"densenet": (16, 0.002), "shufflenet": (21, 0.002)}

name = os.path.splitext(os.path.basename(sys.argv[1]))[0]
seed, rate = CHOSEN.get(name, (11, 0.05))
model = classifiers.build(name, dropout=False)
golden.randomize(model, seed)
golden.classify(model, classifiers.IMAGE, classifiers.BATCH, classifiers.CLASSES, [rate, 1e-3])
