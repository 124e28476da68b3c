#!/usr/bin/env python3
"""The clock of a peer on a GPU, with a host and a GPU whose times are numbers: what it returns, and
whether the GPU rests while launches are queued. No GPU and no PyTorch are needed."""
import pathlib
import sys
import types
import unittest
from unittest import mock

PEERS = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "peers"
HERTZ = 1e9


class Gpu:
    """Works on what a host queues, of which each launch takes the host some time, too."""

    def __init__(self, host_s, launch_s):
        self.host_s, self.launch_s = host_s, launch_s
        self.now_s = self.done_s = 0.0  # on the host's clock; when all that is queued will be done
        self.work_s = self.sleep_s = 0.0

    def queue(self, seconds):
        self.done_s = max(self.done_s, self.now_s) + seconds

    def launch(self):
        self.now_s += self.host_s
        self.queue(self.launch_s)
        self.work_s += self.launch_s

    def sleep(self, cycles):
        self.queue(cycles / HERTZ)
        self.sleep_s += cycles / HERTZ


class Event:
    def __init__(self, gpu):
        self.gpu = gpu

    def record(self):
        self.at_s = max(self.gpu.done_s, self.gpu.now_s)

    def query(self):
        return self.gpu.now_s >= self.at_s

    def synchronize(self):
        self.gpu.now_s = max(self.gpu.now_s, self.at_s)

    def elapsed_time(self, end):
        return 1e3 * (end.at_s - self.at_s)


class Clock(unittest.TestCase):
    def clock_of(self, host_s, launch_s):
        self.gpu = Gpu(host_s, launch_s)
        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(_sleep=self.gpu.sleep,
                                           Event=lambda enable_timing: Event(self.gpu))
        for module in ("peer_clock", "torch"):
            sys.modules.pop(module, None)
        with mock.patch.dict(sys.modules, {"torch": torch}), mock.patch("sys.path", [str(PEERS)]):
            import peer_clock
        sys.modules.pop("peer_clock", None)
        peer_clock.time = types.SimpleNamespace(perf_counter=lambda: self.gpu.now_s)
        clock = peer_clock.CudaClock()
        self.gpu.sleep_s = 0.0
        return clock

    def seconds_of(self, clock, launches, behind):
        """Returns the seconds, and the share of the call in which the GPU did not work."""
        begin_s, work_s = self.gpu.now_s, self.gpu.work_s
        seconds, is_hidden = clock.seconds_of(self.gpu.launch, launches, behind)
        self.assertTrue(is_hidden)
        self.assertAlmostEqual(seconds, launches * self.gpu.launch_s)
        return 1.0 - (self.gpu.work_s - work_s) / (self.gpu.now_s - begin_s)

    def test_a_sleep_hides_the_host_and_is_a_rest(self):
        clock = self.clock_of(host_s=150e-6, launch_s=500e-6)
        self.seconds_of(clock, 40, "sleep")
        self.assertGreater(self.seconds_of(clock, 40, "sleep"), 0.35)
        self.assertGreater(self.gpu.sleep_s, 0.01)
        self.assertEqual(clock.launches_ahead, 0)

    def test_launches_hide_the_host_without_a_rest(self):
        for host_s in (20e-6, 150e-6, 300e-6):
            clock = self.clock_of(host_s, launch_s=500e-6)
            self.seconds_of(clock, 1, "launches")  # it does not know yet how long a launch takes
            slept_s, queued = self.gpu.sleep_s, self.gpu.work_s / self.gpu.launch_s
            self.assertGreater(slept_s, 0.0)
            self.seconds_of(clock, 40, "launches")
            self.assertLess(self.seconds_of(clock, 40, "launches"), 0.03)
            self.assertEqual(self.gpu.sleep_s, slept_s)
            self.assertEqual(clock.launches_ahead + 80,
                             round(self.gpu.work_s / self.gpu.launch_s - queued))

    def test_a_host_that_became_slower_is_timed_again(self):
        clock = self.clock_of(host_s=20e-6, launch_s=500e-6)
        self.seconds_of(clock, 40, "launches")
        slept_s = self.gpu.sleep_s
        self.gpu.host_s = 250e-6
        self.seconds_of(clock, 40, "launches")
        self.assertEqual(self.gpu.sleep_s, slept_s)

    def test_where_the_host_is_as_slow_as_the_gpu_it_sleeps(self):
        for host_s in (450e-6, 600e-6):
            clock = self.clock_of(host_s, launch_s=500e-6)
            self.seconds_of(clock, 40, "launches")
            self.assertGreater(self.seconds_of(clock, 40, "launches"), 0.5)
            self.assertEqual(clock.launches_ahead, 0)


if __name__ == "__main__":
    unittest.main()
