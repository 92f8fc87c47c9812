// Parameters in contiguous memory that is cut into equal chunks, one per rank (the flat parameter
// of FSDP). Each rank updates its chunk; publish() makes the updates visible to the others.
//
// Note [Chunks]: parameters and chunks begin at multiples of kChunkAlignment elements. So an
// elementwise operation on the slices of a parameter is bit-identical to the operation on the whole
// parameter: each element is in the same vector lane, or in the same scalar tail.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/sharding/divided_tensor.h"
#include "lockstep/named_tensors.h"
#include "lockstep/world.h"

namespace lockstep::distributed {

// `numel` consecutive elements of one parameter, in memory order, starting at `begin`.
struct ParameterSlice {
  size_t parameter = 0;
  int64_t begin = 0, numel = 0;
};

// PerRank: each rank has a copy of the parameters. PerHost: all ranks of a host share one. Sharded:
// each rank stores its chunks; whole parameters exist only while ShardedWeights has gathered them.
enum class Copies { PerRank, PerHost, Sharded };

struct FlatLayout {
  Copies copies = Copies::PerRank;
  std::vector<size_t> units;   // of each parameter; units are cut separately. Empty: one unit
  bool has_gradients = false;  // whether a rank has memory for the gradients of its slices
  bool has_values = true;      // false: the parameters have none until set_values()
};

class FlatParameters {
 public:
  static constexpr int64_t kChunkAlignment = 64;

  // The parameters of one unit and one element type.
  struct Flat {
    size_t unit = 0;
    int64_t chunk = 0;                               // elements
    std::vector<std::pair<size_t, int64_t>> places;  // parameter, first element
    at::Tensor memory;                               // [world size * chunk]
    at::Tensor own;       // [chunk], of this rank; Sharded: not in `memory`
    at::Tensor gradient;  // [chunk], averaged; undefined without FlatLayout::has_gradients
  };

  // Collective. Moves the content of `parameters` into flat memory; the tensors keep their identity
  // and their strides. PerHost: all ranks get rank 0's content and must share memory. Sharded: all
  // ranks get rank 0's content; the whole parameters have no memory on return. Throws Config if a
  // parameter has gaps or overlaps in memory, Environment if memory is insufficient.
  static FlatParameters create(World& world, const NamedTensors& parameters, FlatLayout layout);

  World& ranks() const { return world_; }  // that divide the parameters

  // Collective. Sets the content of a parameter to `whole`, converted to its type and strides.
  // PerHost, Sharded: rank 0's `whole`, the others are ignored; each rank keeps its slice only.
  // PerHost: call publish() before the parameter is read; without values, `whole` (undefined, or of
  // the meta device) changes nothing.
  void set_values(size_t parameter, const at::Tensor& whole);

  Copies copies() const { return layout_.copies; }
  const NamedTensors& parameters() const { return parameters_; }
  std::vector<Flat>& flats() { return flats_; }

  // This rank's slices, ordered by parameter. A parameter may have slices on several ranks.
  const std::vector<ParameterSlice>& slices() const { return slices_; }

  // The elements of slices()[i]: a view of the parameter, or of this rank's chunk if Sharded. It
  // has as many dimensions as the parameter; if it is not the whole, all but the last are of size
  // 1.
  at::Tensor slice(size_t i) const;

  // The gradient of slices()[i]: a view of the parameter's gradient, or of this rank's memory for
  // gradients. Undefined if the parameter has none.
  at::Tensor slice_gradient(size_t i) const;

  // Whether slice_gradient() is in memory of this rank alone.
  bool has_own_gradients() const { return layout_.has_gradients; }

  // Whether this rank's chunk contains the first element of a parameter.
  bool owns(size_t parameter) const;

  // Which ranks have which elements of a parameter. `own`: this rank's, from slice() or a tensor of
  // its size; undefined if it has none.
  DividedTensor divide(size_t parameter, const at::Tensor& own) const;

  // The index in slices() of this rank's slice of a parameter; -1: it has none.
  int64_t find_slice(size_t parameter) const;

  // Collective: every rank sees the updates of all chunks. `name`: for errors.
  void publish(std::string_view name);

  // Collective. Allocates memory with this layout, e.g. for gradients or averages: a zeroed,
  // contiguous tensor for each parameter, shared by all ranks. Requires: ranks that share memory.
  std::vector<at::Tensor> allocate_per_host() const;

  // Collective. The gradients that this rank owns (owns()), whole: those that several ranks
  // divide are sent to their owner. `visit(parameter, gradient)` is called in the order of flats().
  // Requires: has_own_gradients().
  using VisitGradient = std::function<void(size_t parameter, const at::Tensor& gradient)>;
  void visit_owned_gradients(const VisitGradient& visit);

 private:
  // Where slices()[i] is.
  struct SlicePlace {
    size_t flat = 0;
    int64_t in_chunk = 0;  // first element
  };
  FlatParameters(World& world, NamedTensors parameters, FlatLayout layout)
      : world_(world),
        parameters_(std::move(parameters)),
        layout_(std::move(layout)),
        owners_(parameters_.size()),
        flat_of_(parameters_.size()) {}
  void lay_out(size_t unit, at::ScalarType type);
  at::Tensor allocate(const Flat& flat, at::ScalarType type) const;
  void keep_own_chunk(Flat& flat);
  void move_parameters(Flat& flat);
  void send_slices(size_t parameter, const at::Tensor& whole);
  void find_slices();
  std::vector<at::Tensor> receive_slices(const Flat& flat) const;
  int64_t first_element(size_t parameter) const;
  at::Tensor shaped(const at::Tensor& elements, const ParameterSlice& slice) const;

  World& world_;
  NamedTensors parameters_;
  FlatLayout layout_;
  std::vector<Flat> flats_;
  std::vector<ParameterSlice> slices_;
  std::vector<SlicePlace> slice_places_;
  std::vector<int> owners_;
  std::vector<size_t> flat_of_;  // of each parameter
};

// A view of the slice in `whole`, which has the sizes and strides of the slice's parameter. All
// dimensions but the last have size 1, unless the slice is the whole parameter.
at::Tensor slice_of(const at::Tensor& whole, const ParameterSlice& slice);

}  // namespace lockstep::distributed
