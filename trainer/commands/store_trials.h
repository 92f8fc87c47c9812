// The checks of a bucket or another store, one after the other. Only files of trainer/ include this.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/findings.h"
#include "formats/store/object_store.h"
#include "formats/store/retries.h"
#include "formats/store/store_path.h"

namespace lockstep::trainer {

// Thread: one at a time; stop(), object_that_may_exist() and remove_quietly(): any.
class StoreTrials {
 public:
  struct Trial {
    const char* what;
    std::optional<Finding> (StoreTrials::*run)();  // nullopt: does not apply
  };
  static std::span<const Trial> all();

  // Of a bucket: requires start_buckets().
  explicit StoreTrials(const formats::StorePath& place);

  // Failed requests are findings. Does not throw.
  std::optional<Finding> run(const Trial& trial);
  // Whether the trials that have not run cannot succeed.
  bool is_pointless() const { return is_pointless_; }

  // Ends a transfer soon, and begins no other trial.
  void stop() { is_stopped_ = true; }
  // The path of the test object unless it was removed or not written; else empty.
  std::string object_that_may_exist() const;
  void remove_quietly();

 private:
  std::optional<Finding> try_endpoint();
  std::optional<Finding> compare_clocks();
  std::optional<Finding> try_credentials();
  std::optional<Finding> try_list();
  std::optional<Finding> try_write();
  std::optional<Finding> try_read();
  std::optional<Finding> try_upload();
  std::optional<Finding> try_download();
  std::optional<Finding> try_delete();

  bool is_bucket() const { return formats::is_bucket(options_.kind); }
  Finding try_identity();
  void list();
  Finding listed(const std::string& text) const;
  std::vector<uint8_t> read_range(const formats::ObjectInfo& object, int64_t offset, int64_t size);
  std::string path_of(const std::string& key) const;

  formats::StorePath place_;
  const formats::BucketOptions options_;
  formats::Retries retries_;
  std::shared_ptr<formats::ObjectStore> store_;  // null: not opened yet
  bool is_pointless_ = false;
  std::atomic<bool> is_stopped_ = false;

  std::string url_;      // of the server
  std::string date_;     // the header Date of its answer
  double answered_ = 0;  // when this was, in seconds since 1970
  std::vector<formats::ObjectInfo> listed_;
  std::optional<formats::StoreError> list_error_;
  bool is_object_ = false;  // the path names an object

  std::string key_;                      // of the test object
  std::atomic<bool> may_exist_ = false;  // the test object
  bool is_written_ = false;
  std::vector<uint8_t> content_;  // of the test object
  std::optional<formats::ObjectInfo> readable_;
};

}  // namespace lockstep::trainer
