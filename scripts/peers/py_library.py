"""Anybody's Python function on PyTorch's tensors as a peer: py:FILE.py:FUNCTION.

  FUNCTION(q, k, v, *, causal, softmax_scale) -> o, or (o, lse)

q is (batch, seqlen_q, heads, head_dim), k and v are (batch, seqlen_k, heads_kv, head_dim); in the
layout bhsd they are transposed views of what lies in memory. o has the shape, type and device of q,
lse (batch, heads, seqlen_q) in float32: the natural logarithm of the sum of exponentials. A causal
mask is aligned at the bottom right. Gradients are autograd's: of operators that it knows, or of a
torch.autograd.Function.

More is passed to who names it among the parameters (the names are those of flash_attn_func):

  window_size   (left, right), -1: open; (-1, -1) where there is no window
  dropout_p     the probability; outputs to verify come from a launch with 0
  visible       a boolean tensor that broadcasts to (batch, heads, seqlen_q, seqlen_k), or None: of
                masks that no other parameter can say, which are then not said by them either
  cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k
                of packed sequences, whose tensors are (all rows, heads, head_dim): where entries
                begin, int32, (batch + 1), and the longest; None of others. An lse is not looked at
  q_descale, k_descale, v_descale
                of e4m3, whose q, k and v are float8_e4m3fn: float32, (batch, heads_kv), value =
                code * descale; None of other types. o is then float16 or bfloat16

A point that needs a parameter that is not there is `unsupported`; so is one on which the function
raises NotImplementedError, whose message is the reason. Whatever else it raises is an error.
"""
import contextlib
import hashlib
import importlib.util
import inspect
import os
import sys
import traceback

import torch

from peer_attention import AutogradAttention, Library
from peer_point import DESCALES, Failure, Unsupported
from peer_profile import working_operators


PACKED = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")


class PythonFile(Library):
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        spec = importlib.util.spec_from_file_location("attnlab_py_peer", path)
        self.module = importlib.util.module_from_spec(spec)
        sys.path.append(os.path.dirname(os.path.abspath(path)))  # for its own imports
        with blamed(path):
            spec.loader.exec_module(self.module)
        own = getattr(self.module, "__version__", None)
        self.version = (f"{os.path.basename(path)}{f' {own}' if own else ''} "
                        f"(sha256 {digest[:12]}), torch {torch.__version__}")

    def check(self, point, backend):
        parameters = self.parameters_of(backend)
        for name in ("causal", "softmax_scale"):
            if name not in parameters:
                raise Unsupported(f"{backend} of {self.path} has no parameter '{name}': its "
                                  "parameters are q, k, v, causal and softmax_scale")
        keywords_of(point, point.dropout, parameters, backend)

    def parameters_of(self, backend):
        function = getattr(self.module, backend, None)
        if not callable(function):
            there = [name for name, value in vars(self.module).items() if inspect.isfunction(value)]
            raise Unsupported(f"{self.path} has no function '{backend}'; there are: "
                              f"{', '.join(there) or 'none'}")
        return set(inspect.signature(function).parameters)

    def attention(self, point, backend, dropout, lse, copy=False):
        keywords = keywords_of(point, dropout, self.parameters_of(backend), backend)
        return FunctionAttention(point, self.path, getattr(self.module, backend), keywords, copy)

    def operators_of(self, operators):
        return working_operators(operators)


def keywords_of(point, dropout, parameters, name):
    """Returns what the function is given beside q, k and v."""
    masks = {"causal": point.causal}
    needs_visible = point.padded or point.pattern is not None
    if "window_size" in parameters:
        masks["window_size"] = tuple(point.window or (-1, -1))
    elif point.window:
        needs_visible = True
    if "visible" in parameters:
        masks["visible"] = None
    if needs_visible:
        if "visible" not in parameters:
            missing = "window_size" if point.window else "visible"
            raise Unsupported(f"the mask needs a parameter '{missing}' of {name}, which it lacks")
        masks |= {"causal": False, "visible": point.visible()}
        if "window_size" in masks:
            masks["window_size"] = (-1, -1)
    for keywords, given, need in ((PACKED, point.packed, "packed sequences need"),
                                  (DESCALES, point.descales, "e4m3 needs")):
        for keyword in keywords:
            if keyword in parameters:
                masks[keyword] = given[keyword] if given else None
            elif given:
                raise Unsupported(f"{need} a parameter '{keyword}' of {name}, which it lacks")
    if "dropout_p" in parameters:
        masks["dropout_p"] = dropout
    elif point.dropout > 0:
        raise Unsupported(f"dropout needs a parameter 'dropout_p' of {name}, which it lacks")
    return masks | {"softmax_scale": point.scale}


@contextlib.contextmanager
def blamed(path):
    """Adds to what is raised in the file where that was."""
    try:
        yield
    except (Unsupported, Failure):
        raise
    except NotImplementedError as error:
        raise Unsupported(f"{os.path.basename(path)}: {error or 'NotImplementedError'}") from error
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == path]
        place = os.path.basename(path) + (f", line {lines[-1]}" if lines else "")
        said = str(error).splitlines()
        raise Failure(f"{place}: {type(error).__name__}: {said[0] if said else ''}") from error


class FunctionAttention(AutogradAttention):
    def __init__(self, point, path, function, keywords, copy=False):
        super().__init__(point, point.rows_first, True, copy)
        self.path, self.function, self.keywords = path, function, keywords

    def attend(self, q, k, v):
        with blamed(self.path):
            returned = self.function(q, k, v, **self.keywords)
        has_lse = isinstance(returned, tuple) and len(returned) == 2
        o, lse = returned if has_lse else (returned, None)
        halves = (torch.float16, torch.bfloat16)
        self.check("o", o, q.shape, halves if self.point.descales else (q.dtype,))
        if lse is not None and not self.point.packed:
            rows_and_heads = (q.shape[0], q.shape[2], q.shape[1])
            self.check("lse", lse, torch.Size(rows_and_heads), (torch.float32,))
        if self.point.passes != "fwd" and not o.requires_grad:
            raise Unsupported(f"{self.function.__name__} has no backward: its o has no gradient")
        return o, lse

    def backward(self, state, keep):
        with blamed(self.path):
            return super().backward(state, keep)

    def check(self, name, got, shape, dtypes):
        if not isinstance(got, torch.Tensor):
            what = type(got).__name__
        elif got.shape == shape and got.dtype in dtypes:
            return
        else:
            what = f"{got.dtype} {list(got.shape)}"
        wanted = " or ".join(str(dtype) for dtype in dtypes)
        raise Failure(f"{self.function.__name__} returned {name} as {what}, wanted is {wanted} "
                      f"{list(shape)}")


def load(path):
    try:
        return PythonFile(path)
    except (Failure, OSError) as error:
        raise Unsupported(str(error)) from error
