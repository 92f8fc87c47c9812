#include "tracking/agent/console_watch.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

void append(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::app) << text;
}

std::vector<std::string> lines_of(ConsoleWatch& watch, bool is_final = false) {
  std::vector<std::string> lines;
  bool more = true;
  while (more)
    more = watch.poll(8, 1.5, is_final, [&](const ConsoleLine& line) {
      lines.push_back(std::to_string(line.rank) + (line.is_error ? " err " : " out ") + line.line);
    });
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("console watch: reports whole lines as they are appended, with rank and stream") {
  const TemporaryDirectory dir;
  ConsoleWatch watch(dir.path(), {});
  CHECK(lines_of(watch).empty());
  append(dir / "attempt_0/0/stdout.log", "one\r\ntw");
  append(dir / "attempt_0/1/stderr.log", "oops\n");
  append(dir / "attempt_0/1/else.log", "not this\n");
  CHECK(lines_of(watch) == Lines{"8 out one", "9 err oops"});
  CHECK(lines_of(watch).empty());
  append(dir / "attempt_0/0/stdout.log", "o\nend");
  CHECK(lines_of(watch) == Lines{"8 out two"});
  CHECK(lines_of(watch, true) == Lines{"8 out end"});
  CHECK(lines_of(watch, true).empty());
}

TEST_CASE("console watch: a new watch skips lines that an earlier one reported") {
  const TemporaryDirectory dir;
  append(dir / "attempt_0/0/stdout.log", "a\nb\n");
  append(dir / "attempt_1/0/stdout.log", "c\n");
  ConsoleWatch watch(dir.path(), {{{8, false}, 2}});
  CHECK(lines_of(watch) == Lines{"8 out c"});
}

TEST_CASE(
    "console watch: a new watch counts lines as the earlier one did, whenever that has read them") {
  const TemporaryDirectory dir;
  const auto log = dir / "attempt_0/0/stderr.log";
  ConsoleWatch first(dir.path(), {});
  uint64_t count = 0;
  for (int i = 0; i < 64; ++i) {  // a progress bar: no line breaks
    append(log, std::string(1000, '#'));
    count += lines_of(first).size();
  }
  CHECK(count == 7);
  append(log, "\nend\n");
  ConsoleWatch second(dir.path(), {{{8, true}, count}});
  CHECK(lines_of(second) == Lines{"8 err " + std::string(64'000 - 7 * 8192, '#'), "8 err end"});
}

TEST_CASE("console watch: the last line of an earlier attempt is reported without a line break") {
  const TemporaryDirectory dir;
  append(dir / "attempt_0/0/stderr.log", "a\nbar");
  append(dir / "attempt_0/0/stdout.log", "x");
  ConsoleWatch first(dir.path(), {});
  CHECK(lines_of(first, true) == Lines{"8 out x", "8 err a", "8 err bar"});
  append(dir / "attempt_1/0/stderr.log", "b\nc\n");
  ConsoleWatch second(dir.path(), {{{8, true}, 2}, {{8, false}, 1}});
  CHECK(lines_of(second) == Lines{"8 err b", "8 err c"});
}

TEST_CASE("console watch: reads attempts, and starts of a rank, in the order of their numbers") {
  const TemporaryDirectory dir;
  for (const auto* name : {"attempt_2/0", "attempt_2/0.2", "attempt_2/0.10", "attempt_10/0"})
    append(dir / name / "stdout.log", std::string(name) + "\n");
  ConsoleWatch watch(dir.path(), {{{8, false}, 1}});
  CHECK(lines_of(watch) ==
        Lines{"8 out attempt_2/0.2", "8 out attempt_2/0.10", "8 out attempt_10/0"});
}

TEST_CASE("console watch: truncates long lines, and reads large output in chunks") {
  const TemporaryDirectory dir;
  append(dir / "attempt_0/0/stdout.log", std::string(3u << 20, 'x') + "\n");
  std::string many;
  for (int i = 0; i < 300'000; ++i) many += std::to_string(i) + "\n";
  append(dir / "attempt_0/1/stdout.log", many);
  ConsoleWatch watch(dir.path(), {});
  const auto lines = lines_of(watch);
  CHECK(lines.front().size() == std::string("8 out ").size() + 8192);
  CHECK(std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("9 out "); }) ==
        300'000);
  CHECK(lines.back() == "9 out 299999");
}
