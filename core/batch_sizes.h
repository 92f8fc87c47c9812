// Batch sizes that the ranks of a job can share, for messages before anything starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// Of data.batch_size.
inline constexpr int64_t kDefaultBatchSize = 128;

// Values of data.batch_remainder.
inline constexpr const char *kRefuseRemainder = "refuse", *kPadRemainder = "pad",
                            *kUnevenRemainder = "uneven";

// Nothing where each of the numbers of ranks divides `batch_size`; else which do not, and the
// nearest sizes that fit, as a line for data.batch_size. `allowed_by`: what allows several numbers
// of ranks, e.g. "--nnodes 2:4"; empty with one.
std::string batch_size_problem(int64_t batch_size, const std::vector<int64_t>& ranks,
                               const std::string& allowed_by = "");

}  // namespace lockstep
