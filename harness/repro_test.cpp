#include "harness/repro.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

TEST(Repro, SpellsOutEveryAxis) {
  Case work;
  work.problem = {.batch = 2,
                  .num_heads_q = 8,
                  .num_heads_kv = 2,
                  .seqlen_q = 63,
                  .seqlen_k = 129,
                  .head_dim = 40,
                  .mask = parse_mask("causal+window:5:-1"),
                  .dropout = 0.1,
                  .seed = 12345678901,
                  .layout = Layout::bhsd};
  work.input_kind = InputKind::large_logits;
  work.seed = 12345678901;
  Competitor competitor{.kernel = "v2"};
  Device device{.threads = 3, .isa = "avx2"};
  const std::string axes =
      " --pass fwd --dtype f32 --layout bhsd --batch 2 --heads 8 --heads-kv 2 --head-dim 40 --mask "
      "causal+window:5:-1 --dropout 0.1 --seqlen-q 63 --seqlen-k 129 --input-kind large_logits "
      "--seed 12345678901";
  EXPECT_EQ(repro_command(work, competitor, device),
            "attnlab run --backend cpu --isa avx2 --threads 3 --kernel v2" + axes);
  competitor.config.set("block_m", 64);
  competitor.config.set("block_n", 128);
  EXPECT_EQ(
      repro_command(work, competitor, device),
      "attnlab run --backend cpu --isa avx2 --threads 3 --kernel v2" + axes + " --block 64x128");
  competitor.backend = device.backend = Backend::cuda;
  EXPECT_EQ(repro_command(work, competitor, device),
            "attnlab run --backend cuda --kernel v2" + axes + " --block 64x128");
}

}  // namespace
}  // namespace attnlab
