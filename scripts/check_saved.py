#!/usr/bin/env python3
"""Checks what `attnlab run --save FILE` wrote, with NumPy alone and nothing of attnlab.

  scripts/check_saved.py FILE.safetensors [FILE...]
  scripts/check_saved.py --self-test

For example:

  attnlab run --pass fwdbwd --kernel v2 --mask causal --seqlen 256 --save run.safetensors
  scripts/check_saved.py run.safetensors

From q, k, v and, if it is there, do it computes attention and its gradients in float64, as the
file's metadata say (harness/tensors/safetensors.h documents both), and compares every o, lse, dq,
dk, dv that the file holds. With dropout it needs the mask, saved as dropout_keep: it is not drawn
again here; nor is what was quantised, so e4m3 is refused. One line a tensor, then the verdict; exit
0: all within tolerance, 1: something is not, 2: a file cannot be checked, 3: NumPy is missing.

The tolerances, with u = the unit roundoff of the dtype (f32 2^-24, f16 2^-11, bf16 2^-8):

  each element  |x - ref| <= 4 u (|ref| + R) + 2^-21 A
  each tensor   ||x - ref|| <= u || |ref| + R || + 2^-23 ||A||, Frobenius norms
  lse           |x - ref| <= 2^-19 (1 + sum_d |scale q_d k_d| of the largest key); -inf where ref is

Every output is a matrix product, sum_j X_j Y_j. Kernels round X (P or dS) and what it is made of to
the dtype, which moves each X_j by about u |X_j| W_j, independently: R = sqrt(sum (X_j W_j Y_j)^2).
They add in fp32, which moves the sum by a small share of A = sum |X_j| W32_j |Y_j|. W and W32 say
how an error of a score moves P: W = 1 + |score|, W32 = 1 + sum_d |scale q_d k_d|, each plus the
row's mean of the same. dS, a difference, counts as large as its terms, and numbers near the dtype's
smallest as large as that. NaN never passes, and a row that sees no key must be exactly 0.

"of bound" is how near the worst element and the tensor came to these: above 1.00 fails.
"""
import argparse
import contextlib
import io
import json
import struct
import sys
import tempfile
from typing import NamedTuple

try:
    import numpy as np
except ImportError:
    print(f"error: {sys.executable} has no NumPy; remedy: on Debian and Ubuntu scripts/setup.sh brings "
          f"it for /usr/bin/python3: /usr/bin/python3 {' '.join(sys.argv)}; elsewhere install it for "
          "a Python of yours", file=sys.stderr)
    sys.exit(3)

SCHEMA = "attnlab.tensors/1"


class Precision(NamedTuple):
    """`u`: the unit roundoff. Numbers below `floor` are as wrong as it is: f16 has fewer digits
    there, and the others end at 2^-126, which is u times it."""

    u: float
    floor: float


PRECISIONS = {"F32": Precision(2.0**-24, 2.0**-102), "F16": Precision(2.0**-11, 2.0**-14),
              "BF16": Precision(2.0**-8, 2.0**-118)}
OUTPUTS = ("o", "lse", "dq", "dk", "dv")


class BadFile(Exception):
    """Says that a file cannot be checked: the message says why."""


def read_safetensors(path):
    """Returns ({name: array}, metadata, {name: dtype}); BF16 becomes float32."""
    numpy_types = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I32": "<i4"}
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from error
    try:
        (length,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        arrays, dtypes = {}, {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            data = raw[8 + length + begin : 8 + length + end]
            array = np.frombuffer(data, numpy_types[entry["dtype"]]).reshape(entry["shape"])
            if entry["dtype"] == "BF16":  # the upper half of a float32
                array = (array.astype(np.uint32) << 16).view(np.float32)
            arrays[name], dtypes[name] = array, entry["dtype"]
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFile(f"is no safetensors file that this script reads: {error!r}") from error
    return arrays, metadata, dtypes


class Mask:
    """Says which keys a row sees; built from the text of the metadata."""

    def __init__(self, text, blocks):
        self.causal, self.window, self.padded, self.blocks = False, None, False, None
        for part in [] if text == "none" else text.split("+"):
            kind, *fields = part.split(":")
            if kind == "causal":
                self.causal = True
            elif kind == "window":
                self.window = [int(field) for field in fields]
            elif kind == "padding":
                self.padded = True
            elif kind == "blocks":
                if blocks is None:
                    raise BadFile("mask blocks needs the tensor block_pattern, which is missing")
                self.blocks, self.sizes = blocks != 0, [int(n) for n in fields[-1].split("x")]
            else:
                raise BadFile(f"metadata: mask '{text}' is unknown here")

    def visible(self, rows, columns, keys):
        """Returns (rows, columns), True where visible; `keys` of the columns exist."""
        r = np.arange(rows)[:, None] + columns - rows  # aligned at the bottom right
        c = np.arange(columns)[None, :]
        seen = np.broadcast_to(c < keys, (rows, columns)).copy()
        if self.causal:
            seen &= c <= r
        if self.window:
            left, right = self.window
            seen &= (left < 0) | (c >= r - left)
            seen &= (right < 0) | (c <= r + right)
        if self.blocks is not None:
            i, j = np.arange(rows) // self.sizes[0], np.arange(columns) // self.sizes[1]
            seen &= self.blocks[np.ix_(i, j)]
        return seen


class Product:
    """Holds sum_j X_j Y_j with the spreads R and A of the tolerance rule."""

    def __init__(self, x, size, size32, y, floor):
        """`size`: |X| W, `size32`: |X| W32, both (m, n); y: (n, d)."""
        self.value = x @ y
        self.r = np.sqrt(size**2 @ y**2)
        self.a = size32 @ np.abs(y)
        self.size = np.where(self.a > 0, np.maximum(np.abs(self.value), floor), 0.0)


def attention(q, k, v, dout, scale, visible, z, floor):
    """Computes a head in float64: {output: Product}, lse, its bound. z: dropout's factors or 1."""
    scores = np.where(visible, scale * (q @ k.T), -np.inf)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    p = weights / np.where(total > 0, total, 1.0)
    with np.errstate(divide="ignore"):
        lse = top[:, 0] + np.log(total[:, 0])
    terms = np.where(visible, scale * (np.abs(q) @ np.abs(k).T), 0.0)
    score = np.abs(np.where(visible, scores, 0.0))
    w, w32 = (1 + size + (p * size).sum(axis=1, keepdims=True) for size in (score, terms))
    p_size = np.maximum(p, floor) * visible
    results = {"o": Product(p * z, p_size * z * w, p_size * z * w32, v, floor)}
    if dout is not None:
        o = results["o"].value
        ds = scale * p * (z * (dout @ v.T) - (dout * o).sum(axis=1, keepdims=True))
        ds_terms = z * (np.abs(dout) @ np.abs(v).T) + np.abs(dout * o).sum(axis=1, keepdims=True)
        ds_size = scale * np.maximum(p_size * ds_terms, floor * visible)
        results["dq"] = Product(ds, ds_size * w, ds_size * w32, k, floor)
        results["dk"] = Product(ds.T, (ds_size * w).T, (ds_size * w32).T, q, floor)
        results["dv"] = Product((p * z).T, (p_size * z * w).T, (p_size * z * w32).T, dout, floor)
    return results, lse, 2.0**-19 * (1 + terms.max(axis=1))


class Comparison:
    """Compares one output, over all its slices."""

    def __init__(self, name):
        self.name, self.count = name, 0
        self.max_abs, self.worst, self.where = 0.0, 0.0, None
        self.squares = np.zeros(4)  # sums of: x - ref, ref, and the two terms of the norm's bound

    def add(self, got, want, bound, place):
        """Judges elements; `place` makes a coordinate from an index into `got`."""
        equal = got == want  # -inf of lse too
        error = np.abs(np.where(equal, 0.0, got) - np.where(equal, 0.0, want))
        error = np.where(np.isfinite(error), error, np.inf)  # NaN fails
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, error / bound)
        self.count += got.size
        if got.size and (self.where is None or ratio.max() > self.worst):
            index = np.unravel_index(np.argmax(ratio), ratio.shape)
            self.worst = float(ratio[index])
            self.where = f"{self.name}{place(index)} = {got[index]:.9g}, want {want[index]:.9g}"
        if got.size:
            self.max_abs = max(self.max_abs, float(error.max()))
        finite = np.where(np.isfinite(want), want, 0.0)
        self.squares[:2] += (error**2).sum(), (finite**2).sum()

    def add_product(self, got, product, u, place):
        rounding = u * (product.size + product.r)
        self.add(got, product.value, 4 * rounding + 2.0**-21 * product.a, place)
        self.squares[2:] += (rounding**2).sum(), ((2.0**-23 * product.a) ** 2).sum()

    def judge(self):
        """Prints one line; returns True if all is well."""
        error, norm, *bound = np.sqrt(self.squares)
        relative = error / norm if norm > 0 else error
        norm_ratio = 0.0
        if self.name != "lse" and error > 0:
            norm_ratio = error / sum(bound) if sum(bound) > 0 else np.inf
        good = self.worst <= 1 and norm_ratio <= 1
        print(f"  {self.name:<4} max abs {self.max_abs:9.3e}  relative {relative:9.3e}  of bound: "
              f"element {self.worst:5.2f}, tensor {norm_ratio:5.2f}  {'ok' if good else 'FAILED'}")
        if not good:
            print(f"       worst element: {self.where}")
        return good


class Saved:
    """Gives a file's tensors as slices (batch entry, head), whatever its layout."""

    def __init__(self, path):
        self.arrays, self.metadata, self.dtypes = read_safetensors(path)
        if self.metadata.get("schema") != SCHEMA:
            raise BadFile(f"metadata: schema is not {SCHEMA}: `attnlab run --save` writes it")
        for name in ("q", "k", "v"):
            if name not in self.arrays:
                raise BadFile(f"tensor '{name}' is missing")
        if self.dtypes["q"] not in PRECISIONS:
            raise BadFile(f"tensor 'q' is {self.dtypes['q']}: F32, F16 and BF16 can be checked")
        if self.dtypes.get("o", self.dtypes["q"]) != self.dtypes["q"]:
            raise BadFile("o has not the type of q, so this is of e4m3: the codes that kernels got "
                          "of q, k and v are not in the file, and are not made again here. "
                          "`attnlab run` has verified it")
        self.layout = self.field("layout")
        self.scale = float(self.field("softmax_scale"))
        self.dropout = float(self.field("dropout"))
        self.mask = Mask(self.field("mask"), self.arrays.get("block_pattern"))
        self.find_sizes()
        self.check_shapes()

    def field(self, key):
        if key not in self.metadata:
            raise BadFile(f"metadata: '{key}' is missing")
        return self.metadata[key]

    def find_sizes(self):
        q, k = self.arrays["q"].shape, self.arrays["k"].shape
        lengths = [entry.split("x") for entry in self.field("lengths").split("+") if entry]
        self.head_axis = {"bshd": 2, "bhsd": 1, "packed": 1}.get(self.layout)
        if self.head_axis is None:
            raise BadFile(f"metadata: layout '{self.layout}' is unknown")
        if len(q) != (3 if self.layout == "packed" else 4) or len(k) != len(q):
            raise BadFile(f"q {q} and k {k} do not fit layout {self.layout}")
        self.heads, self.heads_kv = q[self.head_axis], k[self.head_axis]
        if self.layout == "packed":
            self.queries = [int(entry[0]) for entry in lengths]
            self.keys = [int(entry[-1]) for entry in lengths]
            self.first = {"q": np.cumsum([0] + self.queries), "k": np.cumsum([0] + self.keys)}
            if self.first["q"][-1] != q[0] or self.first["k"][-1] != k[0]:
                raise BadFile(f"metadata: lengths do not add up to the rows of q {q} and k {k}")
        else:
            row = 3 - self.head_axis
            self.queries, self.keys = [q[row]] * q[0], [k[row]] * q[0]
        self.valid = [int(entry[0]) for entry in lengths] if self.mask.padded else self.keys
        if len(self.valid) != len(self.queries):
            raise BadFile("metadata: lengths need one entry for each batch entry")

    def check_shapes(self):
        q, k = self.arrays["q"].shape, self.arrays["k"].shape
        for name, shape in {"v": k, "do": q, "o": q, "dq": q, "dk": k, "dv": k}.items():
            if name in self.arrays and self.arrays[name].shape != shape:
                raise BadFile(f"tensor '{name}' is {self.arrays[name].shape}, not {shape}")
        if "lse" in self.arrays:
            *slices, rows = self.arrays["lse"].shape
            if slices != [len(self.queries), self.heads] or rows < max(self.queries):
                raise BadFile(f"tensor 'lse' is {self.arrays['lse'].shape}: it needs a row for "
                              "each query of each batch entry and head")
        if self.heads_kv == 0 or self.heads % self.heads_kv:
            raise BadFile(f"{self.heads_kv} heads of k do not divide the {self.heads} of q")
        if self.dropout > 0 and "dropout_keep" not in self.arrays:
            raise BadFile(f"dropout is {self.dropout}, but the tensor dropout_keep is missing: "
                          "save the mask too")

    def slice(self, name, side, b, head):
        """Views (rows, head_dim) of one entry and head. `side` of its rows: 'q' or 'k'."""
        array = self.arrays[name]
        if self.layout == "packed":
            return array[self.first[side][b] : self.first[side][b + 1], head]
        return array[b, :, head] if self.layout == "bshd" else array[b, head]

    def coordinate(self, side, b, head):
        """Returns a map from (row, column) of a slice to the index in the tensor as saved."""
        if self.layout == "packed":
            return lambda i: [int(self.first[side][b] + i[0]), head, int(i[1])]
        if self.layout == "bshd":
            return lambda i: [b, int(i[0]), head, int(i[1])]
        return lambda i: [b, head, int(i[0]), int(i[1])]

    def dropout_factors(self, b, head, rows, columns):
        if self.dropout == 0:
            return 1.0
        keep = self.arrays["dropout_keep"][b, head, :rows, :columns]
        if keep.shape != (rows, columns) or keep.max(initial=0) > 1:
            raise BadFile("tensor 'dropout_keep' must hold 0 or 1 for each (batch, head, row, key)")
        threshold = round(65536 * self.dropout)  # of the 16-bit number that decides
        return keep * (65536 / (65536 - threshold))


def check(path):
    """Compares all outputs of a file; returns True if all are within tolerance."""
    saved = Saved(path)
    compared = [name for name in OUTPUTS if name in saved.arrays]
    if "do" not in saved.arrays:
        compared = [name for name in compared if name in ("o", "lse")]
    if not compared:
        raise BadFile("holds none of o and lse, nor dq, dk, dv with do: there is nothing to check")
    comparisons = {name: Comparison(name) for name in compared}
    precision = PRECISIONS[saved.dtypes["q"]]
    group = saved.heads // saved.heads_kv
    for b, (rows, columns) in enumerate(zip(saved.queries, saved.keys)):
        visible = saved.mask.visible(rows, columns, min(saved.valid[b], columns))
        for head_kv in range(saved.heads_kv):
            check_group(saved, comparisons, precision, b, visible,
                        range(head_kv * group, (head_kv + 1) * group), head_kv)
    print(f"{path}: {saved.metadata.get('kernel', '?')}, {saved.dtypes['q']}, {saved.layout}, mask "
          f"{saved.field('mask')}, {sum(c.count for c in comparisons.values())} elements")
    return all([comparison.judge() for comparison in comparisons.values()])


def check_group(saved, comparisons, precision, b, visible, heads, head_kv):
    """Checks the query heads that share one head of k and v: their dk and dv add up."""
    rows, columns = visible.shape
    k, v = (saved.slice(name, "k", b, head_kv).astype(np.float64) for name in "kv")
    sums = {}
    for head in heads:
        q = saved.slice("q", "q", b, head).astype(np.float64)
        dout = saved.slice("do", "q", b, head).astype(np.float64) if "do" in saved.arrays else None
        if rows == 0 or columns == 0:  # nothing to see: o = 0, lse = -inf, no gradients
            results = empty(q, k, v, dout)
            lse, lse_bound = np.full(rows, -np.inf), np.zeros(rows)
        else:
            z = saved.dropout_factors(b, head, rows, columns)
            results, lse, lse_bound = attention(q, k, v, dout, saved.scale, visible, z,
                                                precision.floor)
        for name in ("o", "dq"):
            if name in comparisons and name in results:
                got = saved.slice(name, "q", b, head).astype(np.float64)
                comparisons[name].add_product(got, results[name], precision.u,
                                              saved.coordinate("q", b, head))
        if "lse" in comparisons:
            got = saved.arrays["lse"][b, head, :rows].astype(np.float64)
            comparisons["lse"].add(got, lse, lse_bound,
                                   lambda i, head=head: [b, head, int(i[0])])
        for name in {"dk", "dv"} & results.keys():
            sums[name] = add_products(sums.get(name), results[name])
    for name in sums.keys() & comparisons.keys():
        got = saved.slice(name, "k", b, head_kv).astype(np.float64)
        comparisons[name].add_product(got, sums[name], precision.u,
                                      saved.coordinate("k", b, head_kv))


def empty(q, k, v, dout):
    """Returns what attention() would of no queries or no keys."""
    nothing = lambda rows, y: Product(*[np.zeros((rows, 0))] * 3, y[:0], 0.0)
    results = {"o": nothing(len(q), v)}
    if dout is not None:
        results |= {"dq": nothing(len(q), k), "dk": nothing(len(k), q), "dv": nothing(len(v), dout)}
    return results


def add_products(one, other):
    if one is None:
        return other
    one.value, one.size = one.value + other.value, one.size + other.size
    one.a, one.r = one.a + other.a, np.hypot(one.r, other.r)
    return one


def write_safetensors(path, arrays, metadata):
    """Writes float32, float16 and uint8 only: for the self-test."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": {"f4": "F32", "f2": "F16", "u1": "U8"}[array.dtype.str[1:]],
                        "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def plain_forward(q, k, v, keep, factor):
    """Computes causal o and lse with two query heads on one of k and v, element by element."""
    batch, rows, heads, _ = q.shape
    columns = k.shape[1]
    o, lse = np.zeros(q.shape), np.full((batch, heads, rows), -np.inf)
    for b, h, r in np.ndindex(batch, heads, rows):
        seen = [c for c in range(columns) if c <= r + columns - rows]
        e = [np.exp(0.7 * sum(q[b, r, h] * k[b, c, 0])) for c in seen]
        if seen:
            lse[b, h, r] = np.log(sum(e))
        for c, weight in zip(seen, e):
            o[b, r, h] += weight / sum(e) * keep[b, h, r, c] * factor * v[b, c, 0]
    return o, lse


def check_masks():
    """Checks every kind of mask against its definition (row r, key c, diagonal D) pair by pair."""
    rows, columns, d = 3, 5, 5 - 3
    blocks = np.array([[1, 0, 1], [0, 1, 0]], np.uint8)
    rules = {"none": lambda r, c: c < 4, "causal": lambda r, c: c < 4 and c <= r + d,
             "window:1:0": lambda r, c: c < 4 and r + d - 1 <= c <= r + d,
             "window:-1:1": lambda r, c: c < 4 and c <= r + d + 1,
             "window:0:-1+padding": lambda r, c: c < 4 and c >= r + d,
             "causal+blocks:file=x:2x2":
                 lambda r, c: c < 4 and c <= r + d and blocks[r // 2, c // 2]}
    for text, rule in rules.items():
        want = [[bool(rule(r, c)) for c in range(columns)] for r in range(rows)]
        if Mask(text, blocks).visible(rows, columns, 4).tolist() != want:
            sys.exit(f"self-test: mask {text} is wrong")


def self_test():
    """Checks that a file passes whose outputs come from plain loops and finite differences, that
    each with one element changed fails, and that files that cannot be checked are refused."""
    check_masks()
    generator = np.random.default_rng(1)
    shapes = {"q": (2, 5, 2, 3), "k": (2, 4, 1, 3), "v": (2, 4, 1, 3), "do": (2, 5, 2, 3)}
    inputs = {name: generator.normal(size=n).astype(np.float32) for name, n in shapes.items()}
    keep = (generator.random((2, 2, 5, 4)) < 0.75).astype(np.uint8)
    exact = [inputs[name].astype(np.float64) for name in ("q", "k", "v")]
    forward = lambda: plain_forward(*exact, keep, 65536 / (65536 - 16384))
    o, lse = forward()
    outputs = {"o": o, "lse": lse}
    for name, array in zip(("dq", "dk", "dv"), exact):
        outputs[name] = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            step, value, ends = 1e-6, array[index], []
            for array[index] in (value + step, value - step):
                ends.append((forward()[0] * inputs["do"]).sum())
            array[index] = value
            outputs[name][index] = (ends[0] - ends[1]) / (2 * step)
        outputs[name][np.abs(outputs[name]) < 1e-9] = 0  # rows that see nothing
    arrays = inputs | {name: x.astype(np.float32) for name, x in outputs.items()}
    arrays["dropout_keep"] = keep
    metadata = {"schema": SCHEMA, "layout": "bshd", "mask": "causal", "lengths": "",
                "softmax_scale": "0.7", "dropout": "0.25", "seed": "1", "pass": "fwdbwd"}

    with tempfile.TemporaryDirectory() as folder:
        def verdict(changed_arrays, changed_metadata=metadata):
            write_safetensors(f"{folder}/a", changed_arrays, changed_metadata)
            return quietly([f"{folder}/a"])

        def expect(want, got, what):
            if got != want:
                sys.exit(f"self-test: {what}: exit {got}, not {want}")

        expect(0, verdict(arrays), "correct outputs")
        for name in OUTPUTS:
            for wrong in (np.nan, 1e-3 + arrays[name][1].flat[-1]):
                broken = arrays[name].copy()
                broken[1].flat[-1] = wrong
                expect(1, verdict(arrays | {name: broken}), f"{name} with one element {wrong}")
        broken = arrays["o"].copy()
        broken[0, 0, 0, 0] = 1e-30  # a row that sees nothing
        expect(1, verdict(arrays | {"o": broken}), "a row that sees nothing and is not 0")
        without = {name: x for name, x in arrays.items() if name != "dropout_keep"}
        expect(2, verdict(without), "dropout without its mask")
        expect(2, verdict(arrays, metadata | {"schema": "another"}), "another schema")
        expect(2, verdict(arrays, metadata | {"mask": "diagonal"}), "an unknown mask")
        expect(2, verdict(arrays | {"k": arrays["k"][:, :3]}), "k and v of different shapes")
        expect(2, verdict(arrays, metadata | {"mask": "window:1"}), "half a window")
        expect(2, verdict(arrays, metadata | {"lengths": "x", "layout": "packed"}), "no lengths")
        expect(2, verdict(arrays | {"o": arrays["o"].astype(np.float16)}), "e4m3")
        expect(2, quietly([f"{folder}/nowhere"]), "no file")
    print("self-test: good")


def quietly(paths):
    """Calls run() without its text."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run(paths)


def run(paths):
    """Checks files; returns the exit code."""
    code = 0
    for path in paths:
        try:
            code = max(code, 0 if check(path) else 1)
        except BadFile as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            code = 2
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            print(f"error: {path}: its metadata and tensors do not fit: {error}", file=sys.stderr)
            code = 2
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE.safetensors")
    parser.add_argument("--self-test", action="store_true",
                        help="require that right outputs pass and wrong ones are caught")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.files:
        parser.error("name a file")
    return run(options.files)


if __name__ == "__main__":
    sys.exit(main())
