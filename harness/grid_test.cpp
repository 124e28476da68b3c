#include "harness/grid.h"

#include <gtest/gtest.h>

#include "harness/test_support.h"

namespace attnlab {
namespace {

const Grid kGrid = {.columns = {{"", "name", true}, {"v2", "ms"}, {"v2", "GFLOP/s"}},
                    .rows = {{{"a"}, {"1.5"}, {"20"}}, {{"b,\"c|"}, {"skipped [1]", 2}, {}}}};

TEST(Grid, PlainTextIsAligned) {
  EXPECT_EQ(render_plain(kGrid),
            "       ---- v2 ----\n"
            "name    ms  GFLOP/s\n"
            "-------------------\n"
            "a      1.5       20\n"
            "b,\"c|   skipped [1]\n");
}

TEST(Grid, Markdown) {
  EXPECT_EQ(render_markdown(kGrid),
            "| name | v2 ms | v2 GFLOP/s |\n"
            "|:---|---:|---:|\n"
            "| a | 1.5 | 20 |\n"
            "| b,\"c\\| | skipped [1] | |\n");
}

TEST(Grid, CsvQuotesAndRepeats) {
  EXPECT_EQ(render_csv(kGrid),
            "name,v2 ms,v2 GFLOP/s\r\n"
            "a,1.5,20\r\n"
            "\"b,\"\"c|\",skipped [1],skipped [1]\r\n");
}

TEST(Grid, CountsCharactersAndNotBytes) {
  EXPECT_EQ(width("abc\n\xC3\xA4\xC3\xB6\n"), 3u);
  EXPECT_EQ(width(""), 0u);
}

TEST(Grid, WrapKeepsEveryWordWithinThePage) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += (i > 0 ? " word" : "word") + std::to_string(i);
  const std::string wrapped = wrap(text, 4);
  EXPECT_LE(width(wrapped), kPageWidth);
  EXPECT_GT(width(wrapped), kPageWidth - 8);
  std::string joined;
  for (std::size_t i = 0; i + 1 < wrapped.size(); ++i) {
    if (wrapped.compare(i, 5, "\n    ") == 0) {
      joined += ' ';
      i += 4;
    } else {
      joined += wrapped[i];
    }
  }
  EXPECT_EQ(joined, text);
}

TEST(Grid, FootnotesAreSharedByReason) {
  Footnotes footnotes;
  EXPECT_EQ(footnotes.mark("skipped", "slow"), "skipped [1]");
  EXPECT_EQ(footnotes.mark("failed", "wrong"), "failed [2]");
  EXPECT_EQ(footnotes.mark("skipped", "slow"), "skipped [1]");
  EXPECT_EQ(footnotes.mark("ok", ""), "ok");
  EXPECT_EQ(footnotes.text(), "[1] slow\n[2] wrong\n");
}

TEST(Grid, Formats) {
  EXPECT_EQ(parse_format("markdown", ""), TableFormat::markdown);
  EXPECT_NE(usage_error([] { parse_format("cvs", "--format"); }).find("'csv'"), std::string::npos);
}

}  // namespace
}  // namespace attnlab
