#include "launch/report/error_file.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/error.h"
#include "tests/launch/text_of.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {
namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("error file: writing and reading round-trip") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  const ErrorReport report{.message = "line \"one\"\nline two \xff",
                           .kind = "config",
                           .peer = true,
                           .timestamp_us = 1234567};
  REQUIRE(write_error_file(path, report));
  const auto read = read_error_file(path);
  REQUIRE(read);
  CHECK(read->message == "line \"one\"\nline two \xEF\xBF\xBD");
  CHECK(read->kind == "config");
  CHECK(read->peer);
  CHECK(read->timestamp_us == 1234567);
}

TEST_CASE("error file: the same report can be sent through the progress page, without a disk") {
  const auto memory = ProgressPage::make_shared_memory();
  ProgressPage rank(memory.get());
  const ProgressPage launcher(memory.get());
  CHECK_FALSE(read_failure(launcher));
  ErrorReport report{.message = std::string(3, '\xff') + std::string(100'000, '\1'),
                     .kind = "environment",
                     .peer = true,
                     .timestamp_us = 1234567};
  report_failure(rank, report);
  const auto read = read_failure(launcher);
  REQUIRE(read);
  CHECK(read->message.size() > 500);
  CHECK(read->kind == "environment");
  CHECK(read->peer);
  CHECK(read->timestamp_us == 1234567);
  report_failure(rank, {.message = "a consequence"});
  CHECK(read_failure(launcher)->timestamp_us == 1234567);
}

TEST_CASE("error file: it has the fields that torchrun's summary reads") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  REQUIRE(write_error_file(path, config_error("bad key")));
  const auto json = nlohmann::json::parse(text_of(path));
  CHECK(json["message"]["message"] == "bad key");
  const auto timestamp = json["message"]["extraInfo"]["timestamp"].get<std::string>();
  CHECK(std::abs(std::stoll(timestamp) - unix_time_us() / 1'000'000) < 60);
  // It would be shown in place of the message.
  CHECK_FALSE(json["message"]["extraInfo"].contains("py_callstack"));
}

TEST_CASE("error file: an exception is described by its kind") {
  CHECK(describe_error(config_error("x")).kind == "config");
  CHECK(describe_error(environment_error("x")).kind == "environment");
  CHECK_FALSE(describe_error(environment_error("x")).peer);
  CHECK(describe_error(PeerError("x")).kind == "environment");
  CHECK(describe_error(PeerError("x")).peer);
  CHECK(describe_error(PeerError("x", ErrorKind::Config)).kind == "config");
  CHECK(describe_error(std::runtime_error("x")).kind == "bug");
  // As std::thread throws it.
  const auto threads = describe_error(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(threads.kind == "environment");
  CHECK(threads.message.starts_with("cannot start a thread: Resource temporarily unavailable; "));
  CHECK(describe_error(std::runtime_error("why")).message == "why");
}

TEST_CASE("error file: files of Python's workers can be read as well") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  write_text(
      path,
      R"({"message": {"message": "ValueError: no", "extraInfo": {"py_callstack": "...", "timestamp": "1700000000"}}})");
  auto report = read_error_file(path);
  REQUIRE(report);
  CHECK(report->message == "ValueError: no");
  CHECK(report->timestamp_us == 1'700'000'000'000'000);
  CHECK_FALSE(report->peer);
  write_text(path, R"({"message": "plain"})");
  report = read_error_file(path);
  REQUIRE(report);
  CHECK(report->message == "plain");
}

TEST_CASE("error file: a time that cannot be one is unknown") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  for (const char* time : {"-5", "9223372036854775807", "18446744073709551615"}) {
    write_text(path,
               std::string(R"({"message": {"message": "no", "extraInfo": {"timestamp_us": )") +
                   time + "}}}");
    const auto report = read_error_file(path);
    REQUIRE(report);
    CHECK(report->timestamp_us == 0);
  }
}

TEST_CASE("error file: invalid files count as absent") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  CHECK_FALSE(read_error_file(path));
  for (const char* text : {"", "{", "[]", "{}", R"({"message": 3})"}) {
    write_text(path, text);
    CHECK_FALSE(read_error_file(path));
  }
}

TEST_CASE("error file: a failed write is returned, not thrown") {
  CHECK_FALSE(write_error_file("/nonexistent/error.json", config_error("x")));
}

}  // namespace lockstep::launch
