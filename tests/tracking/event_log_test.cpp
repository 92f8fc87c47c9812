#include <sys/file.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <iostream>

#include "core/system/crc32c.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/message_pack.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

std::string error_of_opening(const std::filesystem::path& path) {
  try {
    EventLogWriter log(path);
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

std::string frame(FrameType type, const std::string& payload) {
  const auto body = std::string(1, static_cast<char>(type)) + payload;
  const auto length = static_cast<uint32_t>(body.size());
  const auto checksum = crc32c(body.data(), body.size());
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 4);
  std::memcpy(bytes.data() + 4, &checksum, 4);
  return bytes + body;
}

std::string header() { return std::string("LSEVENTS\x01\0\0\0\0\0\0\0", 16); }

}  // namespace

TEST_CASE("event log: records round-trip, including NaN and infinity") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  const auto log = read_event_log(dir / "log");
  CHECK(log.problem.empty());
  CHECK_FALSE(log.torn);
  CHECK(log.info->id == "mnist-1");
  CHECK(log.info->command == std::vector<std::string>{"lockstep-trainer", "mnist.yaml"});
  CHECK(log.config["optimizer"]["lr"] == 0.1);
  CHECK(log.keys == std::vector<std::string>{"train/loss", "eval/loss", "eval/accuracy"});
  REQUIRE(log.rows.size() == 4);
  CHECK(log.rows[0].step == 1);
  CHECK(log.rows[0].time == 1.7e9 + 1);
  CHECK(log.rows[0].epoch == 0.5);
  CHECK(std::isnan(log.rows[1].values[0].second));
  CHECK(log.rows[2].values == std::vector<std::pair<uint32_t, double>>{{1, 0.5}, {2, 0.75}});
  CHECK(log.rows[3].values[0].second == -std::numeric_limits<double>::infinity());
  REQUIRE(log.texts.size() == 1);
  CHECK(log.texts[0].line == "slow");
  CHECK(log.texts[0].level == TextLevel::Warning);
  CHECK(log.summary["best"] == 0.75);
  CHECK(log.end->state == RunState::Finished);
  CHECK(log.good_bytes == std::filesystem::file_size(dir / "log"));
}

TEST_CASE("event log: the worked example of the documentation has these bytes") {
  const TemporaryDirectory dir;
  {
    EventLogWriter log(dir / "log");
    const std::array<Metric, 1> values = {{{"a", 1.0}}};
    log.scalars({.step = 2, .time = 0, .epoch = 0.5, .values = values});
    log.close();
  }
  const auto key = std::string("\0\0\0\0a", 5);
  std::string row(24 + 12, '\0');
  const int64_t step = 2;
  const double epoch = 0.5, value = 1;
  std::memcpy(row.data(), &step, 8);
  std::memcpy(row.data() + 16, &epoch, 8);
  std::memcpy(row.data() + 28, &value, 8);
  CHECK(std::filesystem::file_size(dir / "log") == 75);
  CHECK(read_file(dir / "log") ==
        header() + frame(FrameType::Key, key) + frame(FrameType::Scalars, row));
}

TEST_CASE("event log: truncation at any byte loses at most the incomplete frame") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  const auto bytes = read_file(dir / "log");
  const auto whole = decode_event_log(bytes);
  std::vector<uint64_t> frame_ends = {kEventLogHeaderBytes};
  for (FrameCursor cursor(bytes); cursor.next();) frame_ends.push_back(cursor.offset());
  REQUIRE(frame_ends.size() == whole.num_frames + 1);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto cut = decode_event_log(std::string_view(bytes).substr(0, size));
    const auto whole_frames =
        std::ranges::count_if(frame_ends, [&](uint64_t end) { return end <= size; }) - 1;
    INFO("cut at " << size);
    CHECK(cut.problem.empty());
    CHECK(static_cast<int64_t>(cut.num_frames) == std::max<int64_t>(whole_frames, 0));
    CHECK(cut.torn == (size != 0 && std::ranges::count(frame_ends, size) == 0));
  }
}

TEST_CASE(
    "event log: a log truncated at any byte can be continued, and keeps its complete frames") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  const auto bytes = read_file(dir / "log");
  for (size_t size = 0; size < bytes.size(); size += 3) {
    INFO("cut at " << size);
    const auto cut = bytes.substr(0, size);
    const auto before = decode_event_log(cut);
    write_file_durably(dir / "cut", cut);
    {
      EventLogWriter log(dir / "cut");
      log_loss(log, 7, 1.25);
      log.close();
    }
    const auto after = read_event_log(dir / "cut");
    CHECK_FALSE(after.torn);
    REQUIRE(after.rows.size() == before.rows.size() + 1);
    CHECK(after.rows.back().step == 7);
    CHECK(after.keys[after.rows.back().values[0].first] == "train/loss");
  }
}

TEST_CASE("event log: a flipped bit ends the log at the frame before it") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  const auto bytes = read_file(dir / "log");
  for (size_t bit = kEventLogHeaderBytes * 8; bit < bytes.size() * 8; ++bit) {
    auto corrupt = bytes;
    corrupt[bit / 8] = static_cast<char>(corrupt[bit / 8] ^ (1 << (bit % 8)));
    const auto log = decode_event_log(corrupt);
    if (log.torn && log.good_bytes <= bit / 8) continue;
    FAIL("bit " << bit << " was not noticed");
  }
}

TEST_CASE(
    "event log: payloads that violate the grammar are corrupt even if their checksum is right") {
  const auto decoded = [](FrameType type, const std::string& payload) {
    return decode_event_log(header() + frame(type, payload));
  };
  const auto unknown_key =
      std::string(24, '\0') + std::string("\x07\0\0\0", 4) + std::string(8, '\0');
  CHECK(decoded(FrameType::Scalars, unknown_key).torn);
  CHECK(decoded(FrameType::Scalars, "short").torn);
  CHECK(decoded(FrameType::Key, std::string("\x05\0\0\0name", 8)).torn);
  CHECK(decoded(FrameType::Key, std::string("\0\0\0\0", 4)).torn);
  CHECK(decoded(FrameType::Text, std::string(8, '\0') + "\x09line").torn);
  CHECK(
      decoded(FrameType::Config, std::string(1'000'000, '\x91')).torn);  // a million nested arrays
  CHECK(decoded(FrameType::Summary, "\xdf\xff\xff\xff\xff").torn);  // a map of four billion keys
  CHECK(decoded(FrameType::End, to_message_pack({{"state", "bored"}})).torn);
  CHECK(decoded(static_cast<FrameType>(200), "of a later version").num_frames == 1);
}

TEST_CASE("event log: a frame can have the checksum of zlib") {
  auto bytes = header() + std::string("\x09\0\0\x40\x59\x6a\x36\xd7\x06\x02\0\0\0\0\0\0\0", 17);
  bytes[8] = 2;  // version of the format
  CHECK(decode_event_log(bytes).num_frames == 1);
  CHECK_FALSE(decode_event_log(bytes).torn);
  bytes.back() ^= 1;
  CHECK(decode_event_log(bytes).num_frames == 0);
  CHECK(decode_event_log(bytes).torn);
}

TEST_CASE("event log: other files are rejected with a reason") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "log", "epoch,loss\n1,0.5\n");
  CHECK(read_event_log(dir / "log").problem == "not an event log");
  CHECK(error_of_opening(dir / "log") == "environment: cannot continue " + (dir / "log").string() +
                                             ": not an event log; move it away");
  CHECK(read_file(dir / "log") == "epoch,loss\n1,0.5\n");
  auto later = header();
  later[8] = 9;
  CHECK(decode_event_log(later).problem ==
        "written by a later version of Lockstep (event log format 9; this one reads 2)");
  CHECK(error_of_opening(dir / "missing/log")
            .starts_with("environment: cannot open event log " + (dir / "missing/log").string()));
}

TEST_CASE("event log: a second writer is rejected, and a reader sees that the first one is alive") {
  const TemporaryDirectory dir;
  {
    EventLogWriter log(dir / "log");
    log_loss(log, 1, 1);
    CHECK(has_writer(dir / "log"));
    CHECK(error_of_opening(dir / "log") ==
          "environment: " + (dir / "log").string() +
              " is being written by another process; was this run started twice?");
    CHECK(read_event_log(dir / "log").rows.size() == 1);
    CHECK_FALSE(read_event_log(dir / "log").torn);
    log_loss(log, 2, 1);
    CHECK(read_event_log(dir / "log").rows.size() == 2);
  }
  CHECK_FALSE(has_writer(dir / "log"));
  CHECK_FALSE(has_writer(dir / "no such log"));
}

TEST_CASE("event log: a reader that tests the lock at the same time does not keep a writer out") {
  const TemporaryDirectory dir;
  write_sample_log(dir / "log");
  const FileDescriptor reader(::open((dir / "log").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(reader.get(), LOCK_SH | LOCK_NB) == 0);
  // Distinguished from another writer; this reader never releases the lock, so the writer is
  // rejected in the end anyway.
  CHECK(error_of_opening(dir / "log").starts_with("environment: "));
  REQUIRE(::flock(reader.get(), LOCK_UN) == 0);
  CHECK(error_of_opening(dir / "log") == "no error");
}

TEST_CASE("event log: a resumed run keeps its metric IDs and start time, and has each step once") {
  const TemporaryDirectory dir;
  {
    EventLogWriter log(dir / "log");
    log.identity(sample_info());
    for (int step = 1; step <= 5; ++step) log_loss(log, step, step);
    log.end({.state = RunState::Failed, .exit_code = 75});
  }
  {
    EventLogWriter log(dir / "log");
    auto info = sample_info();
    info.created += 100;
    info.pid = 43;
    log.identity(info);
    log.rewind(3);
    for (int step = 4; step <= 6; ++step) log_loss(log, step, 10 * step);
    log.close();
  }
  const auto log = read_event_log(dir / "log");
  CHECK(log.keys == std::vector<std::string>{"train/loss"});
  CHECK(log.info->pid == 43);
  CHECK(log.info->created == 1.7e9);
  CHECK(log.info->resumed == 1.7e9 + 100);
  CHECK_FALSE(log.end.has_value());
  std::vector<std::pair<int64_t, double>> seen;
  for (const auto& row : log.rows) seen.emplace_back(row.step, row.values[0].second);
  CHECK(seen ==
        std::vector<std::pair<int64_t, double>>{{1, 1}, {2, 2}, {3, 3}, {4, 40}, {5, 50}, {6, 60}});
}

TEST_CASE("event log: a metric name that is too long or empty is dropped and counted") {
  const TemporaryDirectory dir;
  EventLogWriter log(dir / "log");
  const std::string endless(10'000, 'x');
  const std::array<Metric, 3> values = {{{endless, 1}, {"", 2}, {"good", 3}}};
  log.scalars({.step = 1, .values = values});
  CHECK(log.num_dropped() == 2);
  CHECK(log.failure() == "a metric name of 10000 bytes; 1 to 512 are valid");
  CHECK(read_event_log(dir / "log").keys == std::vector<std::string>{"good"});
}

TEST_CASE(
    "event log: grows over many reservations, and a record may be larger than a reservation") {
  const TemporaryDirectory dir;
  {
    EventLogWriter log(dir / "log");
    log.text({.line = std::string(3'000'000, 'a')});
    for (int step = 0; step < 200'000; ++step) log_loss(log, step, step);
    log.text({.line = std::string(17u << 20, 'b')});
    CHECK(log.num_dropped() == 1);
    CHECK(log.failure() == "a record of 17825801 bytes is too large");
  }
  const auto log = read_event_log(dir / "log");
  CHECK(log.rows.size() == 200'000);
  CHECK(log.rows.back().step == 199'999);
  CHECK(log.texts.at(0).line.size() == 3'000'000);
  CHECK(log.good_bytes == std::filesystem::file_size(dir / "log"));
}

TEST_CASE("event log: the cost of one scalar is printed") {
  const TemporaryDirectory dir;
  EventLogWriter log(dir / "log");
  constexpr int kRows = 1'000'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < kRows; ++step) log_loss(log, step, step);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  std::cout << "event log: " << took.count() / kRows << " ns per scalar\n";
  CHECK(log.num_dropped() == 0);
}
