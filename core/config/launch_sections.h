// The settings of a run file that both the launcher and the trainer read: `run:` and batch sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"

namespace lockstep {

// The default directory of runs.
inline constexpr const char* kRunsDir = "runs";

struct RunSection {
  std::string name;  // empty: not set, see name_after()
  int64_t seed = 0;
  std::string dir = kRunsDir;

  // Sets the name to the stem of the run file's name, unless it is already set.
  void name_after(const std::filesystem::path& file) {
    if (name.empty()) name = file.stem().string();
  }
  // Throws Config if `dir`, or what it would be created in, is a file.
  void verify_dir() const;
};

template <class V>
void fields(V& v, RunSection& c) {
  v("name", c.name, "name of the run (default: the name of the run file)");
  v("seed", c.seed, "random seed of model initialization, shuffling and augmentation", at_least(0));
  v("dir", c.dir, "directory of the runs");
}

// Of data.batch_size.
inline constexpr int64_t kDefaultBatchSize = 128;

// data.batch_remainder: what to do if the batch size is not divisible by the number of ranks.
enum class BatchRemainder { Refuse, Pad, Uneven };
constexpr auto choices(BatchRemainder) { return std::array{"refuse", "pad", "uneven"}; }

// The keys of `data:` that determine the number of samples in a step.
struct BatchSizes {
  // At most one of the two may be set; with neither, batch_size is 128.
  std::optional<int64_t> batch_size;           // samples per step over all ranks
  std::optional<int64_t> per_rank_batch_size;  // samples per step and rank
  BatchRemainder batch_remainder = BatchRemainder::Refuse;
};

template <class V>
void fields(V& v, BatchSizes& c) {
  v("batch_size", c.batch_size,
    "samples per step over all ranks (128 if neither this nor per_rank_batch_size is set)",
    at_least(1), at_most(1 << 30));
  v("per_rank_batch_size", c.per_rank_batch_size,
    "samples per step and rank, instead of batch_size", at_least(1), at_most(1 << 30));
  v("batch_remainder", c.batch_remainder,
    "if batch_size is not divisible by the number of ranks: refuse to start; pad: repeat the first "
    "samples of the batch, so that all ranks have the same number; uneven: the first ranks get one "
    "sample more, and all samples have the same weight, also in the last step of an epoch");
}

// Returns an error message for data.batch_size, with the nearest valid sizes, if `batch_size` is
// not divisible by each of `ranks`; otherwise empty. `allowed_by`: the option that allows several
// numbers of ranks, e.g. "--nnodes 2:4"; empty if there is only one.
std::string batch_size_problem(int64_t batch_size, const std::vector<int64_t>& ranks,
                               const std::string& allowed_by = "");

}  // namespace lockstep
