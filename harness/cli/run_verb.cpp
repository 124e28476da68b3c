// Implements attnlab run: a sweep from a file, from flags, or from a file with axes replaced.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/suggest.h"
#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/tensor_flags.h"
#include "harness/cli/verbs.h"
#include "harness/measure/timeline.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/peer_names.h"
#include "harness/plan/protocol.h"
#include "harness/plan/shard.h"
#include "harness/plan/sweep_file.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/record/repro.h"
#include "harness/report/table.h"
#include "harness/run/observers.h"
#include "harness/run/peer.h"
#include "harness/session/device_runs.h"
#include "harness/session/given_turns.h"
#include "harness/session/listed_points.h"
#include "harness/session/restart.h"
#include "harness/session/run_sweep.h"
#include "kernels/api/registry.h"
#include "kernels/api/telemetry.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(All kernels of a case are timed interleaved and verified before and after; every point is
one record, appended to a file as soon as it is done. A point that cannot run is a record with
its reason. A flag replaces the axis of the same name in the sweep file.

Lists are separated by commas. Whole numbers are N, A:B:xF (geometric) or A:B:+S (arithmetic);
a suffix k is 1024. Masks are none, or parts joined by '+': causal, window:LEFT:RIGHT (-1 is
unbounded), padding[:MIN_KEYS], blocks:PATTERN[:ARGS]:BQxBK. Bytes are N, or N with K, M, G or T,
powers of 1024: 8G, 8GB and 8GiB are the same.

causal and windows are aligned at the bottom right: with D = seqlen_k - seqlen_q, query r sees the
keys up to r + D, or from r + D - LEFT to r + D + RIGHT, so the last query sees the last key. D is
that of the tensors, also under padding, which hides keys at the end and moves nothing; of a packed
entry it is that of its own lengths. A query that sees no key has o = 0, lse = -inf and gradients
of 0. --dropout P drops with T / 65536, where T is 65536 P rounded, and scales what is kept by
65536 / (65536 - T). --softmax-scale S multiplies the scores; 0 is 1 / sqrt(head_dim).

--rounds N takes N rounds and no time limit, unless --max-seconds gives one; where that ends the
timing, the table says (4 of 30) and the record has n and rounds_asked. ~ marks what comes from a
median whose 95 % interval passes +-2 %. --speedup-over NAME shows how many times as fast as NAME,
a kernel or peer of the run, each one is; of several tiles of NAME the fastest counts.

--input runs on your own tensors: q, k, v and perhaps do, F32, F16 or BF16, in a safetensors file;
dtype, sizes and lengths come from it (packed: cu_seqlens, or cu_seqlens_q and cu_seqlens_k), and dO
is drawn where it has none. With --dtype e4m3 its values are quantised like drawn ones: --quant,
--quant-v and --rotate say how. --save writes q, k, v, o, lse, and of a backward do, dq, dk, dv, as
they were verified; scripts/check_saved.py compares them with NumPy.

On a GPU kernels are compiled before anything is timed, and kept on disk. A launch that takes longer
than --timeout is recorded and a fresh process goes on. --peer starts other
libraries ($ATTNLAB_PYTHON, else python3) as competitors, each in a process of its own; where one is
missing its points say how to get it, and docs/peers.md has the rest.
Clocks, power, temperature and what throttles are read between samples; --energy then launches each
kernel for a second more and records joules a launch and picojoules a useful FLOP (table fields
energy_j, pj_per_flop; idle power is part of them).

On a GPU hardware counters say what really moved through L2 and dram, and which kernels ran, from
launches of their own after timing; a run that claims cold caches is invalid if dram reads say
otherwise. Without permission to count a run goes on and says how to get it; --counters require ends
it with code 3.

A run that was killed loses the case in work; Ctrl-C and SIGTERM end it with the table of what is
there, and say how to resume. --resume FILE runs the points of the same sweep that FILE has no
record of (one that failed is recorded too). A half-written last line is removed. It is an error if
sweep, problem, protocol, device, isa, threads, compiler or flags differ from FILE's; another commit
is noted. Kernels of a case are recorded together; where FILE has only some, the others are timed
without them, and time.contenders of a record says with how many it took turns. With --unsettled
cases run again in which the GPU's clock did not settle for a point, with all that was timed in them
in whatever layout, since it takes turns; of each point the last record counts. Last come the table
and the exit code of all that is in FILE. A file has one writer: a second run ends with code 3.
A full disk ends a run as Ctrl-C does, with code 3.

--shard K/N runs the K-th of N parts of the sweep: each case is in exactly one of them, kernels that
take turns stay together, and the parts take about equally long as far as that can be predicted. The
same command cuts the same way every time and on every machine with such a device; records say their
shard. With --shard, --resume FILE begins FILE where there is none, so that a shard that was killed
starts again by the command that began it. attnlab merge makes one file of them, and
attnlab table --progress says how far they are.

--devices all, or 0,2, runs the sweep on several GPUs of this machine: a process on each, with a
shard of its own, and never two on one GPU (another --devices or gate that has one ends it with 3).
FILE of --out or --resume gets the records of all when they have ended; those of each, and what it
said, lie beside it (of fa3.jsonl in fa3.1of2.jsonl and fa3.1of2.log), and --resume goes on with
them.

--timeline FILE shows when each work item of a launch was claimed, begun and stored, of one point of
a kernel that can write it down (v3's forward or backward in f16 or bf16 on a GPU). Launches that do
so take turns with those that are timed; where their median is more than 1 % off, the timeline is
void, which is said. FILE is a trace for ui.perfetto.dev or chrome://tracing; the record's timeline
has what it amounts to.

--tune times the tiles (and other values) that a kernel names and can take on the problem,
beside its own choice, and prints for each problem and kernel the tile with the fastest config
first: on a CPU with the bytes that its schedule asks for and its workspace, on a GPU with
registers, spills and shared memory; what spills is recorded as invalid, which is no failure here.
An axis that is given is not tried.

For Nsight all of a case lies in an NVTX range named by its id, in the domain attnlab, with a range
a step inside and one a kernel inside of that. attnlab profile starts Nsight on points. --profile N
is for it: N launches of each kernel in the range "profile", between cudaProfilerStart and Stop, and
no timing, which it would upset.

Examples:
  attnlab run sweeps/quick.json
  attnlab run sweeps/quick.json --seqlen 1k,4k --kernel v2 --format markdown
  attnlab run --kernel naive,v2 --seqlen 512:8192:x2 --mask none,causal
  attnlab run --kernel v2 --heads 8 --heads-kv 2 --block 64x64,128x128 --dry-run
  attnlab run --seqlen-q 1 --seqlen-k 1k:16k:x2 --mask causal+padding:100 --batch 4
  attnlab run --input qkv.safetensors --layout bhsd --mask causal --kernel naive,v2
  attnlab run --seqlen 256 --dropout 0.1 --kernel v2 --save run.safetensors --save-dropout
  attnlab run sweeps/eager.json --peer torch:eager
  attnlab run --seqlen 1k --kernel v2 --peer torch:flash --speedup-over torch:flash
  attnlab run --backend cuda --kernel naive --dtype f16 --protocol cache=cold,regime=settled
  attnlab run --backend cuda --seqlen 1k:16k:x2 --counters require
  attnlab run --backend cuda --kernel naive --seqlen 1k:4k:x2 --protocol regime=settled --energy
  attnlab run --kernel v2 --head-dim 64 --seqlen 1k --tune
  attnlab run --backend cuda --kernel v3 --dtype f16 --head-dim 128 --seqlen 4k --tune
  attnlab run --backend cuda --kernel v3 --dtype f16 --mask causal --timeline v3.trace.json
  attnlab run sweeps/quick.json --resume results/quick-20250101T000000Z.jsonl
  attnlab run sweeps/quick.json --shard 2/8 --resume quick.2.jsonl
  attnlab run sweeps/fa3.json --devices 0,2 --out fa3.jsonl

Exit codes: 0 good, 1 verification failed, 2 bad flags or files, 3 nothing could run or a
measurement is invalid, records or output could not be written, 130 interrupted by Ctrl-C, 143 by
SIGTERM (it ends by the signal).)";

// Holds the flags as they were given; an empty one was not given.
struct RunFlags {
  SweepFlags sweep;
  std::shared_ptr<CompilerSettings> compiler;
  SaveFlags save;
  std::string out, resume, shard, devices, isa, memory_limit, protocol, peer;
  std::string format = "table";
  std::string speedup_over, timeline;
  std::string counters = "auto";
  bool further_counters = false;
  std::optional<int> threads, rounds;
  double timeout = kDefaultTimeout;
  int profile = 0;  // launches; 0: not asked for
  std::optional<double> max_seconds;
  bool energy = false;
  bool tune = false;
  bool dry_run = false;
  bool no_progress = false;
  bool turns = false;
  bool no_hints = false;
  bool unsettled = false;
  std::string only;
  double planted_percent = 0.0;
};

constexpr double kMostSeconds = 86400.0;  // that Protocol::max_seconds may be

// Refuses a flag that contradicts --protocol: nobody should guess which of the two counts.
template <class T>
void refuse_contradiction(const char* flag, T value, const char* key,
                          const std::optional<T>& of_protocol) {
  if (!of_protocol || *of_protocol == value) return;
  throw UsageError(fmt::format("{} {}: --protocol says {}={}: leave one of them out", flag, value,
                               key, *of_protocol));
}

// Sets the keys of the protocol that have flags of their own, beside those of --protocol.
void set_rounds(ProtocolSettings& protocol, const RunFlags& flags, const ProtocolSettings& given) {
  if (flags.rounds) {
    refuse_contradiction("--rounds", *flags.rounds, "min_rounds", given.min_rounds);
    refuse_contradiction("--rounds", *flags.rounds, "max_rounds", given.max_rounds);
    protocol.min_rounds = flags.rounds;
    protocol.max_rounds = flags.rounds;
    protocol.max_seconds = given.max_seconds.value_or(kMostSeconds);
  }
  if (flags.max_seconds) {
    refuse_contradiction("--max-seconds", *flags.max_seconds, "max_seconds", given.max_seconds);
    protocol.max_seconds = flags.max_seconds;
  }
}

Sweep make_sweep(const RunFlags& flags) {
  Sweep sweep = make_sweep(flags.sweep);
  apply_input(sweep, flags.sweep);
  sweep.tune = flags.tune;
  if (!flags.peer.empty()) {
    sweep.peers = parse_peers(flags.peer, "--peer");
    sweep.overridden = true;  // an exclusion may speak of other peers
  }
  Sweep alone;
  if (!flags.protocol.empty()) {
    set_protocol(alone, flags.protocol, "--protocol");
    set_protocol(sweep, flags.protocol, "--protocol");
  }
  set_rounds(sweep.protocol, flags, alone.protocol);
  check_peer_files(sweep.peers, flags.peer.empty() ? "peers" : "--peer");
  return sweep;
}

CounterMode parse_counters(const std::string& text) {
  if (text == "auto") return CounterMode::automatic;
  if (text == "off") return CounterMode::off;
  if (text == "require") return CounterMode::require;
  throw UsageError(fmt::format("--counters: '{}' is none of auto, off, require{}", text,
                               suggestion(text, {"auto", "off", "require"})));
}

// Leaves a quarter of the memory to the oracle and to other programs, unless the flag says more.
std::uint64_t memory_limit(const RunFlags& flags, const Device& device) {
  if (!flags.memory_limit.empty()) return parse_bytes(flags.memory_limit, "--memory-limit");
  return device.memory_bytes / 4 * 3;
}

std::string default_output(const Sweep& sweep, const std::optional<ShardPart>& part) {
  const std::string shard =
      part ? fmt::format(".{}of{}", part->shard.index, part->shard.of) : std::string();
  return fmt::format("results/{}-{:%Y%m%dT%H%M%SZ}{}.jsonl", sweep.name,
                     fmt::gmtime(std::time(nullptr)), shard);
}

// Keeps of the cases those of --shard, if it is given.
std::optional<ShardPart> choose_shard(const RunFlags& flags, const Protocol& protocol,
                                      std::vector<Case>& cases) {
  if (flags.shard.empty()) return std::nullopt;
  ShardedCases chosen = take_shard(cases, parse_shard(flags.shard, "--shard"), protocol);
  cases = std::move(chosen.cases);
  return chosen.part;
}

// Returns the file of --resume, "" if it is not given. A shard's file need not exist: whoever
// starts shards again and again gives the same command each time.
std::string file_to_resume(const RunFlags& flags) {
  if (flags.resume.empty()) {
    if (flags.unsettled) throw UsageError("--unsettled: name the file of the records by --resume");
    return "";
  }
  if (!flags.out.empty() && !is_same_file(flags.out, flags.resume)) {
    throw UsageError(fmt::format(
        "--resume: goes on with {}, but --out names {}: leave --out out, records are appended to "
        "the file that is resumed",
        flags.resume, flags.out));
  }
  std::error_code error;
  const auto status = std::filesystem::status(flags.resume, error);
  if (!std::filesystem::exists(status)) {
    if (!flags.shard.empty() || !flags.devices.empty()) return flags.resume;
    throw UsageError(fmt::format(
        "--resume: {}: no such file: name the records of the run that was interrupted, or begin "
        "one with --out (with --shard, --resume begins it, too)",
        flags.resume));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw UsageError(fmt::format("--resume: {}: is not a regular file", flags.resume));
  }
  return flags.resume;
}

// Refuses flags that keep results: a profiler makes all times wrong.
void refuse_beside_profile(const RunFlags& flags) {
  const std::pair<const char*, const std::string&> others[] = {
      {"--out", flags.out}, {"--resume", flags.resume}, {"--save", flags.save.save}};
  for (const auto& [name, value] : others) {
    if (value.empty()) continue;
    throw UsageError(fmt::format("--profile: writes nothing: leave {} out", name));
  }
  if (!flags.peer.empty()) {
    throw UsageError(
        "--profile: a peer runs in a process of its own, which has no ranges: leave --peer out");
  }
}

// Checks --timeline: its file holds one launch, of a kernel that can write it.
void check_timeline(const RunFlags& flags, const std::vector<Case>& cases, const Device& device) {
  if (flags.timeline.empty()) return;
  if (device.backend != Backend::cuda) {
    throw UsageError(
        "--timeline: this run is on a CPU: kernels on a GPU alone have one, ask for "
        "--backend cuda");
  }
  const std::pair<const char*, bool> others[] = {{"--profile", flags.profile > 0},
                                                 {"--tune", flags.tune},
                                                 {"--devices", !flags.devices.empty()}};
  for (const auto& [name, is_given] : others) {
    if (is_given) throw UsageError(fmt::format("--timeline: leave {} out", name));
  }
  std::size_t points = 0;
  for (const Case& work : cases) {
    points += work.competitors.size();
    for (const Competitor& competitor : work.competitors) {
      const bool has_one = competitor.implementation != nullptr &&
                           competitor.implementation->prepare_timeline != nullptr &&
                           work.problem.pass != Pass::fwdbwd && !work.problem.is_e4m3();
      if (has_one) continue;
      throw UsageError(fmt::format(
          "--timeline: {} has none for {} in {}: take --kernel v3, --pass fwd or bwd, and "
          "f16 or bf16",
          competitor.kernel, to_string(work.problem.pass), to_string(work.problem.dtype)));
    }
  }
  if (points != 1) {
    throw UsageError(fmt::format(
        "--timeline: FILE holds one launch, but there are {} points: leave one", points));
  }
}

void check_speedup_over(const RunFlags& flags, const std::vector<Case>& cases) {
  if (flags.speedup_over.empty()) return;
  if (flags.tune) {
    throw UsageError("--speedup-over: --tune compares tiles, not kernels: leave one of them out");
  }
  std::vector<std::string> kernels;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) kernels.push_back(competitor.kernel);
  }
  check_speedup_base(flags.speedup_over, kernels);
}

// Says where the records are, which are safe even if the printed output of a run was lost.
std::string describe_kept(const std::string& records) {
  std::error_code error;
  const bool has_some = std::filesystem::file_size(records, error) > 0 && !error;
  if (!has_some) return "";
  return fmt::format("; the records are safe: attnlab table {}", shell_word(records));
}

// Leaves run_sweep() to a process on each GPU; returns the exit code of all records.
int run_on_gpus(const RunFlags& flags, const SweepRun& work) {
  const std::pair<const char*, bool> others[] = {{"--shard", !flags.shard.empty()},
                                                 {"--profile", flags.profile > 0},
                                                 {"--save", !flags.save.save.empty()},
                                                 {"--tune", flags.tune},
                                                 {"--turns", flags.turns}};
  for (const auto& [name, is_given] : others) {
    if (is_given) throw UsageError(fmt::format("--devices: leave {} out", name));
  }
  DeviceRuns runs = {
      .devices = choose_gpus(flags.devices, work.context.device->backend),
      .command = without_flags(own_arguments(), {"--devices", "--out", "--resume", "--format"}),
      .records = work.records,
      .resumes = work.mode == RecordsMode::resume,
      .shows_progress = work.shows_progress};
  runs.devices.resize(std::min(runs.devices.size(), group_layouts(work.cases).size()));
  run_on_devices(runs);
  std::vector<std::string> half_written;
  const auto records = read_records(work.records, half_written);
  TableOptions options;
  options.format = work.format;
  options.speedup_over = work.speedup_over;
  print_to(stdout, "{}", render_table(records, options));
  return exit_code(last_of_each_point(records));
}

// Runs the sweep and sets `records` to the file that gets its records.
int run(const RunFlags& flags, const CommandLine& command_line, std::string& records) {
  if (flags.profile > 0) refuse_beside_profile(flags);
  const Sweep sweep = make_sweep(flags);
  apply_compiler_flags(*flags.compiler);
  const TableFormat format = parse_format(flags.format, "--format");
  Device device = choose_device(sweep.backend);
  set_cpu(device, flags.threads, flags.isa);
  const Protocol protocol = resolve(sweep.protocol, device);
  std::vector<Case> cases = expand(sweep, builtin_registry(), device);
  if (!flags.only.empty()) {
    cases = only_listed(cases, {.device = &device, .protocol = protocol}, flags.only);
  }
  const std::optional<ShardPart> shard = choose_shard(flags, protocol, cases);
  check_speedup_over(flags, cases);
  check_timeline(flags, cases, device);
  const std::uint64_t limit = memory_limit(flags, device);
  refuse_same_file({"--save", flags.save.save}, {"--input", flags.sweep.input});
  std::optional<TensorSaver> saver = make_saver(flags.save, cases, limit);
  const std::string resumed = file_to_resume(flags);
  const std::string out = !resumed.empty()     ? resumed
                          : !flags.out.empty() ? flags.out
                                               : default_output(sweep, shard);
  // These stand outside of the braces of `work`: where a later initializer throws, GCC 12 destroys
  // twice what a call returned to a member, peaks for one.
  const CounterMode counters = parse_counters(flags.counters);
  const KnownPeaks peaks = known_peaks(device);
  PeerProcesses peers;
  std::optional<GivenTurns> turns;
  if (flags.turns) turns.emplace(stdout, stdin);
  SweepRun work{.typed = command_line.typed,
                .sweep = sweep,
                .cases = cases,
                .context = {.device = &device,
                            .protocol = protocol,
                            .sweep_name = sweep.name,
                            .shard = shard,
                            .command_line = command_line.recorded,
                            .peers = &peers,
                            .profile_launches = flags.profile,
                            .measures_energy = flags.energy,
                            .peaks = peaks,
                            .memory_limit_bytes = limit,
                            .turns = turns ? &*turns : nullptr,
                            .planted_share = flags.planted_percent / 100.0,
                            .interrupted = [] { return InterruptWatch::signal() != 0; }},
                .records = out,
                .mode = resumed.empty() ? RecordsMode::append : RecordsMode::resume,
                .rest = flags.unsettled ? Rest::missing_or_unsettled : Rest::missing,
                .format = format,
                .speedup_over = flags.speedup_over,
                .shows_progress = !flags.no_progress,
                .shows_hints = !flags.no_hints,
                .saver = saver ? &*saver : nullptr,
                .counters = counters,
                .further_counters = flags.further_counters,
                .timeout_s = flags.timeout};
  if (flags.dry_run) return print_plan(work);
  if (!flags.devices.empty()) return run_on_gpus(flags, work);
  if (flags.profile > 0) return profile_sweep(work);
  work.context.telemetry = &telemetry_of(device);
  device.power_limit_w = work.context.telemetry->power_limit_w();
  const char* records_flag = resumed.empty() ? "--out" : "--resume";
  refuse_same_file({records_flag, out}, {"--input", flags.sweep.input});
  refuse_same_file({"--save", flags.save.save}, {records_flag, out});
  if (saver) {
    work.context.verified = [&](const Record& record, const Tensors& tensors) {
      saver->save(record, tensors);
    };
  }
  std::string why_void;
  if (!flags.timeline.empty()) {
    work.context.timeline = [&](const Record& record, std::span<const TimelineItem> items) {
      why_void = record.timeline->reason;
      replace_text(flags.timeline, timeline_trace(items, record));
    };
  }
  records = out;
  const int code = run_sweep(work);
  if (!why_void.empty()) {
    print_to(stderr, "attnlab run: --timeline: {} is void: {}\n", flags.timeline, why_void);
  }
  return code;
}

}  // namespace

Verb add_run_verb(CLI::App& app, const CommandLine& command_line) {
  CLI::App* command = app.add_subcommand("run", "Run a sweep: verify, time and record every point");
  command->footer(kFooter);
  const auto flags = std::make_shared<RunFlags>();
  add_sweep_flags(*command, flags->sweep);
  add_tensor_flags(*command, flags->sweep, flags->save);
  add_list(
      *command, "--peer", flags->peer,
      "Compete with others: torch:eager, flash or math on a CPU or GPU, efficient or cudnn, cuDNN "
      "itself (cudnn) or FlashAttention-4 (fa4) on a GPU, a Python function of yours "
      "(py:FILE.py:FUNCTION)")
      ->type_name("NAME,...")
      ->group("What");
  command->add_option("--threads", flags->threads, "CPU threads (default: all)")
      ->type_name("N")
      ->transform(whole_number(1, 4096))
      ->group("Where");
  command->add_option("--isa", flags->isa, "Instruction set of the CPU kernels (default: the best)")
      ->type_name("NAME")
      ->group("Where");
  command
      ->add_option("--memory-limit", flags->memory_limit,
                   "Record larger points as out of memory (default: 3/4 of it)")
      ->type_name("N[K|M|G|T]")
      ->group("Where");
  command
      ->add_option("--rounds", flags->rounds,
                   "Interleaved rounds, exactly this many; no time limit")
      ->type_name("N")
      ->transform(whole_number(1, 100000))
      ->group("Measurement");
  command
      ->add_option("--max-seconds", flags->max_seconds,
                   "Hard stop of the timing of one kernel (15)")
      ->type_name("S")
      ->check(number_between(1e-3, 86400.0))
      ->group("Measurement");
  command->add_option("--timeout", flags->timeout, "A launch on a GPU that takes longer hangs (60)")
      ->type_name("S")
      ->check(number_between(1e-3, 86400.0))
      ->group("Measurement");
  command
      ->add_option("--profile", flags->profile,
                   "Launch each kernel N times for a profiler; time nothing")
      ->type_name("N")
      ->transform(whole_number(1, 1000))
      ->group("Measurement");
  command
      ->add_option("--counters", flags->counters,
                   "Hardware counters: auto (where there are some), off, require")
      ->type_name("MODE")
      ->group("Measurement");
  command
      ->add_flag("--further-counters", flags->further_counters,
                 "Also FLOPs by mma.sync, atomics, shared memory: three passes")
      ->group("Measurement");
  command
      ->add_option("--timeline", flags->timeline,
                   "When each work item of a launch was worked on, as a trace for Perfetto")
      ->type_name("FILE")
      ->group("Measurement");
  command
      ->add_flag("--tune", flags->tune,
                 "Time every tile that a kernel can take, where axes leave it open")
      ->group("Measurement");
  add_list(*command, "--protocol", flags->protocol,
           "Any key of a sweep file's protocol, like warmup_seconds=0.1")
      ->type_name("KEY=N,...")
      ->group("Measurement");
  command->add_flag("--energy", flags->energy, "Joules of each kernel, over 1 s of launches (NVML)")
      ->group("Measurement");
  command
      ->add_option("--out", flags->out, "Records (default: results/<sweep>-<time>.jsonl); appends")
      ->type_name("FILE")
      ->group("Output");
  command
      ->add_option("--resume", flags->resume, "Run only the points that FILE lacks; appends to it")
      ->type_name("FILE")
      ->group("Output");
  command
      ->add_flag("--unsettled", flags->unsettled,
                 "With --resume: also again the cases in which a clock did not settle")
      ->group("Output");
  command
      ->add_option("--format", flags->format, "table, markdown, csv or json (of the final table)")
      ->type_name("NAME")
      ->group("Output");
  command
      ->add_option("--speedup-over", flags->speedup_over,
                   "The kernel or peer that speedup compares with (naive)")
      ->type_name("NAME")
      ->group("Output");
  command->add_flag("--dry-run", flags->dry_run, "Print the points; run and write nothing")
      ->group("Output");
  add_no_progress(*command, flags->no_progress);
  add_list(*command, "--devices", flags->devices,
           "One process on each of these GPUs: all, or their numbers")
      ->type_name("all|N,...")
      ->group("Where");
  command
      ->add_option("--shard", flags->shard,
                   "Run the K-th of N parts that take about equally long (FILE of --resume may be "
                   "new)")
      ->type_name("K/N")
      ->group("What");
  command
      ->add_option("--only", flags->only,
                   "Run only the points whose keys are lines of FILE (a record's 'key')")
      ->type_name("FILE")
      ->group("What");
  // attnlab gate starts such runs. They are hidden, since nobody else would give them turns.
  command->add_flag("--turns", flags->turns)->group("");
  command->add_option("--planted-percent", flags->planted_percent)
      ->check(number_between(0.0, 1000.0))
      ->group("");
  // attnlab reproduce starts such runs too, and says itself how to go on.
  command->add_flag("--no-hints", flags->no_hints)->group("");
  flags->compiler = add_compiler_flags(*command);
  const auto records = std::make_shared<std::string>();
  return {command, [=] { return run(*flags, command_line, *records); },
          [=] { return describe_kept(*records); }};
}

}  // namespace attnlab
