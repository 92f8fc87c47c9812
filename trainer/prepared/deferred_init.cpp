#include "trainer/prepared/deferred_init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/prepared/init_record.h"

namespace lockstep::trainer {
namespace {

at::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

// Records while it builds a model. Returns null if the record is not usable.
std::shared_ptr<Model> build_recorded(uint64_t seed, const DeferredInit::Build& build,
                                      InitRecord& record) {
  // With another seed, so that a constructor that sets `seed` itself is noticed too.
  at::manual_seed(~seed);
  const auto state = generator_state();
  std::shared_ptr<Model> model;
  try {
    const InitRecord::Recording recording(record);
    model = build();
  } catch (...) {
    if (record.is_usable()) throw;
    return nullptr;
  }
  return at::equal(generator_state(), state) && record.complete(*model) ? model : nullptr;
}

// Executes a recorded operation on its part of `memory`.
void execute(const InitRecord::Operation& operation, const c10::Storage& memory) {
  const auto tensor = at::empty({0}, at::dtype(operation.type))
                          .set_(memory, operation.offset, operation.sizes, operation.strides);
  operation.run(tensor);
}

}  // namespace

DeferredInit::DeferredInit(uint64_t seed, std::unique_ptr<InitRecord> record)
    : seed_(seed), record_(std::move(record)) {}

DeferredInit::~DeferredInit() = default;

DeferredInit::Built DeferredInit::build(uint64_t seed, const Build& build) {
  auto record = std::make_unique<InitRecord>();
  auto model = build_recorded(seed, build, *record);
  at::manual_seed(seed);
  if (!model) return {.model = build(), .deferred = nullptr};
  return {.model = std::move(model),
          .deferred = std::shared_ptr<DeferredInit>(new DeferredInit(seed, std::move(record)))};
}

DeferredInit::Names DeferredInit::names(const IsWanted& is_wanted) const {
  const auto last = record_->last_operations();
  std::vector<size_t> order(last.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t parameter) { return last[parameter]; });
  Names names;
  for (const auto parameter : order)
    if (const auto& name = record_->parameters()[parameter].first; is_wanted(name))
      names.push_back(name);
  return names;
}

void DeferredInit::compute(const IsWanted& is_wanted, const Visit& visit) {
  const at::NoGradGuard no_grad;
  auto& parameters = record_->parameters();
  auto& storages = record_->storages();
  const auto finish = [&](size_t parameter) {
    auto& [name, values] = parameters[parameter];
    if (is_wanted(name)) visit(name, values);
    values.reset();
  };
  const auto last = record_->last_operations();
  for (size_t i = 0; i < last.size(); ++i)
    if (last[i] < 0) finish(i);
  size_t end = 0;  // the operations after it are not needed
  std::vector<bool> is_needed;
  for (const auto& storage : storages) {
    is_needed.push_back(std::ranges::any_of(storage.parameters, [&](size_t parameter) {
      return is_wanted(parameters[parameter].first);
    }));
    if (is_needed.back()) end = std::max(end, storage.last + 1);
  }
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto state = generator.get_state();
  generator.set_current_seed(seed_);
  for (size_t i = 0; i < end; ++i) {
    const auto& operation = record_->operations()[i];
    auto& storage = storages[operation.storage];
    if (is_needed[operation.storage] && i >= storage.first) {
      execute(operation, storage.memory);
      if (i != storage.last) continue;
      std::ranges::for_each(storage.parameters, finish);
      storage.memory = {};
    } else if (operation.is_random) {
      auto like = operation;
      like.offset = 0;
      execute(like, at::empty_strided(operation.sizes, operation.strides, at::dtype(operation.type))
                        .storage());
    }
  }
  generator.set_state(state);
  discard();
}

void DeferredInit::discard() { record_ = std::make_unique<InitRecord>(); }

}  // namespace lockstep::trainer
