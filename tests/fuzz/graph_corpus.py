#!/usr/bin/env python3
"""Writes corpus/graph, corpus/graph_edges and corpus/graph_npz. Needs Python alone."""
import io
import json
import os
import struct
import zipfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def npy(descr, shape, numbers):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    code = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i4": "i", "i8": "q", "f4": "f", "f8": "d"}[descr[1:]]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(numbers)}{code}", *numbers)


def put(target, name, data):
    os.makedirs(os.path.join(HERE, target), exist_ok=True)
    with open(os.path.join(HERE, target, name), "wb") as file:
        file.write(data)


def graph(name, features, classes=2, splits=1, directed=False, edges=(0, 1, 0, 2, 1, 2), vertices=3, **parts):
    head = {"format": "culm-graph-1", "name": name, "vertices": vertices, "edges": len(edges) // 2, "directed": directed,
            "classes": classes, "features": features}
    files = {"json": json.dumps(head | ({"splits": splits} if splits else {})).encode(), "edges": npy("<u4", (len(edges) // 2, 2), edges),
             "labels": npy("<i4", (3,), [0, 1, -1]) if classes else b"", "split": npy("|u1", (splits, 3), [1, 2, 0] * splits) if splits else b"",
             "dense": b"", "start": b"", "column": b"", "value": b""} | parts
    put("graph", name, b"====".join(files.values()))


DENSE = {"kind": "dense", "columns": 2}
SPARSE = {"kind": "sparse", "columns": 5, "entries": 3, "ones": False}
DENSE_PARTS = {"dense": npy("<f4", (3, 2), [1, 2, 3, 4, 5, 6])}
SPARSE_PARTS = {"start": npy("<u8", (4,), [0, 2, 2, 3]), "column": npy("<u2", (3,), [1, 4, 0]), "value": npy("<f4", (3,), [1, 2, 3])}
graph("none", {"kind": "none"}, classes=0, splits=0)
graph("dense", DENSE, splits=2, **DENSE_PARTS)
graph("sparse", SPARSE, **SPARSE_PARTS)
graph("ones", SPARSE | {"ones": True}, **SPARSE_PARTS)
graph("wide", SPARSE | {"columns": 70000}, **SPARSE_PARTS | {"column": npy("<u4", (3,), [1, 69999, 0])})
graph("directed", {"kind": "none"}, directed=True, edges=(0, 1, 1, 0, 2, 0))
graph("no-edges", {"kind": "none"}, edges=())
graph("loop", {"kind": "none"}, edges=(0, 1, 1, 1))
graph("nan", DENSE, dense=npy("<f4", (3, 2), [1, 2, 3, float("nan"), 5, 6]))
graph("huge", {"kind": "none"}, classes=0, splits=0, vertices=2**31 - 1)
graph("lying", SPARSE | {"entries": 2**40}, **SPARSE_PARTS)

put("graph_edges", "plain", b"\x180 1\n1 2\n2 0\n")
put("graph_edges", "csv", b"\x1bid_1,id_2\r\n0,1\r\n1,2\r\n====id,name,kind\n0,\"a, b\",x\n1,c,\"y\"\n====" + b'{"0": [3, 1], "1": []}')
put("graph_edges", "dense", b"\x1f0 1\n1 2 3.5\n# end\n====1\n0\n-1\n====" + npy("<f4", (4, 2), range(8)))
put("graph_edges", "bad", b"\x180 1\n1\n")
put("graph_edges", "large", b"\x180 99999999999\n")


def archive(name, compression=zipfile.ZIP_STORED, **arrays):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for key, data in arrays.items():
            file.writestr(zipfile.ZipInfo(key.replace("__", ".") + ".npy"), data)
    put("graph_npz", name, out.getvalue())


ADJ = {"adj_indices": npy("<u4", (3,), [1, 2, 0]), "adj_indptr": npy("<u8", (4,), [0, 2, 3, 3]), "adj_shape": npy("<i8", (2,), [3, 3])}
ATTR = {"attr_indices": npy("<i4", (2,), [1, 0]), "attr_indptr": npy("<i4", (4,), [0, 2, 2, 2]), "attr_shape": npy("<i8", (2,), [3, 2]),
        "attr_data": npy("<f4", (2,), [1, 2])}
LABELS = {"labels": npy("<i8", (3,), [0, 1, 1])}
archive("csr", **ADJ, **ATTR, **LABELS)
archive("packed", zipfile.ZIP_DEFLATED, **ADJ, **LABELS)
archive("dotted", **{key.replace("adj_", "adj_matrix__"): value for key, value in ADJ.items()})
archive("pairs", edges=npy("<i8", (2, 2), [0, 1, 1, 2]), node_labels=LABELS["labels"], node_features=npy("<f8", (3, 2), range(6)),
        train_masks=npy("|u1", (1, 3), [1, 0, 0]), val_masks=npy("|u1", (1, 3), [0, 1, 0]))
archive("empty")
