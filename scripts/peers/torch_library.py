"""PyTorch's scaled_dot_product_attention and its eager attention as a peer."""
import math

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from peer_attention import AutogradAttention, Library
from peer_point import Unsupported

# The profiler must have seen this in the names of a backend's operators.
OPERATORS = {"flash": "_flash_attention", "efficient": "_efficient_attention",
             "cudnn": "_cudnn_attention", "math": "_scaled_dot_product_attention_math"}
# PyTorch's complaints about a backend begin so.
COMPLAINTS = {"flash": "flash", "efficient": "memory efficient", "cudnn": "cudnn", "math": "math"}
BACKENDS = ("eager", *OPERATORS)
CPU_BACKENDS = ("eager", "flash", "math")
SDPA_BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
                 "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
# Eager attention and its backward run these on a CPU; the other operators only move views.
EAGER_OPERATORS = ("bmm", "mul", "masked_fill", "_softmax", "_softmax_backward_data", "bernoulli_",
                   "native_dropout", "native_dropout_backward", "div_", "sum", "copy_")


class Torch(Library):
    def __init__(self):
        self.version = f"torch {torch.__version__}"

    def version_of(self, backend):
        if backend != "cudnn":
            return self.version
        number = torch.backends.cudnn.version()
        return f"{self.version}, cuDNN {number // 10000}.{number // 100 % 100}.{number % 100}"

    def check(self, point, backend):
        point.refuse_packed("PyTorch")
        if backend not in BACKENDS:
            raise Unsupported(f"there is no backend '{backend}': take {', '.join(BACKENDS)}")
        if point.device == "cpu" and backend not in CPU_BACKENDS:
            raise Unsupported(f"PyTorch has no {backend} backend on a CPU")

    def attention(self, point, backend, dropout, lse, copy=False):
        return TorchAttention(point, backend, dropout, copy)

    def check_ran(self, backend, operators):
        if backend == "eager" or any(OPERATORS[backend] in event.name for event in operators):
            return
        ran = dict.fromkeys(event.name for event in operators if "attention" in event.name)
        raise Unsupported(f"PyTorch did not run its {backend} backend but "
                          f"{', '.join(ran) or 'another'}")

    def operators_of(self, operators):
        names = [event.name for event in operators]
        attention = [name for name in names if "attention" in name]
        return attention or [name for name in names
                             if name.removeprefix("aten::") in EAGER_OPERATORS]

    def reason_of(self, backend, refusal, caught):
        """Returns PyTorch's own words: it warns about each backend in turn, then gives up."""
        signs = ("No available kernel", "No viable backend")
        if not any(sign in str(refusal) for sign in signs):
            return ""
        reasons, of_this = [], False
        for warning in caught:
            text = str(warning.message).split(" (Triggered internally")[0].strip()
            if "not used because" in text:
                of_this = text.lower().startswith(COMPLAINTS.get(backend, backend))
            elif of_this and text not in reasons:
                reasons.append(text)
        return f"PyTorch: {' '.join(reasons) or str(refusal).splitlines()[0]}"


class TorchAttention(AutogradAttention):
    """Runs a backend, which gives no lse."""

    def __init__(self, point, backend, dropout, copy=False):
        super().__init__(point, point.heads_first, False, copy)
        self.backend, self.dropout = backend, dropout
        self.hidden, self.options = None, None
        if backend == "eager":
            self.hidden = point.hidden()
        else:
            self.options = {"dropout_p": dropout, "scale": point.scale} | self.mask_options()
            if point.groups > 1:
                self.options["enable_gqa"] = True

    def attend(self, q, k, v):
        if self.backend == "eager":
            return self.eager(q, k, v), None
        with sdpa_kernel(SDPA_BACKENDS[self.backend]):
            return functional.scaled_dot_product_attention(q, k, v, **self.options), None

    def mask_options(self):
        point = self.point
        if point.only_causal and point.rows == point.columns:
            return {"is_causal": True}  # PyTorch aligns it at the top left
        if (point.only_causal and point.rows < point.columns and point.device != "cpu"
                and self.backend in ("flash", "efficient")):
            return {"attn_mask": causal_lower_right(point.rows, point.columns)}
        visible = point.visible()
        return {} if visible is None else {"attn_mask": visible}

    def eager(self, q, k, v):
        groups = self.point.groups
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        weights = torch.matmul(q, k.transpose(-2, -1)) * self.point.scale
        if self.hidden is not None:
            weights = weights.masked_fill(self.hidden, -math.inf)
        weights = torch.softmax(weights, dim=-1)
        if self.dropout > 0:
            weights = functional.dropout(weights, self.dropout)
        return torch.matmul(weights, v)


def load(_file):
    return Torch()
