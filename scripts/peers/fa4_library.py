"""FlashAttention-4 (flash-attn-4, kernels in CuTe DSL) as a peer. f16 and bf16; causal masks and
windows, aligned at the bottom right; packed sequences; no dropout.

Its functions take (batch, seqlen, heads, head_dim): bhsd tensors are given as transposed views,
which it copies only where their addresses are no multiples of 16 bytes; what it writes lies as what
it reads. lse is asked for where something needs it: a backward, and the outputs that are verified;
not in a forward that is timed alone, as is its own default.

It compiles a kernel when it first meets a type, head_dim, mask and the like, which takes seconds,
and keeps it in FLASH_ATTENTION_CUTE_DSL_CACHE_DIR (default: ~/.cache/attnlab/fa4). fa4_compile.py
fills that folder on a machine without a GPU.
"""
import importlib.metadata
import os
import pathlib

import torch

from peer_attention import Attention, Library
from peer_point import Unsupported

REMEDY = ("install.sh beside this script installs it (docs/peers.md says how); or set "
          "ATTNLAB_PYTHON_FA4 to a Python that has it")


def import_interface():
    """Returns its functions; it reads the environment while it is imported."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_DIR", str(home / "attnlab" / "fa4"))
    try:
        from flash_attn.cute import interface
    except ImportError as error:
        raise Unsupported(f"flash-attn-4 cannot be imported ({error}): {REMEDY}") from error
    return interface


class FlashAttention4(Library):
    def __init__(self):
        self.interface = import_interface()
        self.version = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in
                                 ("flash-attn-4", "nvidia-cutlass-dsl", "torch"))

    def check(self, point, backend):
        if point.device == "cpu":
            raise Unsupported("FlashAttention-4 runs on a GPU only")
        head_dim = point.inputs["q"].shape[-1]
        if point.inputs["q"].dtype not in (torch.float16, torch.bfloat16):
            raise Unsupported("FlashAttention-4 takes f16 and bf16 only")
        if head_dim % 8 != 0:
            raise Unsupported(f"FlashAttention-4 takes head dims of multiples of 8, not {head_dim}")
        if point.pattern is not None or point.padded:
            raise Unsupported("FlashAttention-4 is asked for causal masks and windows only")
        if point.dropout > 0:
            raise Unsupported("FlashAttention-4 has no dropout")

    def attention(self, point, backend, dropout, lse, copy=False):
        return FlashAttention4OnPoint(self.interface, point, lse, copy)


class FlashAttention4OnPoint(Attention):
    def __init__(self, interface, point, lse, copy=False):
        super().__init__(point, point.rows_first, lse, copy)
        self.interface = interface
        self.qkv = [self.order(tensor) for tensor in self.inputs]
        left, right = (None if bound < 0 else bound for bound in point.window or (-1, -1))
        self.options = {"softmax_scale": point.scale, "causal": point.causal,
                        "window_size_left": left, "window_size_right": right}
        self.options |= point.packed or {}

    def forward(self, lse):
        o, sums, *_ = self.interface._flash_attn_fwd(
            *self.qkv, return_lse=lse, out=torch.empty_like(self.qkv[0]), **self.options)
        return o, sums

    def backward(self, state, keep):
        o, lse = state
        gradients = self.interface._flash_attn_bwd(*self.qkv, o, self.dout, lse, **self.options)
        return {name: self.order(tensor) for name, tensor in zip(("dq", "dk", "dv"), gradients)}


def load(_file):
    return FlashAttention4()
