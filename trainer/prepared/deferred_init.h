// Building a model whose initial values are computed later, one parameter at a time.
//
// Note [Deferred initialization]: while the model is built, operations that fill a tensor at random,
// elementwise ones on what was filled, and the fills of models/filling.h are recorded instead of
// executed. So the pages of weights are not touched. compute() executes the record in the same order, so that the generator yields the
// same numbers. A parameter that is filled again later is computed once, but the numbers of its
// first fill are drawn.
//
// A record is complete if nothing else depended on a value that was not there. Otherwise the model
// is built again, with all values, as if nothing had been deferred:
// - An operation that cannot be recorded (it reads such a value, or draws numbers otherwise) throws
//   Unrecordable in the constructor of the model.
// - Code that writes through a pointer, or uses the generator directly, is detected afterwards: by
//   checksums of what must not have changed, and by the state of the generator.
// Not detected: code that reads such a value through a pointer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/model.h"

namespace lockstep::trainer {

class InitRecord;

class DeferredInit {
 public:
  using Build = std::function<std::shared_ptr<Model>()>;
  struct Built {
    std::shared_ptr<Model> model;
    std::shared_ptr<DeferredInit> deferred;  // null: the model has its values
  };
  // Calls `build` after at::manual_seed(seed), and again if not all of the work could be deferred.
  static Built build(uint64_t seed, const Build& build);

  ~DeferredInit();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

  using Names = std::vector<std::string>;
  using IsWanted = std::function<bool(const std::string& name)>;
  using Visit = std::function<void(const std::string& name, const at::Tensor& values)>;

  // The names of the wanted parameters in the order of compute().
  Names names(const IsWanted& is_wanted) const;

  // Computes the wanted parameters, in the memory that they had when the model was built.
  // `visit` is called when a parameter is complete. Its memory is freed afterwards if the parameter
  // no longer uses it. The generator is as before. Call it once.
  void compute(const IsWanted& is_wanted, const Visit& visit);

  // Frees what compute() needs.
  void discard();

 private:
  explicit DeferredInit(uint64_t seed, std::unique_ptr<InitRecord> record);

  uint64_t seed_;
  std::unique_ptr<InitRecord> record_;
};

}  // namespace lockstep::trainer
