#include "launch/error_file.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/launch/text_of.h"
#include "tests/temporary_directory.h"

namespace lockstep {
namespace {

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("error file: what is written is read again") {
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

TEST_CASE("error file: without one, a trainer's last lines tell") {
  const std::vector<std::string> lines = {"step 3", "lockstep-trainer: error: the disk is full",
                                          ""};
  const auto found = find_error(lines, 75);
  REQUIRE(found);
  CHECK(found->message == "the disk is full");
  CHECK(found->kind == "environment");
  CHECK_FALSE(found->peer);
  const std::string waited =
      "lockstep-trainer: error: step vote: rank 1 of 2 waited 2 s for its "
      "peers: rank 0 (process 4711) is gone";
  CHECK(find_error({waited}, 75)->peer);
  CHECK_FALSE(find_error({"error: of another program"}, 75));
  CHECK_FALSE(find_error({}, 1));
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
  CHECK(describe_error(std::runtime_error("x")).kind == "bug");
  CHECK(describe_error(std::runtime_error("why")).message == "why");
}

TEST_CASE("error file: what Python's workers write is read as well") {
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

TEST_CASE("error file: what is none of them counts as absent") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "error.json";
  CHECK_FALSE(read_error_file(path));
  for (const char* text : {"", "{", "[]", "{}", R"({"message": 3})"}) {
    write_text(path, text);
    CHECK_FALSE(read_error_file(path));
  }
}

TEST_CASE("error file: a place that cannot be written is told, not thrown") {
  CHECK_FALSE(write_error_file("/nonexistent/error.json", config_error("x")));
}

}  // namespace lockstep
