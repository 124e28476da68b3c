// Tests v3 on a GPU as far as no GPU is needed: what it refuses and what it chooses, its memory,
// its units. tests/cuda_tiles_test.cpp holds the choices to the masks, cuda_traffic_test.cpp the
// traffic.
#include "kernels/v3/cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/test_kernel.h"
#include "kernels/v3/cuda_grid.h"
#include "kernels/v3/cuda_tiles.h"
#include "kernels/v3/cuda_units.h"

namespace attnlab::v3 {
namespace {

using cuda::hopper;

Problem make_problem(i64 head_dim, Pass pass = Pass::fwd) {
  return cuda::problem_of_300(pass, head_dim);
}

class V3Cuda : public testing::Test, public cuda::TestedKernel<kCuda> {};

TEST_F(V3Cuda, RunsEveryHeadDimOfWholeChunks) {
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (i64 head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (const double dropout : {0.0, 0.1}) {
        Problem problem = make_problem(head_dim, pass);
        problem.dropout = dropout;
        EXPECT_EQ(reason(problem, default_config(kCuda)), "") << problem.id();
      }
    }
  }
}

TEST_F(V3Cuda, SaysWhyABackwardsTileDoesNotFit) {
  const Problem problem = make_problem(128, Pass::bwd);
  EXPECT_EQ(reason(problem, config_of({{"block_m", 64}, {"block_n", 128}, {"stages", 2}})), "");
  expect_reason(problem, config_of({{"block_m", 128}}), "64 rows a tile");
  expect_reason(problem, config_of({{"block_n", 64}}), "128 keys a tile");
  expect_reason(problem, config_of({{"consumers", 3}}), "at head_dim 128 has 2");
  EXPECT_EQ(reason(make_problem(136, Pass::bwd), config_of({{"consumers", 3}})), "");
  expect_reason(make_problem(192, Pass::bwd), config_of({{"block_n", 80}}), "96 keys a tile");
  EXPECT_EQ(reason(make_problem(200, Pass::bwd), config_of({{"block_n", 64}})), "");
  expect_reason(make_problem(256, Pass::bwd), config_of({{"block_n", 96}}), "80 or 64 keys a tile");
  expect_reason(problem, config_of({{"stages", 3}}), "no more and no fewer");
  expect_reason(problem, config_of({{"overlap", 1}}), "axis of the forward");
  EXPECT_EQ(reason(problem, config_of({{"deterministic", 1}})), "");
  EXPECT_EQ(reason(make_problem(128), config_of({{"deterministic", 1}})), "");
  EXPECT_EQ(reason(make_problem(128, Pass::fwdbwd), config_of({{"ping_pong", 0}})), "");
}

// The resolved config names the tile that a pass runs with, and none if both passes run.
TEST_F(V3Cuda, ResolvesTheTileOfItsPass) {
  const Config open = default_config(kCuda);
  const Config backward = kCuda.resolved(make_problem(64, Pass::bwd), open, hopper());
  EXPECT_EQ(backward.get("block_m"), 128);
  EXPECT_EQ(backward.get("block_n"), 128);
  EXPECT_EQ(backward.get("consumers"), 2);
  EXPECT_EQ(kCuda.resolved(make_problem(64, Pass::bwd), backward, hopper()), backward);
  Config both = kCuda.resolved(make_problem(64, Pass::fwdbwd), open, hopper());
  EXPECT_FALSE(both.contains("promote"));  // which is of e4m3 alone
  both.set("promote", open.get("promote"));
  for (const auto& [name, value] : open.values()) EXPECT_EQ(both.get(name), value) << name;
  EXPECT_EQ(kCuda.forward_config(backward), open);
}

TEST_F(V3Cuda, BackwardNeedsSumsStatisticsAndStates) {
  Problem problem = make_problem(64, Pass::bwd);
  problem.seqlen_q = problem.seqlen_k = 256;
  problem.batch = 3;
  problem.num_heads_q = problem.num_heads_kv = 2;
  const u64 rows = 3 * 2 * 256;
  // A row has fp32 sums of 64 columns, two statistics and a state; a tile of rows has a flag.
  EXPECT_EQ(kCuda.workspace_bytes(problem, default_config(kCuda), hopper()),
            rows * (64 * 4 + 2 * 4 + 8) + 256);
}

// In a fixed order a tile of rows has two words more, the launch two tickets; it stays linear in
// the rows. A block pattern adds a word for each pair of tiles, which has an entry anyway.
TEST_F(V3Cuda, AFixedOrderNeedsAFewWords) {
  const Config ordered = config_of({{"deterministic", 1}});
  for (const i64 seqlen_k : {1024, 4096}) {
    Problem problem = make_problem(128, Pass::bwd);
    problem.seqlen_q = 4096;
    problem.seqlen_k = seqlen_k;
    const u64 row_tiles = u64{2} * 4 * 4096 / 64;
    const u64 pairs = u64{2} * 64 * static_cast<u64>(seqlen_k) / 128;
    const auto bytes = [&](const Config& config) {
      return kCuda.workspace_bytes(problem, config, hopper());
    };
    // Two tickets take 256 bytes, as a word for each K/V head does where the order is free.
    EXPECT_EQ(bytes(ordered) - bytes(default_config(kCuda)), 2 * row_tiles * 4);
    problem.mask = parse_mask("blocks:butterfly:128x128");
    EXPECT_EQ(bytes(ordered) - bytes(default_config(kCuda)), (2 * row_tiles + pairs) * 4);
  }
}

// Sums of dQ are cleared a wave ahead; large ones, of a group of heads, four waves; all of them
// first where items may be too short for that.
TEST_F(V3Cuda, SumsAreClearedAhead) {
  const auto ahead = [](i64 head_dim, i64 seqlen, i64 heads_kv, const char* mask) {
    Problem problem = make_problem(head_dim, Pass::bwd);
    problem.seqlen_q = problem.seqlen_k = seqlen;
    problem.num_heads_kv = heads_kv;
    problem.mask = parse_mask(mask);
    return clearing_ahead(problem, backward_config_of(problem, default_config(kCuda)), 132);
  };
  EXPECT_EQ(ahead(128, 1024, 4, "causal"), 132);  // 512 KiB
  EXPECT_EQ(ahead(128, 1024, 2, "causal"), 4 * 132);
  EXPECT_EQ(ahead(128, 1025, 4, "none"), 4 * 132);
  EXPECT_EQ(ahead(256, 512, 4, "none"), 132);
  EXPECT_EQ(ahead(128, 1024, 4, "window:100:0"), 2 * 4 * 8);  // all items
  EXPECT_EQ(ahead(128, 1024, 4, "blocks:butterfly:128x128"), 2 * 4 * 8);
}

// In a fixed order items of a slice go by ascending keys, as they add, and without a mask too those
// of several slices are interleaved.
TEST_F(V3Cuda, AFixedOrderInterleavesSlices) {
  for (const char* mask : {"none", "causal", "window:100:0"}) {
    Problem problem = make_problem(128, Pass::bwd);
    problem.batch = 15;  // 60 slices, three sections of 20 under a causal mask
    problem.num_heads_kv = problem.num_heads_q;
    problem.seqlen_q = problem.seqlen_k = 2048;
    problem.mask = parse_mask(mask);
    BackwardConfig config = backward_config_of(problem, default_config(kCuda));
    EXPECT_EQ(key_grid(problem, config).section, 1) << mask;
    config.deterministic = true;
    const SectionedGrid grid = key_grid(problem, config);
    EXPECT_GE(grid.section, 8) << mask;
    std::map<i64, i64> last;  // tile of keys, by slice
    for (i64 index = 0; index < work_items(grid); ++index) {
      const WorkItem item = work_item(grid, index);
      const auto [place, is_new] = last.try_emplace(item.batch * grid.heads + item.head, -1);
      EXPECT_EQ(item.block, place->second + 1);
      place->second = item.block;
    }
  }
}

// Under a causal mask short slices follow one another, eight at a time beyond head dim 128; of long
// ones, or where heads share, as many are interleaved as the L2 keeps. The last ones with a wave of
// items always are, short ones with two.
TEST_F(V3Cuda, SectionsOfACausalBackward) {
  const auto sections = [](i64 head_dim, i64 seqlen, i64 heads_kv) {
    Problem problem = make_problem(head_dim, Pass::bwd);
    problem.batch = 64;
    problem.num_heads_kv = heads_kv;
    problem.seqlen_q = problem.seqlen_k = seqlen;
    problem.mask = parse_mask("causal");
    const SectionedGrid grid =
        key_grid(problem, backward_config_of(problem, default_config(kCuda)));
    return std::pair(grid.section, grid.last);
  };
  EXPECT_EQ(sections(64, 512, 4), std::pair(i64{1}, i64{66}));
  EXPECT_EQ(sections(128, 2048, 4), std::pair(i64{1}, i64{16}));
  EXPECT_EQ(sections(256, 512, 4), std::pair(i64{8}, i64{37}));    // 7 tiles of 80 keys
  EXPECT_EQ(sections(128, 4096, 4), std::pair(i64{10}, i64{10}));  // 4 MiB each
  EXPECT_EQ(sections(128, 4096, 1), std::pair(i64{2}, i64{4}));    // of four heads, 16 MiB
  EXPECT_EQ(sections(128, 512, 1), std::pair(i64{20}, i64{33}));   // of four heads, 2 MiB
}

// The order is part of the unit: what adds in any order has the name and the text that it had.
TEST_F(V3Cuda, AFixedOrderIsAnotherUnit) {
  for (const i64 head_dim : {64, 128, 192, 256}) {
    const Problem problem = make_problem(head_dim, Pass::bwd);
    const KernelUnit any = kCuda.units(problem, default_config(kCuda), hopper()).at(0);
    const KernelUnit ordered =
        kCuda.units(problem, config_of({{"deterministic", 1}}), hopper()).at(0);
    EXPECT_EQ(ordered.name, any.name + "-deterministic");
    EXPECT_NE(ordered.source, any.source);
  }
}

TEST_F(V3Cuda, RefusesWithAReason) {
  const Config open = default_config(kCuda);
  Problem problem = make_problem(64);
  for (const char* arch : {"sm_80", "sm_89", "sm_100a", "sm_120a"}) {
    EXPECT_NE(reason(problem, open, device_of_arch(arch)).find("9.0"), std::string::npos) << arch;
  }
  expect_reason(make_problem(68), open, "multiple of 8");
  expect_reason(make_problem(264), open, "above 256");
  problem.dtype = Dtype::f32;
  expect_reason(problem, open, "f16 or bf16");
}

TEST_F(V3Cuda, SaysWhyATileDoesNotFit) {
  const Problem problem = make_problem(128);
  EXPECT_EQ(reason(problem, config_of({{"consumers", 2}, {"block_n", 96}, {"stages", 2}})), "");
  expect_reason(problem, config_of({{"consumers", 1}, {"ping_pong", 1}}),
                "takes two or three consumers");
  expect_reason(problem, config_of({{"block_m", 96}}), "64, 128 or 192");
  expect_reason(problem, config_of({{"block_n", 72}}), "multiple of 16");
  expect_reason(problem, config_of({{"consumers", 2}, {"block_n", 128}, {"stages", 4}}),
                "shared memory");
  expect_reason(problem, config_of({{"consumers", 3}, {"block_n", 128}, {"stages", 1}}),
                "registers a thread");
}

TEST_F(V3Cuda, OnE4m3ThreeConsumersFitWhereOIsPromotedAndNothingOverlaps) {
  Problem problem = make_problem(128);
  problem.dtype = Dtype::e4m3;
  const auto three = [](i64 promote, i64 overlap) {
    return config_of({{"consumers", 3}, {"stages", 2}, {"promote", promote}, {"overlap", overlap}});
  };
  EXPECT_EQ(reason(problem, three(1, 0)), "");
  expect_reason(problem, three(1, 1), "registers a thread");
  expect_reason(problem, three(0, 0), "registers a thread");
}

Problem problem_of_e4m3(i64 head_dim, i64 seqlen, ScaleOf qk) {
  Problem problem = make_problem(head_dim);
  problem.dtype = Dtype::e4m3;
  problem.seqlen_q = problem.seqlen_k = seqlen;
  problem.quantisation.qk = qk;
  return problem;
}

TEST_F(V3Cuda, OnE4m3TilesOf192KeysTakeNoScalesOfBlocks) {
  const Config wide =
      config_of({{"consumers", 2}, {"block_n", 192}, {"stages", 2}, {"promote", 0}});
  EXPECT_EQ(reason(problem_of_e4m3(128, 300, ScaleOf::head), wide), "");
  expect_reason(problem_of_e4m3(128, 300, ScaleOf::block), wide, "64 or 128 keys");
  Problem problem = problem_of_e4m3(64, 300, ScaleOf::tensor);
  problem.quantisation.v = ScaleOf::block;
  expect_reason(problem,
                config_of({{"consumers", 3}, {"block_n", 192}, {"stages", 2}, {"promote", 1}}),
                "64 or 128 keys");
  expect_reason(problem_of_e4m3(128, 300, ScaleOf::head), config_of({{"block_n", 96}}),
                "64, 128 or 192");
}

// Says the own choices on e4m3, as "rows x keys, stages, overlap".
TEST_F(V3Cuda, OnE4m3LongSequencesHaveLargerTiles) {
  const auto chosen = [&](i64 head_dim, i64 seqlen, i64 promote, ScaleOf qk, const char* mask) {
    Problem problem = problem_of_e4m3(head_dim, seqlen, qk);
    problem.mask = parse_mask(mask);
    const Config own = kCuda.resolved(problem, config_of({{"promote", promote}}), hopper());
    EXPECT_EQ(reason(problem, own), "");
    return std::to_string(own.get("block_m")) + "x" + std::to_string(own.get("block_n")) + " " +
           std::to_string(own.get("stages")) + " " + std::to_string(own.get("overlap"));
  };
  constexpr ScaleOf kHead = ScaleOf::head, kBlock = ScaleOf::block;
  EXPECT_EQ(chosen(64, 2047, 1, kHead, "none"), "128x128 4 1");
  EXPECT_EQ(chosen(64, 2047, 0, kHead, "none"), "128x128 3 1");
  EXPECT_EQ(chosen(64, 2048, 1, kHead, "causal"), "192x192 3 0");
  EXPECT_EQ(chosen(64, 2048, 1, kBlock, "causal"), "192x128 3 0");
  EXPECT_EQ(chosen(64, 2048, 0, kHead, "none"), "192x128 3 1");
  EXPECT_EQ(chosen(128, 2048, 1, kBlock, "none"), "192x128 2 0");
  EXPECT_EQ(chosen(128, 2047, 1, kBlock, "none"), "128x128 3 1");
  EXPECT_EQ(chosen(128, 8191, 1, kBlock, "causal"), "128x128 3 1");
  EXPECT_EQ(chosen(128, 8192, 1, kBlock, "causal"), "192x128 2 0");
  EXPECT_EQ(chosen(128, 8192, 1, kBlock, "window:512:0"), "128x128 3 1");
  EXPECT_EQ(chosen(128, 2048, 0, kHead, "none"), "128x192 2 1");
  EXPECT_EQ(chosen(128, 2047, 0, kHead, "none"), "128x128 3 1");
  EXPECT_EQ(chosen(128, 4095, 0, kHead, "causal"), "128x128 3 1");
  EXPECT_EQ(chosen(128, 4096, 0, kHead, "causal"), "128x192 2 1");
  EXPECT_EQ(chosen(128, 4096, 0, kBlock, "none"), "128x128 3 1");
  EXPECT_EQ(chosen(192, 4096, 0, kHead, "none"), "128x128 2 1");
  EXPECT_EQ(chosen(256, 512, 0, kBlock, "none"), "128x128 2 0");
  EXPECT_EQ(chosen(256, 4096, 1, kBlock, "none"), "128x64 3 0");
  EXPECT_EQ(chosen(256, 4096, 0, kBlock, "blocks:butterfly:128x128"), "128x64 3 1");
}

// Asking for the chosen values gives the same choice.
TEST_F(V3Cuda, TheOpenConfigIsFilledIn) {
  std::vector<Problem> problems;
  for (const i64 head_dim : {24, 64, 80, 128, 192, 256}) {
    problems.push_back(make_problem(head_dim));
    problems.back().seqlen_q = problems.back().seqlen_k = 512;
  }
  for (const i64 head_dim : {64, 128, 192, 256}) {
    for (const i64 seqlen : {512, 4096}) {
      problems.push_back(problem_of_e4m3(head_dim, seqlen, ScaleOf::head));
    }
  }
  for (Problem& problem : problems) {
    for (const char* mask : {"none", "causal", "window:100:0", "blocks:butterfly:64x64"}) {
      problem.mask = parse_mask(mask);
      const Config open = default_config(kCuda);
      const Config filled = kCuda.resolved(problem, open, hopper());
      EXPECT_GT(filled.get("block_m") * filled.get("block_n"), 0);
      EXPECT_EQ(kCuda.resolved(problem, filled, hopper()), filled);
      EXPECT_EQ(reason(problem, filled), "");
      EXPECT_EQ(kCuda.units(problem, filled, hopper()).front().source,
                kCuda.units(problem, open, hopper()).front().source)
          << problem.id();
    }
  }
}

// Uneven work items need the counter of the next item, a pattern one byte for each tile.
TEST_F(V3Cuda, OnlyUnevenWorkAndPatternsNeedAWorkspace) {
  Problem problem = make_problem(64);
  problem.seqlen_q = problem.seqlen_k = 512;
  const auto bytes = [&](const char* mask) {
    problem.mask = parse_mask(mask);
    return kCuda.workspace_bytes(problem, default_config(kCuda), hopper());
  };
  EXPECT_EQ(bytes("none"), 0U);
  EXPECT_EQ(bytes("causal"), 256U);
  EXPECT_GT(bytes("blocks:butterfly:64x64"), 0U);
  EXPECT_EQ(kCuda.saved_bytes(problem, default_config(kCuda)), 0U);
}

// Returns a text without what it says in ATTNLAB_NOTE(...), without comments and includes.
std::string without_notes(const std::string& text) {
  std::string rest;
  const std::string note = "ATTNLAB_NOTE(";
  for (std::size_t place = 0; place < text.size();) {
    if (text.compare(place, 2, "//") == 0 || text[place] == '#') {
      place = std::min(text.find('\n', place), text.size());
    } else if (text.compare(place, note.size(), note) == 0) {
      place += note.size();
      for (int open = 1; open > 0 && place < text.size(); ++place) {
        open += text[place] == '(' ? 1 : text[place] == ')' ? -1 : 0;
      }
    } else {
      rest += text[place++];
    }
  }
  return rest;
}

// A unit without a timeline is the text that it would be if there were no timelines: whatever they
// need stands in ATTNLAB_NOTE(...), which is nothing there.
TEST_F(V3Cuda, ATimelineChangesNoOtherUnit) {
  const std::map<std::string, std::string> texts = kernel_texts();
  int notes = 0;
  for (const auto& [path, text] : texts) {
    if (!path.starts_with("kernels/v3/") || !path.ends_with(".cuh")) continue;
    if (path == "kernels/v3/timeline.cuh") continue;
    const std::string rest = without_notes(text);
    notes += text.find("ATTNLAB_NOTE(") == std::string::npos ? 0 : 1;
    for (const char* word : {"imeline", "claim(", "globaltimer", "smid", "clock64"}) {
      EXPECT_EQ(rest.find(word), std::string::npos) << path << ": " << word;
    }
  }
  EXPECT_EQ(notes, 7) << "forward, loader, scheduler, four of the backward";
  EXPECT_TRUE(texts.at("kernels/v3/timeline.cuh")
                  .find("#ifndef ATTNLAB_TIMELINE\n#define ATTNLAB_NOTE(...)\n#else\n") !=
              std::string::npos);

  const auto expect_two_units = [](const KernelUnit& own, const KernelUnit& timed) {
    EXPECT_EQ(own.source.find("TIMELINE"), std::string::npos);
    EXPECT_TRUE(timed.source.starts_with("#define ATTNLAB_TIMELINE\n"));
    EXPECT_NE(own.name, timed.name);
  };
  expect_two_units(forward_unit(Dtype::f16, ForwardConfig{}),
                   forward_unit_with_timeline(Dtype::f16, ForwardConfig{}));
  expect_two_units(backward_unit(Dtype::f16, BackwardConfig{}),
                   backward_unit_with_timeline(Dtype::f16, BackwardConfig{}));
}

TEST_F(V3Cuda, FewUnitsServeAllProblems) {
  std::set<std::string> names;
  for (i64 head_dim = 8; head_dim <= 256; head_dim += 8) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
      for (const double dropout : {0.0, 0.1}) {
        Problem problem = make_problem(head_dim);
        problem.dtype = dtype;
        problem.dropout = dropout;
        for (const char* mask : {"none", "causal", "window:3:4", "padding"}) {
          problem.mask = parse_mask(mask);
          for (const KernelUnit& unit : kCuda.units(problem, default_config(kCuda), hopper())) {
            names.insert(unit.name);
          }
        }
      }
    }
  }
  EXPECT_LE(names.size(), 48U);
}

}  // namespace
}  // namespace attnlab::v3
