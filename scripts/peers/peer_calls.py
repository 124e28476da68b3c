"""What the peer holds, and its calls (peer.py documents them)."""
import gc
import os
import sys
import time
import warnings
import weakref

import torch

from peer_clock import CpuClock, CudaClock
from peer_memory import NoAccess, hand_over
from peer_point import Failure, Point, Unsupported, write_safetensors
from peer_profile import executed, profiled, synchronize


class Prepared:
    """Holds a backend of a library at a point, ready to be timed."""

    def __init__(self, library, point, request):
        self.library, self.point, self.backend = library, point, request["backend"]
        self.tf32 = bool(request.get("tf32", False))
        self.device, self.last = point.device, None
        self.scratch = None  # of warm_up()
        self.set_precision()
        self.has_lse = self.write(request, self.verified())
        base = self.base()
        launchers = [self.timed()]
        launchers[0].launch()
        self.plan = launchers[0].plan
        self.kernels = self.profile(launchers[0])
        synchronize(self.device)
        self.peak_bytes = None
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats(self.device)
            launchers[0].launch()
            synchronize(self.device)
            self.peak_bytes = torch.cuda.max_memory_allocated(self.device) - base
        for _ in range(int(request.get("sets", 1)) - 1):
            launchers.append(self.timed(copy=True))
        self.launchers, self.turn = launchers, 0
        self.clock = CpuClock() if self.device == "cpu" else CudaClock()

    def make(self, dropout, lse, copy=False):
        attention = self.library.attention(self.point, self.backend, dropout, lse, copy)
        attention.begin()
        return attention

    def timed(self, copy=False):
        """Returns the attention with dropout, and without an lse that nothing needs."""
        return self.make(self.point.dropout, False, copy)

    def verified(self):
        """Returns the outputs of a launch without dropout, and with lse."""
        return self.make(0.0, True).launch()

    def base(self):
        """Returns the bytes of the inputs, their masks, and what other prepared ones hold, without
        cuBLAS's workspace."""
        if self.device == "cpu":
            return 0
        synchronize(self.device)
        torch._C._cuda_clearCublasWorkspaces()
        return torch.cuda.memory_allocated(self.device)

    def set_precision(self):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32

    def profile(self, attention):
        """Returns what the pass runs; checks the forward of each."""
        forward = self.ran(attention.forward_of_pass, is_checked=True)
        return forward if self.point.passes == "fwd" else self.ran(attention.launch)

    def ran(self, action, is_checked=False):
        kernels, operators = profiled(action, self.device)
        if is_checked:
            self.library.check_ran(self.backend, operators)
        if self.device != "cpu":
            return kernels
        return executed(self.library.operators_of(operators))

    def launch(self):
        self.last = None  # the next one takes its memory
        self.last = self.launchers[self.turn].launch()
        self.turn = (self.turn + 1) % len(self.launchers)

    def warm_up(self, request):
        size = int(request["bytes"])
        if self.scratch is None or self.scratch.numel() != size:
            self.scratch = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.scratch.fill_(255)
        self.launch()
        return {}

    def time(self, request):
        seconds, is_hidden = self.clock.seconds_of(self.launch, request["launches"],
                                                   request.get("behind", "sleep"))
        return {"seconds": seconds, "launch_cost_hidden": is_hidden,
                "launches_ahead": self.clock.launches_ahead}

    def load(self, request):
        begin = time.perf_counter()
        for _ in range(request["launches"]):
            self.launch()
        synchronize(self.device)
        return {"seconds": time.perf_counter() - begin}

    def outputs(self, request):
        is_last = self.point.dropout == 0 and self.last is not None
        return {"lse": self.write(request, self.last if is_last else self.verified())}

    def write(self, request, tensors):
        """Writes the outputs; returns whether an lse is among them."""
        tensors = self.point.as_verified(tensors)
        if "outputs" in request:
            hand_over(tensors, request["outputs"], self.device)
        else:
            write_safetensors(request["output"], tensors)
        return "lse" in tensors


class Peer:
    def __init__(self, library):
        self.library = library
        self.prepared, self.points = {}, weakref.WeakValueDictionary()
        self.last_handle, self.uses_cuda = 0, False
        torch.manual_seed(0)
        gc.disable()  # no pause in a timed launch; clean() collects
        gc.freeze()  # but not what PyTorch's import left, which takes a sixth of a second

    def prepare(self, request):
        backend, device = request["backend"], request["device"]
        if device == "cpu":
            torch.set_num_threads(int(request.get("threads", 1)))
        elif not torch.cuda.is_available():
            raise Unsupported(f"torch {torch.__version__} finds no GPU that it can use: install "
                              "one built for CUDA and this driver, or set ATTNLAB_PYTHON to a "
                              f"Python that has it (this one is {sys.executable})")
        else:
            torch.cuda.set_device(device)
            self.uses_cuda = True
        key = (request["input"], os.stat(request["input"]).st_mtime_ns, device)
        point = self.points.get(key)
        if point is None:
            point = self.points[key] = Point(request["input"], device, request.get("inputs"))
        self.library.check(point, backend)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                prepared = Prepared(self.library, point, request)
            except RuntimeError as refusal:
                reason = self.library.reason_of(backend, refusal, caught)
                if not reason:
                    raise
                raise Unsupported(reason) from refusal
        self.last_handle += 1
        self.prepared[self.last_handle] = prepared
        answer = {"handle": self.last_handle, "kernels": prepared.kernels,
                  "peak_bytes": prepared.peak_bytes, "plan": prepared.plan,
                  "version": self.library.version_of(backend), "lse": prepared.has_lse}
        if point.dropout > 0:
            answer["verified_dropout"] = 0.0
        return answer

    def release(self, request):
        self.prepared.pop(request["handle"], None)
        return {}

    def clean(self):
        """Gives memory back to the other side."""
        gc.collect()
        if self.uses_cuda:
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()

    def run(self, request):
        call = request["call"]
        if call == "prepare":
            return self.prepare(request)
        if call == "release":
            answer = self.release(request)
            self.clean()
            return answer
        if call in ("warm_up", "load", "time", "outputs"):
            prepared = self.prepared.get(request["handle"])
            if prepared is None:
                raise ValueError(f"there is no handle {request['handle']}: prepare it first")
            prepared.set_precision()
            answer = getattr(prepared, call)(request)
            synchronize(prepared.device)
            return answer
        raise ValueError(f"there is no call '{call}'")

    def answer(self, request):
        """Returns the answer to a request; whatever goes wrong becomes one, too."""
        try:
            return {"ok": True} | self.run(request)
        except Unsupported as error:
            answer = {"unsupported": str(error)}
        except NoAccess as error:
            answer = {"no_access": str(error)}
        except MemoryError:
            answer = {"out_of_memory": "the host has no memory left"}
        except Exception as error:  # the other side decides what to make of it
            text = str(error).splitlines()[0] if str(error) else ""
            named = text if isinstance(error, Failure) else f"{type(error).__name__}: {text}"
            answer = {"error": named}
            if "out of memory" in text or "can't allocate memory" in text:
                answer = {"out_of_memory": text}
            elif "CUDA error" in text:  # nothing of this process can be trusted any more
                answer["fatal"] = True
        if not answer.get("fatal"):
            self.clean()
        return answer
