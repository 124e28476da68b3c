#include "harness/tensors/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstring>
#include <numeric>

#include "harness/testing/test_support.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void bytes_of(std::string&& text) = delete;  // nothing would own the bytes

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Makes a file, byte by byte: the length, the header, the data.
std::string with_length(std::uint64_t length, const std::string& header, const std::string& data) {
  std::string text;
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(length >> shift & 0xFF);
  return text + header + data;
}

std::string file_text(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header, data);
}

// Makes a file with one tensor 't' of these fields and 8 bytes of data.
std::string one_tensor(const std::string& fields) {
  return file_text("{\"t\":{" + fields + "}}", "12345678");
}

std::string read_error(const std::string& text) {
  const TestFile file(".safetensors", text);
  const std::string message = usage_error([&] { read_safetensors(file.path()); });
  const std::string name = file.path().string() + ": ";
  EXPECT_PRED2(starts_with, message, name);
  return message.substr(std::min(name.size(), message.size()));
}

TEST(Safetensors, EveryDtypeSurvivesARoundTrip) {
  const std::vector<std::pair<std::string, std::size_t>> dtypes = {
      {"F64", 8},     {"F32", 4},         {"F16", 2},         {"BF16", 2},   {"I64", 8},
      {"I32", 4},     {"I16", 2},         {"I8", 1},          {"U64", 8},    {"U32", 4},
      {"U16", 2},     {"U8", 1},          {"BOOL", 1},        {"C64", 8},    {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E8M0", 1}};
  std::map<std::string, std::string> data;
  TensorViews tensors;
  for (const auto& [dtype, bytes] : dtypes) {
    std::string& text = data["a " + dtype];
    text.resize(6 * bytes);
    std::iota(text.begin(), text.end(), static_cast<char>(tensors.size()));
    tensors["a " + dtype] = {.dtype = dtype, .shape = {3, 1, 2}, .bytes = bytes_of(text)};
  }
  const std::string scalar = "x";
  tensors["scalar"] = {.dtype = "U8", .shape = {}, .bytes = bytes_of(scalar)};
  tensors["empty"] = {.dtype = "F32", .shape = {4, 0}, .bytes = {}};
  tensors["\"quoted\" \xC3\xA9\n"] = {.dtype = "I8", .shape = {0}, .bytes = {}};
  const Metadata metadata = {{"layout", "bshd"}, {"", "\t\"\\"}};

  const TestFolder folder;
  const auto path = folder.path() / "a.safetensors";
  write_safetensors(path, tensors, metadata);
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_EQ(file.path, path);
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, view] : tensors) {
    ASSERT_TRUE(file.tensors.contains(name)) << name;
    const TensorView& read = file.tensors.at(name);
    EXPECT_EQ(read.dtype, view.dtype);
    EXPECT_EQ(read.shape, view.shape);
    EXPECT_EQ(text_of(read.bytes), text_of(view.bytes)) << name;
    if (!read.bytes.empty()) {
      const auto offset = static_cast<std::size_t>(read.bytes.data() - file.data.get());
      EXPECT_EQ(offset % element_bytes(read.dtype), 0u) << name << " is not aligned";
    }
  }
  EXPECT_EQ(folder.names(), Texts{"a.safetensors"});
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const TestFolder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::string small = "xy", large = "12345678";
  write_safetensors(path,
                    {{"a", {.dtype = "U8", .shape = {2}, .bytes = bytes_of(small)}},
                     {"b", {.dtype = "F32", .shape = {1, 2}, .bytes = bytes_of(large)}}},
                    {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(text, file_text(header, large + small));
}

// tests/data/python.safetensors was made by the Python package safetensors 0.8:
//   save_file({"weights": np.arange(6, dtype=np.float32).reshape(2, 3) / 2,
//              "half": np.array([1, -2, 0, 96], dtype=ml_dtypes.bfloat16),
//              "long": np.array([0, -1, 2**40]), "scalar": np.array(7, np.uint8),
//              "empty": np.zeros([0, 5], np.float16)}, path, {"made by": "safetensors 0.8"})
TEST(Safetensors, ReadsWhatThePythonPackageWrote) {
  const SafetensorsFile file = read_safetensors(in_tree("tests/data/python.safetensors"));
  EXPECT_EQ(file.metadata, (Metadata{{"made by", "safetensors 0.8"}}));
  const auto expect = [&]<class T>(const char* name, const char* dtype,
                                   const std::vector<std::int64_t>& shape,
                                   const std::vector<T>& values) {
    const TensorView& tensor = file.tensors.at(name);
    EXPECT_EQ(tensor.dtype, dtype);
    EXPECT_EQ(tensor.shape, shape);
    ASSERT_EQ(tensor.bytes.size(), values.size() * sizeof(T)) << name;
    std::vector<T> read(values.size());
    if (!read.empty()) std::memcpy(read.data(), tensor.bytes.data(), tensor.bytes.size());
    EXPECT_EQ(read, values) << name;
  };
  EXPECT_EQ(file.tensors.size(), 5u);
  expect("weights", "F32", {2, 3}, std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5});
  expect("half", "BF16", {4}, std::vector<std::uint16_t>{0x3F80, 0xC000, 0, 0x42C0});
  expect("long", "I64", {3}, std::vector<std::int64_t>{0, -1, std::int64_t{1} << 40});
  expect("scalar", "U8", {}, std::vector<std::uint8_t>{7});
  expect("empty", "F16", {0, 5}, std::vector<std::uint16_t>{});
}

TEST(Safetensors, RefusesABrokenFrame) {
  EXPECT_EQ(usage_error([] { read_safetensors("/nowhere/a.safetensors"); }),
            "/nowhere/a.safetensors: no such file");
  EXPECT_EQ(usage_error([] { read_safetensors("/dev/null"); }), "/dev/null: is not a regular file");
  EXPECT_PRED2(contains, read_error(""), "has 0 bytes");
  EXPECT_PRED2(contains, read_error("1234567"), "has 7 bytes");
  EXPECT_PRED2(contains, read_error(with_length(3, "{}", "")), "header length 3 is past the end");
  EXPECT_PRED2(contains, read_error(with_length(100'000'001, "{}", "")),
               "header length 100000001 is above 100000000");
  EXPECT_PRED2(contains, read_error(with_length(~std::uint64_t{0}, "{}", "")),
               "header length 18446744073709551615 is above");
  EXPECT_PRED2(contains, read_error(file_text("")), "does not begin with '{'");
  EXPECT_PRED2(contains, read_error(file_text(" {}")), "does not begin with '{'");
  EXPECT_PRED2(contains, read_error(file_text("{}", "x")), "1 bytes behind the last tensor");
  EXPECT_EQ(usage_error([] {
              const TestFile file(".safetensors", file_text("{}  "));
              EXPECT_TRUE(read_safetensors(file.path()).tensors.empty());
            }),
            "");
}

TEST(Safetensors, RefusesAHeaderThatIsNoJsonOfTheFormat) {
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"{", "header: not JSON: byte 2"},
      {"{} {}", "header: not JSON"},
      {std::string("{}\0{}", 5), "header: not JSON: holds a zero byte"},
      {"{\"a\xFF\":{}}", "header: not JSON"},
      {R"({"t":1})", "tensor 't': must be an object"},
      {R"({"t":[]})", "tensor 't': must be an object"},
      {R"({"t":null})", "tensor 't': must be an object"},
      {R"({"t":{}})", "tensor 't': dtype is missing"},
      {"{\"t\":{" + good + "},\"t\":{" + good + "}}", "header: 't' is given twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "header: '__metadata__' is given twice"},
      {R"({"__metadata__":"text"})", "__metadata__: must be an object"},
      {R"({"__metadata__":{"k":1}})", "__metadata__: 'k': must be a string"},
      {R"({"__metadata__":{"k":null}})", "__metadata__: 'k': must be a string"},
      {R"({"__metadata__":{"k":{}}})", "__metadata__: 'k': must be a string"},
      {R"({"__metadata__":{"k":[]}})", "__metadata__: 'k': must be a string"},
      {R"({"__metadata__":{"k":"a","k":"b"}})", "__metadata__: 'k': is given twice"},
      {"{\"" + std::string(200, 'x') + "\\n\":1}", "tensor '" + std::string(80, 'x') + "...'"},
      {R"({"\u0007":1})", "tensor '?'"},
  };
  for (const auto& [header, why] : headers) {
    EXPECT_PRED2(contains, read_error(file_text(header, "12345678")), why) << header;
  }
}

TEST(Safetensors, RefusesDeepNestingAtOnce) {
  constexpr std::size_t kDepth = 10'000'000;
  EXPECT_EQ(read_error(file_text("{\"t\":" + std::string(kDepth, '['))),
            "tensor 't': must be an object");
  EXPECT_EQ(read_error(file_text("{\"t\":{\"shape\":" + std::string(kDepth, '['))),
            "tensor 't': shape: must hold whole numbers only");
}

TEST(Safetensors, RefusesWrongFieldsOfATensor) {
  const std::vector<std::pair<std::string, std::string>> tensors = {
      {R"("shape":[2],"data_offsets":[0,8])", "dtype is missing"},
      {R"("dtype":"F32","data_offsets":[0,8])", "shape is missing"},
      {R"("dtype":"F32","shape":[2])", "data_offsets is missing"},
      {R"("dtype":"F32","dtype":"F32")", "dtype is given twice"},
      {R"("shape":[],"shape":[])", "shape is given twice"},
      {R"("data_offsets":[0,8],"data_offsets":[0,8])", "data_offsets is given twice"},
      {R"("Dtype":"F32")", "unknown field 'Dtype'; there are: dtype"},
      {R"("dtype":32)", "dtype: must be a string"},
      {R"("dtype":["F32"])", "dtype: must be a string"},
      {R"("shape":2)", "shape: must be an array of whole numbers"},
      {R"("shape":"2")", "shape: must be an array of whole numbers"},
      {R"("shape":{"a":1})", "shape: must be an array of whole numbers"},
      {R"("shape":[2.0])", "shape: 2.0 is not a whole number"},
      {R"("shape":[1e1])", "shape: 1e1 is not a whole number"},
      {R"("shape":[-1])", "shape: -1 is negative"},
      {R"("shape":["2"])", "shape: must hold whole numbers only"},
      {R"("shape":[true])", "shape: must hold whole numbers only"},
      {R"("shape":[null])", "shape: must hold whole numbers only"},
      {R"("shape":[18446744073709551616])", "is not a whole number below 2^63"},
      {R"("shape":[9223372036854775808])", "is not a whole number below 2^63"},
      {R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1])",
       "shape: has more than 32 dimensions"},
      {R"("data_offsets":[0])", "data_offsets: must be two numbers"},
      {R"("data_offsets":[0,4,8])", "data_offsets: must be two numbers"},
      {R"("data_offsets":[-8,0])", "data_offsets: -8 is negative"},
      {R"("data_offsets":[0.5,8])", "data_offsets: 0.5 is not a whole number"},
      {R"("dtype":"F31","shape":[2],"data_offsets":[0,8])", "dtype 'F31' is unknown; there are:"},
      {R"("dtype":"F4","shape":[16],"data_offsets":[0,8])", "dtype 'F4' is unknown"},
      {R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", "[8, 0] end before they begin"},
      {R"("dtype":"F32","shape":[3],"data_offsets":[0,12])", "end past the file's 8 data bytes"},
      {R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", "hold 8 bytes, but F32 [3] has 12"},
      {R"("dtype":"F32","shape":[],"data_offsets":[0,8])", "hold 8 bytes, but F32 [] has 4"},
      {R"("dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8])",
       "more bytes than 64 bits can count"},
      {R"("dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0])",
       "more bytes than 64 bits can count"},
  };
  for (const auto& [fields, why] : tensors) {
    const std::string message = read_error(one_tensor(fields));
    EXPECT_PRED2(starts_with, message, "tensor 't': ") << fields;
    EXPECT_PRED2(contains, message, why) << fields;
  }
}

// Makes two tensors of four bytes each in eight bytes of data.
std::string two_tensors(const std::string& offsets_a, const std::string& offsets_b) {
  const std::string fields = R"("dtype":"U8","shape":[4],"data_offsets":)";
  return file_text("{\"a\":{" + fields + offsets_a + "},\"b\":{" + fields + offsets_b + "}}",
                   "12345678");
}

TEST(Safetensors, EveryByteBelongsToExactlyOneTensor) {
  const TestFile file(".safetensors", two_tensors("[4,8]", "[0,4]"));
  EXPECT_EQ(text_of(read_safetensors(file.path()).tensors.at("a").bytes), "5678");
  EXPECT_EQ(read_error(two_tensors("[0,4]", "[0,4]")),
            "tensor 'b': data_offsets overlap those of tensor 'a'");
  EXPECT_EQ(read_error(two_tensors("[3,7]", "[0,4]")),
            "tensor 'a': data_offsets overlap those of tensor 'b'");
  const auto hole = [](const std::string& offsets) {
    return read_error(file_text(
        R"({"t":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}", "12345678"));
  };
  EXPECT_EQ(hole("[4,8]"),
            "tensor 't': data_offsets leave a hole: bytes 0 to 4 belong to no tensor");
  EXPECT_EQ(hole("[0,4]"), "4 bytes behind the last tensor belong to no tensor");
}

// Limits the size of files that this process may write, while the object lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(Safetensors, AFailureLeavesNothingBehind) {
  const TestFolder folder;
  const std::string data = "12345678";
  const TensorViews good = {{"t", {.dtype = "F32", .shape = {2}, .bytes = bytes_of(data)}}};
  const auto error = [&](const std::filesystem::path& path, const TensorViews& tensors,
                         const Metadata& metadata = {}) {
    return usage_error([&] { write_safetensors(path, tensors, metadata); });
  };
  const auto path = folder.path() / "a";
  EXPECT_PRED2(contains, error(folder.path() / "no" / "a", good), "/no/a: cannot create a file");
  EXPECT_PRED2(contains, error(folder.path(), good), "is not a regular file");
  EXPECT_PRED2(contains, error("/dev/null", good), "is not a regular file");
  EXPECT_PRED2(contains,
               error(path, {{"t", {.dtype = "F32", .shape = {3}, .bytes = bytes_of(data)}}}),
               "tensor 't': has 8 bytes, but its dtype and shape need 12");
  EXPECT_PRED2(contains,
               error(path, {{"t", {.dtype = "F9", .shape = {2}, .bytes = bytes_of(data)}}}),
               "tensor 't': dtype 'F9' is unknown");
  EXPECT_PRED2(contains,
               error(path, {{"__metadata__", {.dtype = "U8", .shape = {0}, .bytes = {}}}}),
               "is the name of the metadata");
  EXPECT_PRED2(contains, error(path, good, {{"k", "\xFF"}}), "is not UTF-8");
  {
    const FileSizeLimit limit(16);
    EXPECT_PRED2(contains, error(path, good), "/a: cannot write to it");
  }
  EXPECT_EQ(folder.names(), Texts{});

  write_safetensors(path, good, {});
  {
    const FileSizeLimit limit(16);
    EXPECT_PRED2(contains, error(path, good, {{"k", "v"}}), "cannot write to it");
  }
  EXPECT_EQ(folder.names(), Texts{"a"});
  EXPECT_EQ(text_of(read_safetensors(path).tensors.at("t").bytes), data);
}

TEST(Safetensors, ALinkKeepsItsPlace) {
  const TestFolder folder;
  const TensorViews tensors = {{"t", {.dtype = "F32", .shape = {0}, .bytes = {}}}};
  const auto link = folder.path() / "link";
  std::filesystem::create_symlink("file", link);
  EXPECT_PRED2(contains, usage_error([&] { write_safetensors(link, tensors, {}); }),
               "is a link to nowhere");
  write_safetensors(folder.path() / "file", {}, {});
  write_safetensors(link, tensors, {});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_safetensors(folder.path() / "file").tensors.size(), 1u);
}

}  // namespace
}  // namespace attnlab
