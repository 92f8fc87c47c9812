// Samples that cannot be loaded and are skipped, up to a limit. Each counts once, even if it occurs
// repeatedly.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/system/mutex.h"
#include "lockstep/error.h"

namespace lockstep::data {

// Thread: any.
class BadSamples {
 public:
  // `limit`: maximum number of skipped samples.
  explicit BadSamples(int64_t limit) : limit_(limit) {}

  // Counts a sample that could not be loaded because of `error`. Throws it, with the counts, if
  // the limit is exceeded, and unchanged if the sample is not the cause, see is_of_samples().
  void add(int64_t sample, const Error& error);

  int64_t count() const;

  // Messages about the first bad samples, each returned once.
  std::vector<std::string> take_warnings();

 private:
  const int64_t limit_;
  mutable Mutex mutex_;
  std::set<int64_t> samples_ GUARDED_BY(mutex_);
  std::vector<std::string> warnings_ GUARDED_BY(mutex_);
};

// Null if `limit` is 0: they are errors.
inline std::shared_ptr<BadSamples> tolerated(int64_t limit) {
  return limit > 0 ? std::make_shared<BadSamples>(limit) : nullptr;
}

}  // namespace lockstep::data
