// Layouts of one problem take turns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/turns_memory.h"
#include "harness/record/record_json.h"
#include "harness/run/case_steps.h"
#include "harness/testing/test_run_case.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

class RunGroup : public RunCase {
 protected:
  // Runs the case in two layouts, with these competitors.
  std::vector<Record> run_layouts(const std::vector<Competitor>& competitors) {
    work_.competitors = competitors;
    CaseGroup group = {work_, work_};
    group[0].problem.layout = Layout::bhsd;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), 2 * case_weight(work_, context_.protocol));
    std::vector<Record> records;
    calls_.clear();
    run_group(group, context_, progress, [&](const std::vector<Record>& finished) {
      records.insert(records.end(), finished.begin(), finished.end());
      calls_.push_back(finished.size());
    });
    return records;
  }
};

TEST_F(RunGroup, LayoutsTakeTurnsAndEachHasItsRecord) {
  const std::vector<Record> records = run_layouts(
      {competitor("a", kernel_with<Fault::none>()), competitor("b", kernel_with<Fault::none>())});
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(calls_, (std::vector<std::size_t>{4}));
  std::map<std::string, int> keys;
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].status, Status::ok) << records[i].reason;
    EXPECT_EQ(records[i].point.problem.layout, i < 2 ? Layout::bhsd : Layout::bshd);
    EXPECT_EQ(records[i].time->contenders, 4);
    ++keys[to_json(records[i])["key"].get<std::string>()];
  }
  EXPECT_EQ(keys.size(), 4u);
  for (std::size_t round = 0; round < 3; ++round) {  // each record has a place of its own
    std::vector<int> places;
    for (const Record& record : records) places.push_back(record.order.at(round));
    std::ranges::sort(places);
    EXPECT_EQ(places, (std::vector<int>{0, 1, 2, 3}));
  }
}

// Both layouts hold the same number for each logical element, and share one reference.
TEST_F(RunGroup, InputsAreTheSameNumbersInOtherPlaces) {
  std::map<Layout, std::vector<float>> queries;
  context_.verified = [&](const Record& record, const Tensors& tensors) {
    const Problem& problem = record.point.problem;
    std::vector<float>& values = queries[problem.layout];
    values.clear();
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
        for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
          const auto* q =
              static_cast<const float*>(tensors.q) + make_shape(problem).q.offset(b, h, row);
          values.insert(values.end(), q, q + problem.head_dim);
        }
      }
    }
  };
  const std::vector<Record> records = run_layouts({competitor("a", kernel_with<Fault::none>())});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(queries[Layout::bhsd].size(), 2u * 4 * 17 * 8);
  EXPECT_EQ(queries[Layout::bhsd], queries[Layout::bshd]);
  EXPECT_EQ(records[0].verify.at(0).coverage, records[1].verify.at(0).coverage);
}

TEST_F(RunGroup, WhatIsWrongInOneLayoutFailsThereAlone) {
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    work_.problem.pass = pass;
    const std::vector<Record> records =
        run_layouts({competitor("a", kernel_with<Fault::none>()),
                     competitor("b", kernel_with<Fault::takes_all_for_bshd>())});
    ASSERT_EQ(records.size(), 4u);
    EXPECT_EQ(records[0].status, Status::failed);  // it comes at once; the others come together
    EXPECT_EQ(records[0].point.competitors[0].kernel, "b");
    EXPECT_PRED2(contains, records[0].reason, "--layout bhsd");
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(records[i].status, Status::ok) << records[i].reason;
      EXPECT_EQ(records[i].time->contenders, 3);
    }
  }
}

// If memory holds either layout but not both, they run one after the other, and none is refused.
TEST_F(RunGroup, WithoutRoomForBothLayoutsTheyRunInTurn) {
  const std::vector<Competitor> one = {competitor("a", kernel_with<Fault::none>())};
  work_.competitors = one;
  const std::uint64_t both = bytes_in_turns({work_, work_}, device_, ~std::uint64_t{0});
  Case other = work_;
  other.problem.layout = Layout::bhsd;
  const std::uint64_t needed = bytes_in_turns({work_, other}, device_, ~std::uint64_t{0});
  EXPECT_EQ(needed, both + bytes_of_inputs(work_.problem)) << "inputs of each layout count";
  context_.memory_limit_bytes = needed;
  for (const int contenders : {2, 1}) {
    const std::vector<Record> records = run_layouts(one);
    ASSERT_EQ(records.size(), 2u);
    for (const Record& record : records) {
      EXPECT_EQ(record.status, Status::ok) << record.reason;
      EXPECT_EQ(record.time->contenders, contenders);
    }
    --context_.memory_limit_bytes;
  }
}

TEST(GroupLayouts, OfOneProblemTakeTurns) {
  Case bshd;
  Case bhsd = bshd;
  bhsd.problem.layout = Layout::bhsd;
  Case longer = bhsd;
  longer.problem.seqlen_q = 7;
  Case other_seed = bhsd;
  other_seed.seed = 8;
  Case packed = bshd;
  packed.problem.layout = Layout::packed;
  packed.problem.lengths.kind = LengthsKind::packed;
  const std::vector<CaseGroup> groups = group_layouts({bshd, longer, packed, bhsd, other_seed});
  ASSERT_EQ(groups.size(), 4u);
  ASSERT_EQ(groups[0].size(), 2u);
  EXPECT_EQ(groups[0][0].problem.layout, Layout::bshd);
  EXPECT_EQ(groups[0][1].problem.layout, Layout::bhsd);
  EXPECT_EQ(groups[2][0].problem.layout, Layout::packed);
}

}  // namespace
}  // namespace attnlab
