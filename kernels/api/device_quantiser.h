// Quantises a whole problem on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/api/quantise.h"
#include "kernels/api/tensors.h"

namespace attnlab {

// Gives the bits of quantise(), on memory of the device's Runtime.
class DeviceQuantiser {
 public:
  DeviceQuantiser() = default;
  DeviceQuantiser(const DeviceQuantiser&) = delete;
  DeviceQuantiser& operator=(const DeviceQuantiser&) = delete;
  virtual ~DeviceQuantiser() = default;

  // Queues the kernels that write all of `to` from q, k, v and the lengths of `from`. Allocates
  // nothing; each launch begins anew.
  virtual void launch(const Tensors& from, const E4m3Outputs& to) = 0;

  // Returns what a launch reads and writes: inputs once or twice, codes, V^T and scales once.
  virtual std::uint64_t bytes() const = 0;
};

// Returns why the device has none for this problem, or nothing.
std::string why_no_quantiser(const Problem& problem, const Device& device);

// Returns what make_device_quantiser() compiles; nothing where the device has no quantiser.
std::vector<KernelUnit> quantiser_units(const Problem& problem, const Device& device);

// Makes a quantiser where there is one. Throws std::runtime_error with the compiler's words.
std::unique_ptr<DeviceQuantiser> make_device_quantiser(const Problem& problem,
                                                       const Device& device);

}  // namespace attnlab
