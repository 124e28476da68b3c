// Names the instruction sets that tile operations are compiled for. Each of their files includes it
// first of all, so that these agree on the set.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)  // no gain over their neighbours here
