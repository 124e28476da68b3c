#include "harness/session/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/measure/noise.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/peer_names.h"
#include "kernels/api/counters.h"
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"
#include "kernels/api/telemetry.h"

namespace attnlab {
namespace {

// Runs a check; if it throws, the line is Health::missing, with what it threw.
template <class Check>
Diagnosis attempt(Diagnosis line, const std::string& remedy, const Check& check) {
  try {
    check(line);
  } catch (const std::exception& error) {
    line.health = Health::missing;
    line.finding = error.what();
  }
  if (line.health != Health::ok && line.remedy.empty()) line.remedy = remedy;
  return line;
}

Diagnosis diagnose_timer(const Device& device, const std::string& what) {
  return attempt({.what = what, .essential = true},
                 "no time that is taken on it can be trusted: let nothing else run there, no "
                 "profiler, and try again",
                 [&](Diagnosis& line) {
                   Runtime& runtime = runtime_of(device);
                   const std::string wrong = runtime.check_timer();
                   line.finding = wrong.empty() ? runtime.timer() + ": self-test passed" : wrong;
                   if (!wrong.empty()) line.health = Health::missing;
                 });
}

Diagnosis diagnose_counters(const Device& device, const std::string& what) {
  return attempt(
      {.what = what},
      "see the lines CUPTI, counters permitted and profilers; without counters records have no "
      "measured bytes, all else is measured",
      [&](Diagnosis& line) {
        Counters& counters = counters_of(device);
        if (const std::string why = counters.why_not(); !why.empty()) {
          throw std::runtime_error(why);
        }
        const CounterCheck& check = counters.check();
        for (const CounterCheck::Line& found : check.lines) {
          line.finding +=
              fmt::format("{}{} {:.4f} of what it should be", line.finding.empty() ? "" : ", ",
                          found.what, found.counted_bytes / found.expected_bytes);
        }
        if (check.wrong.empty()) return;
        line.health = Health::degraded;
        line.finding = check.wrong;
        line.remedy =
            "let nothing else run on the GPU and try again; measured bytes are recorded "
            "as invalid until then";
      });
}

Diagnosis diagnose_telemetry(const Device& device, const std::string& what) {
  return attempt(
      {.what = what}, "see the line of NVML; until then records have no clocks and no power",
      [&](Diagnosis& line) {
        Telemetry& telemetry = telemetry_of(device);
        if (const std::string why = telemetry.why_not(); !why.empty()) {
          throw std::runtime_error(why);
        }
        const TelemetryReading reading = telemetry.read();
        const auto add = [&](const std::string& text) {
          line.finding += (line.finding.empty() ? "" : ", ") + text;
        };
        if (const auto clock = reading.multiprocessor_clock_hz) {
          add(fmt::format("{:.0f} MHz", 1e-6 * *clock));
        }
        if (const auto power = reading.power_w) add(fmt::format("{:.0f} W", *power));
        if (const auto heat = reading.temperature_c) add(fmt::format("{:.0f} C", *heat));
        for (const std::string& reason : reading.throttle_reasons) {
          add(reason);
          if (reason.find("slowdown") == std::string::npos &&
              reason.find("brake") == std::string::npos) {
            continue;
          }
          line.health = Health::degraded;
          line.remedy = "cool it, or look at its power supply: it is slowed down before any work";
        }
        if (line.finding.empty()) line.finding = "answers, and says nothing of clocks and power";
      });
}

// Says what the gate can resolve here. A machine that was never calibrated is still good for all
// else, so the line is ok.
Diagnosis diagnose_noise(const Device& device, const std::string& what) {
  return attempt({.what = what}, "see the file", [&](Diagnosis& line) {
    const std::vector<NoiseSession> sessions = load_noise(device);
    if (sessions.empty()) {
      line.finding = "not measured, which only attnlab gate asks for: attnlab calibrate does";
      return;
    }
    line.finding = "within a job";
    for (int size = 0; size <= std::ssize(kSizeBounds); ++size) {
      const auto level = noise_level(sessions, NoiseOf::turns, Regime::burst, size);
      if (!level) continue;
      line.finding += fmt::format(", {:.2f} % {}", 100.0 * level->share, describe_size_class(size));
    }
    line.finding += fmt::format("; of {}", count_of(sessions.size(), "calibration"));
  });
}

}  // namespace

Diagnosis diagnose_build() {
  const BuildInfo& build = build_info();
  Diagnosis line{.what = "program"};
  line.finding = fmt::format("{}, commit {}, {}, {}", build.version, build.commit, build.compiler,
                             build.flags);
  const std::string_view flags = build.flags;
  if (flags.find("sanitize") == std::string_view::npos &&
      (flags.find("-O2") != std::string_view::npos ||
       flags.find("-O3") != std::string_view::npos)) {
    return line;
  }
  line.health = Health::degraded;
  line.finding += ": not built for speed";
  line.remedy = "measure with a Release build without sanitizers: cmake --preset cpu";
  return line;
}

Diagnosis diagnose_peer(PeerProcess& peer, const std::string& what, bool wants_gpu) {
  Diagnosis line{.what = what};
  try {
    const nlohmann::json& hello = peer.hello();
    line.finding = hello.value("version", "?");
    const auto devices = hello.value("devices", nlohmann::json::array());
    for (const auto& device : devices) line.finding += ", " + device.get<std::string>();
    if (devices.empty() && wants_gpu) {
      line.health = Health::degraded;
      line.finding += ", finds no GPU that it can use";
      line.remedy =
          "install one that is built for CUDA and this driver, or set ATTNLAB_PYTHON to a "
          "Python that has it";
    }
  } catch (const std::exception& error) {
    line.health = Health::degraded;
    line.finding = error.what();
    line.remedy =
        "only --peer needs it: docs/peers.md says how to install it; set ATTNLAB_PYTHON "
        "to the Python that has it";
  }
  return line;
}

std::vector<Diagnosis> diagnose_cpu(const Device& device) {
  return {{.what = "CPU", .finding = describe(device), .essential = true},
          diagnose_timer(device, "CPU timer"),
          diagnose_noise(device, "CPU noise"),
          diagnose_case(builtin_registry(), device, "CPU kernels")};
}

std::vector<Diagnosis> diagnose_instruments(const Device& device) {
  const std::string gpu = fmt::format("GPU {}", device.ordinal);
  return {diagnose_telemetry(device, gpu + " telemetry"), diagnose_timer(device, gpu + " timer"),
          diagnose_noise(device, gpu + " noise"), diagnose_counters(device, gpu + " counters"),
          diagnose_case(builtin_registry(), device, gpu + " kernels")};
}

Checkup check_up(BackendChoice asked, PeerProcesses& peers) {
  Checkup checkup{.asked = asked};
  const std::vector<Device> devices = available_devices();
  const bool has_gpu = devices.front().backend == Backend::cuda;
  checkup.expects_gpu = has_gpu || expects_gpu();
  if (asked != BackendChoice::cuda) checkup.cpu = diagnose_cpu(devices.back());
  if (asked != BackendChoice::cpu) {
    checkup.cuda = diagnose_cuda();
    for (const Device& device : devices) {
      if (device.backend != Backend::cuda) continue;
      for (Diagnosis& line : diagnose_instruments(device)) checkup.cuda.push_back(line);
    }
  }
  checkup.common = {diagnose_build(), diagnose_locks(try_locks("."))};
  for (const auto& [library, what] : peer_libraries()) {
    checkup.common.push_back(
        diagnose_peer(peers.of(library), what + " peer", has_gpu && asked != BackendChoice::cpu));
  }
  return checkup;
}

bool works(const std::vector<Diagnosis>& lines) {
  return std::ranges::none_of(lines, [](const Diagnosis& line) {
    return line.essential && line.health == Health::missing;
  });
}

int exit_code(const Checkup& checkup) {
  const bool needs_cuda = checkup.asked == BackendChoice::cuda ||
                          (checkup.asked == BackendChoice::automatic && checkup.expects_gpu);
  const bool is_good = works(checkup.cpu) && (!needs_cuda || works(checkup.cuda));
  return is_good ? kExitGood : kExitEnvironment;
}

}  // namespace attnlab
