// Files of an HTTP server. Only files of formats/ include this.
#pragma once

#include <memory>

#include "formats/store/object_store.h"

namespace lockstep::formats {

// A key is the path of a URL: characters that a URL must not have are encoded, %XX is kept. list()
// and what writes are refused. Does not connect.
std::unique_ptr<ObjectStore> open_http_store(const BucketOptions& options);

}  // namespace lockstep::formats
