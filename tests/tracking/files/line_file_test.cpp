#include "tracking/log/line_file.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// Records are "<digit>\n", of that step.
std::string digits_up_to(std::string_view text, int64_t step) {
  std::string kept;
  for (size_t i = 0; i < text.size(); i += 2)
    if (text[i] - '0' <= step) kept += text.substr(i, 2);
  return kept;
}

struct Lines {
  TemporaryDirectory directory;
  LineFile::Paths paths{directory / "lines", directory / "note"};

  LineFile open(const Json& state) const { return {paths, state, digits_up_to}; }
  std::string content() const { return read_file(paths.file); }
};

// The records after the last state, given again.
void give(LineFile& file) {
  file.append("5\n2\n");
  file.rewind(3);
  file.append("4\n");
}

constexpr auto kExpected = "1\n2\n3\n2\n4\n";

struct Interrupted : Lines {
  Interrupted() {
    auto file = open(nullptr);
    file.append("1\n2\n3\n4\n");
    state = file.flush();
  }
  // A new object with the old state, which receives everything again.
  void resume() {
    {
      auto file = open(state);
      give(file);
      state = file.flush();
    }
    CHECK(content() == kExpected);
    CHECK(state == Json({{"length", 10}, {"rewinds", 1}}));
    CHECK(open(state).flush() == state);
    CHECK(content() == kExpected);
  }
  Json state;
};

}  // namespace

TEST_CASE("line file: a rewind removes flushed and unflushed records") {
  Interrupted run;
  run.resume();
}

TEST_CASE("line file: killed after the kept part had replaced the file") {
  Interrupted run;
  write_file_durably(run.paths.file, "1\n2\n3\n");
  run.resume();
}

TEST_CASE("line file: killed after writing the note, and while writing new records") {
  for (const auto* content : {"1\n2\n3\n", "1\n2\n3\n2", "1\n2\n3\n2\n4\n"}) {
    Interrupted run;
    {
      auto file = run.open(run.state);
      give(file);
      file.flush();
    }
    write_file_durably(run.paths.file, content);
    run.resume();
  }
}

TEST_CASE("line file: a flush between repeated records, and then a kill") {
  Interrupted run;
  {
    auto file = run.open(run.state);
    give(file);
    file.flush();  // its state is lost
  }
  {
    auto file = run.open(run.state);
    file.append("5\n2\n");
    run.state = file.flush();
    file.rewind(3);
  }
  CHECK(run.content() == "1\n2\n3\n5\n2\n");
  auto file = run.open(run.state);
  CHECK(run.content() == "1\n2\n3\n5\n2\n");
  file.rewind(3);
  file.append("4\n");
  file.flush();
  CHECK(run.content() == kExpected);
}

TEST_CASE("line file: without a state it starts a new file, even if one exists") {
  Lines lines;
  write_file_durably(lines.paths.file, "9\n9\n");
  write_file_durably(lines.paths.note, R"({"rewinds": 0, "length": 2})");
  auto file = lines.open(nullptr);
  CHECK(file.is_empty());
  file.append("1\n");
  file.flush();
  CHECK(lines.content() == "1\n");
}
