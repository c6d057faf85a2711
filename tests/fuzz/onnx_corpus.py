#!/usr/bin/env python3
"""Writes corpus/onnx: good-* must be read, bad-* must be refused. Needs Python alone."""
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "onnx")
FLOAT, INT64 = 1, 7


def varint(value):
    value &= 2**64 - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


def tensor(name, dims, data, kind=FLOAT):
    body = b"".join(number(1, d) for d in dims) + number(2, kind) + block(8, name)
    return body + (data if isinstance(data, bytes) else block(9, struct.pack(f"<{len(data)}f", *data)))


def ints(values):
    return block(9, struct.pack(f"<{len(values)}q", *values))


def attribute(name, value):
    body = block(1, name)
    if isinstance(value, float):
        return body + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return body + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return body + block(4, value) + number(20, 3)
    if isinstance(value, bytes):
        return body + block(5, value) + number(20, 4)
    return body + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, inputs, outputs, domain="", **attributes):
    return (b"".join(block(1, i) for i in inputs) + b"".join(block(2, o) for o in outputs) + block(3, "n_" + outputs[0])
            + block(4, op) + b"".join(block(5, attribute(k, v)) for k, v in attributes.items())
            + (block(7, domain) if domain else b""))


def end(name, dims=(), kind=FLOAT):
    dims = b"".join(block(1, number(1, d) if isinstance(d, int) else block(2, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, kind) + block(2, dims)))


def graph(nodes, inputs, outputs, weights=()):
    return (b"".join(block(1, n) for n in nodes) + block(2, "g") + b"".join(block(5, w) for w in weights)
            + b"".join(block(11, i) for i in inputs) + b"".join(block(12, o) for o in outputs))


def model(body, opset=17):
    return number(1, 8) + block(2, "hand") + block(7, body) + block(8, block(1, "") + number(2, opset))


def put(name, data):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data)


def linear_model(weight=None, nodes=None, inputs=None, outputs=None, opset=17):
    weight = tensor("w", [3, 2], [1, 2, 3, 4, 5, 6]) if weight is None else weight
    nodes = [node("MatMul", ["x", "w"], ["y"])] if nodes is None else nodes
    inputs = [end("x", ["batch", 3])] if inputs is None else inputs
    outputs = [end("y", ["batch", 2])] if outputs is None else outputs
    return model(graph(nodes, inputs, outputs, [weight]), opset)


def strange(body):
    """A model whose one node has an attribute of these bytes."""
    return linear_model(nodes=[node("Relu", ["x"], ["y"]) + block(5, body)])


def main():
    os.makedirs(FOLDER, exist_ok=True)
    six = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
    good = linear_model()
    put("good-linear", good)
    put("good-packed-floats", linear_model(tensor("w", [3, 2], block(4, six))))
    put("good-single-floats", linear_model(tensor("w", [3, 2], b"".join(real(4, v) for v in range(6)))))
    put("good-two-runs", linear_model(tensor("w", [3, 2], block(4, six[:8]) + block(4, six[8:]))))
    put("good-packed-dims", linear_model(block(1, varint(3) + varint(2)) + number(2, 1) + block(8, "w") + block(9, six)))
    put("good-double", linear_model(tensor("w", [3, 2], block(10, struct.pack("<6d", *range(6))), 11)))
    put("good-half", linear_model(tensor("w", [3, 2], block(5, b"".join(varint(0x3c00) for _ in range(6))), 10)))
    put("good-unknown-fields", good + number(900, 5) + block(901, b"abc") + varint(902 << 3 | 1) + bytes(8))
    ends = {"softmax": [("Softmax", ["z"])], "log-softmax": [("LogSoftmax", ["z"])], "sigmoid": [("Sigmoid", ["z"])],
            "log-of-softmax": [("Softmax", ["z"]), ("Log", ["p"])], "exp-of-log-softmax": [("LogSoftmax", ["z"]), ("Exp", ["p"])]}
    for name, ops in ends.items():
        put("good-" + name, linear_model(nodes=[node("MatMul", ["x", "w"], ["z"])] + [
            node(op, inputs, ["y" if i + 1 == len(ops) else "p"]) for i, (op, inputs) in enumerate(ops)]))
    put("good-quotient", linear_model(nodes=[
        node("MatMul", ["x", "w"], ["z"]), node("Exp", ["z"], ["e"]), node("ReduceSum", ["e"], ["s"], axes=[1]), node("Div", ["e", "s"], ["y"])], opset=12))
    put("good-channels-last", linear_model(nodes=[
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("GlobalAveragePool", ["t"], ["a"]), node("Flatten", ["a"], ["f"]),
        node("MatMul", ["f", "w"], ["y"])], inputs=[end("x", ["batch", 4, 5, 3])]))
    put("good-reshape", linear_model(nodes=[
        node("Constant", [], ["s"], value=tensor("", [2], ints([-1, 3]), INT64)),
        node("Reshape", ["x", "s"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        inputs=[end("x", ["batch", 1, 3])]))
    put("good-shape-arithmetic", linear_model(nodes=[
        node("Shape", ["x"], ["s"]), node("Constant", [], ["i"], value_int=0),
        node("Gather", ["s", "i"], ["b"], axis=0), node("Constant", [], ["z"], value_ints=[0]),
        node("Unsqueeze", ["b", "z"], ["bu"]), node("Constant", [], ["three"], value_ints=[3]),
        node("Concat", ["bu", "three"], ["t"], axis=0), node("Reshape", ["x", "t"], ["r"]),
        node("MatMul", ["r", "w"], ["m"]), node("Relu", ["m"], ["y"])]))
    image = [end("x", ["batch", 2, 4, 4])]
    put("good-conv", linear_model(
        tensor("w", [3, 2, 3, 3], block(9, bytes(4 * 54))), [
            node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
            node("Relu", ["c"], ["r"]), node("GlobalAveragePool", ["r"], ["p"]),
            node("Flatten", ["p"], ["y"], axis=1)], image))
    put("bad-empty", b"")
    put("bad-text", b"this is no model at all\n")
    put("bad-truncated", good[:-20])
    put("bad-truncated-weight", good[:len(good) // 2])
    put("bad-no-graph", number(1, 8) + block(8, number(2, 17)))
    put("bad-no-opset", number(1, 8) + block(7, graph([node("Relu", ["x"], ["y"])], [end("x", [1])], [end("y")])))
    put("bad-old-opset", linear_model(opset=5))
    put("bad-no-output", linear_model(outputs=[]))
    put("bad-no-input", linear_model(inputs=[], nodes=[node("Relu", ["w"], ["y"])]))
    put("bad-group", number(1, 8) + bytes([0x0b, 0x0c]))
    put("bad-field-zero", number(1, 8) + bytes([0x00, 0x00]))
    put("bad-varint", number(1, 8) + bytes([0xff] * 11))
    put("bad-weight-short", linear_model(tensor("w", [3, 2], [1, 2, 3])))
    put("bad-weight-long", linear_model(tensor("w", [3, 2], list(range(9)))))
    put("bad-weight-few-floats", linear_model(tensor("w", [3, 2], block(4, six[:8]))))
    put("bad-weight-many-floats", linear_model(tensor("w", [3, 2], block(4, six + six[:4]))))
    put("bad-weight-torn-float", linear_model(tensor("w", [3, 2], block(4, six[:23]))))
    put("bad-weight-no-data", linear_model(tensor("w", [3, 2], b"")))
    put("bad-weight-negative", linear_model(tensor("w", [-3, 2], block(9, six))))
    put("bad-weight-overflow", linear_model(tensor("w", [2**62, 2**62], block(9, six))))
    put("bad-weight-overflow-bytes", linear_model(tensor("w", [2**62], block(9, six))))
    put("bad-weight-rank", linear_model(tensor("w", [1] * 9 + [6], block(9, six))))
    put("bad-weight-string", linear_model(tensor("w", [6], block(6, b"a"), 8)))
    put("bad-weight-twice", model(graph([node("MatMul", ["x", "w"], ["y"])], [end("x", [2, 3])], [end("y")],
                                        [tensor("w", [3, 2], block(9, six))] * 2)))
    put("bad-weight-segment", linear_model(tensor("w", [3, 2], block(9, six)) + block(3, number(1, 0))))
    put("bad-weight-outside", linear_model(
        tensor("w", [3, 2], block(13, block(1, "location") + block(2, "../secret")) + number(14, 1))))
    put("bad-value-twice", linear_model(nodes=[node("MatMul", ["x", "w"], ["y"])] * 2))
    put("bad-use-before-made", linear_model(nodes=[node("Relu", ["m"], ["y"]), node("MatMul", ["x", "w"], ["m"])]))
    put("bad-loop", linear_model(nodes=[node("Add", ["x", "y"], ["y"])]))
    put("bad-output-unmade", linear_model(outputs=[end("z")]))
    put("bad-input-twice", linear_model(inputs=[end("x", [1, 3]), end("x", [1, 3])]))
    put("bad-no-operator", linear_model(nodes=[block(1, "x") + block(2, "y")]))
    put("bad-control-character", linear_model(nodes=[node("Relu\n", ["x"], ["y"])]))
    put("bad-operator", linear_model(nodes=[node("NonMaxSuppression", ["x"], ["y"])]))
    put("bad-domain", linear_model(nodes=[node("Relu", ["x"], ["y"], domain="com.example")]))
    put("bad-inner", linear_model(nodes=[node("MatMul", ["x", "w"], ["y"])], inputs=[end("x", ["batch", 5])]))
    put("bad-free-dimension", linear_model(inputs=[end("x", ["batch", "features"])]))
    put("bad-reshape", linear_model(nodes=[
        node("Constant", [], ["s"], value=tensor("", [2], ints([7, 5]), INT64)),
        node("Reshape", ["x", "s"], ["r"]), node("MatMul", ["r", "w"], ["y"])]))
    put("bad-huge-expand", linear_model(nodes=[
        node("Constant", [], ["s"], value=tensor("", [2], ints([2**31, 2**31]), INT64)),
        node("Constant", [], ["o"], value_float=1.0),
        node("Expand", ["o", "s"], ["r"]), node("MatMul", ["x", "r"], ["y"])]))
    put("bad-floats-as-varints", strange(block(1, "a") + number(7, 0) * 40))
    put("bad-ints-int-floats", strange(block(1, "a") + block(8, b"\1" * 40) + number(3, 1) + block(7, struct.pack("<40f", *range(40)))))
    put("bad-float-as-varint", strange(block(1, "a") + number(2, 0)))
    put("bad-name-as-varint", strange(number(1, 5)))
    put("bad-torn-floats", strange(block(1, "a") + block(7, bytes(7))))
    put("bad-torn-ints", strange(block(1, "a") + block(8, b"\1\x80")))
    put("good-left-out-zero", linear_model(nodes=[  # keepdims=0 of a writer that leaves zeros out; without the attribute it is 1
        block(1, "x") + block(2, "m") + block(4, "ReduceMean") + block(5, attribute("axes", [1]))
        + block(5, block(1, "keepdims") + number(20, 2)),
        node("Transpose", ["m"], ["t"], perm=[0, 1]), node("MatMul", ["t", "w"], ["y"])], inputs=[end("x", ["batch", 2, 3])]))
    put("good-large", linear_model(tensor("w", [128, 130], block(9, bytes(4 * 128 * 130))), inputs=[end("x", ["batch", 128])]))
    put("bad-culm-linear", linear_model(nodes=[node("linear", ["x"], ["y"], domain="culm")]))
    put("bad-culm-layernorm", linear_model(nodes=[node("layernorm", ["x"], ["y"], domain="culm")]))
    put("bad-culm-positions", linear_model(tensor("w", [6], block(9, six)), [node("positions", ["x", "w"], ["y"], domain="culm")]))
    put("bad-culm-token", linear_model(tensor("w", [], block(9, six[:4])), [node("token", ["w", "x"], ["y"], domain="culm")]))
    scalar = tensor("s", [], ints([3]), INT64)
    put("bad-culm-slice", linear_model(scalar, [node("slice", ["s"], ["t"], domain="culm"), node("Add", ["x", "t"], ["y"])]))
    put("bad-culm-reshape", linear_model(scalar, [node("reshape", ["s"], ["", "t"], domain="culm"), node("Add", ["x", "t"], ["y"])]))
    put("bad-no-first-output", linear_model(nodes=[node("MatMul", ["x", "w"], ["", "y"])]))
    put("bad-tile", linear_model(tensor("s", [0], block(9, b""), INT64), [node("Tile", ["x", "s"], ["y"])]))
    put("bad-empty-rows", linear_model(nodes=[
        node("Constant", [], ["from"], value_ints=[0]), node("Constant", [], ["to"], value_ints=[2, 0]),
        node("Relu", ["x"], ["a"]), node("Slice", ["a", "from", "from"], ["b"]), node("Relu", ["b"], ["c"]),
        node("Reshape", ["c", "to"], ["y"], allowzero=1)]))
    put("bad-axes-of-floats", linear_model(nodes=[
        block(1, "x") + block(2, "y") + block(4, "ReduceSum") + block(5, block(1, "axes") + block(7, six[:4] * 9))]))
    put("bad-pad-of-weight", linear_model(tensor("w", [1], block(9, six[:4])), [
        node("Pad", ["x", "w"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1]), node("Flatten", ["p"], ["y"])],
        [end("x", ["batch", 2, 4, 4])]))
    put("bad-conv-kernel", linear_model(
        tensor("w", [3, 2, 3, 3], block(9, bytes(4 * 54))),
        [node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], strides=[0, -1])], image))
    put("bad-conv-small", linear_model(
        tensor("w", [3, 2, 9, 9], block(9, bytes(4 * 3 * 2 * 81))), [node("Conv", ["x", "w"], ["y"])], image))
    put("good-minus-one", linear_model(inputs=[end("x", [-1, 3])]))
    put("bad-minus-two", linear_model(inputs=[end("x", [-2, 3])]))
    # heads with five dimensions, and a choice among candidates, which only detectors may have
    five = [node("Reshape", ["x", "to"], ["r"]), node("Transpose", ["r"], ["t"], perm=[0, 1, 3, 4, 2]), node("Sigmoid", ["t"], ["s"]),
            node("Mul", ["s", "g"], ["m"]), node("Concat", ["m", "s"], ["c"], axis=-1), node("Reshape", ["c", "rows"], ["y"])]
    to, rows = tensor("to", [5], ints([0, 2, 3, 4, 4]), INT64), tensor("rows", [3], ints([0, -1, 6]), INT64)
    for name, grid in (("bad-five-dimensions", [1, 2, 4, 4, 3]), ("bad-five-half", [1, 2, 4, 1, 3])):
        put(name, model(graph(five, [end("x", ["batch", 6, 4, 4])], [end("y")],
                              [to, rows, tensor("g", grid, block(9, bytes(4 * grid[2] * grid[3] * 6)))])))
    table = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("Slice", ["t", "zero", "four", "two"], ["boxes"]),
             node("Slice", ["x", "four", "six", "one"], ["scores"])]
    whole = [tensor(name, [1], ints([value]), INT64) for name, value in (("zero", 0), ("four", 4), ("six", 6), ("two", 2), ("one", 1), ("k", 5))]
    put("bad-nms", model(graph(table + [node("NonMaxSuppression", ["boxes", "scores", "k"], ["y"])], [end("x", ["batch", 6, 40])], [end("y")], whole)))
    put("bad-topk", model(graph(table + [node("TopK", ["scores", "k"], ["v", "y"], axis=-1)], [end("x", ["batch", 6, 40])], [end("y", kind=INT64)], whole)))



if __name__ == "__main__":
    main()
