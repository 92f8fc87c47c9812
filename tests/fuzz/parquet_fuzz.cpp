// An arbitrary file either has row groups with consistent tables or is a Config error.
#include <cstdlib>
#include <memory>

#include "tests/fuzz/columnar_checks.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet(const std::filesystem::path& path,
                                                                  const std::string& name);
extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet_footer(
    std::span<const uint8_t> footer, int64_t bytes, const std::string& name);

namespace lockstep {
namespace {

// Limits the reads of one input: a few corrupt bytes can refer to the same pages many times.
constexpr size_t kMaxRowGroups = 4, kMaxColumns = 16;

// What the footer says.
void describe(const formats::ColumnarFile& file) {
  const auto columns = file.columns();
  attempt([&] { file.row_groups(); });
  for (size_t i = 0; i < std::min(columns.size(), kMaxColumns); ++i) {
    attempt([&] { file.kind_of(columns[i]); });
    attempt([&] { file.has_counts(columns[i]); });
  }
}

void read(const formats::ColumnarFile& file) {
  const auto rows = file.row_groups();
  const auto columns = file.columns();
  attempt([&] { file.index_columns(); });
  for (size_t group = 0; group < std::min(rows.size(), kMaxRowGroups); ++group)
    for (size_t i = 0; i < std::min(columns.size(), kMaxColumns); ++i) {
      attempt([&] {
        verify_columns(file.read(group, {columns[i]}), static_cast<size_t>(rows[group]));
      });
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
  attempt([&] {
    const std::unique_ptr<const formats::ColumnarFile> file(
        lockstep_open_parquet_footer({data, size}, static_cast<int64_t>(size), "input"));
    describe(*file);
  });
  return 0;
}
