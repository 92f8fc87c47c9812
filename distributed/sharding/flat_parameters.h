// Parameters in contiguous memory that is cut into equal chunks, one per rank (the flat parameter
// of FSDP). Each rank updates its chunk; publish() makes the updates visible to the others.
//
// Note [Chunks]: parameters begin, and chunks are cut, at multiples of kChunkAlignment elements. An
// elementwise operation on the slices of a parameter has the bits of the operation on the whole: each
// element is in the same lane of a vector, or in the same scalar tail, as without the cut.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// Elements of `numel` of one parameter, from `begin` on, in the order of its memory.
struct ParameterSlice {
  size_t parameter = 0;
  int64_t begin = 0, numel = 0;
};

// How often parameters are in memory.
enum class Copies { PerRank, PerHost };

class FlatParameters {
 public:
  static constexpr int64_t kChunkAlignment = 64;

  // Collective. Moves the content of `parameters` into flat memory, one array per element type; the
  // tensors keep their identity and their strides. With PerHost, the content is rank 0's, and ranks
  // must share memory. Throws Config when a parameter has gaps or overlaps in memory, Environment
  // when memory is insufficient.
  static FlatParameters create(World& world, const NamedTensors& parameters, Copies copies);

  Copies copies() const { return copies_; }

  // This rank's, by parameter. A parameter that several ranks share has a slice on each.
  const std::vector<ParameterSlice>& slices() const { return slices_; }

  // The rank whose chunk has the first element of a parameter.
  int owner_of(size_t parameter) const { return owners_[parameter]; }

  // Collective: every rank sees the updates of all chunks. `name`: for errors.
  void publish(std::string_view name);

  // Collective. More memory with this layout, for gradients or averages: a zeroed, contiguous tensor
  // for each parameter, one copy for all ranks. Requires: ranks that share memory.
  std::vector<at::Tensor> allocate_per_host() const;

 private:
  struct Flat {
    at::Tensor memory;                               // world size x chunk
    int64_t chunk = 0;                               // elements
    std::vector<std::pair<size_t, int64_t>> places;  // parameter, first element
  };
  FlatParameters(World& world, NamedTensors parameters, Copies copies)
      : world_(world),
        parameters_(std::move(parameters)),
        copies_(copies),
        owners_(parameters_.size()) {}
  void lay_out(at::ScalarType type);
  at::Tensor allocate(const Flat& flat, at::ScalarType type) const;
  void move_parameters(const Flat& flat);

  World& world_;
  NamedTensors parameters_;
  Copies copies_;
  std::vector<Flat> flats_;
  std::vector<ParameterSlice> slices_;
  std::vector<int> owners_;
};

// All elements of `tensor`, which is dense, in the order of its memory, which they share.
at::Tensor flat_view(const at::Tensor& tensor);

// The slice of `whole`, a tensor of the size and strides of its parameter, which shares memory with it.
// It has as many dimensions as the parameter, all but the last of size 1.
at::Tensor slice_of(const at::Tensor& whole, const ParameterSlice& slice);

}  // namespace lockstep::distributed
