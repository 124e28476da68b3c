// Names the timeline of a launch for those who know kernels by their contract alone.
#pragma once

#include "kernels/shared/timeline.h"
