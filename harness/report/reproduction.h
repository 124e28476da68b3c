// Says what came of a paper file: published beside measured in its tables, and its claims judged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
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

// Names a protocol by which cells were measured, or says why none were.
struct ProtocolUse {
  std::string name;     // "cold-settled"
  std::string file;     // of its records; "": there are none
  std::string missing;  // why there are none
};

// Holds the protocols beside a table's own, with the records of each.
struct OtherProtocols {
  std::string own;  // the name of the table's
  std::vector<std::pair<ProtocolUse, std::vector<nlohmann::ordered_json>>> others;
};

struct Reproduction {
  const PaperFile* paper = nullptr;
  std::string device;                  // of the records; "" where there are none
  nlohmann::ordered_json environment;  // what they say of where and by what they were made
  std::string records;                 // their file
  std::string cut;                     // what was left out or replaced, in words; "" if nothing was
  std::vector<ProtocolUse> protocols;  // the table's own first; none: it alone was asked for
  std::vector<ReproducedTable> tables;
  std::vector<JudgedClaim> claims;
};

// Makes the tables of these ids (empty: all of the file's), and judges the claims about them.
// Verdicts rest on `records`; `protocols` say how far cells move beside them. `paper` and
// `published` must outlive the result. Throws UsageError as cells_of() does, and for records of
// several devices.
Reproduction reproduce(const PaperFile& paper, const PublishedTables& published,
                       const std::vector<nlohmann::ordered_json>& records,
                       const std::vector<std::string>& ids, const OtherProtocols& protocols = {});

// Renders text or Markdown; csv has one line a cell, of all tables.
std::string render_reproduction(const Reproduction& all, TableFormat format);

// Writes all of it as "attnlab.reproduction/1", for other programs, plots and --check.
nlohmann::ordered_json to_json(const Reproduction& all);

// Returns the keys that an environment may have, in order.
std::vector<std::string> environment_keys();

// Returns four significant digits, of small numbers three, with an exponent where needed.
std::string short_number(double value);

// Returns whether a letter is a verdict: R, S or N.
bool is_verdict(const std::string& letter);

// Returns "12 reproduced (R), 3 in shape (S), ...".
std::string count_findings(const std::vector<JudgedClaim>& claims);

// worse: it held and does not, or holds in shape alone. lost: it had a verdict and has none, or is
// no claim any more. unforeseen: it had none, and is not reproduced, so nothing ever held.
enum class Setback : std::uint8_t { worse, lost, unforeseen };
const char* to_string(Setback setback);

// Names a claim that is worse off than in an earlier to_json().
struct Worsened {
  std::string id, text;
  Setback how = Setback::worse;
};
std::vector<Worsened> worse_than(const nlohmann::ordered_json& before, const Reproduction& now);

// Reads what to_json() left in a file. Throws UsageError, naming it, for anything else.
nlohmann::ordered_json read_result(const std::filesystem::path& file);

}  // namespace attnlab
