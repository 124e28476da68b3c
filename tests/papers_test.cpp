// Compares the paper files of the tree with what is published, and with their own sweeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>

#include "harness/cli/reproduce_list.h"
#include "harness/measure/peaks.h"
#include "harness/plan/accounting.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/gpus.h"
#include "harness/plan/sweep_file.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/claims.h"
#include "harness/report/paper_file.h"
#include "harness/report/paper_table.h"
#include "harness/report/published.h"
#include "harness/session/experiment.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

const std::string kFolder = in_tree("sweeps/paper");

const std::vector<PaperFile>& papers() {
  static const std::vector<PaperFile> kPapers = read_papers(kFolder, builtin_registry());
  return kPapers;
}

const PublishedTables& published() {
  static const PublishedTables kTables = read_published(kFolder + "/published");
  return kTables;
}

// kGpu runs all kernels; kCpu is a CPU.
const Device kGpu = device_of(*parse_gpus("H200", "a GPU").front());
const Device kCpu = choose_device(BackendChoice::cpu);

// Returns the points of a paper as records that say no more than what they are of.
std::vector<RecordJson> planned(const PaperFile& paper, const ExperimentCut& cut,
                                const Device& device) {
  Sweep sweep = read_sweep(sweep_to_run(paper, cut), paper.name, builtin_registry());
  sweep.source = paper.name;
  std::vector<RecordJson> records;
  for (const Case& work : expand(sweep, builtin_registry(), device)) {
    for (const Competitor& competitor : work.competitors) {
      if (!competitor.skipped.empty()) continue;
      Record record{.point = work, .pattern = summarize_pattern(work.problem), .device = device};
      record.point.competitors = {competitor};
      record.status = competitor.unsupported.empty() ? Status::ok : Status::unsupported;
      records.push_back(to_json(record));
    }
  }
  return records;
}

// Returns the ids of README's table of what is not measured here.
std::set<std::string> left_out() {
  std::set<std::string> ids;
  std::ifstream file(kFolder + "/README.md");
  const std::regex row(R"(^\| `([a-z0-9.-]+)` \| \S.*\|$)");
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    is_there = is_there || line == "## Tables that are not measured here";
    std::smatch match;
    if (is_there && std::regex_match(line, match, row)) ids.insert(match[1]);
  }
  return ids;
}

TEST(Papers, EveryPublishedTableHasAFileOrAReason) {
  std::set<std::string> measured;
  for (const PaperFile& paper : papers()) {
    for (const PaperTable& table : paper.tables) measured.insert(table.published);
    measured.insert(paper.headlines.begin(), paper.headlines.end());
  }
  const std::set<std::string> reasons = left_out();
  EXPECT_EQ(published().size(), 126u);
  for (const auto& [id, table] : published()) {
    EXPECT_NE(measured.contains(id), reasons.contains(id)) << id;
  }
  for (const std::string& id : reasons) EXPECT_TRUE(published().contains(id)) << id;
  for (const std::string& id : measured) EXPECT_TRUE(published().contains(id)) << id;
}

// A cell may lack its point, left out to save time, but none may have several.
TEST(Papers, CellsNameWhatTheSourceHas) {
  for (const PaperFile& paper : papers()) {
    const std::vector<RecordJson> records = planned(paper, {.backend = BackendChoice::cuda}, kGpu);
    for (const PaperTable& table : paper.tables) {
      const std::string where = paper.name + ": " + table.published;
      const std::vector<PaperCell> cells =
          cells_of(table, find_published(published(), table.published, where), records, where);
      int printed = 0, found = 0;
      for (const PaperCell& cell : cells) {
        EXPECT_FALSE(contains(cell.trouble, "fit several points")) << where << cell.trouble;
        if (!cell.is_measurable || cell.published.is_null()) continue;
        ++printed;
        found += cell.record.empty() ? 0 : 1;
      }
      EXPECT_GT(printed, 0) << where;
      EXPECT_GE(2 * found, printed) << where << ": most cells have no point";
    }
  }
}

// Expects what find_record() would say of a claim's points, were all the sweep's points recorded.
void expect_points(const Claim& claim, const std::vector<RecordJson>& records,
                   const std::string& where) {
  std::vector<Conditions> sides = claim.of;
  if (!claim.over.empty()) sides.push_back(claim.over);
  for (const Conditions& point : points_of(claim.where)) {
    for (const Conditions& side : sides) {
      const Found found = find_record(records, merged(point, side));
      EXPECT_EQ(found.trouble, "") << where;
      if (found.record == nullptr || claim.kind == ClaimKind::status) continue;
      const RecordJson& record = *found.record;
      EXPECT_EQ(record["status"], "ok") << where << ": " << record["key"];
    }
  }
}

TEST(Papers, EveryClaimIsAboutPointsThatItsSweepHasOnce) {
  for (const PaperFile& paper : papers()) {
    const std::vector<RecordJson> records = planned(paper, {.backend = BackendChoice::cuda}, kGpu);
    for (const Claim& claim : paper.claims) {
      if (claim.kind == ClaimKind::not_here) continue;
      expect_points(claim, records, paper.name + ": " + claim.id);
    }
  }
}

TEST(Papers, CutsLeaveSomethingToRun) {
  for (const PaperFile& paper : papers()) {
    const std::size_t all = planned(paper, {.backend = BackendChoice::cuda}, kGpu).size();
    if (paper.has_quick) {
      const std::size_t quick =
          planned(paper, {.backend = BackendChoice::cuda, .quick = true}, kGpu).size();
      EXPECT_GT(quick, 0u) << paper.name;
      EXPECT_LT(quick, all) << paper.name;
    }
    if (!paper.has_cpu) continue;
    EXPECT_GT(planned(paper, {.backend = BackendChoice::cpu}, kCpu).size(), 0u) << paper.name;
    EXPECT_TRUE(paper.budget.cpu_minutes) << paper.name;
  }
}

// --protocols runs this on a GPU: each state is a protocol that goes together, with time for its
// rounds, and the points are the file's.
TEST(Papers, EveryProtocolRunsTheSamePoints) {
  for (const PaperFile& paper : papers()) {
    const ExperimentCut own{.backend = BackendChoice::cuda};
    for (const TimingState state : kTimingStates) {
      ExperimentCut cut = own;
      cut.state = state;
      const Sweep sweep = read_sweep(sweep_to_run(paper, cut), paper.name, builtin_registry());
      const Protocol protocol = resolve(sweep.protocol, kGpu);
      EXPECT_EQ(protocol.cache, state.cache) << paper.name;
      EXPECT_EQ(protocol.regime, state.regime) << paper.name;
      if (state.regime == Regime::settled) {
        EXPECT_GT(protocol.max_seconds, protocol.turn_seconds * protocol.max_rounds) << paper.name;
      }
      const std::filesystem::path records = files_of(paper, "d", state).records;
      EXPECT_EQ(records, "d/" + paper.name + "." + to_string(state) + ".jsonl");
    }
    EXPECT_EQ(own_state(paper), TimingState()) << paper.name;
  }
}

// A launch above 50 ms is warmed up by one alone, and of one above 1 s there are 3 samples at most.
TEST(Papers, LongLaunchesAreFew) {
  for (const PaperFile& paper : papers()) {
    const Sweep sweep = read_sweep(sweep_to_run(paper, {.backend = BackendChoice::cuda}),
                                   paper.name, builtin_registry());
    const Protocol protocol = resolve(sweep.protocol, kGpu);
    EXPECT_EQ(protocol.warmup_launches, 1) << paper.name;
    EXPECT_LE(protocol.warmup_seconds, 0.05) << paper.name;
    EXPECT_LE(protocol.max_seconds, 3.0) << paper.name;
  }
}

// At least this many claims can get a verdict on a GPU, half of them about time.
TEST(Papers, ThereAreEnoughClaims) {
  int judged = 0, of_time = 0;
  for (const PaperFile& paper : papers()) {
    for (const Claim& claim : paper.claims) {
      if (claim.kind == ClaimKind::not_here) continue;
      ++judged;
      const bool is_time = !claim.value.empty() && find_field(claim.value, "").interval != nullptr;
      of_time += is_time ? 1 : 0;
    }
  }
  EXPECT_GE(judged, 60);
  EXPECT_GE(of_time, 30);
}

// Adds the numbers that "(error 9)" or "errors 1, 2 and 5" name.
void add_errors(const std::string& text, std::set<int>& errors) {
  static const std::regex kErrors(R"(errors? ([0-9]+(?:, [0-9]+)*(?: and [0-9]+)?))");
  static const std::regex kNumber("[0-9]+");
  for (std::sregex_iterator it(text.begin(), text.end(), kErrors), end; it != end; ++it) {
    const std::string list = (*it)[1];
    for (std::sregex_iterator number(list.begin(), list.end(), kNumber); number != end; ++number) {
      errors.insert(std::stoi(number->str()));
    }
  }
}

// Each error of the sources stands beside a table that it touches, or where README says why the
// tables that it touches are not measured.
TEST(Papers, EveryErrorOfTheSourcesIsNamed) {
  std::set<int> named;
  for (const PaperFile& paper : papers()) {
    for (const PaperTable& table : paper.tables) {
      for (const std::string& note : table.notes) add_errors(note, named);
    }
  }
  for (int error = 1; error <= 14; ++error) {
    EXPECT_TRUE(named.contains(error)) << "error " << error << " is in no note";
  }
  std::ifstream file(kFolder + "/README.md");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) add_errors(line, named);
  }
  std::set<int> all;
  for (int error = 1; error <= 14; ++error) all.insert(error);
  EXPECT_EQ(named, all);
}

// Names figures of a source that are wrong, or say nothing for lack of a setting, and the published
// tables of whose claims none may use them: ids or their beginnings. Errors 1, 2 and 4 are words.
struct WrongFigures {
  int error = 0;
  std::vector<std::string> tables;
  std::vector<double> figures;
};

const std::vector<WrongFigures> kWrongFigures = {
    {3, {"seed001-memory"}, {0.5}},  // GB, whatever the length
    {5, {"fa2-fig4", "fa2-fig5", "fa2-fig6"}, {170.0, 30.0, 50.0}},
    {5, {"fa3-fig9", "fa3-headlines"}, {76.0, 0.76}},
    {6, {"fa1-fig2-left", "seed004-fig2"}, {1.33, 33.0, 0.33}},
    {7, {"seed003-t4-forward"}, {4.6, 4.59}},
    {8, {"fa1-headlines"}, {2.0, 16.0}},
    // Lengths from which on block-sparse would be the fastest.
    {8, {"fa1-table15", "fa1-table17", "fa1-table18", "fa1-table20"}, {128.0, 256.0, 512.0}},
    {9, {"fa1-fig7", "fa1-fig8-bottom"}, {2.5, 4.5}},
    {9, {"fa1-table9", "fa1-table10", "fa1-table11"}, {24.62, 16.5, 1.49, 8092.0}},
    {10, {"fa1-fig2-left", "seed004-fig2"}, {66.6, 75.2, 1.13, 7.3}},
    {11, {"fa1-headlines", "fa1-table18", "fa1-table19", "fa1-table20"}, {3.0, 3.3}},
    {12, {"fa2-fig4", "fa2-fig5", "fa2-fig6", "fa2-headlines"}, {230.0, 73.0}},
    {12, {"fa2-fig7", "fa2-headlines"}, {335.0}},
    {13, {"fa3-fig5", "fa3-headlines"}, {740.0, 75.0, 74.8, 3.0, 16.0}},
    {14, {"peers-sage-h100"}, {410.0, 470.0}},
};

// Returns the numbers that a claim's verdict rests on, or that stand beside it.
std::vector<double> figures_of(const Claim& claim) {
  std::vector<double> figures;
  for (const std::optional<double>& figure :
       {claim.published, claim.reproduced.at_least, claim.reproduced.at_most, claim.shape.at_least,
        claim.shape.at_most}) {
    if (figure) figures.push_back(*figure);
  }
  return figures;
}

bool is_about(const Claim& claim, const std::vector<std::string>& tables) {
  return std::ranges::any_of(claim.tables, [&](const std::string& id) {
    return std::ranges::any_of(tables, [&](const std::string& one) { return id.starts_with(one); });
  });
}

// Expects that a claim has none of the figures, each as exact as it is printed.
void expect_none_of(const Claim& claim, const std::vector<double>& wrong, int error) {
  for (const double figure : figures_of(claim)) {
    for (const double one : wrong) {
      EXPECT_GT(std::abs(figure - one), 1e-3 * one)
          << claim.id << " has " << one << ", which is wrong: error " << error;
    }
  }
}

TEST(Papers, NoVerdictRestsOnAWrongFigure) {
  for (const PaperFile& paper : papers()) {
    for (const Claim& claim : paper.claims) {
      for (const WrongFigures& wrong : kWrongFigures) {
        if (is_about(claim, wrong.tables)) expect_none_of(claim, wrong.figures, wrong.error);
      }
      // One of two figures with the same bars is a copy (error 9): no bar of either is of use.
      for (const char* id : {"fa1-fig7", "fa1-fig8-bottom"}) {
        if (!is_about(claim, {id})) continue;
        for (const auto& row : published().at(id).json["rows"]) {
          for (const auto& value : row) {
            if (value.is_number()) expect_none_of(claim, {value.get<double>()}, 9);
          }
        }
      }
    }
  }
  for (const WrongFigures& wrong : kWrongFigures) {
    for (const std::string& table : wrong.tables) {
      const auto place = published().lower_bound(table);
      EXPECT_TRUE(place != published().end() && place->first.starts_with(table)) << table;
    }
  }
}

bool is_within(const Bounds& bounds, double value, double tolerance) {
  return (!bounds.at_least || value >= *bounds.at_least * (1.0 - tolerance)) &&
         (!bounds.at_most || value <= *bounds.at_most * (1.0 + tolerance));
}

// Tolerances come from noise; and what the source found itself reproduces its claim: a claim that
// takes any result would be none.
TEST(Papers, BoundsAreThoseOfTheSource) {
  for (const PaperFile& paper : papers()) {
    for (const Claim& claim : paper.claims) {
      EXPECT_LE(claim.tolerance, 0.1) << claim.id;
      const Bounds& wanted = claim.reproduced;
      if (claim.published && (wanted.at_least || wanted.at_most)) {
        EXPECT_TRUE(is_within(wanted, *claim.published, claim.tolerance)) << claim.id;
      }
      if (wanted.at_least && claim.shape.at_least) {
        EXPECT_LE(*claim.shape.at_least, *wanted.at_least) << claim.id;
      }
      if (wanted.at_most && claim.shape.at_most) {
        EXPECT_GE(*claim.shape.at_most, *wanted.at_most) << claim.id;
      }
    }
  }
}

// Whoever begins a run without peaks learns beforehand what it will not say.
TEST(Papers, ClaimsOfSharesOfPeaksNeedPeaks) {
  const KnownPeaks unknown = {.reason = "attnlab peak measures them"};
  KnownPeaks known;
  known.peaks.emplace();
  const auto named = [](const char* name) {
    return *std::ranges::find(papers(), name, &PaperFile::name);
  };
  EXPECT_EQ(missing_peaks(named("fa3-forward"), unknown),
            "fa3-forward: 3 claims of the share of a peak will be U: attnlab peak measures them");
  EXPECT_EQ(missing_peaks(named("fa3-forward"), known), "");
  EXPECT_EQ(missing_peaks(named("fa1-apex"), unknown), "");
}

}  // namespace
}  // namespace attnlab
