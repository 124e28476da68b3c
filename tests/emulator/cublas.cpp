// Is libcublas for the emulated GPU: products as plain loops, done at once, with sums in the type
// of the factors, of 16-bit ones in fp32. Alpha and beta have that type, too.
#include <cublas_v2.h>

#include <cstdint>
#include <type_traits>

#include "kernels/shared/convert.h"

namespace {

using namespace attnlab;

// These storage types have the sums' type and conversions from and to it.
struct F16 {
  u16 bits;
  explicit operator float() const { return f32_from_f16(bits); }
  static F16 rounded(float value) { return {f16_from_f32(value)}; }
};
struct Bf16 {
  u16 bits;
  explicit operator float() const { return f32_from_bf16(bits); }
  static Bf16 rounded(float value) { return {bf16_from_f32(value)}; }
};

template <class Stored, class Sum>
Stored rounded(Sum value) {
  if constexpr (std::is_same_v<Stored, Sum>) {
    return value;
  } else {
    return Stored::rounded(value);
  }
}

// Operand is one that cuBLAS stores by columns.
template <class Stored, class Sum>
struct Operand {
  const Stored* data;
  std::int64_t stride;
  cublasOperation_t operation;

  Sum at(std::int64_t row, std::int64_t column) const {
    return static_cast<Sum>(operation == CUBLAS_OP_N ? data[column * stride + row]
                                                     : data[row * stride + column]);
  }
};

// Product is a product of cublasGemm...Ex_64() but for where its matrices begin.
struct Product {
  std::int64_t rows, columns, inner;
  const void* alpha;
  const void* beta;
  cublasOperation_t left_operation, right_operation;
  cudaDataType_t left_type, right_type, result_type;
  std::int64_t left_stride, right_stride, result_stride;
};

template <class Factor, class Result, class Sum>
void multiply(const Product& product, const void* left_data, const void* right_data,
              void* result_data) {
  const Operand<Factor, Sum> left = {static_cast<const Factor*>(left_data), product.left_stride,
                                     product.left_operation};
  const Operand<Factor, Sum> right = {static_cast<const Factor*>(right_data), product.right_stride,
                                      product.right_operation};
  const Sum alpha = *static_cast<const Sum*>(product.alpha);
  const Sum beta = *static_cast<const Sum*>(product.beta);
  for (std::int64_t j = 0; j < product.columns; ++j) {
    for (std::int64_t i = 0; i < product.rows; ++i) {
      Sum sum = 0;
      for (std::int64_t k = 0; k < product.inner; ++k) sum += left.at(i, k) * right.at(k, j);
      Result& to = static_cast<Result*>(result_data)[j * product.result_stride + i];
      const Sum old = beta == Sum{0} ? Sum{0} : beta * static_cast<Sum>(to);
      to = rounded<Result, Sum>(alpha * sum + old);
    }
  }
}

using Multiply = void (*)(const Product& product, const void* left, const void* right,
                          void* result);

// Returns null where there is no such product.
Multiply multiply_of(const Product& product) {
  if (product.left_type != product.right_type) return nullptr;
  const bool is_same = product.result_type == product.left_type;
  const bool is_f32 = product.result_type == CUDA_R_32F;
  switch (product.left_type) {
    case CUDA_R_64F: return is_same ? multiply<double, double, double> : nullptr;
    case CUDA_R_32F: return is_same ? multiply<float, float, float> : nullptr;
    case CUDA_R_16F:
      return is_same ? multiply<F16, F16, float> : is_f32 ? multiply<F16, float, float> : nullptr;
    case CUDA_R_16BF:
      return is_same  ? multiply<Bf16, Bf16, float>
             : is_f32 ? multiply<Bf16, float, float>
                      : nullptr;
    default: return nullptr;
  }
}

std::int64_t bytes(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

}  // namespace

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  static int there;
  *handle = reinterpret_cast<cublasHandle_t>(&there);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasGetStatusString(cublasStatus_t) { return "the emulated cuBLAS cannot do this"; }
cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
  *value = 13;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t, cublasOperation_t left_operation, cublasOperation_t right_operation,
    std::int64_t rows, std::int64_t columns, std::int64_t inner, const void* alpha,
    const void* left, cudaDataType_t left_type, std::int64_t left_stride, long long left_distance,
    const void* right, cudaDataType_t right_type, std::int64_t right_stride,
    long long right_distance, const void* beta, void* result, cudaDataType_t result_type,
    std::int64_t result_stride, long long result_distance, std::int64_t batch, cublasComputeType_t,
    cublasGemmAlgo_t) {
  const Product product = {rows,           columns,         inner,        alpha,      beta,
                           left_operation, right_operation, left_type,    right_type, result_type,
                           left_stride,    right_stride,    result_stride};
  const Multiply multiply = multiply_of(product);
  if (multiply == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (std::int64_t i = 0; i < batch; ++i) {
    multiply(product, static_cast<const char*>(left) + i * left_distance * bytes(left_type),
             static_cast<const char*>(right) + i * right_distance * bytes(right_type),
             static_cast<char*>(result) + i * result_distance * bytes(result_type));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t, cublasOperation_t left_operation,
                                      cublasOperation_t right_operation, std::int64_t rows,
                                      std::int64_t columns, std::int64_t inner, const void* alpha,
                                      const void* const left[], cudaDataType_t left_type,
                                      std::int64_t left_stride, const void* const right[],
                                      cudaDataType_t right_type, std::int64_t right_stride,
                                      const void* beta, void* const result[],
                                      cudaDataType_t result_type, std::int64_t result_stride,
                                      std::int64_t batch, cublasComputeType_t, cublasGemmAlgo_t) {
  const Product product = {rows,           columns,         inner,        alpha,      beta,
                           left_operation, right_operation, left_type,    right_type, result_type,
                           left_stride,    right_stride,    result_stride};
  const Multiply multiply = multiply_of(product);
  if (multiply == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (std::int64_t i = 0; i < batch; ++i) multiply(product, left[i], right[i], result[i]);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
