#include "ui/run_files.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_directory.h"
#include "ui/console_files.h"

using namespace lockstep;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("run files: nothing outside of the directory can be opened") {
  const TemporaryDirectory root;
  const auto run = root.path() / "runs" / "one";
  write(run / "config.yaml", "a: 1");
  write(run / "logs" / "x.log", "x");
  write(run / ".hidden", "secret");
  write(root.path() / "secret", "secret");
  fs::create_symlink(root.path() / "secret", run / "link");
  fs::create_directory_symlink(root.path(), run / "outside");
  fs::create_directory_symlink(run / "logs", run / "inside");
  CHECK(open_inner_file(run, "config.yaml").bytes == 4);
  CHECK(open_inner_file(run, "logs/x.log").file);
  for (const std::string path : {"",
                                 ".",
                                 "..",
                                 "../secret",
                                 "../../secret",
                                 "logs/../../secret",
                                 "logs/../config.yaml",
                                 "/etc/passwd",
                                 "//etc/passwd",
                                 "logs//x.log",
                                 "./config.yaml",
                                 "logs/",
                                 "logs",
                                 "link",
                                 "outside/secret",
                                 "inside/x.log",
                                 ".hidden",
                                 "logs\\x.log",
                                 "config.yaml/..",
                                 "nothing",
                                 "config.yaml/x",
                                 "..%2fsecret"}) {
    INFO(path);
    CHECK_FALSE(open_inner_file(run, path).file);
  }
  CHECK_FALSE(open_inner_file(run, std::string("config.yaml\0x", 13)).file);
  CHECK_FALSE(open_inner_file(run, std::string(2000, 'a')).file);
  bool more = false;
  const auto files = list_files(run, 10, more);
  CHECK_FALSE(more);
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "config.yaml");
  CHECK(files[1].path == "logs/x.log");
  CHECK(list_files(run, 1, more).size() == 1);
  CHECK(more);
}

TEST_CASE("console: streams of all nodes and attempts, pieces, tails and searches") {
  const TemporaryDirectory root;
  const auto logs = root.path() / "logs";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  write(logs / "attempt_0" / "0" / "stdout.log", text + "unfinished");
  write(logs / "attempt_0" / "1" / "stderr.log", "10 %\r50 %\r100 %\r\nERROR: Bad\n");
  write(logs / "node_1" / "attempt_0" / "0" / "stdout.log", "node");
  const auto streams = console_streams(root.path());
  REQUIRE(streams.size() == 3);
  CHECK(streams[0].name == "0-0-0-out");
  CHECK(streams[1].name == "0-0-1-err");
  CHECK(streams[1].rank == 1);
  CHECK(streams[2].node == 1);

  const auto first = read_console(streams[0], 0, 1024, false);
  CHECK(first.lines.front() == "line 0");
  CHECK(first.end <= 1024);
  auto all = first.lines;
  auto end = first.end;
  for (int i = 0; i < 100 && end < first.size; ++i) {
    const auto next = read_console(streams[0], end, 1024, true);
    CHECK(next.begin == end);
    all.insert(all.end(), next.lines.begin(), next.lines.end());
    end = next.end;
  }
  REQUIRE(all.size() == 1001);
  CHECK(all[999] == "line 999");
  CHECK(all[1000] == "unfinished");
  CHECK(read_console(streams[0], 0, 1u << 20, false).lines.size() == 1000);

  const auto tail = read_console_tail(streams[0], 3, true);
  CHECK(tail.lines.back() == "unfinished");
  const auto before = read_console_before(streams[0], tail.begin, 100);
  CHECK(before.lines.back() == "line 997");
  CHECK(before.end == tail.begin);
  CHECK(read_console_tail(streams[0], 10000, true).lines.size() == 1001);

  CHECK(read_console(streams[1], 0, 1024, true).lines ==
        std::vector<std::string>{"100 %", "ERROR: Bad"});
  const auto found = search_console(streams[1], "error", 0, 10);
  REQUIRE(found.matches.size() == 1);
  CHECK(found.matches[0].line == "ERROR: Bad");
  CHECK(found.end == found.size);
  const auto two = search_console(streams[0], "LINE 99", 0, 2);
  CHECK(two.matches.size() == 2);
  const auto rest = search_console(streams[0], "LINE 99", two.end, 100);
  CHECK(rest.matches.size() == 9);
}
