#include "harness/report/artifact_form.h"

#include <fmt/format.h>

#include "harness/base/build_info.h"
#include "harness/base/text_table.h"

namespace attnlab {
namespace {

// The commands of a form put their records here.
constexpr const char* kFolder = "results/paper";

// Writes digests as sha256sum does, so that sha256sum -c takes them.
std::string digests_text(const Digests& digests) {
  std::string text = "```text\n";
  for (const auto& [name, digest] : digests) text += fmt::format("{}  {}\n", digest, name);
  return text + "```\n";
}

std::string head_of(const ArtifactForm& form) {
  const BuildInfo& build = build_info();
  std::string text = fmt::format("# Artifact evaluation: attnlab {}\n\n", build.version);
  text +=
      fmt::format("Commit `{}`, built by {} ({}).\n\n", build.commit, build.compiler, build.flags);
  text += R"(Each experiment below has its command, what that takes, the environment, and the claims
that it tests. Expected results and tolerances are in `sweeps/paper`, and were written before the
run.

)";
  text += form.folder.empty()
              ? "The form is blank: run the commands and fill in what is empty, or let\n"
                "`attnlab reproduce --records DIR --ae FILE` do that.\n\n"
              : fmt::format(
                    "Filled in from the records in `{0}`, which\n`attnlab reproduce "
                    "--records {0}` judges again without a run.\n\n",
                    form.folder);
  return text +
         "Verdicts: R reproduced (within the tolerance), S in shape (in the same direction, not of "
         "that size),\nN not reproduced, X not applicable to this device, U not run.\n\n";
}

std::string program_and_records(const ArtifactForm& form) {
  Digests digests = {{"attnlab", form.program}};
  for (const FormExperiment& experiment : form.experiments) {
    digests.insert(experiment.records.begin(), experiment.records.end());
  }
  return fmt::format("## SHA-256 of the program{}\n\n{}",
                     digests.size() > 1 ? " and of the records" : "", digests_text(digests));
}

std::string texts_of_kernels(const ArtifactForm& form) {
  if (form.texts.empty()) return "\nThis build has no kernels of a GPU.\n";
  return "\n## SHA-256 of the texts of the GPU's kernels, by their paths in the tree\n\n" +
         digests_text(form.texts);
}

// Tables what the records say of where they were made; a blank form leaves the lines empty.
std::string environment_of(const Reproduction& found) {
  TextTable table{.columns = {{"", "environment", true, true}, {"", "value", true}}};
  for (const std::string& key : environment_keys()) {
    const bool is_blank = found.device.empty();
    if (!is_blank && !found.environment.contains(key)) continue;
    table.rows.push_back({{key}, {is_blank ? "" : found.environment[key].get<std::string>()}});
  }
  return render_markdown(table);
}

std::string claims_of(const Reproduction& found) {
  TextTable table{.columns = {{"", "claim", true, true},
                              {"", "source", true},
                              {"", "expected", true},
                              {"", "tolerance"},
                              {"", "measured"},
                              {"", "verdict", true}}};
  for (const auto& [claim, judgement] : found.claims) {
    const bool is_open = found.device.empty() && judgement.finding == Finding::not_run;
    const std::string verdict =
        fmt::format("{}: {}", letter_of(judgement.finding), judgement.reason);
    table.rows.push_back(
        {{fmt::format("`{}`: {}", claim->id, claim->text)},
         {claim->source},
         {expected_result(*claim)},
         {claim->tolerance > 0.0 ? fmt::format("{:.3g} %", 100.0 * claim->tolerance) : "none"},
         {judgement.measured ? short_number(*judgement.measured) : ""},
         {is_open ? "" : verdict}});
  }
  return render_markdown(table);
}

std::string experiment_text(const FormExperiment& experiment) {
  const Reproduction& found = experiment.found;
  std::string text = fmt::format("## {}: {}\n\n", found.paper->name, found.paper->title);
  text +=
      fmt::format("- Command: `attnlab reproduce {} --out {}`\n", experiment.arguments, kFolder);
  text += fmt::format("- Time and memory: {}\n", experiment.needs);
  if (!found.cut.empty()) text += fmt::format("- Cut to: {}\n", found.cut);
  return text + "\n" + environment_of(found) + "\n" + claims_of(found);
}

}  // namespace

std::string render_artifact_form(const ArtifactForm& form) {
  std::string text = head_of(form) + program_and_records(form);
  for (const FormExperiment& experiment : form.experiments) {
    text += "\n" + experiment_text(experiment);
  }
  return text + texts_of_kernels(form);
}

}  // namespace attnlab
