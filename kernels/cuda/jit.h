// Kernels compiled at run time by NVRTC, and the cubins kept on disk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/api/compiler.h"
#include "kernels/cuda/handles.h"

namespace attnlab::cuda {

// A compiled unit in the current context.
class Module {
 public:
  Module(CUmodule module, const KernelUnit& unit);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Ready to be launched with the entry's dynamic shared memory. Throws std::runtime_error if the
  // unit has no such entry.
  CUfunction function(const std::string& entry) const;

 private:
  CUmodule module_;
  std::string unit_;
  std::vector<KernelEntry> entries_;
};

// From the cache, or compiled now (and put there). Throws std::runtime_error with the compiler's
// words, MissingLibrary where there is no NVRTC.
std::shared_ptr<const Module> load(const KernelUnit& unit, const Device& device);

// The cubin of a unit for an arch and what the log says of it: from the cache, or compiled in this
// process and put there. `error` of the result is set where it failed; `cubin` is then empty.
struct Compiled {
  Compilation compilation;
  std::string cubin;
};
Compiled compile(const KernelUnit& unit, const std::string& arch);

// The same from the cache alone. Throws MissingLibrary where there is no NVRTC, whose version is
// part of what is looked for.
std::optional<Compiled> find_compiled(const KernelUnit& unit, const std::string& arch);

}  // namespace attnlab::cuda
