// The cache of this process.
#include <cstdlib>

#include "formats/store/object_cache.h"

namespace lockstep::formats {
namespace {

struct ProcessCache {
  Mutex mutex;
  std::optional<ObjectCacheOptions> options GUARDED_BY(mutex);
  std::unique_ptr<ObjectCache> cache GUARDED_BY(mutex);
  bool is_closed GUARDED_BY(mutex) = false;
};

ProcessCache& process_cache() {
  static auto& cache = *new ProcessCache;
  return cache;
}

// When the process ends. Before Arrow's libraries end, which were loaded first.
void close_process_cache() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  process.is_closed = true;
  process.cache.reset();
  finish_object_stores();
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
    start_object_stores();
    check(std::atexit(close_process_cache) == 0, "no function can be called when the process ends");
  }
  return *process.cache;
}

StoreStats store_stats() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  return process.cache ? process.cache->stats() : StoreStats{};
}

}  // namespace lockstep::formats
