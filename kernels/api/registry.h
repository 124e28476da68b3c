// Opens the one door to all kernels: an explicit list, in priority order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/implementation.h"

namespace attnlab {

class Registry {
 public:
  Registry() = default;
  explicit Registry(std::span<const Implementation* const> implementations);

  // Throws std::invalid_argument for another api_version or a (name, backend) that is there
  // already.
  void add(const Implementation& implementation);
  std::span<const Implementation* const> all() const { return implementations_; }
  // Returns null if there is none.
  const Implementation* find(std::string_view name, Backend backend) const;

 private:
  std::vector<const Implementation*> implementations_;
};

// Lists the kernels of this tree (kernels/builtin.cpp).
const Registry& builtin_registry();

// Returns this machine's devices, best first; the CPU is always there (kernels/devices.cpp).
std::vector<Device> available_devices();
// Returns the devices of one backend. To ask for the CPU's alone starts no driver, which takes
// seconds on a busy machine.
std::vector<Device> available_devices(Backend backend);

// Returns why this machine has no device of the backend, and what to do; empty if it has one.
std::string why_no_device(Backend backend);

}  // namespace attnlab
