// Reads files through the cache of objects: object_store_driver CACHE MAX_BYTES TIMEOUT_MS ROUNDS PATH...
// In place of a path, hub=URL,TOKEN says how the paths after it, hf://..., are reached; hedge=off, that no
// request is sent a second time because it is slow.
// Prints the CRC-32C of each file and the name of its copy, then what it cost.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/system/crc32c.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "formats/store/process_cache.h"
#include "formats/store/store_path.h"
#include "formats/table/hive_partitions.h"

namespace {

using namespace lockstep;
namespace fs = std::filesystem;

void print_file(const fs::path& path) {
  if (path.extension() == ".parquet") {
    const auto file = formats::open_parquet_file(path);
    const auto table = file->read(0, file->columns());
    fmt::print("{} rows {}\n", path.string(), table.rows);
    return;
  }
  const formats::MappedFile file(path);
  const auto crc =
      file.read([](std::span<const uint8_t> bytes) { return crc32c(bytes.data(), bytes.size()); });
  const formats::LocalFile copy(path);
  fmt::print("{} {:08x} {}\n", file.name(), crc, copy.path().filename().string());
}

void use_hub(const std::string& text) {
  const auto comma = text.find(',');
  formats::set_hub_options({text.substr(4, comma - 4), text.substr(comma + 1), "HF_TOKEN"});
}

// "proxies=http,https,excluded"
void use_proxies(const std::string& text) {
  const auto first = text.find(','), second = text.find(',', first + 1);
  formats::set_http_proxies({text.substr(8, first - 8), text.substr(first + 1, second - first - 1),
                             text.substr(second + 1)});
}

bool switches_hedges_off(const std::string& argument) { return argument.starts_with("hedge=off"); }

void print_all(const fs::path& path) {
  if (switches_hedges_off(path)) return;
  if (path.native().starts_with("hub=")) return use_hub(path);
  if (path.native().starts_with("proxies=")) return use_proxies(path);
  if (!formats::is_folder(path)) return print_file(formats::without_options(path));
  for (const auto& file : formats::files_in(
           path, [](const fs::path&) { return true; }, true))
    print_file(file);
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  try {
    formats::set_default_bucket_options({.region = "us-east-1", .timeout_s = 3});
    formats::set_object_cache({.directory = arguments.at(0),
                               .max_bytes = std::stoll(arguments.at(1)),
                               .timeout = std::chrono::milliseconds(std::stoll(arguments.at(2))),
                               .hedges = std::ranges::none_of(arguments, switches_hedges_off)});
    for (auto round = std::stoll(arguments.at(3)); round > 0; --round)
      for (size_t i = 4; i < arguments.size(); ++i) print_all(arguments[i]);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
  for (const auto& [place, commit] : formats::store_commits())
    fmt::print("{} commit {}\n", place, commit);
  const auto stats = formats::store_stats();
  fmt::print("bytes {} requests {} retries {} hedged {} hits {}\n", stats.bytes, stats.requests,
             stats.retries, stats.hedged, stats.hits);
  return 0;
}
