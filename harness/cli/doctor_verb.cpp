// Implements attnlab doctor: says what this machine can measure with, and what it lacks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/session/doctor.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(One line a check: ok, degraded (it works, with what is said) or missing, what was found, and below
what is not ok the remedy. Timers are tested against work of known length, counters against a copy
and a read of known size, and every kernel that a device takes runs a small case on it. Something
essential is what nothing can be measured without on a backend.

--backend auto looks at both. Without a GPU the CPU backend decides: CUDA's lines say what is
missing, and the exit code is 0. Where the driver names a GPU that CUDA does not show, it is 3.

Examples:
  attnlab doctor
  attnlab doctor --backend cuda
  attnlab doctor --json | python3 -m json.tool

Exit codes: 0 nothing essential is missing, 2 bad flags, 3 something essential is missing.)";

struct DoctorFlags {
  std::string backend = "auto";
  bool json = false;
  std::shared_ptr<CompilerSettings> compiler;
};

int run(const DoctorFlags& flags) {
  const BackendChoice asked = parse_backend(flags.backend, "--backend");
  apply_compiler_flags(*flags.compiler);
  PeerProcesses peers;
  const Checkup checkup = check_up(asked, peers);
  if (flags.json) {
    print_to(stdout, "{}\n", to_json(checkup).dump(1));
  } else {
    print_to(stdout, "{}", render(checkup));
  }
  return exit_code(checkup);
}

}  // namespace

Verb add_doctor_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("doctor", "Check drivers, libraries, permissions, timers and counters");
  command->footer(kFooter);
  const auto flags = std::make_shared<DoctorFlags>();
  command->add_option("--backend", flags->backend, "auto, cpu or cuda (default: auto)")
      ->type_name("NAME")
      ->group("Where");
  command->add_flag("--json", flags->json, "Print JSON, attnlab.doctor/1")->group("Output");
  flags->compiler = add_compiler_flags(*command);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
