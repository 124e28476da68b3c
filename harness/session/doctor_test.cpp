#include "harness/session/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/measure/noise.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

const Diagnosis kCpu = {.what = "CPU", .finding = "a CPU", .essential = true};
const Diagnosis kDriver = {.what = "driver", .finding = "580", .essential = true};
const Diagnosis kNoDriver = {.what = "driver",
                             .health = Health::missing,
                             .finding = "there is no libcuda.so.1",
                             .remedy = "install it",
                             .essential = true};
const Diagnosis kNoNvml = {.what = "NVML",
                           .health = Health::missing,
                           .finding = "there is no libnvidia-ml.so.1",
                           .remedy = "install that"};
const Diagnosis kLowCap = {.what = "GPU 0 power cap",
                           .health = Health::degraded,
                           .finding = "400 W",
                           .remedy = "raise it"};

struct Verdict {
  BackendChoice asked;
  bool expects_gpu;
  Diagnosis cuda;
  int code;
};

TEST(Doctor, OnlyWhatIsEssentialAndAskedForIsAnError) {
  constexpr auto kAuto = BackendChoice::automatic;
  for (const auto& [asked, expects_gpu, cuda, code] : std::vector<Verdict>{
           {kAuto, false, kNoDriver, kExitGood},  // a machine without a GPU
           {kAuto, true, kNoDriver, kExitEnvironment},
           {kAuto, true, kNoNvml, kExitGood},
           {kAuto, true, kLowCap, kExitGood},
           {BackendChoice::cuda, false, kNoDriver, kExitEnvironment},
           {BackendChoice::cuda, false, kDriver, kExitGood},
       }) {
    const Checkup checkup = {
        .asked = asked, .expects_gpu = expects_gpu, .cpu = {kCpu}, .cuda = {kDriver, cuda}};
    EXPECT_EQ(exit_code(checkup), code) << cuda.finding << ", " << static_cast<int>(asked);
  }
  Diagnosis broken = kCpu;
  broken.health = Health::missing;
  EXPECT_EQ(exit_code({.asked = BackendChoice::cpu, .cpu = {broken}}), kExitEnvironment);
}

TEST(Doctor, ALineSaysStateNameFindingAndRemedy) {
  const Checkup checkup = {.cpu = {kCpu}, .cuda = {kNoDriver, kLowCap}};
  EXPECT_EQ(render(checkup),
            "ok        CPU              a CPU\n"
            "missing   driver           there is no libcuda.so.1\n"
            "                           remedy: install it\n"
            "degraded  GPU 0 power cap  400 W\n"
            "                           remedy: raise it\n"
            "\n"
            "The CPU backend works. The CUDA backend does not work: missing driver. 1 line beside "
            "that is not ok.\n");
  EXPECT_EQ(render({.cpu = {kCpu}}),
            "ok        CPU  a CPU\n\nThe CPU backend works. Nothing else is wanting.\n");
}

TEST(Doctor, LongFindingsOfSeveralLinesStayInTheirColumn) {
  Diagnosis line = kNoDriver;
  line.finding = "first\nsecond";
  for (int i = 0; i < 40; ++i) line.remedy += " word";
  const std::string text = render({.cuda = {line}});
  EXPECT_LE(width(text), kPageWidth) << text;
  EXPECT_PRED2(contains, text, "missing   driver  first second\n");
}

TEST(Doctor, JsonHasTheSameLines) {
  const nlohmann::ordered_json json =
      to_json({.asked = BackendChoice::cuda, .common = {kLowCap}, .cuda = {kDriver, kNoDriver}});
  EXPECT_EQ(json["schema"], "attnlab.doctor/1");
  EXPECT_EQ(json["asked"], "cuda");
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["works"], (nlohmann::ordered_json{{"cpu", nullptr}, {"cuda", false}}));
  ASSERT_EQ(json["checks"].size(), 3u);
  EXPECT_EQ(json["checks"][0]["backend"], nullptr);
  EXPECT_EQ(json["checks"][1]["remedy"], nullptr);
  EXPECT_EQ(json["checks"][2], (nlohmann::ordered_json{{"backend", "cuda"},
                                                       {"what", "driver"},
                                                       {"state", "missing"},
                                                       {"essential", true},
                                                       {"finding", "there is no libcuda.so.1"},
                                                       {"remedy", "install it"}}));
}

TEST(Doctor, TheCpuOfThisMachineWorks) {
  const std::vector<Diagnosis> lines = diagnose_cpu(available_devices().back());
  EXPECT_TRUE(works(lines)) << render({.cpu = lines});
  EXPECT_GE(lines.size(), 2u);
}

TEST(Doctor, SaysWhatTheGateCanResolve) {
  const TestFolder cache;
  CompilerSettings settings = compiler_settings();
  settings.cache_folder = cache.path().string();
  set_compiler(settings);
  const Device device = available_devices().back();
  const auto noise = [&] {
    const std::vector<Diagnosis> lines = diagnose_cpu(device);
    return *std::ranges::find(lines, "CPU noise", &Diagnosis::what);
  };
  EXPECT_PRED2(contains, noise().finding, "attnlab calibrate");
  append_noise({.device = device.name,
                .driver = device.driver,
                .timestamp = "t",
                .commit = "c",
                .rounds = 30,
                .points = {{.key = "k", .a_s = {1e-3}, .b_s = {1.02e-3}}}},
               noise_file(device));
  EXPECT_EQ(noise().finding, "within a job, 2.00 % 1 ms to 10 ms; of 1 calibration");
  EXPECT_EQ(noise().health, Health::ok);
  std::ofstream(noise_file(device)) << "{";
  EXPECT_EQ(noise().health, Health::missing);
  EXPECT_PRED2(contains, noise().finding, "attnlab calibrate");
  set_compiler({});
}

Registry only(const Implementation& implementation) {
  Registry registry;
  registry.add(implementation);
  return registry;
}

TEST(Doctor, ABackendWorksOnlyIfAPointRunsOnIt) {
  const Device cpu = available_devices().back();
  const Diagnosis good = diagnose_case(builtin_registry(), cpu, "CPU kernels");
  EXPECT_EQ(good.health, Health::ok) << good.finding;
  EXPECT_EQ(good.finding, "naive, v1, v2, v3 of 256 tokens: verified and timed");

  const auto judged = [&](const Implementation& implementation) {
    return diagnose_case(only(implementation), cpu, "CPU kernels");
  };
  Implementation wrong = fake::kNaive;  // computes nothing, so its output stays NaN
  wrong.unsupported = [](const Problem&, const Config&, const Device&) { return std::string(); };
  const Diagnosis failed = judged(wrong);
  EXPECT_EQ(failed.health, Health::missing);
  EXPECT_TRUE(failed.essential);
  EXPECT_PRED2(contains, failed.finding, "naive: failed: ");
  EXPECT_PRED2(contains, failed.remedy, "attnlab run --backend cpu");

  wrong.prepare = [](const Problem&, const Config&, const Device&) -> PreparedKernel* {
    throw std::runtime_error("no such thing");
  };
  EXPECT_PRED2(contains, judged(wrong).finding, "no such thing");
  EXPECT_EQ(judged(fake::kNaive).finding, "no kernel runs there");  // it has f32 only
}

TEST(Doctor, TheProgramSaysWhetherItIsBuiltForSpeed) {
  const Diagnosis line = diagnose_build();
  const std::string flags = build_info().flags;
  const bool is_fast =
      (contains(flags, "-O2") || contains(flags, "-O3")) && !contains(flags, "sanitize");
  EXPECT_EQ(line.health == Health::ok, is_fast) << line.finding;
  EXPECT_PRED2(contains, line.finding, build_info().commit);
}

TEST(Doctor, SaysWhatKeepsASecondWriterOut) {
  const Diagnosis local =
      diagnose_locks({.system = file_system_of_type(0xEF53), .refuses_second = true});
  EXPECT_EQ(local.health, Health::ok);
  EXPECT_EQ(local.finding, "ext4, local: a lock keeps a second writer out");
  const FileSystem nfs = file_system_of_type(0x6969);
  const Diagnosis shared = diagnose_locks({.system = nfs, .refuses_second = true});
  EXPECT_EQ(shared.health, Health::ok);
  EXPECT_PRED2(starts_with, shared.finding,
               "nfs: a lock keeps a second writer of this machine out");
  EXPECT_PRED2(contains, shared.finding, "FILE.writer");
  const Diagnosis unlocked = diagnose_locks({.system = nfs});
  EXPECT_EQ(unlocked.health, Health::degraded);
  EXPECT_PRED2(starts_with, unlocked.finding, "nfs: a lock keeps nobody out; FILE.writer");
  EXPECT_PRED2(contains, unlocked.remedy, "may have to be removed");
}

TEST(Doctor, TriesLocksInTheFolderItself) {
  const TestFolder folder;
  const FolderLocks locks = try_locks(folder.path());
  EXPECT_EQ(locks.trouble, "");
  EXPECT_NE(locks.system.name, "");
  EXPECT_TRUE(locks.refuses_second);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const Diagnosis none = diagnose_locks(try_locks(folder.path() / "nowhere"));
  EXPECT_EQ(none.health, Health::degraded);
  EXPECT_PRED2(contains, none.finding, "No such file or directory");
  EXPECT_PRED2(contains, none.remedy, "--out");
}

TEST(Doctor, WithoutPyTorchThePeerIsDegraded) {
  PeerProcess peers({.python = "/nowhere/python3"});
  const Diagnosis line = diagnose_peer(peers, "PyTorch peer", false);
  EXPECT_EQ(line.health, Health::degraded);
  EXPECT_PRED2(contains, line.finding, "/nowhere/python3");
  EXPECT_PRED2(contains, line.remedy, "ATTNLAB_PYTHON");
  EXPECT_FALSE(line.essential);
}

TEST(Doctor, APeerThatSeesNoGpuIsDegradedWhereThereIsOne) {
  PeerProcess peers({.python = "python3", .script = in_tree("tests/data/fake_peer.py")});
  EXPECT_EQ(diagnose_peer(peers, "PyTorch peer", false).health, Health::ok);
  const Diagnosis line = diagnose_peer(peers, "PyTorch peer", true);
  EXPECT_EQ(line.health, Health::degraded);
  EXPECT_PRED2(contains, line.finding, "torch 9.9.9+fake");
  EXPECT_NE(line.remedy, "");
}

TEST(Doctor, InstrumentsThatADeviceLacksAreLinesWithARemedy) {
  for (const Diagnosis& line : diagnose_instruments(available_devices().back())) {
    if (line.health == Health::ok) continue;
    EXPECT_NE(line.finding, "") << line.what;
    EXPECT_NE(line.remedy, "") << line.what;
  }
}

}  // namespace
}  // namespace attnlab
