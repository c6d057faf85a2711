"""Small data that models learn from: images, pairs of sentences and token ids. The same seed makes the same bytes."""
import os
import random
import struct


def make_images(folder, size, channels=1, count=96, classes=10, seed=5):
    """IDX files: images whose class shows as a bright bar somewhere."""
    draw = random.Random(seed)
    images, labels = (os.path.join(folder, f"{what}-{size}-{classes}") for what in ("images", "labels"))
    pixels, classes_of = bytearray(), bytearray()
    for _ in range(count):
        label = draw.randrange(classes)
        for y in range(size):
            bright = y * classes // size == label
            pixels += bytes(draw.randrange(160, 256) if bright else draw.randrange(0, 90) for _ in range(size * channels))
        classes_of.append(label)
    with open(images, "wb") as file:
        file.write(struct.pack(">iiiii", 0x804, count, size, size, channels) + pixels)
    with open(labels, "wb") as file:
        file.write(struct.pack(">ii", 0x801, count) + classes_of)
    return [images, labels]


def make_pairs(folder, count=200, seed=6):
    """The target is the source backwards."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("abcdefgh") for _ in range(3)) for _ in range(60)]
    path = os.path.join(folder, "pairs.tsv")
    with open(path, "w", encoding="ascii") as file:
        for _ in range(count):
            source = [draw.choice(words) for _ in range(draw.randint(2, 7))]
            file.write(" ".join(source) + "\t" + " ".join(reversed(source)) + "\n")
    return path


def make_tokens(folder, vocab, count=6000, seed=8):
    """Token ids below a vocabulary; each is often followed by the next one."""
    draw = random.Random(seed)
    path = os.path.join(folder, f"tokens-{vocab}.u16")
    ids = [0]
    while len(ids) < count:
        ids.append((ids[-1] + 1) % vocab if draw.random() < 0.8 else draw.randrange(vocab))
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{count}H", *ids))
    return path
