// A paper file is an experiment on what a paper printed: a sweep, the published tables whose cells
// its points are, and the claims of the source about them. sweeps/paper/README.md describes the
// format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/sweep_cut.h"
#include "harness/report/fields.h"
#include "kernels/api/registry.h"

namespace attnlab {

// Says which record is a cell, and what of it.
struct CellRule {
  Conditions where;
  // If set, the cell is a ratio: the value of the record with these fields, divided by its own.
  std::optional<Conditions> over;
  std::string value;   // a field; "": the table's
  double scale = 1.0;  // to the source's unit
};

// Names a row or column of a table as it is published.
struct PaperEntry {
  std::string name;
  std::optional<CellRule> rule;  // empty: nothing is measured for it, which `reason` explains
  std::string reason;
};

// Says how published rows (or columns) are found among the records.
struct PaperAxis {
  std::vector<std::string> key;  // of rows: the published columns that name them, ", " between
  std::string field;             // whose value the name is; "": `entries` say it
  std::vector<PaperEntry> entries;
  std::vector<PaperEntry> beside;  // what the source does not have
};

struct PaperTable {
  std::string published;  // the id of the table of which the cells are
  Conditions where;       // of all cells
  PaperAxis rows, columns;
  std::string value;  // a field
  std::vector<std::string> notes;
};

enum class ClaimKind : std::uint8_t { ratio, value, growth, order, crossover, status, not_here };
enum class ClaimStatistic : std::uint8_t { least, most, mean };

struct Bounds {
  std::optional<double> at_least, at_most;
};

// States what a source says in a form that can carry over to another GPU.
struct Claim {
  std::string id;
  std::vector<std::string> tables;
  std::string text;
  std::string source;  // the place in the source
  ClaimKind kind = ClaimKind::ratio;
  std::string value;           // a field
  std::vector<Conditions> of;  // one, but of an order
  Conditions over, where, applies;
  std::string along;  // the field of an exponent or crossover
  ClaimStatistic statistic = ClaimStatistic::mean;
  std::string expected;  // a record's status
  std::string reason;    // why nothing can be measured here
  std::optional<double> published;
  Bounds reproduced, shape;
  double tolerance = 0.0;  // widens `reproduced`, as a share
};

// Says what a run takes.
struct PaperBudget {
  double minutes = 0.0;  // of one H200
  double memory_gib = 0.0;
  std::optional<double> cpu_minutes;  // of two cores
};

struct PaperFile {
  std::filesystem::path path;
  std::string name, title;
  PaperBudget budget;
  nlohmann::ordered_json sweep;  // a sweep file's, by the name of this one
  SweepCut cpu, quick;
  bool has_cpu = false;  // a cut for a CPU; without one a CPU runs nothing of it
  bool has_quick = false;
  std::vector<PaperTable> tables;
  std::vector<std::string> headlines;  // published tables of words whose claims are here
  std::vector<Claim> claims;
};

// Returns whether a file is a paper file by its name: *.paper.json.
bool is_paper_name(const std::filesystem::path& path);

// Returns the fields that cells of a table are of, each once, the table's own first.
std::vector<std::string> values_of(const PaperTable& table);

// Returns whether a cell of the file's tables comes from a time.
bool has_times(const PaperFile& paper);

// Reads a file strictly: throws UsageError naming file and key.
PaperFile read_paper(const std::filesystem::path& path, const Registry& registry);

// Reads all files of a folder, in the order of their names. Throws UsageError also where two files
// have the same table or claim.
std::vector<PaperFile> read_papers(const std::filesystem::path& folder, const Registry& registry);

}  // namespace attnlab
