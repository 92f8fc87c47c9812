// Stores that can only be read. Only files of formats/ include this.
#pragma once

#include <memory>
#include <string>

#include "core/printable.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {

class ReadOnlyStore : public ObjectStore {
 public:
  std::string access_key_id() override { return {}; }
  void write(const std::string& key, const NextBytes&) override { refuse(key); }
  void remove(const std::string& key) override { refuse(key); }
  void remove_all(const std::string& prefix) override { refuse(prefix); }

 private:
  // For messages.
  virtual std::string path_of(const std::string& key) const = 0;

  [[noreturn]] void refuse(const std::string& key) const {
    throw StoreError(
        StoreFailure::Other, ErrorKind::Config,
        printable(path_of(key), 400) + ": can only be read; valid for writing: s3://bucket/prefix");
  }
};

// Files of an HTTP server. A key is the path of a URL: characters that a URL must not have are encoded,
// %XX is kept. list() is refused. Does not connect.
std::unique_ptr<ObjectStore> open_http_store(const BucketOptions& options);

}  // namespace lockstep::formats
