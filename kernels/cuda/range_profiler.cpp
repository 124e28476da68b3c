#include "kernels/cuda/range_profiler.h"

#include <utility>

#include "kernels/cuda/driver.h"

namespace attnlab::cuda {
namespace {

std::vector<const char*> pointers(const MetricNames& names) {
  std::vector<const char*> result;
  for (const std::string& name : names) result.push_back(name.c_str());
  return result;
}

std::string chip_name(CUdevice device) {
  ATTNLAB_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = static_cast<std::size_t>(device);
  check(cupti().cuptiDeviceGetChipName(&chip), "reading the chip's name");
  return chip.pChipName;
}

// Returns what this chip in this machine can count, in a form that only CUPTI reads.
std::vector<std::uint8_t> counter_availability() {
  ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, available);
  check(cupti().cuptiProfilerGetCounterAvailability(&available), "asking what can be counted");
  std::vector<std::uint8_t> image(available.counterAvailabilityImageSize);
  available.pCounterAvailabilityImage = image.data();
  check(cupti().cuptiProfilerGetCounterAvailability(&available), "asking what can be counted");
  return image;
}

// Host is CUPTI's object that knows a chip's metrics. It needs no device.
class Host {
 public:
  Host(const std::string& chip, const std::uint8_t* availability) {
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_Initialize_Params, host);
    host.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    host.pChipName = chip.c_str();
    host.pCounterAvailabilityImage = availability;
    check(cupti().cuptiProfilerHostInitialize(&host), "describing the chip's metrics");
    object_ = host.pHostObject;
  }
  ~Host() {
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_Deinitialize_Params, host);
    host.pHostObject = object_;
    cupti().cuptiProfilerHostDeinitialize(&host);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  bool has(const std::string& metric) const {
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_GetMetricProperties_Params, properties);
    properties.pHostObject = object_;
    properties.pMetricName = metric.c_str();
    return cupti().cuptiProfilerHostGetMetricProperties(&properties) == CUPTI_SUCCESS;
  }

  // Metrics accumulate in the object, so this is called once.
  std::vector<std::uint8_t> configure(const MetricNames& metrics) {
    std::vector<const char*> names = pointers(metrics);
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
    add.pHostObject = object_;
    add.ppMetricNames = names.data();
    add.numMetrics = names.size();
    check(cupti().cuptiProfilerHostConfigAddMetrics(&add), "choosing metrics");
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
    size.pHostObject = object_;
    check(cupti().cuptiProfilerHostGetConfigImageSize(&size), "configuring the counters");
    std::vector<std::uint8_t> image(size.configImageSize);
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_GetConfigImage_Params, get);
    get.pHostObject = object_;
    get.configImageSize = image.size();
    get.pConfigImage = image.data();
    check(cupti().cuptiProfilerHostGetConfigImage(&get), "configuring the counters");
    return image;
  }

  std::vector<double> evaluate(const MetricNames& metrics,
                               const std::vector<std::uint8_t>& counters) const {
    std::vector<const char*> names = pointers(metrics);
    std::vector<double> values(names.size());
    ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluation);
    evaluation.pHostObject = object_;
    evaluation.pCounterDataImage = counters.data();
    evaluation.counterDataImageSize = counters.size();
    evaluation.ppMetricNames = names.data();
    evaluation.numMetrics = names.size();
    evaluation.pMetricValues = values.data();
    check(cupti().cuptiProfilerHostEvaluateToGpuValues(&evaluation), "evaluating the counters");
    return values;
  }

 private:
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

int count_passes(std::vector<std::uint8_t>& configuration) {
  ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Host_GetNumOfPasses_Params, passes);
  passes.pConfigImage = configuration.data();
  passes.configImageSize = configuration.size();
  check(cupti().cuptiProfilerHostGetNumOfPasses(&passes), "counting passes");
  return static_cast<int>(passes.numOfPasses);
}

CUpti_RangeProfiler_Object* enable() {
  ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, enabled);
  check(cupti().cuptiRangeProfilerEnable(&enabled), "switching the counters on");
  return enabled.pRangeProfilerObject;
}

void disable(CUpti_RangeProfiler_Object* profiler) {
  ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, disabled);
  disabled.pRangeProfilerObject = profiler;
  cupti().cuptiRangeProfilerDisable(&disabled);
}

// The driver answers a running context that CUPTI cannot count in by an error far from its cause,
// so what it says of the device comes first.
void require_support(CUdevice device) {
  ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_DeviceSupported_Params, support);
  support.cuDevice = device;
  support.api = CUPTI_PROFILER_RANGE_PROFILING;
  check(cupti().cuptiProfilerDeviceSupported(&support), "asking whether the GPU has counters");
  if (support.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return;
  const auto lacks = [](CUpti_Profiler_Support_Level level) {
    return level != CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  };
  std::string why;
  if (lacks(support.architecture)) why += ", it is older than compute capability 7.5";
  if (lacks(support.vGpu)) why += ", it is a virtual GPU that may not be profiled";
  if (lacks(support.confidentialCompute)) why += ", it is in confidential-computing mode";
  if (lacks(support.sli)) why += ", it is linked by SLI";
  if (lacks(support.cmp)) why += ", it is a mining processor";
  if (lacks(support.wsl)) why += ", it runs under WSL";
  throw std::runtime_error("CUPTI cannot count on this GPU" + why);
}

}  // namespace

// MetricSet has the images of one set: what is counted, and where it is counted to.
class RangeProfiler::MetricSet {
 public:
  MetricSet(const std::string& chip, const std::vector<std::uint8_t>& availability,
            MetricNames metrics)
      : host_(chip, availability.data()), metrics_(std::move(metrics)) {
    if (!metrics_.empty()) configuration_ = host_.configure(metrics_);
  }

  bool has(const std::string& metric) const { return host_.has(metric); }
  int passes() { return count_passes(configuration_); }

  std::vector<double> measure(CUpti_RangeProfiler_Object* profiler,
                              const std::function<void()>& before,
                              const std::function<void()>& work) {
    begin(profiler);
    for (bool has_all_passes = false; !has_all_passes;) {
      before();
      ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
      start.pRangeProfilerObject = profiler;
      check(cupti().cuptiRangeProfilerStart(&start), "starting the counters");
      try {
        run_in_range(profiler, work);
      } catch (...) {
        static_cast<void>(stop(profiler, has_all_passes));
        throw;
      }
      check(stop(profiler, has_all_passes), "stopping the counters");
    }
    decode(profiler);
    return host_.evaluate(metrics_, counters_);
  }

 private:
  void begin(CUpti_RangeProfiler_Object* profiler) {
    std::vector<const char*> names = pointers(metrics_);
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = profiler;
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    check(cupti().cuptiRangeProfilerGetCounterDataSize(&size), "sizing the counters' memory");
    counters_.resize(size.counterDataSize);
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
    image.pRangeProfilerObject = profiler;
    image.counterDataSize = counters_.size();
    image.pCounterData = counters_.data();
    check(cupti().cuptiRangeProfilerCounterDataImageInitialize(&image),
          "preparing the counters' memory");
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, configuration);
    configuration.pRangeProfilerObject = profiler;
    configuration.configSize = configuration_.size();
    configuration.pConfig = configuration_.data();
    configuration.counterDataImageSize = counters_.size();
    configuration.pCounterDataImage = counters_.data();
    configuration.range = CUPTI_UserRange;
    configuration.replayMode = CUPTI_UserReplay;
    configuration.maxRangesPerPass = 1;
    configuration.numNestingLevels = 1;
    configuration.minNestingLevel = 1;
    configuration.targetNestingLevel = 1;
    check(cupti().cuptiRangeProfilerSetConfig(&configuration), "configuring the counters");
  }

  static void run_in_range(CUpti_RangeProfiler_Object* profiler,
                           const std::function<void()>& work) {
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
    push.pRangeProfilerObject = profiler;
    push.pRangeName = "attnlab";
    check(cupti().cuptiRangeProfilerPushRange(&push), "beginning a range");
    work();
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
    pop.pRangeProfilerObject = profiler;
    check(cupti().cuptiRangeProfilerPopRange(&pop), "ending a range");
  }

  static CUptiResult stop(CUpti_RangeProfiler_Object* profiler, bool& has_all_passes) {
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stopped);
    stopped.pRangeProfilerObject = profiler;
    const CUptiResult result = cupti().cuptiRangeProfilerStop(&stopped);
    has_all_passes = stopped.isAllPassSubmitted != 0;
    return result;
  }

  void decode(CUpti_RangeProfiler_Object* profiler) {
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decoded);
    decoded.pRangeProfilerObject = profiler;
    check(cupti().cuptiRangeProfilerDecodeData(&decoded), "reading the counters");
    ATTNLAB_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
    info.pCounterDataImage = counters_.data();
    info.counterDataImageSize = counters_.size();
    check(cupti().cuptiRangeProfilerGetCounterDataInfo(&info), "reading the counters");
    if (decoded.numOfRangeDropped != 0 || info.numTotalRanges != 1) {
      throw std::runtime_error("CUPTI: of 1 range " + std::to_string(decoded.numOfRangeDropped) +
                               " were dropped and " + std::to_string(info.numTotalRanges) +
                               " counted");
    }
  }

  Host host_;
  MetricNames metrics_;
  std::vector<std::uint8_t> configuration_;  // must outlive the session
  std::vector<std::uint8_t> counters_;
};

RangeProfiler::RangeProfiler(CUdevice device) {
  ATTNLAB_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, initialize);
  check(cupti().cuptiProfilerInitialize(&initialize), "starting the profiler");
  require_support(device);
  chip_ = chip_name(device);
  availability_ = counter_availability();
  names_ = std::make_unique<MetricSet>(chip_, availability_, MetricNames{});
  profiler_ = enable();
}

RangeProfiler::~RangeProfiler() {
  if (profiler_ != nullptr) disable(profiler_);
}

bool RangeProfiler::has(const std::string& metric) const { return names_->has(metric); }

std::vector<double> RangeProfiler::measure(const MetricNames& metrics,
                                           const std::function<void()>& before,
                                           const std::function<void()>& work) {
  return activate(metrics).measure(profiler_, before, work);
}

RangeProfiler::MetricSet& RangeProfiler::activate(const MetricNames& metrics) {
  std::unique_ptr<MetricSet>& set = sets_[metrics];
  if (!set) set = std::make_unique<MetricSet>(chip_, availability_, metrics);
  const int passes = set->passes();
  // A profiler that has counted one set answers NaN to all others.
  const bool is_another = active_ != nullptr && active_ != set.get();
  if (is_another || passes_ + passes > kMostPasses) {
    if (profiler_ != nullptr) disable(std::exchange(profiler_, nullptr));
    profiler_ = enable();
    passes_ = 0;
  }
  active_ = set.get();
  passes_ += passes;
  return *set;
}

int passes_on_chip(const std::string& chip, const MetricNames& metrics) {
  Host host(chip, nullptr);
  std::vector<std::uint8_t> configuration = host.configure(metrics);
  return count_passes(configuration);
}

}  // namespace attnlab::cuda
