#include "harness/record/beyond.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/record/record_file.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::multiset<std::string>;

std::vector<Json> committed(const char* file) {
  std::vector<std::string> warnings;
  return read_records(in_tree(file), warnings);
}

// Returns a name for each launch.
Names names_of(const Json& beyond) {
  Names names;
  for (const Json& kernel : beyond) {
    for (int i = 0; i < kernel["launches"].get<int>(); ++i) {
      names.insert(short_name(kernel["symbol"].get<std::string>()));
    }
  }
  return names;
}

Json launch_of(const std::string& participant, const std::vector<std::string>& symbols) {
  Json executed = Json::array();
  for (const std::string& symbol : symbols) {
    executed.push_back({{"symbol", symbol}, {"launches", 1}});
  }
  return {{"kernel", participant},
          {"evidence", {{"executed", executed}}},
          {"compile", Json::array({{{"entries", Json::array({{{"name", "backward"}}})}}})}};
}

// PyTorch's flash backward works in bshd: given bhsd it copies O and dO, inside of what is timed.
TEST(KernelsBeyond, TheCommittedFlashBackwardCopiesTwiceInBhsdAlone) {
  std::map<std::string, int> records;
  for (const Json& record : committed("results/nvidia-h200/fa2.jsonl")) {
    const Json beyond = kernels_beyond(record);
    ASSERT_TRUE(beyond.is_array()) << record["id"];
    if (record["kernel"] != "torch:flash") {
      EXPECT_TRUE(beyond.empty()) << record["id"] << ": " << beyond.dump();
      continue;
    }
    const std::string pass = record["problem"]["pass"];
    const std::string layout = record["problem"]["layout"];
    EXPECT_EQ(names_of(beyond), pass == "bwd" && layout == "bhsd"
                                    ? Names({"direct_copy_kernel_cuda", "direct_copy_kernel_cuda"})
                                    : Names())
        << record["id"];
    ++records[fmt::format("{} {}", pass, layout)];
  }
  for (const char* which : {"fwd bhsd", "fwd bshd", "bwd bhsd", "bwd bshd"}) {
    EXPECT_EQ(records[which], 72) << which;
  }
}

TEST(KernelsBeyond, OfTheCommittedRecordsOnlyLibrariesHaveSome) {
  std::map<std::string, Names> found;  // by kernel and pass
  for (const char* file :
       {"evidence", "fa3", "v1-naive", "v2-deterministic", "sparse-gpu", "quick"}) {
    for (const Json& record :
         committed(("results/nvidia-h200/" + std::string(file) + ".jsonl").c_str())) {
      const Json beyond = kernels_beyond(record);
      if (beyond.is_null() || beyond.empty()) continue;
      const std::string pass = record["problem"]["pass"];
      found[record["kernel"].get<std::string>() + " " + pass].merge(names_of(beyond));
    }
  }
  std::set<std::string> who;
  for (const auto& [name, kernels] : found) who.insert(name);
  EXPECT_EQ(who, (std::set<std::string>{"torch:efficient bwd", "torch:flash bwd", "torch:math bwd",
                                        "torch:math fwd"}));
  EXPECT_EQ(found["torch:efficient bwd"].count("FillFunctor"), 2u);
  EXPECT_GT(found["torch:math fwd"].count("float16_copy_kernel_cuda"), 0u);
}

// With grouped heads cuDNN's backward sums dK and dV of query heads in kernels of their own.
TEST(KernelsBeyond, TheCommittedGroupedHeadsOfCudnnNeedTheirSums) {
  int with_sums = 0;
  for (const Json& record : committed("results/nvidia-h100/paper/peers-cudnn-h200.jsonl")) {
    const Json beyond = kernels_beyond(record);
    if (record["kernel"] != "torch:cudnn" || beyond.is_null()) continue;
    EXPECT_TRUE(beyond.empty()) << record["id"] << ": " << beyond.dump();
    const Json& executed = record["evidence"]["executed"];
    const bool has_sums = std::ranges::any_of(executed, [](const Json& kernel) {
      return short_name(kernel["symbol"].get<std::string>()) == "cudnn::fusion::fmha_reduce_head" &&
             kernel["launches"] == 2;
    });
    EXPECT_EQ(has_sums, record["problem"]["pass"] == "bwd") << record["id"];
    with_sums += has_sums ? 1 : 0;
  }
  EXPECT_EQ(with_sums, 8);
}

TEST(KernelsBeyond, ACopyACastAndAFillAreOfNoOperation) {
  const std::vector<std::string> additions = {
      "Memcpy DtoD (Device -> Device)",
      "Memset (Device)",
      "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<c10::Half> >(int)",
      "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>(int)",
      "void at::native::unrolled_elementwise_kernel<at::bfloat16_copy_kernel_cuda(int)>(int)",
      "void at::native::CatArrayBatchedCopy<float>(float*)",
      "transpose_readWrite_alignment_kernel"};
  for (const char* participant :
       {"torch:flash", "torch:cudnn", "torch:efficient", "torch:eager", "torch:math", "v2"}) {
    const bool clears_a_counter = participant == std::string("torch:cudnn");
    EXPECT_EQ(kernels_beyond(launch_of(participant, additions)).size(),
              additions.size() - (clears_a_counter ? 1 : 0))
        << participant;
  }
}

// Ours need the entries of their units, by name: whose kernel has that name is not checked.
TEST(KernelsBeyond, OursNeedTheEntriesOfTheirUnits) {
  EXPECT_TRUE(kernels_beyond(launch_of("v2", {"backward"})).empty());
  EXPECT_EQ(kernels_beyond(launch_of("v2", {"backward", "copy_rows"})).at(0)["symbol"],
            "copy_rows");
}

TEST(KernelsBeyond, WithoutEvidenceNothingIsSaid) {
  EXPECT_TRUE(kernels_beyond({{"kernel", "v2"}, {"evidence", nullptr}}).is_null());
  EXPECT_TRUE(kernels_beyond({{"kernel", "v2"}, {"evidence", {{"executed", nullptr}}}}).is_null());
}

TEST(KernelsBeyond, TheShareIsOfAllThatRanWhereAllIsKnown) {
  Json record = launch_of("torch:flash", {"flash_bwd_x", "Memset (Device)"});
  EXPECT_FALSE(kernels_beyond(record).at(0).contains("share"));
  record["evidence"]["executed"][1]["seconds"] = 1e-3;
  EXPECT_FALSE(kernels_beyond(record).at(0).contains("share"));
  record["evidence"]["executed"][0]["seconds"] = 3e-3;
  EXPECT_DOUBLE_EQ(kernels_beyond(record).at(0)["share"].get<double>(), 0.25);
}

TEST(KernelsBeyond, NamesAreShort) {
  EXPECT_EQ(short_name("Memcpy DtoD (Device -> Device)"), "Memcpy DtoD");
  EXPECT_EQ(short_name("void cudnn::fusion::convert_dq_to_16bits<false>(void const*)"),
            "cudnn::fusion::convert_dq_to_16bits");
  EXPECT_EQ(short_name("void at::native::f<4, at::native::bfloat16_copy_kernel_cuda(int)>(int)"),
            "bfloat16_copy_kernel_cuda");
  EXPECT_EQ(short_name("aten::copy_"), "aten::copy_");
}

}  // namespace
}  // namespace attnlab
