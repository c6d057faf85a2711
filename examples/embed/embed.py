#!/usr/bin/env python3
"""Trains a model and runs it, by ctypes on NumPy arrays.

    python3 embed.py CONFIG.yaml DIR [LIBRARY]
"""
import ctypes
import sys
from ctypes import Structure, byref, c_bool, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

if len(sys.argv) not in (3, 4):
    print(f"usage: {sys.argv[0]} CONFIG.yaml DIR [LIBRARY]", file=sys.stderr)
    sys.exit(2)
try:
    import numpy
except ImportError:
    print("embed.py: there is no NumPy; install python3-numpy", file=sys.stderr)
    sys.exit(4)


class Error(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


EVENT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class TrainingOptions(Structure):
    _fields_ = [("size", c_size_t), ("dir", c_char_p), ("resume", c_bool), ("program", c_char_p), ("program_arguments", c_void_p),
                ("plan", c_char_p), ("event", EVENT), ("warning", EVENT), ("context", c_void_p)]


class ArrayInfo(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("dtype", c_int), ("rank", c_int32), ("shape", c_int64 * 8),
                ("bytes", c_uint64)]


DTYPES = {1: numpy.float32, 2: numpy.int32}


def load(name):
    try:
        culm = ctypes.CDLL(name)
    except OSError as why:
        print(f"embed.py: {why}; name the library as the last argument", file=sys.stderr)
        sys.exit(4)
    for free in ("culm_training_free", "culm_config_free", "culm_model_free"):
        getattr(culm, free).argtypes = [c_void_p]
        getattr(culm, free).restype = None
    culm.culm_model_input_count.argtypes = [c_void_p]
    return culm


def check(culm, status, error):
    if status:
        print(error.text.decode(), file=sys.stderr)
        sys.exit(culm.culm_status_exit_code(status))


def train(culm, path, folder):
    error, config, training, events = Error(), c_void_p(), c_void_p(), []
    check(culm, culm.culm_config_open(path.encode(), byref(config), byref(error)), error)
    on_event = EVENT(lambda context, line: events.append(line))
    options = TrainingOptions(size=ctypes.sizeof(TrainingOptions), dir=folder.encode(), event=on_event)
    check(culm, culm.culm_training_new(config, byref(options), byref(training), byref(error)), error)
    check(culm, culm.culm_training_run(training, byref(error)), error)
    culm.culm_training_free(training)
    culm.culm_config_free(config)
    return events


def array_of(culm, ask, model, index):
    """Zeros of the shape and type that an input or output has."""
    error, info = Error(), ArrayInfo(size=ctypes.sizeof(ArrayInfo))
    check(culm, ask(model, index, byref(info), byref(error)), error)
    return numpy.zeros(info.shape[:info.rank], DTYPES[info.dtype])


def pointers(arrays):
    return (c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def infer(culm, folder):
    error, model = Error(), c_void_p()
    check(culm, culm.culm_model_open(folder.encode(), None, byref(model), byref(error)), error)
    inputs = [array_of(culm, culm.culm_model_input, model, i) for i in range(culm.culm_model_input_count(model))]
    logits = array_of(culm, culm.culm_model_output, model, 0)
    check(culm, culm.culm_model_run(model, pointers(inputs), pointers([logits]), byref(error)), error)
    culm.culm_model_free(model)
    return logits


def main():
    culm = load(sys.argv[3] if len(sys.argv) > 3 else "libculm.so.0")
    events = train(culm, sys.argv[1], sys.argv[2])
    logits = infer(culm, sys.argv[2])
    print(f"{len(events)} events; logits {list(logits.shape)}, largest {logits.max():.4f}")


main()
