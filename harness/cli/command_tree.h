// Lists the verbs and flags of the command line for help, completion and the manual page. Hidden
// ones are left out.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace attnlab {

// A flag takes values of one kind, which shells can complete.
struct FlagValues {
  enum class Kind { none, some, words, files, folders };  // none: the flag takes no value
  Kind kind = Kind::none;
  std::vector<std::string> words;  // all that are good
  bool is_list = false;            // several, separated by commas
};

std::vector<const CLI::App*> visible_verbs(const CLI::App& app);
// Returns the flags in the order of the help; --help is one of them.
std::vector<const CLI::Option*> visible_flags(const CLI::App& verb);
// Returns the argument of the verb that is no flag, null if there is none.
const CLI::Option* positional_of(const CLI::App& verb);

// Returns "--kernel".
std::string long_name(const CLI::Option& flag);
FlagValues values_of(const CLI::Option& flag);

}  // namespace attnlab
