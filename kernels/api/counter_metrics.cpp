#include "kernels/api/counter_metrics.h"

namespace attnlab {
namespace {

constexpr double kSectorBytes = 32.0;

// Names the operations of a type, with sums in fp32, by wgmma ("hgmma") or mma.sync ("hmma").
// wgmma's of fp16 are counted with all sums alike, those of fp8 by whatever instruction.
std::string tensor_operations(const std::string& instruction, Dtype dtype) {
  const std::string name = "sm__ops_path_tensor_op_" + instruction + "_src_";
  switch (dtype) {
    case Dtype::f32: return name + "tf32_dst_fp32.sum";
    case Dtype::f16: return name + (instruction == "hgmma" ? "fp16.sum" : "fp16_dst_fp32.sum");
    case Dtype::bf16: return name + "bf16_dst_fp32.sum";
    case Dtype::e4m3: return "sm__ops_path_tensor_src_fp8.sum";
  }
  return name;
}

}  // namespace

// These take one pass of a GH100, of bf16 and f32 two, and three with the further ones
// (counters_test.cpp). lts__t_bytes is not among them: it counts what crosses between the halves of
// the L2 as well, and is three times what the multiprocessors ask for. Between the multiprocessors
// and the L2 lies a coalescer (lrc__ among CUPTI's names), which merges reads of the same lines by
// blocks in step: what arrives at the L1s is what a schedule asks for, and what leaves the L2 may
// be less.
std::vector<CounterMetric> counter_metrics(Dtype dtype, bool further) {
  using C = HardwareCounts;
  std::vector<CounterMetric> metrics = {
      {&C::dram_read_bytes, "dram__bytes_read.sum"},
      {&C::dram_read_bytes, "dram__bytes_op_read.sum"},  // on some Blackwell chips
      {&C::dram_write_bytes, "dram__bytes_write.sum"},
      {&C::dram_write_bytes, "dram__bytes_op_write.sum"},
      {&C::sm_read_bytes, "l1tex__m_xbar2l1tex_read_sectors.sum", kSectorBytes},
      {&C::l2_read_bytes, "lts__t_sectors_srcunit_tex_op_read.sum", kSectorBytes},
      {&C::l2_write_bytes, "lts__t_sectors_srcunit_tex_op_write.sum", kSectorBytes},
      {&C::tensor_active_cycles, "sm__pipe_tensor_cycles_active.avg"},
      {&C::active_cycles, "sm__cycles_active.avg"},
      {&C::elapsed_cycles, "sm__cycles_elapsed.max"},
      {&C::wgmma_flops, tensor_operations("hgmma", dtype)},
      {&C::multiprocessor_clock_hz, "gpc__cycles_elapsed.avg.per_second"},
  };
  if (further) {
    if (dtype != Dtype::e4m3) {  // wgmma's count has mma.sync's fp8 too
      metrics.push_back({&C::mma_sync_flops, tensor_operations("hmma", dtype)});
    }
    metrics.push_back({&C::atomic_bytes, "lts__t_sectors_srcunit_tex_op_atom.sum", kSectorBytes});
    metrics.push_back({&C::reduction_bytes, "lts__t_sectors_srcunit_tex_op_red.sum", kSectorBytes});
    // By CUPTI's descriptions wavefronts are those of loads, stores, atomics, cp.async and, on a
    // GH100, wgmma; conflicts "op_ld" of ld and ldmatrix, "op_st" of st and stmatrix. Those of
    // cp.async are in neither: what would count them needs a pass more.
    const std::string conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_";
    metrics.push_back({&C::shared_wavefronts, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"});
    metrics.push_back({&C::shared_load_conflicts, conflicts + "ld.sum"});
    metrics.push_back({&C::shared_store_conflicts, conflicts + "st.sum"});
  }
  return metrics;
}

}  // namespace attnlab
