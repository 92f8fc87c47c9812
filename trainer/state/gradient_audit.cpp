#include "trainer/state/gradient_audit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "distributed/collectives.h"
#include "lockstep/error.h"
#include "trainer/state/weight_audit.h"

namespace lockstep::trainer {
namespace {

using Checksums = GradientAudit::Checksums;

std::vector<int64_t> numbers_of(const at::Tensor& row) {
  const auto dense = row.contiguous();
  const auto* begin = dense.const_data_ptr<int64_t>();
  return {begin, begin + dense.numel()};
}

// Collective: [rank][i] of a few checksums of each rank.
std::vector<std::vector<Checksums>> gather(World& world, const std::vector<Checksums>& own) {
  std::vector<at::Tensor> rows;
  for (const auto& each : own) rows.push_back(at::tensor(each, at::kLong));
  const auto gathered = distributed::all_gather(world, at::stack(rows), "audit");
  std::vector<std::vector<Checksums>> all;
  for (const auto& of_rank : gathered.unbind()) {
    auto& list = all.emplace_back();
    for (const auto& row : of_rank.unbind()) list.push_back(numbers_of(row));
  }
  return all;
}

// One of several computations of the same gradients.
struct Computation {
  int64_t rank;
  Checksums result;
};

// "rank 1 is wrong, 3 of 4 computations agree".
std::string find_wrong(const std::vector<Computation>& computations) {
  std::map<Checksums, size_t> counts;
  for (const auto& each : computations) ++counts[each.result];
  const auto common = std::ranges::max_element(
      counts, {}, [](const auto& result_and_count) { return result_and_count.second; });
  std::set<int64_t> suspects;
  if (2 * common->second <= computations.size()) {
    for (const auto& each : computations)
      if (each.result == computations[0].result || each.result == computations[1].result)
        suspects.insert(each.rank);
    return fmt::format(
        "rank {} is wrong, or an operator is not deterministic: no majority among {} computations",
        fmt::join(suspects, " or "), computations.size());
  }
  for (const auto& each : computations)
    if (each.result != common->first) suspects.insert(each.rank);
  return fmt::format("rank{} {} {} wrong, {} of {} computations agree",
                     suspects.size() > 1 ? "s" : "", fmt::join(suspects, " and "),
                     suspects.size() > 1 ? "are" : "is", common->second, computations.size());
}

}  // namespace

GradientAudit::GradientAudit(int64_t every, int64_t num_shards, World& world,
                             NamedTensors parameters)
    : every_(every),
      per_rank_(num_shards / world.world_size()),
      world_(world),
      parameters_(std::move(parameters)) {}

Checksums GradientAudit::checksums() const {
  Checksums all;
  for (const auto& [name, parameter] : parameters_)
    all.push_back(parameter.grad().defined() ? checksum_of_values(parameter.grad()) : 0);
  return all;
}

std::vector<int64_t> GradientAudit::samples_of(int64_t rank) const {
  return numbers_of(samples_[rank]);
}

void GradientAudit::begin_step(int64_t step, const SamplesOf& samples_of_part,
                               const Recompute& recompute) {
  const auto audit = step / every_;
  const int64_t ranks = world_.world_size();
  step_ = step;
  part_ = audit % per_rank_;
  shift_ = ranks == 1 ? 0 : 1 + audit / per_rank_ % (ranks - 1);
  samples_ = distributed::all_gather(world_, at::tensor(samples_of_part(part_), at::kLong),
                                     "samples of an audit");
  const auto owner = (world_.rank() - shift_ + ranks) % ranks;
  other_ = recompute(owner * per_rank_ + part_, samples_of(owner));
}

void GradientAudit::end_part(int64_t part) {
  if (part == part_) own_ = checksums();
}

void GradientAudit::end_step(const Recompute& recompute) {
  const auto all = gather(world_, {own_, other_});
  for (int64_t owner = 0; owner < world_.world_size(); ++owner)
    if (all[static_cast<size_t>(owner)][0] != all[static_cast<size_t>(auditor_of(owner))][1])
      report(owner, all, recompute);
}

void GradientAudit::report(int64_t owner, const std::vector<std::vector<Checksums>>& all,
                           const Recompute& recompute) const {
  const auto auditor = auditor_of(owner);
  std::vector<Computation> computations = {{owner, all[static_cast<size_t>(owner)][0]},
                                           {auditor, all[static_cast<size_t>(auditor)][1]}};
  const auto shard = owner * per_rank_ + part_;
  const auto again = gather(world_, {recompute(shard, samples_of(owner))});
  for (size_t rank = 0; rank < again.size(); ++rank)
    computations.push_back({static_cast<int64_t>(rank), again[rank][0]});
  const auto& [one, other] = std::tie(computations[0].result, computations[1].result);
  const auto first = std::ranges::mismatch(one, other).in1 - one.begin();
  throw environment_error(fmt::format(
      "train.audit: the gradients of virtual shard {} in step {} are wrong: {}; first tensor: {}. "
      "The optimizer has not used them",
      shard, step_, find_wrong(computations), parameters_[static_cast<size_t>(first)].first));
}

}  // namespace lockstep::trainer
