// The cache of objects of this process.
#pragma once

#include <map>
#include <string>

#include "formats/store/object_cache.h"

namespace lockstep::formats {

// Sets the options of object_cache(). Call it before the first use.
void set_object_cache(ObjectCacheOptions options);
// The cache of this process. Throws Config if no options were set.
ObjectCache& object_cache();
// Zeros if it was not used.
StoreStats store_stats();
// Empty if it was not used.
std::map<std::string, std::string> store_commits();
std::map<std::string, std::string> store_versions();
// Loads the client of buckets until the process ends, unless it is loaded. Throws Config if this build has no Arrow; Environment.
void use_buckets();

}  // namespace lockstep::formats
