// Implements attnlab calibrate, which measures how much times of equal kernels differ here.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/gate_plan.h"
#include "harness/cli/verbs.h"
#include "harness/measure/noise.h"
#include "harness/plan/device_choice.h"
#include "harness/record/record_json.h"
#include "harness/report/field.h"
#include "harness/report/noise_report.h"
#include "harness/run/context.h"
#include "harness/session/device_lock.h"
#include "harness/session/gate_sides.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(Every point competes with itself: two processes of this program take turns, sample by sample, as
in attnlab gate --against, some jobs after one another. What their medians differ by is this
machine's noise, by the length of a launch: within a job, between the processes of one job and the
next, and, from the second call on, between sessions. It is appended to a file beside the peaks,
which attnlab gate reads; --show shows it.

Examples:
  attnlab calibrate
  attnlab calibrate sweeps/gate.json --jobs 10
  attnlab calibrate --protocol regime=settled
  attnlab calibrate --kernel v2 --seqlen 256,1k --backend cpu
  attnlab calibrate --show

Exit codes: 0 measured and kept (--show: shown), 2 bad flags or files, 3 nothing could be measured,
or another gate has the device.)";

struct CalibrateFlags {
  GatePointFlags points;
  std::shared_ptr<CompilerSettings> compiler;
  int jobs = 7;
  bool show = false;
  bool no_progress = false;
  std::string format = "table";
};

// Adds the medians of one job.
void add_job(std::map<std::string, NoisePoint>& points, const MeasuredSides& sides) {
  std::map<std::string, double> base;
  const auto median_of = [](const RecordJson& record) {
    const bool is_timed = record.at("status") == "ok" && record.at("time").is_object() &&
                          at(record, {"time", "telemetry", "settled"}) != false;
    return is_timed ? record.at("time").at("median_s").get<double>() : 0.0;
  };
  for (const RecordJson& record : sides.base) base[record_key(record)] = median_of(record);
  for (const RecordJson& record : sides.head) {
    const std::string key = record_key(record);
    const double head_s = median_of(record), base_s = base[key];
    if (!(head_s > 0.0 && base_s > 0.0)) continue;
    NoisePoint& point = points[key];
    point.key = key;
    point.a_s.push_back(base_s);
    point.b_s.push_back(head_s);
  }
}

NoiseSession measure(GatePlan& plan, int jobs) {
  std::map<std::string, NoisePoint> points;
  for (int job = 1; job <= jobs; ++job) {
    if (plan.run.shows_progress) print_to(stderr, "Job {} of {}\n", job, jobs);
    const MeasuredSides sides =
        measure_sides(plan.run, fmt::format("-{}", job), plan.run.rounds, nullptr).front();
    if (!sides.troubles.empty()) {
      throw std::runtime_error(fmt::format("job {} of {} broke off, and nothing is kept. {}", job,
                                           jobs, sides.troubles.front()));
    }
    add_job(points, sides);
  }
  NoiseSession session = {
      .device = plan.device.name,
      .driver = plan.device.driver,
      .timestamp = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
      .commit = build_info().commit,
      .regime = plan.protocol.regime,
      .rounds = plan.run.rounds};
  for (auto& [key, point] : points) session.points.push_back(std::move(point));
  return session;
}

int show(const GatePlan& plan, TableFormat format) {
  print_to(stdout, "{}", render_noise(plan.noise, format));
  return kExitGood;
}

int run(const CalibrateFlags& flags) {
  const TableFormat format = parse_format(flags.format, "--format");
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  std::FILE* const notes = is_text ? stdout : stderr;
  GatePlan plan =
      make_gate_plan(flags.points, *flags.compiler, "results/calibrate", !flags.no_progress);
  const std::filesystem::path file = noise_file(plan.device);
  if (flags.show) {
    if (plan.noise.empty()) {
      print_to(stderr, "attnlab calibrate: {}: there is none yet: attnlab calibrate measures it\n",
               file.string());
      return kExitEnvironment;
    }
    return show(plan, format);
  }
  plan.run.base = own_side("base", *flags.compiler, flags.compiler->source_folder);
  const DeviceLock lock(plan.device);
  make_records_folder(plan);
  double seconds = 0.0;
  for (const Case& work : plan.run.cases)
    seconds += expected_seconds(plan.run, work, plan.device, plan.protocol);
  print_to(
      notes, "{}",
      wrap(fmt::format("Device: {}. {} of {} rounds each; about {:.0f} s.", describe(plan.device),
                       count_of(static_cast<std::size_t>(flags.jobs), "job"), plan.run.rounds,
                       seconds * flags.jobs)));
  std::fflush(notes);
  const InterruptWatch watch;
  NoiseSession session;
  try {
    session = measure(plan, flags.jobs);
  } catch (const Interrupted&) {
    end_by_signal(InterruptWatch::signal());
  }
  if (session.points.empty()) {
    throw std::runtime_error("no point was measured on both sides; the records say why: " +
                             plan.run.folder.string());
  }
  append_noise(session, file);
  plan.noise.push_back(std::move(session));
  show(plan, format);
  print_to(notes, "\nKept in {}; records: {}\n", file.string(), plan.run.folder.string());
  return kExitGood;
}

}  // namespace

Verb add_calibrate_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure how much times of equal kernels differ here");
  command->footer(kFooter);
  const auto flags = std::make_shared<CalibrateFlags>();
  add_gate_point_flags(*command, flags->points, "Samples of each side (30), as the gate takes");
  command->add_option("--jobs", flags->jobs, "Jobs, each of two fresh processes (7)")
      ->type_name("N")
      ->transform(whole_number(2, 1000))
      ->group("Measurement");
  command->add_flag("--show", flags->show, "Show what was measured before; measure nothing")
      ->group("What");
  command
      ->add_option("--out", flags->points.out, "Folder of the records (results/calibrate-<time>)")
      ->type_name("FOLDER")
      ->group("Output");
  add_table_format(*command, flags->format);
  add_no_progress(*command, flags->no_progress);
  flags->compiler = add_compiler_flags(*command);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
