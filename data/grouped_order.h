// The order of samples that lie in groups which are dear to read, such as the row groups of a
// Parquet file: shuffled, and yet group by group. No I/O, no batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

// Every sample once. `ends`: of the groups, as Dataset::groups() says. The groups are put in a
// random order, the samples of `mixed` neighbouring groups of that order are shuffled together (the
// shuffle buffer), and the result is cut into `lanes` equal parts that take turns: sample p of the
// order is of lane p % lanes. So each of `lanes` ranks, which takes every lanes-th sample, reads
// groups of its own, one after the other; at a number of lanes that does not divide the samples,
// the few that are left come last. The order depends on its arguments alone, not on who asks:
// whoever goes on with an epoch must do so with the number of lanes it was begun with.
std::vector<int64_t> grouped_order(std::span<const int64_t> ends, int64_t lanes, int64_t mixed,
                                   uint64_t seed);

}  // namespace lockstep
