#include "distributed/counters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/system/crc32c.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Note [Agreement on names]: the all-reduce needs tensors of equal size on all ranks, even if their
// names differ. So counters are sent in pieces of fixed size, and each piece begins with a 20-bit
// hash h of the names and their number, as h and h*h. Summed over W ranks, W * sum(h*h) == sum(h)^2
// exactly if all h are equal (Cauchy-Schwarz); with h < 2^20 the sums are exact in doubles for
// W < 2^13.
constexpr int64_t kPieceCounters = 60;
constexpr int64_t kHeader = 4;
constexpr int64_t kPieceSize = kHeader + 2 * kPieceCounters;
constexpr uint32_t kHashBits = 20;

struct Hashes {
  double low, high;
};

Hashes hash_names(const Counters& counters) {
  std::string names = std::to_string(counters.size());
  for (const auto& [name, counter] : counters) names += '\n' + name;
  const auto low = crc32c(names.data(), names.size());
  const auto high = crc32c(names.data(), names.size(), 0x5eed);
  constexpr uint32_t kMask = (1u << kHashBits) - 1;
  return {static_cast<double>(low & kMask), static_cast<double>(high & kMask)};
}

bool all_equal(double sum, double sum_of_squares, double world_size) {
  return world_size * sum_of_squares == sum * sum;
}

[[noreturn]] void report_difference(World& world, const Counters& counters) {
  std::vector<std::string> names;
  for (const auto& [name, counter] : counters) names.push_back(name);
  const auto gathered = all_gather_object(world, names, "metric names");
  const auto reference = gathered.front().get<std::vector<std::string>>();
  for (size_t rank = 1; rank < gathered.size(); ++rank) {
    const auto others = gathered[rank].get<std::vector<std::string>>();
    std::vector<std::string> difference;
    std::set_symmetric_difference(reference.begin(), reference.end(), others.begin(), others.end(),
                                  std::back_inserter(difference));
    if (difference.empty()) continue;
    const bool is_missing =
        std::binary_search(reference.begin(), reference.end(), difference.front());
    throw config_error(fmt::format(
        "metrics differ between ranks: '{}' is {} on rank {} but {} on rank 0; every rank must "
        "report the same names",
        difference.front(), is_missing ? "missing" : "reported", rank,
        is_missing ? "reported" : "missing"));
  }
  throw config_error("metrics differ between ranks");
}

at::Tensor pack(const std::vector<Counter>& counters, size_t begin, const Hashes& hashes) {
  auto piece = at::zeros({kPieceSize}, at::kDouble);
  auto* values = piece.mutable_data_ptr<double>();
  values[0] = hashes.low;
  values[1] = hashes.low * hashes.low;
  values[2] = hashes.high;
  values[3] = hashes.high * hashes.high;
  const auto end = std::min(counters.size(), begin + kPieceCounters);
  for (size_t i = begin; i < end; ++i) {
    values[kHeader + 2 * (i - begin)] = counters[i].sum;
    values[kHeader + 2 * (i - begin) + 1] = counters[i].count;
  }
  return piece;
}

}  // namespace

Counters merge_counters(World& world, const Counters& counters) {
  if (!world.is_distributed()) return counters;
  std::vector<Counter> local;
  for (const auto& [name, counter] : counters) local.push_back(counter);
  const auto hashes = hash_names(counters);
  std::vector<Counter> merged;
  do {  // ranks without counters take part in the first piece too
    auto piece = pack(local, merged.size(), hashes);
    all_reduce(world, piece, ReduceOp::Sum, "metrics");
    const auto* values = piece.const_data_ptr<double>();
    const auto world_size = static_cast<double>(world.world_size());
    if (!all_equal(values[0], values[1], world_size) ||
        !all_equal(values[2], values[3], world_size))
      report_difference(world, counters);
    const auto count = std::min<size_t>(local.size() - merged.size(), kPieceCounters);
    for (size_t i = 0; i < count; ++i)
      merged.push_back({values[kHeader + 2 * i], values[kHeader + 2 * i + 1]});
  } while (merged.size() < local.size());
  Counters result;
  size_t next = 0;
  for (const auto& [name, counter] : counters) result[name] = merged[next++];
  return result;
}

}  // namespace lockstep::distributed
