// Arbitrary text is either a consistent table or a Config error.
#include <cstdlib>

#include "formats/table/csv_file.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

void verify(const formats::DataTable& table) {
  if (table.rows == 0 || table.places.size() != table.rows) std::abort();
  for (const auto& column : table.columns) {
    if ((column.is_text ? column.codes.size() : column.numbers.size()) != table.rows) std::abort();
    for (const auto code : column.codes)
      if (code < -1 || code >= static_cast<int64_t>(column.words.size())) std::abort();
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {"a,b,c\n1,2.5,x\n-3,,\"y, \"\"z\"\"\"\n",
          "\xEF\xBB\xBF"
          "a;b\r\n1;NA\r\n\r\n2;3\r\n",
          "a,b,c,d\n1,True,2026-01-31 12:00:00.5+01:00,$5\n?,False,12:30,10%\n\"1,5\",x,2 days "
          "01:00:00,1.2.2026\n",
          "k\n\"one\ntwo\"\n1e300\n", "a,b\n1\n1,2,3\n\"1\"x,2\n\"open,1\n4,5\n"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const int64_t max_bad_rows : {0, 1000}) try {
      verify(formats::parse_csv(
          text, {.separator = size % 2 ? ',' : ';', .max_bad_rows = max_bad_rows}, "input"));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) std::abort();
    }
  return 0;
}
