// Event logs that continue in further segments.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>

#include "tests/temporary_directory.h"
#include "tests/tracking/segmented_log.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace fs = std::filesystem;

namespace {

// Appends in a separate process, which is killed once it has announced `announce_at` steps. Returns
// the steps that are certain to be appended.
int64_t kill_a_segment_writer(const fs::path& path, int64_t first, int64_t announce_at) {
  auto* memory = ::mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* returned = new (memory) std::atomic<int64_t>(0);
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("no pipe");
  const auto child = ::fork();
  if (child == 0) {
    EventLogWriter log(path, 300);
    for (int64_t step = first;; ++step) {
      log_loss(log, step, 1);
      returned->store(step);
      if (step == first + announce_at && ::write(pipe[1], "x", 1) != 1) ::_exit(1);
    }
  }
  ::close(pipe[1]);
  char byte = 0;
  const auto got = ::read(pipe[0], &byte, 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  const auto last = returned->load();
  ::munmap(memory, sizeof(std::atomic<int64_t>));
  if (got != 1 || !WIFSIGNALED(status)) throw std::runtime_error("no writer to be killed");
  return last;
}

}  // namespace

TEST_CASE("event log rotation: a log of many segments is read as one") {
  const TemporaryDirectory dir;
  const auto path = dir / "rank-00000.lsev";
  std::vector<std::string> expected;
  {
    EventLogWriter log(path, kSmall);
    write_process(log, 1, 1, 300, expected);
    CHECK(log.num_dropped() == 0);
    log.close();
  }
  const auto last = last_segment(path);
  CHECK(last > 10);
  CHECK(segment_path(path, 2) == dir / "rank-00000.2.lsev");
  CHECK(all_of(path) == expected);

  const auto log = read_event_log(path);
  CHECK(log.problem.empty());
  CHECK_FALSE(log.torn);
  CHECK(log.num_frames == expected.size());
  REQUIRE(log.rows.size() == 300);
  for (int step = 1; step <= 300; ++step) {
    const auto& row = log.rows[static_cast<size_t>(step - 1)];
    REQUIRE(row.step == step);
    REQUIRE(row.values.size() == 1);
    REQUIRE(row.values[0].second == step * 0.5);
    REQUIRE(log.keys[row.values[0].first] == "m/" + std::to_string(step / 7));
  }
  CHECK(log.texts.size() == 30);
  CHECK(log.info->pid == 1);
  CHECK(log.config["pid"] == 1);
  CHECK(log.summary["last"] == 300);
  CHECK(log.end->state == RunState::Finished);
  uint64_t bytes = 0;
  for (uint32_t number = 0; number <= last; ++number)
    bytes += fs::file_size(segment_path(path, number));
  CHECK(log.good_bytes == bytes);
}

TEST_CASE("event log rotation: files stay below the limit, and each is a valid event log") {
  const TemporaryDirectory dir;
  std::vector<std::string> expected;
  EventLogWriter log(dir / "log", 4000);
  write_process(log, 1, 1, 300, expected);
  log.close();
  const auto last = last_segment(dir / "log");
  REQUIRE(last > 2);
  size_t num_rows = 0;
  for (uint32_t number = 0; number <= last; ++number) {
    const auto path = segment_path(dir / "log", number);
    CHECK(fs::file_size(path) <= 4000);
    if (number != last) CHECK(fs::file_size(path) > 3800);
    const auto alone = read_log_segment(path);
    CHECK_FALSE(alone.torn);
    CHECK(alone.info->pid == 1);
    CHECK(alone.config["pid"] == 1);
    for (const auto& row : alone.rows)
      REQUIRE(alone.keys[row.values[0].first] == "m/" + std::to_string(row.step / 7));
    num_rows += alone.rows.size();
  }
  CHECK(num_rows == 300);
}

TEST_CASE("event log rotation: with a limit smaller than a record, each record gets a file") {
  const TemporaryDirectory dir;
  std::vector<std::string> expected;
  EventLogWriter log(dir / "log", 0);
  write_process(log, 1, 1, 5, expected);
  CHECK(log.num_dropped() == 0);
  CHECK(last_segment(dir / "log") == expected.size() - 1);
  CHECK(all_of(dir / "log") == expected);
  CHECK(read_event_log(dir / "log").num_frames == expected.size());
}

TEST_CASE("event log rotation: a rewind applies to earlier segments") {
  const TemporaryDirectory dir;
  {
    EventLogWriter log(dir / "log", kSmall);
    log.identity(sample_info());
    for (int step = 1; step <= 100; ++step) log_loss(log, step, 1);
    log.rewind(10);
    for (int step = 11; step <= 60; ++step) log_loss(log, step, 2);
    log.rewind(50);
    for (int step = 51; step <= 90; ++step) log_loss(log, step, 3);
  }
  CHECK(last_segment(dir / "log") > 8);
  const auto log = read_event_log(dir / "log");
  std::vector<std::string> rows, expected;
  for (const auto& row : log.rows)
    rows.push_back(row_line("train/loss", row.step, row.values[0].second));
  for (int step = 1; step <= 90; ++step)
    expected.push_back(row_line("train/loss", step, step <= 10 ? 1 : step <= 50 ? 2 : 3));
  CHECK(rows == expected);
  auto seen = all_of(dir / "log");
  std::erase_if(seen, [](const std::string& line) { return !line.starts_with("row "); });
  CHECK(seen == expected);
}

TEST_CASE("event log rotation: a resumed run continues the last segment, for any limit") {
  const TemporaryDirectory dir;
  const auto path = dir / "rank-00000.lsev";
  std::vector<std::string> expected;
  int step = 0;
  for (int64_t pid = 1; pid <= 12; ++pid) {
    const auto before = last_segment(path);
    const auto size = pid == 1 ? 0 : fs::file_size(segment_path(path, before));
    EventLogWriter log(path, pid % 3 == 0 ? kMaxSegmentBytes : kSmall);
    write_process(log, pid, step + 1, step + 17, expected);
    step += 17;
    if (pid % 2) log.close();
    if (pid % 3 == 0) CHECK(last_segment(path) == before);
    CHECK(fs::file_size(segment_path(path, before)) >= size);
  }
  CHECK(all_of(path) == expected);
  const auto log = read_event_log(path);
  CHECK(log.info->pid == 12);
  CHECK(log.info->created == 1.7e9 + 1);  // of the first process
  CHECK(log.info->resumed == 1.7e9 + 12);
  const LogTail tail(path, std::numeric_limits<uint64_t>::max());  // reads only the last segment
  CHECK(tail.identity()->created == 1.7e9 + 1);
  CHECK(tail.identity()->resumed == 1.7e9 + 12);
  CHECK(log.config["pid"] == 12);
  CHECK(log.rows.size() == 12 * 17);
  CHECK(log.end.has_value());
  CHECK_FALSE(log.torn);
  // An end is void only if a new process follows, not if the log continues in a new file.
  EventLogWriter(path, 0).text({.line = "late"});
  CHECK(read_event_log(path).end.has_value());
}

TEST_CASE("event log rotation: the writer is seen as alive while it writes any segment") {
  const TemporaryDirectory dir;
  const auto path = dir / "log";
  {
    EventLogWriter log(path, kSmall);
    for (int step = 1; step <= 100; ++step) {
      log_loss(log, step, 1);
      REQUIRE(has_writer(path));
    }
    CHECK(last_segment(path) > 3);
    CHECK_THROWS_WITH(EventLogWriter(path), Catch::Contains("is being written by another process"));
    log.close();
    CHECK_FALSE(has_writer(path));
    log_loss(log, 101, 1);
    CHECK(log.num_dropped() == 1);
  }
  const auto last = last_segment(path);
  EventLogWriter log(path);
  CHECK(has_writer(path));
  log_loss(log, 101, 1);
  CHECK(last_segment(path) == last);
  CHECK(read_event_log(path).rows.size() == 101);
}

TEST_CASE("event log rotation: a last segment truncated anywhere in its header is harmless") {
  const TemporaryDirectory dir;
  std::vector<std::string> whole;
  {
    EventLogWriter log(dir / "whole", kSmall);
    log.identity(sample_info());
    log.config({{"lr", 0.1}});
    for (int step = 1; last_segment(dir / "whole") < 3; ++step) log_loss(log, step, 1);
  }
  whole = all_of(dir / "whole");
  const auto bytes = read_file(segment_path(dir / "whole", 3));
  const auto beginning = decode_beginning(bytes)->bytes;
  REQUIRE(bytes.size() > beginning);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    INFO("cut at " << cut);
    const auto path = dir / "log";
    for (uint32_t number = 0; number < 3; ++number)
      fs::copy_file(segment_path(dir / "whole", number), segment_path(path, number),
                    fs::copy_options::overwrite_existing);
    for (uint32_t number = 4; fs::remove(segment_path(path, number)); ++number) continue;
    // As after a kill: the magic is written last, followed by reserved zeros.
    auto left = bytes.substr(0, cut);
    if (cut < beginning && cut % 2) std::memset(left.data(), 0, std::min<size_t>(cut, 8));
    if (cut % 3 == 0) left.append(4096, '\0');
    write_file_durably(segment_path(path, 3), left);

    LogTail live(path);
    auto expected = whole;
    if (cut < bytes.size()) expected.pop_back();
    REQUIRE(rest_of(live) == expected);
    const auto backlog = live.backlog();
    REQUIRE(backlog ==
            (cut < beginning ? 0 : left.size() - (cut == bytes.size() ? cut : beginning)));
    const auto read = read_event_log(path);
    REQUIRE(read.problem.empty());
    REQUIRE(read.num_frames == expected.size());
    REQUIRE(read.torn == (left.starts_with("LSEVENTS") && cut != beginning && cut != bytes.size()));
    {
      EventLogWriter log(path, kSmall);
      auto info = sample_info();
      info.pid = 2;
      log.identity(info);
      for (int step = 1; step <= 20; ++step) log_loss(log, step, 2);
      REQUIRE(log.num_dropped() == 0);
    }
    std::vector<std::string> added = {"process 2"};
    for (int step = 1; step <= 20; ++step) added.push_back(row_line("train/loss", step, 2));
    REQUIRE(rest_of(live) == added);
    REQUIRE(live.backlog() == 0);
    expected.insert(expected.end(), added.begin(), added.end());
    REQUIRE(all_of(path) == expected);
    REQUIRE(read_event_log(path).num_frames == expected.size());
  }
}

TEST_CASE("event log rotation: a corrupt segment loses only its records after the corruption") {
  const TemporaryDirectory dir;
  const auto path = dir / "log";
  std::vector<std::string> expected;
  {
    EventLogWriter log(path, kSmall);
    write_process(log, 1, 1, 100, expected);
  }
  const auto bytes = read_file(segment_path(path, 1));
  for (size_t at = decode_beginning(bytes)->bytes; at < bytes.size(); at += 7) {
    auto corrupt = bytes;
    corrupt[at] = static_cast<char>(corrupt[at] ^ 1);
    write_file_durably(segment_path(path, 1), corrupt);
    const auto log = read_event_log(path);
    CHECK(log.torn);
    CHECK(log.rows.back().step == 100);
    for (const auto& row : log.rows)
      REQUIRE(log.keys[row.values[0].first] == "m/" + std::to_string(row.step / 7));
    LogTail tail(path);
    const auto seen = rest_of(tail);
    CHECK(seen.size() == log.num_frames);
    CHECK(seen.back() == "end");
    CHECK(tail.keys() == log.keys);
  }
}

TEST_CASE("event log rotation: the logs of a run are listed once, for any number of files") {
  const TemporaryDirectory dir;
  fs::create_directories(dir / "events");
  for (const int rank : {3, 0}) {
    EventLogWriter log(event_log_path(dir.path(), rank), 0);
    for (int step = 1; step <= 3; ++step) log_loss(log, step, 1);
  }
  EventLogWriter node(node_log_path(dir.path(), 0), 0);
  for (int step = 1; step <= 12; ++step) log_loss(node, step, 1);
  CHECK(last_segment(node_log_path(dir.path(), 0)) == 12);
  CHECK(rank_logs(dir.path()) ==
        std::vector<fs::path>{event_log_path(dir.path(), 0), event_log_path(dir.path(), 3)});
  CHECK(node_logs(dir.path()) == std::vector<fs::path>{node_log_path(dir.path(), 0)});
}

TEST_CASE(
    "event log rotation: if no segment can be created, the log continues in the current one") {
  const TemporaryDirectory dir;
  const auto path = dir / "events/log";
  fs::create_directories(dir / "events");
  EventLogWriter log(path, kSmall);
  for (int step = 1; step <= 10; ++step) log_loss(log, step, 1);
  fs::rename(dir / "events", dir / "moved");
  for (int step = 11; step <= 100; ++step) log_loss(log, step, 1);
  CHECK(log.num_dropped() == 0);
  CHECK(read_event_log(dir / "moved/log").rows.size() == 100);
  const auto before = last_segment(dir / "moved/log");
  fs::rename(dir / "moved", dir / "events");
  for (int step = 101; step <= 200; ++step) log_loss(log, step, 1);
  CHECK(last_segment(path) > before + 3);
  CHECK(read_event_log(path).rows.size() == 200);
}

TEST_CASE("event log rotation: writers killed before, between and after segments lose nothing") {
  const TemporaryDirectory dir;
  LogTail tail(dir / "log");
  std::vector<int64_t> seen, read;
  int64_t last = 0;
  for (int round = 0; round < 60; ++round) {
    const auto returned = kill_a_segment_writer(dir / "log", last + 1, round % 11);
    while (const auto record = tail.next())
      if (const auto* row = std::get_if<LoggedRow>(&*record)) seen.push_back(row->step);
    last = seen.back();
    REQUIRE(last >= returned);
    REQUIRE(last <= returned + 1);
  }
  CHECK(last_segment(dir / "log") > 60);
  for (const auto& row : read_event_log(dir / "log").rows) read.push_back(row.step);
  CHECK(read == seen);
  CHECK(static_cast<int64_t>(seen.size()) == last);
  for (size_t i = 0; i < seen.size(); ++i) REQUIRE(seen[i] == static_cast<int64_t>(i) + 1);
}
