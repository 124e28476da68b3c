#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "harness/plan/expand.h"
#include "harness/record/repro.h"
#include "harness/run/case_steps.h"
#include "harness/run/context.h"
#include "harness/run/run.h"
#include "harness/session/doctor.h"

namespace attnlab {
namespace {

// Makes a small sweep with a point that every kernel of use on its backend takes.
Sweep small_sweep() {
  Sweep sweep;
  sweep.source = "attnlab doctor";
  Axes& axes = sweep.axes.front();
  axes.dtype = {Dtype::f16};
  axes.heads = {2};
  axes.seqlen = {256};
  axes.mask = {parse_mask("causal")};
  return sweep;
}

Protocol quick_protocol(const Device& device) {
  Protocol protocol = default_protocol(device);
  protocol.min_rounds = protocol.max_rounds = 3;
  protocol.warmup_seconds = 0.0;
  return protocol;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::vector<Record> run_quietly(const Case& work, const RunContext& context) {
  const std::unique_ptr<std::FILE, CloseFile> nowhere(std::fopen("/dev/null", "w"));
  Progress progress(nowhere.get(), case_weight(work, context.protocol));
  std::vector<Record> all;
  run_case(work, context, progress, [&](const std::vector<Record>& records) {
    all.insert(all.end(), records.begin(), records.end());
  });
  return all;
}

}  // namespace

Diagnosis diagnose_case(const Registry& registry, const Device& device, const std::string& what) {
  Diagnosis line{.what = what, .essential = true};
  std::vector<std::string> good, bad;
  try {
    RunContext context{.device = &device,
                       .protocol = quick_protocol(device),
                       .memory_limit_bytes = device.memory_bytes};
    for (const Case& work : expand(small_sweep(), registry, device)) {
      for (const Record& record : run_quietly(work, context)) {
        const Competitor& competitor = record.point.competitors.front();
        if (record.status == Status::ok) {
          good.push_back(competitor.kernel);
        } else if (record.status != Status::unsupported) {
          bad.push_back(fmt::format("{}: {}: {}", competitor.kernel, to_string(record.status),
                                    record.reason));
          line.remedy = repro_command(work, competitor, device, default_protocol(device));
        }
      }
    }
  } catch (const std::exception& error) {
    bad.push_back(error.what());
  }
  if (bad.empty() && good.empty()) bad.push_back("no kernel runs there");
  if (bad.empty()) {
    line.finding = fmt::format("{} of 256 tokens: verified and timed", fmt::join(good, ", "));
    return line;
  }
  line.health = Health::missing;
  line.finding = fmt::format("{}", fmt::join(bad, "; "));
  line.remedy = line.remedy.empty() ? "nothing can be measured here until it is mended"
                                    : "look at it by itself: " + line.remedy;
  return line;
}

}  // namespace attnlab
