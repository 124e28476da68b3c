// Compiles kernels at run time by NVRTC, and keeps the cubins on disk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/api/compiler.h"
#include "kernels/cuda/handles.h"

namespace attnlab::cuda {

// Module is a compiled unit in the current context.
class Module {
 public:
  Module(CUmodule module, const KernelUnit& unit);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Returns the entry, ready to be launched with its dynamic shared memory. Throws
  // std::runtime_error if the unit has no such entry.
  CUfunction function(const std::string& entry) const;

 private:
  CUmodule module_;
  std::string unit_;
  std::vector<KernelEntry> entries_;
};

// Loads from the cache, or compiles now (and puts it there). Throws std::runtime_error with the
// compiler's words, MissingLibrary where there is no NVRTC.
std::shared_ptr<const Module> load(const KernelUnit& unit, const Device& device);

// Compiled is a unit's cubin for an arch and what the log says of it: from the cache, or compiled
// in this process and put there. Where that failed `error` is set, and `cubin` is empty.
struct Compiled {
  Compilation compilation;
  std::string cubin;
};
Compiled compile(const KernelUnit& unit, const std::string& arch);

// Finds such a cubin in the cache alone. Throws MissingLibrary where there is no NVRTC, whose
// version is part of what is looked for.
std::optional<Compiled> find_compiled(const KernelUnit& unit, const std::string& arch);

}  // namespace attnlab::cuda
