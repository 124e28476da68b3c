#include <cuda.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "kernels/api/compiler.h"
#include "kernels/api/text.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/cubin_cache.h"
#include "kernels/cuda/cupti.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/diagnose.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/library_folders.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/cuda/worker_process.h"

namespace attnlab::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProbe = "extern \"C\" __global__ void probe(int* out) { *out = 1; }\n";
constexpr const char* kProbeArch = "sm_80";
constexpr const char* kBringLibraries = "run scripts/setup.sh --cuda, which brings it into .cuda";

enum class Need : std::uint8_t { essential, useful };

// Makes a line of what `look` finds; where it throws, the thing is missing and the words say why.
template <class Look>
Diagnosis line(const std::string& what, Need need, const std::string& remedy, const Look& look) {
  Diagnosis result{.what = what, .essential = need == Need::essential};
  try {
    result.finding = look(result);
    if (result.health != Health::ok && result.remedy.empty()) result.remedy = remedy;
  } catch (const MissingLibrary& error) {
    result.health = Health::missing;
    result.finding = error.finding();
    result.remedy = error.remedy().empty() ? remedy : error.remedy();
  } catch (const std::exception& error) {
    result.health = Health::missing;
    result.finding = error.what();
    result.remedy = remedy;
  }
  return result;
}

std::string version_text(int version) {  // 13000: 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int driver_version() {
  int version = 0;
  check(driver().cuDriverGetVersion(&version), "reading the driver's version");
  return version;
}

std::string find_driver(Diagnosis&) {
  std::string module;
  std::ifstream("/sys/module/nvidia/version") >> module;
  return (module.empty() ? "" : module + ", ") + "for CUDA " + version_text(driver_version());
}

std::string find_gpus(Diagnosis&) {
  if (const std::string why = why_no_devices(); !why.empty()) throw std::runtime_error(why);
  std::string names;
  for (const Device& device : devices()) {
    names += (names.empty() ? "" : "; ") + std::to_string(device.ordinal) + ": " + device.name +
             ", " + arch_of(device);
  }
  return names;
}

std::string find_toolkit(Diagnosis& line) {
  const std::string built = "built with headers of CUDA " + version_text(CUDA_VERSION);
  const std::vector<fs::path> folders = library_folders();
  for (const fs::path& folder : folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().filename().string().starts_with("libnvrtc.so")) {
        return built + ", libraries in " + folder.string();
      }
    }
  }
  line.health = Health::degraded;
  line.remedy = "if a line below is missing: set CUDA_HOME, or run scripts/setup.sh --cuda";
  return built + "; no folder of its libraries is known, only what the system's loader finds";
}

std::string find_nvrtc(Diagnosis& line) {
  const NvrtcResult result =
      nvrtc_compile(kProbe, "probe.cu", {}, {std::string("--gpu-architecture=") + kProbeArch});
  if (result.cubin.empty()) throw std::runtime_error("it compiles nothing: " + result.log);
  const std::string version = nvrtc_version().substr(std::string("NVRTC ").size());
  const std::string finding = version + ", " + nvrtc_path().string();
  if (!why_no_devices().empty()) return finding;  // no driver to compare with
  if (std::stoi(version) <= driver_version() / 1000) return finding;
  line.health = Health::degraded;
  line.remedy = "update the driver, or name an NVRTC of its CUDA with --nvrtc FILE";
  return finding + ": newer than the driver, which may not load what it compiles";
}

std::string find_cache(Diagnosis&) {
  const CubinCache cache;
  cache.make_folder();
  cache.find("doctor", "");  // throws where others can write the folder
  return cache.folder().string();
}

std::string find_worker(Diagnosis&) {
  WorkerProcess worker;
  worker.send({.unit = {.name = "doctor", .source = kProbe, .entries = {{"probe", 32}}},
               .arch = kProbeArch});
  const std::optional<Compilation> result = worker.receive();
  if (!result) throw std::runtime_error("the process that compiles " + worker.end().words);
  if (!result->error.empty()) throw std::runtime_error(result->error);
  return "compiles in a process of its own";
}

std::string find_blas(Diagnosis&) {
  const BlasLibrary found = blas_library();
  return found.version + ", " + found.path.string();
}

std::string find_cupti(Diagnosis&) { return cupti().version + ", " + cupti().path.string(); }

std::string find_nvml(Diagnosis&) {
  const Nvml& api = nvml();
  char version[96] = "";
  if (api.nvmlSystemGetDriverVersion == nullptr ||
      api.nvmlSystemGetDriverVersion(version, sizeof version) != kNvmlSuccess) {
    return "answers";
  }
  return std::string("answers, of driver ") + version;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string find_profilers(Diagnosis& line) {
  for (const char* name : {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"}) {
    const std::string value = environment(name);
    if (value.empty()) continue;
    line.health = Health::degraded;
    return std::string(name) + " names " + value;
  }
  return "none listens; the NVTX ranges are in the domain attnlab";
}

std::string find_mps(Diagnosis& line) {
  const std::string folder = environment("CUDA_MPS_PIPE_DIRECTORY");
  const fs::path control = fs::path(folder.empty() ? "/tmp/nvidia-mps" : folder) / "control";
  std::error_code error;
  if (!fs::exists(control, error)) return "not in use";
  line.health = Health::degraded;
  return control.string() + " is there: others may share the GPU at the same time";
}

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the text behind "NAME:" in lines of that form; empty where there is none.
std::string value_of(const std::string& lines, const std::string& name) {
  for (const std::string_view text : split(lines, '\n')) {
    if (!text.starts_with(name + ":")) continue;
    const std::size_t begin = text.find_first_not_of(" \t", name.size() + 1);
    return begin == std::string_view::npos ? "" : std::string(text.substr(begin));
  }
  return "";
}

}  // namespace

// Judges by CUPTI's documentation, "non-root access to performance counters".
Diagnosis judge_permission(const std::string& params, const std::string& status) {
  constexpr unsigned long long kSysAdmin = 1ULL << 21;  // CAP_SYS_ADMIN
  Diagnosis result{.what = "counters permitted"};
  const std::string capabilities = value_of(status, "CapEff");
  const std::string admin_only = value_of(params, "RmProfilingAdminOnly");
  if (admin_only == "0") {
    result.finding = "to everybody (RmProfilingAdminOnly: 0)";
  } else if (!capabilities.empty() &&
             (std::strtoull(capabilities.c_str(), nullptr, 16) & kSysAdmin) != 0) {
    result.finding = "to this process (CAP_SYS_ADMIN)";
  } else if (params.empty()) {
    result.health = Health::degraded;
    result.finding = "not known: there is no /proc/driver/nvidia/params, and no CAP_SYS_ADMIN";
    result.remedy = "load NVIDIA's driver, or run as root";
  } else {
    result.health = Health::degraded;
    result.finding = "to administrators only (RmProfilingAdminOnly: " +
                     (admin_only.empty() ? "not said" : admin_only) + "): no measured bytes";
    result.remedy =
        "run as root or with CAP_SYS_ADMIN (docker run --cap-add SYS_ADMIN), or load the driver "
        "with NVreg_RestrictProfilingToAdminUsers=0";
  }
  return result;
}

std::vector<Diagnosis> diagnose_libraries() {
  std::vector<Diagnosis> lines;
  lines.push_back(line("driver", Need::essential, "see what nvidia-smi says", find_driver));
  lines.push_back(line("GPU", Need::essential,
                       "use a machine with an NVIDIA GPU, see nvidia-smi and CUDA_VISIBLE_DEVICES; "
                       "the CPU backend needs none",
                       find_gpus));
  if (lines[0].health == Health::missing && lines[1].finding.starts_with(lines[0].finding)) {
    lines[1].finding = "none is visible without the driver";
  }
  lines.push_back(line("toolkit", Need::useful, kBringLibraries, find_toolkit));
  lines.push_back(line("NVRTC", Need::essential, kBringLibraries, find_nvrtc));
  lines.push_back(line("kernel cache", Need::essential,
                       "name a folder that can be written with --cache-dir, in every verb",
                       find_cache));
  lines.push_back(
      line("compiler worker", Need::essential,
           "see the lines of NVRTC and of the kernel cache; is the program still there, "
           "and may it start processes?",
           find_worker));
  lines.push_back(line("cuBLAS", Need::useful,
                       std::string(kBringLibraries) + "; without it the kernel naive cannot run",
                       find_blas));
  lines.push_back(line("CUPTI", Need::useful,
                       std::string(kBringLibraries) + "; without it nothing is counted",
                       find_cupti));
  lines.push_back(
      judge_permission(read_file("/proc/driver/nvidia/params"), read_file("/proc/self/status")));
  lines.push_back(line("NVML", Need::useful,
                       "see what nvidia-smi says; without it there are no clocks and no power",
                       find_nvml));
  lines.push_back(line("profilers", Need::useful,
                       "measure without it: under a profiler times and counters are not to be had",
                       find_profilers));
  lines.push_back(line("MPS", Need::useful,
                       "end it (echo quit | nvidia-cuda-mps-control), or be sure to be alone",
                       find_mps));
  return lines;
}

std::vector<Diagnosis> diagnose() {
  std::vector<Diagnosis> lines = diagnose_libraries();
  if (!why_no_devices().empty()) return lines;
  for (const Device& device : devices()) {
    const std::string gpu = "GPU " + std::to_string(device.ordinal);
    try {
      for (Diagnosis& found : judge_settings(read_settings(device), gpu)) lines.push_back(found);
    } catch (const std::exception& error) {
      lines.push_back({.what = gpu + " settings",
                       .health = Health::degraded,
                       .finding = error.what(),
                       .remedy = "see the line of NVML"});
    }
  }
  return lines;
}

}  // namespace attnlab::cuda
