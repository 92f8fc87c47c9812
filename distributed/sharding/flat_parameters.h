// Parameters in contiguous memory that is cut into equal chunks, one per rank (the flat parameter
// of FSDP). Each rank updates its chunk; all_gather() sends them to the others.
//
// Note [Chunks]: parameters begin, and chunks are cut, at multiples of kChunkAlignment elements. An
// elementwise operation on the slices of a parameter has the bits of the operation on the whole: each
// element is in the same lane of a vector, or in the same scalar tail, as without the cut.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// Elements of `numel` of one parameter, from `begin` on, in the order of its memory.
struct ParameterSlice {
  size_t parameter = 0;
  int64_t begin = 0, numel = 0;
};

class FlatParameters {
 public:
  static constexpr int64_t kChunkAlignment = 64;

  // Collective. Moves the content of `parameters` into flat memory, one array per element type; the
  // tensors keep their identity and their strides. Throws Config when a parameter has gaps or
  // overlaps in memory.
  static FlatParameters create(World& world, const NamedTensors& parameters);

  // This rank's, by parameter. A parameter that several ranks share has a slice on each.
  const std::vector<ParameterSlice>& slices() const { return slices_; }

  // Collective: every rank gets the chunks of the others. `name`: for errors.
  void all_gather(std::string_view name);

 private:
  struct Flat {
    at::Tensor memory;  // world size x chunk
    int64_t chunk = 0;  // elements
  };
  explicit FlatParameters(World& world) : world_(world) {}
  void lay_out(const NamedTensors& parameters, at::ScalarType type);

  World& world_;
  std::vector<Flat> flats_;
  std::vector<ParameterSlice> slices_;
};

// All elements of `tensor`, which is dense, in the order of its memory, which they share.
at::Tensor flat_view(const at::Tensor& tensor);

// The slice of `whole`, a tensor of the size and strides of its parameter, which shares memory with it.
// It has as many dimensions as the parameter, all but the last of size 1.
at::Tensor slice_of(const at::Tensor& whole, const ParameterSlice& slice);

}  // namespace lockstep::distributed
