// The one door to all kernels: an explicit list, in priority order.
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
  // Null if there is none.
  const Implementation* find(std::string_view name, Backend backend) const;

 private:
  std::vector<const Implementation*> implementations_;
};

// The kernels of this tree (kernels/builtin.cpp).
const Registry& builtin_registry();

// The devices that this machine has, best first; the CPU is always there (kernels/devices.cpp).
std::vector<Device> available_devices();
// Returns those of one backend. To ask for the CPU's alone starts no driver, which takes seconds on
// a busy machine.
std::vector<Device> available_devices(Backend backend);

// Why this machine has no device of the backend, and what to do about it; empty if it has one.
std::string why_no_device(Backend backend);

}  // namespace attnlab
