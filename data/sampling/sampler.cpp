#include "data/sampling/sampler.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/sampling/grouped_order.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxWeights = 1 << 24;  // of at::multinomial

void verify(int64_t num_samples, Shard shard) {
  if (num_samples <= 0) throw config_error("the dataset is empty: at least one sample is needed");
  if (shard.world < 1 || shard.rank < 0 || shard.rank >= shard.world)
    throw config_error(fmt::format("rank {} is outside a world of {}", shard.rank, shard.world));
}

// `what`: "weight" or "length", one for each sample.
void verify_values(const std::vector<double>& values, int64_t num_samples, const char* what) {
  if (static_cast<int64_t>(values.size()) != num_samples)
    throw config_error(fmt::format("{} {}s for {} samples", values.size(), what, num_samples));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]) || values[i] < 0)
      throw config_error(fmt::format("the {} of sample {} is {}", what, i, values[i]));
}

void verify_weights(const std::vector<double>& weights, int64_t num_samples) {
  verify_values(weights, num_samples, "weight");
  if (weights.size() > kMaxWeights)
    throw config_error(fmt::format("weighted sampling is limited to {} samples, the dataset has {}",
                                   kMaxWeights, num_samples));
  if (std::ranges::all_of(weights, [](double weight) { return weight == 0; }))
    throw config_error("the weights of all samples are 0");
}

std::vector<int64_t> to_vector(const at::Tensor& order) {
  const auto* begin = order.const_data_ptr<int64_t>();
  return {begin, begin + order.numel()};
}

// 0, 1, 2, ...
std::vector<int64_t> in_sequence(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

std::vector<int64_t> bucketed(std::vector<int64_t> order, const LengthBuckets& buckets,
                              const at::Generator& generator) {
  const auto batch = static_cast<size_t>(buckets.batch_size);
  const auto window = batch * static_cast<size_t>(buckets.window);
  const auto longer = [&](int64_t a, int64_t b) {
    return buckets.lengths[static_cast<size_t>(a)] > buckets.lengths[static_cast<size_t>(b)];
  };
  for (size_t begin = 0; begin < order.size(); begin += window) {
    const auto from = order.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to =
        order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), begin + window));
    std::stable_sort(from, to, longer);
  }
  const auto whole = static_cast<int64_t>(order.size() / batch);
  std::vector<int64_t> mixed;
  mixed.reserve(order.size());
  for (const auto k : to_vector(at::randperm(whole, generator, at::kLong))) {
    const auto from = order.begin() + k * buckets.batch_size;
    mixed.insert(mixed.end(), from, from + buckets.batch_size);
  }
  mixed.insert(mixed.end(), order.begin() + whole * buckets.batch_size, order.end());
  return mixed;
}

// Near the end of a window, workers read ahead in the next one. `groups`: of a window, or several.
int64_t groups_in_use(int64_t groups) { return groups == 1 ? 1 : 2 * groups; }

}  // namespace

DistributedSampler::DistributedSampler(int64_t num_samples, Shard shard, SamplerOptions options)
    : dataset_size_(num_samples), shard_(shard), options_(std::move(options)), lanes_(shard.world) {
  verify(num_samples, shard);
  if (options_.batches.batch_size == 0) options_.batches.batch_size = shard.world;
  if (!options_.weights.empty()) verify_weights(options_.weights, num_samples);
  check(options_.groups.ends.empty() || options_.groups.ends.back() == num_samples,
        "the groups of a dataset must end with its last sample");
  if (options_.buckets.window == 0) return;
  verify_values(options_.buckets.lengths, num_samples, "length");
  check(options_.buckets.batch_size >= 1, "the batch size of length buckets must be at least 1");
}

std::vector<int64_t> DistributedSampler::order() const {
  // The same generator and kernels as Python's torch.randperm(n, generator=g) and
  // torch.multinomial(...), hence the same bits.
  const auto generator =
      at::detail::createCPUGenerator(options_.seed + static_cast<uint64_t>(epoch_));
  std::vector<int64_t> order;
  if (!options_.weights.empty()) {
    order = to_vector(at::multinomial(at::tensor(options_.weights, at::kDouble), dataset_size_,
                                      /*replacement=*/true, generator));
    if (has_groups())
      order = GroupedOrder(options_.groups.ends, order_options(1)).apply_order(order);
  } else if (is_grouped()) {
    order = in_sequence(dataset_size_);
    const auto kept = static_cast<size_t>(lanes_);
    GroupedOrder(options_.groups.ends, order_options(kept)).look_up(order);
  } else if (options_.shuffle) {
    order = to_vector(at::randperm(dataset_size_, generator, at::kLong));
  } else {
    order = in_sequence(dataset_size_);
  }
  if (options_.buckets.window == 0) return order;
  return bucketed(std::move(order), options_.buckets, generator);
}

bool DistributedSampler::is_grouped() const {
  return options_.weights.empty() && options_.shuffle && has_groups();
}

// `kept`: windows.
GroupedOrderOptions DistributedSampler::order_options(size_t kept) const {
  return {.lanes = lanes_,
          .buffer = options_.groups.buffer,
          .seed = options_.seed + static_cast<uint64_t>(epoch_),
          .kept = kept};
}

IndexSequence DistributedSampler::grouped(int64_t done) const {
  // The windows that this rank reads alternately: constant only if the ranks divide the batch.
  const bool divides = options_.batches.batch_size % shard_.world == 0;
  const auto lanes_read = divides ? lanes_ / std::gcd(lanes_, shard_.world) : lanes_;
  auto order = std::make_shared<const GroupedOrder>(
      options_.groups.ends, order_options(static_cast<size_t>(2 * lanes_read)));
  const auto nearby = lanes_read * order->max_groups_per_window();
  return {order, done, shares(done), groups_in_use(nearby)};
}

IndexSequence DistributedSampler::sequence(int64_t done) const {
  check(done >= 0 && done <= dataset_size_, "more samples are done than exist");
  if (is_grouped() && options_.buckets.window == 0) return grouped(done);
  const bool is_in_sequence =
      options_.weights.empty() && !options_.shuffle && options_.buckets.window == 0;
  if (is_in_sequence) return {dataset_size_, done, shares(done)};
  const auto all = order();
  const auto shares = this->shares(done);
  // Python appends the start of the order, repeated as needed; reading modulo the size is
  // equivalent.
  std::vector<int64_t> mine(static_cast<size_t>(shares.num_samples()));
  int64_t next = 0;
  for (auto& index : mine)
    index = all[static_cast<size_t>((done + shares.place(next++)) % dataset_size_)];
  if (options_.weights.empty() || !has_groups() || options_.buckets.window > 0) return mine;
  const GroupedOrder groups(options_.groups.ends, order_options(1));
  return {std::move(mine), groups_in_use(groups.max_groups_per_window())};
}

std::vector<int64_t> exact_split(int64_t num_samples, Shard shard) {
  verify(num_samples, shard);
  std::vector<int64_t> mine;
  mine.reserve(static_cast<size_t>(num_samples / shard.world + 1));
  for (auto index = shard.rank; index < num_samples; index += shard.world) mine.push_back(index);
  return mine;
}

}  // namespace lockstep::data
