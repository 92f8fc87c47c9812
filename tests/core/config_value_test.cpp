#include "lockstep/config_value.h"

#include <catch2/catch.hpp>

#include "tests/data/error_of.h"

using namespace lockstep;

namespace {

// The value of `text` after "x: " in a run file.
template <class T>
T read_value(const std::string& text) {
  const auto root = parse_config("x: " + text + "\n", "run.yaml");
  return ConfigValue<T>::read(*root.find("x"), "part.x");
}

template <class T>
std::string error_of_value(const std::string& text) {
  return error_of([&] { read_value<T>(text); });
}

std::string expected(const std::string& what, const std::string& given) {
  return "config: run.yaml:1: part.x: expected " + what + ", got " + given;
}

}  // namespace

TEST_CASE("config value: a flag is true or false and nothing else") {
  CHECK(read_value<bool>("true"));
  CHECK_FALSE(read_value<bool>("false"));
  for (const std::string text : {"yes", "on", "True", "1"})
    CHECK(error_of_value<bool>(text) ==
          expected("true or false", "'" + text + "'") + "; write true");
  for (const std::string text : {"no", "OFF", "0"})
    CHECK(error_of_value<bool>(text) ==
          expected("true or false", "'" + text + "'") + "; write false");
  CHECK(error_of_value<bool>("maybe") == expected("true or false", "'maybe'"));
  CHECK(error_of_value<bool>("\"true\"") == expected("true or false", "\"true\"") + "; write true");
  CHECK(error_of_value<bool>("") == expected("true or false", "nothing"));
}

TEST_CASE("config value: integers have up to 64 bits") {
  CHECK(read_value<int64_t>("0") == 0);
  CHECK(read_value<int64_t>("-17") == -17);
  CHECK(read_value<int64_t>("+17") == 17);
  CHECK(read_value<int64_t>("9223372036854775807") == INT64_MAX);
  CHECK(read_value<int64_t>("-9223372036854775808") == INT64_MIN);
}

TEST_CASE("config value: values that are not integers are rejected, not rounded") {
  for (const std::string text : {"1.0", "1e3", "1_000", "0x10", "12 ", "9223372036854775808",
                                 "1,000", "+-5", "++5", "--5", "abc", ".inf", "1 2"}) {
    INFO(text);
    const auto shown = text == "12 " ? std::string() : expected("an integer", "'" + text + "'");
    if (!shown.empty()) CHECK(error_of_value<int64_t>(text) == shown);
  }
  CHECK(read_value<int64_t>("12 ") == 12);  // trailing spaces are not part of the value
  CHECK(error_of_value<int64_t>("\"12\"") == expected("an integer", "\"12\""));
  CHECK(error_of_value<int64_t>("[12]") == expected("an integer", "a list of 1"));
  CHECK(error_of_value<int64_t>("{a: 12}") == expected("an integer", "a map"));
  CHECK(error_of_value<int64_t>("") == expected("an integer", "nothing"));
}

TEST_CASE("config value: numbers in the usual notations") {
  CHECK(read_value<double>("0.1") == 0.1);
  CHECK(read_value<double>("1e-3") == 1e-3);
  CHECK(read_value<double>("+2.5E+3") == 2500);
  CHECK(read_value<double>("-3") == -3);
  CHECK(read_value<double>(".5") == 0.5);
  CHECK(read_value<double>("1.7976931348623157e308") == 1.7976931348623157e308);
}

TEST_CASE("config value: non-finite and out-of-range numbers and other text are rejected") {
  for (const std::string text : {"nan", ".nan", "inf", "-inf", ".inf", "1e999", "-1e999", "1e-999",
                                 "0x1p3", "1.2.3", "1e", "1,5", "+-1", "3 steps"})
    CHECK(error_of_value<double>(text) == expected("a number", "'" + text + "'"));
  CHECK(error_of_value<double>("'0.1'") == expected("a number", "\"0.1\""));
}

TEST_CASE("config value: any scalar is a string") {
  CHECK(read_value<std::string>("mnist") == "mnist");
  CHECK(read_value<std::string>("12") == "12");
  CHECK(read_value<std::string>("true") == "true");
  CHECK(read_value<std::string>("\"\"").empty());
  CHECK(read_value<std::string>("\"a\\nb\"") == "a\nb");
  CHECK(error_of_value<std::string>("") == expected("a string", "nothing"));
  CHECK(error_of_value<std::string>("null") == expected("a string", "nothing"));
  CHECK(error_of_value<std::string>("[a]") == expected("a string", "a list of 1"));
  CHECK(error_of_value<std::string>("\"a\\0b\"") ==
        expected("a string without a NUL character", "\"a\\x00b\""));
}

TEST_CASE("config value: an option may be null, and is otherwise strict") {
  CHECK(read_value<std::optional<double>>("null") == std::nullopt);
  CHECK(read_value<std::optional<double>>("") == std::nullopt);
  CHECK(read_value<std::optional<double>>("2") == 2);
  CHECK(error_of_value<std::optional<double>>("none") == expected("a number", "'none'"));
}

TEST_CASE("config value: a list reads each item, and errors name the invalid item") {
  CHECK(read_value<std::vector<int64_t>>("[1, 2]") == std::vector<int64_t>{1, 2});
  CHECK(read_value<std::vector<int64_t>>("[]").empty());
  CHECK(error_of_value<std::vector<int64_t>>("[1, x]") ==
        "config: run.yaml:1: part.x[1]: expected an integer, got 'x'");
  CHECK(error_of_value<std::vector<int64_t>>("3") == expected("a list", "'3'"));
  CHECK(error_of_value<std::vector<int64_t>>("[[1]]") ==
        "config: run.yaml:1: part.x[0]: expected an integer, got a list of 1");
}

TEST_CASE("config value: long and unusual values are shown truncated on one line") {
  const auto text =
      error_of_value<int64_t>("\"line one\\nline two " + std::string(5'000, 'x') + "\"");
  CHECK(text.size() < 200);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.find("line one\\nline two xxx") != std::string::npos);
  CHECK(text.ends_with("...\""));
}
