#include <catch2/catch.hpp>
#include <vector>

#include "launch/options/tee_spec.h"
#include "launch/workers/line_splitter.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// The output lines for input that arrives in `pieces`.
std::vector<std::string> lines_of(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  const auto on_line = [&](std::string_view line) { lines.emplace_back(line); };
  for (const auto& piece : pieces) splitter.feed(piece, on_line);
  splitter.finish(on_line);
  return lines;
}

using Lines = std::vector<std::string>;

std::string tee_error(const std::string& text) {
  try {
    TeeSpec::parse("--tee", text, 2);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("line splitter: lines are complete however the bytes are split") {
  CHECK(lines_of({"a\nb", "c\n", "\n", "d"}) == Lines{"a", "bc", "", "d"});
  CHECK(lines_of({}).empty());
}

TEST_CASE("line splitter: only the last state of a progress bar is kept") {
  CHECK(lines_of({"10%\r", "50%\r100%\n", "next\n"}) == Lines{"100%", "next"});
  CHECK(lines_of({"dos\r\nline\r", "\nend"}) == Lines{"dos", "line", "end"});
  CHECK(lines_of({"half\r"}) == Lines{"half"});
}

TEST_CASE("line splitter: a line longer than the limit is split") {
  constexpr auto kLimit = LineSplitter::kMaxLineLength;
  const auto lines = lines_of({std::string(kLimit + 10, 'x'), std::string(kLimit, 'x')});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].size() == kLimit);
  CHECK(lines[1].size() == kLimit);
  CHECK(lines[2].size() == 10);
}

TEST_CASE("tee: by default everything is shown") {
  CHECK(TeeSpec().shows_everything(2));
  CHECK(TeeSpec::parse("--tee", "3", 2).shows_everything(2));
}

TEST_CASE("tee: a number applies to all workers, a list to those it names") {
  const auto out = TeeSpec::parse("--tee", "1", 2);
  CHECK(out.shows_stdout(1));
  CHECK_FALSE(out.shows_stderr(1));
  CHECK_FALSE(out.shows_everything(2));
  const auto mixed = TeeSpec::parse("--tee", "1:2", 2);
  CHECK_FALSE(mixed.shows_stdout(0));
  CHECK_FALSE(mixed.shows_stderr(0));
  CHECK_FALSE(mixed.shows_stdout(1));
  CHECK(mixed.shows_stderr(1));
  CHECK(TeeSpec::parse("--tee", "0:3,1:3", 2).shows_everything(2));
}

TEST_CASE("tee: invalid values are named") {
  for (const auto* text : {"", "4", "-1", "both", "0:", ":1", "0:1,", "0:4", "0:1,1"})
    CHECK(tee_error(text).starts_with("--tee " + std::string(text) +
                                      ": expected 0 (nothing), 1 (stdout)"));
  CHECK(tee_error("2:3") == "--tee 2:3: there is no local rank 2; valid: 0 to 1");
}

}  // namespace lockstep::launch
