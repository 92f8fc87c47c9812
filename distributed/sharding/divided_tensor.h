// A tensor whose elements are divided between ranks, e.g. the state of a sharded optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::distributed {

struct DividedTensor {
  struct Part {
    int rank = 0;
    int64_t begin = 0, numel = 0;  // in the order of memory
  };
  at::Tensor whole;         // of the meta device: sizes, strides and type
  std::vector<Part> parts;  // together all elements
  at::Tensor own;           // the elements of this rank's part; undefined if it has none
};

// Collective. Returns all elements on ranks that want them, else an undefined tensor. `name`: for
// errors.
at::Tensor assemble(World& world, const DividedTensor& tensor, bool is_wanted,
                    std::string_view name);

// Copies this rank's part of `whole`, a tensor of the same sizes, to `tensor.own`.
void load_part(const World& world, const DividedTensor& tensor, const at::Tensor& whole);

// A one-dimensional view of `tensor`, in memory order. Requires: a dense tensor.
at::Tensor flat_view(const at::Tensor& tensor);

}  // namespace lockstep::distributed
