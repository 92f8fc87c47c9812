// Arbitrary bytes either are an Arrow file with consistent tables, row by row the same as by record
// batch, or a Config error.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/fuzz/columnar_checks.h"
#include "tests/fuzz/seeds.h"

extern "C" lockstep::formats::ColumnarFile* lockstep_open_arrow(const uint8_t* bytes, size_t size,
                                                                const std::string& name);

namespace lockstep {
namespace {

constexpr size_t kMaxBatches = 4, kMaxColumns = 16;
constexpr int64_t kMaxRows = 4;

void verify(const formats::DataTable& table, size_t rows) {
  if (table.places.size() != rows) std::abort();
  verify_columns(table, rows);
}

std::string value(const formats::TableColumn& column, size_t row) {
  if (column.is_missing(row)) return "";
  return column.is_text ? column.words[static_cast<size_t>(column.codes[row])]
                        : std::to_string(column.numbers[row]);
}

void read(const formats::ColumnarFile& file) {
  const auto rows = file.row_groups();
  const auto columns = file.columns();
  attempt([&] { file.index_columns(); });
  for (size_t group = 0; group < std::min(rows.size(), kMaxBatches); ++group)
    for (size_t i = 0; i < std::min(columns.size(), kMaxColumns); ++i)
      attempt([&] {
        const auto table = file.read(group, {columns[i]}, serial_for);
        verify(table, static_cast<size_t>(rows[group]));
        if (!file.has_row_access()) return;
        std::vector<formats::RowPlace> places;
        for (auto row = std::min(rows[group], kMaxRows); row-- > 0;) places.push_back({group, row});
        const auto some = file.read_rows(places, {columns[i]});
        verify(some, places.size());
        for (size_t c = 0; c < std::min(some.columns.size(), table.columns.size()); ++c)
          for (size_t at = 0; at < places.size(); ++at)
            if (value(some.columns[c], at) !=
                value(table.columns[c], static_cast<size_t>(places[at].row)))
              std::abort();
      });
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  attempt([&] {
    const std::unique_ptr<const formats::ColumnarFile> file(
        lockstep_open_arrow(data, size, "input"));
    read(*file);
  });
  return 0;
}
