// A bucket through one of Arrow's file systems. Only this folder, which is a separate shared library,
// depends on Arrow.
#pragma once

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/store/object_store.h"

namespace lockstep::formats {

// An error that a client reports with a text.
struct KnownFailure {
  const char* text;  // part of Arrow's message
  StoreFailure failure;
  ErrorKind kind;
  const char* remedy;
};

// The first of `failures` whose text `message` has, or a temporary one. `essence`: the part of the
// message that is shown, without secrets.
StoreError known_error(std::span<const KnownFailure> failures, const std::string& place,
                       std::string_view message, std::string_view essence);

// The text between two others; `otherwise` if there is no `begin`, and all of the rest if there is no
// `end` after it.
std::string_view text_between(std::string_view text, std::string_view begin, std::string_view end,
                              std::string_view otherwise);

// Seconds since 1970 of "2026-11-26T13:44:06", which more text can follow; 0: another text.
int64_t seconds_of_iso_time(const std::string& text);

class ArrowStore : public ObjectStore {
 public:
  std::string access_key_id() override { return {}; }
  ObjectInfo info(const std::string& key) override;
  std::vector<ObjectInfo> list(const std::string& prefix, size_t limit) override;
  void verify_listing(const std::string& prefix) override;
  void read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) override;
  void write(const std::string& key, const NextBytes& next) override;
  void remove(const std::string& key) override;
  void remove_all(const std::string& prefix) override;

 protected:
  // `shown`: "s3://bucket". `bucket`: as in Arrow's paths.
  ArrowStore(std::string shown, std::string bucket)
      : shown_(std::move(shown)), bucket_(std::move(bucket)) {}

  // `writable`: for writing and removing.
  void set_files(std::shared_ptr<arrow::fs::FileSystem> files,
                 std::shared_ptr<arrow::fs::FileSystem> writable) {
    files_ = std::move(files);
    writable_files_ = std::move(writable);
  }

  // For messages.
  std::string name_of(const std::string& key) const;

 private:
  // Size, time and tag of the version that these describe.
  virtual void set_version(ObjectInfo& info, const arrow::KeyValueMetadata& metadata) const = 0;
  virtual StoreError error_of(const std::string& place, const std::string& message) const = 0;
  // Ends the upload of an object so that it does not appear.
  virtual void abort(std::shared_ptr<arrow::io::OutputStream> file) { (void)file->Abort(); }

  StoreError error_at(const std::string& key, const std::string& message) const;
  std::string path_of(const std::string& key) const;
  arrow::fs::FileSelector selector_of(const std::string& prefix) const;

  template <class Call>
  auto value(const std::string& key, const Call& call) const;
  template <class Call>
  void verify(const std::string& key, const Call& call) const;

  const std::string shown_, bucket_;
  std::shared_ptr<arrow::fs::FileSystem> files_, writable_files_;
};

// Each throws StoreError.
ObjectStore* open_s3(const BucketOptions& options);
ObjectStore* open_gcs(const BucketOptions& options);
ObjectStore* open_azure(const BucketOptions& options);

// Call them before the first store is opened. They construct what Arrow and the clients keep until
// functions that the caller registers with atexit() have been called.
void start_s3();
void start_gcs();
void start_azure();
// Call it when no store is open.
void finish_s3();

}  // namespace lockstep::formats
