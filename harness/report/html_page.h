// Makes one self-contained HTML page of reproductions: no script, no network, readable in print, in
// dark mode, by keyboard and by screen readers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attnlab {

// Holds a picture by its name: ID.svg of a table, NAME-claims.svg of a file.
struct PageFigure {
  std::string name;
  std::string svg;
};

struct PageResult {
  nlohmann::ordered_json result;  // "attnlab.reproduction/1"
  std::vector<PageFigure> figures;
};

// Returns the page. Throws nlohmann::json::exception for a result that lacks what to_json() writes.
std::string render_page(const std::vector<PageResult>& results);

// Returns an SVG file as a part of a page: without what stands before its first element, its ids
// led by `prefix`, since several pictures share a page. Throws UsageError, led by `where`, where
// there is no <svg>, and for what would reach for a network or run (scripts, foreign objects,
// references to other files).
std::string inline_svg(const std::string& file, const std::string& prefix,
                       const std::string& where);

}  // namespace attnlab
