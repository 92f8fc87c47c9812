// Lets a dataset fetch the shards of the next samples of a pass before they are needed.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampling/index_sequence.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// Thread: one at a time.
class ShardsAhead {
 public:
  // The samples of a pass, which must outlive this.
  ShardsAhead(SampleInfo info, const IndexSequence& samples)
      : info_(std::move(info)), samples_(samples) {}

  // Call before sample `place` of the pass is read. Calls info.fetch_ahead with the shards of this
  // and the next kAhead samples, in the order of their first use, whenever half of them were read.
  void advance(int64_t place);
  static constexpr int64_t kAhead = 1 << 18;

 private:
  std::vector<size_t> shards_from(int64_t place) const;

  const SampleInfo info_;
  const IndexSequence& samples_;
  int64_t next_ = 0;  // the place of the next call
};

}  // namespace lockstep::data
