#include "formats/table/table_filter.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/number_text.h"
#include "core/printable.h"
#include "core/trimmed.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using Relation = ColumnTest::Relation;

// Longer operators first.
constexpr std::array<std::pair<const char*, Relation>, 6> kRelations = {
    {{"<=", Relation::LessOrEqual},
     {">=", Relation::GreaterOrEqual},
     {"==", Relation::Equal},
     {"!=", Relation::NotEqual},
     {"<", Relation::Less},
     {">", Relation::Greater}}};

std::string without_spaces(const std::string& text) { return std::string(trimmed(text, " \t")); }

std::string unquoted(const std::string& text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

ColumnTest parse_column_test(const std::string& text) {
  const auto at = text.find_first_of("<>=!");
  if (at != text.npos)
    for (const auto& [sign, relation] : kRelations) {
      if (text.compare(at, std::string_view(sign).size(), sign) != 0) continue;
      ColumnTest test{.column = unquoted(without_spaces(text.substr(0, at))), .relation = relation};
      const auto value = without_spaces(text.substr(at + std::string_view(sign).size()));
      test.text = unquoted(value);
      test.number = parse_number<double>(value).value_or(std::numeric_limits<double>::quiet_NaN());
      if (!test.column.empty() && !value.empty()) return test;
    }
  throw config_error(fmt::format(
      "filter '{}': expected a column, one of < <= == != >= > and a value, as in 'month >= 6'",
      printable(text)));
}

void apply_filter(const RowFilter& filter, const DataTable& table, std::vector<bool>& kept) {
  for (const auto& test : filter) {
    const auto& column = table.column(test.column);
    if (column.is_text) {
      std::vector<bool> passes;
      for (const auto& word : column.words) passes.push_back(test.holds(word, test.text));
      for (size_t row = 0; row < table.rows; ++row)
        if (column.codes[row] < 0 || !passes[static_cast<size_t>(column.codes[row])])
          kept[row] = false;
      continue;
    }
    if (std::isnan(test.number))
      throw config_error(fmt::format("{}: filter: column '{}' has numbers, '{}' is not a number",
                                     table.name, printable(column.name), printable(test.text)));
    for (size_t row = 0; row < table.rows; ++row)
      if (std::isnan(column.numbers[row]) || !test.holds(column.numbers[row], test.number))
        kept[row] = false;
  }
}

}  // namespace lockstep::formats
