// A dataset that misbehaves on one rank, for tests: different numbers of samples per rank, or
// samples that are missing, slow to load, or never arrive on one rank.
#include <ATen/ATen.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace {

using namespace lockstep;

constexpr int64_t kOddSample = 51;

struct OddRankConfig {
  int64_t samples = 100;
  int64_t more_on_each_rank = 0;
  int64_t ends_on = -1, sleeps_on = -1, slow_on = -1;
};

template <class V>
void fields(V& v, OddRankConfig& c) {
  v("samples", c.samples, "on rank 0", at_least(kOddSample + 1));
  v("more_on_each_rank", c.more_on_each_rank, "rank times as many more", at_least(0));
  v("ends_on", c.ends_on, "the rank that does not get sample 51", at_least(-1));
  v("sleeps_on", c.sleeps_on, "the rank that waits for sample 51 for a minute", at_least(-1));
  v("slow_on", c.slow_on, "the rank that takes 100 ms for each batch; no spare", at_least(-1));
}

void wait_ms(int milliseconds) { ::poll(nullptr, 0, milliseconds); }

class OddRankDataset final : public Dataset {
 public:
  using Config = OddRankConfig;
  explicit OddRankDataset(const Config& config)
      : config_(config), rank_(std::stoi(environment("RANK").value_or("0"))) {}

  int64_t size() const override { return config_.samples + rank_ * config_.more_on_each_rank; }

  Batch get_batch(std::span<const int64_t> indices) const override {
    if (rank_ == config_.slow_on && !is_spare_) wait_ms(100);
    if (std::ranges::find(indices, kOddSample) != indices.end()) misbehave();
    const auto size = static_cast<int64_t>(indices.size());
    Batch batch;
    batch.indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()));
    batch.fields.emplace_back("image", at::ones({size, 3}));
    batch.fields.emplace_back("label", at::zeros({size}, at::kLong));
    return batch;
  }

 private:
  void misbehave() const {
    if (rank_ == config_.ends_on)
      throw environment_error("there is nothing more on rank " + std::to_string(rank_));
    if (rank_ != config_.sleeps_on) return;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::printf("wrong at %.3f\n", std::chrono::duration<double>(now).count());
    std::fflush(stdout);
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) wait_ms(60'000);  // EINTR: stack request
  }

  OddRankConfig config_;
  int rank_;
  bool is_spare_ = environment("LOCKSTEP_SPARE").has_value();
};

REGISTER_DATASET("odd_rank", OddRankDataset, "misbehaves on one rank");

}  // namespace
