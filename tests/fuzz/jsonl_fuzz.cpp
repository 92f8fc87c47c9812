// Arbitrary text is either a consistent table or a Config error.
#include <cstdlib>

#include "formats/table/jsonl_file.h"
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
  return {
      "{\"a\":1,\"b\":\"x\",\"c\":true}\n{\"a\":null,\"b\":\"y\"}\r\n\n{\"c\":false,\"d\":[1,2.5]}"
      "\n",
      "\xEF\xBB\xBF{\"e\":[1,2,3],\"a\":1e300}\n{\"e\":[4,null,6]}\n",
      "{\"a\":{\"b\":1}}\n[1,2]\n{\"a\":[[1]]}\n{\"a\":\"\\u00e9\"}\n"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> columns =
      size % 3 == 0 ? std::vector<std::string>{"a", "e"} : std::vector<std::string>{};
  for (const int64_t max_bad_rows : {0, 1000}) try {
      verify(
          formats::parse_jsonl(text, {.columns = columns, .max_bad_rows = max_bad_rows}, "input"));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) std::abort();
    }
  return 0;
}
