#include "kernels/cuda/blas.h"

#include <cublas_v2.h>

#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

// Cublas uses their names in the library: cublas_v2.h hides suffixes behind macros.
struct Cublas {
  decltype(&::cublasCreate_v2) create = nullptr;
  decltype(&::cublasSetStream_v2) set_stream = nullptr;
  decltype(&::cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&::cublasSetMathMode) set_math_mode = nullptr;
  decltype(&::cublasGetStatusString) status_string = nullptr;
  decltype(&::cublasGemmStridedBatchedEx_64) gemm = nullptr;
  decltype(&::cublasGemmBatchedEx_64) gemm_of_pointers = nullptr;
  decltype(&::cublasGetProperty) get_property = nullptr;
  std::filesystem::path path;
};

const Cublas& cublas() {
  static const Cublas functions = [] {
    const Library library({"libcublas.so.13", "libcublas.so.12"},
                          "Run scripts/setup.sh --cuda, which brings it into .cuda");
    Cublas found;
    library.bind(found.create, "cublasCreate_v2");
    library.bind(found.set_stream, "cublasSetStream_v2");
    library.bind(found.set_workspace, "cublasSetWorkspace_v2");
    library.bind(found.set_math_mode, "cublasSetMathMode");
    library.bind(found.status_string, "cublasGetStatusString");
    library.bind(found.gemm, "cublasGemmStridedBatchedEx_64");
    library.bind(found.gemm_of_pointers, "cublasGemmBatchedEx_64");
    library.bind(found.get_property, "cublasGetProperty");
    found.path = library.path();
    return found;
  }();
  return functions;
}

void check(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error("cuBLAS: " + what + ": " + cublas().status_string(status));
}

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: break;
    case Dtype::e4m3: return CUDA_R_8F_E4M3;
    case Dtype::f16: return CUDA_R_16F;
    case Dtype::bf16: return CUDA_R_16BF;
  }
  return CUDA_R_32F;
}

cublasOperation_t operation(const GemmMatrix& matrix) {
  return matrix.transposed == Transposed::yes ? CUBLAS_OP_T : CUBLAS_OP_N;
}

const void* first(const void* data, const GemmMatrix& matrix, Dtype dtype) {
  return static_cast<const char*>(data) + matrix.offset * size_bytes(dtype);
}

std::string describe(const Gemm& gemm) {
  return std::to_string(gemm.batch * gemm.groups) + " products (" + std::to_string(gemm.rows) +
         ", " + std::to_string(gemm.inner) + ") x (" + std::to_string(gemm.inner) + ", " +
         std::to_string(gemm.columns) + ")";
}

cublasComputeType_t compute_type(const GemmTypes& types) {
  return types.precision == GemmPrecision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

}  // namespace

BlasLibrary blas_library() {
  int major = 0;
  int minor = 0;
  check(cublas().get_property(MAJOR_VERSION, &major), "its version");
  check(cublas().get_property(MINOR_VERSION, &minor), "its version");
  return {.version = std::to_string(major) + "." + std::to_string(minor), .path = cublas().path};
}

Blas& Blas::of(const Device& device) {
  static std::map<int, Blas> handles;
  const auto found = handles.find(device.ordinal);
  if (found != handles.end()) return found->second;
  cublasHandle_t handle = nullptr;
  check(cublas().create(&handle), "creating a handle");
  // Parts of a sum are added in fp32, also where the result is in 16 bits.
  constexpr int kMode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  check(cublas().set_math_mode(handle, static_cast<cublasMath_t>(kMode)), "its math mode");
  return handles.emplace(device.ordinal, Blas(handle)).first->second;
}

void Blas::use(CUstream stream, void* workspace, u64 workspace_bytes) {
  const auto handle = static_cast<cublasHandle_t>(handle_);
  check(cublas().set_stream(handle, stream), "its stream");  // forgets the workspace
  check(cublas().set_workspace(handle, workspace, workspace_bytes), "its workspace");
}

void Blas::run(const Gemm& gemm, const GemmTypes& types, const void* left, const void* right,
               void* result) {
  const cudaDataType_t factors = data_type(types.factors);
  // cuBLAS stores by columns. A matrix stored by rows is to it the transpose, and the transpose of
  // a product is the product of the transposes in the other order.
  const cublasStatus_t status = cublas().gemm(
      static_cast<cublasHandle_t>(handle_), operation(gemm.right), operation(gemm.left),
      gemm.columns, gemm.rows, gemm.inner, &gemm.alpha, first(right, gemm.right, types.factors),
      factors, gemm.right.row_stride, gemm.right.batch_stride,
      first(left, gemm.left, types.factors), factors, gemm.left.row_stride, gemm.left.batch_stride,
      &gemm.beta, const_cast<void*>(first(result, gemm.result, types.result)),
      data_type(types.result), gemm.result.row_stride, gemm.result.batch_stride, gemm.batch,
      compute_type(types), CUBLAS_GEMM_DEFAULT);
  check(status, describe(gemm));
}

template <class Scalar>
void Blas::multiply(const MatrixProduct& product, const Scalar* left, const Scalar* right,
                    Scalar* result) {
  constexpr bool kIsDouble = std::is_same_v<Scalar, double>;
  constexpr cudaDataType_t kType = kIsDouble ? CUDA_R_64F : CUDA_R_32F;
  const Scalar one = 1, beta = product.adds ? Scalar{1} : Scalar{0};
  const auto operation = [](bool is_transposed) {
    return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const i64 left_stride = product.left_is_transposed ? product.rows : product.inner;
  const i64 right_stride = product.right_is_transposed ? product.inner : product.columns;
  const cublasStatus_t status =
      cublas().gemm(static_cast<cublasHandle_t>(handle_), operation(product.right_is_transposed),
                    operation(product.left_is_transposed), product.columns, product.rows,
                    product.inner, &one, right, kType, right_stride, 0, left, kType, left_stride, 0,
                    &beta, result, kType, product.columns, 0, 1,
                    kIsDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  check(status, "a product (" + std::to_string(product.rows) + ", " +
                    std::to_string(product.inner) + ") x (" + std::to_string(product.inner) + ", " +
                    std::to_string(product.columns) + ")");
}

void Blas::run(const MatrixProduct& product, const double* left, const double* right,
               double* result) {
  multiply(product, left, right, result);
}

void Blas::run(const MatrixProduct& product, const float* left, const float* right, float* result) {
  multiply(product, left, right, result);
}

void Blas::run(const Gemm& gemm, const GemmTypes& types, const void* addresses) {
  const cudaDataType_t factors = data_type(types.factors);
  const i64 count = gemm.batch * gemm.groups;
  const auto* const left = static_cast<const void* const*>(addresses);
  const cublasStatus_t status = cublas().gemm_of_pointers(
      static_cast<cublasHandle_t>(handle_), operation(gemm.right), operation(gemm.left),
      gemm.columns, gemm.rows, gemm.inner, &gemm.alpha, left + count, factors,
      gemm.right.row_stride, left, factors, gemm.left.row_stride, &gemm.beta,
      const_cast<void* const*>(left + 2 * count), data_type(types.result), gemm.result.row_stride,
      count, compute_type(types), CUBLAS_GEMM_DEFAULT);
  check(status, describe(gemm));
}

}  // namespace attnlab::cuda
