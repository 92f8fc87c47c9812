// lockstep_bench_tokenizer TOKENIZER TEXT SECONDS: encodes the lines of a file again and again on
// one thread. Prints MB per second of the median pass, and a checksum of the tokens.
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/durable_file.h"
#include "formats/tokenizer/tokenizer.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int run(char** argv) {
  const auto begin = Clock::now();
  const auto tokenizer = formats::read_tokenizer(argv[1]);
  const auto load = seconds_since(begin);
  const auto text = read_file(argv[2], 1u << 30);
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::vector<double> passes;
  std::vector<int32_t> ids;
  while (passes.size() < 3 || seconds_since(begin) < std::stod(argv[3])) {
    ids.clear();
    const auto start = Clock::now();
    for (const auto line : lines) tokenizer.encode(line, ids);
    passes.push_back(seconds_since(start));
  }
  std::ranges::sort(passes);
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(ids.data()), 4 * ids.size());
  std::cout << "{\"mb_per_s\": "
            << static_cast<double>(text.size()) / 1e6 / passes[passes.size() / 2]
            << ", \"load_s\": " << load << ", \"tokens\": " << ids.size() << ", \"crc32\": " << sum
            << "}\n";
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int, char** argv) {
  try {
    return lockstep::run(argv);
  } catch (const lockstep::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
