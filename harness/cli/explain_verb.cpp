// Implements attnlab explain, which says what binds a point.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/verbs.h"
#include "harness/measure/peaks.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/gpus.h"
#include "harness/record/record_file.h"
#include "harness/report/explanation.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(Of records: one point fills a screen, of several each has a line, with the number that --point
takes. Without a file, the axes name a point that nobody measured, and what is said comes from its
schedule and the rates alone. A limiter binds from a share of the time on:

  products, dram, L2, exponentials   70 %: the work that was done over what
                                     the device does, of products also the
                                     cycles that were counted
  clock             10 % below the highest, held down in most readings, and
                    the dram does not bind
  launch            20 %: launched one by one, over a replay from a graph
  too few tiles     25 % of the multiprocessors have no work item
  idle tail         15 % of the places idle in the last wave, all work items
                    being equally long
  bank conflicts    15 % of the cycles; run --further-counters counts them
  spills            any, where nothing of the above binds more
  unsettled         the clock moved: nothing should rest on the time

Rates are those of --peaks, else of attnlab peak on this machine for a device of that name and
driver, else of the record, else the data sheet's or the chip's. What nobody measured is named as
such, and binds nothing. Advice comes only with the number that it rests on. Tiles have a time
where FILE holds it.

Examples:
  attnlab explain results/quick.jsonl
  attnlab explain results/quick.jsonl --where kernel=v2,v3 --point 2
  attnlab explain results/nvidia-h200/fa3.jsonl --point 1 \
      --peaks results/nvidia-h200/peaks.json
  attnlab explain --kernel v3 --backend cuda --gpu H200 --dtype bf16 \
      --head-dim 128 --seqlen 16k

Exit codes: 0 good, 2 bad flags or files, 3 the point cannot run.)";

struct ExplainFlags {
  std::string file;
  SweepFlags sweep;
  std::vector<std::string> where;
  std::size_t point = 0;
  std::string peaks, gpu;
  std::string format = "table";
};

// Reads the peaks of each device once.
class KnownRates {
 public:
  explicit KnownRates(const std::string& file) {
    if (!file.empty()) given_ = parse_peaks(read_text(file), file);
  }
  const Peaks* of(const RecordJson& record) {
    if (given_ && at(record, {"device", "name"}) == given_->device) {
      is_used_ = true;
      return &*given_;
    }
    const RecordJson cuda = at(record, {"device", "cuda"});
    if (!cuda.is_object()) return nullptr;
    const Device device{.backend = Backend::cuda,
                        .name = record.at("device").at("name"),
                        .multiprocessors = cuda.at("multiprocessors"),
                        .driver = cuda.at("driver")};
    auto found = known_.find(device.name + device.driver);
    if (found == known_.end()) {
      found = known_.emplace(device.name + device.driver, known_peaks(device)).first;
    }
    return found->second.peaks ? &*found->second.peaks : nullptr;
  }
  // Throws UsageError where none of the points was of the device of --peaks.
  void check_used() const {
    if (!given_ || is_used_) return;
    throw UsageError(
        fmt::format("--peaks: they are of {}, and no point is: give those of the "
                    "points' device, or none",
                    given_->device));
  }

 private:
  std::optional<Peaks> given_;
  bool is_used_ = false;
  std::map<std::string, KnownPeaks> known_;
};

Conditions conditions(const std::vector<std::string>& where) {
  Conditions all;
  for (const std::string& condition : where) all.push_back(parse_condition(condition, "--where"));
  return all;
}

// Returns the points that are asked about: all, or the one of --point.
template <class T>
std::vector<T> pick(std::vector<T> points, std::size_t number) {
  if (number == 0) return points;
  if (number > points.size()) {
    throw UsageError(fmt::format("--point {}: there {} {}; without --point all of them are listed",
                                 number, points.size() == 1 ? "is" : "are",
                                 count_of(points.size(), "point")));
  }
  return {points[number - 1]};
}

std::vector<Explanation> explain_records(const ExplainFlags& flags) {
  if (names_points(flags.sweep)) {
    throw UsageError(
        fmt::format("{}: holds points of its own: choose among them by --where, and "
                    "leave the axes out",
                    flags.file));
  }
  std::vector<std::string> warnings;
  const std::vector<RecordJson> records = read_records(flags.file, warnings);
  for (const std::string& warning : warnings) print_to(stderr, "attnlab explain: {}\n", warning);
  if (records.empty()) throw UsageError(fmt::format("{}: holds no records", flags.file));
  KnownRates rates(flags.peaks);
  std::vector<Explanation> explanations;
  for (const RecordJson& record : pick(choose(records, conditions(flags.where)), flags.point)) {
    const RecordedPoint point = recorded_point(record, builtin_registry());
    explanations.push_back(
        explain(record, tile_facts(point, builtin_registry(), record, records), rates.of(record)));
  }
  rates.check_used();
  return explanations;
}

Device paper_device(BackendChoice backend, const std::string& gpu) {
  if (gpu.empty()) return choose_device(backend);
  const std::vector<const Gpu*> named = parse_gpus(gpu, "--gpu");
  if (named.size() != 1) throw UsageError("--gpu: name one GPU, whose point it is");
  return device_of(*named.front());
}

std::vector<Explanation> explain_on_paper(const ExplainFlags& flags) {
  if (!flags.where.empty()) {
    throw UsageError("--where: chooses among records: name a file of them, or leave it out");
  }
  if (!names_points(flags.sweep)) {
    throw UsageError(
        "nothing to explain: name a file of records, or a point by axes, like --kernel v3 --seqlen "
        "4k");
  }
  Sweep sweep = make_sweep(flags.sweep);
  if (!flags.gpu.empty()) sweep.backend = BackendChoice::cuda;
  const Device device = paper_device(sweep.backend, flags.gpu);
  std::vector<RecordedPoint> points;
  for (const Case& work : expand(sweep, builtin_registry(), device)) {
    for (const Competitor& competitor : work.competitors) {
      RecordedPoint point{.work = work, .device = device, .reason = competitor.unsupported};
      point.work.competitors = {competitor};
      points.push_back(point);
    }
  }
  KnownRates rates(flags.peaks);
  std::vector<Explanation> explanations;
  for (const RecordedPoint& point : pick(points, flags.point)) {
    const RecordJson record = paper_record(point);
    explanations.push_back(
        explain(record, tile_facts(point, builtin_registry(), record, {}), rates.of(record)));
  }
  rates.check_used();
  return explanations;
}

int run(const ExplainFlags& flags) {
  const TableFormat format = parse_format(flags.format, "--format");
  try {
    const bool has_file = !flags.file.empty();
    const std::vector<Explanation> all =
        has_file ? explain_records(flags) : explain_on_paper(flags);
    if (all.size() != 1) {
      print_to(stdout, "{}", render_explanations(all, format));
      return kExitGood;
    }
    print_to(stdout, "{}", render_explanation(all.front(), format));
    return !has_file && all.front().status != "ok" ? kExitEnvironment : kExitGood;
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(
        fmt::format("{}: a record lacks a field or has it in another form: {}; attnlab "
                    "run writes it",
                    flags.file, error.what()));
  }
}

}  // namespace

Verb add_explain_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("explain", "Show what binds a point, and what to try next");
  command->footer(kFooter);
  const auto flags = std::make_shared<ExplainFlags>();
  command->add_option("file", flags->file, "A record file, as attnlab run writes it")
      ->type_name("FILE");
  command->add_option("--where", flags->where, "Only points whose field has one of the values")
      ->type_name("FIELD=VALUE,...")
      ->take_all()
      ->expected(1)
      ->group("Choice");
  command->add_option("--point", flags->point, "Only this one of them, counted from 1")
      ->type_name("N")
      ->transform(whole_number(1, 1 << 30))
      ->group("Choice");
  add_axis_flags(*command, flags->sweep);
  add_backend_flag(*command, flags->sweep);
  command->add_option("--gpu", flags->gpu, "The GPU of a point that is not measured")
      ->type_name("NAME")
      ->group("Where");
  command->add_option("--peaks", flags->peaks, "Measured rates, as attnlab peak keeps them")
      ->type_name("FILE")
      ->group("Where");
  add_table_format(*command, flags->format);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
