// Which instruction sets the tile operations are compiled for. Included first of all in each of
// their files, so that these agree on the set.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)  // no gain over their neighbours here
