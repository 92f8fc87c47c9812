// What the launcher and the trainer both read of a run file: `run:`, and how large a batch is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"

namespace lockstep {

// Where runs are kept unless a run file or an option says otherwise.
inline constexpr const char* kRunsDir = "runs";

struct RunSection {
  std::string name;  // empty: name_after() was not called yet
  int64_t seed = 0;
  std::string dir = kRunsDir;

  // Names the run after its file, without the ending, unless it has a name.
  void name_after(const std::filesystem::path& file) {
    if (name.empty()) name = file.stem().string();
  }
};

template <class V>
void fields(V& v, RunSection& c) {
  v("name", c.name, "what people call the run (default: the run file's name)");
  v("seed", c.seed, "of model initialization, shuffling and augmentation", at_least(0));
  v("dir", c.dir, "where runs are kept");
}

// Of data.batch_size.
inline constexpr int64_t kDefaultBatchSize = 128;

// data.batch_remainder: what to do where the ranks do not divide the batch.
enum class BatchRemainder { Refuse, Pad, Uneven };
constexpr auto choices(BatchRemainder) { return std::array{"refuse", "pad", "uneven"}; }

// The keys of `data:` that say how many samples a step has.
struct BatchSizes {
  // Exactly one of the two may be given; with neither, batch_size is 128.
  std::optional<int64_t> batch_size;           // samples per step over all ranks
  std::optional<int64_t> per_rank_batch_size;  // samples per step and rank
  BatchRemainder batch_remainder = BatchRemainder::Refuse;
};

template <class V>
void fields(V& v, BatchSizes& c) {
  v("batch_size", c.batch_size,
    "samples per step over all ranks (128 when neither this nor per_rank_batch_size is given)",
    at_least(1), at_most(1 << 30));
  v("per_rank_batch_size", c.per_rank_batch_size,
    "samples per step and rank, instead of batch_size", at_least(1), at_most(1 << 30));
  v("batch_remainder", c.batch_remainder,
    "where the ranks do not divide batch_size: refuse to start; pad: repeat the first samples of "
    "the batch, so that all ranks have as many; uneven: the first ranks take one sample more, and "
    "every sample weighs the same, also in the last step of an epoch");
}

// Nothing where each of the numbers of ranks divides `batch_size`; else which do not, and the
// nearest sizes that fit, as a line for data.batch_size. `allowed_by`: what allows several numbers
// of ranks, e.g. "--nnodes 2:4"; empty with one.
std::string batch_size_problem(int64_t batch_size, const std::vector<int64_t>& ranks,
                               const std::string& allowed_by = "");

}  // namespace lockstep
