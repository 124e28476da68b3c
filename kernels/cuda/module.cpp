#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/jit.h"

namespace attnlab::cuda {
namespace {

// Returns a text that is equal where two units load the same code in the same way.
std::string identity(const KernelUnit& unit, const Device& device) {
  std::string text = std::to_string(device.ordinal) + "\n" + unit.name + "\n" + unit.source;
  for (const std::string& option : unit.options) text += "\n" + option;
  for (const KernelEntry& entry : unit.entries) {
    text += "\n" + entry.name + " " + std::to_string(entry.threads) + " " +
            std::to_string(entry.dynamic_shared_bytes);
  }
  return text;
}

std::shared_ptr<const Module> load_now(const KernelUnit& unit, const Device& device) {
  const std::string arch = arch_of(device);
  const Compiled compiled = compile(unit, arch);
  if (!compiled.compilation.error.empty()) {
    throw std::runtime_error("kernel " + unit.name + " does not compile for " + arch + ":\n" +
                             compiled.compilation.error);
  }
  CUmodule module = nullptr;
  check(driver().cuModuleLoadData(&module, compiled.cubin.data()),
        "loading kernel " + unit.name + " for " + arch);
  return std::make_shared<const Module>(module, unit);
}

}  // namespace

Module::Module(CUmodule module, const KernelUnit& unit)
    : module_(module), unit_(unit.name), entries_(unit.entries) {}

// The context may be gone already, at the end of the process or after a fault; then so is this.
Module::~Module() { driver().cuModuleUnload(module_); }

CUfunction Module::function(const std::string& entry) const {
  for (const KernelEntry& known : entries_) {
    if (known.name != entry) continue;
    const std::string what = "kernel " + entry + " of " + unit_;
    CUfunction function = nullptr;
    check(driver().cuModuleGetFunction(&function, module_, entry.c_str()), what);
    check(driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(known.dynamic_shared_bytes)),
          what + ": " + std::to_string(known.dynamic_shared_bytes) + " bytes of shared memory");
    return function;
  }
  throw std::runtime_error("unit " + unit_ + " has no entry '" + entry + "'");
}

std::shared_ptr<const Module> load(const KernelUnit& unit, const Device& device) {
  // Nothing is unloaded: CUPTI goes on calling a function by the name of one that had its handle
  // before, of a module that is gone (seen with CUDA 13.0: a forward was traced as "backward").
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Module>> loaded;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Module>& module = loaded[identity(unit, device)];
  if (module == nullptr) module = load_now(unit, device);
  return module;
}

}  // namespace attnlab::cuda
