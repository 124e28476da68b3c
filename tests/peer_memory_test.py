#!/usr/bin/env python3
"""What scripts/peers/peer_calls.py reports as the peak of its memory, with a torch that is only an
allocator's counters: no GPU and no PyTorch are needed, and no number of theirs is tested."""
import contextlib
import pathlib
import sys
import types
import unittest
from unittest import mock

PEERS = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "peers"
INPUTS, OTHERS, WORKSPACE, LAUNCH, KEPT = 100, 40, 7, 1000, 30


class Allocator:
    """torch.cuda's counters; a launch takes LAUNCH bytes for a moment."""

    def __init__(self):
        self.current = self.most = INPUTS + OTHERS + WORKSPACE

    def allocate(self, size):
        self.current += size
        self.most = max(self.most, self.current)

    def clear_workspaces(self):
        self.allocate(-WORKSPACE)

    def reset_peak_memory_stats(self, _device):
        self.most = self.current

    def module(self):
        cuda = types.SimpleNamespace(
            memory_allocated=lambda _device: self.current,
            max_memory_allocated=lambda _device: self.most,
            reset_peak_memory_stats=self.reset_peak_memory_stats)
        backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace()))
        own = types.SimpleNamespace(_cuda_clearCublasWorkspaces=self.clear_workspaces)
        return types.SimpleNamespace(cuda=cuda, backends=backends, _C=own)


class Attention:
    """Keeps what a forward leaves for a backward, and takes more while it runs."""

    plan = None

    def __init__(self, point, dropout):
        self.allocator, self.is_timed = point.allocator, dropout == point.dropout
        self.size = LAUNCH if self.is_timed else 5 * LAUNCH

    def begin(self):
        if self.is_timed:  # the others' outputs are verified, and gone
            self.allocator.allocate(KEPT)

    def launch(self):
        self.allocator.allocate(self.size)
        self.allocator.allocate(-self.size)
        return {}


class Library:
    def attention(self, point, _backend, dropout, _lse, _copy=False):
        return Attention(point, dropout)


@contextlib.contextmanager
def peer_calls(allocator):
    modules = {"torch": allocator.module(),
               "peer_clock": types.SimpleNamespace(CpuClock=object, CudaClock=object),
               "peer_profile": types.SimpleNamespace(executed=None, profiled=None,
                                                     synchronize=lambda _device: None),
               "peer_memory": types.SimpleNamespace(NoAccess=RuntimeError, hand_over=None),
               "peer_point": types.SimpleNamespace(Point=None, Unsupported=RuntimeError,
                                                   Failure=RuntimeError,
                                                   write_safetensors=lambda *_: None)}
    with mock.patch.dict(sys.modules, modules), mock.patch.object(sys, "path", [str(PEERS)]):
        sys.modules.pop("peer_calls", None)
        import peer_calls as calls
        with mock.patch.object(calls.Prepared, "profile", lambda *_: []):
            yield calls


class Peak(unittest.TestCase):
    def peak_on(self, device):
        allocator = Allocator()
        point = types.SimpleNamespace(device=device, dropout=0.1, passes="bwd", allocator=allocator,
                                      as_verified=lambda outputs: outputs)
        with peer_calls(allocator) as calls:
            request = {"backend": "flash", "output": "nowhere"}
            return calls.Prepared(Library(), point, request).peak_bytes

    def test_is_of_a_launch_and_what_its_forward_left(self):
        """Not of inputs and others, which were there, nor of a workspace that is cleared first."""
        self.assertEqual(self.peak_on("cuda:0"), LAUNCH + KEPT)

    def test_of_a_cpu_nobody_counts(self):
        self.assertIsNone(self.peak_on("cpu"))


if __name__ == "__main__":
    unittest.main()
