// Internals of Group: its passes over arrays, and the parts of its segment. Only files of
// distributed/shm/ include this.
#pragma once

#include <algorithm>

#include "distributed/shm/group.h"

namespace lockstep::distributed::shm {

template <class Write, class Read>
void Group::for_each_window(const Call& call, const Pass& pass, const Write& write,
                            const Read& read) {
  size_t begin = 0;
  do {  // an empty array has one empty window
    ++window_number_;
    const Window window{begin, std::min(pass.window, pass.bytes - begin)};
    write(slot(rank_), window);
    barrier_.arrive_and_wait(call, pass.deadline);
    read(window);
    begin += window.size;
  } while (begin < pass.bytes);
}

// Parts of a segment.
SegmentHeader& header_of(const Segment& segment);
RankState* rank_states_of(const Segment& segment);

}  // namespace lockstep::distributed::shm
