#include "trainer/checkpoint/checkpoint_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/system/durable_file.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

struct Piece {
  NamedTensors Checkpoint::*list;
  size_t index = 0, bytes = 0;
  bool is_replicated = true;
};

std::vector<Piece> pieces_of(const Checkpoint& checkpoint) {
  std::vector<Piece> pieces;
  for (const auto& file : kTensorFiles) {
    const auto& tensors = checkpoint.*file.tensors;
    for (size_t i = 0; i < tensors.size(); ++i)
      pieces.push_back({file.tensors, i, tensors[i].second.nbytes(),
                        file.is_shared && !checkpoint.main_only.contains(tensors[i].first)});
  }
  return pieces;
}

// The share of each piece. The same on every rank: it depends only on names and sizes.
std::vector<size_t> divide(const std::vector<Piece>& pieces, int count) {
  std::vector<size_t> order(pieces.size()), shares(pieces.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const auto &one = pieces[a], &other = pieces[b];
    return std::pair(one.is_replicated, other.bytes) < std::pair(other.is_replicated, one.bytes);
  });
  std::vector<size_t> bytes(static_cast<size_t>(count), 0);
  for (const auto i : order) {
    if (pieces[i].is_replicated)
      shares[i] = static_cast<size_t>(std::ranges::min_element(bytes) - bytes.begin());
    bytes[shares[i]] += pieces[i].bytes;
  }
  return shares;
}

std::string new_attempt() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

CheckpointWriters find_writers(World& world, const fs::path& checkpoints, bool all) {
  const bool leads = tracking::is_main(world.rank());
  if (!all || !world.is_distributed())
    return {.share = {.attempt = new_attempt()}, .is_writer = leads, .excluded_ranks = {}};
  const auto probe_of = [&](const std::string& attempt) {
    return checkpoints / (kTemporaryPrefix + attempt);
  };
  const std::string attempt = distributed::act_on_main(world, "checkpoint directory", [&] {
    const auto name = new_attempt();
    make_directories(probe_of(name));
    return name;
  });
  std::error_code ignored;
  const bool sees_it = fs::exists(probe_of(attempt), ignored);
  const auto all_see = distributed::all_gather_object(world, sees_it, "checkpoint directory");
  if (leads) fs::remove(probe_of(attempt), ignored);
  CheckpointWriters writers{.share = {.count = 0, .attempt = attempt}, .is_writer = sees_it};
  for (size_t rank = 0; rank < all_see.size(); ++rank) {
    const auto number = static_cast<int>(rank);
    if (!all_see[rank].get<bool>())
      writers.excluded_ranks.push_back(number);
    else if (writers.share.count++, number < world.rank())
      ++writers.share.index;
  }
  return writers;
}

Checkpoint take_share(const Checkpoint& checkpoint, int index, int count) {
  const auto pieces = pieces_of(checkpoint);
  const auto shares = divide(pieces, count);
  Checkpoint share{.head = checkpoint.head};
  for (size_t i = 0; i < pieces.size(); ++i)
    if (shares[i] == static_cast<size_t>(index))
      (share.*pieces[i].list).push_back((checkpoint.*pieces[i].list)[pieces[i].index]);
  return share;
}

}  // namespace lockstep::trainer
