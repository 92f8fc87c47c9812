// Collectives on tensors. Every rank calls them in the same order with tensors of the same shape
// and type. CPU tensors use the control group, others the device group. With one rank they return
// immediately. `name` identifies the operation in errors. Throws PeerError if a peer is gone or the
// world's timeout expires. Thread: the thread that owns the World, one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::distributed {

enum class ReduceOp { Sum, Min, Max };

// In place, with the result on every rank. Requires: a tensor without gaps between its elements.
void all_reduce(World& world, at::Tensor& tensor, ReduceOp op, std::string_view name);

// In place, with the result on `root`; on other ranks the content is unspecified afterwards.
void reduce(World& world, at::Tensor& tensor, ReduceOp op, int root, std::string_view name);

// In place: copies `root`'s tensor to every rank.
void broadcast(World& world, at::Tensor& tensor, int root, std::string_view name);

// An uninitialized CPU tensor whose all_reduce needs no copies if ranks share memory: it is in a
// symmetric buffer then, if it has at least 256 KiB. Otherwise an ordinary tensor.
at::Tensor shared_empty(World& world, at::IntArrayRef sizes, at::ScalarType type);

// Collective. A zeroed CPU tensor in memory that all ranks share.
// Requires: ranks that share memory. Throws Environment on all ranks when memory is insufficient.
at::Tensor per_host_zeros(World& world, at::IntArrayRef sizes, at::ScalarType type);

// Returns [world_size, ...tensor.sizes()], rank by rank.
at::Tensor all_gather(World& world, const at::Tensor& tensor, std::string_view name);

// In place: `whole` is contiguous and has world_size equal chunks; chunk r is received from rank r.
// Copied directly if `whole` is from shared_empty().
void all_gather_chunks(World& world, at::Tensor& whole, std::string_view name);

// How many elements go to each rank and come from it. Empty: equal parts.
struct Exchange {
  std::vector<int64_t> sent = {}, received = {};
};

// Rank r gets the r-th part of `tensor`, which is flat. Returns the parts of all ranks, rank by
// rank. Requires: ranks that do not share memory.
at::Tensor all_to_all(World& world, const at::Tensor& tensor, const Exchange& exchange,
                      std::string_view name);

// Returns when every rank has called it. `timeout`: default is the world's.
void barrier(World& world, std::string_view name,
             std::optional<std::chrono::milliseconds> timeout = std::nullopt);

}  // namespace lockstep::distributed
