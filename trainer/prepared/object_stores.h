// What the environment and the run file say about data in buckets and of other servers.
#pragma once

#include <cstdint>

#include "trainer/config/object_cache_config.h"

namespace lockstep::trainer {

// Sets the options of all stores, as formats/store/store_environment.h says, and those of
// formats::object_cache(), which is not used yet. `local_ranks`: of this host; they share the cache.
// Throws Config.
void use_object_stores(const ObjectCacheConfig& config, int64_t local_ranks = 1);

}  // namespace lockstep::trainer
