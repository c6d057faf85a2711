#!/usr/bin/env python3
"""Trains and infers with libculm by ctypes.

    python3 embed.py CONFIG.yaml DIR [LIBRARY]

Arrays are any objects with the buffer protocol; array.array stands for numpy.ndarray here (`array.ctypes.data` there).
"""
import array
import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p


class Error(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


EVENT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class TrainingOptions(Structure):
    _fields_ = [("size", c_size_t), ("dir", c_char_p), ("resume", c_bool), ("program", c_char_p), ("program_arguments", c_void_p),
                ("plan", c_char_p), ("event", EVENT), ("warning", EVENT), ("context", c_void_p)]


class ArrayInfo(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("dtype", c_int), ("rank", c_int32), ("shape", c_int64 * 8),
                ("bytes", c_uint64)]


def check(status, error):
    if status:
        sys.exit(error.text.decode())


def train(culm, path, folder):
    error, config, training, events = Error(), c_void_p(), c_void_p(), []
    check(culm.culm_config_open(path.encode(), byref(config), byref(error)), error)
    on_event = EVENT(lambda context, line: events.append(line))
    options = TrainingOptions(size=ctypes.sizeof(TrainingOptions), dir=folder.encode(), event=on_event)
    check(culm.culm_training_new(config, byref(options), byref(training), byref(error)), error)
    check(culm.culm_training_run(training, byref(error)), error)
    culm.culm_training_free(training)
    culm.culm_config_free(config)
    return events


def infer(culm, folder):
    error, model = Error(), c_void_p()
    check(culm.culm_model_open(folder.encode(), None, byref(model), byref(error)), error)
    info = ArrayInfo(size=ctypes.sizeof(ArrayInfo))
    check(culm.culm_model_input(model, 0, byref(info), byref(error)), error)
    tokens = array.array("i", [ord("a")] * (info.bytes // 4))
    check(culm.culm_model_output(model, 0, byref(info), byref(error)), error)
    logits = array.array("f", [0.0] * (info.bytes // 4))
    inputs = (c_void_p * 1)(tokens.buffer_info()[0])
    outputs = (c_void_p * 1)(logits.buffer_info()[0])
    check(culm.culm_model_run(model, inputs, outputs, byref(error)), error)
    culm.culm_model_free(model)
    return list(info.shape[:info.rank]), logits


def main():
    culm = ctypes.CDLL(sys.argv[3] if len(sys.argv) > 3 else "libculm.so.0")
    for name in ("culm_training_free", "culm_config_free", "culm_model_free"):
        getattr(culm, name).argtypes = [c_void_p]
        getattr(culm, name).restype = None
    events = train(culm, sys.argv[1], sys.argv[2])
    shape, logits = infer(culm, sys.argv[2])
    print(f"{len(events)} events; logits {shape}, largest {max(logits):.4f}")


main()
