// Defines the contract between a kernel and everything else. A built-in and a plug-in are the same
// thing: one constant of type Implementation, plain pointers to functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/config.h"
#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "kernels/api/timeline.h"
#include "kernels/api/traffic.h"

namespace attnlab {

// It is raised whenever a field of Implementation or of the types it names changes its meaning.
inline constexpr int kApiVersion = 6;

// PreparedKernel is what prepare() made: specialisations, tensor maps, handles. An implementation
// derives its own from it and casts back; the caller owns it and hands it to release().
struct PreparedKernel {};

// ConfigsToVerify names configs that verification runs on problems of one head_dim and type, all
// with dropout or all without: the same compiled kernels serve them, whatever mask and lengths.
struct ConfigsToVerify {
  std::int64_t head_dim = 64;
  Dtype dtype = Dtype::f16;
  double dropout = 0.0;
  Quantisation quantisation;    // of e4m3; without blocks it also stands for others without
  std::vector<Config> configs;  // of the axes that differ from the defaults
};

struct Implementation {
  int api_version;
  const char* name;  // naive, minimal, v1, v2, v3, or a plug-in's own
  Backend backend;
  const char* summary;  // one line: what this kernel is and where it comes from

  const ConfigAxis* axes;  // in the order in which a Config lists them
  int num_axes;

  // Returns empty if (problem, config, device) can run, else one sentence that says why not.
  std::string (*unsupported)(const Problem& problem, const Config& config, const Device& device);

  // Returns the device memory beyond inputs and outputs that launch() needs.
  std::uint64_t (*workspace_bytes)(const Problem& problem, const Config& config,
                                   const Device& device);

  // Returns the device memory that a forward leaves for its backward beside o and lse (naive: P).
  // It is 0 for Pass::fwd alone: nobody asks for it.
  std::uint64_t (*saved_bytes)(const Problem& problem, const Config& config);

  // Returns what prepare() will compile, so that it can be compiled ahead, on any machine: it reads
  // only what describes the chip of `device`. It is null where nothing is compiled.
  std::vector<KernelUnit> (*units)(const Problem& problem, const Config& config,
                                   const Device& device);

  // Returns whether the forward writes lse; where it is null, it always does. Materialized
  // attention in 16 bits has no scores from which it could be taken as exactly as it is judged.
  bool (*writes_lse)(const Problem& problem);

  // Does all that may be slow or allocate. Throws std::runtime_error with the cause.
  PreparedKernel* (*prepare)(const Problem& problem, const Config& config, const Device& device);

  // Runs problem.pass: forward, backward (from the o, lse and `saved` of this implementation's own
  // forward with its forward_config), or one after the other. With Pass::fwd and tensors.saved set,
  // saves for a backward. Asynchronous (the CPU backend returns when done), allocates nothing, and
  // idempotent: it zeroes what it accumulates into. `stream` is the device's queue
  // (Runtime::queue(): a CUstream), null on the CPU.
  void (*launch)(PreparedKernel* prepared, const Tensors& tensors, void* stream);

  void (*release)(PreparedKernel* prepared);

  // Counts what the schedule loads and stores and executes, without running it: O(tiles).
  Traffic (*traffic)(const Problem& problem, const Config& config);

  // Names the library, like "cuBLAS", whose kernels launch() runs beside those of units(), if any.
  const char* library = nullptr;

  // Returns the config with what it leaves open (0) filled in with what the kernel takes for this
  // problem; it is null where nothing is ever open. It is asked for what is supported alone. What
  // runs is the same with the config as it was and with the one returned.
  Config (*resolved)(const Problem& problem, const Config& config, const Device& device) = nullptr;

  // Returns the config of the forward whose o, lse and `saved` a Pass::bwd of this config takes,
  // the same if null. It prepares that forward, and saved_bytes() of Pass::bwd is asked with it.
  Config (*forward_config)(const Config& config) = nullptr;

  // A kernel that can write down when it works on each of its work items has both, for a forward or
  // a backward alone; others have null. It prepares as prepare() does, but each launch writes
  // `items` too, which are cleared device memory: as many as `timeline_items` says.
  PreparedKernel* (*prepare_timeline)(const Problem& problem, const Config& config,
                                      const Device& device, TimelineItem* items) = nullptr;
  std::int64_t (*timeline_items)(const Problem& problem, const Config& config) = nullptr;

  // Verification runs these few beside the defaults where a kernel is compiled for its config
  // (`units`) and each config costs seconds; of all other kernels it draws any config. Some may be
  // unsupported. It is null where there are none.
  std::vector<ConfigsToVerify> (*configs_to_verify)() = nullptr;

  // Says whether the kernel reads Tensors::e4m3. One that does not is never asked about e4m3.
  bool has_e4m3 = false;
};

std::span<const ConfigAxis> axes_of(const Implementation& implementation);

// find_axis gives the axis of a role, or of a name; null where the kernel has none.
const ConfigAxis* find_axis(const Implementation& implementation, AxisRole role);
const ConfigAxis* find_axis(const Implementation& implementation, std::string_view name);

// Returns the axes' defaults.
Config default_config(const Implementation& implementation);

// Returns whether the kernel's forward writes lse.
bool writes_lse(const Implementation& implementation, const Problem& problem);

// Returns what the kernel makes of a config that leaves values open; if it never does, the config.
Config resolved(const Implementation& implementation, const Problem& problem, const Config& config,
                const Device& device);

// Returns the config of the forward before a Pass::bwd of this one.
Config forward_config(const Implementation& implementation, const Config& config);

// Returns empty if all values of `config` name axes of the implementation and lie in their range.
std::string invalid(const Config& config, const Implementation& implementation);

}  // namespace attnlab
