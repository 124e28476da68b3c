#!/usr/bin/env python3
"""PyTorch's attention as a competitor of attnlab's kernels: the other end of `attnlab run --peer`.

attnlab starts this script (harness/peer_process.h) and speaks with it in lines of JSON: one request
a line on stdin, {"id": 7, "call": "time", ...}, one answer a line on stdout, {"id": 7, ...}. Nothing
else ever goes to stdout. An answer says "ok", or one of "unsupported", "out_of_memory" and "error"
with a sentence; a process that goes on after an answer with "fatal" would lie, so it ends.

  hello                      protocol, versions of torch, CUDA and cuDNN, devices, backends
  prepare  backend           eager, flash, efficient, cudnn or math
           device            cpu or cuda:N;  threads: of the CPU;  tf32: true allows it (f32 eager)
           input             a file as `attnlab run --save` writes it: q, k, v, do, block_pattern,
                             and what its metadata say: pass, layout, mask, lengths, scale, dropout
           sets              copies of the inputs that launches go through in turn (cold caches)
           output            the file to write the outputs of a first launch to
    ->     handle, kernels (the symbols the pass ran; on the CPU the operators), peak_bytes (of a
           launch above inputs and masks, with what its forward left), verified_dropout
  warm     handle, seconds, launches: at least so many of both -> launches, seconds
  time     handle, launches  -> seconds of all together, launch_cost_hidden
  outputs  handle, output    writes the outputs of the last timed launch
  release  handle
  quit

What is measured. Tensors lie in memory as attnlab's do; bshd ones are passed as transposed views, as
users do. eager is what a framework's user writes: matmul, times scale, masked_fill, softmax,
dropout, matmul in the tensors' type, on those views (torch copies inside matmul what it cannot view;
that is timed), with K and V repeated for grouped heads. The others are scaled_dot_product_attention
held to one backend. Masks are boolean tensors made before, `is_causal` is used where it means the
same, and the lower-right causal bias where the backend knows it. fwd runs without gradients; bwd is
torch.autograd.grad of a forward that ran before; fwdbwd is both. Which backend ran is read from the
profiler: another one than asked for is refused. Keys past a padded entry's end are set to zero: no
result depends on them, and in f16 their products overflow where the framework forms them.

PyTorch draws dropout masks of its own: outputs to verify come from a launch without dropout
("verified_dropout": 0), the timed ones have it.

On a GPU the time lies between two events behind a sleeping kernel, long enough for all launches to
be queued behind it; launch_cost_hidden says whether it was. Everything is synchronised before an
answer. On the CPU it is the wall clock.
"""
import gc
import json
import math
import mmap
import os
import signal
import struct
import sys
import time
import warnings
import weakref

signal.signal(signal.SIGINT, signal.SIG_IGN)  # attnlab decides when to stop
# Idle OpenMP threads must sleep, not spin beside the other side's timed launch.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

PROTOCOL = 1
REMEDY = ("pip install torch for this Python, or set ATTNLAB_PYTHON to one that has it "
          f"(this one is {sys.executable})")

# What the profiler must have seen of a backend's operators.
OPERATORS = {"flash": "_flash_attention", "efficient": "_efficient_attention",
             "cudnn": "_cudnn_attention", "math": "_scaled_dot_product_attention_math"}
# How PyTorch begins its complaints about a backend.
COMPLAINTS = {"flash": "flash", "efficient": "memory efficient", "cudnn": "cudnn", "math": "math"}
CPU_BACKENDS = ("eager", "flash", "math")
# The operators that eager attention and its backward run on a CPU; the others only move views.
EAGER_OPERATORS = ("bmm", "mul", "masked_fill", "_softmax", "_softmax_backward_data", "bernoulli_",
                   "native_dropout", "native_dropout_backward", "div_", "sum", "copy_")


class Unsupported(Exception):
    """The backend cannot do this; the message says why."""


def read_safetensors(path):
    """({name: tensor}, metadata) of a file of attnlab's; the tensors view a private map of it."""
    types = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
             "I32": torch.int32, "U8": torch.uint8}
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
    """All of one dtype, from any device and with any strides, rows in the order of their shape."""
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    header, size = {}, 0
    for name, tensor in tensors.items():
        end = size + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [size, end]}
        size = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = bytearray(struct.pack("<Q", len(text)) + text) + bytearray(size)
    for name, tensor in tensors.items():
        begin, _ = header[name]["data_offsets"]
        flat = torch.frombuffer(data, dtype=tensor.dtype, count=tensor.numel(),
                                offset=8 + len(text) + begin)
        flat.view(tensor.shape).copy_(tensor.detach())
    with open(path, "wb") as file:
        file.write(data)


class Point:
    """The inputs of one point on a device, and what its metadata say."""

    def __init__(self, path, device):
        tensors, metadata = read_safetensors(path)
        self.layout, self.passes = metadata["layout"], metadata["pass"]
        self.scale, self.dropout = float(metadata["softmax_scale"]), float(metadata["dropout"])
        if self.layout not in ("bshd", "bhsd"):
            raise Unsupported("packed sequences: scaled_dot_product_attention takes dense tensors")
        row = 1 if self.layout == "bshd" else 2
        self.rows, self.columns = tensors["q"].shape[row], tensors["k"].shape[row]
        self.device = device
        self.read_mask(metadata["mask"], tensors.get("block_pattern"))
        self.keys = [int(n) for n in metadata["lengths"].split("+") if n] if self.padded else None
        self.inputs = {name: tensors[name].to(device, copy=True)
                       for name in ("q", "k", "v", "do") if name in tensors}
        for b, length in enumerate(self.keys or []):
            for name in ("k", "v"):
                self.inputs[name][b].narrow(row - 1, length, self.columns - length).zero_()
        self.masks = {}

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

    @property
    def only_causal(self):
        return self.causal and not self.padded and self.window is None and self.pattern is None

    def visible(self):
        """Boolean, broadcasts to (batch, heads, rows, columns); None: everything is visible."""
        if "visible" not in self.masks:
            self.masks["visible"] = self.make_visible()
        return self.masks["visible"]

    def hidden(self):
        if "hidden" not in self.masks:
            visible = self.visible()
            self.masks["hidden"] = None if visible is None else ~visible
        return self.masks["hidden"]

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
            raise Unsupported("a row sees no key: PyTorch gives NaN there, attnlab 0")
        return visible

    def heads_first(self, tensor):
        """(batch, heads, rows, head_dim) and back."""
        return tensor.transpose(1, 2) if self.layout == "bshd" else tensor


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
        self.forward = self.choose()
        self.o = self.forward() if point.passes == "bwd" else None

    def choose(self):
        q, k, v = self.inputs
        heads_first = self.point.heads_first
        if self.backend == "eager":
            hidden = self.point.hidden()
            return lambda: self.eager(heads_first(q), heads_first(k), heads_first(v), hidden)
        options = {"dropout_p": self.dropout, "scale": self.point.scale} | self.mask_options()
        dim = 2 if self.point.layout == "bshd" else 1
        if q.shape[dim] != k.shape[dim]:
            options["enable_gqa"] = True
        context = getattr(SDPBackend, {"efficient": "EFFICIENT_ATTENTION",
                                       "math": "MATH"}.get(self.backend,
                                                           f"{self.backend.upper()}_ATTENTION"))

        def attend():
            with sdpa_kernel(context):
                return functional.scaled_dot_product_attention(
                    heads_first(q), heads_first(k), heads_first(v), **options)
        return attend

    def mask_options(self):
        point = self.point
        if point.only_causal and point.rows == point.columns:
            return {"is_causal": True}  # PyTorch aligns it at the top left
        visible = point.visible()
        if point.only_causal and self.backend in ("flash", "efficient") and point.device != "cpu":
            return {"attn_mask": causal_lower_right(point.rows, point.columns)}
        return {} if visible is None else {"attn_mask": visible}

    def eager(self, q, k, v, hidden):
        group = q.shape[1] // k.shape[1]
        if group > 1:
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        weights = torch.matmul(q, k.transpose(-2, -1)) * self.point.scale
        if hidden is not None:
            weights = weights.masked_fill(hidden, -math.inf)
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


def profiled(action, device):
    """(symbols of what ran, each once, in order; all operators' names)."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device != "cpu":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        action()
        synchronize(device)
    on_device, operators = {}, {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if not event.name.startswith(("Memcpy", "Memset")):
                on_device[event.name] = True
        elif event.name.startswith("aten::"):
            operators[event.name] = True
    if device == "cpu":
        attention = [name for name in operators if "attention" in name]
        eager = [name for name in operators if name.removeprefix("aten::") in EAGER_OPERATORS]
        return attention or eager, list(operators)
    return list(on_device), list(operators)


def check_backend(backend, operators):
    """Throws if another backend answered."""
    if backend == "eager" or any(OPERATORS[backend] in name for name in operators):
        return
    ran = [name for name in operators if "attention" in name]
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

    def __init__(self):
        self.host_s = 1e-4  # what a launch takes to queue, as seen last
        cycles = 10_000_000
        for _ in range(2):  # the first brings the clock up
            begin, end = self.event(), self.event()
            begin.record()
            torch.cuda._sleep(cycles)
            end.record()
            end.synchronize()
        self.cycles_per_s = cycles / (begin.elapsed_time(end) * 1e-3)

    @staticmethod
    def event():
        return torch.cuda.Event(enable_timing=True)

    def seconds_of(self, launch, launches):
        for _ in range(self.TRIES):
            sleep_s = min(self.LONGEST_SLEEP_S, 2 * self.host_s * launches + 2e-4)
            torch.cuda._sleep(int(sleep_s * self.cycles_per_s))
            begin, end = self.event(), self.event()
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


class Prepared:
    """A backend at a point, ready to be timed."""

    def __init__(self, peer, point, request):
        self.peer, self.point, self.backend = peer, point, request["backend"]
        self.tf32 = bool(request.get("tf32", False))
        self.device, self.last = point.device, None
        self.set_precision()
        write_safetensors(request["output"], self.verified())
        base = self.base()
        launchers = [Attention(point, self.backend, point.dropout)]
        launchers[0].launch()
        self.kernels = self.profile(launchers[0])
        synchronize(self.device)
        self.peak_bytes = None
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats(self.device)
            launchers[0].launch()
            synchronize(self.device)
            self.peak_bytes = torch.cuda.max_memory_allocated(self.device) - base
        for _ in range(int(request.get("sets", 1)) - 1):
            launchers.append(Attention(point, self.backend, point.dropout, copy=True))
        self.launchers, self.turn = launchers, 0

    def base(self):
        """Bytes of the inputs, their masks, and what other prepared ones hold; cuBLAS's workspace
        is not among them."""
        if self.device == "cpu":
            return 0
        synchronize(self.device)
        torch._C._cuda_clearCublasWorkspaces()
        return torch.cuda.memory_allocated(self.device)

    def set_precision(self):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32

    def verified(self):
        """Outputs of a launch without dropout."""
        return Attention(self.point, self.backend, 0.0).launch()

    def profile(self, attention):
        """The symbols of the pass; checks the forward of each."""
        with torch.set_grad_enabled(self.point.passes != "fwd"):
            forward, operators = profiled(attention.forward, self.device)
        check_backend(self.backend, operators)
        if self.point.passes == "fwd":
            return forward
        return profiled(attention.launch, self.device)[0]

    def launch(self):
        self.last = None  # its memory serves the next
        self.last = self.launchers[self.turn].launch()
        self.turn = (self.turn + 1) % len(self.launchers)

    def warm(self, request):
        begin, count = time.perf_counter(), 0
        while count < request["launches"] or time.perf_counter() - begin < request["seconds"]:
            self.launch()
            synchronize(self.device)
            count += 1
        return {"launches": count, "seconds": time.perf_counter() - begin}

    def time(self, request):
        seconds, is_hidden = self.peer.clock(self.device).seconds_of(self.launch,
                                                                     request["launches"])
        return {"seconds": seconds, "launch_cost_hidden": is_hidden}

    def outputs(self, request):
        if self.point.dropout > 0 or self.last is None:
            write_safetensors(request["output"], self.verified())
        else:
            write_safetensors(request["output"], self.last)
        return {}


class Peer:
    def __init__(self):
        self.prepared, self.points, self.clocks = {}, weakref.WeakValueDictionary(), {}
        self.last_handle = 0

    def clock(self, device):
        if device not in self.clocks:
            self.clocks[device] = CpuClock() if device == "cpu" else CudaClock()
        return self.clocks[device]

    def hello(self, _):
        import_torch()
        cuda = torch.cuda.is_available()
        return {"protocol": PROTOCOL, "torch": torch.__version__, "python": sys.executable,
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version() if cuda else None,
                "devices": [torch.cuda.get_device_name(i)
                            for i in range(torch.cuda.device_count() if cuda else 0)],
                "backends": {"cpu": CPU_BACKENDS, "cuda": ["eager", *OPERATORS] if cuda else []}}

    def prepare(self, request):
        backend, device = request["backend"], request["device"]
        if backend != "eager" and backend not in OPERATORS:
            raise Unsupported(f"there is no backend '{backend}': take eager, {', '.join(OPERATORS)}")
        if device == "cpu":
            if backend not in CPU_BACKENDS:
                raise Unsupported(f"PyTorch has no {backend} backend on a CPU")
            torch.set_num_threads(int(request.get("threads", 1)))
        elif not torch.cuda.is_available():
            raise Unsupported(f"torch {torch.__version__} finds no GPU that it can use: install one "
                              "built for CUDA and this driver, or set ATTNLAB_PYTHON to a Python "
                              f"that has it (this one is {sys.executable})")
        else:
            torch.cuda.set_device(device)
        key = (request["input"], os.stat(request["input"]).st_mtime_ns, device)
        point = self.points.get(key)
        if point is None:
            point = self.points[key] = Point(request["input"], device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                prepared = Prepared(self, point, request)
            except RuntimeError as refusal:
                if not any(sign in str(refusal) for sign in ("No available kernel",
                                                             "No viable backend")):
                    raise
                raise Unsupported(reason_of_refusal(backend, refusal, caught)) from refusal
        self.last_handle += 1
        self.prepared[self.last_handle] = prepared
        answer = {"handle": self.last_handle, "kernels": prepared.kernels,
                  "peak_bytes": prepared.peak_bytes}
        if point.dropout > 0:
            answer["verified_dropout"] = 0.0
        return answer

    def release(self, request):
        self.prepared.pop(request["handle"], None)
        return {}

    def clean(self):
        """Gives memory back to the other side."""
        gc.collect()
        if self.clocks.keys() - {"cpu"} or any(p.device != "cpu" for p in self.points.values()):
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()

    def run(self, request):
        call = request["call"]
        if call in ("hello", "prepare"):
            return getattr(self, call)(request)
        if call == "release":
            answer = self.release(request)
            self.clean()
            return answer
        if call in ("warm", "time", "outputs"):
            prepared = self.prepared.get(request["handle"])
            if prepared is None:
                raise ValueError(f"there is no handle {request['handle']}: prepare it first")
            prepared.set_precision()
            answer = getattr(prepared, call)(request)
            synchronize(prepared.device)
            return answer
        raise ValueError(f"there is no call '{call}'")

    def answer(self, request):
        """Whatever goes wrong becomes an answer."""
        try:
            return {"ok": True} | self.run(request)
        except Unsupported as error:
            answer = {"unsupported": str(error)}
        except MemoryError:
            answer = {"out_of_memory": "the host has no memory left"}
        except Exception as error:  # the other side decides what to make of it
            text = str(error).splitlines()[0] if str(error) else ""
            answer = {"error": f"{type(error).__name__}: {text}"}
            if "out of memory" in text or "can't allocate memory" in text:
                answer = {"out_of_memory": text}
            elif "CUDA error" in text:  # nothing of this process can be trusted any more
                answer["fatal"] = True
        if torch is not None and not answer.get("fatal"):
            self.clean()
        return answer


torch = functional = SDPBackend = sdpa_kernel = causal_lower_right = None


def import_torch():
    """Only when asked for: without PyTorch the answer is a sentence."""
    global torch, functional, SDPBackend, sdpa_kernel, causal_lower_right
    try:
        import torch as found
    except (ImportError, OSError) as error:
        raise Unsupported(f"PyTorch cannot be imported ({error}): {REMEDY}") from error
    try:
        from torch.nn.attention import SDPBackend as backends, sdpa_kernel as held_to
        from torch.nn.attention.bias import causal_lower_right as lower_right
        backends.CUDNN_ATTENTION
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"torch {found.__version__} is too old, 2.5 is the least: "
                          f"{REMEDY}") from error
    torch, functional = found, found.nn.functional
    SDPBackend, sdpa_kernel, causal_lower_right = backends, held_to, lower_right
    torch.manual_seed(0)
    gc.disable()  # no pause in a timed launch; clean() collects


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    peer = Peer()
    for line in sys.stdin:
        try:
            request = json.loads(line)
            number = request["id"]
        except (ValueError, KeyError, TypeError) as error:
            request, number = None, None
            answer = {"error": f"the request is no JSON object with an id: {error!r}"}
        if request is not None:
            if request.get("call") == "quit":
                break
            answer = peer.answer(request)
        try:
            answers.write(json.dumps({"id": number} | answer) + "\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(1)
        if answer.get("fatal"):
            os._exit(1)


if __name__ == "__main__":
    main()
