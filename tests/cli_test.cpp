// Runs the real binary, as a user calls it.
#include "tests/cli_fixture.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSmall =
    "run --kernel naive,v2 --heads 2 --head-dim 16 --seqlen 32,64 --mask none,causal "
    "--block 32x32 --rounds 3 --no-progress ";

TEST_F(Cli, AloneItPrintsHelpAndFails) {
  const Result result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_PRED2(contains, result.err, "Examples:");
}

TEST_F(Cli, EveryHelpHasExamplesAndFitsThePage) {
  for (const char* arguments :
       {"--help", "compare --help", "compile --help", "completion --help", "doctor --help",
        "explain --help", "gate --help", "list --help", "man --help", "merge --help",
        "model --help", "peak --help", "profile --help", "report --help", "reproduce --help",
        "run --help", "sass --help", "table --help", "verify --help"}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << arguments;
    EXPECT_PRED2(contains, result.out, "Examples:\n  attnlab ");
    EXPECT_LE(width(result.out), kPageWidth) << result.out;
    const Result narrow = run(arguments, "COLUMNS=80");
    EXPECT_EQ(narrow.code, 0) << arguments;
    EXPECT_LE(width(narrow.out), 80U) << narrow.out;
  }
  const std::string run_help = run("run --help").out;
  for (const char* part : {"--heads-kv", "aligned at the bottom right", "also under padding",
                           "65536 P rounded", "torch:eager, flash or math on a CPU"}) {
    EXPECT_PRED2(contains, run_help, part);
  }
  const std::string table = run("table --help").out;
  EXPECT_PRED2(contains, table, "ratio_to_twin");
  EXPECT_PRED2(contains, table, "\n  compulsory_intensity  useful FLOPs / compulsory bytes\n");
}

// A command in a help text that is too long for the page is still one that a shell can read.
TEST_F(Cli, CommandsInHelpAreBrokenAsAShellReadsThem) {
  EXPECT_PRED2(contains, run("table --help", "COLUMNS=80").out,
               "  attnlab table results/*.jsonl --rows seqlen,mask --cols kernel,block --value \\\n"
               "      time_ms\n");
}

TEST_F(Cli, EveryTextFitsANarrowTerminal) {
  const std::string records = in_tree("results/cpu/generations.jsonl");
  const std::string on_gpu = in_tree("results/nvidia-h200/evidence.jsonl");
  for (const std::string& arguments : std::initializer_list<std::string>{
           "list --sweeps '" + in_tree("sweeps") + "'", "doctor", "table '" + records + "'",
           "table '" + records + "' --where dropout=0 --rows pass,mask --cols kernel" +
               " --value time_ms,ci,gflops,requested_mib",
           "table '" + on_gpu + "' --evidence", "model --seqlen 8k --dtype f16 --mask causal",
           "model --seqlen 1k:8k:x2 --mask none,causal --pass fwd,bwd",
           "verify --only '*/shapes/lengths/1/none/f32/fwd' --no-progress",
           "run --kernel naive,v2 --seqlen 64 --mask causal --dry-run",
           "run '" + in_tree("sweeps/quick.json") + "' --dry-run",
           "table '" + in_tree("results/nvidia-h200/v3-tiles.jsonl") + "'"}) {
    const Result result = run(arguments, "COLUMNS=80");
    EXPECT_NE(result.out, "") << arguments << result.err;
    EXPECT_LE(width(result.out), 80U) << arguments << '\n' << result.out;
  }
}

TEST_F(Cli, VersionNamesTheBuild) {
  const Result result = run("--version");
  EXPECT_EQ(result.code, 0);
  for (const char* part : {"attnlab 0.", "commit ", "compiler ", "flags "}) {
    EXPECT_PRED2(contains, result.out, part);
  }
}

TEST_F(Cli, BadUsageIsExitTwoWithARemedy) {
  write("bad.json", R"({"schema": "attnlab.sweep/1", "name": "b", "axes": {"seqlne": 4}})");
  const std::pair<const char*, const char*> cases[] = {
      {"rnu", "did you mean 'run'?"},
      {"run --kernle naive", "did you mean '--kernel'?"},
      {"run --kernel naivee", "did you mean 'naive'?"},
      {"run --seqlen", "--seqlen needs one value"},
      {"run --seqlen ''", "--seqlen: a value is missing"},
      {"run --seqlen 4x", "--seqlen: '4x'"},
      {"run --seqlen 4 --threads 0", "--threads"},
      {"run --seqlen 4 --threads abc", "--threads: 'abc' is not a whole number; write one from 1"},
      {"run --seqlen 4 --rounds 2.5", "--rounds: '2.5' is not a whole number"},
      {"run --seqlen 4 --rounds 99999999999999999999", "--rounds: 99999999999999999999 is outside"},
      {"run --seqlen 4 --max-seconds nan", "--max-seconds: 'nan' is not a number"},
      {"run --seqlen 4 --backend cpu --timeline t.json", "--timeline: this run is on a CPU"},
      {"run --seqlen 4 --timeout inf", "--timeout: inf is outside [0.001, 86400]"},
      {"run --seqlen 4 --max-seconds -1", "--max-seconds: -1 is outside"},
      {"run --seqlen 4 --memory-limit many", "--memory-limit: 'many'"},
      {"run --seqlen 64,", "--seqlen: a value is missing"},
      {"run --seqlen 64,,128", "--seqlen: a value is missing"},
      {"run --seqlen 4 --protocol min_rounds=3,", "--protocol: '' is not KEY=VALUE"},
      {"run --seqlen 4 --isa ''", "--isa: a value is missing: write one, or leave it out"},
      {"run --seqlen 4 --out ' '", "--out: a value is missing"},
      {"run ''", "sweep: a value is missing"},
      {"run --seqlen 4 --isa avx99",
       "--isa: this processor has no instruction set 'avx99'; it has"},
      {"run --kernel v2 --block 0x64", "block 0x64: block_m = 0 is outside v2's [1, 1024]"},
      {"run --mask blocks:moth:16x16", "block pattern 'moth' does not exist; there are: butterfly"},
      {"run --mask blocks:random:150:16x16", "block pattern 'random' needs a PERCENT up to 100"},
      {"run --mask blocks:file=no.txt:16x16", "block pattern file 'no.txt' cannot be read"},
      {"run --mask blocks:file=bad.json:16x16", "block pattern file 'bad.json' line 1 has a char"},
      {"model --kernel v2 --block 0x64", "block 0x64: block_m = 0 is outside v2's [1, 1024]"},
      {"run --kernel v9", "did you mean 'v1'?; there are: naive, minimal, v1, v2, v3"},
      {"run --seqlen 1:8:x1", "--seqlen: the factor of '1:8:x1': 1 is outside [2, "},
      {"model --gpu ''", "--gpu: a value is missing"},
      {"model --seqlen 4 --gpu A100,", "--gpu: a name is missing"},
      {"compile --arch sm_80,,sm_90a", "--arch: an item of 'sm_80,,sm_90a' is empty"},
      {"table bad.json --value ''", "--value: a value is missing"},
      {"table bad.json --rows seqlen,", "--rows: an item of 'seqlen,' is empty"},
      {"table bad.json --where seqlen=", "--where: 'seqlen=' is not FIELD=VALUE[,VALUE]"},
      {"verify --seed -1", "--seed: -1 is outside"},
      {"verify --kernel v2,v2", "--kernel: 'v2' is given twice"},
      {"verify --junit ''", "--junit: a value is missing"},
      {"run --seqlen 4 --format txt", "--format: 'txt'"},
      {"run --seqlen 4 --counters nonsense",
       "--counters: 'nonsense' is none of auto, off, require"},
      {"run --seqlen 4 --counters requir", "did you mean 'require'?"},
      {"run --backend gpu", "--backend: 'gpu'"},
      {"run --seqlen 4 --devices all", "--devices: no GPU here: "},
      {"run --seqlen 4 --backend cuda --devices 0", "--devices: no GPU here: "},
      {"run --seqlen 4,8 --devices all --shard 1/2", "--devices: leave --shard out"},
      {"reproduce fa1-table21 --devices all", "--devices: no GPU here: "},
      {"reproduce --records results/nvidia-h100/paper --devices 0", "--devices: leave it out"},
      {"run --heads 8 --heads-kv 3", "heads = 8 is not a multiple of heads_kv = 3"},
      {"run", "nothing to do"},
      {"run --batch 2 --lengths 5+6", "lengths: '5+6' needs entries of different lengths: take"},
      {"run --layout packed --lengths 5+6", "lengths: '5+6' are 2 lengths, but batch is 1"},
      {"run --layout packed --seqlen 5 --lengths 6", "shorten the entry or raise seqlen_k"},
      {"run --layout packed --mask padding", "mask: padding has no meaning with layout packed"},
      {"run --seqlen 4 --deterministic 2", "--deterministic: 2 is outside [0, 1]"},
      {"run --seqlen 4 --rounds 3 --protocol min_rounds=50",
       "--rounds 3: --protocol says min_rounds=50: leave one of them out"},
      {"run --seqlen 4 --rounds 3 --protocol max_rounds=50", "--protocol says max_rounds=50"},
      {"run --seqlen 4 --max-seconds 3 --protocol max_seconds=2", "--protocol says max_seconds=2"},
      {"run --seqlen 4 --kernel naive,v2 --speedup-over v22",
       "--speedup-over: 'v22' is none of the kernels and peers here; did you mean 'v2'?"},
      {"run --seqlen 4 --kernel naive,v2 --speedup-over torch:flash", "there are: naive, v2"},
      {"run --seqlen 4 --tune --speedup-over naive", "--tune compares tiles"},
      {"run --seqlen 4 --protocol rounds=3", "--protocol: unknown key 'rounds'"},
      {"run nowhere.json", "nowhere.json: no such file"},
      {"run bad.json", "bad.json: axes: unknown axis 'seqlne'; did you mean 'seqlen'?"},
      {"run bad.json more.json", "'more.json' is one argument too many"},
      {"table", "files is required"},
      {"table nothing.jsonl", "nothing.jsonl: cannot open it"},
      {"table bad.json", "bad.json:1: not an \"attnlab.record/1\" object"},
      {"table bad.json --valu x", "did you mean '--value'?"},
      {"list --format csv", "--format"},
      {"list --sweeps nowhere", "--sweeps: nowhere: no such folder"},
      {"list more", "one argument too many"},
      {"completion", "shell is required"},
      {"completion tcsh", "'tcsh' is none of bash, zsh, fish"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing new";
}

TEST_F(Cli, RunWritesRecordsThatTableReadsBack) {
  const Result result = run(std::string(kSmall) + "--out a/r.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::string records = read(folder_ / "a/r.jsonl");
  EXPECT_EQ(count_lines(records), 8u);
  EXPECT_PRED2(contains, result.out, "4 cases, 8 points, of which 8 can run");
  EXPECT_PRED2(contains, result.out, "attnlab table a/r.jsonl");
  const Result table = run("table a/r.jsonl");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_PRED2(contains, result.out, table.out);  // the very same table
  const Result csv = run("table a/r.jsonl --format csv --value time_ms");
  EXPECT_EQ(count_lines(csv.out), 9u);
  // A second run appends, and the last record of a point counts.
  ASSERT_EQ(run(std::string(kSmall) + "--out a/r.jsonl").code, 0);
  EXPECT_EQ(count_lines(read(folder_ / "a/r.jsonl")), 16u);
  EXPECT_PRED2(contains, run("table a/r.jsonl").out, "8 earlier records of the same points");
}

TEST_F(Cli, AClosedStreamIsNoPlaceForRecords) {
  int number = 0;
  for (const char* closed : {">&-", "<&- >&-", "<&- >&- 2>&-"}) {
    const std::string file = std::to_string(number++) + ".jsonl";
    const Result result = run(std::string(kSmall) + "--out " + file + " " + closed + "; echo $?");
    EXPECT_EQ(result.out, "0\n") << closed << result.err;
    EXPECT_EQ(count_lines(read(folder_ / file)), 8u) << closed;
    EXPECT_EQ(run("table " + file).code, 0) << closed;
  }
}

TEST_F(Cli, OutputThatIsLostIsAnError) {
  const std::string quick = "--kernel v2 --heads 1 --head-dim 8 --seqlen 8 --rounds 2 ";
  const std::string lost = "cannot write to standard output: No space left on device";
  const Result made = run("run " + quick + "--no-progress --out r.jsonl > /dev/full");
  EXPECT_EQ(made.code, 3);
  EXPECT_EQ(made.err, "attnlab run: " + lost + "; the records are safe: attnlab table r.jsonl\n");
  ASSERT_EQ(count_lines(read(folder_ / "r.jsonl")), 1u);
  for (const char* arguments :
       {"--help", "--version", "run --help", "doctor", "list", "model --seqlen 64", "table r.jsonl",
        "table r.jsonl --format json", "run --seqlen 64 --dry-run",
        "verify --kernel v2 --only '*/shapes/lengths/1/*'"}) {
    const Result full = run(std::string(arguments) + " > /dev/full");
    EXPECT_EQ(full.code, 3) << arguments;
    EXPECT_PRED2(contains, full.err, "cannot write to standard output: ");
    EXPECT_EQ(count_lines(full.err.substr(full.err.rfind("attnlab"))), 1u) << full.err;
  }
  // A run does not fail because its standard error is lost.
  EXPECT_EQ(run("run " + quick + "--out r.jsonl >/dev/null 2>/dev/full; echo $?").out, "0\n");
  EXPECT_EQ(run("rnu 2>/dev/full; echo $?").out, "2\n");
}

TEST_F(Cli, RoundsAreExactUnlessALimitIsGiven) {
  write("hasty.json", R"({"schema": "attnlab.sweep/1", "name": "hasty", "axes": {"seqlen": 8},
                          "protocol": {"max_seconds": 0.001, "interval": 1}})");
  const std::string hasty = "run hasty.json --kernel v2 --heads 1 --head-dim 8 --no-progress ";
  ASSERT_EQ(run(hasty + "--rounds 7 --out exact.jsonl").code, 0);
  const Json exact = Json::parse(read(folder_ / "exact.jsonl"));
  EXPECT_EQ(exact["time"]["n"], 7);
  EXPECT_EQ(exact["time"]["rounds_asked"], 7);
  const Result limited = run(hasty + "--rounds 30 --max-seconds 0.001 --out limited.jsonl");
  ASSERT_EQ(limited.code, 0) << limited.err;
  const Json time = Json::parse(read(folder_ / "limited.jsonl"))["time"];
  EXPECT_LT(time["n"], 30);
  EXPECT_EQ(time["rounds_asked"], 30);
  EXPECT_PRED2(contains, limited.out, " (" + time["n"].dump() + " of 30)");
  EXPECT_PRED2(contains, limited.out, "(n of N): n of N rounds; then the time limit");
  EXPECT_EQ(run(hasty + "--rounds 3 --protocol min_rounds=3 --out same.jsonl").code, 0);
}

TEST_F(Cli, ASpeedupIsOverWhomTheUserNames) {
  const Result result = run(std::string(kSmall) + "--speedup-over v2 --out r.jsonl");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "over v2");
  const Result table = run("table r.jsonl --speedup-over v2 --value time_ms --format json");
  ASSERT_EQ(table.code, 0) << table.err;
  for (const Json& point : Json::parse(table.out)) {
    EXPECT_EQ(point["speedup_over"], "v2");
    const double speedup = point["speedup"].get<double>();
    EXPECT_EQ(speedup == 1.0, point["kernel"] == "v2") << speedup;
  }
  const Result unknown = run("table r.jsonl --speedup-over navie");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_PRED2(contains, unknown.err, "'navie' is none of the kernels and peers here; did you");
  EXPECT_EQ(run("table r.jsonl --evidence --speedup-over v2").code, 2);
}

TEST_F(Cli, DataFormatsHaveStandardOutputToThemselves) {
  const Result json = run(std::string(kSmall) + "--format json");
  ASSERT_EQ(json.code, 0) << json.err;
  const Json points = Json::parse(json.out);
  ASSERT_EQ(points.size(), 8u);
  for (const Json& point : points) {
    EXPECT_EQ(point["status"], "ok");
    EXPECT_GT(point["time_ms"].get<double>(), 0.0);
  }
  EXPECT_PRED2(contains, json.err, "Records: results/flags-");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "results"), {}), 1);
}

TEST_F(Cli, APeerIsAPointLikeAnyOther) {
  const Result plan =
      run("run --backend cpu --kernel v2 --peer torch:eager --seqlen 64 --dry-run --format json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json points = Json::parse(plan.out);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].at("kernel"), "torch:eager");
  EXPECT_EQ(points[1].at("status"), "runs");
  EXPECT_EQ(run("run --backend cpu --peer torch:eager --seqlen 64 --dry-run").code, 0);
  const Result unknown = run("run --peer torch:flsh --seqlen 64 --dry-run");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_PRED2(contains, unknown.err, "did you mean");
}

// Its file and the peers' names are looked at before anything runs; also those of a sweep's file.
TEST_F(Cli, AFunctionOfYoursIsAPeer) {
  write("mine.py", "");
  const Result plan =
      run("run --backend cpu --kernel v2 --peer fa4,py:mine.py:attend --seqlen 64 --dry-run "
          "--format json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json points = Json::parse(plan.out);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[1].at("status"), "unsupported");
  EXPECT_EQ(points[2].at("kernel"), "py:mine.py:attend");
  EXPECT_EQ(points[2].at("status"), "runs");
  write("sweep.json",
        R"({"schema": "attnlab.sweep/1", "name": "s", "peers": ["py:lost.py:attend"],)"
        R"( "axes": {"kernel": "v2", "seqlen": 64}})");
  for (const char* arguments : {"run --peer py:lost.py:attend --seqlen 64", "run sweep.json"}) {
    const Result lost = run(arguments);
    EXPECT_EQ(lost.code, 2) << arguments;
    EXPECT_PRED2(contains, lost.err, "there is no file 'lost.py' (of py:lost.py:attend)");
  }
}

// Without PyTorch the point is recorded with the remedy, and our kernels run.
TEST_F(Cli, AMissingPeerIsARecordWithTheRemedy) {
  setenv("ATTNLAB_PYTHON", "/nowhere/python3", 1);
  const Result result =
      run("run --backend cpu --kernel v2 --peer torch:eager --seqlen 64 --rounds 2 --no-progress "
          "--out r.jsonl");
  unsetenv("ATTNLAB_PYTHON");
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<Json> records;
  std::ifstream file(folder_ / "r.jsonl");
  for (std::string line; std::getline(file, line);) records.push_back(Json::parse(line));
  ASSERT_EQ(records.size(), 2u);
  const auto is_peer = [](const Json& record) { return record.at("kernel") == "torch:eager"; };
  const auto peer = std::find_if(records.begin(), records.end(), is_peer);
  ASSERT_NE(peer, records.end());
  EXPECT_EQ(peer->at("status"), "unsupported");
  EXPECT_PRED2(contains, peer->at("reason").get<std::string>(), "ATTNLAB_PYTHON");
}

TEST_F(Cli, ADryRunPrintsThePointsAndWritesNothing) {
  const Result result =
      run("run --kernel v2,minimal --dropout 0.5,0 --pass bwd --seqlen 64 --dry-run");
  EXPECT_EQ(result.code, 0);
  EXPECT_PRED2(contains, result.out, "2 cases, 4 points, of which 2 can run");
  EXPECT_PRED2(contains, result.out, "minimal is a teaching kernel: it has no backward pass");
  EXPECT_PRED2(contains, result.out, "MiB");
  EXPECT_TRUE(is_empty());
  const Json points =
      Json::parse(run("run --kernel minimal --pass bwd --seqlen 64 --dry-run --format json").out);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0]["status"], "unsupported");
}

TEST_F(Cli, ABackwardInE4m3SaysWhyThereIsNone) {
  for (const char* pass : {"bwd", "fwdbwd"}) {
    const Result result = run(std::string("run --backend cpu --kernel naive,v3 --dtype e4m3 ") +
                              "--seqlen 128 --dry-run --format json --pass " + pass);
    EXPECT_EQ(result.code, 0) << result.err;
    const Json points = Json::parse(result.out);
    ASSERT_EQ(points.size(), 2u);
    for (const Json& point : points) {
      EXPECT_EQ(point["status"], "unsupported");
      EXPECT_PRED2(contains, point["reason"].get<std::string>(), "no backward in e4m3: three bits");
    }
  }
}

TEST_F(Cli, FlagsReplaceAxesOfTheFile) {
  write("s.json", R"({"schema": "attnlab.sweep/1", "name": "s",
      "axes": {"kernel": "naive", "seqlen_q": [8, 16], "seqlen_k": 32, "heads": 2, "head_dim": 8},
      "exclude": [{"where": {"seqlen_q": 16}, "reason": "for this test"}]})");
  EXPECT_PRED2(contains, run("run s.json --dry-run").out, "[1] for this test");
  const Result replaced = run("run s.json --seqlen 24 --heads 1 --dry-run");
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_PRED2(contains, replaced.out, "fwd/f32/b1/hq1/hkv1/sq24/sk24/d8/");
  EXPECT_PRED2(contains, replaced.out, "1 case, 1 point, of which 1 can run");
}

TEST_F(Cli, WhatAKernelCannotDoIsARecordWithItsReason) {
  const Result result =
      run("run --kernel v2,minimal --dtype f32,f16 --pass fwd,bwd --heads 1 --head-dim 8 "
          "--seqlen 16 --rounds 3 --no-progress --out r.jsonl");
  EXPECT_EQ(result.code, 0) << result.err;
  int ok = 0, unsupported = 0;
  std::stringstream lines(read(folder_ / "r.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    ok += record["status"] == "ok";
    if (record["status"] != "unsupported") continue;
    ++unsupported;
    EXPECT_NE(record["reason"], "");
  }
  EXPECT_EQ(ok, 5);
  EXPECT_EQ(unsupported, 3);
}

TEST_F(Cli, NothingThatCouldRunIsExitThree) {
  const Result result =
      run("run --backend cuda --kernel v2 --seqlen 16 --no-progress --out r.jsonl");
  if (contains(result.out, "ok")) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_EQ(result.code, 3) << result.err;
  const Json record = Json::parse(read(folder_ / "r.jsonl"));
  EXPECT_EQ(record["status"], "unsupported");
  EXPECT_PRED2(contains, record["reason"].get<std::string>(), "this machine has no cuda device: ");
}

TEST_F(Cli, WithoutNvrtcKernelsAreCountedAndCompilingNamesTheRemedy) {
  const Result counted = run("model --backend cuda --gpu A100 --seqlen 64 --kernel minimal");
  EXPECT_EQ(counted.code, 0) << counted.err;
  EXPECT_FALSE(contains(counted.out, "unsupported")) << counted.out;
  const Result result =
      run("compile --kernel minimal --head-dim 64 --arch sm_80 --cache-dir cache --no-progress");
  if (result.code == 0) GTEST_SKIP() << "there is an NVRTC";
  EXPECT_EQ(result.code, 3);
  EXPECT_PRED2(contains, result.err, "scripts/setup.sh --cuda");
}

TEST_F(Cli, CountersThatAreRequiredAndNotThereAreExitThree) {
  const std::string point = "run --backend cpu --kernel v2 --seqlen 8 --rounds 2 --no-progress ";
  const Result required = run(point + "--counters require --out r.jsonl");
  EXPECT_EQ(required.code, 3);
  EXPECT_PRED2(contains, required.err, "--counters require: ");
  EXPECT_PRED2(contains, required.err, "; take --backend cuda");
  EXPECT_EQ(read(folder_ / "r.jsonl"), "") << "nothing was run";
  for (const char* mode : {"auto", "off"}) {
    const Result result = run(point + "--counters " + mode);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find("Counters"), std::string::npos) << result.out;
  }
}

// Returns the names of a record's tensors that were verified after timing.
std::string verified(const Json& record) {
  std::string names;
  for (const Json& verdict : record["verify_timed"]) {
    names += (names.empty() ? "" : ",") + verdict["tensor"].get<std::string>();
  }
  return names;
}

TEST_F(Cli, EveryPassIsVerifiedTimedAndAccounted) {
  const Result result =
      run("run --kernel naive,v2 --pass fwd,bwd,fwdbwd --batch 2 --heads 2 --heads-kv 1 "
          "--head-dim 8 --seqlen 40 --mask causal --dropout 0.1 --rounds 3 --no-progress "
          "--out r.jsonl");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "6 points: 6 ok.");
  const std::map<std::string, std::string> tensors = {
      {"fwd", "o,lse"}, {"bwd", "dq,dk,dv"}, {"fwdbwd", "o,lse,dq,dk,dv"}};
  const std::uint64_t q = 2 * 2 * 40 * 8 * 4, k = q / 2, lse = 2 * 2 * 40 * 4;
  std::stringstream lines(read(folder_ / "r.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    const auto pass = record["problem"]["pass"].get<std::string>();
    EXPECT_EQ(verified(record), tensors.at(pass)) << record["key"];
    const Json& memory = record["memory"];
    EXPECT_EQ(memory["inputs_bytes"], pass == "fwd"   ? q + 2 * k
                                      : pass == "bwd" ? 3 * q + 2 * k
                                                      : 2 * q + 2 * k);
    EXPECT_EQ(memory["outputs_bytes"], pass == "fwd"   ? q
                                       : pass == "bwd" ? q + 2 * k
                                                       : 2 * q + 2 * k);
    // naive saves P, the others the maximum and the sum of rows whose logits lse does not hold.
    EXPECT_EQ(memory["saved_bytes"] > lse, pass != "fwd") << record["key"];
    EXPECT_EQ(memory["peak_bytes"], memory["inputs_bytes"].get<std::uint64_t>() +
                                        memory["outputs_bytes"].get<std::uint64_t>() +
                                        memory["saved_bytes"].get<std::uint64_t>() +
                                        memory["workspace_bytes"].get<std::uint64_t>());
  }
}

TEST_F(Cli, LengthsConfigAndProtocolReachTheRecord) {
  const std::string first =
      "run --kernel v2 --pass fwdbwd --layout packed --batch 2 --lengths 7x20+30 --seqlen 32 "
      "--heads 2 --head-dim 8 --block 16x32 --deterministic 1 --protocol "
      "min_rounds=2,max_rounds=2,warmup_seconds=0 --no-progress --out a.jsonl";
  ASSERT_EQ(run(first).code, 0);
  const Json record = Json::parse(read(folder_ / "a.jsonl"));
  EXPECT_TRUE(record["id"].get<std::string>().ends_with("/len7x20+30"));
  const Json config = {{"block_m", 16}, {"block_n", 32}, {"deterministic", 1}};
  EXPECT_EQ(record["config"], config);
  EXPECT_EQ(record["protocol"]["max_rounds"], 2);
}

TEST_F(Cli, ABlockMaskFromAFileIsRecognisable) {
  const auto recorded = [&](const std::string& pattern) {
    write("p.txt", pattern);
    const Result result =
        run("run --kernel v2 --heads 1 --head-dim 8 --seqlen 32 --mask blocks:file=p.txt:16x16 "
            "--rounds 2 --no-progress --out " +
            std::to_string(pattern.size()) + pattern.substr(0, 1) + ".jsonl");
    EXPECT_EQ(result.code, 0) << result.err;
    return Json::parse(read(folder_ / (std::to_string(pattern.size()) + pattern.substr(0, 1) +
                                       ".jsonl")))["problem"]["blocks"];
  };
  const Json one = recorded("10\n11\n");
  const Json spaced = recorded("1 0\n1 1\n");
  const Json other = recorded("01\n11\n");
  EXPECT_EQ(one["visible_fraction"], 0.75);
  EXPECT_EQ(one, spaced);
  EXPECT_EQ(other["visible_fraction"], 0.75);
  EXPECT_NE(one["fnv1a"], other["fnv1a"]);
}

TEST_F(Cli, APointThatDoesNotFitIsARecord) {
  const Result result =
      run("run --kernel v2 --heads 1 --head-dim 8 --seqlen 16,8192 --threads 1 --memory-limit 512K "
          "--rounds 3 --no-progress --out r.jsonl");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "1 ok, 1 out_of_memory");
}

TEST_F(Cli, ThreadsAreRecorded) {
  const Result result =
      run("run --kernel v2 --heads 1 --head-dim 8 --seqlen 16 --threads 1 --rounds 3 --no-progress "
          "--out r.jsonl");
  EXPECT_EQ(result.code, 0) << result.err;
  const Json record = Json::parse(read(folder_ / "r.jsonl"));
  EXPECT_EQ(record["device"]["threads"], 1);
  EXPECT_PRED2(contains, record["command_line"].get<std::string>(), "run --kernel v2");
}

TEST_F(Cli, AnUnwritableOutputIsExitTwo) {
  const Result result = run(std::string(kSmall) + "--out /proc/nothing/r.jsonl");
  EXPECT_EQ(result.code, 2);
  EXPECT_PRED2(contains, result.err, "/proc/nothing/r.jsonl");
}

TEST_F(Cli, ListShowsKernelsDevicesAndSweeps) {
  write("broken.json", "{");
  const Result text = run("list --sweeps '" + in_tree("sweeps") + "'");
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"naive (cpu)", "v2 (cpu)", "block_m", "deterministic", "not bwd, fwdbwd",
                           "blocks:bigbird:1:1:1:64x64", "v3", "Devices", "quick.json"}) {
    EXPECT_PRED2(contains, text.out, part);
  }
  EXPECT_FALSE(contains(text.out, "Not there yet")) << "every kernel has both backends";
  const Result data = run("list --sweeps . --format json");
  const Json laboratory = Json::parse(data.out);
  ASSERT_GE(laboratory["kernels"].size(), 2u);
  EXPECT_TRUE(laboratory["kernels"][0]["reason"].is_null());
  EXPECT_GE(laboratory["devices"].size(), 1u);
  ASSERT_EQ(laboratory["sweeps"].size(), 1u);
  EXPECT_TRUE(laboratory["sweeps"][0].contains("error"));
}

}  // namespace
}  // namespace attnlab
