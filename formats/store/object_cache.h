// Local copies of objects, in a directory of bounded size that all processes of a host share. Each
// object is fetched once per host, in ranges in parallel. A kill leaves whole copies only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "formats/store/hedged_reads.h"
#include "formats/store/object_store.h"
#include "formats/store/object_versions.h"
#include "formats/store/ordered_pieces.h"
#include "formats/store/retries.h"
#include "formats/store/store_path.h"

namespace lockstep::formats {

struct ObjectCacheOptions {
  std::filesystem::path directory;
  int64_t max_bytes = 0;
  int64_t processes = 1;  // of this host that use the directory
  int connections = 16;   // requests at a time, of this process
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};  // of a request with its retries
  bool hedges = true;  // sends slow requests a second time (formats/store/hedged_reads.h)
};

// Since the start of the process.
struct StoreStats {
  int64_t bytes = 0, requests = 0, retries = 0;
  int64_t hedged = 0;  // requests that were sent a second time because they were slow
  int64_t hits = 0;    // calls of open() that found a copy
  double wait_s = 0;   // in open()
};

// A copy, and a lock that protects it from eviction.
struct LocalCopy {
  std::filesystem::path path;
  FileDescriptor lock;
};

// Thread: safe to call from several threads concurrently.
//
// All functions throw StoreError, with the kind Config where the input is wrong, once the error is
// permanent or the timeout is over.
class ObjectCache {
 public:
  // Starts threads when they are needed.
  explicit ObjectCache(ObjectCacheOptions options);
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;

  // Fetches the object unless there is a copy. Throws Environment if the object has changed since this
  // process first listed or requested it.
  LocalCopy open(const StorePath& place);
  // These will be opened: their versions are from now on those of the listings that have them. The
  // versions of others are requested, several at a time.
  void pin(const std::vector<StorePath>& places);
  // Reads the bytes of the object from `offset` on, all of `out`, as open() but without a copy if there is
  // none: to look at a part of an object. An object that the server sends only whole is fetched.
  void read(const StorePath& place, int64_t offset, std::span<uint8_t> out);
  // Calls act(i) for all i below `count`, several at a time: for calls that wait for the server. If a call
  // throws, no others begin, and its error is thrown.
  void for_each(int64_t count, const std::function<void(size_t)>& act);

  // Whether there is such an object.
  bool is_object(const StorePath& place);
  // As in the last listing, if it was listed.
  int64_t size_of(const StorePath& place);

  // The objects below a prefix. Throws Config if there are none, naming similar keys, or more than
  // kMaxListed.
  std::vector<StorePath> list(const StorePath& place);
  static constexpr size_t kMaxListed = 100'000;

  // Fetches these in the background, in this order and before those of earlier calls, as far as they
  // fit: all processes fill half of the cache. What open() waits for comes first. Errors: of open().
  void fetch_ahead(std::vector<StorePath> places);

  StoreStats stats() const;
  // The commits that are read, by the paths of their repositories.
  std::map<std::string, std::string> commits() const;
  // The versions of what is read, by path: of pin() and of objects that were requested, without those
  // that the server does not say.
  std::map<std::string, std::string> versions() const { return versions_.texts(unknown_version_); }
  const ObjectCacheOptions& options() const { return options_; }

 private:
  struct Counters {
    std::atomic<int64_t> bytes = 0, hits = 0, wait_us = 0;
  };

  ObjectStore& store_of(const StorePath& place);
  ObjectInfo request_info(const StorePath& place);
  ObjectInfo expected(const StorePath& place);
  void verify_as_listed(const StorePath& place, const ObjectInfo& object);
  LocalCopy wait_or_fetch(const StorePath& place, const ObjectInfo& object, int64_t ahead,
                          bool& was_there);
  std::filesystem::path copy_of(const StorePath& place, const ObjectInfo& object) const;
  void fetch(const StorePath& place, const ObjectInfo& object, int64_t ahead, int file);
  [[nodiscard]] bool read_range(const StorePath& place, const ObjectInfo& object, int64_t offset,
                                std::span<uint8_t> out);
  template <class Act>
  void read_version(const StorePath& place, const ObjectInfo& object, const Act& act);
  [[nodiscard]] bool fetch_pieces(const StorePath& place, const ObjectInfo& object, int64_t ahead,
                                  int file);
  void fetch_whole(ObjectStore& store, const ObjectInfo& object, int file);
  PageBytes read_piece(ObjectStore& store, const ObjectInfo& object, int64_t offset, int64_t size);
  void fetch_piece(ObjectStore& store, const ObjectInfo& object, int64_t begin, int64_t end,
                   int file);
  void run_ahead(const std::stop_token& stop);
  bool claim_ahead(const std::string& path, int64_t bytes, const std::stop_token& stop);
  void note_opened(const std::string& path);

  const ObjectCacheOptions options_;
  Retries retries_;
  const std::string unknown_version_;  // instead of a tag: of this process only
  Counters counters_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, std::unique_ptr<ObjectStore>> stores_ GUARDED_BY(mutex_);  // by root
  HedgedReads reads_;                                                              // uses stores_
  OrderedPieces pieces_;                                                           // uses reads_
  ObjectVersions versions_;
  std::deque<StorePath> ahead_ GUARDED_BY(mutex_);              // not fetched yet
  int64_t num_ahead_ GUARDED_BY(mutex_) = 0;                    // that were begun
  std::map<std::string, int64_t> unopened_ GUARDED_BY(mutex_);  // bytes fetched ahead, by path
  std::set<std::string> opened_ GUARDED_BY(mutex_);             // paths
  int64_t unopened_bytes_ GUARDED_BY(mutex_) = 0;
  std::stop_source stop_;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);  // last: joined first
};

}  // namespace lockstep::formats
