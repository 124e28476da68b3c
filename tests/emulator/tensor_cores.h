// Computes what tensor cores do, on the registers and the shared memory of those who ask.
#pragma once

#include "tests/emulator/block.h"

namespace attnlab::emulator {

void multiply(const Product& product);

}  // namespace attnlab::emulator
