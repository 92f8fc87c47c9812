// A resolved config, dumped as YAML, is read back unchanged, so that a run's config.yaml is a run
// file.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "core/config/config_text.h"
#include "lockstep/config_fields.h"

namespace lockstep {
namespace {

struct Values {
  std::string text;
  double number = 0;
  int64_t count = 0;
  bool flag = false;
  std::optional<std::string> maybe;
  std::vector<std::string> texts;
  std::vector<double> numbers;
  bool operator==(const Values&) const = default;
};
template <class V>
void fields(V& v, Values& c) {
  v("text", c.text, "");
  v("number", c.number, "");
  v("count", c.count, "");
  v("flag", c.flag, "");
  v("maybe", c.maybe, "");
  v("texts", c.texts, "");
  v("numbers", c.numbers, "");
}

Values round_trip(const Values& values) {
  const auto yaml = to_yaml(ConfigDumper::dump(values));
  INFO(yaml);
  Values back;
  read_fields(parse_config(yaml, "config.yaml"), "", back);
  return back;
}

const std::vector<std::string> kOddTexts = {"",
                                            " ",
                                            "yes",
                                            "no",
                                            "on",
                                            "true",
                                            "null",
                                            "~",
                                            "1e3",
                                            "0x10",
                                            "-1",
                                            "+1",
                                            ".5",
                                            ".inf",
                                            "nan",
                                            "-",
                                            "- a",
                                            "?",
                                            ": ",
                                            "a: b",
                                            "a:b",
                                            "#",
                                            "a #b",
                                            "[1, 2]",
                                            "{a: 1}",
                                            "*x",
                                            "&x",
                                            "!x",
                                            "%x",
                                            "@x",
                                            "`x",
                                            "|",
                                            ">",
                                            "'",
                                            "\"",
                                            "\\",
                                            "\\n",
                                            "a\nb",
                                            "a\r\nb",
                                            "\n",
                                            "\t",
                                            " a ",
                                            "größe",
                                            "模型",
                                            "🙂",
                                            "\xef\xbb\xbf",
                                            "\u0085",
                                            "\u2028",
                                            "\u00a0",
                                            "---",
                                            "...",
                                            "<<",
                                            "a, b",
                                            "C:\\dir\\x",
                                            "\x01\x1f\x7f",
                                            "2026-11-21",
                                            "12:30:45",
                                            "=",
                                            std::string(5'000, 'x'),
                                            std::string(2'000, ' '),
                                            "%TAG",
                                            "\"quoted\"",
                                            "it's"};

}  // namespace

TEST_CASE("round trip: strings that look like other types stay strings") {
  for (const auto& text : kOddTexts) {
    INFO(text);
    const Values values{.text = text, .maybe = text, .texts = {text, "x", text}};
    CHECK(round_trip(values) == values);
  }
}

TEST_CASE("round trip: strings as keys stay keys") {
  for (const auto& text : kOddTexts) {
    if (text.empty() || text == "<<") continue;  // not valid in a run file
    INFO(text);
    const auto root = parse_config(to_yaml(Json{{text, 1}}), "config.yaml");
    REQUIRE(root.members.size() == 1);
    CHECK(root.members[0].key == text);
  }
}

TEST_CASE("round trip: numbers keep every bit") {
  for (const double number :
       {0.1, 1e-3, 1.0 / 3, -0.0, 1e22, 1e300, 5e-324, std::numeric_limits<double>::max(),
        std::numeric_limits<double>::lowest(), 123456789.0, 16777217.0}) {
    const Values values{.number = number, .numbers = {number, -number}};
    const auto back = round_trip(values);
    CHECK(back == values);
    CHECK(std::signbit(back.number) == std::signbit(number));
  }
  for (const int64_t count :
       {INT64_MIN, INT64_MAX, int64_t{-1}, int64_t{0}, (int64_t{1} << 53) + 1})
    CHECK(round_trip({.count = count}).count == count);
}

TEST_CASE("round trip: random bits as numbers") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2'000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    REQUIRE(round_trip({.number = number}).number == number);
  }
}

TEST_CASE("round trip: random text") {
  std::mt19937 random(5);
  const std::string alphabet = "ab01 \n\t:#-?[]{},&*!|>'\"%@`\\~.=<\x01\x7f";
  for (int i = 0; i < 3'000; ++i) {
    Values values;
    for (auto length = random() % 12; length > 0; --length)
      values.text += alphabet[random() % alphabet.size()];
    values.texts = {values.text};
    REQUIRE(round_trip(values) == values);
  }
}

TEST_CASE("round trip: null, empty lists and empty maps") {
  CHECK(round_trip(Values{}) == Values{});
  const Json json = {
      {"a", Json::object()}, {"b", Json::array()}, {"c", nullptr}, {"d", {{"e", Json::object()}}}};
  const auto root = parse_config(to_yaml(json), "config.yaml");
  CHECK(root.find("a")->kind == ConfigNode::Kind::Map);
  CHECK(root.find("b")->kind == ConfigNode::Kind::List);
  CHECK(root.find("c")->kind == ConfigNode::Kind::Null);
  CHECK(root.find("d")->find("e")->kind == ConfigNode::Kind::Map);
  CHECK(parse_config(to_yaml(Json::object()), "config.yaml").members.empty());
}

TEST_CASE("round trip: lists of maps") {
  const Json json = {
      {"sinks", {{{"name", "console"}, {"on", true}}, {{"name", "csv"}, {"rows", {1, 2}}}}}};
  const auto root = parse_config(to_yaml(json), "config.yaml");
  CHECK(root.find("sinks")->items.at(1).find("rows")->items.at(1).scalar == "2");
}

}  // namespace lockstep
