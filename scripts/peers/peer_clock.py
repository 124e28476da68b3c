"""How the time of launches is taken."""
import math
import time

import torch


class CpuClock:
    launches_ahead = 0

    def seconds_of(self, launch, launches, behind="sleep"):
        begin = time.perf_counter()
        for _ in range(launches):
            launch()
        return time.perf_counter() - begin, True


class CudaClock:
    """Times by events behind a sleeping kernel: the queue is full when the first launch begins. Or
    behind other launches, as many as last until it is: then the GPU has no rest, which would give
    it a higher clock where power limits it."""

    LONGEST_SLEEP_S = 0.25
    MOST_AHEAD = 100  # launches: a queue has a thousand places
    MARGIN = 1.25  # what queueing took last it does not take every time
    TRIES = 3
    cycles_per_s = None

    def __init__(self):
        self.host_s = 1e-4  # what a launch takes to queue, as seen last
        self.launch_s = None  # what one takes the GPU
        self.launches_ahead = 0  # of all calls
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

    def seconds_of(self, launch, launches, behind="sleep"):
        """Returns the seconds of all launches, and whether all were queued before the first began,
        as nothing else hides what queueing them takes."""
        for _ in range(self.TRIES if behind == "launches" else 0):
            ahead = self.needed_ahead(launches)
            if ahead is None:
                break
            seconds, is_hidden = self.seconds_behind(
                lambda: [launch() for _ in range(ahead)], launch, launches)
            self.launches_ahead += ahead
            if is_hidden:
                return seconds, True
        for _ in range(self.TRIES):
            sleep_s = min(self.LONGEST_SLEEP_S, 2 * self.host_s * launches + 2e-4)
            seconds, is_hidden = self.seconds_behind(
                lambda: torch.cuda._sleep(int(sleep_s * self.cycles_per_s)), launch, launches)
            if is_hidden:
                break
        return seconds, is_hidden

    def needed_ahead(self, launches):
        """Returns how many launches keep the GPU busy until others are queued behind them: each
        lasts longer than the host needs for it, by what the others need. None: it would be more
        than MOST_AHEAD."""
        if self.launch_s is None or self.launch_s <= self.host_s:
            return None
        gained_s = self.launch_s - self.host_s
        ahead = math.ceil(self.MARGIN * self.host_s * launches / gained_s) + 1
        return ahead if ahead <= self.MOST_AHEAD else None

    def seconds_behind(self, keep_busy, launch, launches):
        begin, end = self.event(), self.event()
        keep_busy()
        begin.record()
        start = time.perf_counter()
        for _ in range(launches):
            launch()
        self.host_s = (time.perf_counter() - start) / launches
        end.record()
        is_hidden = not begin.query()  # still busy
        end.synchronize()
        seconds = begin.elapsed_time(end) * 1e-3
        self.launch_s = seconds / launches
        return seconds, is_hidden
