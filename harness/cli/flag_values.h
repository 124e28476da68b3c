// Reads the values of flags of all verbs. A value that is no number, is empty or out of range is
// refused before anything starts, with a message that says what is wrong.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace attnlab {

// Accepts whole decimal numbers, for Option::transform(). (CLI11 alone would take 010 for 8.)
CLI::Validator whole_number(std::uint64_t minimum, std::uint64_t maximum);

// Accepts decimal numbers, for Option::check(). NaN lies in no range.
CLI::Validator number_between(double minimum, double maximum);

// Adds a flag that takes a comma list and may be given several times: `target` gets all lists
// joined. (CLI11's join(',') would take "64,,128" for "64,128".)
template <class Target>
CLI::Option* add_list(CLI::App& command, const std::string& flag, Target& target,
                      const std::string& summary) {
  const auto join = [&target](const std::vector<std::string>& lists) {
    std::string all;
    for (const std::string& list : lists) all += (&list == &lists.front() ? "" : ",") + list;
    target = all;
  };
  return command.add_option_function<std::vector<std::string>>(flag, join, summary)
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);  // "[64,128]" would be taken apart otherwise
}

// Adds --format, which chooses the form of a table on standard output, and --no-progress.
void add_table_format(CLI::App& command, std::string& format);
void add_no_progress(CLI::App& command, bool& no_progress);

// Adds --fail-on, whose words parse_judged() reads.
void add_fail_on(CLI::App& command, std::string& fail_on);

// Makes every flag of the command that takes a value refuse an empty one, which the verbs would
// take for a flag that was not given.
void refuse_empty_values(CLI::App& command);

// Returns the items of a comma list, without blanks around them; none for "". Throws UsageError,
// led by `where`, for an item that is empty or there twice.
std::vector<std::string> split_list(const std::string& text, const std::string& where);

// Reads "FIELD=VALUE[,VALUE]". Throws UsageError, led by `where`.
std::pair<std::string, std::vector<std::string>> parse_condition(const std::string& text,
                                                                 const std::string& where);

// Reads bytes: "1500000", "512M", "2.5G", "8GB", "8 GiB", where K, M, G and T are powers of 1024,
// whatever follows them. Throws UsageError, led by `where`.
std::uint64_t parse_bytes(const std::string& text, const std::string& where);

}  // namespace attnlab
