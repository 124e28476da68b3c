#include "kernels/cuda/unit_text.h"

#include <gtest/gtest.h>

namespace attnlab::cuda {
namespace {

ConfigFields fields(bool producer, bool dropout) {
  return {count("head_dim", 64, "-d"),
          derived("block_m", 128, "-"),
          count("block_n", 80, "x"),
          count("blocks", 2),
          flag("producer", producer, "", "-alone"),
          flag("dropout", dropout, "-dropout")};
}

TEST(ConfigFields, AreTheTextOfTheUnit) {
  EXPECT_EQ(config_text("v9::Config", fields(true, false)),
            "constexpr v9::Config kConfig = {.head_dim = 64, .block_n = 80, .blocks = 2, "
            ".producer = true, .dropout = false};\n")
      << "block_m follows from the others";
}

TEST(ConfigFields, AreTheNameOfTheUnit) {
  EXPECT_EQ(unit_name("v9-forward", Dtype::bf16, fields(true, false)),
            "v9-forward-bf16-d64-128x80");
  EXPECT_EQ(unit_name("v9-forward", Dtype::f16, fields(false, true)),
            "v9-forward-f16-d64-128x80-alone-dropout");
}

TEST(ConfigFields, FillInTheAxesOfTheirNames) {
  const Config filled =
      with_fields({{"block_m", 0}, {"sram", 7}, {"producer", -1}}, fields(false, true));
  EXPECT_EQ(filled, (Config{{"block_m", 128}, {"sram", 7}, {"producer", 0}}));
}

}  // namespace
}  // namespace attnlab::cuda
