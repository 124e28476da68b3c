#include "harness/record/repro.h"

#include <gtest/gtest.h>

#include "harness/tensors/safetensors.h"
#include "harness/testing/test_support.h"

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
                  .softmax_scale = 2.5,
                  .layout = Layout::bhsd};
  work.input_kind = InputKind::large_logits;
  work.seed = 12345678901;
  Competitor competitor{.kernel = "v2"};
  Device device{.threads = 3, .isa = "avx2"};
  const std::string axes =
      " --pass fwd --layout bhsd --mask causal+window:5:-1 --dropout 0.1 --softmax-scale 2.5 "
      "--seed "
      "12345678901"
      " --dtype f32 --batch 2 --heads 8 --heads-kv 2 --head-dim 40 --lengths drawn --seqlen-q 63 "
      "--seqlen-k 129 --input-kind large_logits";
  EXPECT_EQ(repro_command(work, competitor, device, default_protocol(device)),
            "attnlab run --backend cpu --isa avx2 --threads 3 --kernel v2" + axes);
  competitor.config.set("block_m", 64);
  competitor.config.set("block_n", 128);
  EXPECT_EQ(
      repro_command(work, competitor, device, default_protocol(device)),
      "attnlab run --backend cpu --isa avx2 --threads 3 --kernel v2" + axes + " --block 64x128");
  competitor.backend = device.backend = Backend::cuda;
  const Protocol protocol = default_protocol(device);
  EXPECT_EQ(repro_command(work, competitor, device, protocol),
            "attnlab run --backend cuda --kernel v2" + axes + " --block 64x128");
  const Competitor peer = {.kernel = "torch:flash", .backend = Backend::cuda};
  EXPECT_EQ(repro_command(work, peer, device, protocol),
            "attnlab run --backend cuda --peer torch:flash" + axes);
}

TEST(Repro, SpellsOutAxesThatNobodyElseKnows) {
  const Competitor competitor = {.kernel = "own",
                                 .config = {{"block_n", 32}, {"block_shift", -8}, {"odd", 3}}};
  const std::string command = repro_command({}, competitor, {}, {});
  EXPECT_PRED2(contains, command, " --block 0x32 --block-shift -8 --odd 3");
}

TEST(Repro, HoldsLengthsConfigAndProtocol) {
  Case work;
  work.problem = {
      .batch = 2,
      .seqlen_q = 8,
      .seqlen_k = 8,
      .lengths = {.kind = LengthsKind::packed, .given = true, .queries = {3, 4}, .keys = {5, 4}},
      .layout = Layout::packed};
  Competitor competitor{.kernel = "v1"};
  competitor.config.set("sram", 8192);
  competitor.config.set("warps", 4);
  competitor.config.set("stages", 3);
  competitor.config.set("consumers", 2);
  competitor.config.set("producer", 1);
  competitor.config.set("overlap", 0);
  competitor.config.set("ping_pong", 1);
  competitor.config.set("deterministic", 1);
  competitor.config.set("schedule_seed", 9);
  competitor.config.set("tf32", 1);
  const std::string command = repro_command(
      work, competitor, {}, {.min_rounds = 3, .warmup_seconds = 0.5, .verify_multiply_adds = 99});
  EXPECT_PRED2(contains, command, " --lengths 3x5+4 ");
  EXPECT_TRUE(command.ends_with(
      " --sram 8192 --warps 4 --stages 3 --consumers 2 --producer 1 --overlap 0 --ping-pong 1 "
      "--deterministic 1 --schedule-seed 9 --tf32 1 --protocol "
      "min_rounds=3,warmup_seconds=0.5,verify_multiply_adds=99"))
      << command;
}

TEST(Repro, PathsOfTheMachineAreThoseFromHere) {
  const std::filesystem::path here = std::filesystem::current_path();
  EXPECT_EQ(path_from_here("a/../b.json"), "a/../b.json");
  EXPECT_EQ(path_from_here(here / "sweeps" / "a.json"), "sweeps/a.json");
  EXPECT_EQ(path_from_here(here.parent_path() / "a.json"), "../a.json");
  EXPECT_EQ(portable_word((here / "my file").string()), "'my file'");
  EXPECT_EQ(portable_word("--out=" + (here / "r.jsonl").string()), "--out=r.jsonl");
  EXPECT_EQ(portable_word("cache=/nowhere"), "cache=/nowhere");
  EXPECT_EQ(portable_word("none"), "none");
  const auto input = std::make_shared<QkvTensors>();
  input->file.path = here / "q.st";
  const Case work = {.input_kind = InputKind::file, .input = input};
  EXPECT_TRUE(repro_command(work, {.kernel = "v2"}, {}, {}).ends_with(" --input q.st"));
}

TEST(Repro, AFileIsQuantisedAgain) {
  const auto input = std::make_shared<QkvTensors>();
  input->file.path = "q.st";
  Case work = {.input_kind = InputKind::file, .input = input};
  work.problem.dtype = Dtype::e4m3;
  EXPECT_PRED2(contains, repro_command(work, {.kernel = "v3"}, {}, {}),
               " --input q.st --dtype e4m3 --quant block --quant-v channel --rotate 1");
}

TEST(Repro, NamesTheFileInsteadOfWhatItSays) {
  const auto input = std::make_shared<QkvTensors>();
  input->file.path = "my tensors/it's.st";
  const Case work = {.input_kind = InputKind::file, .seed = 5, .input = input};
  EXPECT_EQ(repro_command(work, {.kernel = "v2"}, {.threads = 1, .isa = "avx2"}, {}),
            "attnlab run --backend cpu --isa avx2 --threads 1 --kernel v2 --pass fwd --layout bshd "
            "--mask none --dropout 0 --softmax-scale 0 --seed 5 --input 'my tensors/it'\\''s.st'");
}

}  // namespace
}  // namespace attnlab
