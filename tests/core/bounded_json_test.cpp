#include "core/bounded_json.h"

#include <catch2/catch.hpp>

#include <string>

using namespace lockstep;

namespace {

std::string nested(int depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

}  // namespace

TEST_CASE("bounded JSON: values up to the limit of nesting") {
  CHECK(parse_json(R"({"a": [1, "[[", null]})") == Json{{"a", {1, "[[", nullptr}}});
  CHECK(parse_json(nested(kMaxJsonDepth, "[", "]")).is_array());
  CHECK(parse_json(nested(kMaxJsonDepth + 1, "[", "]")).is_discarded());
  CHECK(parse_json(nested(1'000'000, "[", "]")).is_discarded());
  CHECK(parse_json("{\"a\": " + nested(kMaxJsonDepth, "[", "]") + "}").is_discarded());
  CHECK(parse_json("[" + nested(kMaxJsonDepth - 1, "[", "]") + ", 1]").size() == 2);
  for (const char* text : {"", "[1", "{\"a\": 1e999}", "1 2"})
    CHECK(parse_json(text).is_discarded());
}
