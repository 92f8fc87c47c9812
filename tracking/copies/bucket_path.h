// A path in a bucket, in a run file.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "formats/store/object_folder.h"
#include "formats/store/store_environment.h"
#include "lockstep/config_value.h"

namespace lockstep::tracking {

struct BucketPath {
  std::string text;  // s3://bucket/prefix, or gs://, abfss://
};

// The folder `name` below a path; the folder of the path itself if it is empty. Failed requests are
// repeated for `timeout`. Throws Config: not the path of a bucket, an invalid environment; Environment.
std::unique_ptr<formats::ObjectFolder> open_bucket_folder(const std::string& path,
                                                          const std::string& name,
                                                          const formats::Variables& environment,
                                                          std::chrono::milliseconds timeout);

// Server and account, as text that differs between those of different buckets with the same path. After
// open_bucket_folder().
std::string server_of_bucket(const std::string& path);

}  // namespace lockstep::tracking

namespace lockstep {

// Throws Config for a path that is not in a bucket, and for one with credentials, as run files are
// recorded. open_bucket_folder() verifies the options after "?".
template <>
struct ConfigValue<tracking::BucketPath> {
  static tracking::BucketPath read(const ConfigNode& node, const std::string& path);
  static Json dump(const tracking::BucketPath& path) { return path.text; }
  static Json schema();
};

}  // namespace lockstep
