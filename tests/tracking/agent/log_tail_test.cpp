#include "tracking/log/log_tail.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

std::vector<int64_t> steps_of(LogTail& tail) {
  std::vector<int64_t> steps;
  while (const auto record = tail.next())
    if (const auto* row = std::get_if<LoggedRow>(&*record)) steps.push_back(row->step);
  return steps;
}

size_t count_records(LogTail& tail) {
  size_t count = 0;
  while (tail.next()) ++count;
  return count;
}

// Appends a frame to `log` in a process that is killed before it writes the byte at `end` of the log.
void write_and_die(const std::filesystem::path& log, std::string_view payload, size_t end) {
  const auto size = std::filesystem::file_size(log);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const FileDescriptor file(::open(log.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(end + page)) == 0);
  auto* memory = static_cast<std::byte*>(
      ::mmap(nullptr, end + page, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(::mprotect(memory + end, page, PROT_NONE) == 0);
  const auto process = ::fork();
  if (process == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    write_frame(memory + size, FrameType::Summary, payload);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  REQUIRE(WIFSIGNALED(status));
  ::munmap(memory, end + page);
}

}  // namespace

TEST_CASE("log tail: every kind of record reads back as written") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  LogTail tail(dir / "log");
  std::vector<Record> records;
  while (auto record = tail.next()) records.push_back(std::move(*record));
  const auto find = [&]<class T>(const T*) -> T {
    for (const auto& record : records)
      if (const auto* found = std::get_if<T>(&record)) return *found;
    FAIL("record not found");
    return {};
  };
  CHECK(tail.identity()->id == "mnist-1");
  CHECK(tail.config()["optimizer"]["lr"] == 0.1);
  CHECK(find(static_cast<TextLine*>(nullptr)).line == "slow");
  const auto histogram = find(static_cast<Histogram*>(nullptr));
  CHECK(histogram.at.name == "weights");
  CHECK(histogram.edges == std::vector<double>{0, 1, 2});
  CHECK(histogram.counts == std::vector<double>{3, 4});
  const auto image = find(static_cast<Image*>(nullptr));
  CHECK(image.width == 1);
  CHECK(image.height == 2);
  CHECK(image.png == "png");
  CHECK(image.caption == "a 7");
  const auto clip = find(static_cast<Clip*>(nullptr));
  CHECK(clip.type == "audio/wav");
  CHECK(clip.caption == "low");
  CHECK(clip.bytes == std::string("RIFF\0", 5));
  const auto table = find(static_cast<Table*>(nullptr));
  CHECK(table.columns == std::vector<std::string>{"is", "count"});
  CHECK(table.rows[0][1] == 12);
  CHECK(table.rows[1][1].is_null());
  const auto alert = find(static_cast<Alert*>(nullptr));
  CHECK(alert.title == "nan");
  CHECK(alert.step == 2);
  CHECK(alert.level == TextLevel::Warning);
  const auto artifact = find(static_cast<ArtifactUse*>(nullptr));
  CHECK(artifact.version == 3);
  CHECK(artifact.made);
  const auto line = find(static_cast<ConsoleLine*>(nullptr));
  CHECK(line.rank == 1);
  CHECK(line.is_error);
  CHECK(line.line == "oops");
  CHECK(find(static_cast<Heartbeat*>(nullptr)).time == 1.7e9);
  CHECK(find(static_cast<RunEnd*>(nullptr)).state == RunState::Finished);
}

TEST_CASE("log tail: follows a log that does not exist yet and grows") {
  const TemporaryDirectory dir;
  LogTail tail(dir / "log");
  CHECK_FALSE(tail.next());
  EventLogWriter log(dir / "log");
  CHECK_FALSE(tail.next());
  log.identity(sample_info());
  for (int step = 1; step <= 3; ++step) {
    log_loss(log, step, 1);
    CHECK(steps_of(tail) == std::vector<int64_t>{step});
  }
  log.close();
  CHECK_FALSE(tail.next());
  CHECK(tail.backlog() == 0);
}

TEST_CASE("log tail: starts after any record, with the names declared before it") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  LogTail whole(dir / "log");
  std::vector<uint64_t> offsets = {0};
  while (whole.next()) offsets.push_back(whole.offset());
  for (size_t i = 0; i < offsets.size(); ++i) {
    LogTail tail(dir / "log", offsets[i]);
    CHECK(count_records(tail) == offsets.size() - 1 - i);
    CHECK(tail.keys() == whole.keys());
    CHECK(tail.identity()->id == "mnist-1");
  }
}

TEST_CASE("log tail: a log truncated anywhere ends at the last complete frame") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "whole");
  const auto bytes = read_file(dir / "whole");
  LogTail whole(dir / "whole");
  std::vector<uint64_t> ends;
  while (whole.next()) ends.push_back(whole.offset());
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    write_file_durably(dir / "log", bytes.substr(0, cut));
    LogTail tail(dir / "log");
    const auto expected = std::ranges::count_if(ends, [&](uint64_t end) { return end <= cut; });
    REQUIRE(count_records(tail) == static_cast<size_t>(expected));
  }
}

TEST_CASE("log tail: a record that a killed process did not finish is not corruption") {
  const TemporaryDirectory dir;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (const size_t before : {4u, 6u, 8u, 9u, 30u, 2000u}) {
    INFO(before << " bytes of the record precede the page that it dies at");
    const auto path = dir / std::to_string(before);
    EventLogWriter(path).close();
    const auto head = std::filesystem::file_size(path);
    {
      EventLogWriter log(path);
      log.text({.line = std::string(page - head - before - kFrameHeadBytes - 1 - 9, 'x')});
      log.close();
    }
    REQUIRE(std::filesystem::file_size(path) == page - before);
    write_and_die(path, std::string(5000, 'y'), page);
    LogTail tail(path);
    CHECK(count_records(tail) == 1);
    CHECK_FALSE(tail.is_corrupt());
    auto bytes = read_file(path);
    bytes[page + page - 1] = 1;  // within the unfinished record
    write_file_durably(path, bytes);
    CHECK_FALSE(tail.is_corrupt());
    write_file_durably(path, bytes + std::string(5000, '\0') + "z");
    LogTail corrupt(path);
    CHECK(count_records(corrupt) == 1);
    CHECK(corrupt.is_corrupt());
    EventLogWriter log(path);
    log_loss(log, 1, 1);
    log.close();
    LogTail continued(path);
    CHECK(count_records(continued) == 3);
    CHECK_FALSE(continued.is_corrupt());
  }
}

TEST_CASE("log tail: skips values that a rewind discards, if the rewind is known in time") {
  const TemporaryDirectory dir;
  EventLogWriter log(dir / "log");
  log.identity(sample_info());
  for (int step = 1; step <= 5; ++step) log_loss(log, step, 1);
  LogTail live(dir / "log");
  CHECK(steps_of(live) == std::vector<int64_t>{1, 2, 3, 4, 5});
  log.rewind(3);
  log_loss(log, 4, 2);
  log_loss(log, 5, 2);
  CHECK(steps_of(live) == std::vector<int64_t>{4, 5});
  LogTail late(dir / "log");
  CHECK(steps_of(late) == std::vector<int64_t>{1, 2, 3, 4, 5});
  log.rewind(4);
  log_loss(log, 5, 3);
  LogTail later(dir / "log");
  CHECK(steps_of(later) == std::vector<int64_t>{1, 2, 3, 4, 5});
}

TEST_CASE("log tail: returns to any kept record, across segments and rewinds") {
  const TemporaryDirectory dir;
  EventLogWriter log(dir / "log", 600);
  log.identity(sample_info());
  log.config({{"lr", 0.1}});
  for (int step = 1; step <= 60; ++step) {
    const auto name = "metric-" + std::to_string(step / 7);
    const std::array<Metric, 1> values = {{{name, 1.0 * step}}};
    log.scalars({.step = step, .time = 1, .values = values});
    if (step == 30) log.rewind(25);
    if (step == 40) {
      auto other = sample_info();
      other.pid = 99;
      log.identity(other);
      log.config({{"lr", 0.2}});
    }
  }
  REQUIRE(std::filesystem::exists(dir / "log.3"));
  LogTail reference(dir / "log");
  const auto num_records = count_records(reference);
  for (size_t kept = 0; kept <= num_records; ++kept) {
    LogTail tail(dir / "log");
    for (size_t i = 0; i < kept; ++i) tail.next();
    const auto keys = tail.keys();
    const auto offset = tail.offset();
    const auto config = tail.config();
    const auto pid = tail.identity() ? tail.identity()->pid : 0;
    tail.commit();
    for (int again = 0; again < 2; ++again) {
      REQUIRE(count_records(tail) == num_records - kept);
      CHECK(tail.identity()->pid == 99);
      tail.roll_back();
      CHECK(tail.keys() == keys);
      CHECK(tail.offset() == offset);
      CHECK(tail.config() == config);
      CHECK((tail.identity() ? tail.identity()->pid : 0) == pid);
    }
  }
}

TEST_CASE("log tail: records larger than the read size") {
  const TemporaryDirectory dir;
  EventLogWriter log(dir / "log");
  LogTail tail(dir / "log");
  for (const size_t size : {300'000u, 10u, 5'000'000u, 256u << 10, 0u}) {
    log.text({.line = std::string(size, 'x')});
    log.text({.line = "y"});
    const auto first = tail.next();
    REQUIRE(first);
    CHECK(std::get<TextLine>(*first).line.size() == size);
    CHECK(std::get<TextLine>(*tail.next()).line == "y");
  }
}

TEST_CASE("log tail: rejects other files") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "log", "something else altogether");
  LogTail tail(dir / "log");
  CHECK_THROWS_WITH(tail.next(), Catch::EndsWith("log: not an event log"));
}

TEST_CASE("log tail: rejects a log of a later version") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "log", std::string(kEventLogMagic) + std::string("\7\0\0\0\0\0\0\0", 8));
  LogTail tail(dir / "log");
  CHECK_THROWS_WITH(tail.next(), Catch::EndsWith("log: written by a later version of Lockstep "
                                                 "(event log format 7; this one reads 2)"));
}
