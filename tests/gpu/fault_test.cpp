// Tests kernels that hang or write where nothing is: what the run makes of them, in its own
// process. The faults are planted into a copy of the kernels' sources.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "harness/base/errors.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

constexpr const char* kPoints = "--kernel naive,minimal --mask causal --seqlen 64,96,128 ";

class GpuFault : public GpuCli {
 protected:
  // Returns the flag for a tree in which naive's mask pass begins with `statement`.
  std::string with_fault(const std::string& statement) const {
    namespace fs = std::filesystem;
    const fs::path tree = folder_ / "tree";
    fs::create_directories(tree);
    fs::copy(in_tree("kernels"), tree / "kernels", fs::copy_options::recursive);
    const fs::path file = tree / "kernels/naive/forward.cuh";
    const std::string pass = "  for_each_tile<Hide>(params, gS, gS);\n";
    std::string text = read(file);
    const std::size_t place = text.find(pass);
    if (place == std::string::npos || text.find(pass, place + 1) != std::string::npos) {
      throw std::runtime_error("the text of the mask pass is not once in " + file.string());
    }
    std::ofstream(file) << text.insert(place, "  " + statement + "\n");
    return " --kernel-sources '" + tree.string() + "'";
  }

  // Returns "naive 96: invalid" and so on, sorted.
  std::vector<std::string> outcomes() const {
    std::vector<std::string> all;
    for (const Json& record : records()) {
      all.push_back(record.at("kernel").get<std::string>() + " " +
                    record.at("problem").at("seqlen_q").dump() + ": " +
                    record.at("status").get<std::string>());
    }
    std::ranges::sort(all);
    return all;
  }

  void expect_named_with_repro(const std::string& what_happened) const {
    for (const Json& record : records()) {
      if (record.at("status") != "invalid") continue;
      const auto reason = record.at("reason").get<std::string>();
      for (const std::string& part :
           {std::string("naive "), what_happened, record.at("id").get<std::string>(),
            std::string("reproduce: attnlab run --backend cuda --kernel naive "),
            std::string("--seqlen-q 96 ")}) {
        EXPECT_NE(reason.find(part), std::string::npos) << "no '" << part << "' in " << reason;
      }
    }
  }

  void expect_each_point_once() const {
    std::set<std::string> keys;
    for (const Json& record : records()) keys.insert(record.at("key").get<std::string>());
    EXPECT_EQ(keys.size(), records().size());
  }
};

const std::vector<std::string> kAllOutcomes = {"minimal 128: ok", "minimal 64: ok",
                                               "minimal 96: ok",  "naive 128: ok",
                                               "naive 64: ok",    "naive 96: invalid"};

TEST_F(GpuFault, AKernelThatHangsIsRecordedAndTheRestRuns) {
  const std::string fault = with_fault("while (params.shape.seqlen_k == 96) __nanosleep(1000);");
  const Result result = run_points(kPoints + ("--timeout 2 --out r.jsonl" + fault));
  EXPECT_EQ(result.code, kExitEnvironment) << result.out << result.err;
  EXPECT_NE(result.err.find("a kernel hangs"), std::string::npos) << result.err;
  EXPECT_EQ(outcomes(), kAllOutcomes);
  expect_each_point_once();
  expect_named_with_repro("did not end within 2 s");
}

TEST_F(GpuFault, AKernelThatWritesToAnIllegalAddressEndsTheRun) {
  const std::string fault =
      with_fault("if (params.shape.seqlen_k == 96) *reinterpret_cast<volatile u32*>(16) = 1;");
  const Result lost = run_points(kPoints + ("--out r.jsonl" + fault));
  EXPECT_EQ(lost.code, kExitEnvironment) << lost.out << lost.err;
  EXPECT_NE(lost.out.find("The GPU was lost"), std::string::npos) << lost.out;
  EXPECT_NE(lost.out.find("--resume"), std::string::npos) << lost.out;
  EXPECT_EQ(outcomes(),
            (std::vector<std::string>{"minimal 64: ok", "naive 64: ok", "naive 96: invalid"}));
  expect_named_with_repro("CUDA_ERROR_ILLEGAL_ADDRESS");

  const Result rest = run_points(kPoints + std::string("--resume r.jsonl"));
  EXPECT_EQ(rest.code, kExitEnvironment) << rest.out << rest.err;  // of the point that failed
  EXPECT_EQ(outcomes(), kAllOutcomes);
  expect_each_point_once();
}

}  // namespace
}  // namespace attnlab
