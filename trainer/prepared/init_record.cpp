#include "trainer/prepared/init_record.h"

#include <ATen/ATen.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/system/crc32c.h"

namespace lockstep::trainer {
namespace {

// LibTorch has no other key for modes in C++; nothing in it uses this one.
constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

constexpr std::array<std::string_view, 7> kRandomFills = {
    "aten::uniform_", "aten::normal_",      "aten::random_",    "aten::bernoulli_",
    "aten::cauchy_",  "aten::exponential_", "aten::log_normal_"};

constexpr std::array<std::string_view, 2> kConstantFills = {"aten::zero_", "aten::fill_"};

// Elementwise, on what was filled.
constexpr std::array<std::string_view, 14> kUpdates = {
    "aten::add_",       "aten::sub_",       "aten::mul_",    "aten::div_", "aten::clamp_",
    "aten::clamp_min_", "aten::clamp_max_", "aten::erfinv_", "aten::exp_", "aten::log_",
    "aten::sqrt_",      "aten::tanh_",      "aten::abs_",    "aten::neg_"};

// These take tensors, but do not read their elements.
constexpr std::array<std::string_view, 8> kWithoutReading = {
    "aten::requires_grad_", "aten::detach_",    "aten::set_data",  "aten::data",
    "aten::empty_like",     "aten::zeros_like", "aten::ones_like", "aten::full_like"};

bool contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view operator_name(const c10::OperatorHandle& op) { return op.schema().name(); }

thread_local InitRecord* current_record = nullptr;

void handle_operation(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard without_mode(kModeKey);
  if (!current_record) return op.callBoxed(stack);
  current_record->handle(op, *stack);
}

// Whether all results are views of arguments, according to the schema.
bool returns_views(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() && std::ranges::all_of(schema.returns(), [](const auto& result) {
    const auto* const alias = result.alias_info();
    return alias && !alias->isWrite();
  });
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         tensor.has_storage() && !tensor.is_conj() && !tensor.is_neg();
}

uint32_t checksum_of(const c10::Storage& memory) { return crc32c(memory.data(), memory.nbytes()); }

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&handle_operation>());
}

InitRecord::Recording::Recording(InitRecord& record) : guard_(c10::DispatchKeySet(kModeKey)) {
  current_record = &record;
  models::defer_fill = [&record](const at::Tensor& tensor, models::Fill fill) {
    record.record(tensor, std::move(fill));
  };
}

InitRecord::Recording::~Recording() {
  current_record = nullptr;
  models::defer_fill = nullptr;
}

void InitRecord::give_up() {
  is_usable_ = false;
  throw Unrecordable();
}

bool InitRecord::is_deferred(const c10::IValue& value) const {
  const auto contains_it = [&](const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() &&
           index_of_.contains(tensor.storage().unsafeGetStorageImpl());
  };
  if (value.isTensor()) return contains_it(value.toTensor());
  if (!value.isList()) return false;
  return std::ranges::any_of(value.toListRef(),
                             [&](const auto& item) { return this->is_deferred(item); });
}

// `arguments`: of `op`.
bool InitRecord::can_record(const c10::OperatorHandle& op,
                            const torch::jit::Stack& arguments) const {
  const auto name = operator_name(op);
  const bool is_random = contains(kRandomFills, name);
  if (!is_random && !contains(kConstantFills, name) && !contains(kUpdates, name)) return false;
  const auto& tensor = arguments.front().toTensor();
  if (!is_plain(tensor) || (at::GradMode::is_enabled() && tensor.requires_grad())) return false;
  if (!is_random && !is_deferred(tensor)) return false;
  return std::none_of(arguments.begin() + 1, arguments.end(), [](const c10::IValue& argument) {
    return argument.isTensor() || argument.isGenerator();
  });
}

InitRecord::Operation& InitRecord::add_operation(const at::Tensor& tensor, models::Fill run) {
  const auto& memory = tensor.storage();
  const auto [found, is_new] = index_of_.emplace(memory.unsafeGetStorageImpl(), storages_.size());
  if (is_new) storages_.push_back({.memory = memory, .checksum = checksum_of(memory)});
  operations_.push_back(
      {.run = std::move(run),
       .storage = found->second,
       .sizes = tensor.sizes().vec(),
       .strides = tensor.strides().vec(),
       .offset = tensor.storage_offset(),
       .type = tensor.dtype(),
       .is_random = false,
       .overwrites_all = tensor.nbytes() == memory.nbytes() &&
                         tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense()});
  return operations_.back();
}

void InitRecord::record(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  auto arguments = torch::jit::pop(stack, op.schema().arguments().size());
  const auto tensor = std::exchange(arguments.front(), {}).toTensor();
  auto& operation =
      add_operation(tensor, [op, others = std::move(arguments)](const at::Tensor& target) {
        torch::jit::Stack all = others;
        all.front() = target;
        op.callBoxed(all);
      });
  const auto name = operator_name(op);
  operation.is_random = contains(kRandomFills, name);
  operation.overwrites_all = operation.overwrites_all && !contains(kUpdates, name);
  torch::jit::push(stack, tensor);
}

void InitRecord::record(const at::Tensor& tensor, models::Fill fill) {
  if (is_plain(tensor)) return static_cast<void>(add_operation(tensor, std::move(fill)));
  const c10::impl::ExcludeDispatchKeyGuard without_mode(kModeKey);
  fill(tensor);
}

void InitRecord::handle(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size()).vec();
  if (!arguments.empty() && arguments.front().isTensor() && can_record(op, arguments))
    return record(op, stack);
  if (op.hasTag(at::Tag::nondeterministic_seeded)) give_up();
  const bool uses_deferred = std::ranges::any_of(
      arguments, [&](const c10::IValue& argument) { return is_deferred(argument); });
  if (!uses_deferred || contains(kWithoutReading, operator_name(op))) return op.callBoxed(stack);
  if (!returns_views(op.schema())) give_up();
  op.callBoxed(stack);
  // What may be a view, e.g. reshape(), may also be a copy.
  const auto results = torch::jit::last(stack, op.schema().returns().size());
  if (!std::ranges::all_of(results, [&](const auto& result) { return is_deferred(result); }))
    give_up();
}

bool InitRecord::is_untouched() const {
  return std::ranges::all_of(storages_, [](const Storage& storage) {
    return checksum_of(storage.memory) == storage.checksum;
  });
}

bool InitRecord::complete(const Model& model) {
  for (const auto& item : model.named_parameters()) {
    const auto& parameter = item.value();
    if (parameter.has_storage())
      if (const auto found = index_of_.find(parameter.storage().unsafeGetStorageImpl());
          found != index_of_.end())
        storages_[found->second].parameters.push_back(parameters_.size());
    parameters_.emplace_back(item.key(), parameter.detach());
  }
  // What is filled and still used, but not a parameter (e.g. a buffer), would not be computed.
  const bool has_others = std::ranges::any_of(storages_, [](const Storage& storage) {
    return storage.parameters.empty() && storage.memory.use_count() > 1;
  });
  is_usable_ = is_usable_ && !has_others && is_untouched();
  find_live_operations();
  return is_usable_;
}

void InitRecord::find_live_operations() {
  std::vector<bool> is_known(storages_.size());
  for (size_t i = 0; i < operations_.size(); ++i) {
    auto& storage = storages_[operations_[i].storage];
    if (!is_known[operations_[i].storage] || operations_[i].overwrites_all) storage.first = i;
    is_known[operations_[i].storage] = true;
    storage.last = i;
  }
}

std::vector<int64_t> InitRecord::last_operations() const {
  std::vector<int64_t> last(parameters_.size(), -1);
  for (const auto& storage : storages_)
    for (const auto parameter : storage.parameters)
      last[parameter] = static_cast<int64_t>(storage.last);
  return last;
}

}  // namespace lockstep::trainer
