// Makes the command that runs one point again.
#pragma once

#include <filesystem>
#include <string>

#include "harness/plan/sweep.h"

namespace attnlab {

// Quotes a word where a shell would not read it as it is.
std::string shell_word(const std::string& word);

// Returns shell_word() with an absolute path (the word, or a flag's value behind '=') made relative
// to the current folder: what is kept should not say how a machine is laid out.
std::string portable_word(const std::string& word);

// Returns an absolute path relative to the current folder, or its name alone where it lies further
// away than beside that folder. A relative path stays.
std::filesystem::path path_from_here(const std::filesystem::path& path);

// Returns "attnlab run --backend cpu --isa avx2 --threads 2 --kernel v2 --pass fwd ...": every axis
// of the command line, the config and the device, spelled out, so that no default can change its
// meaning. The user's own file of tensors stands instead of what it says; of the protocol only what
// differs from the default is given.
std::string repro_command(const Case& work, const Competitor& competitor, const Device& device,
                          const Protocol& protocol);

}  // namespace attnlab
