// Calls attnlab profile as a user does on a machine without a GPU, and looks at the command that it
// prints, and at what it makes of a report. tests/emulator/profile_test.sh has the launches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "harness/testing/ncu_page.h"
#include "tests/cli_fixture.h"
#include "tests/gpu_records.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

constexpr const char* kPoint = "--kernel v2 --seqlen 64 --head-dim 64 --heads 1 ";

class CliProfile : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    // The tools write down their arguments, one a line, and print what lies in the file `page`.
    for (const char* tool : {"ncu", "nsys"}) {
      std::filesystem::create_directories(folder_ / "bin");
      const std::filesystem::path file = folder_ / "bin" / tool;
      std::ofstream(file) << "#!/bin/sh\nprintf '%s\\n' \"LC_ALL=$LC_ALL\" \"$@\" >'"
                          << folder_.string() << "/arguments'\ncat '" << folder_.string()
                          << "/page'\n";
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
  }

  Result profile(const std::string& arguments) const {
    return run("profile " + arguments,
               fmt::format("COLUMNS= PATH='{}/bin:/usr/bin:/bin'", folder_.string()));
  }

  // Writes the record of tests/gpu_records.h, whose launch is one of `softmax`.
  void write_record() const { write("r.jsonl", records_of_a_gpu().at("ours").dump() + "\n"); }
  Result import(const std::string& page) const {
    write("page.csv", page);
    return profile("--import page.csv --record r.jsonl --out new.jsonl");
  }
  bool has_output() const { return std::filesystem::exists(folder_ / "new.jsonl"); }
};

TEST_F(CliProfile, PrintsTheCommandOfNcu) {
  const Result printed = profile(std::string(kPoint) + "--dtype f16 --print");
  EXPECT_EQ(printed.code, 0) << printed.err;
  const std::string run_words = in_build("attnlab") + " run " + kPoint +
                                "--dtype f16 --backend cuda --profile 1 --no-progress";
  EXPECT_EQ(printed.out,
            "ncu --target-processes application-only --profile-from-start off --nvtx "
            "--nvtx-include attnlab@profile/ --clock-control none --cache-control none --section "
            "WarpStateStats --metrics dram__bytes_read.sum,dram__bytes_write.sum,"
            "l1tex__m_xbar2l1tex_read_sectors.sum,lts__t_sectors_srcunit_tex_op_read.sum,"
            "lts__t_sectors_srcunit_tex_op_write.sum,sm__pipe_tensor_cycles_active.avg,"
            "sm__cycles_active.avg,sm__ops_path_tensor_op_hgmma_src_fp16.sum,"
            "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum,"
            "sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread "
            "--export attnlab --force-overwrite " +
                run_words + "\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "arguments")) << "it only prints";
}

TEST_F(CliProfile, HandsOverWhatItIsGiven) {
  const Result printed =
      profile(std::string(kPoint) +
              "--backend=cuda --print --protocol cache=cold --report 'a b' -- --set full '--kernel-"
              "name=regex:x y'");
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_NE(printed.out.find(" --cache-control all "), std::string::npos) << printed.out;
  EXPECT_NE(printed.out.find(" --export 'a b' --force-overwrite --set full '--kernel-name=regex:x "
                             "y' "),
            std::string::npos)
      << printed.out;
  EXPECT_NE(printed.out.find(std::string(" run ") + kPoint +
                             "--protocol cache=cold --backend cuda --profile 1 --no-progress\n"),
            std::string::npos)
      << printed.out;
}

TEST_F(CliProfile, PrintsTheCommandOfNsys) {
  const Result printed = profile(std::string(kPoint) + "--tool nsys --launches 20 --print");
  EXPECT_EQ(printed.out,
            "nsys profile --trace cuda,nvtx,cublas --sample none --cpuctxsw none --capture-range "
            "cudaProfilerApi --capture-range-end repeat --output attnlab --force-overwrite true " +
                in_build("attnlab") + " run " + kPoint +
                "--backend cuda --profile 20 --no-progress\n")
      << printed.err;
}

TEST_F(CliProfile, SaysWhatIsMissing) {
  const Result no_gpu = profile(kPoint);
  EXPECT_EQ(no_gpu.code, 3);
  EXPECT_TRUE(no_gpu.err.starts_with("attnlab profile: no GPU here: ")) << no_gpu.err;
  for (const char* place : {"/usr/local/cuda/bin/ncu", "/usr/bin/ncu", "/opt/nvidia"}) {
    if (std::filesystem::exists(place)) GTEST_SKIP() << place << " is there";
  }
  const Result no_tool = run(std::string("profile ") + kPoint, "COLUMNS= PATH=/usr/bin:/bin");
  EXPECT_EQ(no_tool.code, 3);
  EXPECT_NE(no_tool.err.find("ncu is not on PATH"), std::string::npos) << no_tool.err;
  EXPECT_NE(no_tool.err.find("apt-get install nsight-compute"), std::string::npos);
  std::filesystem::create_directories(folder_ / "cuda/bin");
  std::filesystem::rename(folder_ / "bin/ncu", folder_ / "cuda/bin/ncu");
  const Result of_toolkit =
      run(std::string("profile --print ") + kPoint,
          fmt::format("COLUMNS= PATH=/usr/bin:/bin CUDA_HOME='{}/cuda'", folder_.string()));
  EXPECT_EQ(of_toolkit.out.substr(0, of_toolkit.out.find(' ')), folder_.string() + "/cuda/bin/ncu");
}

TEST_F(CliProfile, RefusesWhatGoesNotTogether) {
  write_record();
  for (const auto& [arguments, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "nothing to do"},
           {"--seqlen 64 --tool nvprof", "--tool: 'nvprof' is neither ncu nor nsys"},
           {"--seqlen 64 --launches 2", "--launches: ncu looks at one launch"},
           {"--seqlen 64 --tool nsys --protocol cache=cold --print", "it empties no caches"},
           {"--seqlen 64 --backend cpu --print", "--backend: Nsight profiles GPUs"},
           {"--seqlen 64 --record r.jsonl", "--record and --out go with --import"},
           {"--import p.csv", "--import: name the records of the same points"},
           {"--import p.csv --record r.jsonl --out n.jsonl --seqlen 64", "runs nothing"},
           {"--import p.csv --record r.jsonl --out n.jsonl -- --set full", "runs nothing"},
           {"--import p.csv --record r.jsonl --out r.jsonl", "--out: r.jsonl is there already"},
           {"--import p.csv --record r.jsonl --out n.jsonl", "p.csv"},
           {"--import p.ncu-rep --record r.jsonl --out n.jsonl", "p.ncu-rep: no such file"}}) {
    const Result result = profile(arguments);
    EXPECT_EQ(result.code, 2) << arguments << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << ": " << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "n.jsonl"));
}

TEST_F(CliProfile, ImportsAPage) {
  write_record();
  const std::string before = read(folder_ / "r.jsonl");
  const Result result = import(ncu_page({ncu_launch("softmax")}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("dram_read_bytes"), std::string::npos) << result.out;
  EXPECT_EQ(read(folder_ / "r.jsonl"), before) << "the records that were read stay as they are";
  Json filled = Json::parse(read(folder_ / "new.jsonl"));
  EXPECT_EQ(filled.at("profile").at("dram").at("read_bytes"), 1005.0);
  EXPECT_EQ(filled.at("profile").at("report"), "page.csv");
  filled["profile"] = nullptr;
  EXPECT_EQ(filled, Json::parse(before));
  EXPECT_EQ(run("table new.jsonl").code, 0) << "what is written is read again";
  EXPECT_EQ(import(ncu_page({ncu_launch("softmax")})).code, 2) << "--out must be new";
}

TEST_F(CliProfile, ImportsAReportByWayOfNcu) {
  write_record();
  write("my.ncu-rep", "binary");
  write("page", ncu_page({ncu_launch("softmax")}));
  const Result result = profile("--import my.ncu-rep --record r.jsonl --out new.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(read(folder_ / "arguments"),
            "LC_ALL=C\n--import\nmy.ncu-rep\n--page\nraw\n--csv\n--print-units\nbase\n");
  EXPECT_EQ(Json::parse(read(folder_ / "new.jsonl")).at("profile").at("report"), "my.ncu-rep");
  std::filesystem::remove(folder_ / "new.jsonl");
  std::filesystem::remove(folder_ / "page");  // so that the tool fails
  const Result failed = profile("--import my.ncu-rep --record r.jsonl --out new.jsonl");
  EXPECT_EQ(failed.code, 2) << failed.err;
  EXPECT_NE(failed.err.find("my.ncu-rep: ncu cannot read it (exit status 1)"), std::string::npos)
      << failed.err;
  EXPECT_FALSE(has_output());
}

TEST_F(CliProfile, WritesNothingOfAReportThatDoesNotFit) {
  write_record();
  const std::string page = ncu_page({ncu_launch("softmax")});
  std::vector<NcuColumn> no_reads = ncu_launch("softmax");
  set_value(no_reads, "dram__bytes_read.sum", "n/a");
  const std::string half = page.substr(0, page.size() - 40);
  const std::string others = ncu_page({ncu_launch("forward")});
  for (const std::string& wrong : {std::string(), half, others, ncu_page({no_reads})}) {
    const Result result = import(wrong);
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_NE(result.err.find("attnlab profile: page.csv: "), std::string::npos) << result.err;
    EXPECT_FALSE(has_output());
  }
  write("r.jsonl", "{\"schema\": \"attnlab.record/1\"}\n");
  const Result bare = import(page);
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.err.find("a record lacks a field"), std::string::npos) << bare.err;
}

}  // namespace
}  // namespace attnlab
