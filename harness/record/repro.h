// One command that runs one point again.
#pragma once

#include <filesystem>
#include <string>

#include "harness/plan/sweep.h"

namespace attnlab {

// A word as a shell reads it again.
std::string shell_word(const std::string& word);

// A word as a shell reads it again, in which an absolute path (the word, or what follows its first
// '=') is one from the current folder: what is kept should not say how a machine is laid out.
std::string portable_word(const std::string& word);

// The path from the current folder where it is absolute; its name alone where it lies further away
// than beside that folder.
std::filesystem::path path_from_here(const std::filesystem::path& path);

// "attnlab run --backend cpu --isa avx2 --threads 2 --kernel v2 --pass fwd ...": every axis of the
// command line, the config and the device, spelled out, so that no default can change its meaning;
// instead of what the user's own file of tensors says, that file; of the protocol what is not the
// default.
std::string repro_command(const Case& work, const Competitor& competitor, const Device& device,
                          const Protocol& protocol);

}  // namespace attnlab
