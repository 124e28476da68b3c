// Runs the producer of v3's forward: a scheduler and a loader. Each is the work of one thread, in
// steps: a thread of the producer's warpgroup or, without one (producer = 0), a consumer's thread,
// which takes a step between two products where that need not wait.
//
// The loader is made of steps with a producer of its own, too. As a straight loop it gives
// NVRTC 13.0 and ptxas other machine code for the whole kernel (of the default units 512 and 768
// bytes more), which has yet to be timed.
#pragma once

#include "kernels/v3/loader.cuh"
#include "kernels/v3/scheduler.cuh"

namespace attnlab::v3 {

// Makes a worker's steps until all is done.
template <class Worker>
__device__ void work(Worker worker) {
  while (!worker.is_done()) {
    device::wait(worker.needs());
    worker.step();
  }
}
// Makes a step, unless it would have to wait.
template <class Worker>
__device__ void work_if_ready(Worker& worker) {
  if (!worker.is_done() && device::is_over(worker.needs())) worker.step();
}

}  // namespace attnlab::v3
