#include "kernels/api/peaks.h"

namespace attnlab {
namespace {

struct Row {
  CeilingId id;
  const char* name;
  const char* unit;
};

constexpr Row kRows[kCeilings] = {
    {CeilingId::tensor_f16, "tensor_f16", "FLOP/s"},
    {CeilingId::tensor_bf16, "tensor_bf16", "FLOP/s"},
    {CeilingId::tensor_tf32, "tensor_tf32", "FLOP/s"},
    {CeilingId::fma_f32, "fma_f32", "FLOP/s"},
    {CeilingId::hbm_copy, "hbm_copy", "B/s"},
    {CeilingId::hbm_read, "hbm_read", "B/s"},
    {CeilingId::l2_read, "l2_read", "B/s"},
    {CeilingId::shared_read, "shared_read", "B/s"},
    {CeilingId::ex2, "ex2", "op/s"},
};

const Row& row_of(CeilingId id) { return kRows[static_cast<std::size_t>(id)]; }

}  // namespace

std::array<CeilingId, kCeilings> ceiling_ids() {
  std::array<CeilingId, kCeilings> ids;
  for (std::size_t i = 0; i < kCeilings; ++i) ids[i] = kRows[i].id;
  return ids;
}

const char* to_string(CeilingId id) { return row_of(id).name; }

std::optional<CeilingId> parse_ceiling_id(std::string_view text) {
  for (const Row& row : kRows) {
    if (text == row.name) return row.id;
  }
  return std::nullopt;
}

const char* unit_of(CeilingId id) { return row_of(id).unit; }

double per_multiprocessor_and_clock(const CeilingRate& rate, const Device& device) {
  return rate.per_s / (device.multiprocessors * rate.clock_hz);
}

}  // namespace attnlab
