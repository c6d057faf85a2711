#!/usr/bin/env python3
"""Makes vit.safetensors and others that are only read as ONNX files: what torchvision's classifiers of a few channels say.

    python3 make_classifiers.py vit.safetensors          # or convnext, densenet, shufflenet, inception
"""
import os
import sys

import classifiers
import golden

model = classifiers.build(os.path.splitext(os.path.basename(sys.argv[1]))[0], dropout=False)
golden.randomize(model, 11)
golden.classify(model, classifiers.IMAGE, classifiers.BATCH, classifiers.CLASSES, [0.05, 1e-3])
