// Objects in a store: a bucket, an HTTP server, or a repository of a hub. No LibTorch, and no Arrow:
// the implementation of buckets is in a separate library, which is loaded when the first one is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/http/http_proxies.h"
#include "lockstep/error.h"

namespace lockstep::formats {

enum class StoreKind {
  S3,     // s3://
  Gcs,    // gs://
  Azure,  // abfs://, abfss://, az://
  Http,   // https:// and http://: reading of single files
  Hub     // hf://: reading of the files of a repository
};

// Objects of buckets (Azure: containers) are listed and written too.
inline bool is_bucket(StoreKind kind) { return kind < StoreKind::Http; }

// How to reach a store.
struct BucketOptions {
  StoreKind kind = StoreKind::S3;
  std::string bucket;    // as StorePath
  std::string endpoint;  // of buckets, host or host:port; empty: that of AWS; otherwise a URL
  std::string scheme = "https";    // or http
  std::string region;              // empty: that of the environment or profile
  std::string ca_file;             // certificates to trust; empty: those of the system
  bool is_anonymous = false;       // requests are not signed
  std::string path_scheme;         // of buckets, for messages, e.g. "s3"
  std::string account, container;  // of Azure
  std::string account_key;         // of Azure, secret; empty: none
  std::string token;               // of a hub, or a SAS token of Azure; secret; empty: none
  std::string token_source;        // of a hub: where the token comes from, in words
  HttpProxies proxies;             // of HTTP servers and hubs
  double timeout_s = 10;           // of connecting, and of an answer that stops
  bool operator==(const BucketOptions&) const = default;
};

struct ObjectInfo {
  std::string key;
  int64_t size = 0;        // bytes
  int64_t modified = 0;    // seconds since 1970; 0: unknown
  std::string tag;         // the ETag; empty in a listing
  bool has_ranges = true;  // false: read_whole() only
};

enum class StoreFailure {
  Temporary,    // server or network: the request may succeed later
  NoBucket,     //
  NoKey,        //
  NoRanges,     // read_whole() can still read the object
  Denied,       // the credentials have no right to do this
  Credentials,  // none, unknown or wrong ones
  Expired,      // a session token
  Clock,        // differs from the server's by too much
  Other
};

// What the error of an object that is no longer the one of the start says.
inline constexpr const char* kObjectChanged =
    "was changed while the run reads it: restore it, or start again; new data need new names";

// One failed request.
class StoreError : public Error {
 public:
  // `retry_after_s`: the server's request not to repeat it earlier.
  StoreError(StoreFailure failure, ErrorKind kind, const std::string& message,
             int64_t retry_after_s = 0)
      : Error(kind, message), failure_(failure), retry_after_s_(retry_after_s) {}
  StoreFailure failure() const { return failure_; }
  int64_t retry_after_s() const { return retry_after_s_; }

 private:
  StoreFailure failure_;
  int64_t retry_after_s_;
};

// Writes the next bytes of an object to the buffer. Returns their number; 0 at the end.
using NextBytes = std::function<size_t(std::span<uint8_t>)>;

// Takes the next bytes of an object.
using TakeBytes = std::function<void(std::span<const uint8_t>)>;

// Each function is one attempt without retries, and throws StoreError. Keys have no leading slash.
// Those that write are for buckets: other stores refuse them.
//
// Thread: safe to call from several threads concurrently.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // That requests to S3 are signed with, not a secret; empty: there are no credentials, or this is
  // another store. Can wait for the metadata server of the machine.
  virtual std::string access_key_id() = 0;

  virtual ObjectInfo info(const std::string& key) = 0;
  // The objects whose keys begin with `prefix` and a slash, all if it is empty; at most `limit`, in
  // any order. A missing prefix has no objects; a missing bucket is an error with an empty one only.
  virtual std::vector<ObjectInfo> list(const std::string& prefix, size_t limit) = 0;
  // Throws what list() throws.
  virtual void verify_listing(const std::string& prefix) { list(prefix, 1); }
  // Reads the bytes of `object` from `offset` on; all of `out`.
  virtual void read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) = 0;
  // Passes all bytes of `object`, in order. Required of stores with objects without has_ranges.
  virtual void read_whole(const ObjectInfo&, const TakeBytes&) {
    throw StoreError(StoreFailure::Other, ErrorKind::Bug,
                     "this store reads ranges of objects only");
  }
  // The commit that is read, of a repository; empty: not known yet, or this store has none.
  virtual std::string commit() const { return {}; }

  // Writes or replaces an object, in parts: it appears when it is complete, and not if `next` throws.
  // In Azure, it is empty until it is complete, and if it is not completed.
  // Repeats failed parts a few times.
  virtual void write(const std::string& key, const NextBytes& next) = 0;
  // No effect if there is no such object.
  virtual void remove(const std::string& key) = 0;
  // The objects that list() returns.
  virtual void remove_all(const std::string& prefix) = 0;
};

// Where Arrow's libraries are if the system does not find them; called when the first bucket is used.
void set_arrow_folder(std::function<std::filesystem::path()> find);

// Loads the library of buckets. Throws Config if this build has no Arrow; Environment.
void start_buckets();
// Call it before the process ends, when no bucket is open.
void finish_buckets();

// Of a bucket: requires start_buckets(). Throws StoreError, Config.
std::unique_ptr<ObjectStore> open_object_store(const BucketOptions& options);

// What the library exports, under kObjectStoreLibrary.
struct ObjectStoreLibrary {
  void (*start)();
  void (*finish)();
  ObjectStore* (*open)(const BucketOptions&);
};
inline constexpr const char* kObjectStoreLibrary = "lockstep_object_stores";

}  // namespace lockstep::formats
