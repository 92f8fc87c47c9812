#include "launch/environment/node_order.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"

namespace lockstep::launch {

TEST_CASE("node order: one line, and writing and reading round-trip") {
  const NodeOrder order{.version = "1.2",
                        .directory = "/home/a b/it's",
                        .arguments = {"launch", "--program", "/bin/sh", "--", "-c", "a\n\"b\""},
                        .environment = {{"TOKEN", "s3cret"}, {"EMPTY", ""}},
                        .grace = std::chrono::seconds(7)};
  const auto line = to_line(order);
  CHECK(line.find('\n') == std::string::npos);
  const auto again = parse_node_order(line);
  CHECK(again.version == order.version);
  CHECK(again.directory == order.directory);
  CHECK(again.arguments == order.arguments);
  CHECK(again.environment == order.environment);
  CHECK(again.grace == order.grace);
}

TEST_CASE("node order: invalid orders are rejected") {
  for (const char* text : {"", "hello", "{}", "[1]", R"({"version": 1})",
                           R"({"version": "", "directory": "", "arguments": "x"})"}) {
    try {
      parse_node_order(text);
      FAIL("was accepted: " << text);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Config);
    }
  }
}

}  // namespace lockstep::launch
