// Samples that cannot be loaded and are left out of their batches, up to a limit. Each counts once,
// however often it comes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/system/mutex.h"
#include "lockstep/error.h"

namespace lockstep::data {

// Thread: safe to use from several threads at once.
class BadSamples {
 public:
  // `limit`: so many are left out.
  explicit BadSamples(int64_t limit) : limit_(limit) {}

  // Counts a sample that could not be loaded because of `error`. Throws it, with the counts, when
  // that is one too many, and as it is when not the sample is to blame: a bug, or storage that
  // fails or changes under the run.
  void add(int64_t sample, const Error& error);

  int64_t count() const;

  // What was wrong with the first ones, each told once.
  std::vector<std::string> take_news();

 private:
  const int64_t limit_;
  mutable Mutex mutex_;
  std::set<int64_t> samples_ GUARDED_BY(mutex_);
  std::vector<std::string> news_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::data
