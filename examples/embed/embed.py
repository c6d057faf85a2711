#!/usr/bin/env python3
"""Trains a model and runs it, by ctypes on NumPy arrays.

    python3 embed.py CONFIG.yaml DIR [LIBRARY]
"""
from ctypes import byref, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from culm import TEXT, Sized, arguments, numpy


class TrainingOptions(Sized):
    _fields_ = [("size", c_size_t), ("dir", c_char_p), ("resume", c_bool), ("program", c_char_p), ("program_arguments", c_void_p),
                ("plan", c_char_p), ("event", TEXT), ("warning", TEXT), ("context", c_void_p)]


class ArrayInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("dtype", c_int), ("rank", c_int32), ("shape", c_int64 * 8),
                ("bytes", c_uint64)]


def train(culm, path, folder):
    config, training, events = c_void_p(), c_void_p(), []
    on_event = TEXT(lambda context, line: events.append(line))
    culm.call("culm_config_open", path, byref(config))
    culm.call("culm_training_new", config, byref(TrainingOptions(dir=folder, event=on_event)), byref(training))
    culm.call("culm_training_run", training)
    culm.free("culm_training_free", training)
    culm.free("culm_config_free", config)
    return events


def array_of(culm, function, model, index):
    """Zeros of the shape and type that an input or output has."""
    info = ArrayInfo()
    culm.call(function, model, c_int32(index), byref(info))
    return numpy.zeros(info.shape[:info.rank], {1: numpy.float32, 2: numpy.int32}[info.dtype])


def pointers(arrays):
    return (c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def infer(culm, folder):
    model = c_void_p()
    culm.call("culm_model_open", folder, None, byref(model))
    inputs = [array_of(culm, "culm_model_input", model, i) for i in range(culm.ask("culm_model_input_count", c_int32, model))]
    logits = array_of(culm, "culm_model_output", model, 0)
    culm.call("culm_model_run", model, pointers(inputs), pointers([logits]))
    culm.free("culm_model_free", model)
    return logits


def main():
    path, folder, culm = arguments("CONFIG.yaml DIR")
    events = train(culm, path, folder)
    logits = infer(culm, folder)
    print(f"{len(events)} events; logits {list(logits.shape)}, largest {logits.max():.4f}")


main()
