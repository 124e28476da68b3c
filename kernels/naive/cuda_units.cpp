#include "kernels/naive/cuda_units.h"

#include "kernels/cuda/backend.h"

namespace attnlab::naive {
namespace {

// Kernel is a kernel of a unit: its parameters, and how it calls the function in the header that
// does the work.
struct Kernel {
  std::string name;
  std::string parameters;
  std::string arguments;
};

class Unit {
 public:
  Unit(const std::string& direction, Dtype dtype)
      : unit_{.name = std::string("naive-") + direction + "-" + to_string(dtype),
              .source = "#include \"kernels/naive/" + direction +
                        ".cuh\"\n"
                        "using namespace attnlab;\n"
                        "using T = " +
                        cuda::storage_type(dtype) + ";\n"} {}

  void add(const Kernel& kernel) {
    define(pass_entry(kernel.name), kernel.parameters,
           "naive::" + kernel.name + "(" + kernel.arguments + ")");
  }

  void add_for_each_row_class(const Kernel& kernel) {
    for (const RowClass& row_class : kRowClasses) add(kernel, row_class);
    add(kernel, kLongRows);
  }

  KernelUnit done() { return std::move(unit_); }

 private:
  void add(const Kernel& kernel, const RowClass& row_class) {
    define(row_class_entry(kernel.name, row_class), kernel.parameters,
           "naive::" + kernel.name +
               "<naive::RowClass{.threads = " + std::to_string(row_class.threads) +
               ", .chunks = " + std::to_string(row_class.chunks) + "}>(" + kernel.arguments + ")");
  }

  void define(const KernelEntry& entry, const std::string& parameters, const std::string& call) {
    unit_.source += "extern \"C\" __global__ void __launch_bounds__(naive::kBlockThreads)\n" +
                    entry.name + "(" + parameters + ") {\n  " + call + ";\n}\n";
    unit_.entries.push_back(entry);
  }

  KernelUnit unit_;
};

// Returns the parameters of a kernel that gets Params first.
std::string params_and(const char* others) {
  return std::string("const __grid_constant__ Params params, ") + others;
}

Kernel dropout_kernel() {
  return {.name = "dropout_rows",
          .parameters = params_and("const T* gP, T* gPd"),
          .arguments = "params, gP, gPd"};
}

Kernel rounding_kernel() {
  return {.name = "round_sums",
          .parameters = "const float* gSums, T* gResult, i64 elements",
          .arguments = "gSums, gResult, elements"};
}

Kernel addresses_kernel() {
  return {.name = "batch_addresses",
          .parameters = "const __grid_constant__ BatchAddresses batch, u64* gAddresses",
          .arguments = "batch, gAddresses"};
}

}  // namespace

KernelEntry pass_entry(const std::string& kernel) {
  return {.name = kernel, .threads = kBlockThreads};
}

KernelEntry row_class_entry(const std::string& kernel, const RowClass& row_class) {
  return pass_entry(kernel +
                    (row_class.chunks == 0 ? "_long" : "_" + std::to_string(row_class.columns())));
}

KernelUnit forward_unit(Dtype dtype) {
  Unit unit("forward", dtype);
  unit.add({.name = "mask_rows", .parameters = params_and("T* gS"), .arguments = "params, gS"});
  unit.add_for_each_row_class({.name = "softmax_rows",
                               .parameters = params_and("const T* gS, T* gP, float* gLse"),
                               .arguments = "params, gS, gP, gLse"});
  unit.add(dropout_kernel());
  unit.add(addresses_kernel());
  return unit.done();
}

KernelUnit backward_unit(Dtype dtype) {
  Unit unit("backward", dtype);
  unit.add(dropout_kernel());
  unit.add_for_each_row_class({.name = "softmax_backward_rows",
                               .parameters = params_and("const T* gP, T* gdP"),
                               .arguments = "params, gP, gdP"});
  unit.add(rounding_kernel());
  unit.add(addresses_kernel());
  return unit.done();
}

KernelUnit e4m3_unit() {
  Unit unit("e4m3", Dtype::f16);
  unit.add({.name = "decode_codes",
            .parameters = params_and("const __grid_constant__ naive::Codes of"),
            .arguments = "params, of"});
  unit.add(rounding_kernel());
  return unit.done();
}

}  // namespace attnlab::naive
