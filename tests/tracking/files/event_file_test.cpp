#include "tracking/sinks/tensorboard/event_file.h"

#include <catch2/catch.hpp>

#include "tests/temporary_directory.h"
#include "tracking/sinks/tensorboard/hparams.h"
#include "tracking/sinks/tensorboard/summary.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::string_literals;

TEST_CASE("event file: a record equals that of TensorBoard's writer") {
  // Of an empty event, and of one with step 1.
  CHECK(tensorboard::framed("") == "\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2"s);
  CHECK(tensorboard::framed("\x10\x01") ==
        "\x02\0\0\0\0\0\0\0\x78\x27\x0b\x34\x10\x01\x76\x64\x23\xad"s);
}

TEST_CASE("event file: the end of a run takes the same number of bytes for every end") {
  const auto size = [](RunState state) {
    return tensorboard::session_end_value({.state = state}, 1.5e9).view().size();
  };
  CHECK(size(RunState::Finished) == size(RunState::Failed));
  CHECK(size(RunState::Finished) == size(RunState::Running));
}

TEST_CASE("event file: a value after an unflushed end also overwrites the end") {
  TemporaryDirectory directory;
  RunInfo info;
  info.host = "a/b";
  tensorboard::EventFile file(directory.path(), info, nullptr);
  file.add_end(1, tensorboard::session_end_value({}, 1));
  file.add(2, 2, tensorboard::scalar_value("x", 1));
  const auto state = file.flush();
  CHECK(state["end"] == 0);
  CHECK(state["file"] == "events.out.tfevents.0000000000.a-b.0.0");
}

TEST_CASE("tensorboard text: bytes that are not UTF-8 are escaped") {
  CHECK(as_utf8("") == "");
  CHECK(as_utf8("a\xc3\xa4\n") == "a\xc3\xa4\n");
  CHECK(as_utf8("\xff\xc3") == "\\xff\\xc3");
  CHECK(as_utf8("x\x80y") == "x\\x80y");
}

TEST_CASE("tensorboard histogram: fewer edges than bins, or none, does not crash") {
  const auto is_empty = [](std::vector<double> edges, std::vector<double> counts) {
    Histogram histogram;
    histogram.edges = std::move(edges);
    histogram.counts = std::move(counts);
    return tensorboard::histogram_value(histogram).view().empty();
  };
  CHECK_FALSE(is_empty({}, {1, 2}));
  CHECK_FALSE(is_empty({0, 1}, {1, 2}));
  CHECK_FALSE(is_empty({0, 1, 2, 3}, {1}));
}
