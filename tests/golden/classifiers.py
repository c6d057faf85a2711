"""torchvision's classifiers with few channels, for make_classifiers.py (golden vectors) and make_onnx.py (exports)."""
import torch
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.densenet import DenseNet
from torchvision.models.inception import BasicConv2d
from torchvision.models.shufflenetv2 import ShuffleNetV2
from torchvision.models.vision_transformer import VisionTransformer

CLASSES, IMAGE, BATCH = 5, 32, 4


class Inception(torch.nn.Module):
    """What Inception v3 is made of: kernels of 1 x 3 and 3 x 1, average pooling inside, branches that branch again."""

    def __init__(self):
        super().__init__()
        self.stem = BasicConv2d(3, 6, kernel_size=3, stride=2)
        self.one = BasicConv2d(6, 4, kernel_size=1)
        self.wide = BasicConv2d(4, 5, kernel_size=(1, 3), padding=(0, 1))
        self.high = BasicConv2d(4, 5, kernel_size=(3, 1), padding=(1, 0))
        self.pool = BasicConv2d(6, 3, kernel_size=1)
        self.down = BasicConv2d(17, 7, kernel_size=3, stride=2)
        self.dropout = torch.nn.Dropout(0.5)
        self.fc = torch.nn.Linear(24, CLASSES)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(self.stem(x), kernel_size=3, stride=2)
        one = self.one(x)
        branch = torch.cat([self.wide(one), self.high(one)], 1)
        pooled = self.pool(torch.nn.functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        x = torch.cat([one, branch, pooled], 1)
        x = torch.cat([self.down(x), torch.nn.functional.max_pool2d(x, kernel_size=3, stride=2)], 1)
        x = torch.nn.functional.adaptive_avg_pool2d(x, (1, 1))
        return self.fc(torch.flatten(self.dropout(x), 1))


def build(name, dropout):
    """`dropout`: as exported; golden vectors are made without."""
    p = 0.1 if dropout else 0.0
    if name == "vit":
        return VisionTransformer(IMAGE, 16, 2, 2, 8, 16, dropout=p, attention_dropout=p, num_classes=CLASSES)
    if name == "convnext":
        return ConvNeXt([CNBlockConfig(6, 10, 1), CNBlockConfig(10, None, 2)], stochastic_depth_prob=p, num_classes=CLASSES)
    if name == "densenet":
        return DenseNet(4, (9, 2), 6, bn_size=1, drop_rate=p, num_classes=CLASSES)
    if name == "shufflenet":
        return ShuffleNetV2([2, 1, 1], [4, 8, 12, 16, 20], num_classes=CLASSES)
    model = Inception()
    model.dropout.p = 0.5 if dropout else 0.0
    return model


NAMES = ["vit", "convnext", "densenet", "shufflenet", "inception"]
