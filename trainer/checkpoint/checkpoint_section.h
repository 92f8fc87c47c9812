// `checkpoint:` of a run file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/period.h"
#include "lockstep/config_value.h"
#include "trainer/checkpoint/checkpoint_keeping.h"

namespace lockstep::trainer {

// Which ranks write a checkpoint.
enum class WritingRanks { Auto, Main, All };
constexpr auto choices(WritingRanks) { return std::array{"auto", "main", "all"}; }

enum class ResumePolicy { Auto, Never };
constexpr auto choices(ResumePolicy) { return std::array{"auto", "never"}; }

struct CheckpointSection {
  Period every{1, Period::Unit::Epochs};
  int64_t keep_last = 2;
  KeepBestConfig keep_best;
  std::optional<Period> keep_every;
  bool async = true;
  WritingRanks writers = WritingRanks::Auto;
  ResumePolicy resume = ResumePolicy::Auto;
  std::optional<std::string> mirror;
};

template <class V>
void fields(V& v, CheckpointSection& c) {
  v("every", c.every, "checkpoint interval; a checkpoint is also saved at the end");
  v("keep_last", c.keep_last, "number of latest checkpoints to keep", at_least(1));
  v("keep_best", c.keep_best, "best checkpoints to keep, by an evaluation metric",
    needs("data.eval", "data.split.eval"));
  v("keep_every", c.keep_every,
    "checkpoints to keep as milestones, e.g. '10 epochs' (empty: none)");
  v("async", c.async,
    "write in the background, from a copy of model and optimizer in the memory of the writing "
    "rank; false: training waits for the disk");
  v("writers", c.writers,
    "main: rank 0 writes the whole checkpoint; all: every rank that sees rank 0's directory writes "
    "its share of model and optimizer, to separate files; auto: all with distributed.shard: full, "
    "else main");
  v("resume", c.resume,
    "auto: a restarted run resumes from its last good checkpoint; never: it starts from scratch");
  v("mirror", c.mirror,
    "s3://bucket/prefix, or gs:// or abfss://: checkpoints are copied to PREFIX/RUN/STEP in the "
    "background; a run without local checkpoints resumes from there");
}

}  // namespace lockstep::trainer
