#include "formats/table/cell_value.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace lockstep::data {
namespace {

double value_of(const std::string& text, char decimal = '.') {
  return formats::cell_value(text, decimal).value_or(-999);
}

TEST_CASE("cells: numbers, with spaces around them and as words") {
  CHECK(value_of("1") == 1);
  CHECK(value_of(" -2.5e3\t") == -2500);
  CHECK(value_of("+.5") == 0.5);
  for (const auto* text : {"inf", "Infinity", "INF", "+inf"})
    CHECK(value_of(text) == std::numeric_limits<double>::infinity());
  CHECK(value_of("-inf") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(value_of("nan")));
  CHECK(value_of("1,5", ',') == 1.5);
  for (const auto* text : {"", "1,5", "1 2", "0x10", "1.2.3", "+-1", "one"}) {
    INFO(text);
    CHECK_FALSE(formats::cell_value(text).has_value());
  }
  CHECK_FALSE(formats::cell_value("1.5", ',').has_value());
}

TEST_CASE("cells: truth values as Python and JSON write them") {
  for (const auto* text : {"True", "true", "TRUE"}) CHECK(value_of(text) == 1);
  for (const auto* text : {"False", "false", "FALSE"}) CHECK(value_of(text) == 0);
  CHECK(formats::read_cell("yes").kind == formats::CellKind::Text);
}

TEST_CASE("cells: dates and times are seconds since 1970, in UTC") {
  CHECK(value_of("1970-01-01") == 0);
  CHECK(value_of("2026-01-31") == 1769817600);
  CHECK(value_of("2026-01-31 12:30:15") == 1769817600 + 45015);
  CHECK(value_of("2026-01-31T12:30:15.25Z") == 1769817600 + 45015.25);
  CHECK(value_of("2026-01-31 12:30+01:00") == 1769817600 + 41400);
  CHECK(value_of("2026-01-31 12:30-0130") == 1769817600 + 50400);
  CHECK(value_of("1969-12-31 23:59:59") == -1);
  CHECK(value_of("07:30") == 27000);
  CHECK(value_of("2 days 03:00:00") == 2 * 86400 + 10800);
  CHECK(value_of("-1 days +23:00:00") == -3600);
  for (const auto* text : {"2026-02-30", "2026-13-01", "2026-01-31 noon", "12:61", "26-01-31"}) {
    INFO(text);
    CHECK_FALSE(formats::cell_value(text).has_value());
  }
}

TEST_CASE("cells: formatted numbers and dates are distinguished from texts") {
  for (const auto* text :
       {"1,000", "1.000,5", "1'000", "3,14", "12,345,678.9", "10%", "-4.5 %", "$5",
        "1,000 \xE2\x82\xAC", "31.01.2026", "1/31/2026", "31-01-26 10:00"}) {
    INFO(text);
    CHECK(formats::read_cell(text).kind == formats::CellKind::Formatted);
    CHECK(std::string(formats::read_cell(text).format) != "");
  }
  for (const auto* text : {"18-25", "1.2.3", "3rd", "12 Main St", "?", "-", "a,b", "192.168.0.1",
                           "%", "$", "2026", "x1"}) {
    INFO(text);
    CHECK(formats::read_cell(text).kind != formats::CellKind::Formatted);
  }
}

}  // namespace
}  // namespace lockstep::data
