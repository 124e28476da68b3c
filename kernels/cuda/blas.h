// Multiplies matrices by cuBLAS, which is opened when a product is first needed.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/api/calculator.h"
#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/cuda/handles.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

enum class Transposed : u8 { no, yes };

// GemmMatrix is a batch of row-major matrices: elements from the operand's address to the first,
// between rows, between matrices, and between groups (0 where all of these are one and the same).
struct GemmMatrix {
  i64 offset = 0;
  i64 row_stride = 0;
  i64 batch_stride = 0;
  i64 group_stride = 0;
  Transposed transposed = Transposed::no;  // the factor is the transpose of what is stored
};

// Gemm is result (rows, columns) = alpha * left (rows, inner) * right (inner, columns) + beta *
// result. Every size is at least 1. With beta = 0 the result's old values are not read.
struct Gemm {
  i64 rows = 0;
  i64 columns = 0;
  i64 inner = 0;
  i64 batch = 1;
  i64 groups = 1;  // of so many products each
  GemmMatrix left;
  GemmMatrix right;
  GemmMatrix result;
  float alpha = 1.0f;
  float beta = 0.0f;
};

// Sums are in fp32 always. `tf32` rounds fp32 factors to 10 bits of mantissa, for tensor cores.
enum class GemmPrecision : u8 { full, tf32 };

struct GemmTypes {
  Dtype factors = Dtype::f32;
  Dtype result = Dtype::f32;  // that of the factors, or f32
  GemmPrecision precision = GemmPrecision::full;
};

// BlasLibrary says what is opened, without a GPU. Throws MissingLibrary.
struct BlasLibrary {
  std::string version;  // "13.1"
  std::filesystem::path path;
};
BlasLibrary blas_library();

class Blas {
 public:
  // Returns a device's Blas, kept as long as the process; its first use makes and allocates it. The
  // context must be current. Throws MissingLibrary, or std::runtime_error with cuBLAS's words.
  static Blas& of(const Device& device);

  // Returns what use() wants: 32 MiB from sm_90 on, else 4 MiB, as NVIDIA recommends (cuBLAS
  // documentation, cublasSetWorkspace()).
  static u64 workspace_bytes(const Device& device) {
    return u64{device.compute_capability >= 90 ? 32u : 4u} << 20;
  }

  // The products that follow run on `stream`, one after the other, in `workspace` (aligned to 256
  // bytes): so they allocate nothing and can be captured into a graph.
  void use(CUstream stream, void* workspace, u64 workspace_bytes);

  // Runs one group, asynchronously. Throws std::runtime_error with cuBLAS's words.
  void run(const Gemm& gemm, const GemmTypes& types, const void* left, const void* right,
           void* result);

  // Runs a product in double, or in fp32, of matrices without gaps, asynchronously; throws
  // likewise.
  void run(const MatrixProduct& product, const double* left, const double* right, double* result);
  void run(const MatrixProduct& product, const float* left, const float* right, float* result);

  // Runs any number of groups, asynchronously, whose matrices begin where `addresses`, in device
  // memory, says: those of all left factors, then of all right ones, then of all results.
  void run(const Gemm& gemm, const GemmTypes& types, const void* addresses);

 private:
  explicit Blas(void* handle) : handle_(handle) {}
  template <class Scalar>
  void multiply(const MatrixProduct& product, const Scalar* left, const Scalar* right,
                Scalar* result);
  void* handle_;  // cublasHandle_t
};

}  // namespace attnlab::cuda
