// Paths of data in an object store: s3://bucket/key?endpoint_override=host:port&scheme=http.
#pragma once

#include <filesystem>
#include <string>

#include "formats/store/object_store.h"

namespace lockstep::formats {

// Whether `path` has a scheme, and so is not in a file system.
bool has_scheme(const std::filesystem::path& path);

struct StorePath {
  std::string bucket, key;  // the key without slashes at its ends; empty: the whole bucket

  std::filesystem::path path() const { return "s3://" + bucket + (key.empty() ? "" : "/" + key); }
};

// The place of a path with a scheme. The options after "?" are remembered for the bucket, so that
// later paths need none. Throws Config: another scheme, no bucket, unknown options, credentials in
// the path, options that contradict earlier ones.
StorePath parse_store_path(const std::filesystem::path& path);

// Options of all buckets, unless a path has others.
void set_default_bucket_options(const BucketOptions& options);

BucketOptions options_of_bucket(const std::string& bucket);

}  // namespace lockstep::formats
