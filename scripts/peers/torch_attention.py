"""The attention of PyTorch that is measured, who really ran it, and how its time is taken."""
import json
import math
import os
import tempfile
import time

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

from torch_point import Unsupported

# What the profiler must have seen of a backend's operators.
OPERATORS = {"flash": "_flash_attention", "efficient": "_efficient_attention",
             "cudnn": "_cudnn_attention", "math": "_scaled_dot_product_attention_math"}
# How PyTorch begins its complaints about a backend.
COMPLAINTS = {"flash": "flash", "efficient": "memory efficient", "cudnn": "cudnn", "math": "math"}
BACKENDS = ("eager", *OPERATORS)
CPU_BACKENDS = ("eager", "flash", "math")
SDPA_BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
                 "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
# The operators that eager attention and its backward run on a CPU; the others only move views.
EAGER_OPERATORS = ("bmm", "mul", "masked_fill", "_softmax", "_softmax_backward_data", "bernoulli_",
                   "native_dropout", "native_dropout_backward", "div_", "sum", "copy_")



class Attention:
    """A backend on one set of inputs: launch() runs the pass and returns {name: output}, laid out
    as the inputs are."""

    def __init__(self, point, backend, dropout, copy=False):
        self.point, self.backend, self.dropout = point, backend, dropout
        needs_gradients = point.passes != "fwd"
        self.inputs = [point.inputs[name].clone() if copy else point.inputs[name].detach()
                       for name in ("q", "k", "v")]
        for tensor in self.inputs:
            tensor.requires_grad_(needs_gradients)
        if needs_gradients:
            dout = point.inputs["do"]
            self.dout = point.heads_first(dout.clone() if copy else dout)
        self.hidden, self.options = None, None
        if backend == "eager":
            self.hidden = point.hidden()
        else:
            self.options = {"dropout_p": dropout, "scale": point.scale} | self.mask_options()
            if point.groups > 1:
                self.options["enable_gqa"] = True
        self.o = self.forward() if point.passes == "bwd" else None

    def forward(self):
        q, k, v = (self.point.heads_first(tensor) for tensor in self.inputs)
        if self.backend == "eager":
            return self.eager(q, k, v)
        with sdpa_kernel(SDPA_BACKENDS[self.backend]):
            return functional.scaled_dot_product_attention(q, k, v, **self.options)

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

    def backward(self, o, keep):
        gradients = torch.autograd.grad(o, self.inputs, self.dout, retain_graph=keep)
        return dict(zip(("dq", "dk", "dv"), gradients))

    def launch(self):
        if self.point.passes == "fwd":
            with torch.no_grad():
                return {"o": self.point.heads_first(self.forward())}
        if self.point.passes == "bwd":
            return self.backward(self.o, keep=True)
        o = self.forward()
        return {"o": self.point.heads_first(o.detach())} | self.backward(o, keep=False)


def executed(symbols):
    """Each once, in order, with the number of its launches; a symbol may be with its shape, and
    with the seconds that a launch took, which are summed."""
    found = {}
    for symbol in symbols:
        what = dict(symbol) if isinstance(symbol, dict) else {"symbol": symbol}
        seconds = what.pop("seconds", None)
        entry = found.setdefault(json.dumps(what), what | {"launches": 0})
        entry["launches"] += 1
        if seconds is not None:
            entry["seconds"] = entry.get("seconds", 0.0) + seconds
    return list(found.values())


def described(event):
    """A kernel with its shape, or a copy or fill of memory, which has none, of a trace."""
    what = {"symbol": event["name"], "seconds": event["dur"] * 1e-6}
    if event["cat"] != "kernel":
        return what
    arguments = event["args"]
    return what | {"grid": arguments["grid"], "block": arguments["block"],
                   "registers": arguments["registers per thread"],
                   "shared_bytes": arguments["shared memory"]}


def traced_kernels(profiler):
    """What ran on a GPU, in order. Shapes are in the profiler's trace alone."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(file)
        with open(file, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
    ran = (event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    return executed(described(event) for event in sorted(ran, key=lambda event: event["ts"]))


def profiled(action, device):
    """(what ran, as executed() gives it; all operators' names)."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        action()
        synchronize(device)
    operators = [event.name for event in profiler.events()
                 if event.device_type == torch.autograd.DeviceType.CPU
                 and event.name.startswith("aten::")]
    if device != "cpu":
        return traced_kernels(profiler), operators
    attention = [name for name in operators if "attention" in name]
    eager = [name for name in operators if name.removeprefix("aten::") in EAGER_OPERATORS]
    return executed(attention or eager), operators


def check_backend(backend, operators):
    """Throws if another backend answered."""
    if backend == "eager" or any(OPERATORS[backend] in name for name in operators):
        return
    ran = dict.fromkeys(name for name in operators if "attention" in name)
    raise Unsupported(f"PyTorch did not run its {backend} backend but {', '.join(ran) or 'another'}")


def reason_of_refusal(backend, refusal, caught):
    """PyTorch's own words: it warns about each backend in turn, then gives up."""
    reasons, of_this = [], False
    for warning in caught:
        text = str(warning.message).split(" (Triggered internally")[0].strip()
        if "not used because" in text:
            of_this = text.lower().startswith(COMPLAINTS.get(backend, backend))
        elif of_this and text not in reasons:
            reasons.append(text)
    return f"PyTorch: {' '.join(reasons) or str(refusal).splitlines()[0]}"


def synchronize(device):
    if device != "cpu":
        torch.cuda.synchronize(device)


class CpuClock:
    def seconds_of(self, launch, launches):
        begin = time.perf_counter()
        for _ in range(launches):
            launch()
        return time.perf_counter() - begin, True


class CudaClock:
    """Events behind a sleeping kernel: the queue is full before the first launch begins."""

    LONGEST_SLEEP_S = 0.25
    TRIES = 3
    cycles_per_s = None

    def __init__(self):
        self.host_s = 1e-4  # what a launch takes to queue, as seen last
        if CudaClock.cycles_per_s is None:
            CudaClock.cycles_per_s = self.measure_cycles()

    @staticmethod
    def event():
        return torch.cuda.Event(enable_timing=True)

    def measure_cycles(self):
        cycles = 10_000_000
        for _ in range(3):  # the first ones bring the clock up
            begin, end = self.event(), self.event()
            begin.record()
            torch.cuda._sleep(cycles)
            end.record()
            end.synchronize()
        return cycles / (begin.elapsed_time(end) * 1e-3)

    def seconds_of(self, launch, launches):
        for _ in range(self.TRIES):
            sleep_s = min(self.LONGEST_SLEEP_S, 2 * self.host_s * launches + 2e-4)
            begin, end = self.event(), self.event()
            torch.cuda._sleep(int(sleep_s * self.cycles_per_s))
            begin.record()
            start = time.perf_counter()
            for _ in range(launches):
                launch()
            self.host_s = (time.perf_counter() - start) / launches
            end.record()
            is_hidden = not begin.query()  # still asleep
            end.synchronize()
            if is_hidden:
                break
        return begin.elapsed_time(end) * 1e-3, is_hidden
