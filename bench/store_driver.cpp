// lockstep_bench_store CACHE CONNECTIONS PATH: reads every object below a prefix once through an
// empty cache, as a dataset does. Prints bytes, seconds and requests as JSON.
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "core/system/crc32c.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "formats/store/process_cache.h"
#include "lockstep/error.h"

int main(int, char** argv) {
  using namespace lockstep;
  using Clock = std::chrono::steady_clock;
  try {
    formats::set_default_bucket_options({.region = "us-east-1"});
    formats::set_object_cache(
        {.directory = argv[1], .max_bytes = int64_t{8} << 30, .connections = std::stoi(argv[2])});
    (void)formats::is_folder(argv[3]);  // starts the client, and connects
    const auto begin = Clock::now();
    const auto files = formats::files_in(
        argv[3], [](const auto&) { return true; }, true);
    uint32_t sum = 0;
    for (const auto& path : files) {
      const formats::MappedFile file(path);
      sum ^= file.read(
          [](std::span<const uint8_t> bytes) { return crc32c(bytes.data(), bytes.size()); });
    }
    const auto seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const auto stats = formats::store_stats();
    fmt::print("{{\"bytes\": {}, \"seconds\": {:.4f}, \"requests\": {}, \"crc32c\": {}}}\n",
               stats.bytes, seconds, stats.requests, sum);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  return 0;
}
