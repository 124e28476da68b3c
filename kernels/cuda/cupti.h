// Opens CUPTI, the library that reads hardware counters and tells which kernels ran, when it is
// first needed.
#pragma once

#include <cupti_activity.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace attnlab::cuda {

// This project calls these functions.
// clang-format off
#define ATTNLAB_CUPTI_FUNCTIONS(X) \
  X(cuptiGetVersion) X(cuptiGetResultString) X(cuptiProfilerInitialize) \
  X(cuptiProfilerDeviceSupported) X(cuptiDeviceGetChipName) \
  X(cuptiProfilerGetCounterAvailability) X(cuptiProfilerHostInitialize) \
  X(cuptiProfilerHostDeinitialize) X(cuptiProfilerHostGetMetricProperties) \
  X(cuptiProfilerHostConfigAddMetrics) X(cuptiProfilerHostGetConfigImageSize) \
  X(cuptiProfilerHostGetConfigImage) X(cuptiProfilerHostGetNumOfPasses) \
  X(cuptiProfilerHostEvaluateToGpuValues) X(cuptiRangeProfilerEnable) \
  X(cuptiRangeProfilerDisable) X(cuptiRangeProfilerGetCounterDataSize) \
  X(cuptiRangeProfilerCounterDataImageInitialize) X(cuptiRangeProfilerSetConfig) \
  X(cuptiRangeProfilerStart) X(cuptiRangeProfilerPushRange) X(cuptiRangeProfilerPopRange) \
  X(cuptiRangeProfilerStop) X(cuptiRangeProfilerDecodeData) \
  X(cuptiRangeProfilerGetCounterDataInfo) X(cuptiActivityRegisterCallbacks) \
  X(cuptiActivityEnable) X(cuptiActivityDisable) X(cuptiActivityFlushAll) \
  X(cuptiActivityGetNextRecord)
// clang-format on

struct Cupti {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be put in parentheses
#define ATTNLAB_DECLARE(function) decltype(&::function) function = nullptr;
  ATTNLAB_CUPTI_FUNCTIONS(ATTNLAB_DECLARE)
#undef ATTNLAB_DECLARE
  std::string version;         // "13.0.1": of its interface
  std::filesystem::path path;  // of the file that was opened
};

// Opens the library on the first call. Throws MissingLibrary.
const Cupti& cupti();

// CuptiError says what CUPTI refused. The message has its words and, where it is a matter of
// permission or of another profiler, the remedy.
class CuptiError : public std::runtime_error {
 public:
  CuptiError(CUptiResult result, const std::string& what);
};

// Throws CuptiError. `what` says what was tried.
inline void check(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS) throw CuptiError(result, what);
}

// Declares a struct of parameters as CUPTI wants it: all zero but its own size.
#define ATTNLAB_CUPTI_PARAMS(type, name) \
  type name = {};                        \
  (name).structSize = type##_STRUCT_SIZE

}  // namespace attnlab::cuda
