#!/usr/bin/env python3
"""Golden ids for settings that lie beside the files of a tokenizer, by Hugging Face's `tokenizers`, set up as its programs do it.

usage: make_tokenizer_settings.py OUT     (OUT is tests/golden/data, with tokenizer/ of make_data.py in it)

OUT/tokenizer/settings.json: [{"base": what lies in the folder, "files": {name: text}, "texts": [{"text", "ids"}]}]
"""
import json
import os
import sys

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

BASE = ("The quick brown fox doesn't jump over 1234567 lazy dogs; it's 25% off, isn't it?  Two  spaces,\ttabs\n\n\nand lines. "
        "Caf\u00e9 cafe\u0301 na\u00efve \u00dcber stra\u00dfe \u4f60\u597d\u4e16\u754c \u65e5\u672c\u8a9e \ud55c\uad6d\uc5b4 emoji \U0001F600 \u2014 dash\u2026\n")
# The texts of cases that are awkward, short, as far as they are text; and what settings are about.
TEXTS = {
    "crlf": BASE.replace("\n", "\r\n"), "bom": "\ufeff" + BASE, "nul": BASE.replace("lazy", "la\0zy"), "one word": "a" * 120, "only spaces": " " * 90,
    "only line breaks": "\n" * 40, "controls": BASE.replace(" ", "\x01\x0b\x0c\x1f\x7f\x85 "),
    "accents": "\u00c5ngstr\u00f6m \u0130stanbul \u1e9e \u01c5 \u03a3\u03b1\u03c2 \u1f48 e\u0301\u0302 \u0e01\u0e33 \ufb01 \u2160 \u00aa " * 3,
    "cjk": "\u6f22\u5b57\u304b\u306a\u30ab\u30ca\u3000\uac00\ub098 \U00020000 \u3400 \uf900 \u3001\u3002\uff01" * 3,
    "spaces of all kinds": "".join("x%sy" % c for c in "\u0009\u00a0\u1680\u2000\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff\u00ad\u2060"),
    "special tokens": "a<|endoftext|>b [MASK] [CLS][SEP] x[UNK] [mask] <|endoftext |> <|EndOfText|>" * 3,
    "settings": "one<|im_start|>user\n hello <ent> world<ent>s  <|im_end|>[NEW] x[new]y [N\u00c9W] <mask>  <mask>z <|im_ent> <|im_<ent> [MASK]", "empty": "",
}


def bpe(folder, prefix_space=False):
    tokenizer = Tokenizer(models.BPE.from_file(folder + "/bpe/vocab.json", folder + "/bpe/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    return tokenizer


def words(folder, **normal):
    tokenizer = Tokenizer(models.WordPiece.from_file(folder + "/vocab.txt", unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normal)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def special(tokenizer, *tokens):
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) if isinstance(token, str) else token for token in tokens])
    return tokenizer


def added(tokenizer, *tokens):
    tokenizer.add_tokens([AddedToken(token, normalized=True) if isinstance(token, str) else token for token in tokens])
    return tokenizer


def cases(folder):
    size, lines = bpe(folder).get_vocab_size(), words(folder).get_vocab_size()
    end = "<|endoftext|>"
    mask = AddedToken("<mask>", lstrip=True, rstrip=False, normalized=False)
    yield "bpe", {"added_tokens.json": {"<ent>": size, "<|im_start|>": size + 1}}, added(special(bpe(folder), end), "<ent>", "<|im_start|>")
    yield ("bpe", {"added_tokens.json": {"<|im_start|>": size, "<|im_end|>": size + 1, "<ent>": size + 2},
                   "special_tokens_map.json": {"bos_token": end, "eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}},
           added(special(bpe(folder), end, "<|im_start|>", "<|im_end|>"), "<ent>"))
    yield ("bpe", {"tokenizer_config.json": {"add_prefix_space": True, "tokenizer_class": "RobertaTokenizer", "model_max_length": 512,
                                             "bos_token": end, "mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False},
                                             "added_tokens_decoder": {str(size): {"content": "<mask>", "lstrip": True, "rstrip": False,
                                                                                  "normalized": False, "single_word": False, "special": True}}}},
           special(bpe(folder, True), end, mask))
    yield "vocab.txt", {"added_tokens.json": {"[NEW]": lines, "<ent>": lines + 1}}, added(words(folder, lowercase=True), "[NEW]", "<ent>")
    yield ("vocab.txt", {"tokenizer_config.json": {"do_lower_case": False, "tokenizer_class": "BertTokenizer", "strip_accents": None,
                                                   "tokenize_chinese_chars": True, "unk_token": "[UNK]", "never_split": None}},
           words(folder, lowercase=False, strip_accents=False))
    yield ("vocab.txt", {"tokenizer_config.json": {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False,
                                                   "added_tokens_decoder": {str(lines): {"content": "[NEW]", "special": True}}}},
           special(words(folder, lowercase=True, strip_accents=False, handle_chinese_chars=False), "[NEW]"))
    yield ("bpe.json", {"tokenizer_config.json": {"add_prefix_space": False, "eos_token": end, "chat_template": "{{ x }}",
                                                  "added_tokens_decoder": {str(size): {"content": "<ent>", "special": False, "normalized": True}}}},
           added(Tokenizer.from_file(folder + "/bpe.json"), "<ent>"))


if len(sys.argv) != 2:
    sys.exit(__doc__)
made = []
for base, files, tokenizer in cases(sys.argv[1] + "/tokenizer"):
    made.append({"base": base, "files": {name: json.dumps(value) for name, value in files.items()},
                 "texts": [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in TEXTS.values()]})
with open(os.path.join(sys.argv[1], "tokenizer", "settings.json"), "w", encoding="ascii") as out:
    json.dump(made, out, separators=(",", ":"))
    out.write("\n")
