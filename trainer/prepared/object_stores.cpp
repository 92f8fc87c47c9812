#include "trainer/prepared/object_stores.h"

#include <chrono>
#include <filesystem>

#include "formats/store/process_cache.h"
#include "formats/store/retries.h"
#include "formats/store/store_environment.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

fs::path directory_of_cache(const ObjectCacheConfig& config) {
  if (config.dir) return *config.dir;
  if (const auto cache = environment("XDG_CACHE_HOME"))
    return fs::path(*cache) / "lockstep/objects";
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache/lockstep/objects";
  return fs::temp_directory_path() / "lockstep-objects";
}

}  // namespace

void use_object_stores(const ObjectCacheConfig& config, int64_t local_ranks) {
  formats::use_store_environment(
      [](const std::string& name) { return environment(name.c_str()); },
      std::chrono::duration<double>(config.request_timeout.value).count());
  const auto ranks = static_cast<double>(local_ranks);
  formats::set_store_limits({.bytes_per_s = config.max_mb_per_s.value_or(0) * 1e6 / ranks,
                             .requests_per_s = config.max_requests_per_s.value_or(0) / ranks});
  formats::set_object_cache({.directory = fs::absolute(directory_of_cache(config)),
                             .max_bytes = config.max_mb * 1'000'000,
                             .processes = local_ranks,
                             .connections = static_cast<int>(config.connections),
                             .timeout = config.timeout.value,
                             .hedges = config.hedge});
}

}  // namespace lockstep::trainer
