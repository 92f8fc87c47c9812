// Shapes: as in the operators' documentation; S: spatial sizes.
#include "trainer/metrics/flop_counter.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/system/mutex.h"
#include "models/graph_record.h"

namespace lockstep::trainer {
namespace {

using Sizes = std::vector<int64_t>;
using Inputs = c10::ArrayRef<const c10::IValue>;

std::atomic<int64_t> counted_flops{0};
// Of this thread: the operators that run and are counted, since an operator may call others.
thread_local int counted_depth = 0;

using PartCount = std::atomic<int64_t>;
// For which the operators of this thread count; nullptr: for no part.
thread_local PartCount* part_of_thread = nullptr;

// The nodes of the backward graph that a forward pass of a part made, [begin, end) of a thread.
struct PartNodes {
  uint64_t thread = 0, begin = 0, end = 0;
  PartCount* count = nullptr;
};

// Of all counters.
class AllPartNodes {
 public:
  void add(const PartNodes& nodes) {
    const MutexLock lock(mutex_);
    nodes_.push_back(nodes);
  }

  void remove(const std::vector<PartCount>& counts) {
    const MutexLock lock(mutex_);
    std::erase_if(nodes_, [&](const auto& nodes) {
      return std::ranges::any_of(counts, [&](const auto& count) { return &count == nodes.count; });
    });
  }

  // nullptr: the node belongs to no part.
  PartCount* find(uint64_t thread, int64_t node) {
    const MutexLock lock(mutex_);
    const auto it = std::ranges::find_if(nodes_, [&](const auto& nodes) {
      return nodes.thread == thread && std::cmp_less_equal(nodes.begin, node) &&
             std::cmp_less(node, nodes.end);
    });
    return it == nodes_.end() ? nullptr : it->count;
  }

 private:
  Mutex mutex_;
  std::vector<PartNodes> nodes_ GUARDED_BY(mutex_);
};

AllPartNodes& all_part_nodes() {
  static AllPartNodes nodes;
  return nodes;
}

Sizes sizes_of(Inputs inputs, size_t i) {
  if (i >= inputs.size() || !inputs[i].isTensor() || !inputs[i].toTensor().defined()) return {};
  return inputs[i].toTensor().sizes().vec();
}

int64_t product(const Sizes& sizes, size_t begin = 0) {
  return std::accumulate(sizes.begin() + static_cast<ptrdiff_t>(std::min(begin, sizes.size())),
                         sizes.end(), int64_t{1}, std::multiplies<>());
}

// [M, K] x [K, N], or [B, M, K] x [B, K, N].
int64_t matmul_flops(const Sizes& a, const Sizes& b) {
  return a.size() < 2 || b.empty() ? 0 : 2 * product(a) * b.back();
}

// For each output position (input position, if transposed), each weight is used once.
int64_t conv_flops(int64_t batch, int64_t positions, const Sizes& weight) {
  return 2 * batch * positions * product(weight);
}

struct ConvSettings {
  Sizes stride, padding, dilation;
  bool transposed = false;
};

// The arguments of a convolution from `first` on.
std::optional<ConvSettings> conv_settings(Inputs inputs, size_t first) {
  if (inputs.size() < first + 4) return std::nullopt;
  for (size_t i = first; i < first + 3; ++i)
    if (!inputs[i].isIntList()) return std::nullopt;
  return ConvSettings{inputs[first].toIntVector(), inputs[first + 1].toIntVector(),
                      inputs[first + 2].toIntVector(), inputs[first + 3].toBool()};
}

// The sizes S of a convolution's output.
Sizes spatial_output(const Sizes& x, const Sizes& weight, const ConvSettings& settings) {
  Sizes output;
  const auto at = [](const Sizes& values, size_t i) {
    return values.size() == 1 ? values[0] : values[i];
  };
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const auto reach = at(settings.dilation, i) * (weight[i + 2] - 1) + 1;
    output.push_back((x[i + 2] + 2 * at(settings.padding, i) - reach) / at(settings.stride, i) + 1);
  }
  return output;
}

// convolution(x [B, C, S], weight [O, C / groups, S], bias, stride, padding, dilation, transposed).
int64_t convolution(Inputs inputs) {
  const auto x = sizes_of(inputs, 0), weight = sizes_of(inputs, 1);
  const auto settings = conv_settings(inputs, 3);
  if (!settings || x.size() < 3 || weight.size() != x.size()) return 0;
  const auto positions =
      settings->transposed ? product(x, 2) : product(spatial_output(x, weight, *settings));
  return conv_flops(x[0], positions, weight);
}

// convolution_backward(grad [B, O, S], x [B, C, S], weight, bias sizes, stride, padding, dilation,
// transposed, output padding, groups, mask): the gradients of x and of the weight, as convolutions.
int64_t convolution_backward(Inputs inputs) {
  constexpr size_t kMask = 10;
  const auto grad = sizes_of(inputs, 0), x = sizes_of(inputs, 1), weight = sizes_of(inputs, 2);
  if (inputs.size() <= kMask || !inputs[7].isBool() || !inputs[kMask].isBoolList() || x.size() < 3)
    return 0;
  const bool transposed = inputs[7].toBool();
  const auto mask = inputs[kMask].toBoolList();
  int64_t flops = 0;
  if (mask.get(0)) flops += conv_flops(grad[0], product(transposed ? x : grad, 2), weight);
  if (mask.get(1))
    flops += 2 * x[1] * product(weight, 2) * grad[0] * grad[1] * product(transposed ? x : grad, 2);
  return flops;
}

// query [B, H, M, D], key [B, H, N, D], value [B, H, N, E]; all pairs count, also with a mask.
struct Attention {
  Attention(Inputs inputs, size_t first)
      : query(sizes_of(inputs, first)),
        key(sizes_of(inputs, first + 1)),
        value(sizes_of(inputs, first + 2)) {}
  bool is_known() const { return query.size() == 4 && key.size() == 4 && value.size() == 4; }
  // `with_d` products over D and `with_e` over E.
  int64_t flops(int64_t with_d, int64_t with_e) const {
    return !is_known() ? 0
                       : 2 * query[0] * query[1] * query[2] * key[2] *
                             (with_d * query[3] + with_e * value[3]);
  }
  Sizes query, key, value;
};

int64_t flops_of(std::string_view name, Inputs inputs) {
  constexpr std::string_view kNamespace = "aten::", kAttention = "_scaled_dot_product_",
                             kBackward = "_backward";
  if (name == models::kGraphRecord)
    return !inputs.empty() && inputs[0].isDouble() ? static_cast<int64_t>(inputs[0].toDouble()) : 0;
  if (!name.starts_with(kNamespace)) return 0;
  name.remove_prefix(kNamespace.size());
  if (name == "mm" || name == "bmm") return matmul_flops(sizes_of(inputs, 0), sizes_of(inputs, 1));
  if (name == "addmm" || name == "baddbmm" || name == "_addmm_activation")
    return matmul_flops(sizes_of(inputs, 1), sizes_of(inputs, 2));
  if (name == "convolution" || name == "convolution_overrideable") return convolution(inputs);
  if (name == "convolution_backward") return convolution_backward(inputs);
  // Of these, _math calls matrix products.
  if (!name.starts_with(kAttention) || name.ends_with("_math")) return 0;
  if (!name.ends_with(kBackward)) return Attention(inputs, 0).flops(1, 1);
  return Attention(inputs, 1).flops(3, 2);  // the scores are computed again
}

struct CountedOperator final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> begin_operator(const at::RecordFunction& function) {
  if (counted_depth > 0) return nullptr;
  const auto flops = flops_of(function.name(), function.inputs());
  if (flops == 0) return nullptr;
  counted_flops += flops;
  if (part_of_thread) *part_of_thread += flops;
  ++counted_depth;
  return std::make_unique<CountedOperator>();
}

void end_operator(const at::RecordFunction&, at::ObserverContext* context) {
  if (context) --counted_depth;
}

// The part before a node of the backward graph.
struct OuterPart final : at::ObserverContext {
  PartCount* part = nullptr;
};

// A node without a part counts for that of the node that runs it: a block that is computed again runs
// a backward pass in its node.
std::unique_ptr<at::ObserverContext> begin_node(const at::RecordFunction& function) {
  auto* const part = all_part_nodes().find(function.forwardThreadId(), function.seqNr());
  if (!part) return nullptr;
  auto outer = std::make_unique<OuterPart>();
  outer->part = std::exchange(part_of_thread, part);
  return outer;
}

void end_node(const at::RecordFunction&, at::ObserverContext* context) {
  if (context) part_of_thread = static_cast<OuterPart&>(*context).part;
}

}  // namespace

FlopCounter::FlopCounter(size_t num_parts)
    : before_(counted_flops),
      parts_(num_parts),
      handle_(at::addGlobalCallback(at::RecordFunctionCallback(begin_operator, end_operator)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION}))),
      backward_handle_(at::addGlobalCallback(at::RecordFunctionCallback(begin_node, end_node)
                                                 .scopes({at::RecordScope::BACKWARD_FUNCTION}))) {}

FlopCounter::~FlopCounter() {
  at::removeCallback(handle_);
  at::removeCallback(backward_handle_);
  all_part_nodes().remove(parts_);
  part_of_thread = nullptr;
}

int64_t FlopCounter::count() const { return counted_flops - before_; }

void FlopCounter::begin_part(size_t part) {
  first_node_ = at::sequence_number::peek();
  part_of_thread = &parts_.at(part);
}

void FlopCounter::end_part() {
  all_part_nodes().add({at::RecordFunction::currentThreadId(), first_node_,
                        at::sequence_number::peek(), part_of_thread});
  part_of_thread = nullptr;
}

}  // namespace lockstep::trainer
