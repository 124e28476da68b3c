// The verbs and flags of the command line, as those see it who describe it to others: without what
// is hidden.
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
// In the order of the help, which is one of them.
std::vector<const CLI::Option*> visible_flags(const CLI::App& verb);
// The words behind the verb that are no flags; null: there are none.
const CLI::Option* positional_of(const CLI::App& verb);

// "--kernel"
std::string long_name(const CLI::Option& flag);
FlagValues values_of(const CLI::Option& flag);

}  // namespace attnlab
