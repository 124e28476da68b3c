#include "harness/cli/flag_values.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Returns what a flag with this validator makes of a value: its text, or the complaint.
std::string read_by(const CLI::Validator& validator, const std::string& text) {
  std::string value = text;
  const std::string complaint = validator(value);
  return complaint.empty() ? value : complaint;
}

TEST(CliValues, WholeNumbersAreDecimalDigits) {
  const CLI::Validator validator = whole_number(2, 4096);
  EXPECT_EQ(read_by(validator, "64"), "64");
  EXPECT_EQ(read_by(validator, "010"), "10");
  for (const char* text : {"", "-", "abc", "2.5", "1e3", "0x10", " 8", "8 ", "+8", "nan", "--2"}) {
    EXPECT_EQ(read_by(validator, text),
              "'" + std::string(text) + "' is not a whole number; write one from 2 to 4096");
  }
  for (const char* text : {"0", "1", "-0", "-5", "4097", "18446744073709551616"}) {
    EXPECT_EQ(read_by(validator, text), std::string(text) + " is outside [2, 4096]");
  }
  EXPECT_EQ(read_by(whole_number(0, ~std::uint64_t{0}), "18446744073709551615"),
            "18446744073709551615");
}

TEST(CliValues, NumbersAreFinite) {
  const CLI::Validator validator = number_between(1e-3, 60.0);
  for (const char* text : {"0.001", "1e-3", "60", "2.5"}) EXPECT_EQ(read_by(validator, text), text);
  for (const char* text : {"", "nan", "-nan", "x", "1s", "0x1p3", " 1", "1,5"}) {
    EXPECT_EQ(read_by(validator, text),
              "'" + std::string(text) + "' is not a number; write one from 0.001 to 60");
  }
  for (const char* text : {"inf", "-inf", "1e400", "-1e400", "1e-400", "0", "-0", "-1", "60.1"}) {
    EXPECT_EQ(read_by(validator, text), std::string(text) + " is outside [0.001, 60]");
  }
}

TEST(CliValues, ListsHaveNoHoles) {
  EXPECT_EQ(split_list("a, b ,c", "--f"), (Texts{"a", "b", "c"}));
  EXPECT_EQ(split_list("", "--f"), Texts{});
  for (const char* text : {",", "a,", ",a", "a,,b", "a, ,b"}) {
    EXPECT_EQ(usage_error([&] { split_list(text, "--f"); }),
              "--f: an item of '" + std::string(text) + "' is empty: leave its comma out");
  }
  EXPECT_EQ(usage_error([] { split_list("a,b,a", "--f"); }), "--f: 'a' is given twice");
}

TEST(CliValues, BytesHaveUnitsOf1024) {
  for (const char* text : {"8G", "8GB", "8GiB", "8g", "8gb", "8gib", "8 GB", "8192M", " 8G "}) {
    EXPECT_EQ(parse_bytes(text, "--f"), std::uint64_t{8} << 30) << text;
  }
  EXPECT_EQ(parse_bytes("1500000", "--f"), 1500000u);
  EXPECT_EQ(parse_bytes("512B", "--f"), 512u);
  EXPECT_EQ(parse_bytes("2.5K", "--f"), 2560u);
  EXPECT_EQ(parse_bytes("1TiB", "--f"), std::uint64_t{1} << 40);
  for (const char* text :
       {"", "many", "8X", "8GBs", "8iB", "GB", "nan", "inf", "0x10", "8G8", "8,5G"}) {
    EXPECT_PRED2(contains, usage_error([&] { parse_bytes(text, "--f"); }),
                 "--f: '" + std::string(text) + "' is not a number of bytes; write N, or N with K")
        << text;
  }
  for (const char* text : {"0", "-1", "0.5", "-8G", "1e400", "9000000T", "9223372036854775808"}) {
    EXPECT_EQ(usage_error([&] { parse_bytes(text, "--f"); }),
              "--f: " + std::string(text) + " is outside [1, 2^63) bytes");
  }
}

// The parser of CLI11 itself hands the values over here.
TEST(CliValues, AFlagMayBeGivenSeveralTimes) {
  CLI::App app;
  std::string target;
  add_list(app, "--list", target, "");
  refuse_empty_values(app);
  const auto parse = [&](std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
    return target;
  };
  EXPECT_EQ(parse({"--list", "a,,b", "--list", "c"}), "a,,b,c");
  EXPECT_EQ(parse({"--list", "a,"}), "a,");
  EXPECT_EQ(parse({"--list", "[a,b]"}), "[a,b]");
  EXPECT_THROW(parse({"--list", ""}), CLI::ValidationError);
  EXPECT_THROW(parse({"--list", " "}), CLI::ValidationError);
}

}  // namespace
}  // namespace attnlab
