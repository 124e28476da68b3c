#include "harness/report/html_page.h"

#include <gtest/gtest.h>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json result() {
  return Json::parse(R"({"schema": "attnlab.reproduction/1", "name": "some", "title": "A < B",
    "device": "a CPU", "records": "some.jsonl", "cut": "batch 1",
    "environment": {"commit": "abc", "command": "attnlab run some.sweep.json"},
    "tables": [{"id": "t", "title": "Times & more", "units": "ms", "gpu": "A100",
      "source": {}, "notes": ["Mind the gap."], "cells": [
        {"row": "<slow>", "column": "128", "published": 4.0, "measured": 8.0,
         "interval_percent": 1.5, "ratio": 2.0, "trouble": "", "record": "k1"},
        {"row": "fast", "column": "128", "published": "OOM", "measured": null,
         "interval_percent": null, "ratio": null, "trouble": "no record", "record": ""}]}],
    "claims": [{"id": "c", "tables": ["t"], "text": "It is fast.", "source": "p. 1",
      "finding": "R", "published": 2.0, "measured": 2.5, "reason": "is 2.5"}]})");
}

TEST(HtmlPage, HoldsTablesNotesAndVerdicts) {
  const std::string page =
      render_page({{.result = result(), .figures = {{"t", "<svg>one</svg>"}}}});
  for (const char* part :
       {"<!DOCTYPE html>", "<html lang=\"en\">", "<th scope=\"row\">&lt;slow&gt;</th>",
        "<td class=\"number\">8.000</td>", "A &lt; B", "Times &amp; more",
        "<p>Note: Mind the gap.</p>", "<td class=\"R\"><strong>R</strong></td>",
        "Without a record: 1 cell.", "<figure>\n<svg>one</svg>",
        "<code>attnlab run some.sweep.json</code>", "prefers-color-scheme: dark", "@media print"}) {
    EXPECT_PRED2(contains, page, part);
  }
  EXPECT_FALSE(contains(page, "<script")) << page;
  EXPECT_FALSE(contains(page, "http")) << page;
  EXPECT_FALSE(contains(page, "Roofline")) << page;
}

TEST(HtmlPage, HasARooflineWhereOneIsDrawn) {
  const std::string page =
      render_page({{.result = result(), .figures = {{"some-roofline", "<svg>roof</svg>"}}}});
  EXPECT_PRED2(contains, page, "<h3>Roofline</h3>\n<figure>\n<svg>roof</svg>\n</figure>\n");
}

TEST(HtmlPage, NamesTheDeviceOnceOrForEachExperiment) {
  Json other = result();
  EXPECT_PRED2(contains, render_page({{.result = other}, {.result = other}}),
               "<caption>Verdicts by experiment, on a CPU</caption>");
  other["device"] = "a GPU & more";
  const std::string page = render_page({{.result = result()}, {.result = other}});
  EXPECT_PRED2(contains, page, "<caption>Verdicts by experiment</caption>");
  EXPECT_PRED2(contains, page, "<th scope=\"col\">device</th>");
  EXPECT_PRED2(contains, page, "<td>a CPU</td>");
  EXPECT_PRED2(contains, page, "<td>a GPU &amp; more</td>");
}

TEST(HtmlPage, ShowsSpansWhereTheyWereMeasured) {
  Json more = result();
  EXPECT_FALSE(contains(render_page({{.result = more}}), "by protocol"));
  more["protocols"] = Json::parse(R"([{"name": "hot-burst", "records": "r", "missing": ""},
    {"name": "cold-burst", "records": "", "missing": "not measured"}])");
  for (Json& cell : more["tables"][0]["cells"]) {
    cell["least"] = 7.5;
    cell["most"] = 9.25;
  }
  const std::string page = render_page({{.result = more}});
  for (const char* part :
       {"most by protocol</th>", "<td class=\"number\">7.500</td><td class=\"number\">9.250</td>",
        "<li>hot-burst</li>", "<li>cold-burst: not measured</li>"}) {
    EXPECT_PRED2(contains, page, part);
  }
}

TEST(HtmlPage, TakesPicturesThatLoadAndRunNothing) {
  const std::string svg =
      "<?xml version='1.0'?>\n<svg><g id=\"a\"><use href=\"#a\"/>"
      "<path clip-path=\"url(#a)\"/></g></svg>\n";
  EXPECT_EQ(inline_svg(svg, "f1-", "t.svg"),
            "<svg><g id=\"f1-a\"><use href=\"#f1-a\"/><path clip-path=\"url(#f1-a)\"/></g></svg>");
  for (const char* wrong :
       {"<svg><script>1</script></svg>", "<svg><image href=\"x.png\"/></svg>",
        "<svg onload=\"x\"></svg>", "<svg><a href=\"https://x\"/></svg>",
        "<svg><style>@import 'x'</style></svg>", "<svg><path fill=\"url(http://x)\"/></svg>",
        "<svg/onload=alert(1)></svg>", "<svg><use xlink:href=javascript:1 /></svg>",
        "<svg><embed src=\"x\"/></svg>", "<svg><set attributeName=\"href\"/></svg>",
        "<svg xml:base=\"http://x\"></svg>", "<svg><g id='a'/></svg>",
        "<svg></svg><p>x</p><svg></svg>"}) {
    EXPECT_PRED2(contains, usage_error([&] { inline_svg(wrong, "", "t.svg"); }),
                 "has no place in a page");
  }
  EXPECT_PRED2(contains, usage_error([&] { inline_svg("none", "", "t.svg"); }), "holds no <svg>");
}

}  // namespace
}  // namespace attnlab
