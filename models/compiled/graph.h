// A graph compiled by AOTInductor, loaded into this process. Runs without Python.
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

// Thread: not thread-safe.
class CompiledGraph {
 public:
  // `device`: "cpu", or "cuda:0" after the GPU of this process is selected. `name` is used in
  // messages. The code is loaded from a temporary file, which is deleted before this returns.
  // Throws Config if the code cannot be loaded, Environment if the file cannot be written or its
  // directory does not allow execution.
  CompiledGraph(const GraphFiles& files, const std::string& device, const std::string& name);
  ~CompiledGraph();
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;

  // Returns new tensors without gradient. The inputs must have the compiled types and shapes; they
  // are not verified. Does not synchronize with the GPU.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  std::unique_ptr<torch::inductor::AOTIModelContainerRunner> runner_;
};

}  // namespace lockstep::models
