#include "harness/report/reproduction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "harness/record/record_file.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;
using Records = std::vector<Json>;

Json timed(const std::string& kernel, int seqlen, double ms) {
  std::vector<std::string> warnings;
  const Records small = read_records(in_tree("tests/data/small.jsonl"), warnings);
  Json record = *std::ranges::find(small, "ok",
                                   [](const Json& of) { return of["status"].get<std::string>(); });
  record["kernel"] = kernel;
  record["key"] = kernel + std::to_string(seqlen);
  record["problem"]["seqlen_q"] = record["problem"]["seqlen_k"] = seqlen;
  record["time"]["median_s"] = 1e-3 * ms;
  record["time"]["ci95_s"] = {0.99e-3 * ms, 1.01e-3 * ms};
  return record;
}

const PublishedTable kPublished = {
    .work = "A paper", .json = Json::parse(R"({"id": "t", "title": "Times", "units": "ms",
      "setting": {"gpu": "A100", "dtype": "fp16"}, "source": {"where": "p. 1"},
      "columns": ["method", "128", "256", "remark"],
      "rows": [{"method": "Slow", "128": 4.0, "256": "OOM", "remark": "r"},
               {"method": "Fast", "128": 2.0, "256": 3.0, "remark": "s"},
               {"method": "Other", "128": 1.0, "256": null, "remark": ""}]})")};

PaperTable table() {
  PaperTable table{.published = "t", .value = "time_ms", .notes = {"Mind the gap."}};
  table.rows.key = {"method"};
  table.rows.entries = {{.name = "Slow", .rule = CellRule{.where = {{"kernel", {"slow"}}}}},
                        {.name = "Fast", .rule = CellRule{.where = {{"kernel", {"fast"}}}}},
                        {.name = "Other", .reason = "not implemented here"}};
  table.columns.field = "seqlen";
  return table;
}

const Records kRecords = {timed("slow", 128, 8.0), timed("fast", 128, 1.0),
                          timed("fast", 256, 6.0)};

TEST(PaperTable, PutsMeasuredBesidePublished) {
  const std::vector<PaperCell> cells = cells_of(table(), kPublished, kRecords, "f");
  ASSERT_EQ(cells.size(), 6u);  // remark is no number
  EXPECT_EQ(cells[0].measured, 8.0);
  EXPECT_EQ(cells[0].ratio, 2.0);
  EXPECT_NEAR(*cells[0].interval_percent, 1.0, 1e-9);
  EXPECT_EQ(cells[0].record, "slow128");
  EXPECT_EQ(cells[1].published, "OOM");
  EXPECT_FALSE(cells[1].measured);
  EXPECT_PRED2(contains, cells[1].trouble, "no record");
  EXPECT_EQ(cells[3].ratio, 2.0);
  EXPECT_EQ(cells[4].trouble, "not implemented here");
  EXPECT_TRUE(cells[5].published.is_null());
}

TEST(PaperTable, ACellMayBeARatioAndHaveAUnit) {
  PaperTable ratios = table();
  ratios.rows.entries[1].rule = CellRule{
      .where = {{"kernel", {"fast"}}}, .over = Conditions{{"kernel", {"slow"}}}, .scale = 10};
  const std::vector<PaperCell> cells = cells_of(ratios, kPublished, kRecords, "f");
  EXPECT_EQ(cells[2].measured, 80.0);  // slow takes 8 times as long
  EXPECT_NEAR(*cells[2].interval_percent, 2.0, 1e-9);
  EXPECT_FALSE(cells[3].measured);
}

TEST(PaperTable, ShowsWhatTheSourceLacksAndWhyAValueIsInDoubt) {
  PaperTable more = table();
  more.rows.beside = {{.name = "ours", .rule = CellRule{.where = {{"kernel", {"fast"}}}}}};
  Records records = kRecords;
  records[1]["time"]["telemetry"] = {{"settled", false}};
  const std::vector<PaperCell> cells = cells_of(more, kPublished, records, "f");
  ASSERT_EQ(cells.size(), 8u);
  EXPECT_EQ(cells[6].row, "ours");
  EXPECT_TRUE(cells[6].published.is_null());
  EXPECT_EQ(cells[6].measured, 1.0);
  EXPECT_EQ(cells[6].trouble, "did not settle");
  records[0]["status"] = "out_of_memory";
  const std::vector<PaperCell> full = cells_of(more, kPublished, records, "f");
  EXPECT_FALSE(full[0].measured);
  EXPECT_EQ(full[0].trouble, "out of memory");
  // The file says why a point was left out, and so does the table.
  records[0]["status"] = "skipped";
  records[0]["reason"] = "out of memory at 128 already";
  EXPECT_EQ(cells_of(more, kPublished, records, "f")[0].trouble,
            "skipped: out of memory at 128 already");
}

TEST(PaperTable, NamesEveryRowOfTheSourceAndNoOther) {
  const auto says = [](const PaperTable& wrong) {
    return usage_error([&] { cells_of(wrong, kPublished, kRecords, "f"); });
  };
  PaperTable wrong = table();
  wrong.rows.entries.pop_back();
  EXPECT_PRED2(contains, says(wrong), "f.rows: the source has 'Other', which select does not name");
  wrong = table();
  wrong.rows.entries[0].name = "Slw";
  EXPECT_PRED2(contains, says(wrong), "did you mean 'Slw'?");
  wrong = table();
  wrong.rows.entries.push_back({.name = "Fasst", .reason = "r"});
  EXPECT_PRED2(contains, says(wrong), "the source has no 'Fasst'; did you mean 'Fast'?");
  wrong = table();
  wrong.rows.key = {"methd"};
  EXPECT_PRED2(contains, says(wrong), "the source has no column 'methd'");
}

constexpr Finding kFindings[] = {Finding::reproduced, Finding::in_shape, Finding::not_reproduced,
                                 Finding::not_applicable, Finding::not_run};

class Reproductions : public testing::Test {
 protected:
  Reproductions() {
    paper_.name = "p";
    paper_.tables = {table()};
    paper_.claims = {claim("first", 4.0), claim("second", 40.0)};
    published_.emplace("t", kPublished);
  }

  // Claims that slow takes `least` times as long as fast at 128, where it takes 8 times.
  static Claim claim(const std::string& id, double least) {
    return {.id = id,
            .tables = {"t"},
            .text = "Fast is fast.",
            .source = "p. 1",
            .kind = ClaimKind::ratio,
            .value = "time_ms",
            .of = {{{"kernel", {"slow"}}}},
            .over = {{"kernel", {"fast"}}},
            .where = {{"seqlen", {"128"}}},
            .published = least,
            .reproduced = {.at_least = least},
            .shape = {.at_least = 1.0}};
  }
  Reproduction make(const Records& records = kRecords) const {
    return reproduce(paper_, published_, records, {});
  }

  // Slow at 128 takes 8 ms by the table's own protocol and 16 ms in cold caches; nothing was
  // measured under load.
  OtherProtocols protocols(const Records& cold = {timed("slow", 128, 16.0)}) const {
    return {.own = "hot-burst",
            .others = {{{.name = "cold-burst", .file = "p.cold-burst.jsonl"}, cold},
                       {{.name = "hot-settled", .missing = "not measured"}, {}}}};
  }

  PaperFile paper_;
  PublishedTables published_;
};

TEST_F(Reproductions, ShowHowFarAProtocolMovesACell) {
  const Reproduction all = reproduce(paper_, published_, kRecords, {}, protocols());
  const std::string text = render_reproduction(all, TableFormat::table);
  EXPECT_PRED2(contains, text, "medians by hot-burst, cold-burst; not hot-settled: not\nmeasured.");
  EXPECT_PRED2(contains, text, "Slow    128             4     8.000  1.00      2  8.000  16.00");
  EXPECT_PRED2(contains, text, "Fast    128             2     1.000  1.00    0.5  1.000  1.000");
  EXPECT_PRED2(contains, text, "R first: Fast is fast.");  // the table's own protocol decides
  EXPECT_PRED2(contains, render_reproduction(all, TableFormat::markdown),
               "| Slow | 128 | 4 | 8.000 | 1.00 | 2 | 8.000 | 16.00 |");
  EXPECT_PRED2(contains, render_reproduction(all, TableFormat::csv), "t,Slow,128,4,8,1");
  EXPECT_PRED2(contains, render_reproduction(all, TableFormat::csv), ",2,8,16,,slow128");
  const Json json = to_json(all);
  EXPECT_EQ(json["protocols"][1]["records"], "p.cold-burst.jsonl");
  EXPECT_EQ(json["protocols"][2]["missing"], "not measured");
  const Json& cell = json["tables"][0]["cells"][0];
  EXPECT_EQ(cell["least"], 8.0);
  EXPECT_EQ(cell["most"], 16.0);
  EXPECT_EQ(cell["by_protocol"][0]["protocol"], "cold-burst");
  EXPECT_EQ(cell["by_protocol"][0]["measured"], 16.0);
  EXPECT_FALSE(to_json(make())["tables"][0]["cells"][0].contains("least"));
}

TEST_F(Reproductions, SpansAreOfWhatMayBeJudged) {
  Records cold = {timed("slow", 128, 16.0)};
  cold[0]["time"]["telemetry"] = {{"settled", false}};
  const Reproduction unsettled = reproduce(paper_, published_, kRecords, {}, protocols(cold));
  const std::optional<Span> span = span_of(unsettled.tables[0].cells[0]);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->most, 8.0);
  EXPECT_PRED2(contains, render_reproduction(unsettled, TableFormat::table),
               "[1] without cold-burst: did not settle");
  paper_.tables[0].value = "workspace_mib";  // no protocol moves it
  const Reproduction counted = reproduce(paper_, published_, kRecords, {}, protocols());
  EXPECT_FALSE(span_of(counted.tables[0].cells[0]));
  cold[0]["device"]["name"] = "Another CPU";
  EXPECT_PRED2(contains,
               usage_error([&] { reproduce(paper_, published_, kRecords, {}, protocols(cold)); }),
               "several devices");
}

TEST_F(Reproductions, ShowTablesNotesAndClaims) {
  const std::string text = render_reproduction(make(), TableFormat::table);
  for (const char* part :
       {"t: Times (ms)", "Published: A100; dtype fp16.", "Measured: Example CPU: time_ms (",
        "Mind the gap.", "Published only: Other: not implemented here.",
        "R first: Fast is fast. [p. 1]", "published 4; is 8; wanted at least 4",
        "Slow    128             4     8.000  1.00      2",
        "S second: ", "p: 1 reproduced (R), 1 in shape (S), 0 not reproduced (N)"}) {
    EXPECT_PRED2(contains, text, part);
  }
  EXPECT_PRED2(contains, render_reproduction(make(), TableFormat::markdown), "## t: Times");
  EXPECT_PRED2(contains, render_reproduction(make(), TableFormat::csv),
               "t,Slow,256,OOM,,,,,,\"kernel slow, seqlen 256: no record\",");
}

TEST_F(Reproductions, AreJsonForOthers) {
  const Json json = to_json(make());
  EXPECT_EQ(json["schema"], "attnlab.reproduction/1");
  EXPECT_EQ(json["device"], "Example CPU");
  EXPECT_EQ(json["tables"][0]["cells"][0]["ratio"], 2.0);
  EXPECT_EQ(json["claims"][0]["finding"], "R");
  EXPECT_EQ(json["claims"][1]["measured"], 8.0);
  EXPECT_EQ(to_json(make()).dump(), json.dump());
}

TEST_F(Reproductions, SayByWhatProtocolsTheyWereTimed) {
  Records records = kRecords;
  records[0]["protocol"] = {{"min_rounds", 9},       {"max_rounds", 15},     {"max_seconds", 2.5},
                            {"warmup_seconds", 0.1}, {"warmup_launches", 3}, {"cache", "cold"},
                            {"regime", "burst"}};
  records[1]["protocol"] = records[0]["protocol"];
  records[1]["protocol"].erase("warmup_launches");
  records[1]["protocol"]["max_rounds"] = 9;
  records[2].erase("protocol");
  EXPECT_EQ(make(records).environment["protocol"],
            "cold, burst; rounds 9 to 15, at most 2.5 s; warm-up 0.1 s, launches 3 or more and "
            "cold, burst; rounds 9, at most 2.5 s; warm-up 0.1 s, launches 1 or more");
}

TEST_F(Reproductions, AreWorseWhereAVerdictFell) {
  const Json before = to_json(make());
  EXPECT_TRUE(worse_than(before, make()).empty());
  Records records = kRecords;
  records[0]["time"]["median_s"] = 2e-3;  // twice as long alone
  const std::vector<Worsened> shape = worse_than(before, make(records));
  ASSERT_EQ(shape.size(), 1u);
  EXPECT_PRED2(starts_with, shape[0].text, "first was R and is S: is 2");
  EXPECT_EQ(shape[0].how, Setback::worse);
  records[0]["time"]["median_s"] = 0.5e-3;
  EXPECT_EQ(worse_than(before, make(records)).size(), 2u);
  records.erase(records.begin());
  const std::vector<Worsened> lost = worse_than(before, make(records));
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_TRUE(lost[0].how == Setback::lost && lost[1].how == Setback::lost);
}

// The test goes through each letter of an earlier run beside each of this one.
TEST_F(Reproductions, ASetbackIsWorseLostOrUnforeseen) {
  paper_.claims.pop_back();
  const auto setback = [&](const std::string& was, const std::string& is) -> std::string {
    Reproduction now = make();
    now.claims[0].judgement.finding =
        *std::ranges::find_if(kFindings, [&](Finding finding) { return letter_of(finding) == is; });
    Json before = to_json(now);
    before["claims"][0]["finding"] = was;
    const std::vector<Worsened> all = worse_than(before, now);
    return all.empty() ? "" : to_string(all[0].how);
  };
  const std::map<std::string, std::string> worse = {
      {"RS", "worse"}, {"RN", "worse"},      {"SN", "worse"},     {"RX", "lost"},
      {"RU", "lost"},  {"SX", "lost"},       {"SU", "lost"},      {"NX", "lost"},
      {"NU", "lost"},  {"XN", "unforeseen"}, {"UN", "unforeseen"}};
  for (const char was : std::string("RSNXU")) {
    for (const char is : std::string("RSNXU")) {
      const auto found = worse.find({was, is});
      EXPECT_EQ(setback({was}, {is}), found == worse.end() ? "" : found->second) << was << is;
    }
  }
}

TEST_F(Reproductions, AreWorseWhereAClaimIsGone) {
  const Json before = to_json(make());
  paper_.claims.pop_back();
  const std::vector<Worsened> gone = worse_than(before, make());
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].text, "second was S and is no claim any more");
  EXPECT_EQ(gone[0].how, Setback::lost);
}

TEST_F(Reproductions, AreOfOneDevice) {
  Records records = kRecords;
  records[1]["device"]["name"] = "Another CPU";
  EXPECT_PRED2(contains, usage_error([&] { make(records); }),
               "several devices (Another CPU and Example CPU)");
}

TEST_F(Reproductions, AreReadBackOrRefused) {
  const TestFile good(".json", to_json(make()).dump());
  EXPECT_EQ(read_result(good.path())["name"], "p");
  for (const char* text : {"[]", "{}", R"({"schema": "attnlab.reproduction/1", "name": "p"})"}) {
    const TestFile bad(".json", text);
    EXPECT_PRED2(contains, usage_error([&] { read_result(bad.path()); }), "is no \"attnlab.repro");
  }
}

TEST_F(Reproductions, AreOfTheTablesThatWereAskedFor) {
  EXPECT_TRUE(reproduce(paper_, published_, kRecords, {"other"}).tables.empty());
  EXPECT_TRUE(reproduce(paper_, published_, kRecords, {"other"}).claims.empty());
  EXPECT_EQ(reproduce(paper_, published_, kRecords, {"t"}).claims.size(), 2u);
}

}  // namespace
}  // namespace attnlab
