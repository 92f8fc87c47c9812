// A prefix of a bucket, to write files to it and read them back.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/system/file_descriptor.h"
#include "formats/store/object_store.h"
#include "formats/store/retries.h"
#include "formats/store/store_path.h"

namespace lockstep::formats {

// Names are keys relative to the folder. All functions repeat failed requests until `timeout`, and
// then throw StoreError.
//
// Thread: one at a time; stop(): any.
class ObjectFolder {
 public:
  // Throws Config if `place` is not in a bucket.
  ObjectFolder(StorePath place, std::chrono::milliseconds timeout);

  // At most kMaxObjects.
  std::vector<ObjectInfo> list(const std::string& folder = {});
  static constexpr size_t kMaxObjects = 100'000;

  // Replaces an object with the whole content of a file, which may have no name any more.
  void write(const std::string& name, const FileDescriptor& file);
  void write_text(const std::string& name, std::string_view text);
  void remove(const std::string& name);
  void remove_all(const std::string& folder);

  // The bytes of an object from `offset` on.
  std::string read(const ObjectInfo& object, int64_t offset, int64_t size);
  std::string read(const ObjectInfo& object) { return read(object, 0, object.size); }
  // Writes an object to a new file, and syncs it. Several requests at a time.
  void fetch(const ObjectInfo& object, const std::filesystem::path& file);

  // "s3://bucket/key/NAME"
  std::string path_of(const std::string& name) const;
  // Ends the current function soon, with Environment.
  void stop() { retries_.stop(); }

 private:
  std::string key_of(const std::string& name) const;

  StorePath place_;
  Retries retries_;
  std::unique_ptr<ObjectStore> store_;
};

}  // namespace lockstep::formats
