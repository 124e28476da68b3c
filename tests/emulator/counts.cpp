#include "tests/emulator/counts.h"

#include <atomic>

namespace attnlab::emulator {
namespace {

std::atomic<u64> product_flops, box_read_bytes, box_write_bytes;

}  // namespace

void count_product(u64 flops) { product_flops += flops; }
void count_box_read(u64 bytes) { box_read_bytes += bytes; }
void count_box_write(u64 bytes) { box_write_bytes += bytes; }

}  // namespace attnlab::emulator

extern "C" void attnlab_emulator_take_counts(attnlab::emulator::Counts* counts) {
  using namespace attnlab::emulator;
  *counts = {.product_flops = product_flops.exchange(0),
             .box_read_bytes = box_read_bytes.exchange(0),
             .box_write_bytes = box_write_bytes.exchange(0)};
}
