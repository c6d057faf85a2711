#!/usr/bin/env python3
"""Writes exact_cases.h: arguments and correctly rounded values, computed with 300 bits and more.

usage: exact_cases.py > exact_cases.h          needs mpmath (https://mpmath.org)

Most arguments are such that this machine's libm is wrong in the last bit, half of them with its
variant for processors with FMA and half with the other one. The values come from mpmath alone.
"""
import ctypes
import math
import os
import random
import struct
import subprocess
import sys

import mpmath
from mpmath import mpf

EACH = 12  # hard arguments of a function and variant
NO_FMA = "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2"
RANGES = {"exp": (-20, 2), "log": (1e-12, 1), "sin": (0, 6.2831853), "cos": (0, 6.2831853),
          "tanh": (-4, 4), "erf": (-4, 4)}
EDGES = {
    "exp": [0.0, -0.0, 5e-324, 2.0**-53, -2.0**-54, 1.0, -1.0, 709.782712893384, 709.7827128933841,
            -708.4, -745.1, -745.2, 1e300, -1e300],
    "log": [5e-324, 2.0**-1022, 1.0, 1 - 2.0**-53, 1 + 2.0**-52, 2.0, 1.7976931348623157e308],
    "sin": [0.0, -0.0, 5e-324, -1e-8, 0.78, 0.7853981633974484, math.pi, -math.pi, 1e5, 1e22,
            6381956970095103 * 2.0**797, 1.7976931348623157e308],
    "cos": [0.0, 5e-324, 0.78, math.pi / 2, -math.pi / 2, math.pi, 1e5, 1e22,
            6381956970095103 * 2.0**797, 1.7976931348623157e308],
    "tanh": [0.0, -0.0, 5e-324, 1e-8, -1e-8, 0.25, 19.0, 19.1, -22.0, 39.9, 1e300],
    "erf": [0.0, -0.0, 5e-324, 1e-8, -1e-8, 0.5, 5.8, 5.9, 5.95, -6.0, 1e300],
}
# Exact powers, and powers in the middle of two numbers.
POWERS = [(3.0, 2.0), (2.0, 0.5), (4.0, 0.5), (-3.0, 3.0), (-2.0, -3.0), (10.0, -2.0),
          (134217727.0, 2.0), (134217725.0, 2.0), (-100663297.0, 2.0), (262143.0**2, 1.5),
          (262139.0**2, 1.5), (2.0, 1023.0), (2.0, -1074.0), (0.9, 1.0), (0.999, 1e6), (1.5, 2000.0),
          (1 + 2.0**-52, 2.0**52), (7.0, 0.3333333333333333)]
# Words whose normal numbers are so near to the middle of two floats that an error of the last bit of
# libm decides; found by trying.
PAIRS = [(0x15f8c982, 0x4c4d81d4), (0x0d0d0362, 0x35fa900b), (0x111bfe25, 0x2f4f8ab6),
         (0x056ce06f, 0xb5a784c7), (0x09a667dd, 0x25c06f30), (0x16a2f84a, 0xc58759f4),
         (0x13f96416, 0xa4da6a6c), (0, 0), (0xffffffff, 0x3fffffff), (0xffffffff, 0x7fffffff),
         (0xffffffff, 0xffffffff), (0x80000000, 0x80000000)]


def rounded(value):
    """The nearest float64, ties to even."""
    if value == 0:
        return 0.0
    exponent = max(mpmath.frexp(value)[1] - 53, -1074)
    whole = int(mpmath.nint(mpmath.ldexp(value, -exponent)))
    if exponent > 971 or (exponent == 971 and abs(whole) >= 2**53):
        return math.copysign(math.inf, whole)
    return math.ldexp(whole, exponent)


def exact(name, x, y=0.0):
    with mpmath.workprec(1500 if name in ("sin", "cos") else 300):
        if name == "pow":
            return rounded(mpmath.power(mpf(x), mpf(y)))
        if x == 0 and name in ("sin", "tanh", "erf"):
            return x
        if name == "exp" and abs(x) > 800:
            return math.inf if x > 0 else 0.0
        if name in ("tanh", "erf") and abs(x) > 6 and (name == "erf" or abs(x) > 40):
            return math.copysign(1.0, x)
        return rounded(getattr(mpmath, name)(mpf(x)))


def libm(rows):
    """This process's libm of (name, x, y)."""
    lib = ctypes.CDLL("libm.so.6")
    values = []
    for name, x, y in rows:
        function = getattr(lib, name)
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_double] * (2 if name == "pow" else 1)
        values.append(function(x, y) if name == "pow" else function(x))
    return values


def other_libm(rows):
    raw = b"".join(name.encode().ljust(8) + struct.pack("<2d", x, y) for name, x, y in rows)
    out = subprocess.run([sys.executable, __file__, "libm"], input=raw, stdout=subprocess.PIPE,
                         check=True, env=dict(os.environ, GLIBC_TUNABLES=NO_FMA)).stdout
    return list(struct.unpack(f"<{len(rows)}d", out))


def serve():
    raw = sys.stdin.buffer.read()
    rows = [(raw[i:i + 8].decode().strip(), *struct.unpack("<2d", raw[i + 8:i + 24]))
            for i in range(0, len(raw), 24)]
    sys.stdout.buffer.write(struct.pack(f"<{len(rows)}d", *libm(rows)))


def hard(rows, each):
    """Those rows that a variant of libm has wrong, at most `each` of each variant."""
    found = []
    for values in (libm(rows), other_libm(rows)):
        wrong = 0
        for row, value in zip(rows, values):
            if wrong < each and row not in found and value != exact(*row):
                found.append(row)
                wrong += 1
    return found


def functions(random_):
    rows = [("pow", x, y) for x, y in POWERS]
    for name, (low, high) in RANGES.items():
        rows += [(name, x, 0.0) for x in EDGES[name]]
        rows += hard([(name, random_.uniform(low, high), 0.0) for _ in range(30000)], EACH)
    rows += hard([("pow", 0.9 + 0.0999 * random_.random(), float(random_.randrange(1, 100000)))
                  for _ in range(30000)], EACH)
    print("static const struct {\n    const char *name;\n    double x, y, value;\n} exact_cases[] = {")
    for name, x, y in rows:
        value = exact(name, x, y)
        value = "INFINITY" if value == math.inf else value.hex()
        print(f'    {{"{name}", {x.hex()}, {y.hex()}, {value}}},')
    print("};\n")


def normals():
    print("static const struct {\n    uint32_t a, b;\n    double std;\n    float x, y;\n} normal_cases[] = {")
    for a, b in PAIRS:
        u, angle, std = (a + 0.5) * 2.0**-32, 2 * math.pi * (b + 0.5) * 2.0**-32, 0.02
        radius = std * math.sqrt(-2 * exact("log", u))
        x, y = (struct.unpack("<f", struct.pack("<f", radius * exact(name, angle)))[0]
                for name in ("cos", "sin"))
        print(f"    {{{a:#010x}, {b:#010x}, {std.hex()}, {x.hex()}f, {y.hex()}f}},")
    print("};\n")


def corrections():
    rows = hard([("pow", beta, float(step)) for beta in (0.9, 0.95, 0.98, 0.99, 0.999)
                 for step in range(1, 20000)], 8)
    print("/* 1 - beta^step */\nstatic const struct {\n    double beta;\n    int64_t step;\n"
          "    double value;\n} correction_cases[] = {")
    for _, beta, step in rows:
        print(f"    {{{beta}, {int(step)}, {(1 - exact('pow', beta, step)).hex()}}},")
    print("};\n")


def falls():
    rows = hard([("pow", gamma / 1000, float(count)) for gamma in range(100, 999)
                 for count in range(2, 60)], 6)
    print("/* gamma^falls */\nstatic const struct {\n    double gamma;\n    int64_t falls;\n"
          "    double value;\n} fall_cases[] = {")
    for _, gamma, count in rows:
        print(f"    {{{gamma}, {int(count)}, {exact('pow', gamma, count).hex()}}},")
    print("};\n")


def cosines():
    """Of a schedule from 1 to 0 without warm-up."""
    rows = [(steps, step) for steps in (1000, 7000, 30011) for step in range(1, steps)]
    wrong = hard([("cos", math.pi * (step / steps), 0.0) for steps, step in rows], 24)
    print("/* lr 1, min_lr 0, no warm-up */\nstatic const struct {\n    int64_t steps, step;\n"
          "    double value;\n} cosine_cases[] = {")
    for steps, step in rows:
        x = math.pi * (step / steps)
        if ("cos", x, 0.0) in wrong:
            print(f"    {{{steps}, {step}, {(1 / 2 * (1 + exact('cos', x))).hex()}}},")
    print("};\n")


def main():
    if sys.argv[1:] == ["libm"]:
        return serve()
    print("/* Correctly rounded values, made by exact_cases.py; not from a libm. */")
    print("#ifndef CULM_TESTS_EXACT_CASES_H\n#define CULM_TESTS_EXACT_CASES_H\n")
    print("/* clang-format off */\n#include <math.h>\n#include <stdint.h>\n")
    functions(random.Random(7))
    normals()
    corrections()
    falls()
    cosines()
    print("#endif")


main()
