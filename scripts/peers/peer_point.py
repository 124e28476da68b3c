"""The inputs of a point as PyTorch's tensors: the files that attnlab and its peers exchange
(harness/tensors/safetensors.h documents them), and the masks that their metadata name."""
import json
import mmap
import os
import struct

import torch

from peer_memory import opened


class Unsupported(Exception):
    """The library cannot do this; the message says why."""


class Failure(Exception):
    """The library did it wrong; the message says all that there is to say."""


def read_safetensors(path):
    """Reads ({name: tensor}, metadata) of attnlab's file; tensors view a private map of it."""
    types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
             "I32": torch.int32, "U8": torch.uint8, "F8_E4M3": torch.float8_e4m3fn}
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = types[entry["dtype"]]
        flat = torch.frombuffer(data, dtype=kind, count=(end - begin) // kind.itemsize,
                                offset=8 + length + begin)
        tensors[name] = flat.view(entry["shape"])
    return tensors, metadata


def write_safetensors(path, tensors):
    """Writes from any device and with any strides, rows in the order of their shape."""
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    # The widest tensors come first: each then lies at a multiple of its size.
    tensors = dict(sorted(tensors.items(), key=lambda entry: -entry[1].element_size()))
    header, size = {}, 0
    for name, tensor in tensors.items():
        end = size + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
        file.truncate(start + size)  # a file of the same size keeps its memory
        data = mmap.mmap(file.fileno(), start + size)
    data[:start] = struct.pack("<Q", len(text)) + text
    for name, tensor in tensors.items():
        begin, _ = header[name]["data_offsets"]
        flat = torch.frombuffer(data, dtype=tensor.dtype, count=tensor.numel(),
                                offset=start + begin)
        flat.view(tensor.shape).copy_(tensor.detach())


# These tensors make values of the codes of e4m3: float32, (batch, heads_kv) each.
DESCALES = ("q_descale", "k_descale", "v_descale")


class Point:
    """Holds the inputs of one point on a device, and what its metadata say."""

    packed = None  # of packed sequences what read_packed() says

    def __init__(self, path, device, shared=None):
        """`shared`: where q, k, v and do lie in memory of attnlab's (peer_memory.py); None: they
        are in the file too."""
        tensors, metadata = read_safetensors(path)
        if shared is not None:
            with opened(shared, device) as there:
                tensors |= {name: tensor.clone() for name, tensor in there.items()}
        self.layout, self.passes = metadata["layout"], metadata["pass"]
        self.scale, self.dropout = float(metadata["softmax_scale"]), float(metadata["dropout"])
        self.device = device
        row = {"bshd": 1, "bhsd": 2, "packed": 0}[self.layout]
        self.rows, self.columns = tensors["q"].shape[row], tensors["k"].shape[row]
        if self.layout == "packed":
            self.read_packed(tensors["cu_seqlens_q"], tensors["cu_seqlens_k"])
        head = 1 if self.packed else 3 - row
        self.groups = tensors["q"].shape[head] // tensors["k"].shape[head]  # that share K and V
        self.read_mask(metadata["mask"], tensors.get("block_pattern"))
        self.keys = [int(n) for n in metadata["lengths"].split("+") if n] if self.padded else None
        self.inputs = {name: tensors[name].to(device, copy=shared is None)
                       for name in ("q", "k", "v", "do") if name in tensors}
        self.descales = {name: tensors[name].to(device, copy=True)
                         for name in DESCALES if name in tensors}  # none: of another type
        for b, length in enumerate(self.keys or []):
            for name in ("k", "v"):
                self.inputs[name][b].narrow(row - 1, length, self.columns - length).zero_()
        self.masks = {}

    def read_packed(self, starts_q, starts_k):
        """Where packed entries begin, and rows and columns of the longest, by the names that
        flash_attn_varlen_func has for them."""
        self.rows, self.columns = (int(starts.diff().max()) for starts in (starts_q, starts_k))
        self.packed = {"cu_seqlens_q": starts_q.to(self.device, copy=True),
                       "cu_seqlens_k": starts_k.to(self.device, copy=True),
                       "max_seqlen_q": self.rows, "max_seqlen_k": self.columns}

    def read_mask(self, text, pattern):
        self.causal, self.padded, self.window, self.pattern = False, False, None, None
        for part in [] if text == "none" else text.split("+"):
            kind, *fields = part.split(":")
            if kind == "causal":
                self.causal = True
            elif kind == "padding":
                self.padded = True
            elif kind == "window":
                self.window = [int(field) for field in fields]
            elif kind == "blocks":
                self.pattern = pattern != 0
                self.block = [int(n) for n in fields[-1].split("x")]
            else:
                raise Unsupported(f"the mask '{text}' is unknown to this script")

    def as_verified(self, outputs):
        """Returns the outputs in the types in which attnlab verifies them. A library's o of e4m3
        may be bf16, which f16 holds as it is, but for its largest and smallest numbers."""
        return outputs | {"o": outputs["o"].to(torch.float16)} if self.descales else outputs

    @property
    def only_causal(self):
        return self.causal and not self.padded and self.window is None and self.pattern is None

    def visible(self):
        """Returns booleans that broadcast to (batch, heads, rows, columns), None for all."""
        if "visible" not in self.masks:
            self.masks["visible"] = self.make_visible()
        return self.masks["visible"]

    def hidden(self):
        if "hidden" not in self.masks:
            visible = self.visible()
            self.masks["hidden"] = None if visible is None else ~visible
        return self.masks["hidden"]

    def refuse_packed(self, library):
        if self.packed:
            raise Unsupported(f"{library} is given no packed sequences")

    def make_visible(self):
        parts = []
        c = torch.arange(self.columns, device=self.device)
        r = torch.arange(self.rows, device=self.device)[:, None]
        diagonal = r + self.columns - self.rows  # aligned at the bottom right
        if self.causal:
            parts.append((c <= diagonal)[None, None])
        if self.window:
            left, right = self.window
            if left >= 0:
                parts.append((c >= diagonal - left)[None, None])
            if right >= 0:
                parts.append((c <= diagonal + right)[None, None])
        if self.pattern is not None:
            pattern = self.pattern.to(self.device)
            parts.append(pattern[r // self.block[0], c // self.block[1]][None, None])
        if self.padded:
            keys = torch.tensor(self.keys, device=self.device)
            parts.append(c < keys[:, None, None, None])
        if not parts:
            return None
        visible = parts[0]
        for part in parts[1:]:
            visible = visible & part
        if not visible.any(dim=-1).all():
            raise Unsupported("a row sees no key: a softmax over a mask gives NaN there, attnlab 0")
        return visible

    def heads_first(self, tensor):
        """Swaps to (batch, heads, rows, head_dim) and back; for dense tensors."""
        return tensor.transpose(1, 2) if self.layout == "bshd" else tensor

    def rows_first(self, tensor):
        """Swaps to (batch, rows, heads, head_dim), packed (all rows, heads, head_dim), and back."""
        return tensor.transpose(1, 2) if self.layout == "bhsd" else tensor
