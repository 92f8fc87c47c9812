#include "formats/store/process_cache.h"

#include <cstdlib>
#include <utility>

namespace lockstep::formats {
namespace {

struct ProcessCache {
  Mutex mutex;
  std::optional<ObjectCacheOptions> options GUARDED_BY(mutex);
  std::unique_ptr<ObjectCache> cache GUARDED_BY(mutex);
  bool has_buckets GUARDED_BY(mutex) = false;
  bool is_closed GUARDED_BY(mutex) = false;
};

ProcessCache& process_cache() {
  static auto& cache = *new ProcessCache;
  return cache;
}

// When the process ends. Threads of the cache can use use_buckets() until they have ended.
void close_process_cache() {
  auto& process = process_cache();
  std::unique_ptr<ObjectCache> cache;
  {
    const MutexLock lock(process.mutex);
    process.is_closed = true;
    cache = std::move(process.cache);
  }
  cache.reset();
  const MutexLock lock(process.mutex);
  if (std::exchange(process.has_buckets, false)) finish_buckets();
}

void close_at_exit() {
  check(std::atexit(close_process_cache) == 0, "no function can be called when the process ends");
}

}  // namespace

void set_object_cache(ObjectCacheOptions options) {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  if (!process.cache) process.options = std::move(options);
}

ObjectCache& object_cache() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  if (!process.cache) {
    if (!process.options)
      throw config_error(
          "paths with a scheme are supported in a run file only, for data and checkpoint.mirror");
    check(!process.is_closed, "a bucket is used while the process ends");
    process.cache = std::make_unique<ObjectCache>(*process.options);
    close_at_exit();
  }
  return *process.cache;
}

void use_buckets() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  if (process.has_buckets) return;
  check(!process.is_closed, "a bucket is used while the process ends");
  start_buckets();
  process.has_buckets = true;
  close_at_exit();  // again: it must come before Arrow's libraries end
}

std::map<std::string, std::string> store_commits() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  return process.cache ? process.cache->commits() : std::map<std::string, std::string>();
}

std::map<std::string, std::string> store_versions() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  return process.cache ? process.cache->versions() : std::map<std::string, std::string>();
}

StoreStats store_stats() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  return process.cache ? process.cache->stats() : StoreStats{};
}

}  // namespace lockstep::formats
