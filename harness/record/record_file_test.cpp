#include "harness/record/record_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Keeps files in a folder of their own, which is removed with the test.
class RecordFiles : public testing::Test {
 protected:
  RecordFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "attnlab-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~RecordFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& text) const {
    std::filesystem::path file = folder_ / "records.jsonl";
    std::ofstream(file) << text;
    return file;
  }
  std::string read_error(const std::filesystem::path& file) {
    return usage_error([&] { read_records(file, warnings_); });
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  std::vector<std::string> warnings_;
};

// Returns the text of a record, without the end of its line.
std::string line(int i) { return R"({"schema":"attnlab.record/1","i":)" + std::to_string(i) + "}"; }

TEST_F(RecordFiles, AppendsLinesThatCanBeReadBack) {
  const std::filesystem::path file = folder_ / "new" / "folder" / "records.jsonl";
  const Json record = Json::parse(line(1));
  { RecordFile(file).append({record}); }
  RecordFile again(file);
  again.append({record, record});
  const auto records = read_records(file, warnings_);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].dump(), record.dump()) << "the order of keys is kept";
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordFiles, SurvivesAHalfWrittenLine) {
  const std::filesystem::path file = write(line(1) + "\n" + line(2).substr(0, 20));
  EXPECT_EQ(read_records(file, warnings_).size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("records.jsonl:2: half-written"), std::string::npos);

  RecordFile(file).append({Json::parse(line(3))});
  const auto records = read_records(file, warnings_);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1]["i"], 3);
  EXPECT_EQ(warnings_.size(), 1u) << "nothing is left of it";
}

TEST_F(RecordFiles, ATornLineMayEndAnywhere) {
  for (std::size_t length = 1; length < line(2).size(); ++length) {
    warnings_.clear();
    EXPECT_EQ(read_records(write(line(1) + "\n" + line(2).substr(0, length)), warnings_).size(),
              1u);
    EXPECT_EQ(warnings_.size(), 1u) << length;
  }
}

TEST_F(RecordFiles, DeepNestingIsRefusedNotFollowed) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const auto file = write(R"({"schema":"attnlab.record/1","x":)" + deep + "}\n");
  const std::string error = read_error(file);
  EXPECT_NE(error.find("records.jsonl:1: is nested deeper"), std::string::npos) << error;
}

// If a zero byte were taken for the end of the line, it would hide what follows.
TEST_F(RecordFiles, AZeroByteEndsNoRecord) {
  const auto file = write(line(2) + "\n" + line(1) + std::string(1, '\0') + "x\n");
  EXPECT_EQ(read_records(file, warnings_).size(), 1u);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(RecordFiles, OnlyTheEndMayBeDamaged) {
  const std::string zero(1, '\0');
  for (const std::string& damaged :
       {line(2).substr(0, 5), line(2).substr(0, 30), line(2) + zero, zero}) {
    const auto file = write(line(1) + "\n" + damaged + "\n\n" + line(3) + "\n");
    EXPECT_PRED2(contains, read_error(file),
                 "records.jsonl:2: is damaged, and only the last line may be, by a crash: take the "
                 "line out (attnlab run --resume");
    EXPECT_TRUE(warnings_.empty());
  }
}

TEST_F(RecordFiles, WhatIsAppendedBehindATornLineCanBeRead) {
  const auto file = write(line(1) + "\n" + line(2).substr(0, 30) + "\n \n\n");
  RecordFile(file).append({Json::parse(line(3))});
  EXPECT_EQ(read_records(file, warnings_).size(), 2u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordFiles, AValueThatCannotBeIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("time":"soon")", R"(time: "soon" is not null or object)"},
      {R"("problem":{"seqlen_q":-5})", "problem.seqlen_q: -5 is below 1"},
      {R"("problem":{"seqlen_k":1e30})", "problem.seqlen_k: 1e+30 is not integer"},
      {R"("problem":{"batch":18446744073709551615})", "problem.batch: 18446744073709551615 is abo"},
      {R"("problem":{"dropout":1})", "problem.dropout: 1 is not below 1"},
      {R"("problem":{"batch":2,"lengths":{"keys":[1]}})",
       "problem.lengths.keys: [1] has 1 entries"},
      {R"("kernel":7)", "kernel: 7 is not string"},
      {R"("kernel":"")", R"(kernel: "" is empty)"},
      {R"("status":"fine")", R"(status: "fine" is none of ["ok",)"},
      {R"("seed":-1)", "seed: -1 is below 0"},
      {R"("config":{"block_m":"64"})", R"(config.block_m: "64" is not integer)"},
      {R"("time":{"median_s":-1e-3})", "time.median_s: -0.001 is below 0"},
      {R"("time":{"median_s":"soon"})", R"(time.median_s: "soon" is not of the form ^(nan|inf)"},
      {R"("time":{"samples_s":[1,null]})", "time.samples_s[1]: null is not number or string"},
      {R"("time":{"ci95_s":[1]})", "time.ci95_s: [1] has too few items"},
      {R"("verify":[{"tensor":"q"}])", R"(verify[0].tensor: "q" is none of)"},
      {R"("timestamp":"yesterday")", R"(timestamp: "yesterday" is not of the form)"},
  };
  for (const auto& [members, why] : cases) {
    const std::string bad = R"({"schema":"attnlab.record/1",)" + std::string(members) + "}";
    const std::string error = read_error(write(line(1) + "\n" + bad + "\n" + line(2) + "\n"));
    EXPECT_PRED2(contains, error, std::string("records.jsonl:2: ") + why);
    EXPECT_PRED2(contains, error, ": correct it, or take the line out");
  }
  for (const char* members :
       {R"("later":{"seqlen_q":-5})", R"("problem":{"seqlen_q":5,"later":"soon"})",
        R"("time":{"median_s":"nan","later":[]})", R"("seed":18446744073709551615)"}) {
    const std::string later = R"({"schema":"attnlab.record/1",)" + std::string(members) + "}";
    EXPECT_EQ(read_error(write(later + "\n")), "") << "of a later version";
  }
}

TEST_F(RecordFiles, BytesThatAreNotUtf8AreReplaced) {
  const std::filesystem::path file = folder_ / "records.jsonl";
  Json record = Json::parse(line(1));
  record["command_line"] = "attnlab run \xff";
  RecordFile(file).append({record});
  EXPECT_EQ(read_records(file, warnings_).at(0)["command_line"], "attnlab run \uFFFD");
}

TEST_F(RecordFiles, ALastLineWithoutNewlineIsARecord) {
  EXPECT_EQ(read_records(write(line(1) + "\n" + line(2)), warnings_).size(), 2u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordFiles, BlankLinesAreNothing) {
  const std::string text = "\n" + line(1) + "\r\n\n \t\n\r\n" + line(2) + "\n  ";
  EXPECT_EQ(read_records(write(text), warnings_).size(), 2u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordFiles, ErrorsNameFileAndLine) {
  const std::string other = R"({"schema":"attnlab.record/2"})";
  for (const std::string& bad :
       {std::string("garbage"), other, std::string("[1]"), std::string("3"), std::string("{}")}) {
    const std::string message = read_error(write(line(1) + "\n\n" + bad + "\n" + line(2) + "\n"));
    EXPECT_NE(message.find("records.jsonl:3: not"), std::string::npos) << bad << ": " << message;
    EXPECT_PRED2(contains, message, ": correct it, or take the line out");
  }
  EXPECT_NE(read_error(folder_ / "absent").find("absent: cannot open it"), std::string::npos);
}

TEST_F(RecordFiles, AKeyThatIsThereTwiceIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"schema":"attnlab.record/1","i":1,"i":2})", "key 'i' is given twice"},
      {R"({"schema":"attnlab.record/1","x":[{"a":{"b":1},"a":2}]})", "key 'a' is given twice"},
  };
  for (const auto& [bad, why] : cases) {
    const std::string error = read_error(write(line(1) + "\n" + bad + "\n"));
    EXPECT_PRED2(contains, error, std::string("records.jsonl:2: ") + why);
  }
  EXPECT_EQ(read_error(write(R"({"schema":"attnlab.record/1","x":[{"a":1},{"a":2}],"a":3})")), "");
}

// A kill leaves such an end, and so do some file systems after a power cut: they fill with zero
// bytes what had room already.
TEST_F(RecordFiles, ATornLineIsRemovedWhereverItEnds) {
  const std::string record = R"({"schema":"attnlab.record/1","i":[1,{"a":"b\\"}],"j":-2.5e3})";
  for (const std::size_t zeros : {0u, 1u, 5000u}) {
    for (std::size_t length = 0; length <= record.size(); ++length) {
      const std::string torn = record.substr(0, length) + std::string(zeros, '\0');
      const auto file = write(line(1) + "\n" + torn);
      const std::size_t before = read_records(file, warnings_).size();
      const std::string report = RecordFile(file).repair();
      const bool is_whole = length == record.size() && zeros == 0;
      EXPECT_EQ(text_of(file), line(1) + "\n" + (is_whole ? record + "\n" : "")) << length;
      EXPECT_EQ(before, is_whole ? 2u : 1u) << "what is read is what is kept";
      const std::string done = is_whole       ? ": ended its last line"
                               : torn.empty() ? ""
                                              : ": removed its last " + std::to_string(torn.size());
      EXPECT_PRED2(contains, report, done);
      EXPECT_EQ(report.empty(), torn.empty());
      EXPECT_EQ(RecordFile(file).repair(), "") << "once is enough";
    }
  }
}

TEST_F(RecordFiles, OnlyTheTornEndIsRemoved) {
  const std::string zeros(9000, '\0');
  const std::string whole = line(1) + "\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {zeros, ""},
      {"\n", "\n"},
      {whole + " \r\n", whole + " \r\n"},
      {whole + "  ", whole + "  \n"},
      {whole + zeros, whole},
      {line(1) + zeros, ""},
      {whole + line(2).substr(0, 30) + "\n", whole},            // ended by an older version
      {whole + zeros + "\"x\":3}\n" + zeros + line(2), whole},  // two lines lost a page each
      {whole + line(2).substr(0, 30) + "\n\n", whole},
  };
  for (const auto& [before, after] : cases) {
    const auto file = write(before);
    const std::string report = RecordFile(file).repair();
    EXPECT_EQ(text_of(file), after);
    EXPECT_EQ(report.empty(), before == after);
    EXPECT_EQ(read_error(file), "");
  }
}

TEST_F(RecordFiles, WhatIsNoRecordFileIsLeftAlone) {
  for (const std::string text : {"# Title\n", "{\"a\": 1}", "q k v", "[\n1\n]\n"}) {
    const auto file = write(text);
    EXPECT_PRED2(contains, usage_error([&] { RecordFile(file).append({Json::parse(line(1))}); }),
                 "records.jsonl: its last line: not");
    EXPECT_EQ(text_of(file), text);
  }
}

TEST_F(RecordFiles, AFileHasOneWriter) {
  const auto file = write(line(1) + "\n" + line(2).substr(0, 9));
  {
    RecordFile first(file);
    std::string error;
    try {
      RecordFile second(file);
    } catch (const UsageError&) {
      FAIL() << "the command is a good one, and may be given again";
    } catch (const std::runtime_error& taken) {
      error = taken.what();
    }
    EXPECT_PRED2(contains, error, file.string() + ": another attnlab");
    EXPECT_PRED2(contains, error, " is writing to it: ");
    if (std::filesystem::exists("/proc/locks")) {
      EXPECT_PRED2(contains, error, " (process " + std::to_string(getpid()) + ") ");
    }
    EXPECT_EQ(read_records(file, warnings_).size(), 1u) << "readers need no lock";
  }
  EXPECT_NE(RecordFile(file).repair(), "") << "nobody has it, and nobody had changed it";
}

TEST_F(RecordFiles, WhatIsNoRegularFileHasNoLock) {
  RecordFile one("/dev/null"), two("/dev/null");
  two.append({Json::parse(line(1))});
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  RecordFile three(pipe), four(pipe);
  four.append({Json::parse(line(1))});
  std::string text(100, '\0');
  text.resize(static_cast<std::size_t>(read(reader, text.data(), text.size())));
  EXPECT_EQ(text, line(1) + "\n");
  close(reader);
}

// Limits the size of any file that this process writes, while the object lives.
class LargestFile {
 public:
  explicit LargestFile(std::size_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LargestFile() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

// The limit acts like a full disk: a part of the record fits.
TEST_F(RecordFiles, WhatDoesNotFitLeavesNothingOfItself) {
  const std::filesystem::path file = write("");
  RecordFile records(file);
  records.append({Json::parse(line(1))});
  const std::string before = text_of(file);
  try {
    const LargestFile limit(before.size() + 10);
    records.append({Json::parse(line(2))});
    ADD_FAILURE() << "it fits";
  } catch (const NotSaved& error) {
    EXPECT_PRED2(contains, error.what(), file.string() + ": cannot write to it: ");
  }
  EXPECT_EQ(text_of(file), before);
  records.append({Json::parse(line(3))});
  EXPECT_EQ(read_records(file, warnings_).size(), 2U);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RecordFiles, AFileThatCannotBeWrittenIsNamed) {
  const auto error_of = [](const std::filesystem::path& file) -> std::string {
    try {
      return usage_error([&] { RecordFile(file).append({Json::object()}); });
    } catch (const NotSaved& error) {
      return error.what();
    }
  };
  EXPECT_NE(error_of(folder_).find(folder_.string() + ": cannot open"), std::string::npos);
  const std::filesystem::path file = write("");
  EXPECT_NE(error_of(file / "below" / "it").find("cannot create its folder"), std::string::npos);
  EXPECT_NE(error_of("/dev/full").find("/dev/full: cannot write"), std::string::npos);
}

}  // namespace
}  // namespace attnlab
