#!/usr/bin/env python3
"""Golden pictures: WebP of all kinds, and pictures that say how they are to be turned, by Pillow, whose pixels Culm's equal.

usage: make_pictures.py OUT     (OUT is tests/golden/data; needs pillow and numpy)

OUT/pictures/    the files; OUT/pictures.json: for each the digests of its pixels as they are stored and when it is turned
"""
import json
import os
import struct
import sys

import numpy as np
from PIL import Image, ImageOps

ORIENTATION = 0x0112


def picture(height, width, seed):
    """Something smooth with an edge, so that each corner is another."""
    y, x = np.mgrid[0:height, 0:width]
    base = np.stack([127 + 120 * np.sin(x / 5 + seed), 127 + 120 * np.cos(y / 7 + x / 11), (x * 7 + y * 3) % 256], -1)
    base[height // 3:height // 2, width // 4:width // 2] = [250, 10, 40]
    return Image.fromarray(base.astype(np.uint8))


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def turned(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[0x010F] = "a maker"
    return exif


def big_endian(orientation):
    """An Exif block in the other order of bytes, as many cameras write it."""
    return b"Exif\0\0MM\0*" + struct.pack(">IHHHIHHI", 8, 1, ORIENTATION, 3, 1, orientation, 0, 0)


def save(out):
    os.makedirs(out, exist_ok=True)
    at = lambda name: os.path.join(out, name)
    picture(30, 40, 1).save(at("lossy.webp"), quality=80)
    picture(31, 33, 2).save(at("lossless.webp"), lossless=True)
    alpha = picture(20, 24, 3).convert("RGBA")
    alpha.putalpha(picture(20, 24, 4).getchannel(0))
    alpha.save(at("alpha.webp"), lossless=True, exact=True)
    picture(1, 1, 5).save(at("one.webp"))
    picture(12, 9, 6).save(at("turned.webp"), lossless=True, exif=turned(6))
    picture(12, 9, 7).save(at("turned.png"), exif=turned(8))
    picture(12, 9, 8).convert("L").save(at("grey.png"), exif=turned(3))
    for orientation in range(1, 9):
        picture(13, 9, 9).save(at(f"turned{orientation}.jpg"), quality=90, subsampling=0, exif=turned(orientation))
    picture(13, 9, 10).save(at("big_endian.jpg"), quality=90, exif=big_endian(6))
    picture(13, 9, 11).save(at("plain.jpg"), quality=90)


def cases(out):
    made = []
    for name in sorted(os.listdir(out)):
        image = Image.open(os.path.join(out, name))
        upright = ImageOps.exif_transpose(image).convert("RGB")
        made.append({"path": name, "stored": fnv(image.convert("RGB").tobytes()), "grey": fnv(image.convert("RGB").convert("L").tobytes()),
                     "turned": fnv(upright.tobytes()), "width": upright.width, "height": upright.height})
    return made


if len(sys.argv) != 2:
    sys.exit(__doc__)
save(sys.argv[1] + "/pictures")
with open(sys.argv[1] + "/pictures.json", "w", encoding="ascii") as file:
    json.dump(cases(sys.argv[1] + "/pictures"), file, indent=0)
    file.write("\n")
