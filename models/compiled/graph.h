// A graph that AOTInductor compiled, loaded into this process: tensors in, tensors out, no Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "models/package/package.h"

namespace torch::inductor {
class AOTIModelContainerRunner;
}

namespace lockstep::models {

// Thread: one at a time.
class CompiledGraph {
 public:
  // `device`: "cpu", or "cuda:0" once that GPU is this process's. `name` stands for the graph in
  // messages. The code is mapped from a file that is gone from the disk
  // when this returns. Throws Config when it cannot be loaded here, Environment when the file
  // cannot be written.
  CompiledGraph(const GraphFiles& files, const std::string& device, const std::string& name);
  ~CompiledGraph();
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;

  // Outputs are new tensors, without gradient. The inputs must have the types and shapes that were
  // compiled: nobody looks again. A GPU is not waited for.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  std::unique_ptr<torch::inductor::AOTIModelContainerRunner> runner_;
};

}  // namespace lockstep::models
