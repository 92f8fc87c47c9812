#include "data/table.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/nearest_name.h"
#include "core/printable.h"

namespace lockstep {
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

std::string DataTable::where(size_t row) const {
  return fmt::format("{}: {} {}", name, place,
                     row < places.size() ? places[row] : static_cast<int64_t>(row) + 1);
}

const TableColumn& DataTable::column(const std::string& wanted) const {
  std::vector<std::string> names;
  for (const auto& column : columns) {
    if (column.name == wanted) return column;
    names.push_back(column.name);
  }
  throw config_error(
      fmt::format("{}: no column '{}'{}", name, printable(wanted), suggest(wanted, names)));
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

}  // namespace lockstep
