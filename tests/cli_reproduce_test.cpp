// Runs attnlab reproduce as a user calls it, on a CPU.
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "harness/base/text_table.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

class CliReproduce : public Cli {
 protected:
  // Puts a run of fa1-table21 on a CPU into the folder "p": committed records, and their result.
  void save_a_run() {
    std::filesystem::create_directories(folder_ / "p");
    write("p/fa1-memory.jsonl", read(in_tree("tests/data/paper/fa1-memory.jsonl")));
    const Result made = run("reproduce fa1-table21 --records p --format json");
    ASSERT_EQ(made.code, 0) << made.err;
    write("p/fa1-memory.result.json", made.out);
  }
};

// Returns a claim of a result.
Json claim_of(const std::string& result, const std::string& id) {
  const Json json = Json::parse(result);
  for (const Json& claim : json["claims"]) {
    if (claim["id"] == id) return claim;
  }
  ADD_FAILURE() << "no claim " << id << " in " << result;
  return {{"finding", ""}, {"measured", 0.0}};
}

TEST_F(CliReproduce, ListsTablesWithWhatTheyNeed) {
  const Result listed = run("reproduce");
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_PRED2(contains, listed.out, "fa1-table21");
  EXPECT_PRED2(contains, listed.out, "needs: ");
  EXPECT_PRED2(contains, listed.out, "of 126 published tables");
  const Json json = Json::parse(run("reproduce --format json").out);
  EXPECT_GT(json.size(), 5u);
  for (const Json& paper : json) {
    EXPECT_GT(paper["claims"], 0) << paper["name"];
    for (const Json& table : paper["tables"]) EXPECT_NE(table["source"]["where"], "") << table;
  }
  for (const char* settings : {"COLUMNS=80", "COLUMNS=100"}) {
    const Result text = run("reproduce", settings);
    EXPECT_PRED2(contains, one_line(text.out), "  source: FlashAttention: Fast and Memory-");
    EXPECT_PRED2(contains, one_line(text.out), "  source of fa1-fig2-left: FlashAttention: Fast");
    EXPECT_LE(width(text.out), std::string(settings) == "COLUMNS=80" ? 80u : 100u);
  }
}

TEST_F(CliReproduce, RefusesWhatItCannotDo) {
  const std::pair<const char*, const char*> wrong[] = {
      {"reproduce fa1-tabel21", "(attnlab reproduce lists them); did you mean 'fa1-table21'?"},
      {"reproduce nonsense", "lists them); the nearest are: t4-study, "},
      {"reproduce --check", "--check: name tables, or all"},
      {"reproduce --quick", "--quick: name tables, or all"},
      {"reproduce --out X --protocols", "--protocols: name tables, or all"},
      {"reproduce --out X", "--out: name tables, or all"},
      {"reproduce --backend cpu", "--backend: name tables, or all"},
      {"reproduce --devices 0", "--devices: name tables, or all"},
      {"reproduce --no-progress", "--no-progress: name tables, or all"},
      {"reproduce --format csv", "--format: the list of tables comes as table or json"},
      {"reproduce --format markdown", "--format: the list of tables comes as table or json"},
      {"reproduce fa1-table1", "fa1-table1: is published, and not measured here"},
      {"reproduce fa1-table21 --resume", "--resume: name the folder of the run by --out"},
      {"reproduce --records . --quick", "--quick: leave it out beside --records"},
      {"reproduce --records .", "holds records of no paper's file"},
      {"reproduce fa1-table21 --records nowhere", "fa1-memory.jsonl: there is no such file"},
      {"reproduce fa1-table21 --ae f --quick", "--quick: leave it out beside --ae"},
      {"reproduce fa1-table21 --ae f --check", "--check: leave it out beside --ae"},
      {"reproduce fa1-table21 --ae nowhere/f.md", "nowhere/f.md"},
      {"reproduce fa1-table21 --against x", "--against: is of --check"},
      {"reproduce fa1-table21 --beside x", "--beside: compares a folder of records"},
      {"reproduce --records . --beside x --check", "--check: leave it out beside --beside"},
      {"reproduce fa1-table21 --backend cpu --format tabel", "--format: 'tabel'"},
      {"reproduce fa1-table21 --backend gpu", "--backend: 'gpu' is not a backend"},
  };
  for (const auto& [arguments, message] : wrong) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_) || !std::filesystem::exists(folder_ / "results"));
}

TEST_F(CliReproduce, PutsTwoRunsSideBySide) {
  const std::string records = "'" + in_tree("tests/data/paper") + "'";
  const std::string one = "reproduce fa1-fig2-left fa1-memory --records " + records + " --beside ";
  const Result same = run(one + records);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_PRED2(contains, same.out, "have the same verdict in both runs, 0 have another.");
  EXPECT_FALSE(contains(same.out, "here U: ")) << same.out;
  // An experiment that one run lacks is named, and no more is said of it.
  std::filesystem::create_directories(folder_ / "part");
  std::filesystem::copy(in_tree("tests/data/paper/fa1-memory.jsonl"), folder_ / "part");
  const Result part = run(one + "part --format json");
  EXPECT_EQ(part.code, 0) << part.err;
  const Json json = Json::parse(part.out);
  EXPECT_EQ(json["schema"], "attnlab.two_runs/1");
  EXPECT_EQ(json["missing"], Json::array({"fa1-fig2-left"}));
  EXPECT_EQ(json["same_verdicts"], json["claims"].size());
  for (const Json& claim : json["claims"]) EXPECT_EQ(claim["experiment"], "fa1-memory");
  const Json whole =
      Json::parse(run("reproduce --records part --format json --beside " + records).out);
  EXPECT_EQ(whole["missing"], Json::array({"fa1-fig-mem", "fa1-fig2-left", "fa1-fig2-right"}));
  const Result nothing = run(one + ".");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_PRED2(contains, nothing.err, "--beside: . has no records of what --records has");
}

// A run of points that all lack a device would end with verdicts that say nothing.
TEST_F(CliReproduce, NeedsTheDeviceThatItIsToRunOn) {
  for (const char* asks : {"fa1-table21", "all --quick", "fa1-table21 --check"}) {
    const Result refused = run(std::string("reproduce --backend cuda --out p ") + asks);
    EXPECT_EQ(refused.code, 3) << asks;
    EXPECT_EQ(refused.out, "");
    EXPECT_PRED2(contains, refused.err, "--backend cuda: this machine has no cuda device: ");
    EXPECT_PRED2(contains, refused.err, "attnlab doctor says what is missing, and --backend cpu ");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "p")) << asks;
  }
}

// The committed verdicts and pages are those of the committed records, byte for byte.
TEST_F(CliReproduce, CommittedRunsAreWhatTheirRecordsGive) {
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in_tree("results"))) {
    const std::filesystem::path paper = entry.path() / "paper";
    if (!std::filesystem::exists(paper)) continue;
    ++runs;
    std::map<std::string, std::string> results;
    for (const auto& file : std::filesystem::directory_iterator(paper)) {
      const std::string name = file.path().filename().string();
      if (name.ends_with(".result.json")) results[name] = read(file.path()) + "\n";
    }
    std::string committed;
    for (const auto& [name, text] : results) committed += text;
    const Result made = run("reproduce --records '" + paper.string() + "' --format json");
    EXPECT_TRUE(made.out == committed) << paper << ": reproduce --records makes other results";
    const Result page = run("report '" + paper.string() + "' --html page.html");
    EXPECT_EQ(page.code, 0) << page.err;
    EXPECT_TRUE(read(folder_ / "page.html") == read(paper / "report.html"))
        << paper << ": attnlab report makes another page";
  }
  EXPECT_GT(runs, 0);
}

// It goes the whole way: run, tables, verdicts, files; then again from the records alone.
TEST_F(CliReproduce, MeasuresMemoryOnACpu) {
  const Result ran = run("reproduce fa1-table21 --backend cpu --quick --out p --no-progress");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_PRED2(contains, ran.out, "fa1-table21: FlashAttention Table 21");
  EXPECT_PRED2(contains, one_line(ran.out), "Source: FlashAttention: Fast and Memory-Efficient ");
  // The cuts for a CPU and for a quick look are one, said once.
  EXPECT_PRED2(contains, one_line(ran.out), "; seqlen of 128, 256, 512, 1024, 2048; ");
  EXPECT_FALSE(contains(one_line(ran.out), "4096; ")) << ran.out;
  EXPECT_PRED2(contains, ran.out, "reproduced (R)");
  Json result;
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "p")) {
    if (entry.path().string().ends_with(".result.json")) file = entry.path();
  }
  ASSERT_FALSE(file.empty());
  const std::string first = read(file);
  result = Json::parse(first);
  EXPECT_EQ(result["schema"], "attnlab.reproduction/1");
  // A second call has nothing left to run, and makes of the records the same to the byte.
  const Result refused = run("reproduce fa1-table21 --backend cpu --quick --out p");
  EXPECT_EQ(refused.code, 2);
  EXPECT_PRED2(contains, refused.err, "--resume goes on with them");
  const Result again =
      run("reproduce fa1-table21 --backend cpu --quick --out p --resume --no-progress");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, ran.out);
  EXPECT_EQ(read(file), first);
  const Result page = run("report p --html page.html");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_PRED2(contains, page.out, "page.html: 1 experiment, 0 pictures, ");
  EXPECT_PRED2(contains, read(folder_ / "page.html"), "FlashAttention Table 21: memory usage");
  EXPECT_PRED2(contains, run("report p p --html page.html").err,
               "is there already: name each once");
  EXPECT_EQ(run("report . --html page.html").code, 2);
  EXPECT_FALSE(contains(ran.err, "attnlab table")) << ran.err;  // hints of the run beneath
  const Result spans = run("reproduce fa1-table21 --records p --protocols --format json");
  EXPECT_EQ(spans.code, 0) << spans.err;
  EXPECT_EQ(Json::parse(spans.out)["protocols"][1]["missing"], "no cell comes from a time");
  const Result made = run("reproduce fa1-table21 --records p");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, ran.out);
  EXPECT_EQ(run("reproduce --records p --ae form.md").code, 0);
  // To a CPU's cut --quick adds nothing here, so the command goes without it.
  EXPECT_PRED2(contains, read(folder_ / "form.md"), " --backend cpu --out ");
}

// The ratios of Figure 2 are of one point, which no --quick cuts.
TEST_F(CliReproduce, MeasuresFigure2OnACpu) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers make the oracle ten times slower: 3 minutes";
#endif
  const Result ran =
      run("reproduce fa1-fig2-left --backend cpu --quick --out p --no-progress --format json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_PRED2(contains, ran.err, "fa1-fig2-left: has no part for --quick: it is not cut by it.");
  EXPECT_EQ(claim_of(ran.out, "fa1-fig2-bytes-asked")["finding"], "S");  // of a schedule, exact
  EXPECT_EQ(claim_of(ran.out, "fa1-fig2-bytes-counted")["finding"], "X");
  EXPECT_GT(claim_of(ran.out, "fa1-fig2-time-standard")["measured"], 0.0);
}

TEST_F(CliReproduce, JudgesStatusesOfALiveRun) {
  const Result ran =
      run("reproduce t4-study --backend cpu --quick --out p --no-progress --format json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(claim_of(ran.out, "t4-no-backward")["finding"], "R");
  EXPECT_EQ(claim_of(ran.out, "t4-fp32-only")["finding"], "R");
  EXPECT_EQ(claim_of(ran.out, "t4-manual-passes")["finding"], "X");
  // Another cut is another sweep; the form names the one that ran.
  const Result other = run("reproduce t4-study --backend cpu --out p --resume");
  EXPECT_EQ(other.code, 2);
  EXPECT_PRED2(contains, other.err, "is not the sweep that would run now");
  EXPECT_EQ(run("reproduce --records p --ae form.md").code, 0);
  EXPECT_PRED2(contains, read(folder_ / "form.md"), " --backend cpu --quick --out ");
}

// Returns the time of the dense point over that of the one under blocks, for each length.
std::map<int, double> gains_of(const std::string& records) {
  std::map<int, double> dense, sparse;
  std::istringstream lines(records);
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    const bool has_blocks = contains(record["problem"]["mask"], "blocks");
    (has_blocks ? sparse : dense)[record["problem"]["seqlen_q"]] = record["time"]["median_s"];
  }
  for (auto& [seqlen, time] : dense) time /= sparse.at(seqlen);
  return dense;
}

// Measures only the points of one claim of each kind, of one head: whole files take a minute. Times
// of a busy machine decide which verdict it is, but there is one, and it is that of the records.
TEST_F(CliReproduce, JudgesAnOrderAndACrossoverOfLiveRuns) {
  const std::string measures =
      "run --kernel v1 --pass fwdbwd --dtype f32 --batch 1 --heads 1 --layout bhsd --dropout 0.1 "
      "--rounds 3 --no-progress --no-hints --format csv --out ";
  const Result padded = run(measures +
                            "fa1-dropout-padding.jsonl --seqlen 512,1024 --mask "
                            "padding,padding+blocks:butterfly:64x64");
  ASSERT_EQ(padded.code, 0) << padded.err;
  const Result plain = run(measures +
                           "fa1-dropout.jsonl --seqlen 128,256,512,1024 --mask "
                           "none,blocks:butterfly:64x64");
  ASSERT_EQ(plain.code, 0) << plain.err;
  const Result order = run("reproduce fa1-table11 --records . --format json");
  const Json first = claim_of(order.out, "fa1-table11-sparse-first");
  std::map<int, double> gains = gains_of(read(folder_ / "fa1-dropout-padding.jsonl"));
  const double least = std::min(gains.at(512), gains.at(1024));
  EXPECT_DOUBLE_EQ(first["measured"], least) << first;
  EXPECT_EQ(first["finding"] == "R", least >= 0.97) << first;
  const Result crossover = run("reproduce fa1-table17 --records . --format json");
  const Json from = claim_of(crossover.out, "fa1-table17-sparse-crossover");
  gains = gains_of(read(folder_ / "fa1-dropout.jsonl"));
  EXPECT_EQ(from["finding"], gains.at(1024) >= 1.0 ? "R" : "N") << from;
}

TEST_F(CliReproduce, ChecksAgainstAnEarlierRun) {
  ASSERT_NO_FATAL_FAILURE(save_a_run());
  EXPECT_EQ(run("reproduce --records p --check --against p").code, 0);
  // Checks against a run in which every claim that is `now` was reproduced.
  const auto check_where = [&](const std::string& now) {
    const std::filesystem::path earlier = folder_ / ("was" + now);
    std::filesystem::create_directories(earlier);
    Json result = Json::parse(read(folder_ / "p/fa1-memory.result.json"));
    int changed = 0;
    for (Json& claim : result["claims"]) {
      if (claim["finding"] != now) continue;
      claim["finding"] = "R";
      ++changed;
    }
    EXPECT_GT(changed, 0) << now;
    std::ofstream(earlier / "fa1-memory.result.json") << result.dump();
    return run("reproduce --records p --check --against was" + now);
  };
  const Result worse = check_where("S");
  EXPECT_EQ(worse.code, 4) << worse.out;
  EXPECT_PRED2(contains, worse.out, "worse: ");
  const Result lost = check_where("X");
  EXPECT_EQ(lost.code, 3) << lost.out;
  EXPECT_PRED2(contains, lost.out, "lost: ");
  // A claim that never held is named, and breaks nothing.
  std::filesystem::create_directories(folder_ / "never");
  Json never = Json::parse(read(folder_ / "p/fa1-memory.result.json"));
  for (Json& claim : never["claims"]) claim["finding"] = "U";
  std::ofstream(folder_ / "never/fa1-memory.result.json") << never.dump();
  EXPECT_EQ(run("reproduce --records p --check --against never").code, 0);
  // A claim that is gone is lost; where there is nothing to compare with, nothing holds.
  std::filesystem::create_directories(folder_ / "other");
  Json other = never;
  other["claims"] = {{{"id", "fa1-fig2-bytes-asked"}, {"finding", "S"}}};
  std::ofstream(folder_ / "other/fa1-fig2-left.result.json") << other.dump();
  const Result gone = run("reproduce --records p --check --against other");
  EXPECT_EQ(gone.code, 3) << gone.err;
  EXPECT_PRED2(contains, gone.out, "lost: ");
  std::filesystem::create_directories(folder_ / "empty");
  const Result nothing = run("reproduce --records p --check --against empty");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_PRED2(contains, nothing.err, "has no result of what was asked for");
  const Result none = run("reproduce --records p --check --against nowhere");
  EXPECT_EQ(none.code, 2);
  EXPECT_PRED2(contains, none.err, "--against: nowhere: there is no such folder");
}

TEST_F(CliReproduce, AFailedPointIsAFailure) {
  ASSERT_NO_FATAL_FAILURE(save_a_run());
  const std::filesystem::path records = folder_ / "p/fa1-memory.jsonl";
  const std::string good = read(records);
  std::string wrong = good.substr(0, good.find('\n') + 1);
  const std::string status = R"("status":"ok")";
  ASSERT_PRED2(contains, wrong, status);
  wrong.replace(wrong.find(status), status.size(), R"("status":"failed")");
  std::ofstream(records) << good << wrong;
  EXPECT_EQ(run("reproduce --records p").code, 1);
  EXPECT_EQ(run("reproduce --records p --ae form.md").code, 1);
  std::ofstream(records) << wrong << good;  // measured again, and right
  EXPECT_EQ(run("reproduce --records p").code, 0);
}

// Takes records of a CPU, and the same as if of a GPU, twice as slow in cold caches.
TEST_F(CliReproduce, ShowsSpansOfTheProtocolsThatAFolderHas) {
  const std::string records = read(in_tree("tests/data/paper/fa1-fig2-right.jsonl"));
  write("fa1-fig2-right.jsonl", records);
  const std::string asks = "reproduce fa1-fig2-right --records . --protocols";
  const Result cpu = run(asks + " --format json");
  EXPECT_EQ(cpu.code, 0) << cpu.err;
  const Json of_cpu = Json::parse(cpu.out)["protocols"];
  EXPECT_EQ(of_cpu[0]["name"], "hot-burst");
  EXPECT_EQ(of_cpu[1]["missing"], "cold is measured on GPUs only");
  EXPECT_EQ(of_cpu[2]["missing"], "a CPU has no turns: settled is burst there");
  std::istringstream lines(records);
  std::string own, cold;
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line);
    record["backend"] = record["device"]["backend"] = "cuda";
    own += record.dump() + "\n";
    Json& median = record["time"]["median_s"];
    median = 2.0 * median.get<double>();
    record["protocol"]["cache"] = "cold";
    cold += record.dump() + "\n";
  }
  write("fa1-fig2-right.jsonl", own);
  write("fa1-fig2-right.cold-burst.jsonl", own);
  const Result hot = run(asks);
  EXPECT_EQ(hot.code, 2);
  EXPECT_PRED2(contains, hot.err, "cold-burst.jsonl: a record is of caches hot and regime burst");
  write("fa1-fig2-right.cold-burst.jsonl", cold);
  const Result gpu = run(asks + " --format json");
  EXPECT_EQ(gpu.code, 0) << gpu.err;
  const Json result = Json::parse(gpu.out);
  EXPECT_EQ(result["protocols"][1]["records"], "fa1-fig2-right.cold-burst.jsonl");
  EXPECT_EQ(result["protocols"][2]["missing"], "not measured");
  const Json& cell = result["tables"][0]["cells"][0];
  EXPECT_EQ(cell["least"], cell["measured"]);
  EXPECT_EQ(cell["most"], 2.0 * cell["measured"].get<double>());
}

TEST_F(CliReproduce, WritesTheFormOfAnArtifact) {
  const Result blank = run("reproduce fa1-table21 --ae blank.md");
  EXPECT_EQ(blank.code, 0) << blank.err;
  EXPECT_PRED2(contains, blank.out, "blank.md: 1 experiment, 11 claims.");
  EXPECT_PRED2(contains, read(folder_ / "blank.md"), "attnlab reproduce fa1-table21 --out");
  EXPECT_PRED2(contains, run("reproduce --ae all.md").out, " experiments, ");
  const std::string folder = in_tree("tests/data/paper");
  const Result filled = run("reproduce --records " + folder + " --ae filled.md");
  EXPECT_EQ(filled.code, 0) << filled.err;
  const std::string form = read(folder_ / "filled.md");
  EXPECT_PRED2(contains, form, "attnlab reproduce fa1-memory --backend cpu --out");
  EXPECT_PRED2(contains, form, "| device | AMD EPYC |");
  EXPECT_PRED2(contains, form, " | R: ");
  // The digests are what sha256sum makes of the same files.
  const auto check = [&](const std::string& from, const std::string& names) {
    const std::string sums = (folder_ / "sums").string();
    return std::system(fmt::format("cd '{}' && grep -E '^[0-9a-f]{{64}}  {}$' '{}' > '{}' && "
                                   "sha256sum --status -c '{}'",
                                   from, names, (folder_ / "filled.md").string(), sums, sums)
                           .c_str());
  };
  EXPECT_EQ(check(folder, "[a-z0-9-]+\\.jsonl"), 0);
  const bool has_texts = !contains(form, "no kernels of a GPU");
  EXPECT_EQ(check(in_tree(""), "kernels/.*") == 0, has_texts);
  EXPECT_EQ(run("reproduce --records " + folder + " --ae again.md").code, 0);
  EXPECT_EQ(read(folder_ / "again.md"), form);
}

// A process that is asked to end hands it on: nothing goes on measuring, and the status tells.
TEST_F(CliReproduce, EndsItsRunWithItself) {
  const std::filesystem::path script = folder_ / "script.sh", said = folder_ / "said";
  std::ofstream(script) << fmt::format(
      "cd '{}'; export CUDA_VISIBLE_DEVICES=\n"
      "'{}' reproduce fa2-forward --backend cpu --out p --no-progress >/dev/null 2>err &\n"
      "own=$!\n"
      "for i in $(seq 200); do [ -s p/fa2-forward.sweep.json ] && break; sleep 0.05; done\n"
      "sleep 0.3; child=$(pgrep -P $own); kill -TERM $own; wait $own; echo $?\n"
      "kill -0 $child && echo alive || echo gone\n",
      folder_.string(), in_build("attnlab"));
  std::ignore = std::system(
      fmt::format("bash '{}' > '{}' 2>/dev/null", script.string(), said.string()).c_str());
  EXPECT_EQ(read(said), "143\ngone\n") << read(folder_ / "err");
  EXPECT_PRED2(contains, read(folder_ / "err"), "--resume goes on");
}

}  // namespace
}  // namespace attnlab
