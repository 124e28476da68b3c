// Compiles kernels in worker processes: the real program is the worker.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/session/compile_progress.h"
#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

KernelUnit unit(const std::string& name, const std::string& body = "*y = 1.0F;") {
  return {.name = name,
          .source = "extern \"C\" __global__ void " + name + "(float* y) {\n" + body + "\n}\n",
          .entries = {{.name = name, .threads = 256}}};
}

class CompileAhead : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("attnlab_ahead_" + std::string(info->name()) + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    use_worker(in_build("attnlab"));
    try {
      compile_ahead(std::vector<CompileJob>{{unit("probe"), "sm_80"}}, 1, [](const auto&) {});
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    set_compiler({});
    std::filesystem::remove_all(folder_);
  }

  void use_worker(const std::string& program) {
    set_compiler({.cache_folder = (folder_ / "cache").string(), .worker_program = program});
  }
  // Puts a script in place of the worker.
  void use_script(const std::string& text) {
    const std::filesystem::path file = folder_ / "worker.sh";
    std::ofstream(file) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    use_worker(file.string());
  }
  std::vector<Compilation> compile(const std::vector<CompileJob>& jobs, int workers = 2) {
    calls_ = 0;
    return compile_ahead(jobs, workers, [this](const Compilation&) { ++calls_; });
  }

  std::filesystem::path folder_;
  int calls_ = 0;
};

TEST_F(CompileAhead, ProgressCountsWhatTheCacheLacks) {
  const std::vector<CompileJob> jobs = {
      {unit("probe"), "sm_80"}, {unit("first"), "sm_80"}, {unit("second"), "sm_80"}};
  testing::internal::CaptureStderr();
  const CompiledAhead ahead = compile_with_progress(jobs, 1, true);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_PRED2(contains, text, "-:-- left  compile 3 units\n");
  EXPECT_PRED2(contains, text, " 50%  ");
  EXPECT_PRED2(contains, text, "left  compiled 1 of 2: first for sm_80\n");
  EXPECT_PRED2(contains, text, "100%  0:00 left  compiled 2 of 2: second for sm_80\n");
  EXPECT_EQ(ahead.compiled, 2U);
  EXPECT_PRED2(contains, describe(ahead), " s, 1 from the cache.\n");
}

TEST_F(CompileAhead, ResultsComeInTheOrderOfTheJobs) {
  std::vector<CompileJob> jobs;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    for (const char* arch : {"sm_80", "sm_90a"}) jobs.push_back({unit(name), arch});
  }
  const std::vector<Compilation> results = compile(jobs, 3);
  ASSERT_EQ(results.size(), jobs.size());
  EXPECT_EQ(calls_, 10);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(results[i].unit, jobs[i].unit.name);
    EXPECT_EQ(results[i].arch, jobs[i].arch);
    EXPECT_EQ(results[i].error, "");
    EXPECT_FALSE(results[i].from_cache);
    EXPECT_GT(results[i].seconds, 0.0);
    ASSERT_EQ(results[i].entries.size(), 1U);
    EXPECT_GT(results[i].entries[0].registers, 0);
    EXPECT_EQ(results[i].entries[0].blocks_per_multiprocessor, 8);
  }
  for (const Compilation& again : compile(jobs)) EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(calls_, 10);
}

TEST_F(CompileAhead, TheSameCodeIsCompiledOnce) {
  CompileJob wide{unit("same"), "sm_80"};
  CompileJob heavy = wide;
  heavy.unit.entries[0].dynamic_shared_bytes = 80 << 10;
  const std::vector<Compilation> results = compile({wide, heavy, wide});
  ASSERT_EQ(results.size(), 3U);
  int compiled = 0;
  for (const Compilation& result : results) compiled += result.from_cache ? 0 : 1;
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(results[0].entries.at(0).blocks_per_multiprocessor, 8);
  EXPECT_EQ(results[1].entries.at(0).blocks_per_multiprocessor, 2);
  EXPECT_EQ(results[2].entries.at(0).blocks_per_multiprocessor, 8);
}

TEST_F(CompileAhead, AnErrorIsThatOfItsJobAlone) {
  const std::vector<Compilation> results =
      compile({{unit("good"), "sm_80"}, {unit("bad", "*y = nothing;"), "sm_80"}});
  EXPECT_EQ(results.at(0).error, "");
  EXPECT_NE(results.at(1).error.find("bad.cu(2): error"), std::string::npos) << results[1].error;
}

// A point on a CPU has nothing to compile, with or without a compiler on the machine.
TEST(CompileNothing, NeedsNoCompiler) {
  EXPECT_TRUE(compile_ahead({}, 1, [](const auto&) {}).empty());
}

TEST_F(CompileAhead, AWorkerThatDiesIsTheErrorOfItsJob) {
  use_script("if mkdir '" + (folder_ / "died").string() +
             "' 2>/dev/null; then kill -9 $$; fi\nexec '" + in_build("attnlab") + "' \"$@\"\n");
  const std::vector<Compilation> results =
      compile({{unit("first"), "sm_80"}, {unit("second"), "sm_80"}, {unit("third"), "sm_80"}}, 1);
  EXPECT_NE(results.at(0).error.find("signal 9"), std::string::npos) << results[0].error;
  EXPECT_EQ(results.at(1).error, "");
  EXPECT_EQ(results.at(2).error, "");
  EXPECT_EQ(calls_, 3);
}

TEST_F(CompileAhead, AfterCtrlCNothingMoreIsStarted) {
  use_script("kill -INT $$\n");
  const std::vector<Compilation> results =
      compile({{unit("one"), "sm_80"}, {unit("two"), "sm_80"}, {unit("three"), "sm_80"}}, 1);
  EXPECT_NE(results.at(0).error.find("signal 2"), std::string::npos) << results[0].error;
  EXPECT_EQ(results.at(1).error, "interrupted");
  EXPECT_EQ(results.at(2).error, "interrupted");
}

TEST_F(CompileAhead, AProgramThatIsNoWorkerIsAnError) {
  use_script("echo this is no message of a worker at all\n");
  const std::vector<Compilation> results = compile({{unit("one"), "sm_80"}});
  EXPECT_NE(results.at(0).error.find("ended with code 0"), std::string::npos) << results[0].error;
  use_worker((folder_ / "missing").string());
  EXPECT_THROW(compile({{unit("two"), "sm_80"}}), std::runtime_error);
}

TEST_F(CompileAhead, ACacheThatCannotBeWrittenIsOneError) {
  set_compiler({.cache_folder = "/proc/nowhere", .worker_program = in_build("attnlab")});
  EXPECT_THROW(compile({{unit("one"), "sm_80"}}), std::runtime_error);
  EXPECT_EQ(calls_, 0);
}

TEST_F(CompileAhead, TheCallbackMayStopIt) {
  const std::vector<CompileJob> jobs = {{unit("one"), "sm_80"}, {unit("two"), "sm_80"}};
  const auto stop = [](const Compilation&) { throw std::logic_error("enough"); };
  EXPECT_THROW(compile_ahead(jobs, 2, stop), std::logic_error);
}

}  // namespace
}  // namespace attnlab
