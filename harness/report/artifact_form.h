// Makes the form that a reviewer of artifacts fills in: each claim, the command that tests it, what
// must come out, what that takes, where it was run, and the digests of all that it rests on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/report/reproduction.h"

namespace attnlab {

// Maps names of files to their digests, as sha256sum gives them.
using Digests = std::map<std::string, std::string>;  // by name

struct FormExperiment {
  Reproduction found;     // of no records: the form is blank, to be filled in
  std::string arguments;  // of attnlab reproduce: "fa1-memory", or ids of tables
  std::string needs;      // time, memory and peers
  Digests records;        // none where the form is blank
};

struct ArtifactForm {
  std::string program;  // the digest of attnlab itself
  Digests texts;       // of the kernels that are compiled at run time; none in a build without CUDA
  std::string folder;  // of the records; "": the form is blank
  std::vector<FormExperiment> experiments;
};

// Returns the form as Markdown: the same text for the same records and program.
std::string render_artifact_form(const ArtifactForm& form);

}  // namespace attnlab
