#!/usr/bin/env python3
"""Writes the seeds of the data room's fuzz targets into corpus/{image,idx,npy,tokenizer,pairs}.

usage: data_corpus.py       (in tests/fuzz; needs tests/golden/data)
"""
import gzip
import json
import os
import struct

GOLDEN = "../golden/data"


def write(target, name, data):
    os.makedirs(f"corpus/{target}", exist_ok=True)
    with open(f"corpus/{target}/{name}", "wb") as file:
        file.write(data)


def images():
    for folder, _, names in os.walk(GOLDEN + "/images"):
        for i, name in enumerate(sorted(names)):
            data = open(os.path.join(folder, name), "rb").read()
            if len(data) < 3100:
                write("image", name.lower(), bytes([i * 37 % 256]) + data)


def idx_files():
    plain = struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 3, 2) + bytes(range(12))
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 4) + b"\0\1\2\3"
    colour = struct.pack(">BBBBIIII", 0, 0, 8, 4, 1, 2, 2, 3) + bytes(12)
    for name, data in (("images", plain), ("labels", labels), ("colour", colour)):
        write("idx", name, data)
        write("idx", name + ".gz", gzip.compress(data, 9, mtime=0))
    write("idx", "large", struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1))
    write("idx", "large.gz", gzip.compress(struct.pack(">BBBBIII", 0, 0, 8, 3, 60000, 28, 28), 9, mtime=0))
    write("idx", "floats", struct.pack(">BBBBI", 0, 0, 13, 1, 1) + bytes(4))


def npy(version, header, body):
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + body


def npy_files():
    good = b"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }     \n"
    write("npy", "u2", npy(1, good, bytes(6)))
    write("npy", "u4", npy(2, good.replace(b"u2", b"u4"), bytes(12)))
    write("npy", "i8", npy(3, good.replace(b"u2", b"i8"), bytes(24)))
    write("npy", "u1", npy(1, b'{"shape": (3,), "fortran_order": False, "descr": "|u1"}', bytes(3)))
    write("npy", "fortran", npy(1, good.replace(b"False", b"True"), bytes(6)))
    write("npy", "float", npy(1, good.replace(b"<u2", b"<f8"), bytes(24)))
    write("npy", "matrix", npy(1, good.replace(b"(3,)", b"(3, 1)"), bytes(6)))
    write("npy", "structured", npy(1, b"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,)}", bytes(6)))


def byte_characters():
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = iter(range(256, 512))
    return [chr(byte if byte in kept else next(rest)) for byte in range(256)]


def tokenizers():
    text = b"the <|x|> theatre's 12 \xe2\x82\xac\n\n  x"
    vocab = {char: i for i, char in enumerate(byte_characters())}
    for i, token in enumerate(("th", "the", "\u0120the", "tt")):
        vocab[token] = 256 + i
    merges = "#version: 0.2\nt h\nth e\n\u0120 the\nt t\n"
    pack = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    write("tokenizer", "vocab_merges", pack(vocab) + b"\xff" + text + b"\xff" + merges.encode())
    model = {"type": "BPE", "dropout": None, "vocab": vocab, "merges": [["t", "h"], ["th", "e"], "\u0120 the"]}
    whole = {"added_tokens": [{"id": 300, "content": "<|x|>", "special": True, "lstrip": True}], "normalizer": None,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "model": model}
    write("tokenizer", "bpe_json", pack(whole) + b"\xff" + text)
    whole["added_tokens"][0]["lstrip"] = False
    write("tokenizer", "bpe_exact_json", pack(whole) + b"\xff" + text)
    words = {"added_tokens": [{"id": 0, "content": "[X]", "special": True}], "normalizer": {"type": "BertNormalizer", "lowercase": True,
             "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}, "pre_tokenizer": {"type": "BertPreTokenizer"},
             "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[X]": 0, "[UNK]": 1, "the": 2, "##a": 3, "t": 4, "##tre": 5}}}
    write("tokenizer", "wordpiece_json", pack(words) + b"\xffThe[X] th\xc3\xa9atre \xe4\xbd\xa0 \xc4\xb0!")
    write("tokenizer", "wordpiece_text", b"[PAD]\n[UNK]\nthe\n##a\n\xffThe thea")
    write("tokenizer", "words_text", b"<pad>\r\n<unk>\r\nthe\r\n\xffthe cat")
    write("tokenizer", "unigram", b'{"model":{"type":"Unigram","vocab":[["a",0.0]]}}')


def pairs():
    write("pairs", "plain", b"\x27a b c\tx y z\nd\te\n\n a b\tx y\tmore\r\n")
    write("pairs", "no_tab", b"\x10a b c\tx\nabc\n")
    write("pairs", "empty_side", b"\x10a\t \n")
    write("pairs", "no_newline", b"\xffa a a a a a a a a a a a a\tb b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b")
    write("pairs", "bytes", b"\x55\xff\xfe\t\xc3\n\xe3\x80\x80x\ty\xc2\xa0z\n")


images()
idx_files()
npy_files()
tokenizers()
pairs()
