// The versions of objects that a process saw first, in a listing or at the first request: from then on,
// another one is an error. No LibTorch.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/printable.h"
#include "core/system/mutex.h"
#include "formats/store/object_store.h"
#include "formats/store/store_path.h"

namespace lockstep::formats {

// Thread: safe to call from several threads concurrently.
class ObjectVersions {
 public:
  // The same places, as the listing names them.
  void note_listing(const std::vector<StorePath>& places, const std::vector<ObjectInfo>& objects) {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < objects.size(); ++i)
      listed_.try_emplace(places[i].path().string(), Listed{objects[i].size, objects[i].modified});
  }

  // nullopt: no listing had it.
  std::optional<int64_t> listed_bytes(const std::string& path) const {
    const MutexLock lock(mutex_);
    const auto listed = listed_.find(path);
    return listed == listed_.end() ? std::nullopt : std::optional(listed->second.bytes);
  }

  // nullopt: it was not requested yet.
  std::optional<ObjectInfo> requested(const std::string& path) const {
    const MutexLock lock(mutex_);
    const auto known = requested_.find(path);
    return known == requested_.end() ? std::nullopt : std::optional(known->second);
  }

  // Returns what was noted first.
  ObjectInfo note_request(const std::string& path, const ObjectInfo& object) {
    const MutexLock lock(mutex_);
    return requested_.emplace(path, object).first->second;
  }

  // Whether the answer to a request can be of the object that was listed.
  bool is_as_listed(const StorePath& place, const ObjectInfo& object) const {
    const MutexLock lock(mutex_);
    const auto listed = listed_.find(place.path().string());
    if (listed == listed_.end()) return true;
    const auto& [bytes, modified, _] = listed->second;
    if (bytes != object.size) return false;
    return modified <= 0 || modified == object.modified ||
           other_times_.contains({place.scheme, place.bucket});
  }

  // Whether a later listing says the same of an object whose requests have another time. Some servers
  // do, for those that were written in parts: then times are no longer compared in this bucket.
  bool is_listed_again(const StorePath& place, const std::vector<ObjectInfo>& objects) {
    const MutexLock lock(mutex_);
    const auto& listed = listed_.at(place.path().string());
    for (const auto& object : objects) {
      if (object.key != place.key) continue;
      if (object.size != listed.bytes || object.modified != listed.modified) return false;
      other_times_.insert({place.scheme, place.bucket});
      return true;
    }
    return false;
  }

  // It will be read. False: nothing is known of its version.
  bool pin(const std::string& path) {
    const MutexLock lock(mutex_);
    if (const auto listed = listed_.find(path); listed != listed_.end())
      return listed->second.is_pinned = true;
    return requested_.contains(path);
  }

  // Of what was requested or pinned, by path, for comparisons between processes: by the listing where
  // there is one, so that it does not depend on when an object is requested. Without the versions of
  // repositories, which are commits, and those with the tag `unknown`.
  std::map<std::string, std::string> texts(const std::string& unknown) const {
    std::map<std::string, std::string> texts;
    const MutexLock lock(mutex_);
    for (const auto& [path, object] : requested_)
      if (!path.starts_with("hf:") && object.tag != unknown)
        texts[path] = fmt::format("{} bytes, ETag '{}', modified {}", object.size,
                                  printable(object.tag, 100), object.modified);
    for (const auto& [path, listed] : listed_)
      if (!path.starts_with("hf:") && (listed.is_pinned || requested_.contains(path)))
        texts[path] = fmt::format("{} bytes, modified {}", listed.bytes, listed.modified);
    return texts;
  }

 private:
  struct Listed {
    int64_t bytes = 0, modified = 0;
    bool is_pinned = false;
  };

  mutable Mutex mutex_;
  std::map<std::string, Listed> listed_ GUARDED_BY(mutex_);         // by path
  std::map<std::string, ObjectInfo> requested_ GUARDED_BY(mutex_);  // by path
  std::set<std::pair<std::string, std::string>> other_times_
      GUARDED_BY(mutex_);  // schemes, buckets
};

}  // namespace lockstep::formats
