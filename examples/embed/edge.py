#!/usr/bin/env python3
"""Runs a workload and hands over NumPy arrays as the frames of one of its feeds, by ctypes; counts the answers.

    python3 edge.py WORKLOAD.yaml FEED DIR [LIBRARY]
"""
import ctypes
import time
from ctypes import Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

from culm import TEXT, Sized, arguments, numpy

AGAIN, CLOSED = 7, 8  # of enum culm_status
HOW = {1: "fresh", 2: "stale", 3: "none"}
FRAMES = 20


class EdgeOptions(Sized):
    _fields_ = [("size", c_size_t), ("dir", c_char_p), ("package", c_char_p), ("profile", c_char_p), ("seconds", c_double),
                ("posted", ctypes.POINTER(c_char_p)), ("posted_count", c_size_t), ("event", TEXT), ("context", c_void_p),
                ("answers", c_int64)]


class Picture(Sized):
    _fields_ = [("size", c_size_t), ("pixels", c_void_p), ("width", c_int64), ("height", c_int64), ("channels", c_int64),
                ("stride", c_int64), ("taken_ns", c_uint64)]


class Box(Structure):
    _fields_ = [("class_index", c_int), ("name", c_char_p)] + [(name, c_double) for name in ("score", "x", "y", "width", "height")]


class Class(Structure):
    _fields_ = [("class_index", c_int), ("name", c_char_p), ("score", c_double)]


class Prediction(Structure):
    _fields_ = [("file", c_char_p), ("frame", c_int64), ("box", ctypes.POINTER(Box)), ("classes", ctypes.POINTER(Class)),
                ("point", c_void_p), ("count", c_int32)]


class Answer(Sized):
    _fields_ = [("size", c_size_t), ("query", c_char_p), ("feed", c_char_p), ("frame", c_int64), ("of", c_int64),
                ("answered", c_int64), ("taken_ns", c_uint64), ("due_ns", c_uint64), ("prediction", ctypes.POINTER(Prediction)),
                ("lost", c_int64)]


def seen(prediction):
    """The name of what a model is surest of."""
    first = prediction.box or prediction.classes
    return first[0].name.decode() if prediction.count and first else "nothing"


def take_answers(culm, edge, wait_ms, into):
    answer = Answer()
    while culm.call("culm_edge_take_answer", edge, c_int64(wait_ms), byref(answer), awaited=(AGAIN, CLOSED)) == 0:
        into.append((answer.query.decode(), answer.frame, HOW[answer.answered], seen(answer.prediction[0])))


def main():
    path, feed, folder, culm = arguments("WORKLOAD.yaml FEED DIR")
    workload, edge, events, answers = c_void_p(), c_void_p(), [], []
    on_event = TEXT(lambda context, line: events.append(line))
    options = EdgeOptions(dir=folder, posted=(c_char_p * 1)(feed), posted_count=1, event=on_event)
    culm.call("culm_config_open", path, byref(workload))
    culm.call("culm_edge_open", workload, byref(options), byref(edge))
    culm.call("culm_edge_start", edge)
    draw = numpy.random.default_rng(1)
    for _ in range(FRAMES):
        frame = draw.integers(0, 256, (80, 96, 3), numpy.uint8)
        height, width, channels = frame.shape
        picture = Picture(pixels=frame.ctypes.data, width=width, height=height, channels=channels)
        culm.call("culm_edge_post", edge, feed, byref(picture), None)
        take_answers(culm, edge, 0, answers)
        time.sleep(0.02)
    culm.call("culm_edge_end", edge, feed)
    take_answers(culm, edge, -1, answers)
    culm.call("culm_edge_wait", edge)
    culm.free("culm_edge_close", edge)
    culm.free("culm_config_free", workload)
    for query, number, how, what in answers:
        print(f"{query}: frame {number}, {how}: {what}")
    print(f"{len(events)} events, {len(answers)} answers to {FRAMES} frames")


main()
