#!/usr/bin/env python3
"""Compiles FlashAttention-4's kernels ahead of a run, with or without a GPU, into the folder that
the peer fa4 takes them from: FLASH_ATTENTION_CUTE_DSL_CACHE_DIR (default: ~/.cache/attnlab/fa4).

  FLASH_ATTENTION_CUTE_DSL_CACHE_DIR=fa4-kernels python3 scripts/peers/fa4_compile.py

It calls the peer's own code on tensors without memory, so that it meets every kernel that a run
does. By default these are of sweeps/fa3.json in f16: 16384 tokens, hidden 2048.
"""
import argparse
import itertools
import os
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    words = {"nargs": "+", "metavar": "X"}
    parser.add_argument("--arch", default="sm_90a", help="to compile for (sm_90a)")
    parser.add_argument("--multiprocessors", type=int, default=132, help="of the GPU (132)")
    parser.add_argument("--dtype", default=["f16"], choices=["f16", "bf16"], **words)
    parser.add_argument("--layout", default=["bhsd"], choices=["bshd", "bhsd"], **words)
    parser.add_argument("--head-dim", type=int, default=[64, 128, 256], **words)
    parser.add_argument("--seqlen", type=int, default=[512, 1024, 2048, 4096, 8192, 16384],
                        **words)
    parser.add_argument("--tokens", type=int, default=16384, help="batch times seqlen (16384)")
    parser.add_argument("--hidden", type=int, default=2048, help="heads times head_dim (2048)")
    parser.add_argument("--groups", type=int, default=1, help="query heads of a K/V head (1)")
    parser.add_argument("--mask", default=["none", "causal"],
                        help="none, causal, window:LEFT:RIGHT", **words)
    parser.add_argument("--pass", dest="passes", default=["fwd", "fwdbwd"],
                        choices=["fwd", "fwdbwd"], **words)
    return parser.parse_args()


def main():
    options = parse_arguments()
    os.environ["FLASH_ATTENTION_ARCH"] = options.arch.rstrip("a")
    os.environ["CUTE_DSL_ARCH"] = options.arch
    os.environ["FLASH_ATTENTION_NUM_SMS"] = str(options.multiprocessors)
    import fa4_library
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from peer_point import Point

    class Shapes(Point):
        """Stands for a point of a sweep whose tensors have no memory."""

        def __init__(self, dtype, layout, head_dim, seqlen, mask, passes):
            self.layout, self.passes, self.device = layout, passes, "cuda:0"
            self.scale, self.dropout = head_dim ** -0.5, 0.0
            self.read_mask(mask, None)
            self.rows = self.columns = seqlen
            heads = max(options.hidden // head_dim, 1)
            self.inputs = {}
            for name, count in (("q", heads), ("k", heads // options.groups),
                                ("v", heads // options.groups), ("do", heads)):
                sizes = (seqlen, count) if layout == "bshd" else (count, seqlen)
                shape = (max(options.tokens // seqlen, 1), *sizes, head_dim)
                kind = torch.float16 if dtype == "f16" else torch.bfloat16
                self.inputs[name] = torch.empty(shape, dtype=kind, device="cuda")

    library = fa4_library.load("")
    begin = time.monotonic()
    for values in itertools.product(options.dtype, options.layout, options.head_dim, options.seqlen,
                                    options.mask, options.passes):
        with FakeTensorMode():
            point = Shapes(*values)
            library.check(point, "")
            for lse in (False, True):
                attention = library.attention(point, "", 0.0, lse)
                attention.begin()
                attention.launch()
    folder = os.environ["FLASH_ATTENTION_CUTE_DSL_CACHE_DIR"]
    kernels = sum(name.endswith(".o") for _, _, names in os.walk(folder) for name in names)
    print(f"{kernels} kernels are in {folder}, after {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
