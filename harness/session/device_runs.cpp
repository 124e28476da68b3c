#include "harness/session/device_runs.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/progress.h"
#include "harness/plan/shard.h"
#include "harness/record/record_file.h"
#include "harness/record/repro.h"
#include "harness/report/merging.h"
#include "harness/report/shard_progress.h"
#include "harness/session/device_lock.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// Holds a process at work on its shard.
struct Part {
  fs::path records, errors;
  pid_t process = -1;  // -1: it has ended
  int status = 0;
  std::uintmax_t bytes = 0;  // of the records, when they were read last
  double share = 0.0;        // of its points that are done
  std::size_t points = 0;
};

std::size_t size_of(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

// Returns whether `name` is that of a part: STEM.KofN.jsonl.
bool is_part_name(std::string_view name, std::string_view stem) {
  constexpr std::string_view kEnd = ".jsonl";
  if (!name.starts_with(stem) || !name.ends_with(kEnd)) return false;
  if (name.size() < stem.size() + kEnd.size()) return false;
  name = name.substr(stem.size(), name.size() - stem.size() - kEnd.size());
  const std::size_t of = name.find("of");
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return of != std::string_view::npos && is_number(name.substr(0, of)) &&
         is_number(name.substr(of + 2));
}

// Refuses unlike GPUs: each would cut the sweep by what it supports, so into other shards.
void check_alike(const std::vector<Device>& devices) {
  for (const Device& device : devices) {
    if (device.name == devices.front().name) continue;
    throw UsageError(
        fmt::format("--devices: {} ({}) and {} ({}) are unlike: name GPUs of one kind, with a file "
                    "for each kind",
                    devices.front().ordinal, devices.front().name, device.ordinal, device.name));
  }
}

// Refuses what would be mixed up or run again.
void check_files(const DeviceRuns& runs) {
  const std::string stem = runs.records.stem().string() + ".";
  bool has_parts = false;
  const fs::path folder = runs.records.parent_path().empty() ? "." : runs.records.parent_path();
  const std::string ending = fmt::format("of{}.jsonl", runs.devices.size());
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!is_part_name(name, stem)) continue;
    has_parts = true;
    if (!runs.resumes) {
      throw UsageError(fmt::format(
          "--out: {} is there already: --resume {} goes on with it, or name another file",
          entry.path().string(), shell_word(runs.records.string())));
    }
    if (!name.ends_with(ending)) {
      throw UsageError(
          fmt::format("--devices: {} is of another number of GPUs than these {}: give as many as "
                      "it began with",
                      entry.path().string(), runs.devices.size()));
    }
  }
  if (size_of(runs.records) == 0) return;
  if (!runs.resumes) {
    throw UsageError(fmt::format("--out: {} has records already: name another file, or --resume it",
                                 runs.records.string()));
  }
  if (!has_parts) {
    throw UsageError(fmt::format(
        "--devices: {} has records, but no files of GPUs lie beside it, from which these would go "
        "on: leave --devices out to run the rest, or name another file by --out",
        runs.records.string()));
  }
}

class Processes {
 public:
  explicit Processes(const DeviceRuns& runs) : runs_(runs) {}
  // Ends those that still run where another could not be started, before their GPUs are free for
  // others. They have just begun, and may not be this program yet, which would note a SIGTERM.
  ~Processes() {
    for (const Part& part : parts_) {
      if (part.process > 0) kill(part.process, SIGKILL);
    }
    while (collect()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Starts a process on each GPU, waits until all have ended, and shows how far they are.
  void run() {
    for (std::size_t i = 1; i <= runs_.devices.size(); ++i) start(i);
    std::FILE* const stream = runs_.shows_progress ? stderr : std::fopen("/dev/null", "w");
    {
      Progress progress(stream, static_cast<double>(parts_.size()));
      progress.begin(fmt::format("{} GPUs", parts_.size()));
      auto last_look = Clock::time_point();
      while (collect()) {
        hand_on_signal();
        if (Clock::now() - last_look > std::chrono::seconds(1)) {
          look(progress);
          last_look = Clock::now();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    if (stream != stderr) std::fclose(stream);
  }

  const std::vector<Part>& parts() const { return parts_; }

 private:
  void start(std::size_t index) {
    const std::size_t of = runs_.devices.size();
    Part part = {.records = part_file(runs_.records, index, of)};
    part.errors = fs::path(part.records).replace_extension(".log");
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    OwnProcess process = {.command = runs_.command, .program = runs_.program};
    for (const std::string& word :
         {fmt::format("--shard={}/{}", index, of), "--resume=" + part.records.string(),
          std::string("--no-progress"), std::string("--format=csv")}) {
      process.command.push_back(word);
    }
    process.environment = {
        {"CUDA_VISIBLE_DEVICES",
         visible_device(runs_.devices[index - 1], visible == nullptr ? "" : visible)}};
    process.errors = part.errors;
    part.process = start_process(process);
    parts_.push_back(std::move(part));
  }

  // Returns whether any still runs.
  bool collect() {
    bool any = false;
    for (Part& part : parts_) {
      if (part.process > 0 && waitpid(part.process, &part.status, WNOHANG) == part.process) {
        part.process = -1;
      }
      any |= part.process > 0;
    }
    return any;
  }

  void hand_on_signal() {
    const int signal = InterruptWatch::signal();
    if (signal == 0 || handed_on_) return;
    handed_on_ = true;
    for (const Part& part : parts_) {
      if (part.process > 0) kill(part.process, signal);
    }
  }

  void look(Progress& progress) {
    std::size_t points = 0;
    for (Part& part : parts_) {
      if (const std::size_t bytes = size_of(part.records); bytes != part.bytes) {
        part.bytes = bytes;
        read(part, progress);
      }
      points += part.points;
    }
    progress.phase(fmt::format("{} points", points));
  }

  static void read(Part& part, Progress& progress) try {
    std::vector<std::string> half_written;
    double share = 0.0;
    std::size_t points = 0;
    for (const ShardState& shard : shard_states(read_records(part.records, half_written))) {
      share += shard.share_done;
      points += shard.done;
    }
    progress.advance(share - part.share);
    part.share = share;
    part.points = points;
  } catch (const UsageError&) {  // the process says what is wrong with its file
  }

  const DeviceRuns& runs_;
  std::vector<Part> parts_;
  bool handed_on_ = false;
};

// Returns whether a part has a record of each point of its shard.
bool is_whole(const Part& part) {
  if (size_of(part.records) == 0) return false;
  std::vector<std::string> half_written;
  return std::ranges::any_of(shard_states(read_records(part.records, half_written)),
                             &ShardState::is_complete);
}

// Says why a process broke off, with the end of what it said; "" if it did not. It ends with
// kExitEnvironment also where a measurement of a whole shard is invalid.
std::string trouble_of(const Part& part) {
  const int code = WIFEXITED(part.status) ? WEXITSTATUS(part.status) : kNotStarted;
  const bool ended = code == kExitGood || code == kExitVerificationFailed ||
                     (code == kExitEnvironment && is_whole(part));
  if (ended) return "";
  std::ifstream log(part.errors);
  std::string last;
  for (std::string line; std::getline(log, line);) last = line;
  const std::string how = WIFEXITED(part.status)
                              ? fmt::format("exit code {}", WEXITSTATUS(part.status))
                              : fmt::format("signal {}", WTERMSIG(part.status));
  return fmt::format("the process of {} ended with {}: {}", part.records.string(), how, last);
}

}  // namespace

std::vector<Device> choose_devices(const std::string& text, const std::vector<Device>& devices) {
  if (text == "all") return devices;
  std::vector<Device> chosen;
  for (const std::string_view word : split(text, ',')) {
    const auto named = std::ranges::find_if(
        devices, [&](const Device& device) { return std::to_string(device.ordinal) == word; });
    if (named == devices.end()) {
      throw UsageError(fmt::format(
          "--devices: '{}' is none of the {} GPUs here: write all, or numbers from 0 to {}", word,
          devices.size(), devices.size() - 1));
    }
    const bool is_twice = std::ranges::any_of(
        chosen, [&](const Device& device) { return device.ordinal == named->ordinal; });
    if (is_twice) throw UsageError(fmt::format("--devices: {} is given twice", word));
    chosen.push_back(*named);
  }
  return chosen;
}

std::vector<Device> choose_gpus(const std::string& text, Backend backend) {
  const std::vector<Device> gpus = available_devices(Backend::cuda);
  if (gpus.empty()) {
    throw UsageError(fmt::format("--devices: no GPU here: {}", why_no_device(Backend::cuda)));
  }
  if (backend != Backend::cuda) {
    throw UsageError("--devices: this run is on a CPU: leave it out, or ask for --backend cuda");
  }
  return choose_devices(text, gpus);
}

std::string visible_device(const Device& device, const std::string& visible) {
  if (visible.empty()) return std::to_string(device.ordinal);
  return std::string(split(visible, ',').at(static_cast<std::size_t>(device.ordinal)));
}

fs::path part_file(const fs::path& records, std::size_t part, std::size_t of) {
  return records.parent_path() / fmt::format("{}.{}of{}.jsonl", records.stem().string(), part, of);
}

void run_on_devices(const DeviceRuns& runs) {
  check_alike(runs.devices);
  check_files(runs);
  std::vector<std::unique_ptr<DeviceLock>> locks;
  for (const Device& device : runs.devices) locks.push_back(std::make_unique<DeviceLock>(device));
  const RecordFile held(runs.records);  // else the merge would lose another run's records
  const InterruptWatch watch;
  Processes processes(runs);
  processes.run();
  std::vector<MergeInput> inputs;
  std::vector<std::string> half_written, troubles;
  if (size_of(runs.records) > 0) {
    inputs.push_back({runs.records.string(), read_records(runs.records, half_written)});
  }
  for (const Part& part : processes.parts()) {
    if (const std::string trouble = trouble_of(part); !trouble.empty()) troubles.push_back(trouble);
    if (size_of(part.records) == 0) continue;
    inputs.push_back({part.records.string(), read_records(part.records, half_written)});
  }
  // One sweep on alike GPUs of one machine repeats nothing, so no noise is asked for.
  const Merged merged = merge_records(inputs, [](const RecordJson&) { return 1.0; });
  if (!merged.records.empty()) write_records(merged.records, runs.records);
  const std::string remedy =
      fmt::format("the same command with --resume {} goes on", shell_word(runs.records.string()));
  if (const int signal = InterruptWatch::signal(); signal != 0) {
    print_to(stderr, "attnlab run: interrupted: {}\n", remedy);
    end_by_signal(signal);
  }
  if (!troubles.empty()) throw std::runtime_error(fmt::format("{}; {}", troubles.front(), remedy));
}

}  // namespace attnlab
