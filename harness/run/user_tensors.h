// Reads and writes the tensors of a run as files: the user's own inputs, and what a run leaves for
// anyone who wants to check it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/sweep.h"
#include "harness/record/record.h"
#include "kernels/api/tensors.h"

namespace attnlab {

// Returns whether an axis says what a file of inputs says: dtype, sizes, lengths, input_kind.
bool is_axis_of_input_file(std::string_view axis);

// Returns whether all problems of the sweep are of e4m3, whose codes the laboratory makes: only
// then the axis dtype and a file of inputs go together.
bool is_quantised(const Sweep& sweep);

// Makes the q, k, v (and do) of a file the inputs of all cases of the sweep, and sets the axes that
// say what the file says; e4m3 stays e4m3. Throws UsageError for a file that load_qkv() refuses,
// and for a sweep of several layouts, of which the file can have but one.
void use_input_file(Sweep& sweep, const std::filesystem::path& path);

// Tells the user where the inputs come from, and if dO is drawn. Wraps the text; ends its line.
std::string describe_input(const std::vector<Case>& cases);

enum class SaveDropout : std::uint8_t { no, yes };

// Writes the tensors of one point, again after every verification: what was verified last
// stays.
class TensorSaver {
 public:
  // Throws UsageError where `path` cannot be written; writes nothing yet.
  TensorSaver(std::filesystem::path path, SaveDropout dropout);

  // Serves RunContext::verified. Remembers what goes wrong instead of throwing: the record is good.
  void save(const Record& record, const Tensors& tensors);

  // Says what was written and how to check it, or that no verification ran. `records` are those of
  // the point: one, or none where the run did not get so far. Throws UsageError where the writing
  // failed.
  std::string report(const std::vector<nlohmann::ordered_json>& records) const;

 private:
  std::filesystem::path path_;
  SaveDropout dropout_;
  std::vector<std::uint8_t> dropout_keep_;  // (batch, num_heads_q, seqlen_q, seqlen_k), 1: kept
  std::vector<std::string> names_;          // of the tensors written; empty: none yet
  std::string error_;
};

}  // namespace attnlab
