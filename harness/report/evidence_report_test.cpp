#include "harness/report/evidence_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json record_of(const char* kernel, const char* status, const Json& evidence) {
  return {{"id", "fwd/f16/b1"},
          {"kernel", kernel},
          {"backend", "cuda"},
          {"config", {{"tf32", 0}}},
          {"protocol", Json::object()},
          {"input_kind", "normal"},
          {"seed", 7},
          {"status", status},
          {"reason", "because"},
          {"evidence", evidence}};
}

Json evidence_of(bool as_asked, const Json& executed) {
  return {{"executed", executed},
          {"as_asked", as_asked},
          {"verified", true},
          {"timed", as_asked},
          {"reason", ""}};
}

Json kernel_of(const std::string& symbol) {
  return {{"symbol", symbol},          {"grid", {2, 66, 1}},
          {"block", {384, 1, 1}},      {"registers", 168},
          {"static_shared_bytes", 16}, {"dynamic_shared_bytes", 213188},
          {"shared_bytes", 213204},    {"launches", 2}};
}

std::vector<Json> points() {
  Json of_peer = kernel_of(std::string(200, 'x'));
  of_peer["static_shared_bytes"] = of_peer["dynamic_shared_bytes"] = nullptr;
  return {record_of("naive", "ok", evidence_of(true, Json::array({kernel_of("softmax_rows")}))),
          record_of("torch:flash", "ok", evidence_of(true, Json::array({of_peer}))),
          record_of("v2", "invalid", evidence_of(false, Json::array({kernel_of("other")}))),
          record_of("minimal", "unsupported", nullptr), record_of("v1", "ok", nullptr)};
}

TEST(EvidenceReport, TellsWhatRanOfEachPoint) {
  const std::string text = render_evidence(points(), {});
  EXPECT_EQ(text.find("fwd/f16/b1"), text.rfind("fwd/f16/b1")) << "a case has one heading";
  for (const char* words :
       {"naive (cuda, tf32=0): ran as asked, verified, timed", "2x66x1", "384x1x1", "16 + 213188",
        "213204\n",
        "v2 (cuda, tf32=0): did not run as asked, verified, not timed, invalid: because",
        "minimal (cuda, tf32=0): unsupported: because",
        "v1 (cuda, tf32=0): nobody looked at what ran"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  }
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
  }
}

TEST(EvidenceReport, DataFormatsHaveALineForEachKernel) {
  const Json rows = Json::parse(render_evidence(points(), {.format = TableFormat::json}));
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0]["symbol"], "softmax_rows");
  EXPECT_EQ(rows[1]["symbol"], std::string(200, 'x'));
  EXPECT_EQ(rows[2]["as_asked"], false);
  EXPECT_TRUE(rows[3]["symbol"].is_null());
  const std::string csv = render_evidence(points(), {.format = TableFormat::csv});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
}

TEST(EvidenceReport, ConditionsChoosePoints) {
  const std::string text = render_evidence(points(), {.where = {{"kernel", {"naive"}}}});
  EXPECT_NE(text.find("softmax_rows"), std::string::npos);
  EXPECT_EQ(text.find("minimal"), std::string::npos);
  EXPECT_THROW(render_evidence(points(), {.where = {{"kernel", {"v9"}}}}), UsageError);
}

}  // namespace
}  // namespace attnlab
