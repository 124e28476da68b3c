// What the files of the command line share: the verbs and the choice of a device.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/sweep.h"
#include "harness/table.h"

namespace attnlab {

// A subcommand and what to do once its flags are parsed; the result is an exit code.
struct Verb {
  CLI::App* command = nullptr;
  std::function<int()> run;
  // When the output of a run is lost, the error message ends with this: what was saved.
  std::function<std::string()> kept = [] { return std::string(); };
};

// `command_line` is how the user called the program; records keep it.
Verb add_run_verb(CLI::App& app, const std::string& command_line);
Verb add_list_verb(CLI::App& app);
Verb add_table_verb(CLI::App& app);
Verb add_verify_verb(CLI::App& app);
Verb add_model_verb(CLI::App& app);
Verb add_compile_verb(CLI::App& app);
Verb add_doctor_verb(CLI::App& app);
Verb add_peak_verb(CLI::App& app);
// These two describe `app`, which must have all its verbs when they run.
Verb add_completion_verb(CLI::App& app);
Verb add_man_verb(CLI::App& app);
Verb add_compile_worker_verb(CLI::App& app);  // hidden: what compile_ahead() starts

// The first device that fits the choice; one without a name where the machine has none.
Device choose_device(BackendChoice choice, const std::vector<Device>& devices);

// Sets what was given of the CPU: threads, and instruction set ("": not given). Throws UsageError
// for one that this processor does not have.
void set_cpu(Device& device, std::optional<int> threads, const std::string& isa);

// "<name>, avx512, 2 threads, 15.6 GiB"
std::string describe(const Device& device);

// Of a finished run: 1 if a point failed verification, 3 if a measurement is invalid or nothing
// came out, else 0.
int exit_code(const std::vector<nlohmann::ordered_json>& records);

// What `attnlab run --dry-run` prints: every point, whether it would run, and the memory it needs.
std::string render_plan(const std::vector<Case>& cases, const Device& device, TableFormat format);

}  // namespace attnlab
