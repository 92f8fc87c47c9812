// The cache of this process.
#include <cstdlib>

#include "formats/store/object_cache.h"

namespace lockstep::formats {
namespace {

struct ProcessCache {
  Mutex mutex;
  std::optional<ObjectCacheOptions> options GUARDED_BY(mutex);
  std::unique_ptr<ObjectCache> cache GUARDED_BY(mutex);
};

// Never destroyed: other threads may use it while the process ends.
ProcessCache& process_cache() {
  static auto& cache = *new ProcessCache;
  return cache;
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
      throw config_error("paths with a scheme are supported for the data of a run file only");
    process.cache = std::make_unique<ObjectCache>(*process.options);
  }
  return *process.cache;
}

StoreStats store_stats() {
  auto& process = process_cache();
  const MutexLock lock(process.mutex);
  return process.cache ? process.cache->stats() : StoreStats{};
}

}  // namespace lockstep::formats
