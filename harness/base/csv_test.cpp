#include "harness/base/csv.h"

#include <gtest/gtest.h>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Rows = std::vector<CsvRow>;

TEST(Csv, ReadsPlainAndQuotedFields) {
  EXPECT_EQ(parse_csv("a,b\n1,2\n", "f"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(parse_csv("\"a, b\",\"say \"\"x\"\"\"\r\n,\r\n", "f"),
            (Rows{{"a, b", "say \"x\""}, {"", ""}}));
  EXPECT_EQ(parse_csv("\"two\nlines\",\"\"\n", "f"), (Rows{{"two\nlines", ""}}));
  EXPECT_EQ(parse_csv("", "f"), Rows());
}

TEST(Csv, RefusesWhatIsNoneAndSaysWhere) {
  const auto error = [](const std::string& text) {
    return usage_error([&] { parse_csv(text, "f.csv"); });
  };
  EXPECT_EQ(error("a,b\n1\n"), "f.csv: row 2 has 1 field, but the first has 2");
  EXPECT_EQ(error("a\n1"), "f.csv: line 2: ends within its last line");
  EXPECT_EQ(error("a\n\"1\n"), "f.csv: line 2: a field's closing quote is missing");
  EXPECT_EQ(error("a\n\"1\"2\n"),
            "f.csv: line 2: neither a comma nor the line's end follows a field");
  EXPECT_EQ(error("a\n1\"2\"\n"), "f.csv: line 2: a quote within a field that has none around it");
  EXPECT_EQ(error("a\rb\n"), "f.csv: line 1: neither a comma nor the line's end follows a field");
}

}  // namespace
}  // namespace attnlab
