// Collectives on tensors. Collective means: every rank calls it, in the same order, with tensors of
// the same shape and type. CPU tensors travel in the control group, others in the device group.
// With one rank they return at once. `name` is what an error calls the operation. Throws PeerError
// when a peer is gone or the world's timeout has passed. Thread: the thread that owns the World,
// one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <optional>
#include <string>

#include "distributed/world.h"

namespace lockstep {

enum class ReduceOp { Sum, Min, Max };

// In place, the result on every rank.
void all_reduce(World& world, at::Tensor& tensor, ReduceOp op, const std::string& name);

// In place, the result on `root`; on the others the content is unspecified afterwards.
void reduce(World& world, at::Tensor& tensor, ReduceOp op, int root, const std::string& name);

// In place: `root`'s content on every rank.
void broadcast(World& world, at::Tensor& tensor, int root, const std::string& name);

// Returns [world_size, ...tensor.sizes()], rank by rank.
at::Tensor all_gather(World& world, const at::Tensor& tensor, const std::string& name);

// Returns when every rank has come. `timeout`: the world's, when not given.
void barrier(World& world, const std::string& name,
             std::optional<std::chrono::milliseconds> timeout = std::nullopt);

}  // namespace lockstep
