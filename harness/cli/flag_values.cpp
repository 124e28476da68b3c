#include "harness/cli/flag_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "harness/base/errors.h"
#include "harness/plan/axis_values.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Replaces the text by its canonical form, or returns what is wrong with it.
std::string read_whole(std::string& text, std::uint64_t minimum, std::uint64_t maximum) {
  const bool is_negative = text.starts_with('-');
  const std::string digits = text.substr(is_negative ? 1 : 0);
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) {
    return fmt::format("'{}' is not a whole number; write one from {} to {}", text, minimum,
                       maximum);
  }
  std::uint64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (is_negative || result.ec != std::errc() || value < minimum || value > maximum) {
    return fmt::format("{} is outside [{}, {}]", text, minimum, maximum);
  }
  text = std::to_string(value);
  return "";
}

std::string check_number(const std::string& text, double minimum, double maximum) {
  double value = 0.0;  // and stays so where `error` says that a double cannot hold it
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size() ||
      std::isnan(value)) {
    return fmt::format("'{}' is not a number; write one from {} to {}", text, minimum, maximum);
  }
  if (error == std::errc() && value >= minimum && value <= maximum) return "";
  return fmt::format("{} is outside [{}, {}]", text, minimum, maximum);
}

// Returns what a suffix ("", "B", "K", "KB", "KiB", ... in any case) multiplies by; 0 if unknown.
double unit_of_bytes(std::string_view suffix) {
  constexpr std::string_view kUnits = "KMGT";
  std::string unit(trim(suffix));
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  if (unit.empty() || unit == "B") return 1.0;
  const std::size_t place = kUnits.find(unit[0]);
  const std::string rest = unit.substr(1);
  if (place == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "IB")) return 0.0;
  return std::pow(1024.0, static_cast<double>(place + 1));
}

}  // namespace

CLI::Validator whole_number(std::uint64_t minimum, std::uint64_t maximum) {
  return {[=](std::string& text) { return read_whole(text, minimum, maximum); }, ""};
}

CLI::Validator number_between(double minimum, double maximum) {
  return {[=](const std::string& text) { return check_number(text, minimum, maximum); }, ""};
}

void add_table_format(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "table, markdown, csv or json")
      ->type_name("NAME")
      ->group("Output");
}

void add_no_progress(CLI::App& command, bool& no_progress) {
  command.add_flag("--no-progress", no_progress, "No progress on standard error")->group("Output");
}

void add_fail_on(CLI::App& command, std::string& fail_on) {
  add_list(command, "--fail-on", fail_on,
           "What may make a point worse: time, errors, bytes, memory, registers, spills, shared, "
           "kernels (all)")
      ->type_name("WHAT,...")
      ->group("Judgement");
}

void refuse_empty_values(CLI::App& command) {
  const CLI::Validator is_given(
      [](const std::string& text) {
        const bool is_empty = text.find_first_not_of(" \t\n") == std::string::npos;
        return std::string(is_empty ? "a value is missing: write one, or leave it out" : "");
      },
      "");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() > 0) option->check(is_given);
  }
}

std::vector<std::string> split_list(const std::string& text, const std::string& where) {
  std::vector<std::string> items;
  if (text.empty()) return items;
  for (const std::string_view part : split(text, ',')) {
    std::string item(trim(part));
    if (item.empty()) {
      throw UsageError(
          fmt::format("{}: an item of '{}' is empty: leave its comma out", where, text));
    }
    if (std::ranges::find(items, item) != items.end()) {
      throw UsageError(fmt::format("{}: '{}' is given twice", where, item));
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::pair<std::string, std::vector<std::string>> parse_condition(const std::string& text,
                                                                 const std::string& where) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("{}: '{}' is not FIELD=VALUE[,VALUE]", where, text));
  }
  return {text.substr(0, equals), split_list(text.substr(equals + 1), where)};
}

std::uint64_t parse_bytes(const std::string& text, const std::string& where) {
  double value = 0.0;
  const std::string trimmed(trim(text));
  const char* const last = trimmed.data() + trimmed.size();
  const auto [end, error] = std::from_chars(trimmed.data(), last, value);
  const double unit = unit_of_bytes({end, static_cast<std::size_t>(last - end)});
  if (error == std::errc::invalid_argument || unit == 0.0 || !std::isfinite(value)) {
    throw UsageError(
        fmt::format("{}: '{}' is not a number of bytes; write N, or N with K, M, G or T, which are "
                    "powers of 1024 (8G, 8GB and 8GiB are the same)",
                    where, text));
  }
  const double bytes = value * unit;
  if (error != std::errc() || !(bytes >= 1.0 && bytes < 0x1p63)) {
    throw UsageError(fmt::format("{}: {} is outside [1, 2^63) bytes", where, text));
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace attnlab
