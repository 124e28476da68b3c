// Tests a kernel that only its own folder and the registry name (tests/foreign_kernel): everything
// that there is for kernels' axes works for its axes.
#include <nlohmann/json.hpp>

#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

class ForeignKernel : public Cli {
 protected:
  std::string program() const override { return "attnlab_with_foreign_kernel"; }

  std::vector<Json> records(const std::string& name) const {
    std::vector<Json> all;
    std::ifstream file(folder_ / name);
    for (std::string line; std::getline(file, line);) all.push_back(Json::parse(line));
    return all;
  }
};

constexpr const char* kPoint = "run --kernel foreign --seqlen 96 --heads 2 --head-dim 16";

TEST_F(ForeignKernel, ItsAxesAreFlagsAndInTheHelp) {
  const Result help = run("run --help");
  EXPECT_PRED2(contains, help.out, "--folds 1,3");
  EXPECT_PRED2(contains, help.out, "16 keys of a tile, doubled so often (foreign on a CPU)");
  EXPECT_PRED2(contains, help.out, "--in-line 0,1");
  EXPECT_EQ(help.out.find("--sram"), std::string::npos) << "no kernel here has it";
  const Result beyond = run(std::string(kPoint) + " --folds 6");
  EXPECT_EQ(beyond.code, 2);
  EXPECT_PRED2(contains, beyond.err, "--folds: 6 is outside [0, 5]");
  EXPECT_PRED2(contains, run(std::string(kPoint) + " --fold 1").err, "did you mean '--folds'?");
  EXPECT_PRED2(contains, run("completion bash").out, "--folds");
  const Result list = run("list");
  EXPECT_PRED2(contains, list.out, "folds");
  EXPECT_PRED2(contains, list.out, "Not there yet") << "of a GPU's kernels";
}

TEST_F(ForeignKernel, FlagsAndSweepsSetThemAndTablesTellThemApart) {
  const Result flags = run(std::string(kPoint) +
                           " --folds 0:2:+2 --block-shift=-8 --pass fwdbwd --in-line 1 --rounds 3"
                           " --out flags.jsonl --no-progress");
  ASSERT_EQ(flags.code, 0) << flags.err;
  EXPECT_PRED2(contains, flags.out, "folds=0");
  EXPECT_PRED2(contains, flags.out, "folds=2");
  const std::vector<Json> two = records("flags.jsonl");
  ASSERT_EQ(two.size(), 2u);
  for (const Json& record : two) {
    EXPECT_EQ(record["status"], "ok") << record["reason"];
    EXPECT_EQ(record["config"]["block_shift"], -8);
  }
  const Result table =
      run("table flags.jsonl --rows folds,block_shift --value status --format csv");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_PRED2(contains, table.out, "folds,block_shift");
  EXPECT_PRED2(contains, table.out, "2,-8,ok");

  write("sweep.json", R"({"schema": "attnlab.sweep/1", "name": "foreign",
    "axes": {"kernel": ["naive", "foreign"], "seqlen": 64, "heads": 2, "head_dim": 16,
             "folds": [1, "4"], "block_shift": "0"},
    "exclude": [{"where": {"folds": 4}, "reason": "not this one"}],
    "protocol": {"min_rounds": 3, "max_rounds": 3}})");
  const Result sweep = run("run sweep.json --out sweep.jsonl --no-progress");
  ASSERT_EQ(sweep.code, 0) << sweep.err;
  const std::vector<Json> three = records("sweep.jsonl");
  EXPECT_EQ(std::ranges::count(three, Json("ok"), [](const Json& r) { return r["status"]; }), 2);
  EXPECT_EQ(std::ranges::count(three, Json("skipped"), [](const Json& r) { return r["status"]; }),
            1);
  EXPECT_PRED2(contains, run("run sweep.json --dry-run").out, "folds");
}

TEST_F(ForeignKernel, TuningTriesWhatItNames) {
  const Result tuned = run(std::string(kPoint) + " --tune --rounds 3 --no-progress --out t.jsonl");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  std::set<int> folds;
  for (const Json& record : records("t.jsonl")) folds.insert(record["config"]["folds"].get<int>());
  EXPECT_EQ(folds, (std::set{1, 2, 3})) << "the default, and what the axis names";
  EXPECT_PRED2(contains, tuned.out, "folds");
}

TEST_F(ForeignKernel, VerificationDrawsItsAxes) {
  const Result verified =
      run("verify --kernel foreign --random 12 --seed 5 --repeat 2 --properties --no-progress"
          " --junit v.xml");
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_PRED2(contains, read(folder_ / "v.xml"), "foreign/random/5/");
}

TEST_F(ForeignKernel, TheModelCountsIt) {
  const Result model = run("model --kernel foreign --seqlen 256 --folds 0,3 --format csv");
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_PRED2(contains, model.out, "foreign folds=0");
}

}  // namespace
}  // namespace attnlab
