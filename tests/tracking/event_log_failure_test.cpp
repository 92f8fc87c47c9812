// The event log when its process is killed or its disk is full.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>

#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/log/event_log_reader.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

struct Shared {
  std::atomic<int64_t> num_returned{0};
};

// Appends until it is killed; writes to the pipe after `announce_at` rows.
[[noreturn]] void write_for_ever(const std::filesystem::path& path, Shared& shared, int pipe,
                                 int64_t announce_at) {
  EventLogWriter log(path);
  for (int64_t step = 1;; ++step) {
    log_loss(log, step, static_cast<double>(step));
    shared.num_returned.store(step);
    if (step == announce_at && ::write(pipe, "x", 1) != 1) ::_exit(1);
  }
}

// The number of appends that had returned when the writer was killed.
int64_t kill_a_writer(const std::filesystem::path& path, int64_t announce_at) {
  auto* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared;
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("no pipe");
  const auto child = ::fork();
  if (child == 0) write_for_ever(path, *shared, pipe[1], announce_at);
  ::close(pipe[1]);
  char byte = 0;
  const auto got = ::read(pipe[0], &byte, 1);
  const bool alive = has_writer(path);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(pipe[0]);
  const auto returned = shared->num_returned.load();
  ::munmap(memory, sizeof(Shared));
  if (got != 1 || !alive || !WIFSIGNALED(status))
    throw std::runtime_error("the writer was not there to be killed");
  return returned;
}

// A small file system: a tmpfs or, if that cannot be mounted, a limit on file sizes.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& path, size_t bytes) : path_(path) {
    std::filesystem::create_directories(path);
    const auto options = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (mounted_) return;
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0)
      throw std::runtime_error("a full disk can neither be made by a tmpfs nor by RLIMIT_FSIZE");
  }
  ~SmallDisk() {
    if (mounted_)
      ::umount2(path_.c_str(), MNT_DETACH);
    else
      ::setrlimit(RLIMIT_FSIZE, &before_);
  }
  bool is_mounted() const { return mounted_; }
  void grow(size_t bytes) {
    const auto options = "size=" + std::to_string(bytes);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    const int failed = mounted_
                           ? ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, options.c_str())
                           : ::setrlimit(RLIMIT_FSIZE, &limit);
    if (failed) throw std::runtime_error("the disk cannot be made larger");
  }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
  rlimit before_{};
};

}  // namespace

TEST_CASE("event log: kill -9 of the writer loses no appended record") {
  const TemporaryDirectory dir;
  int64_t announce_at = 1;
  for (int round = 0; round < 100; ++round, announce_at = announce_at * 7 % 60'013) {
    const auto path = dir / std::to_string(round);
    const auto returned = kill_a_writer(path, announce_at);
    CHECK_FALSE(has_writer(path));
    const auto log = read_event_log(path);
    INFO("round " << round << ", " << returned << " appends had returned");
    REQUIRE(static_cast<int64_t>(log.rows.size()) >= returned);
    for (size_t i = 0; i < log.rows.size(); ++i)
      if (log.rows[i].step != static_cast<int64_t>(i) + 1)
        FAIL("row " << i << " is step " << log.rows[i].step);
  }
}

TEST_CASE(
    "event log: if the disk stays full, the process continues, dropped records are counted, and "
    "the end of the run is recorded") {
  const TemporaryDirectory dir;
  const SmallDisk disk(dir / "disk", 256u << 10);
  constexpr int kRows = 200'000;
  {
    EventLogWriter log(dir / "disk/log");
    for (int step = 0; step < kRows; ++step) log_loss(log, step, step);
    const auto notice = log.take_notice();
    REQUIRE(notice.has_value());
    CHECK(notice->line.starts_with("event log: cannot reserve "));
    CHECK(notice->line.ends_with(
        "; records are kept in memory (at most 4 MiB) until there is space"));
    CHECK_FALSE(log.take_notice().has_value());
    log.end({.state = RunState::Failed, .exit_code = 75, .reason = std::string(8192, 'x')});
    const auto kept = read_event_log(dir / "disk/log").rows.size();
    CHECK(kept > 1000);
    CHECK(kept + log.num_dropped() == kRows);
    INFO(log.failure());
    CHECK(log.failure().starts_with("cannot reserve "));
    CHECK(log.failure().ends_with((dir / "disk/log").string() + (disk.is_mounted()
                                                                     ? ": No space left on device"
                                                                     : ": File too large")));
    log.close();
  }
  const auto log = read_event_log(dir / "disk/log");
  CHECK_FALSE(log.torn);
  CHECK(log.rows.back().step == static_cast<int64_t>(log.rows.size()) - 1);
  REQUIRE(log.texts.size() == 1);
  CHECK(log.texts[0].line.starts_with(fmt::format(
      "event log: the last {} records were dropped: cannot reserve ", kRows - log.rows.size())));
  REQUIRE(log.end.has_value());
  CHECK(log.end->state == RunState::Failed);
  CHECK(log.end->reason == std::string(1000, 'x'));
}

TEST_CASE("event log: a temporarily full disk loses no record that fits in memory") {
  const TemporaryDirectory dir;
  SmallDisk disk(dir / "disk", 256u << 10);
  const auto path = dir / "disk/log";
  EventLogWriter log(path, 128u << 10);
  int64_t step = 0;
  for (; !log.take_notice(); ++step) log_loss(log, step, 1);
  for (int i = 0; i < 1000; ++i, ++step) {
    log_loss(log, step, 1);
    const auto name = fmt::format("new/{}", i);
    const std::array<Metric, 1> values = {{{name, 1}}};
    log.scalars({.step = step, .values = values});
  }
  CHECK(static_cast<int64_t>(read_event_log(path).rows.size()) < step);
  disk.grow(64u << 20);
  log.close();
  const auto notice = log.take_notice();
  REQUIRE(notice.has_value());
  CHECK(notice->line.ends_with("; no record was dropped"));
  CHECK(log.num_dropped() == 0);
  const auto contents = read_event_log(path);
  CHECK_FALSE(contents.torn);
  CHECK(static_cast<int64_t>(contents.rows.size()) == step + 1000);
  CHECK(contents.keys.size() == 1001);
  REQUIRE(contents.texts.size() == 1);
  CHECK(contents.texts[0].line == notice->line);
  CHECK(contents.texts[0].level == TextLevel::Info);
}

TEST_CASE("event log: after a full disk, the log records how many records are missing") {
  const TemporaryDirectory dir;
  SmallDisk disk(dir / "disk", 256u << 10);
  const auto path = dir / "disk/log";
  EventLogWriter log(path);
  int64_t step = 0;
  for (; log.num_dropped() < 100; ++step) log_loss(log, step, 1);
  disk.grow(64u << 20);
  log.take_notice();
  std::optional<TextLine> notice;
  for (; !notice; notice = log.take_notice(), ++step) log_loss(log, step, 1);
  const auto contents = read_event_log(path);
  CHECK(contents.rows.size() + log.num_dropped() == static_cast<size_t>(step));
  CHECK(contents.rows.back().step == step - 1);
  REQUIRE(contents.texts.size() == 1);
  CHECK(contents.texts[0].level == TextLevel::Warning);
  CHECK(contents.texts[0].line.ends_with(
      fmt::format("; {} records were dropped", log.num_dropped())));
}

TEST_CASE("event log: opening on a full disk is one clear error and leaves no file") {
  const TemporaryDirectory dir;
  const SmallDisk disk(dir / "disk", 4096);
  if (disk.is_mounted()) write_file_durably(dir / "disk/filler", std::string(4096, 'x'));
  std::string message;
  try {
    EventLogWriter log(dir / "disk/log");
    log.text({.line = std::string(8192, 'x')});
    message = log.failure();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Environment);
    CHECK_FALSE(std::filesystem::exists(dir / "disk/log"));
    message = error.what();
  }
  CHECK(message.starts_with("cannot reserve "));
}
