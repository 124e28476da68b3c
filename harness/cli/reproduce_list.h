// Lists what attnlab reproduce can measure: all files, what each needs, and which runs of them come
// with attnlab.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/measure/peaks.h"
#include "harness/report/paper_file.h"
#include "harness/report/published.h"

namespace attnlab {

inline constexpr const char* kPaperFolder = "sweeps/paper";

// Returns the ids of a file's tables, its headlines first.
std::vector<std::string> ids_of(const PaperFile& paper);

// Says what a file needs: time, memory, peers.
std::string needs_of(const PaperFile& paper);

// Says how many claims of a file stay U on a GPU whose peaks are not known; "" if none does.
std::string missing_peaks(const PaperFile& paper, const KnownPeaks& known);

// Names a folder of results that comes with attnlab, and the device that they are of.
struct Committed {
  std::filesystem::path folder;
  std::string device;
};
std::vector<Committed> committed_runs();

void print_list(const std::vector<PaperFile>& papers, const PublishedTables& published,
                TableFormat format);

}  // namespace attnlab
