"""How the time of launches is taken."""
import time

import torch


class CpuClock:
    def seconds_of(self, launch, launches):
        begin = time.perf_counter()
        for _ in range(launches):
            launch()
        return time.perf_counter() - begin, True


class CudaClock:
    """Times by events behind a sleeping kernel: the queue is full when the first launch begins."""

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
