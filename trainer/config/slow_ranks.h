// The section `distributed.slow_ranks:` of a run file: what happens to a rank that is slower than the
// others.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include "core/config/period.h"
#include "lockstep/config_fields.h"
#include "lockstep/error.h"
#include "tracking/alerts/slow_rank.h"

namespace lockstep::trainer {

enum class SlowRankPolicy { Keep, Replace, Exclude };
constexpr auto choices(SlowRankPolicy) { return std::array{"keep", "replace", "exclude"}; }

struct SlowRanksConfig {
  SlowRankPolicy policy = SlowRankPolicy::Keep;
  double factor = 2;
  Duration time{std::chrono::minutes(1)};
};

template <class V>
void fields(V& v, SlowRanksConfig& c) {
  v("policy", c.policy,
    "what happens to a slow rank, with `lockstep launch --on-rank-loss continue`: replace: a spare "
    "takes its place, and without one it is kept; exclude: it is also excluded without a spare, if "
    "the other ranks need less time per step without it; keep: nothing");
  v("factor", c.factor,
    "a rank is slow if its seconds per step are above this many times the median of the other "
    "ranks, and at least 10 ms above it",
    above(1));
  v("time", c.time, "for this long, and in at least five records (train.log_every) in a row");
}

// Throws Config if slow ranks would have to leave, and cannot. `may_lose_ranks`: with --on-rank-loss
// continue.
inline void verify_slow_ranks(const SlowRanksConfig& config, bool may_lose_ranks) {
  if (config.policy != SlowRankPolicy::Keep && !may_lose_ranks)
    throw config_error(std::string("distributed.slow_ranks.policy: ") + name_of(config.policy) +
                       " needs `lockstep launch --on-rank-loss continue`, with which the other "
                       "ranks continue without the slow one");
}

inline tracking::SlowRank watch_of(const SlowRanksConfig& config) {
  return {config.factor, std::chrono::duration<double>(config.time.value).count()};
}

}  // namespace lockstep::trainer
