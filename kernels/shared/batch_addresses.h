// Says where the matrices of a batch of products begin, for a library that wants a pointer to each.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// OperandAddresses says where the matrices of one operand lie: address of the first, bytes from one
// to the next within a group, and from group to group.
struct OperandAddresses {
  u64 first = 0;
  i64 batch_stride = 0;
  i64 group_stride = 0;

  ATTNLAB_HD constexpr u64 of(i64 group, i64 index) const {
    return first + static_cast<u64>(group * group_stride + index * batch_stride);
  }
};

// BatchAddresses has `groups` groups of `batch` products each.
struct BatchAddresses {
  OperandAddresses left;
  OperandAddresses right;
  OperandAddresses result;
  i64 batch = 1;
  i64 groups = 1;

  ATTNLAB_HD constexpr i64 count() const { return batch * groups; }
};

}  // namespace attnlab
