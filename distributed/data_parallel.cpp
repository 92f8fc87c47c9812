#include "distributed/data_parallel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>

#include <algorithm>

#include "core/error.h"
#include "distributed/compression_hook.h"
#include "distributed/fence.h"
#include "distributed/gradient_source.h"
#include "distributed/objects.h"
#include "distributed/ordered_reducer.h"
#include "distributed/process_groups.h"
#include "distributed/shared_gradients.h"
#include "distributed/watched_backend.h"

namespace lockstep {
namespace {

constexpr size_t kBroadcastBucketBytes = size_t{250} << 20;

std::vector<at::Tensor> trainable(const torch::nn::Module& module) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters())
    if (parameter.requires_grad()) parameters.push_back(parameter);
  return parameters;
}

// Of the trainable parameters.
std::vector<std::string> names_of(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters())
    if (item.value().requires_grad()) names.push_back(item.key());
  return names;
}

// What must agree between ranks, in a form that a message can quote.
nlohmann::json describe_parameters(const torch::nn::Module& module) {
  auto list = nlohmann::json::array();
  for (const auto& item : module.named_parameters())
    list.push_back(fmt::format("{} {} {}", item.key(), c10::toString(item.value().scalar_type()),
                               nlohmann::json(item.value().sizes().vec()).dump()));
  return list;
}

void verify_same_model(World& world, const torch::nn::Module& module) {
  const auto mine = describe_parameters(module);
  const auto all = all_gather_object(world, mine, "parameter shapes");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto common = std::min(all[rank].size(), all[0].size());
    size_t i = 0;
    while (i < common && all[rank][i] == all[0][i]) ++i;
    const auto text = [&](size_t r) {
      return i < all[r].size() ? all[r][i].get<std::string>() : "nothing";
    };
    throw config_error(fmt::format(
        "the model differs between ranks: parameter {} is [{}] on rank 0 and [{}] on rank {}", i,
        text(0), text(rank), rank));
  }
}

}  // namespace

// Either `shared` or a reducer. Members are destroyed bottom up: the logger holds the reducer.
struct DataParallel::Synchroniser {
  std::unique_ptr<SharedGradients> shared;
  c10::intrusive_ptr<WatchedBackend> backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // of the gradients
  std::shared_ptr<OrderedReducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  bool last_was_synchronized = true;
};

namespace {

BucketCaps bucket_caps(const DataParallelConfig& config) {
  const auto mib = [](double value) { return static_cast<size_t>(value * (1 << 20)); };
  if (config.bucket_cap_mb) return {mib(*config.bucket_cap_mb), mib(*config.bucket_cap_mb)};
  return {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
}

// Where ranks share memory, and nothing is asked for that only a Reducer can do.
bool can_share_gradients(World& world, const std::vector<at::Tensor>& parameters,
                         const DataParallelConfig& config) {
  if (!world.groups().shared || config.find_unused_parameters || config.static_graph ||
      config.gradient_as_bucket_view || config.gradient_compression != kNoCompression)
    return false;
  return std::all_of(parameters.begin(), parameters.end(), [](const at::Tensor& parameter) {
    return parameter.is_cpu() && parameter.is_floating_point();
  });
}

// The world's device group again, watched.
c10::intrusive_ptr<c10d::ProcessGroup> gradient_group(
    World& world, const c10::intrusive_ptr<WatchedBackend>& backend) {
  const auto& device = world.groups().device;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(world.groups().store, world.rank(),
                                                       world.world_size());
  group->setBackend(world.device().type(), device->getBackendType(), backend);
  group->setDefaultBackend(device->getBackendType());
  group->setGroupName("gradients");
  return group;
}

}  // namespace

std::vector<size_t> expected_bucket_bytes(const torch::nn::Module& module,
                                          const DataParallelConfig& config) {
  const auto parameters = trainable(module);
  std::vector<int64_t> order;
  for (auto i = static_cast<int64_t>(parameters.size()); i > 0; --i) order.push_back(i - 1);
  std::vector<size_t> sizes;
  for (const auto& bucket : buckets_in_order(parameters, order, bucket_caps(config))) {
    sizes.push_back(0);
    for (const auto index : bucket) sizes.back() += parameters[index].nbytes();
  }
  return sizes;
}

DataParallel::DataParallel(World& world, torch::nn::Module& module,
                           const DataParallelConfig& config)
    : world_(world), config_(config), parameters_(trainable(module)), names_(names_of(module)) {
  if (parameters_.empty()) throw config_error("the model has no parameters to train");
  if (!world.is_distributed()) return;
  verify_same_model(world, module);
  fenced(world, "initial broadcast", [&] {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> states;
    for (const auto& tensor : module.parameters()) states.push_back(tensor.detach());
    for (const auto& tensor : module.buffers()) buffers_.push_back(tensor.detach());
    states.insert(states.end(), buffers_.begin(), buffers_.end());
    c10d::broadcast_coalesced(world.groups().device, states, kBroadcastBucketBytes, 0);
    synchroniser_ = std::make_unique<Synchroniser>();
    if (can_share_gradients(world, parameters_, config)) {
      synchroniser_->shared = std::make_unique<SharedGradients>(*world.groups().shared, parameters_,
                                                                names_, bucket_caps(config));
      return;
    }
    synchroniser_->backend = c10::make_intrusive<WatchedBackend>(
        world.groups().device->getBackend(world.device().type()), world.progress());
    synchroniser_->group = gradient_group(world, synchroniser_->backend);
    make_reducer({});
  });
}

DataParallel::~DataParallel() = default;

void DataParallel::make_reducer(const std::vector<int64_t>& order) {
  auto& [shared, backend, group, reducer, logger, last_was_synchronized] = *synchroniser_;
  logger.reset();
  reducer.reset();  // before the next one attaches itself to the parameters
  reducer = std::make_shared<OrderedReducer>(
      ReducerParts{group, parameters_, names_, config_, bucket_caps(config_)}, order);
  logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  if (config_.static_graph) reducer->set_static_graph();
  if (config_.gradient_compression != kNoCompression)
    reducer->register_comm_hook(
        std::make_unique<CompressionHook>(group, config_.gradient_compression));
  publish_buckets();
}

std::vector<std::string> DataParallel::gradient_order() const {
  if (!synchroniser_) return {};
  const auto& shared = synchroniser_->shared;
  std::vector<std::string> order;
  for (const auto index : shared ? shared->order() : synchroniser_->reducer->order())
    order.push_back(names_[static_cast<size_t>(index)]);
  return order;
}

void DataParallel::restore_gradient_order(const std::vector<std::string>& names) {
  if (!synchroniser_ ||
      !std::is_permutation(names.begin(), names.end(), names_.begin(), names_.end()))
    return;
  std::unordered_map<std::string, int64_t> numbers;
  for (const auto& name : names_) numbers.emplace(name, numbers.size());
  std::vector<int64_t> order;
  for (const auto& name : names) order.push_back(numbers.at(name));
  if (synchroniser_->shared) return synchroniser_->shared->restore_order(order);
  if (!OrderedReducer::depends_on_order(config_)) return;
  // In the run that went on gradients live in the buckets by now, where the Reducer divides by the
  // number of ranks; what it copies there it multiplies by the inverse.
  if (config_.gradient_as_bucket_view)
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::zeros_like(parameter);
  make_reducer(order);
}

// One line per bucket, in the order in which they are reduced.
void DataParallel::publish_buckets() {
  std::string lines;
  for (const auto& bucket : synchroniser_->logger->get_per_bucket_variable_indices()) {
    std::vector<std::string> members;
    for (const auto index : bucket) members.push_back(names_.at(index));
    lines += fmt::format("{}\n", fmt::join(members, ", "));
  }
  world_.progress().set_bucket_names(lines);
}

void DataParallel::before_forward(bool synchronize) {
  if (!synchroniser_) return;
  if (synchroniser_->reducer && synchronize)
    fenced(world_, "before forward", [&] {
      auto& reducer = *synchroniser_->reducer;
      reducer.prepare_for_forward();
      if (reducer.arrange_by_order()) publish_buckets();
    });
  // As in Python: buffers go out before a forward whose predecessor was synchronized.
  if (synchroniser_->last_was_synchronized) broadcast_buffers();
  synchroniser_->last_was_synchronized = synchronize;
}

void DataParallel::broadcast_buffers() {
  if (buffers_.empty() || !config_.broadcast_buffers) return;
  const at::NoGradGuard no_grad;
  fenced(world_, "buffer broadcast", [&] {
    c10d::broadcast_coalesced(world_.groups().device, buffers_, kBroadcastBucketBytes, 0);
  });
}

void DataParallel::backward(const at::Tensor& loss, bool synchronize) {
  if (!synchroniser_) return loss.backward();
  if (auto* const shared = synchroniser_->shared.get()) {
    if (synchronize) shared->begin();
    loss.backward();
    if (synchronize) average_shared();
    return;
  }
  fenced(world_, "gradient all_reduce", [&] {
    world_.progress().begin_buckets();
    if (synchronize) {
      std::vector<at::Tensor> outputs;
      if (config_.find_unused_parameters) outputs.push_back(loss);
      synchroniser_->reducer->prepare_for_backward(outputs);
    }
    loss.backward();
    if (synchronize) synchroniser_->reducer->after_backward();
  });
  if (synchronize)
    exposed_wait_ = std::chrono::steady_clock::now() - synchroniser_->backend->last_start();
}

void DataParallel::average_shared() {
  const auto ready = std::chrono::steady_clock::now();
  fenced(world_, "gradient all_reduce", [&] {
    if (under_way_.valid()) under_way_.get();
    synchroniser_->shared->average();
  });
  exposed_wait_ = std::chrono::steady_clock::now() - ready;
}

// In a thread of its own: collectives of ranks that share memory run where they are called.
void DataParallel::begin_average(size_t first) {
  fenced(world_, "gradient all_reduce", [&] {
    if (under_way_.valid()) under_way_.get();
    under_way_ = std::async(std::launch::async,
                            [this, first] { synchroniser_->shared->average_from(first); });
  });
}

void DataParallel::add_gradients(std::vector<at::Tensor> gradients, bool synchronize,
                                 std::vector<std::function<std::vector<at::Tensor>()>> later) {
  const auto given =
      std::make_shared<GivenGradients>(parameters_.size(), std::move(gradients), std::move(later));
  if (synchroniser_ && synchroniser_->reducer)  // it listens to autograd
    return backward(make_root(parameters_, given), synchronize);
  const bool averages = synchroniser_ && synchronize;
  if (averages) synchroniser_->shared->begin_with_all_ready();
  add_to_parameters(parameters_, *given, parameters_.size());
  while (const auto end = given->first()) {
    if (averages) begin_average(end);
    given->make_next();
    add_to_parameters(parameters_, *given, end);
  }
  if (averages) average_shared();
}

void DataParallel::zero_gradients() {
  const bool in_buckets =
      synchroniser_ && synchroniser_->reducer && config_.gradient_as_bucket_view;
  if (!in_buckets) {
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
    return;
  }
  // Assigning or detaching them would take them out of the buckets. Those of one bucket share a
  // storage: one fill for all.
  const at::NoGradGuard no_grad;
  const void* filled = nullptr;
  for (const auto& bucket : synchroniser_->logger->get_per_bucket_variable_indices())
    for (const auto index : bucket) {
      const auto& gradient = parameters_[index].grad();
      if (!gradient.defined() || gradient.storage().data() == filled) continue;
      filled = gradient.storage().data();
      at::empty({0}, gradient.options()).set_(gradient.storage()).zero_();
    }
}

}  // namespace lockstep
