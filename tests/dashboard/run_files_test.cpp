#include "catalog/run_files.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "dashboard/api/console_files.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_writer.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::dashboard;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("run files: files outside the run directory cannot be opened") {
  const TemporaryDirectory root;
  const auto run = root.path() / "runs" / "one";
  write(run / "config.yaml", "a: 1");
  write(run / "logs" / "x.log", "x");
  write(run / ".hidden", "secret");
  write(root.path() / "secret", "secret");
  fs::create_symlink(root.path() / "secret", run / "link");
  fs::create_directory_symlink(root.path(), run / "outside");
  fs::create_directory_symlink(run / "logs", run / "inside");
  CHECK(catalog::open_inner_file(run, "config.yaml").bytes == 4);
  CHECK(catalog::open_inner_file(run, "logs/x.log").file);
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
    CHECK_FALSE(catalog::open_inner_file(run, path).file);
  }
  CHECK_FALSE(catalog::open_inner_file(run, std::string("config.yaml\0x", 13)).file);
  CHECK_FALSE(catalog::open_inner_file(run, std::string(2000, 'a')).file);
  bool more = false;
  const auto files = catalog::list_files(run, 10, more);
  CHECK_FALSE(more);
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "config.yaml");
  CHECK(files[1].path == "logs/x.log");
  CHECK(catalog::list_files(run, 1, more).size() == 1);
  CHECK(more);
}

TEST_CASE("console: streams of all nodes and attempts, chunks, tails and searches") {
  const TemporaryDirectory root;
  const auto logs = root.path() / "logs";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  write(logs / "attempt_0" / "0" / "stdout.log", text + "unfinished");
  write(logs / "attempt_0" / "1" / "stderr.log", "10 %\r50 %\r100 %\r\nERROR: Bad\n");
  write(logs / "attempt_0" / "1.2" / "stderr.log", "again\n");
  write(logs / "node_1" / "attempt_0" / "0" / "stdout.log", "node");
  catalog::NameTable names;
  const auto streams = console_streams(catalog::RunLogs(root.path(), names, nullptr));
  REQUIRE(streams.size() == 4);
  CHECK(streams[0].name == "0-0-0-out");
  CHECK(streams[1].name == "0-0-1-err");
  CHECK(streams[1].rank == 1);
  CHECK(streams[2].name == "0-0-1.2-err");
  CHECK(streams[2].rank == 1);
  CHECK(streams[2].start == 2);
  CHECK(streams[3].node == 1);

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

TEST_CASE("console: ranks of nodes with different numbers of ranks, and with spares") {
  const TemporaryDirectory root;
  fs::create_directories(root / "events");
  std::vector<int> expected;
  SECTION("2 and 4 ranks") {
    for (const auto* rank : {"node_0/attempt_0/0", "node_0/attempt_0/1", "node_1/attempt_0/0",
                             "node_1/attempt_0/1", "node_1/attempt_0/2", "node_1/attempt_0/3"})
      write(root / "logs" / rank / "stdout.log", "a\n");
    expected = {0, 1, 2, 3, 4, 5};
  }
  SECTION("a spare of each of two nodes with 2 ranks") {
    tracking::EventLogWriter log(tracking::event_log_path(root.path(), 0), 64u << 10);
    log.identity({.id = "run", .name = "run", .job_id = "run", .world_size = 4});
    log.close();
    for (const auto* node : {"node_0", "node_1"})
      for (const auto* rank : {"0", "1", "2"})
        write(root / "logs" / node / "attempt_3" / rank / "stdout.log", "a\n");
    expected = {0, 1, 2, 2, 3, 4};  // a spare is named like a further rank of its node
  }
  SECTION("the files of the first node are not here") {
    for (const auto* rank : {"0", "1"})
      write(root / "logs" / "node_1" / "attempt_0" / rank / "stdout.log", "a\n");
    expected = {2, 3};
  }
  catalog::NameTable names;
  catalog::ColumnSpool spool({root.path()});
  catalog::RunLogs logs(root.path(), names, &spool);
  logs.catch_up();
  std::vector<int> ranks;
  for (const auto& stream : console_streams(logs)) ranks.push_back(stream.rank);
  CHECK(ranks == expected);
}

TEST_CASE("console: output recorded in the event log of a node without local files") {
  const TemporaryDirectory root;
  catalog::NameTable names;
  catalog::ColumnSpool spool({root.path()});
  write(root.path() / "logs" / "attempt_0" / "0" / "stdout.log", "from the file\n");
  // Segments of 64 KiB: the lines span several of them.
  fs::create_directories(root.path() / "events");
  tracking::EventLogWriter node(tracking::node_log_path(root.path(), 1), 64u << 10);
  node.identity({.id = "run-node-1", .name = "node 1", .job_id = "run", .node_rank = 1});
  for (int i = 0; i < 20000; ++i)
    for (const int rank : {0, 2, 3})
      node.console({.time = 1000.0 + i,
                    .rank = rank,
                    .is_error = rank == 3,
                    .line = "line " + std::to_string(i) + " of rank " + std::to_string(rank)});
  node.close();
  catalog::RunLogs logs(root.path(), names, &spool);
  logs.catch_up();
  const auto streams = console_streams(logs);
  REQUIRE(streams.size() == 3);  // rank 0 has a file, so its recorded output is skipped
  CHECK(streams[0].name == "0-0-0-out");
  CHECK(streams[1].name == "node-1-2-out");
  CHECK(streams[1].node == 1);
  CHECK(streams[1].modified == 20999);
  CHECK(streams[2].name == "node-1-3-err");
  CHECK(streams[2].is_error);

  std::vector<std::string> all;
  uint64_t end = 0;
  while (end < streams[2].bytes) {
    const auto chunk = read_console(streams[2], end, 10000, true);
    REQUIRE(chunk.begin == end);
    REQUIRE(chunk.end > end);
    all.insert(all.end(), chunk.lines.begin(), chunk.lines.end());
    end = chunk.end;
  }
  REQUIRE(all.size() == 20000);
  CHECK(all[12345] == "line 12345 of rank 3");
  CHECK(read_console_tail(streams[1], 2, true).lines ==
        std::vector<std::string>{"line 19998 of rank 2", "line 19999 of rank 2"});
  const auto found = search_console(streams[1], "LINE 7777 ", 0, 10);
  REQUIRE(found.matches.size() == 1);
  CHECK(found.matches[0].line == "line 7777 of rank 2");
  CHECK(read_console(streams[1], found.matches[0].offset, 100, true).lines.front() ==
        "line 7777 of rank 2");
}
