#include "distributed/gradients/ordered_reducer.h"

#include <utility>

#include "distributed/gradients/gradient_buckets.h"

namespace lockstep::distributed {
namespace {

std::vector<GradientBucket> first_buckets(const NamedTensors& parameters,
                                          const DataParallelConfig& config,
                                          const std::vector<int64_t>& order) {
  const auto caps = bucket_caps(config);
  if (!order.empty()) return buckets_in_order(parameters, order, caps);
  if (OrderedReducer::depends_on_order(config)) return unordered_buckets(parameters);
  if (config.bucket_cap_mb) return unordered_buckets(parameters, {caps.bytes});
  return unordered_buckets(parameters, {caps.first_bytes, caps.bytes});
}

std::unordered_map<size_t, std::string> numbered_names(const NamedTensors& parameters) {
  std::unordered_map<size_t, std::string> names;
  for (const auto& [name, parameter] : parameters) names.emplace(names.size(), name);
  return names;
}

}  // namespace

bool OrderedReducer::depends_on_order(const DataParallelConfig& config) {
  return config.static_graph || !config.find_unused_parameters;
}

OrderedReducer::OrderedReducer(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                               const NamedTensors& parameters, const DataParallelConfig& config,
                               const std::vector<int64_t>& order)
    : c10d::Reducer(values_of(parameters), first_buckets(parameters, config, order), group,
                    /*expect_sparse_gradients=*/std::vector<bool>(parameters.size(), false),
                    static_cast<int64_t>(bucket_caps(config).bytes), config.find_unused_parameters,
                    config.gradient_as_bucket_view, numbered_names(parameters),
                    static_cast<int64_t>(bucket_caps(config).first_bytes),
                    /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
                    /*bucket_bytes_cap_list=*/{}),
      delays_all_reduce_(config.static_graph),
      order_(order) {
  has_rebuilt_bucket_ = !order_.empty();  // prevents a second rebuild
}

void OrderedReducer::after_backward() {
  if (std::exchange(delays_all_reduce_, false)) delay_all_reduce();
}

bool OrderedReducer::rebuild_in_order() {
  if (!should_rebuild_buckets() || rebuilt_param_indices_.empty()) return false;
  order_ = rebuilt_param_indices_;
  return rebuild_buckets();
}

}  // namespace lockstep::distributed
