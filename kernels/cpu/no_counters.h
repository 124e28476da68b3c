// Stands for the CPU backend's counters and trace of kernels: there are none, and they say so.
#pragma once

#include "kernels/api/counters.h"

namespace attnlab::cpu {

Counters& counters();
KernelTrace& kernel_trace();

}  // namespace attnlab::cpu
