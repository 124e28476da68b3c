#include "harness/base/text_table.h"

#include <gtest/gtest.h>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

const TextTable kGrid = {.columns = {{"", "name", true}, {"v2", "ms"}, {"v2", "GFLOP/s"}},
                         .rows = {{{"a"}, {"1.5"}, {"20"}}, {{"b,\"c|"}, {"skipped [1]", 2}, {}}}};

TEST(TextTable, PlainTextIsAligned) {
  EXPECT_EQ(render_plain(kGrid),
            "       ---- v2 ----\n"
            "name    ms  GFLOP/s\n"
            "-------------------\n"
            "a      1.5       20\n"
            "b,\"c|   skipped [1]\n");
}

TEST(TextTable, Markdown) {
  EXPECT_EQ(render_markdown(kGrid),
            "| name | v2 ms | v2 GFLOP/s |\n"
            "|:---|---:|---:|\n"
            "| a | 1.5 | 20 |\n"
            "| b,\"c\\| | skipped [1] | |\n");
}

TEST(TextTable, CsvQuotesAndRepeats) {
  EXPECT_EQ(render_csv(kGrid),
            "name,v2 ms,v2 GFLOP/s\r\n"
            "a,1.5,20\r\n"
            "\"b,\"\"c|\",skipped [1],skipped [1]\r\n");
}

TEST(TextTable, CountsCharactersAndNotBytes) {
  EXPECT_EQ(width("abc\n\xC3\xA4\xC3\xB6\n"), 3u);
  EXPECT_EQ(width(""), 0u);
}

TEST(TextTable, WrapKeepsEveryWordWithinThePage) {
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

TEST(TextTable, ALongWordIsIndentedLess) {
  const std::string path(95, 'x');
  EXPECT_EQ(wrap("what                it is at " + path, 20),
            "what                it is at\n     " + path + "\n");
}

// Sets the page's width for one test and resets it, so that no other test inherits it.
struct PageOf {
  explicit PageOf(std::size_t columns) { set_page_width(columns); }
  ~PageOf() { set_page_width(std::nullopt); }
};

TEST(TextTable, OneThatIsTooWideComesInPartsWithItsKeys) {
  const TextTable table = {.columns = {{"", "pass", true},
                                       {"", "GFLOP"},
                                       {"", "kernel", true, true},
                                       {"time", "ms"},
                                       {"time", "ci"},
                                       {"", "MiB"}},
                           .rows = {{{"fwd"}, {"1.5"}, {"naive"}, {"0.25"}, {"0.01"}, {"64"}},
                                    {{"bwd"}, {"3.5"}, {"v2"}, {"none [1]", 3}, {}, {}}}};
  const PageOf page(26);
  EXPECT_EQ(width(table), 36U);
  EXPECT_EQ(render_plain(table),
            "pass  GFLOP  kernel\n"
            "-------------------\n"
            "fwd     1.5  naive\n"
            "bwd     3.5  v2\n"
            "\n"
            "              -- time --\n"
            "pass  kernel    ms    ci\n"
            "------------------------\n"
            "fwd   naive   0.25  0.01\n"
            "bwd   v2        none [1]\n"
            "\n"
            "pass  kernel       MiB\n"
            "----------------------\n"
            "fwd   naive         64\n"
            "bwd   v2      none [1]\n");
}

TEST(TextTable, NoneIsTornWhereThereIsNoTerminal) {
  TextTable table = {.columns = {{"", "name", true}}, .rows = {{{"a"}}}};
  for (int i = 0; i < 80; ++i) {
    table.columns.push_back({"", "ms"});
    table.rows[0].push_back({"1"});
  }
  EXPECT_EQ(width(render_plain(table)), 4U + 80U * 4U);
  EXPECT_EQ(page_width(), 100U) << "of sentences, and of what a table shows by default";
}

TEST(TextTable, RowsAreNumberedWhereKeysLeaveNoRoom) {
  const TextTable table = {
      .columns = {{"", "id", true}, {"", "kernel", true, true}, {"", "ms"}},
      .rows = {{{"fwd/causal"}, {"naive"}, {"0.25"}}, {{"bwd"}, {"v2"}, {"1.50"}}}};
  const PageOf page(20);
  EXPECT_EQ(render_plain(table),
            "#  id\n"
            "-------------\n"
            "1  fwd/causal\n"
            "2  bwd\n"
            "\n"
            "#  kernel    ms\n"
            "---------------\n"
            "1  naive   0.25\n"
            "2  v2      1.50\n");
}

// Keys and one column do not fit together: the text is wider than the page, but nothing is lost.
TEST(TextTable, EveryPartHasAColumn) {
  const PageOf page(5);
  const std::string text = render_plain(kGrid);
  EXPECT_PRED2(contains, text, "ms\n");
  EXPECT_PRED2(contains, text, "GFLOP/s\n");
}

TEST(TextTable, SentencesAreNoWiderThanCanBeRead) {
  const PageOf page(200);
  EXPECT_LE(width(wrap(std::string(40, 'a') + " " + std::string(60, 'b'))), 100U);
}

TEST(TextTable, FootnotesAreSharedByReason) {
  Footnotes footnotes;
  EXPECT_EQ(footnotes.mark("skipped", "slow"), "skipped [1]");
  EXPECT_EQ(footnotes.mark("failed", "wrong"), "failed [2]");
  EXPECT_EQ(footnotes.mark("skipped", "slow"), "skipped [1]");
  EXPECT_EQ(footnotes.mark("ok", ""), "ok");
  EXPECT_EQ(footnotes.text(), "[1] slow\n[2] wrong\n");
}

TEST(TextTable, Formats) {
  EXPECT_EQ(parse_format("markdown", ""), TableFormat::markdown);
  EXPECT_NE(usage_error([] { parse_format("cvs", "--format"); }).find("'csv'"), std::string::npos);
}

}  // namespace
}  // namespace attnlab
