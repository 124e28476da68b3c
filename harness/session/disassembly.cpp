#include "harness/session/disassembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <utility>

#include "harness/base/child_process.h"
#include "harness/base/exchange_folder.h"
#include "harness/base/text_file.h"
#include "harness/session/compile_progress.h"

namespace attnlab {
namespace {

// Sorts by the order in which the unit lists its entries.
void sort_like_entries(std::vector<SassKernel>& kernels, const std::vector<KernelEntry>& entries) {
  const auto position = [&](const SassKernel& kernel) {
    return std::ranges::find(entries, kernel.name, &KernelEntry::name) - entries.begin();
  };
  std::ranges::stable_sort(kernels, {}, position);
}

}  // namespace

std::string find_nvdisasm() {
  std::string found = find_cuda_program("nvdisasm");
  if (found.empty()) {
    throw std::runtime_error(
        "there is no nvdisasm on PATH, nor in bin of $CUDA_HOME, /usr/local/cuda or Python's "
        "nvidia wheels. CUDA's toolkit has it, and PyPI (5 MB): in a virtual environment pip "
        "install "
        "nvidia-cuda-nvdisasm, or in the source tree scripts/setup.sh --dev");
  }
  return found;
}

std::string disassemble(const std::string& nvdisasm, const std::string& cubin) {
  const ExchangeFolder folder(cubin.size());
  const std::filesystem::path file = folder.path() / "unit.cubin";
  replace_text(file, cubin);
  ChildProcess process({nvdisasm, "--print-code", "--print-line-info-inline", file.string()});
  constexpr double kMostSeconds = 60.0;
  std::string text, line;
  ChildProcess::Outcome outcome = process.read_line(kMostSeconds, line);
  for (; outcome == ChildProcess::Outcome::line; outcome = process.read_line(kMostSeconds, line)) {
    text += line;
    text += '\n';
  }
  const std::string ending = process.end(outcome == ChildProcess::Outcome::end ? 5.0 : 0.0);
  if (outcome != ChildProcess::Outcome::end || ending != "exit status 0") {
    throw std::runtime_error(
        fmt::format("{} ended with {}: {}", nvdisasm, ending,
                    process.errors().empty() ? "it said nothing" : process.errors()));
  }
  return text;
}

SassUnit take_apart(const CompileJob& job, const std::string& nvdisasm, bool shows_progress) {
  SassUnit unit{.unit = job.unit, .sources = compiler_settings().source_folder};
  unit.compilation =
      std::move(compile_with_progress(std::span(&job, 1), 1, shows_progress).compilations.front());
  unit.texts = kernel_texts();
  const std::string cubin = cubin_of(job);
  if (cubin.empty()) return unit;
  unit.kernels = parse_sass(disassemble(nvdisasm, cubin));
  sort_like_entries(unit.kernels, job.unit.entries);
  if (unit.kernels.empty()) {
    throw std::runtime_error(fmt::format("{}: prints no code of {}", nvdisasm, job.unit.name));
  }
  return unit;
}

}  // namespace attnlab
