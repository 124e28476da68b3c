// Declares what the files of the command line share: the verbs and the choice of a device.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

// Holds a subcommand and what it runs once its flags are parsed; the result is an exit code.
struct Verb {
  CLI::App* command = nullptr;
  std::function<int()> run;
  // When the output of a run is lost, the error message ends with this: what was saved.
  std::function<std::string()> kept = [] { return std::string(); };
};

// Holds how the user called the program: as it was typed, and as records keep it.
struct CommandLine {
  std::string typed, recorded;
  std::vector<std::string> behind_dashes;  // of attnlab profile: the tool's, not attnlab's
};
Verb add_run_verb(CLI::App& app, const CommandLine& command_line);
Verb add_list_verb(CLI::App& app);
Verb add_table_verb(CLI::App& app);
Verb add_merge_verb(CLI::App& app);
Verb add_compare_verb(CLI::App& app);
Verb add_explain_verb(CLI::App& app);
Verb add_gate_verb(CLI::App& app);
Verb add_reproduce_verb(CLI::App& app);
Verb add_report_verb(CLI::App& app);
Verb add_calibrate_verb(CLI::App& app);
Verb add_verify_verb(CLI::App& app);
Verb add_model_verb(CLI::App& app);
Verb add_compile_verb(CLI::App& app);
Verb add_sass_verb(CLI::App& app);
Verb add_doctor_verb(CLI::App& app);
Verb add_peak_verb(CLI::App& app);
Verb add_profile_verb(CLI::App& app, const CommandLine& command_line);
// These two describe `app`, which must have all its verbs when they run.
Verb add_completion_verb(CLI::App& app);
Verb add_man_verb(CLI::App& app);
Verb add_compile_worker_verb(CLI::App& app);  // hidden: what compile_ahead() starts

}  // namespace attnlab
