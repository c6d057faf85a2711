#!/usr/bin/env python3
"""Draws a graph with classes, trains a graph network on it, and looks at its predictions, by ctypes and NumPy.

    python3 gnn.py GRAPH DIR [LIBRARY]          (GRAPH and DIR are made)
"""
import ctypes
from ctypes import byref, c_bool, c_char_p, c_double, c_float, c_int64, c_size_t, c_uint64, c_void_p

from culm import TEXT, Sized, arguments, numpy


class CreateOptions(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_char_p), ("path", c_char_p), ("files", c_void_p), ("file_count", c_size_t),
                ("labels", c_char_p), ("features", c_char_p), ("vertices", c_int64), ("edges", c_int64), ("columns", c_int64),
                ("classes", c_int64), ("directed", c_bool), ("split", c_char_p), ("splits", c_int64), ("seed", c_uint64)]


class TrainingOptions(Sized):
    _fields_ = [("size", c_size_t), ("dir", c_char_p), ("resume", c_bool), ("accept_inputs", c_bool), ("from_start", c_bool),
                ("insecure", c_bool), ("program", c_char_p), ("plan", c_char_p), ("partition", c_char_p), ("listen", c_char_p),
                ("advertise", c_char_p), ("event", TEXT), ("warning", TEXT), ("context", c_void_p)]


class EvaluateResult(Sized):
    _fields_ = [("size", c_size_t), ("vertices", c_int64), ("count", c_int64 * 3), ("correct", c_int64 * 3), ("auc", c_double * 3),
                ("best", c_int64)]


def train(culm, graph, folder):
    config, training, events = c_void_p(), c_void_p(), []
    text = b"epochs: 20\nintervals: 4\n"
    on_event = TEXT(lambda context, line: events.append(line))
    options = TrainingOptions(dir=folder, event=on_event)
    culm.call("culm_config_read", text, c_size_t(len(text)), b"gnn.py", byref(config))
    culm.call("culm_config_set", config, b"graph.path", graph)
    culm.call("culm_gnn_training_new", config, byref(options), byref(training))
    culm.call("culm_gnn_training_run", training)
    culm.free("culm_gnn_training_free", training)
    culm.free("culm_config_free", config)
    return len(events)


def logits_of(culm, folder):
    prediction = c_void_p()
    culm.call("culm_gnn_predict", folder, None, byref(prediction))
    shape = tuple(culm.ask(f"culm_gnn_prediction_{what}", c_int64, prediction) for what in ("vertices", "classes"))
    rows = culm.ask("culm_gnn_prediction_logits", ctypes.POINTER(c_float), prediction)
    logits = numpy.ctypeslib.as_array(rows, shape).copy()
    culm.free("culm_gnn_prediction_free", prediction)
    return logits


def main():
    graph, folder, culm = arguments("GRAPH DIR")
    result = EvaluateResult()
    culm.call("culm_gnn_graph_create", byref(CreateOptions(kind=b"sbm", path=graph, vertices=200, edges=800)), None)
    events = train(culm, graph, folder)
    culm.call("culm_gnn_evaluate", folder, None, byref(result))
    logits = logits_of(culm, folder)
    print(f"{events} events; {result.correct[2]} of {result.count[2]} test vertices are right; logits {list(logits.shape)}, "
          f"predicted {numpy.bincount(logits.argmax(axis=1)).tolist()}")


main()
