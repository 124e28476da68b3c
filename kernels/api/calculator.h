// Computes matrix products and plain kernels on a device, for whoever checks kernels there: it
// brings the text of its own kernels, so it shares none with what it judges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/api/compiler.h"
#include "kernels/api/device.h"

namespace attnlab {

// result (rows, columns) = left (rows, inner) * right (inner, columns), or is added to the result.
// All are stored by rows without gaps; a transposed factor is the transpose of what is stored.
// Every size is at least 1.
struct MatrixProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool left_is_transposed = false;
  bool right_is_transposed = false;
  bool adds = false;
};

// All work goes into the queue of the device's Runtime and is done in its order. What is pointed to
// lies in memory of that Runtime.
class Calculator {
 public:
  Calculator() = default;
  Calculator(const Calculator&) = delete;
  Calculator& operator=(const Calculator&) = delete;
  virtual ~Calculator() = default;

  // Runs an entry of the unit. `arguments` is the struct that is its only parameter.
  virtual void launch(const std::string& entry, std::uint64_t blocks, const void* arguments) = 0;

  // Sums are in the type of the factors, which are multiplied as they are.
  virtual void multiply(const MatrixProduct& product, const double* left, const double* right,
                        double* result) = 0;
  virtual void multiply(const MatrixProduct& product, const float* left, const float* right,
                        float* result) = 0;
};

// The unit is compiled from the sources that are built in, whatever --kernel-sources says. Throws
// std::runtime_error, with the remedy, where the device has none: a CPU, no NVRTC, no cuBLAS.
std::unique_ptr<Calculator> make_calculator(const Device& device, KernelUnit unit);

}  // namespace attnlab
