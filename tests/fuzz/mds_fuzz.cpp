// Arbitrary bytes are either a shard whose columns have a value per sample or a Config error.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "formats/mds/mds_rows.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

using formats::MdsColumn, formats::MdsKind, formats::MdsNumber;

const std::vector<MdsColumn>& columns() {
  static const std::vector<MdsColumn> columns = {
      {"array", "ndarray", MdsKind::Array, {}, {}, 0},
      {"fixed", "ndarray:uint16:2", MdsKind::Array, MdsNumber::U16, {2}, 4},
      {"half", "float16", MdsKind::Number, MdsNumber::F16, {}, 2},
      {"image", "png", MdsKind::Bytes, {}, {}, 0},
      {"number", "str_float", MdsKind::NumberText, {}, {}, 0},
      {"text", "str", MdsKind::Text, {}, {}, 0}};
  return columns;
}

std::string word(size_t value) {
  const auto number = static_cast<uint32_t>(value);
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// Three samples.
std::string shard() {
  const std::string array("\x22\x08\x01\x03\0\0\x80\x3f\0\0\0\0\0\0\0\0", 16);  // float32 [1, 3]
  const auto sample = [&](const std::string& text) {
    const std::string head = word(array.size()) + word(4) + word(3) + word(text.size());
    return head + array + std::string("\1\0\2\0\0\x3c", 6) + "\x89PNG" + "1.5" + text;
  };
  const std::vector<std::string> samples = {sample("a"), sample("bc"), sample("a")};
  std::string out = word(samples.size()), body;
  size_t end = sizeof(uint32_t) * (samples.size() + 2);
  out += word(end);
  for (const auto& one : samples) {
    out += word(end += one.size());
    body += one;
  }
  return out + body;
}

}  // namespace

std::vector<std::string> fuzz_seeds() { return {shard()}; }

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  constexpr int64_t kMaxSamples = 16;
  const auto samples = size == 0 ? 0 : std::min<int64_t>(data[0], kMaxSamples);
  std::vector<int64_t> rows(static_cast<size_t>(samples));
  std::iota(rows.begin(), rows.end(), 0);
  for (size_t number = 0; number < columns().size(); ++number) try {
      const formats::MdsRows shard({data, size}, columns(), samples, "input");
      for (const auto row : rows) shard.value(number, row);
      for (const auto& column : shard.column(number, rows)) {
        if ((column.is_text ? column.codes.size() : column.numbers.size()) != rows.size())
          std::abort();
        for (const auto code : column.codes)
          if (code < 0 || code >= static_cast<int64_t>(column.words.size())) std::abort();
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) std::abort();
    }
  return 0;
}
