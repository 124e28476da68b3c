// The CPU says nothing of its clocks and its power.
#pragma once

#include "kernels/api/telemetry.h"

namespace attnlab::cpu {

Telemetry& telemetry();

}  // namespace attnlab::cpu
