// An arbitrary file either has row groups with consistent tables or is a Config error.
#include <cstdlib>
#include <memory>

#include "formats/table/columnar_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet(const std::filesystem::path& path,
                                                                  const std::string& name);

namespace lockstep {
namespace {

// Limits the reads of one input: a few corrupt bytes can refer to the same pages many times.
constexpr size_t kMaxRowGroups = 4, kMaxColumns = 16;

void verify(const formats::DataTable& table, int64_t rows) {
  if (table.rows != static_cast<size_t>(rows)) std::abort();
  for (const auto& column : table.columns) {
    if ((column.is_text ? column.codes.size() : column.numbers.size()) != table.rows) std::abort();
    for (const auto code : column.codes)
      if (code < -1 || code >= static_cast<int64_t>(column.words.size())) std::abort();
  }
}

template <class Act>
void attempt(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
}

void read(const formats::ColumnarFile& file) {
  const auto rows = file.row_groups();
  const auto columns = file.columns();
  attempt([&] { file.index_columns(); });
  for (size_t group = 0; group < std::min(rows.size(), kMaxRowGroups); ++group)
    for (size_t i = 0; i < std::min(columns.size(), kMaxColumns); ++i) {
      attempt([&] { verify(file.read(group, {columns[i]}), rows[group]); });
      const auto test = formats::ColumnTest{.column = columns[i], .text = "3", .number = 3};
      attempt([&] { file.may_pass(group, {test}); });
      attempt([&] { file.is_complete(group, {columns[i]}); });
    }
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static MemoryFile input;
  input.write({reinterpret_cast<const char*>(data), size});
  attempt([] {
    const std::unique_ptr<const formats::ColumnarFile> file(
        lockstep_open_parquet(input.path(), "input"));
    read(*file);
  });
  return 0;
}
