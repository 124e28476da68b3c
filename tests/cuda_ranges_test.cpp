// Tests the NVTX ranges of attnlab run, as a profiler sees them (tests/nvtx_log.cpp is one).
#include <set>

#include "kernels/api/ranges.h"
#include "tests/cli_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

constexpr const char* kPoint = "--seqlen 32 --head-dim 32 --heads 1 --rounds 2 --no-progress";
constexpr const char* kId = "fwd/f32/b1/hq1/hkv1/sq32/sk32/d32/none/p0/bshd";
constexpr const char* kV2 = "v2 block_m=128,block_n=128,deterministic=0";

class Ranges : public Cli {
 protected:
  std::string environment() const override {
    return Cli::environment() + "NVTX_INJECTION64_PATH='" + in_build("libnvtx_log.so") +
           "' NVTX_LOG=ranges ";
  }
  std::string logged() const { return read(folder_ / "ranges"); }

  // Returns the log's lines, each once, with the ranges around them: "a > b > c", not the domain.
  std::set<std::string> paths() const {
    std::set<std::string> found;
    std::vector<std::string> around;
    std::stringstream lines(logged());
    for (std::string line; std::getline(lines, line);) {
      const std::size_t indent = line.find_first_not_of(' ');
      const std::string domain = std::string(kProfilerDomain) + ": ";
      if (line.compare(indent, domain.size(), domain) != 0 || indent / 2 > around.size()) {
        ADD_FAILURE() << "a range of another domain, or out of nowhere: " << line;
        continue;
      }
      around.resize(indent / 2);
      around.push_back(line.substr(indent + domain.size()));
      std::string path;
      for (const std::string& name : around) path += (path.empty() ? "" : " > ") + name;
      found.insert(path);
    }
    return found;
  }
};

TEST_F(Ranges, ARunNamesCasesStepsAndKernels) {
  const Result result = run(std::string("run --kernel naive,v2 --out r.jsonl ") + kPoint);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string id = kId;
  const std::string v2 = kV2;
  const std::set<std::string> want = {
      id,
      id + " > inputs",
      id + " > oracle",
      id + " > verify naive default",
      id + " > verify " + v2,
      id + " > time",
      id + " > time > warm up",
      id + " > time > warm up > naive default",
      id + " > time > warm up > " + v2,
      id + " > time > prepare",
      id + " > time > check",
      id + " > time > naive default",
      id + " > time > " + v2,
      id + " > verify again naive default",
      id + " > verify again " + v2,
  };
  EXPECT_EQ(paths(), want) << logged();
}

TEST_F(Ranges, ACaseEndsBeforeTheNextBegins) {
  const Result result =
      run(std::string("run --kernel v2 --mask none,causal --out r.jsonl ") + kPoint);
  ASSERT_EQ(result.code, 0) << result.err;
  int cases = 0;
  for (const std::string& path : paths()) cases += path.find(" > ") == std::string::npos ? 1 : 0;
  EXPECT_EQ(cases, 2) << logged();
}

TEST_F(Ranges, AProfileLaunchesInItsRangeAndRecordsNothing) {
  const Result result = run(std::string("run --kernel naive,v2 --profile 3 ") + kPoint);
  ASSERT_EQ(result.code, 0) << result.err;
  const std::set<std::string> found = paths();
  EXPECT_TRUE(found.contains(std::string(kId) + " > profile > " + kV2)) << logged();
  EXPECT_TRUE(found.contains(std::string(kId) + " > warm up")) << logged();
  EXPECT_FALSE(found.contains(std::string(kId) + " > time")) << logged();
  EXPECT_NE(result.out.find("Nothing is timed"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(std::string("ok: ") + kId), std::string::npos) << result.out;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "results"));
}

TEST_F(Cli, AProfileKeepsNothing) {
  const std::string common = std::string("run --kernel v2 --profile 3 ") + kPoint;
  for (const char* flag :
       {" --out r.jsonl", " --resume r.jsonl", " --save s.safetensors", " --peer torch:eager"}) {
    const Result result = run(common + flag);
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_NE(result.err.find("--profile: "), std::string::npos) << result.err;
  }
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace attnlab
