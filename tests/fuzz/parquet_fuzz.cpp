// An arbitrary file either has row groups with consistent tables or is a Config error.
#include <cstdlib>
#include <memory>

#include "tests/fuzz/columnar_checks.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet(const std::filesystem::path& path,
                                                                  const std::string& name);

namespace lockstep {
namespace {

// Limits the reads of one input: a few corrupt bytes can refer to the same pages many times.
constexpr size_t kMaxRowGroups = 4, kMaxColumns = 16;

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
  return 0;
}
