// What came of a paper file: its tables with published beside measured, and its claims judged.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/claims.h"
#include "harness/report/paper_file.h"
#include "harness/report/paper_table.h"
#include "harness/report/published.h"

namespace attnlab {

struct ReproducedTable {
  const PaperTable* table = nullptr;
  const PublishedTable* published = nullptr;
  std::vector<PaperCell> cells;
};

struct JudgedClaim {
  const Claim* claim = nullptr;
  Judgement judgement;
};

struct Reproduction {
  const PaperFile* paper = nullptr;
  std::string device;                  // of the records; "" where there are none
  nlohmann::ordered_json environment;  // what they say of where and by what they were made
  std::string records;                 // their file
  std::string cut;                     // what was left out or replaced, in words; "" if nothing was
  std::vector<ReproducedTable> tables;
  std::vector<JudgedClaim> claims;
};

// Makes the tables of these ids (empty: all of the file's), and judges the claims about them.
// `file` and `published` must outlive the result. Throws UsageError as cells_of() does, and for
// records of several devices.
Reproduction reproduce(const PaperFile& paper, const PublishedTables& published,
                       const std::vector<nlohmann::ordered_json>& records,
                       const std::vector<std::string>& ids);

// As text, or as Markdown; csv has one line a cell, of all tables.
std::string render_reproduction(const Reproduction& all, TableFormat format);

// "attnlab.reproduction/1": all of it, for other programs, plots and --check.
nlohmann::ordered_json to_json(const Reproduction& all);

// Four significant digits, of small numbers three, with an exponent where they need one.
std::string short_number(double value);

// "12 reproduced (R), 3 in shape (S), ..."
std::string count_findings(const std::vector<JudgedClaim>& claims);

// A claim that is worse than it was, by an earlier to_json(); `is_lost`: it had a verdict and has
// none, or is no claim any more.
struct Worsened {
  std::string id, text;
  bool is_lost = false;
};
std::vector<Worsened> worse_than(const nlohmann::ordered_json& before, const Reproduction& now);

// Reads what to_json() left in a file. Throws UsageError, naming it, for anything else.
nlohmann::ordered_json read_result(const std::filesystem::path& file);

}  // namespace attnlab
