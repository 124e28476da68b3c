// Runs a paper file: writes its sweep beside the records, and starts `attnlab run` on it, so that
// all that run does (hangs, interrupts, resuming) holds here, too, and the records name a command
// that anybody can give again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/protocol.h"
#include "harness/plan/sweep.h"
#include "harness/report/paper_file.h"

namespace attnlab {

// Names the files of an experiment in a folder.
struct ExperimentFiles {
  std::filesystem::path sweep, records, result;
};
// `state` is that of another protocol than the file's own; the result is always the file's.
ExperimentFiles files_of(const PaperFile& paper, const std::filesystem::path& folder,
                         const std::optional<TimingState>& state = {});

// Says how much of an experiment runs, where, and in which state.
struct ExperimentCut {
  BackendChoice backend = BackendChoice::cuda;  // cpu or cuda
  bool quick = false;
  std::optional<TimingState> state;  // in place of the file's own
  std::string devices;               // --devices of attnlab run, or ""
  bool unsettled = false;            // where it resumes: --unsettled of attnlab run
};

// Returns the state of caches and clocks in which the file's own protocol measures.
TimingState own_state(const PaperFile& paper);

// Returns the sweep as it runs, with the words of its cut in its description. Throws UsageError
// where a CPU runs nothing of the file.
nlohmann::ordered_json sweep_to_run(const PaperFile& paper, const ExperimentCut& cut);

// Says in words what the sweep of such a file was cut to; "" if to nothing, or without the file.
std::string cut_of(const ExperimentFiles& files);

// Returns the command that measures what the records lack (`resumes`), or all.
std::vector<std::string> run_command(const ExperimentCut& cut, const ExperimentFiles& files,
                                     bool resumes, bool shows_progress);

// Runs that command. Returns run's exit code. Throws UsageError if records exist and nobody said to
// resume, or if they are of another sweep. Ends the process by a signal that interrupts it.
int run_experiment(const PaperFile& paper, const ExperimentCut& cut, const ExperimentFiles& files,
                   bool resumes, bool shows_progress);

}  // namespace attnlab
