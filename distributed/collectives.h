// Collectives on tensors. Collective means: every rank calls it, in the same order, with tensors of
// the same shape and type. CPU tensors travel in the control group, others in the device group.
// With one rank they return at once. `name` is what an error calls the operation. Throws PeerError
// when a peer is gone or the world's timeout has passed. Thread: the thread that owns the World,
// one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <optional>
#include <string_view>

#include "lockstep/world.h"

namespace lockstep::distributed {

enum class ReduceOp { Sum, Min, Max };

// In place, the result on every rank.
void all_reduce(World& world, at::Tensor& tensor, ReduceOp op, std::string_view name);

// In place, the result on `root`; on the others the content is unspecified afterwards.
void reduce(World& world, at::Tensor& tensor, ReduceOp op, int root, std::string_view name);

// In place: `root`'s content on every rank.
void broadcast(World& world, at::Tensor& tensor, int root, std::string_view name);

// A tensor on the CPU whose all_reduce needs no copies: where ranks share memory it lies where all
// of them see it (from 256 KiB on; smaller ones, and those elsewhere, are ordinary). Its content is
// unspecified.
at::Tensor shared_empty(World& world, at::IntArrayRef sizes, at::ScalarType type);

// Returns [world_size, ...tensor.sizes()], rank by rank.
at::Tensor all_gather(World& world, const at::Tensor& tensor, std::string_view name);

// Returns when every rank has come. `timeout`: the world's, when not given.
void barrier(World& world, std::string_view name,
             std::optional<std::chrono::milliseconds> timeout = std::nullopt);

}  // namespace lockstep::distributed
