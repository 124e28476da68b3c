#include "harness/report/html_page.h"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <set>

#include "harness/base/strict_json.h"
#include "harness/base/text_table.h"
#include "harness/base/xml.h"
#include "harness/report/fields.h"
#include "harness/report/reproduction.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Colours have a contrast of at least 4.5 to 1 on their ground, in both schemes.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1a1a1a; --ground: #ffffff; --soft: #f2f2f2;
  --line: #8a8a8a; --link: #0b57a4; --good: #0b6b2e; --shape: #7a5200; --bad: #a31212; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --ground: #161616; --soft: #262626;
  --line: #8a8a8a; --link: #8cc4ff; --good: #7fdc9b; --shape: #f0c060; --bad: #ff9a9a; } }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 70rem; margin: 0 auto; padding: 1rem; }
a { color: var(--link); } a:focus-visible, .scroll:focus-visible { outline: 3px solid var(--link); }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; } caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .7rem; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
thead th { background: var(--soft); }
figure { margin: 1rem 0; background: #ffffff; padding: .5rem; }
figure svg { max-width: 100%; height: auto; }
.R { color: var(--good); } .S { color: var(--shape); } .N { color: var(--bad); }
code { background: var(--soft); padding: 0 .2rem; overflow-wrap: anywhere; }
.skip { position: absolute; left: -100rem; } .skip:focus { position: static; }
@media print { body { max-width: none; font-size: 9pt; } .scroll { overflow: visible; }
  section { break-inside: auto; } figure, tr { break-inside: avoid; } }
)";

std::string text_of(const Json& value) { return xml_escaped(value.is_null() ? "-" : exact(value)); }

std::string number_of(const Json& value) {
  return value.is_number() ? short_number(value.get<double>()) : "-";
}

std::string cell(const std::string& text) { return fmt::format("<td>{}</td>", text); }
std::string number_cell(const std::string& text) {
  return fmt::format("<td class=\"number\">{}</td>", text);
}

std::string open_table(const std::string& caption, const std::vector<std::string>& titles) {
  std::string text = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>"
      "<caption>{0}</caption>\n<thead><tr>",
      xml_escaped(caption));
  for (const std::string& title : titles) {
    text += fmt::format("<th scope=\"col\">{}</th>", xml_escaped(title));
  }
  return text + "</tr></thead>\n<tbody>\n";
}

constexpr const char* kCloseTable = "</tbody></table></div>\n";

bool is_shown(const Json& cell) { return !cell.at("record").get<std::string>().empty(); }

// Renders cells; the span over protocols stands beside the ratio where one was measured.
std::string cells_of(const Json& table, const Json& result) {
  const bool has_spans = result.contains("protocols");
  std::vector<std::string> titles = {"row", "column", "published", "measured", "+-%", "ratio"};
  if (has_spans) titles.insert(titles.end(), {"least by protocol", "most by protocol"});
  titles.emplace_back("remark");
  std::string text = open_table(
      fmt::format("{}, in {}: published on {}, measured on {}", table.at("id").get<std::string>(),
                  table.at("units").get<std::string>(), table.at("gpu").get<std::string>(),
                  result.at("device").get<std::string>()),
      titles);
  std::size_t hidden = 0;
  for (const Json& value : table.at("cells")) {
    if (!is_shown(value)) {
      ++hidden;
      continue;
    }
    text += fmt::format("<tr><th scope=\"row\">{}</th>", text_of(value.at("row"))) +
            cell(text_of(value.at("column"))) + number_cell(text_of(value.at("published"))) +
            number_cell(number_of(value.at("measured"))) +
            number_cell(number_of(value.at("interval_percent"))) +
            number_cell(number_of(value.at("ratio")));
    if (has_spans) {
      text += number_cell(number_of(value.at("least"))) + number_cell(number_of(value.at("most")));
    }
    text += cell(text_of(value.at("trouble"))) + "</tr>\n";
  }
  text += kCloseTable;
  if (hidden > 0) {
    text += fmt::format("<p>Without a record: {}.</p>\n", count_of(hidden, "cell"));
  }
  return text;
}

std::string claims_of(const Json& result) {
  std::string text = open_table(fmt::format("Claims of {}", result.at("name").get<std::string>()),
                                {"verdict", "claim", "source", "published", "measured", "why"});
  for (const Json& claim : result.at("claims")) {
    const std::string letter = claim.at("finding");
    text += fmt::format("<tr><td class=\"{0}\"><strong>{0}</strong></td>", xml_escaped(letter)) +
            fmt::format("<th scope=\"row\">{}</th>", text_of(claim.at("text"))) +
            cell(text_of(claim.at("source"))) + number_cell(number_of(claim.at("published"))) +
            number_cell(number_of(claim.at("measured"))) + cell(text_of(claim.at("reason"))) +
            "</tr>\n";
  }
  return text + kCloseTable;
}

std::string figure_of(const PageResult& result, const std::string& name) {
  for (const PageFigure& figure : result.figures) {
    if (figure.name == name) return fmt::format("<figure>\n{}\n</figure>\n", figure.svg);
  }
  return "";
}

std::string environment_of(const Json& result) {
  std::string text = "<dl>\n";
  for (const auto& [key, value] : result.at("environment").items()) {
    text += fmt::format("<dt>{}</dt><dd><code>{}</code></dd>\n", xml_escaped(key), text_of(value));
  }
  return text + "</dl>\n";
}

// Lists the protocols by which cells were measured, the tables' own first, and why others were not
// used.
std::string protocols_of(const Json& result) {
  if (!result.contains("protocols")) return "";
  std::string text;
  for (const Json& use : result.at("protocols")) {
    const std::string missing = use.at("missing");
    text += fmt::format("<li>{}{}</li>\n", text_of(use.at("name")),
                        missing.empty() ? "" : ": " + xml_escaped(missing));
  }
  return "<p>Protocols; verdicts rest on the first:</p>\n<ul>\n" + text + "</ul>\n";
}

std::string section_of(const PageResult& page) {
  const Json& result = page.result;
  const std::string name = result.at("name");
  std::string text = fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n",
                                 xml_escaped(name), text_of(result.at("title")));
  const std::string cut = result.at("cut");
  if (!cut.empty()) text += fmt::format("<p>Cut to: {}.</p>\n", xml_escaped(cut));
  text += environment_of(result) + protocols_of(result);
  for (const Json& table : result.at("tables")) {
    text += fmt::format("<h3>{}</h3>\n", text_of(table.at("title")));
    text += figure_of(page, table.at("id"));
    text += cells_of(table, result);
    if (table.contains("values")) {
      text += fmt::format("<p>Measured: {}</p>\n", text_of(table.at("values")));
    }
    for (const Json& note : table.at("notes"))
      text += fmt::format("<p>Note: {}</p>\n", text_of(note));
  }
  if (const std::string roofline = figure_of(page, name + "-roofline"); !roofline.empty()) {
    text += "<h3>Roofline</h3>\n" + roofline;
  }
  text += "<h3>Claims</h3>\n" + figure_of(page, name + "-claims") + claims_of(result);
  return text + "</section>\n";
}

// Names the device in the caption if all have the same, else in a column.
std::string overview_of(const std::vector<PageResult>& results) {
  std::set<std::string> devices;
  for (const PageResult& page : results) devices.insert(page.result.at("device"));
  std::string caption = "Verdicts by experiment";
  std::vector<std::string> titles = {"experiment", "R", "S", "N", "X", "U"};
  if (devices.size() == 1) {
    caption += ", on " + *devices.begin();
  } else {
    titles.insert(titles.begin() + 1, "device");
  }
  std::string text = open_table(caption, titles);
  for (const PageResult& page : results) {
    const Json& result = page.result;
    std::map<std::string, int> counts;
    for (const Json& claim : result.at("claims")) ++counts[claim.at("finding").get<std::string>()];
    text += fmt::format("<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th>",
                        text_of(result.at("name")), text_of(result.at("title")));
    if (devices.size() > 1) text += cell(text_of(result.at("device")));
    for (const char* letter : {"R", "S", "N", "X", "U"}) {
      text += number_cell(fmt::format("{}", counts[letter]));
    }
    text += "</tr>\n";
  }
  return text + kCloseTable +
         "<p>R reproduced, S in shape (in the same direction, not of that size), N not "
         "reproduced, X not applicable, U not run. Absolute times of other GPUs are shown and "
         "never judged.</p>\n";
}

// Refuses what a picture of scripts/plot.py does not have.
void check_svg(const std::string& svg, const std::string& where) {
  const auto fail = [&](const std::string& part) {
    refuse(where, fmt::format("'{}' has no place in a page that loads and runs nothing", part));
  };
  static const std::set<std::string> kElements = {
      "svg",     "title",   "desc",    "metadata", "defs",   "style",    "g",
      "path",    "text",    "use",     "rect",     "circle", "line",     "clipPath",
      "pattern", "rdf:RDF", "cc:Work", "dc:type",  "tspan",  "dc:format"};
  static const std::regex kElement(R"(<\s*/?\s*([^\s/>]+))");
  for (std::sregex_iterator it(svg.begin(), svg.end(), kElement), end; it != end; ++it) {
    if (!kElements.contains((*it)[1])) fail((*it)[0]);
  }
  static const std::regex kForeign(
      R"re([\s/"']on[a-z]+\s*=|href\s*=(?!\s*"#)|url\(\s*["']?[^#"']|@import|xml:base|\bid\s*=\s*')re",
      std::regex::icase);
  std::smatch found;
  if (std::regex_search(svg, found, kForeign)) fail(found.str());
}

}  // namespace

std::string inline_svg(const std::string& file, const std::string& prefix,
                       const std::string& where) {
  const std::size_t begin = file.find("<svg");
  const std::size_t end = file.rfind("</svg>");
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    refuse(where, "holds no <svg>: scripts/plot.py writes one");
  }
  std::string svg = file.substr(begin, end + 6 - begin);
  check_svg(svg, where);
  static const std::regex kIds(R"re((\bid="|href="#|url\(#|aria-labelledby="))re");
  return std::regex_replace(svg, kIds, "$1" + prefix);
}

std::string render_page(const std::vector<PageResult>& results) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>attnlab: the papers' tables, measured</title>\n<style>";
  text += kStyle;
  text +=
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">To the tables</a>\n<header>"
      "<h1>The papers' tables, measured</h1></header>\n<main id=\"main\">\n";
  text += overview_of(results);
  for (const PageResult& page : results) text += section_of(page);
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace attnlab
