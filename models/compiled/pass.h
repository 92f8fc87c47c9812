// A compiled pass of a model: graphs that run one after another and pass values on. A pass of
// training has the forward pass in one or more segments, then the backward pass in one or more.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "lockstep/model.h"
#include "models/compiled/graph.h"
#include "models/package/manifest.h"

namespace lockstep::models {

// Thread: not thread-safe, including runs.
class CompiledPass {
 public:
  using Graphs = std::vector<std::unique_ptr<CompiledGraph>>;

  // `graphs`: one per segment. `blocks`: of each input, null if it is in none; other inputs follow.
  // The blocks outlive this object; their observer is notified before each segment.
  CompiledPass(Graphs graphs, std::vector<SegmentSpec> segments, std::vector<Block*> blocks,
               size_t num_inputs);

  size_t size() const { return graphs_.size(); }

  // One pass. Values are kept until the last segment that uses them.
  class Run {
   public:
    // In training, segments of blocks that recompute() run again before the first segment of the
    // backward pass that needs their values, with the same random numbers; only what the forward
    // pass needs is kept in between. The pass must outlive this. `count`: samples of the batch.
    Run(const CompiledPass& pass, std::vector<at::Tensor> inputs, int64_t count);

    // Runs the segments from the next one to `segment`; returns the outputs of the last.
    std::vector<at::Tensor> run_to(size_t segment);

   private:
    std::vector<at::Tensor> run_segment(size_t segment);
    std::vector<at::Tensor> inputs_of(size_t segment) const;
    void plan_again(size_t segment);
    void run_again(size_t segment);
    std::vector<at::Tensor> run_graph(size_t segment, const std::vector<at::Tensor>& inputs) const;
    void hold(size_t segment) const;

    const CompiledPass& pass_;
    const double count_;
    std::vector<at::Tensor> values_;
    std::vector<size_t> last_use_;            // of each value: the last segment that uses it
    std::vector<bool> is_dropped_;            // of each value: not kept, but computed again
    std::vector<std::vector<size_t>> again_;  // of each segment: those that run again before it
    std::vector<at::Tensor> random_;          // of those: the state of the generator before them
    size_t next_ = 0;
  };

  // The first segment with gradients; the number of segments if there is none.
  size_t first_backward() const { return first_backward_; }

 private:
  bool recomputes(size_t segment) const;

  Graphs graphs_;
  std::vector<SegmentSpec> segments_;
  std::vector<std::vector<Block*>> blocks_;   // whose weights each segment takes
  std::vector<std::vector<size_t>> used_by_;  // of each value: segments, ascending
  std::vector<size_t> first_kept_;            // of each segment: the number of its first kept value
  size_t first_backward_;
};

}  // namespace lockstep::models
