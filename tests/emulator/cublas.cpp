// Is libcublas for the emulated GPU: products in double and fp32, as plain loops, done at once. It
// refuses types that the references on a device do not multiply.
#include <cublas_v2.h>

#include <cstdint>

namespace {

// Operand is one that cuBLAS stores by columns.
template <class Scalar>
struct Operand {
  const Scalar* data;
  std::int64_t stride;
  cublasOperation_t operation;

  Scalar at(std::int64_t row, std::int64_t column) const {
    return operation == CUBLAS_OP_N ? data[column * stride + row] : data[row * stride + column];
  }
};

template <class Scalar>
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, Scalar alpha,
              const Operand<Scalar>& left, const Operand<Scalar>& right, Scalar beta,
              Scalar* result, std::int64_t stride) {
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      Scalar sum = 0;
      for (std::int64_t k = 0; k < inner; ++k) sum += left.at(i, k) * right.at(k, j);
      Scalar& to = result[j * stride + i];
      to = beta == Scalar{0} ? alpha * sum : alpha * sum + beta * to;
    }
  }
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
    const void* left, cudaDataType_t left_type, std::int64_t left_stride, long long,
    const void* right, cudaDataType_t right_type, std::int64_t right_stride, long long,
    const void* beta, void* result, cudaDataType_t result_type, std::int64_t result_stride,
    long long, std::int64_t batch, cublasComputeType_t, cublasGemmAlgo_t) {
  if (batch != 1 || left_type != right_type || left_type != result_type) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto run = [&]<class Scalar>(Scalar) {
    multiply<Scalar>(rows, columns, inner, *static_cast<const Scalar*>(alpha),
                     {static_cast<const Scalar*>(left), left_stride, left_operation},
                     {static_cast<const Scalar*>(right), right_stride, right_operation},
                     *static_cast<const Scalar*>(beta), static_cast<Scalar*>(result),
                     result_stride);
    return CUBLAS_STATUS_SUCCESS;
  };
  if (left_type == CUDA_R_64F) return run(double{});
  if (left_type == CUDA_R_32F) return run(float{});
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmBatchedEx_64(cublasHandle_t, cublasOperation_t, cublasOperation_t,
                                      std::int64_t, std::int64_t, std::int64_t, const void*,
                                      const void* const[], cudaDataType_t, std::int64_t,
                                      const void* const[], cudaDataType_t, std::int64_t,
                                      const void*, void* const[], cudaDataType_t, std::int64_t,
                                      std::int64_t, cublasComputeType_t, cublasGemmAlgo_t) {
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
