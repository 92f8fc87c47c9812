// The operations of a model's constructor that were not executed; see Note [Deferred initialization]
// in trainer/prepared/deferred_init.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <exception>
#include <unordered_map>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/named_tensors.h"
#include "models/filling.h"

namespace lockstep::trainer {

// Thrown in the constructor of a model by an operation that cannot be recorded.
struct Unrecordable final : std::exception {
  const char* what() const noexcept override { return "initial values cannot be deferred"; }
};

class InitRecord {
 public:
  // An in-place operation on a part of a storage.
  struct Operation {
    models::Fill run;
    size_t storage = 0;  // in storages()
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
    caffe2::TypeMeta type;
    bool is_random = false;
    bool overwrites_all = false;  // of the storage, without reading it
  };
  struct Storage {
    c10::Storage memory;
    uint32_t checksum = 0;       // of the bytes when the first operation was recorded
    size_t first = 0, last = 0;  // operations: the first one that matters, and the last one
    std::vector<size_t> parameters;
  };

  // Records the operations of this thread.
  class Recording {
   public:
    explicit Recording(InitRecord& record);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    c10::impl::IncludeDispatchKeyGuard guard_;
  };

  // The operations that are dispatched while it records.
  void handle(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  // The fills of models/filling.h while it records.
  void record(const at::Tensor& tensor, models::Fill fill);

  // Call it after recording. Returns whether executing the operations has the same result as if they
  // had been executed when they were recorded. Afterwards, the record knows the parameters.
  bool complete(const Model& model);

  bool is_usable() const { return is_usable_; }
  std::vector<Operation>& operations() { return operations_; }
  std::vector<Storage>& storages() { return storages_; }
  NamedTensors& parameters() { return parameters_; }  // detached

  // For each parameter, the last operation; -1: none.
  std::vector<int64_t> last_operations() const;

 private:
  bool can_record(const c10::OperatorHandle& op, const torch::jit::Stack& arguments) const;
  void record(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  Operation& add_operation(const at::Tensor& tensor, models::Fill run);
  bool is_deferred(const c10::IValue& value) const;
  [[noreturn]] void give_up();
  bool is_untouched() const;
  void find_live_operations();

  bool is_usable_ = true;
  std::vector<Operation> operations_;
  std::vector<Storage> storages_;
  std::unordered_map<const c10::StorageImpl*, size_t> index_of_;
  NamedTensors parameters_;
};

}  // namespace lockstep::trainer
