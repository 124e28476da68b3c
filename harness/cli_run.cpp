// attnlab run: a sweep from a file, from flags, or from a file with axes replaced by flags.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/cli_sweep_flags.h"
#include "harness/cli_tensors.h"
#include "harness/cli_verbs.h"
#include "harness/errors.h"
#include "harness/grid.h"
#include "harness/progress.h"
#include "harness/record.h"
#include "harness/run.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(All kernels of a problem are timed interleaved and verified before and after; every point is
one record, appended to a file as soon as it is done. A point that cannot run is a record with
its reason. A flag replaces the axis of the same name in the sweep file.

Lists are separated by commas. Whole numbers are N, A:B:xF (geometric) or A:B:+S (arithmetic);
a suffix k is 1024. Masks are none, or parts joined by '+': causal, window:LEFT:RIGHT (-1 is
unbounded), padding[:MIN_KEYS], blocks:PATTERN[:ARGS]:BQxBK.

--input runs on your own tensors: q, k, v and perhaps do, F32, F16 or BF16, in a safetensors file;
dtype, sizes and lengths come from it (packed: cu_seqlens, or cu_seqlens_q and cu_seqlens_k), and dO
is drawn where it has none. --save writes q, k, v, o, lse, and of a backward do, dq, dk, dv, as they
were verified; scripts/check_saved.py compares them with NumPy.

Examples:
  attnlab run sweeps/quick.json
  attnlab run sweeps/quick.json --seqlen 1k,4k --kernel v2 --format markdown
  attnlab run --kernel naive,v2 --seqlen 512:8192:x2 --mask none,causal
  attnlab run --kernel v2 --heads 8 --heads-kv 2 --block 64x64,128x128 --dry-run
  attnlab run --seqlen-q 1 --seqlen-k 1k:16k:x2 --mask causal+padding:100 --batch 4
  attnlab run --input qkv.safetensors --layout bhsd --mask causal --kernel naive,v2
  attnlab run --seqlen 256 --dropout 0.1 --kernel v2 --save run.safetensors --save-dropout

Exit codes: 0 good, 1 verification failed, 2 bad flags or sweep file, 3 nothing could run or a
measurement is invalid.)";

// The flags as they were given; empty: not given.
struct RunFlags {
  SweepFlags sweep;
  SaveFlags save;
  std::string out, isa, memory_limit, protocol;
  std::string format = "table";
  std::optional<int> threads, rounds;
  std::optional<double> max_seconds;
  bool dry_run = false;
  bool no_progress = false;
};

Sweep make_sweep(const RunFlags& flags) {
  Sweep sweep = make_sweep(flags.sweep);
  apply_input(sweep, flags.sweep);
  if (!flags.protocol.empty()) set_protocol(sweep, flags.protocol, "--protocol");
  if (flags.rounds) {
    sweep.protocol.min_rounds = *flags.rounds;
    sweep.protocol.max_rounds = *flags.rounds;
  }
  if (flags.max_seconds) sweep.protocol.max_seconds = *flags.max_seconds;
  return sweep;
}

// "1500000", "512M", "2.5G". Throws UsageError.
std::uint64_t parse_bytes(const std::string& text) {
  constexpr const char* kUnits = "KMGT";
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string_view suffix = end;
  if (suffix.size() == 1) {
    const char* unit = std::find(kUnits, kUnits + 4, std::toupper(suffix[0]));
    if (unit != kUnits + 4) {
      value *= std::pow(1024.0, static_cast<double>(unit - kUnits + 1));
      suffix = {};
    }
  }
  if (end == text.c_str() || !suffix.empty() || !(value >= 1.0 && value < 0x1p63)) {
    throw UsageError(fmt::format(
        "--memory-limit: '{}' is not a number of bytes; write N, or N with K, M, G or T", text));
  }
  return static_cast<std::uint64_t>(value);
}

// A quarter is left to the oracle and to everybody else.
std::uint64_t memory_limit(const RunFlags& flags, const Device& device) {
  if (!flags.memory_limit.empty()) return parse_bytes(flags.memory_limit);
  return device.memory_bytes / 4 * 3;
}

std::string default_output(const Sweep& sweep) {
  return fmt::format("results/{}-{:%Y%m%dT%H%M%SZ}.jsonl", sweep.name,
                     fmt::gmtime(std::time(nullptr)));
}

std::size_t count_points(const std::vector<Case>& cases, bool only_runnable) {
  std::size_t count = 0;
  for (const Case& point : cases) {
    count += static_cast<std::size_t>(std::count_if(
        point.competitors.begin(), point.competitors.end(), [&](const Competitor& competitor) {
          return !only_runnable || (competitor.unsupported.empty() && competitor.skipped.empty());
        }));
  }
  return count;
}

std::string header(const Sweep& sweep, const std::vector<Case>& cases, const Device& device,
                   const std::filesystem::path& out) {
  std::error_code error;
  const bool appends = std::filesystem::file_size(out, error) > 0 && !error;
  return wrap(
      fmt::format("Sweep {} ({}): {}, {}, of which {} can run. Device: {}. "
                  "Records are appended to {}{}.",
                  sweep.name, sweep.source, count_of(cases.size(), "case"),
                  count_of(count_points(cases, false), "point"), count_points(cases, true),
                  describe(device), out.string(), appends ? ", which has some already" : ""));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::vector<nlohmann::ordered_json> run_cases(const std::vector<Case>& cases,
                                              const RunContext& context,
                                              const std::filesystem::path& out,
                                              bool show_progress) {
  const std::unique_ptr<std::FILE, CloseFile> nowhere(std::fopen("/dev/null", "w"));
  double weight = 0.0;
  for (const Case& point : cases) weight += case_weight(point);
  RecordFile file(out);
  std::vector<nlohmann::ordered_json> records;
  Progress progress(show_progress ? stderr : nowhere.get(), weight);
  for (const Case& point : cases) {
    run_case(point, context, progress, [&](const Record& record) {
      records.push_back(to_json(record));
      file.append(records.back());
      if (record.status == Status::failed || record.status == Status::invalid) {
        progress.line(fmt::format("{}: {}", to_string(record.status), record.reason));
      }
    });
  }
  progress.finish();
  return records;
}

int run(const RunFlags& flags, const std::string& command_line) {
  const Sweep sweep = make_sweep(flags);
  const TableFormat format = parse_format(flags.format, "--format");
  Device device = choose_device(sweep.backend, available_devices());
  if (flags.threads) device.threads = *flags.threads;
  if (!flags.isa.empty()) device.isa = flags.isa;
  const std::vector<Case> cases = expand(sweep, builtin_registry(), device);
  const std::uint64_t limit = memory_limit(flags, device);
  refuse_same_file({"--save", flags.save.save}, {"--input", flags.sweep.input});
  std::optional<TensorSaver> saver = make_saver(flags.save, cases, limit);
  if (flags.dry_run) {
    fmt::print("{}", render_plan(cases, device, format));
    return kExitGood;
  }
  const std::filesystem::path out = flags.out.empty() ? default_output(sweep) : flags.out;
  refuse_same_file({"--out", out}, {"--input", flags.sweep.input});
  refuse_same_file({"--save", flags.save.save}, {"--out", out});
  RunContext context{.device = &device,
                     .protocol = sweep.protocol,
                     .sweep_name = sweep.name,
                     .command_line = command_line,
                     .memory_limit_bytes = limit};
  if (saver) {
    context.verified = [&](const Record& record, const Tensors& tensors) {
      saver->save(record, tensors);
    };
  }
  // Data formats have standard output to themselves.
  const bool data_only = format == TableFormat::csv || format == TableFormat::json;
  std::FILE* const notes = data_only ? stderr : stdout;
  fmt::print(notes, "{}\n", header(sweep, cases, device, out));
  if (sweep.input != nullptr) fmt::print(notes, "{}\n", describe_input(cases));
  std::fflush(notes);
  const auto records = run_cases(cases, context, out, !flags.no_progress);
  TableOptions options;
  options.format = format;
  fmt::print("{}", render_table(records, options));
  std::fflush(stdout);
  fmt::print(notes,
             "\nRecords: {0}\nOther views of them: attnlab table --help; for example\n"
             "  attnlab table {0} --value gflops\n"
             "  attnlab table {0} --value time_ms,ci,peak_mib,requested_mib\n",
             out.string());
  if (saver) fmt::print(notes, "\n{}", saver->report(records));
  return exit_code(records);
}

// A range that does not lengthen the help text.
template <class T>
CLI::Validator between(T minimum, T maximum) {
  return CLI::Range(minimum, maximum).description("");
}

}  // namespace

Verb add_run_verb(CLI::App& app, const std::string& command_line) {
  CLI::App* command = app.add_subcommand("run", "Run a sweep: verify, time and record every point");
  command->footer(kFooter);
  const auto flags = std::make_shared<RunFlags>();
  add_sweep_flags(*command, flags->sweep);
  add_tensor_flags(*command, flags->sweep, flags->save);
  command->add_option("--threads", flags->threads, "CPU threads (default: all)")
      ->type_name("N")
      ->check(between(1, 4096))
      ->group("Where");
  command->add_option("--isa", flags->isa, "Instruction set of the CPU kernels (default: the best)")
      ->type_name("NAME")
      ->group("Where");
  command
      ->add_option("--memory-limit", flags->memory_limit,
                   "Record larger points as out of memory (default: 3/4 of it)")
      ->type_name("BYTES[K|M|G]")
      ->group("Where");
  command->add_option("--rounds", flags->rounds, "Interleaved rounds, exactly this many")
      ->type_name("N")
      ->check(between(1, 100000))
      ->group("Measurement");
  command->add_option("--max-seconds", flags->max_seconds, "Hard stop of the timing of one kernel")
      ->type_name("S")
      ->check(between(1e-3, 86400.0))
      ->group("Measurement");
  command
      ->add_option("--protocol", flags->protocol,
                   "Any key of a sweep file's protocol, like warmup_seconds=0.1")
      ->type_name("KEY=N,...")
      ->join(',')
      ->group("Measurement");
  command
      ->add_option("--out", flags->out, "Records (default: results/<sweep>-<time>.jsonl); appends")
      ->type_name("FILE")
      ->group("Output");
  command
      ->add_option("--format", flags->format, "table, markdown, csv or json (of the final table)")
      ->type_name("NAME")
      ->group("Output");
  command->add_flag("--dry-run", flags->dry_run, "Print the points; run and write nothing")
      ->group("Output");
  command->add_flag("--no-progress", flags->no_progress, "No progress on standard error")
      ->group("Output");
  return {command, [flags, command_line] { return run(*flags, command_line); }};
}

}  // namespace attnlab
