#include "distributed/ordered_reducer.h"

#include <utility>

namespace lockstep {
namespace {

std::vector<GradientBucket> first_buckets(const ReducerParts& parts,
                                          const std::vector<int64_t>& order) {
  if (!order.empty()) return buckets_in_order(parts.parameters, order, parts.caps);
  if (OrderedReducer::depends_on_order(parts.config)) return unordered_buckets(parts.parameters);
  std::vector<size_t> caps = {parts.caps.bytes};
  if (!parts.config.bucket_cap_mb) caps.insert(caps.begin(), parts.caps.first_bytes);
  return unordered_buckets(parts.parameters, caps);
}

std::unordered_map<size_t, std::string> numbered(const std::vector<std::string>& names) {
  std::unordered_map<size_t, std::string> result;
  for (const auto& name : names) result.emplace(result.size(), name);
  return result;
}

}  // namespace

bool OrderedReducer::depends_on_order(const DataParallelConfig& config) {
  return config.static_graph || !config.find_unused_parameters;
}

OrderedReducer::OrderedReducer(const ReducerParts& parts, const std::vector<int64_t>& order)
    : c10d::Reducer(parts.parameters, first_buckets(parts, order), parts.group,
                    /*expect_sparse_gradients=*/std::vector<bool>(parts.parameters.size(), false),
                    static_cast<int64_t>(parts.caps.bytes), parts.config.find_unused_parameters,
                    parts.config.gradient_as_bucket_view, numbered(parts.names),
                    static_cast<int64_t>(parts.caps.first_bytes),
                    /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
                    /*bucket_bytes_cap_list=*/{}),
      averages_late_(parts.config.static_graph),
      order_(order) {
  has_rebuilt_bucket_ = !order_.empty();  // then a later step's order changes nothing
}

void OrderedReducer::after_backward() {
  if (std::exchange(averages_late_, false)) delay_all_reduce();
}

bool OrderedReducer::arrange_by_order() {
  if (!should_rebuild_buckets() || rebuilt_param_indices_.empty()) return false;
  order_ = rebuilt_param_indices_;
  return rebuild_buckets();
}

}  // namespace lockstep
