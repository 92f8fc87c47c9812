#include "data/loader/bad_samples.h"

#include <fmt/format.h>

#include <utility>

#include "data/shard_error.h"

namespace lockstep::data {
namespace {

constexpr size_t kBadSamplesNamed = 10;

}  // namespace

void BadSamples::add(int64_t sample, const Error& error) {
  if (!is_of_samples(error)) throw error;
  const MutexLock lock(mutex_);
  if (samples_.contains(sample)) return;
  if (static_cast<int64_t>(samples_.size()) == limit_)
    throw Error(error.kind(), limit_ == 0
                                  ? std::string(error.what())
                                  : fmt::format("{} (bad sample {}, data.max_bad_samples is {})",
                                                error.what(), limit_ + 1, limit_));
  samples_.insert(sample);
  if (samples_.size() <= kBadSamplesNamed)
    warnings_.push_back(fmt::format("sample {} is skipped: {}", sample, error.what()));
}

int64_t BadSamples::count() const {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(samples_.size());
}

std::vector<std::string> BadSamples::take_warnings() {
  const MutexLock lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace lockstep::data
