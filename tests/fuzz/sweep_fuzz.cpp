#include "harness/plan/sweep.h"
#include "harness/plan/sweep_file.h"
#include "tests/fuzz/fuzz.h"

void attnlab::fuzz::read_input(const std::filesystem::path& file) { read_sweep(file); }
