#include "formats/table/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

template <class T>
void keep_values(std::vector<T>& values, const std::vector<bool>& kept) {
  if (values.empty()) return;
  size_t next = 0;
  for (size_t row = 0; row < kept.size(); ++row)
    if (kept[row]) values[next++] = values[row];
  values.resize(next);
}

}  // namespace

const TableColumn& DataTable::column(const std::string& column_name) const {
  for (const auto& column : columns)
    if (column.name == column_name) return column;
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  throw config_error(fmt::format("{}: no column '{}'{}", name, printable(column_name),
                                 suggest(column_name, names)));
}

std::vector<std::string> column_names(const DataTable& table) {
  std::vector<std::string> names;
  for (const auto& column : table.columns) {
    const auto& name = column.list.empty() ? column.name : column.list;
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

void choose_columns(DataTable& table, const std::vector<std::string>& names) {
  std::vector<std::string> owners;  // names of the columns, which are moved one by one
  for (const auto& column : table.columns)
    owners.push_back(column.list.empty() ? column.name : column.list);
  std::vector<TableColumn> chosen;
  for (const auto& name : names) {
    if (std::ranges::find(owners, name) == owners.end()) table.column(name);
    for (size_t i = 0; i < owners.size(); ++i)
      if (owners[i] == name) chosen.push_back(std::move(table.columns[i]));
  }
  table.columns = std::move(chosen);
}

void keep_rows(DataTable& table, const std::vector<bool>& kept) {
  for (auto& column : table.columns) {
    keep_values(column.numbers, kept);
    keep_values(column.codes, kept);
  }
  if (table.places.empty())
    for (size_t row = 0; row < kept.size(); ++row)
      table.places.push_back(static_cast<int64_t>(row) + 1);
  keep_values(table.places, kept);
  table.rows = table.places.size();
}

}  // namespace lockstep::formats
