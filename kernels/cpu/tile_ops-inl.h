// Holds what the files of tile operations share inside one instruction set: vectors of tile
// columns, and the operations that one file defines and tile_ops_float.cpp lists. Highway includes
// this once per set.
#include <hwy/highway.h>

#include "kernels/cpu/tile_ops.h"

#if defined(ATTNLAB_TILE_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTNLAB_TILE_OPS_INL_H
#undef ATTNLAB_TILE_OPS_INL_H
#else
#define ATTNLAB_TILE_OPS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace attnlab::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::CappedTag<float, kTileColumns>;
using Vector = hn::Vec<Lanes>;

HWY_ATTR inline i64 lane_count() { return static_cast<i64>(hn::Lanes(Lanes())); }
HWY_ATTR inline Vector load(const float* p) { return hn::LoadU(Lanes(), p); }
HWY_ATTR inline void store(Vector v, float* p) { hn::StoreU(v, Lanes(), p); }
HWY_ATTR inline Vector splat(float x) { return hn::Set(Lanes(), x); }

// They are defined in tile_ops_half.cpp and tile_ops_dropout.cpp.
const HalfOps& f16_ops();
const HalfOps& bf16_ops();
void drop(const Drop& drop);

}  // namespace attnlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
