// Paths of data in an object store: s3://bucket/key?endpoint_override=host:port&scheme=http,
// gs://bucket/key, abfss://CONTAINER@ACCOUNT/key, https://host/path,
// hf://datasets/OWNER/NAME@REVISION/path.
#pragma once

#include <filesystem>
#include <string>

#include "formats/store/object_store.h"

namespace lockstep::formats {

// Whether `path` has a scheme, and so is not in a file system.
bool has_scheme(const std::filesystem::path& path);

struct StorePath {
  // The bucket; CONTAINER@ACCOUNT of Azure; host or host:port; or the repository with its revision,
  // "datasets/OWNER/NAME@REVISION". As in the path.
  std::string bucket;
  std::string key;            // without slashes at its ends; empty: the whole bucket or repository
  std::string scheme = "s3";  // or gs, abfs, abfss, az, http, https, hf

  std::filesystem::path path() const {
    return scheme + "://" + bucket + (key.empty() ? "" : "/" + key);
  }
  // In the same bucket or repository, or on the same server.
  StorePath with_key(const std::string& other) const { return {bucket, other, scheme}; }
};

// The place of a path with a scheme. The options after "?" are remembered for the bucket, so that
// later paths need none. Throws Config: another scheme, no bucket or host, unknown options,
// credentials in the path, options that contradict earlier ones; over HTTP, a query or a folder.
StorePath parse_store_path(const std::filesystem::path& path);

// Options of all buckets of `options.kind`, unless a path has others. HTTP servers have the timeout
// of S3.
void set_default_bucket_options(const BucketOptions& options);

// How all hf:// paths are reached.
struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;         // secret; empty: none
  std::string token_source;  // in words, e.g. "HF_TOKEN"
};
void set_hub_options(const HubOptions& options);

// Of all HTTP servers and hubs.
void set_http_proxies(const HttpProxies& proxies);

// Throws Config for a hub: its endpoint is not an address, contains a user or a query, or is not
// encrypted though there is a token, unless it is on this host. For Azure: the account is unknown,
// or a token would be sent to another server. Other servers than Google's get no token.
BucketOptions options_of_store(const StorePath& place);

}  // namespace lockstep::formats
