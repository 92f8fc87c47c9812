#include "distributed/counters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "core/system/crc32c.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Note [Agreement on names]: arrays of all ranks need the same size, even if their names differ. So
// counters are sent in pieces of fixed size, and each piece begins with checksums of the names.
constexpr size_t kPieceCounters = 60;
constexpr size_t kHeader = 2;
constexpr size_t kPieceSize = kHeader + 2 * kPieceCounters;

std::array<double, kHeader> checksums_of_names(const Counters& counters) {
  std::string names = std::to_string(counters.size());
  for (const auto& [name, counter] : counters) names += '\n' + name;
  return {static_cast<double>(crc32c(names.data(), names.size())),
          static_cast<double>(crc32c(names.data(), names.size(), 0x5eed))};
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

// The pieces of all ranks that begin with counter `begin`, [world size, values]. `row` follows them.
at::Tensor gather_pieces(World& world, const std::vector<Counter>& counters, size_t begin,
                         const std::array<double, kHeader>& checksums,
                         std::span<const double> row) {
  const auto size = kPieceSize + row.size();
  auto pieces = at::empty({world.world_size(), static_cast<int64_t>(size)}, at::kDouble);
  const std::span own(pieces.mutable_data_ptr<double>() + world.rank() * size, size);
  std::ranges::fill(own, 0);
  std::ranges::copy(checksums, own.begin());
  const auto end = std::min(counters.size(), begin + kPieceCounters);
  for (size_t i = begin; i < end; ++i) {
    own[kHeader + 2 * (i - begin)] = counters[i].sum;
    own[kHeader + 2 * (i - begin) + 1] = counters[i].count;
  }
  std::ranges::copy(row, own.begin() + kPieceSize);
  all_gather_chunks(world, pieces, "metrics");
  return pieces;
}

}  // namespace

Counters merge_counters(World& world, const Counters& counters) {
  return merge_counters(world, counters, {}).counters;
}

Merged merge_counters(World& world, const Counters& counters, std::span<const double> row) {
  Merged merged;
  if (!world.is_distributed()) return {counters, {{row.begin(), row.end()}}};
  std::vector<Counter> local;
  for (const auto& [name, counter] : counters) local.push_back(counter);
  const auto checksums = checksums_of_names(counters);
  auto name = counters.begin();
  size_t begin = 0;
  do {  // ranks without counters take part in the first piece too
    const auto pieces = gather_pieces(world, local, begin, checksums, row);
    const auto count = std::min(local.size() - begin, kPieceCounters);
    std::vector<Counter> sums(count);
    for (int rank = 0; rank < world.world_size(); ++rank) {
      const auto* const values = pieces.const_data_ptr<double>() + rank * pieces.size(1);
      if (!std::equal(checksums.begin(), checksums.end(), values))
        report_difference(world, counters);
      for (size_t i = 0; i < count; ++i) {
        sums[i].sum += values[kHeader + 2 * i];
        sums[i].count += values[kHeader + 2 * i + 1];
      }
      if (begin == 0)
        merged.rows.emplace_back(values + kPieceSize, values + kPieceSize + row.size());
    }
    for (const auto& sum : sums) merged.counters[(name++)->first] = sum;
    begin += kPieceCounters;
  } while (begin < local.size());
  return merged;
}

}  // namespace lockstep::distributed
