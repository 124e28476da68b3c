#include "kernels/cuda/jit.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "kernels/api/arch.h"
#include "kernels/api/sha256.h"
#include "kernels/cuda/compile_log.h"
#include "kernels/cuda/cubin_cache.h"
#include "kernels/cuda/kernel_sources.h"
#include "kernels/cuda/nvrtc.h"

namespace attnlab::cuda {
namespace {

// Inputs holds everything that the result depends on.
struct Inputs {
  std::vector<Header> headers;
  std::string text;  // the unit's source, and the headers
  std::vector<std::string> options;
  std::string file;  // leads the name of the file in the cache
  std::string key;
};

Inputs inputs_of(const KernelUnit& unit, const std::string& arch) {
  Inputs inputs;
  const KernelSources& sources = unit.always_built_in ? built_in_sources() : kernel_sources();
  inputs.headers = sources.included_by(unit.source);
  inputs.text = unit.source;
  for (const Header& header : inputs.headers) {
    inputs.text += "\n#" + header.name + "\n" + header.text;
  }
  // Functions without an execution space are __device__ in every unit: generic lambdas cannot have
  // one.
  inputs.options = {"-std=c++20", "--gpu-architecture=" + arch, "--ptxas-options=-v",
                    "--device-as-default-execution-space",
                    compiler_settings().debug ? "-G" : "-lineinfo"};
  inputs.options.insert(inputs.options.end(), unit.options.begin(), unit.options.end());
  inputs.file = unit.name + "-" + arch;
  inputs.key = nvrtc_build() + "\n" + unit.name + "\n";
  for (const std::string& option : inputs.options) inputs.key += option + "\n";
  inputs.key += inputs.text;
  return inputs;
}

CompiledEntry describe(const KernelEntry& entry, const FunctionFacts& facts,
                       const std::string& arch) {
  CompiledEntry described{.entry = entry,
                          .registers = facts.registers,
                          .spill_store_bytes = facts.spill_store_bytes,
                          .spill_load_bytes = facts.spill_load_bytes,
                          .stack_bytes = facts.stack_bytes,
                          .static_shared_bytes = facts.static_shared_bytes};
  for (const Arch& known : known_archs()) {
    if (arch != known.name) continue;
    described.blocks_per_multiprocessor = blocks_per_multiprocessor(
        known, facts.registers, entry.threads,
        static_cast<std::uint64_t>(facts.static_shared_bytes) + entry.dynamic_shared_bytes);
    described.occupancy =
        described.blocks_per_multiprocessor * entry.threads / static_cast<double>(known.threads);
  }
  return described;
}

// Holds what the log says against what the unit promises. Drops the code where it fails.
Compiled judge(const KernelUnit& unit, const std::string& arch, const Inputs& inputs,
               CachedCubin made, bool from_cache) {
  Compilation result{.unit = unit.name,
                     .arch = arch,
                     .compiler = made.compiler,
                     .text_sha256 = sha256(inputs.text),
                     .seconds = made.seconds,
                     .from_cache = from_cache};
  const CompileLog log = parse_compile_log(made.log);
  result.advisories = log.advisories;
  if (made.cubin.empty()) {
    result.error = made.log.empty() ? "the compiler made no code and says nothing" : made.log;
    return {result, ""};
  }
  for (const KernelEntry& entry : unit.entries) {
    const auto facts = std::find_if(
        log.functions.begin(), log.functions.end(),
        [&](const FunctionFacts& found) { return found.is_entry && found.name == entry.name; });
    if (facts == log.functions.end()) {
      result.error += "there is no kernel '" + entry.name +
                      "' in the unit: define it extern \"C\" __global__\n";
    } else {
      result.entries.push_back(describe(entry, *facts, arch));
    }
  }
  if (unit.must_be_clean && !compiler_settings().debug) result.error += impurities(log);
  if (!result.error.empty()) made.cubin.clear();
  return {result, std::move(made.cubin)};
}

CachedCubin run_compiler(const KernelUnit& unit, const Inputs& inputs) {
  const auto start = std::chrono::steady_clock::now();
  NvrtcResult result =
      nvrtc_compile(unit.source, unit.name + ".cu", inputs.headers, inputs.options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {.compiler = nvrtc_version(),
          .seconds = elapsed.count(),
          .log = std::move(result.log),
          .cubin = std::move(result.cubin)};
}

}  // namespace

std::optional<Compiled> find_compiled(const KernelUnit& unit, const std::string& arch) {
  const Inputs inputs = inputs_of(unit, arch);
  std::optional<CachedCubin> cached = CubinCache().find(inputs.file, inputs.key);
  if (!cached) return std::nullopt;
  return judge(unit, arch, inputs, std::move(*cached), true);
}

Compiled compile(const KernelUnit& unit, const std::string& arch) {
  const Inputs inputs = inputs_of(unit, arch);
  const CubinCache cache;
  std::optional<CachedCubin> cached = cache.find(inputs.file, inputs.key);
  if (cached) return judge(unit, arch, inputs, std::move(*cached), true);
  CachedCubin made = run_compiler(unit, inputs);
  if (!made.cubin.empty()) cache.store(inputs.file, inputs.key, made);
  return judge(unit, arch, inputs, std::move(made), false);
}

}  // namespace attnlab::cuda

namespace attnlab {

std::string cubin_of(const CompileJob& job) {
  const cuda::Inputs inputs = cuda::inputs_of(job.unit, job.arch);
  std::optional<cuda::CachedCubin> cached = cuda::CubinCache().find(inputs.file, inputs.key);
  return cached ? std::move(cached->cubin) : "";
}

}  // namespace attnlab
