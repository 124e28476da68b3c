// Implements attnlab peak, which measures the ceilings of the GPU.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/progress.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/measure/ceiling_limits.h"
#include "harness/plan/device_choice.h"
#include "harness/report/peaks_report.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(What the first GPU reaches (CUDA_VISIBLE_DEVICES chooses another): products by cuBLAS in
fp16, bf16 and TF32 on random data, fp32 multiply-adds, copying and reading HBM, reading the L2 and
shared memory, and ex2. Burst is the first 20 ms after a second of rest, settled the median after
1.5 s of the same load, when power may have lowered the clock. Beside them stands the data sheet's
rate where there is a row of this very GPU; of shared memory and ex2 it is the chip's rate at the
highest clock.

It takes about half a minute and wants the GPU for itself. The result is kept, for the device's name
and driver, in peaks/ of the folder of --cache-dir, else of $XDG_CACHE_HOME/attnlab or
~/.cache/attnlab; later calls show it, and attnlab run compares its records with the settled rates.
Rates that the chip cannot reach are marked invalid and not kept.

Examples:
  attnlab peak
  attnlab peak --again
  attnlab peak --format json

Exit codes: 0 good, 2 bad flags or files, 3 there is no GPU or a rate is invalid.)";

constexpr double kTimeout = 60.0;  // seconds: a load that takes longer hangs

struct PeakFlags {
  std::shared_ptr<CompilerSettings> compiler;
  bool again = false;
  bool no_progress = false;
  std::string format = "table";
};

Peaks measure(const Device& device, bool shows_progress) {
  Runtime& runtime = runtime_of(device);
  runtime.set_timeout(kTimeout);
  if (const std::string wrong = runtime.check_timer(); !wrong.empty()) {
    throw std::runtime_error("the timer's self-test failed, nothing was measured: " + wrong);
  }
  std::optional<Progress> progress;
  if (shows_progress) progress.emplace(stderr, static_cast<double>(kCeilings));
  bool is_first = true;
  std::vector<Ceiling> ceilings = measure_peaks(device, [&](CeilingId id) {
    if (!progress) return;
    if (!is_first) progress->advance(1.0);
    is_first = false;
    progress->begin(to_string(id));
  });
  if (progress) progress->finish();
  return {.device = device.name,
          .driver = device.driver,
          .multiprocessors = device.multiprocessors,
          .max_clock_hz = device.max_clock_hz,
          .timestamp = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
          .commit = build_info().commit,
          .ceilings = std::move(ceilings)};
}

int run(const PeakFlags& flags) {
  const TableFormat format = parse_format(flags.format, "--format");
  if (flags.compiler->debug) {
    throw UsageError(
        "--debug-kernels: kernels that are not optimised measure no peaks; leave it "
        "out");
  }
  apply_compiler_flags(*flags.compiler);
  const Device device = choose_device(BackendChoice::cuda);
  if (device.name.empty()) {
    throw std::runtime_error("peaks are measured of a GPU: " + why_no_device(Backend::cuda));
  }
  const std::filesystem::path file = peaks_file(device);
  std::optional<Peaks> peaks;
  if (!flags.again) peaks = load_peaks(device);
  const bool is_kept = peaks.has_value();
  if (!peaks) peaks = measure(device, !flags.no_progress);
  const bool is_good = is_possible(*peaks, device);
  if (is_good && !is_kept) save_peaks(*peaks, file);
  print_to(stdout, "{}", render_peaks(make_peak_report(*peaks, device), format));
  std::fflush(stdout);
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  std::FILE* const notes = is_text ? stdout : stderr;
  if (!is_good) {
    print_to(notes, "\n{}",
             wrap("A rate is invalid: nothing is kept, and no record is compared "
                  "with it. See attnlab verify --backend cuda."));
    return kExitEnvironment;
  }
  print_to(notes, "\n{}",
           wrap(fmt::format("{} {}{}", is_kept ? "Read from" : "Kept in", file.string(),
                            is_kept ? "; --again measures anew." : ".")));
  return kExitGood;
}

}  // namespace

Verb add_peak_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("peak", "Measure what the GPU can do at the most, and keep it");
  command->footer(kFooter);
  const auto flags = std::make_shared<PeakFlags>();
  command->add_flag("--again", flags->again, "Measure also where there is a result already")
      ->group("What");
  add_table_format(*command, flags->format);
  add_no_progress(*command, flags->no_progress);
  flags->compiler = add_compiler_flags(*command);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
