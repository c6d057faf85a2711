#!/usr/bin/env python3
"""Golden data for the data room: tokenizers and images, by the programs whose results Culm's equal.

usage: make_data.py OUT     (OUT is tests/golden/data; needs tokenizers, torchvision, pillow, and `bible` of bible-kjv)

OUT/tokenizer/   bpe/ (vocab.json, merges.txt), bpe.json, bpe_prefix.json, wordpiece.json, vocab.txt, cases.json
OUT/images/      0_grey/ 1_colour/ 2_odd/: JPEG and PNG files of many kinds; cases.json beside them in OUT
"""
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, decoders, trainers
import torchvision.transforms as T

TRICKY = [
    "", " ", "  ", "a", " a", "  a", "a ", "a  ", "Hello, world!", "In the beginning God created the heaven and the earth.",
    "I'm you're he's we've they'll I'd don't", "I'M YOU'RE 'S 'T 'RE 'x 's't", "it''s ' s 'sofa '", "don\u2019t",
    "12345 3.14 1,000 x86_64 2nd", "\u0661\u0662\u0663 \u2167 \u00bd\u00b2 \u2460", "a1b2c3", "\t\ttab\n\nnew\r\nline \n x\n",
    "end \n", "\n", " \n ", "\n \n\n  \n a", "a\u00a0b \u00a0 c\u3000d\u2003e", "\u200bzero\u200dwidth\ufeff", "\u0085next",
    "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u0130stanbul \u1e9e", "e\u0301 a\u0308\u0323 decomposed", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002abc\u6f22\u5b57def", "\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4 \uac01", "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea!",
    "mixed\u0301123abc\u0967\u0968 x\u0301", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababab the the the",
    "<|endoftext|>", "one<|endoftext|>two <|endoftext|> three<|endoftext|", "<|endoftext|><|endoftext|>\n", "<pad> [MASK] [SEP]x[CLS]",
    "((((...)))) --- === !!!??? ,,, $5.00 #tag @me %^&*", "`code` \"quoted\" [x](y) {z} ~tilde~ \\n", "\u0000nul\u0001\u007f", "\u2028line\u2029para",
    "unaffable UNAFFABLE \u00dcn\u00e4ff\u00c4ble", "q" * 120 + " word", "\u00ad soft\u00adhyphen", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u03a3\u0391\u03a3 \u03c3\u03b1\u03c2 \u00df",
    " leading and trailing ", "a\u0300\u0301\u0302b", "\ufb01ne \uff21\uff22", "x\u0338\u0338 \u1100\u1161",
    "And it came to pass in those days, that there went out a decree from Caesar Augustus, that all the world should be taxed.",
]


def kjv():
    return subprocess.run(["bible", "-f", "gen1:1-gen20:18"], capture_output=True, text=True, check=True).stdout


def tokenizer_cases(out):
    os.makedirs(out + "/bpe", exist_ok=True)
    text = kjv().splitlines() + TRICKY[5:12] * 3
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(text, trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>"], show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    bpe.save(out + "/bpe.json", pretty=False)
    bpe.model.save(out + "/bpe")
    spaced = Tokenizer.from_file(out + "/bpe.json")
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    spaced.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), "<pad>"])
    spaced.save(out + "/bpe_prefix.json", pretty=False)

    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.decoder = decoders.WordPiece()
    words.train_from_iterator(text + TRICKY, trainers.WordPieceTrainer(vocab_size=700, show_progress=False,
                              special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    words.save(out + "/wordpiece.json", pretty=False)
    vocab = sorted(words.get_vocab().items(), key=lambda entry: entry[1])
    with open(out + "/vocab.txt", "w", encoding="utf-8") as file:
        file.write("".join(token + "\n" for token, _ in vocab))

    # pieces of random characters of all kinds find what nobody thought of
    rng = random.Random(7)
    alphabet = [chr(c) for c in list(range(1, 0x180)) + [0x301, 0x308, 0x391, 0x3c2, 0x410, 0x5d0, 0x627, 0x661, 0x967, 0x1100,
                0x1161, 0x2009, 0x200d, 0x2026, 0x20ac, 0x2160, 0x3000, 0x3042, 0x4e2d, 0xac00, 0xfeff, 0x1f600, 0x20001]]
    cases = TRICKY + ["".join(rng.choice(alphabet + [" "] * 80 + list("etaoins'") * 12) for _ in range(rng.randint(1, 60))) for _ in range(60)]
    cases += [line + "<mask> x<mask>" for line in kjv().splitlines()[:6]]
    result = []
    for case in cases:
        result.append({"text": case.replace("\0", ""), "bpe": bpe.encode(case.replace("\0", "")).ids,
                       "prefix": spaced.encode(case.replace("\0", "")).ids, "wordpiece": words.encode(case.replace("\0", "")).ids})
    with open(out + "/cases.json", "w", encoding="ascii") as file:
        json.dump(result, file, separators=(",", ":"))


def picture(height, width, seed):
    """Something smooth with edges and noise, so that every filter shows."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    base = np.stack([127 + 120 * np.sin(x / 5 + seed), 127 + 120 * np.cos(y / 7 + x / 11), (x * 7 + y * 3) % 256], -1)
    base[height // 3:height // 2, width // 4:width // 2] = [250, 10, 40]
    return np.clip(base + rng.normal(0, 9, base.shape), 0, 255).astype(np.uint8)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def interlaced(pixels):
    """A PNG in Adam7's seven passes, which Pillow reads but does not write."""
    rows = b""
    for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        rows += b"".join(b"\0" + row.tobytes() for row in pixels[y::dy, x::dx] if row.size)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def save_images(out):
    for folder in ("0_grey", "1_colour/deeper", "2_odd"):
        os.makedirs(f"{out}/{folder}", exist_ok=True)
    rgb = lambda h, w, s: Image.fromarray(picture(h, w, s))
    rgb(30, 40, 1).convert("L").save(out + "/0_grey/a.png")
    rgb(45, 33, 2).convert("L").save(out + "/0_grey/b.jpg", quality=80)
    rgb(32, 28, 3).convert("1").save(out + "/0_grey/c.png")
    rgb(64, 64, 4).save(out + "/1_colour/a.png")
    rgb(48, 61, 5).save(out + "/1_colour/b.jpg", quality=90)
    rgb(61, 48, 6).save(out + "/1_colour/c.JPEG", quality=70, progressive=True, subsampling=2)
    rgb(33, 90, 7).save(out + "/1_colour/deeper/d.jpg", quality=95, subsampling=0)
    rgb(20, 20, 8).save(out + "/1_colour/e.jpg", quality=85, subsampling=1)
    rgb(40, 40, 9).quantize(17).save(out + "/2_odd/palette.png")
    alpha = rgb(36, 50, 10).convert("RGBA")
    alpha.putalpha(Image.fromarray(picture(36, 50, 11)[:, :, 0]))
    alpha.save(out + "/2_odd/alpha.png")
    rgb(34, 44, 12).convert("CMYK").save(out + "/2_odd/cmyk.jpg", quality=90)
    rgb(31, 29, 13).convert("LA").save(out + "/2_odd/grey_alpha.png")
    rgb(3, 200, 14).save(out + "/2_odd/thin.png")
    rgb(1, 1, 15).save(out + "/2_odd/one.png")
    with open(out + "/2_odd/interlaced.png", "wb") as file:
        file.write(interlaced(picture(35, 37, 16)))
    open(out + "/2_odd/notes.txt", "w").write("no image\n")


def image_cases(out):
    save_images(out + "/images")
    cases = []
    for folder, _, names in sorted(os.walk(out + "/images")):
        for name in sorted(names):
            if name.endswith(".txt"):
                continue
            path = os.path.join(folder, name)
            case = {"path": os.path.relpath(path, out + "/images")}
            for mode, channels in (("RGB", 3), ("L", 1)):
                image = Image.open(path).convert(mode)
                if name == "alpha.png" and channels == 1:
                    image = Image.open(path).convert("RGB").convert("L")
                case[f"decoded{channels}"] = fnv(image.tobytes())
                mean, std = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]) if channels == 3 else ([0.5], [0.25])
                to_tensor = [T.ToTensor(), T.Normalize(mean, std)]
                for key, size, window in (("same", 32, (32, 28)), ("larger", 50, (32, 32)), ("up", 224, (224, 224))):
                    crop = T.Compose([T.Resize(size, antialias=True), T.CenterCrop(window)] + to_tensor)
                    case[f"{key}{channels}"] = fnv(np.ascontiguousarray(crop(image).permute(1, 2, 0).numpy()).tobytes())
            cases.append(case)
    with open(out + "/images.json", "w", encoding="ascii") as file:
        json.dump(cases, file, indent=0)


if len(sys.argv) != 2:
    sys.exit(__doc__)
tokenizer_cases(sys.argv[1] + "/tokenizer")
image_cases(sys.argv[1])
