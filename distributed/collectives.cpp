#include "distributed/collectives.h"

#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/torch_versions.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return c10d::ReduceOp::SUM;
    case ReduceOp::Min: return c10d::ReduceOp::MIN;
    case ReduceOp::Max: return c10d::ReduceOp::MAX;
  }
  return c10d::ReduceOp::SUM;
}

// A short text without heap allocation, for the collectives of a step. Truncates what does not fit.
class ShortText {
 public:
  template <class... Args>
  explicit ShortText(fmt::format_string<Args...> format, Args&&... args)
      : size_(std::min(
            sizeof(text_),
            fmt::format_to_n(text_, sizeof(text_), format, std::forward<Args>(args)...).size)) {}
  operator std::string_view() const { return {text_, size_}; }

 private:
  char text_[160];
  size_t size_;
};

ShortText describe(const at::Tensor& tensor) {
  return ShortText("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

template <class Start>
void run(const World& world, const char* kind, std::string_view name, Start&& start,
         std::string_view detail) {
  fenced(
      world, ShortText("{} '{}'", kind, name), [&] { start()->wait(); }, detail);
}

// Note [Small arrays over Gloo]: its all_gather passes messages around a ring, one after the other. If
// ranks send a small array to all others instead, all messages are sent at once: with 8 ranks on 2
// cores, 5 ms instead of 12 for 1 KiB.
constexpr size_t kMaxSmallBytes = 16384;

bool is_small_over_gloo(World& world, const at::Tensor& own) {
  return own.is_cpu() && own.nbytes() <= kMaxSmallBytes &&
         world.groups().control->getBackendType() == c10d::ProcessGroup::BackendType::GLOO;
}

}  // namespace

void all_reduce(World& world, at::Tensor& tensor, ReduceOp op, std::string_view name) {
  if (!world.is_distributed()) return;
  check(tensor.is_non_overlapping_and_dense(), "all_reduce: the tensor has gaps");
  const auto& shared = world.groups().shared;
  if (shared && tensor.is_cpu()) {  // bypasses c10d's dispatcher, which dominates for small arrays
    fenced(
        world, ShortText("all_reduce '{}'", name),
        [&] { shared->reduce_to_all(tensor, to_c10d(op)); }, describe(tensor));
    return;
  }
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  run(
      world, "all_reduce", name,
      [&] { return world.groups().of(tensor).allreduce(tensors, options); }, describe(tensor));
}

void reduce(World& world, at::Tensor& tensor, ReduceOp op, int root, std::string_view name) {
  if (!world.is_distributed()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::ReduceOptions options;
  options.reduceOp = to_c10d(op);
  options.rootRank = root;
  run(
      world, "reduce", name, [&] { return world.groups().of(tensor).reduce(tensors, options); },
      describe(tensor));
}

void broadcast(World& world, at::Tensor& tensor, int root, std::string_view name) {
  if (!world.is_distributed()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  run(
      world, "broadcast", name,
      [&] { return world.groups().of(tensor).broadcast(tensors, options); }, describe(tensor));
}

at::Tensor shared_empty(World& world, at::IntArrayRef sizes, at::ScalarType type) {
  const auto& shared = world.groups().shared;
  if (!shared) return at::empty(sizes, type);
  return fenced(world, "shared memory", [&] {
    return shared->allocateTensor(c10::multiply_integers(sizes), type).view(sizes);
  });
}

at::Tensor per_host_zeros(World& world, at::IntArrayRef sizes, at::ScalarType type) {
  const auto& shared = world.groups().shared;
  check(shared != nullptr, "ranks do not share memory");
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
  auto memory = fenced(world, "shared memory", [&] { return shared->allocate_per_host(bytes); });
  if (!memory)
    throw environment_error(fmt::format(
        "distributed.shard: a rank cannot reserve its part of {} bytes of shared memory", bytes));
  auto* const data = memory->data();
  return at::from_blob(
      data, sizes, [memory = std::move(memory)](void*) {}, type);
}

at::Tensor all_gather(World& world, const at::Tensor& tensor, std::string_view name) {
  auto sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), world.world_size());
  auto whole = at::empty(sizes, tensor.options());
  whole[world.rank()].copy_(tensor);
  all_gather_chunks(world, whole, name);
  return whole;
}

void all_gather_chunks(World& world, at::Tensor& whole, std::string_view name) {
  if (!world.is_distributed()) return;
  const auto& shared = world.groups().shared;
  if (shared && whole.is_cpu()) {
    fenced(
        world, ShortText("all_gather '{}'", name), [&] { shared->gather_chunks(whole); },
        describe(whole));
    return;
  }
  auto flat = whole.view({-1});
  const auto count = flat.numel() / world.world_size();
  auto own = flat.narrow(0, world.rank() * count, count).clone();
  const auto start = [&] {
    if (!is_small_over_gloo(world, own)) return gather_into(world.groups().of(flat), flat, own);
    auto copies = own.repeat({world.world_size()});
    std::vector<int64_t> equal;
    return exchange_parts(*world.groups().control, flat, copies, equal, equal);
  };
  run(world, "all_gather", name, start, describe(whole));
}

at::Tensor all_to_all(World& world, const at::Tensor& tensor, const Exchange& exchange,
                      std::string_view name) {
  auto sent = exchange.sent, received = exchange.received;
  auto input = tensor;
  auto output =
      at::empty({received.empty() ? tensor.numel()
                                  : std::accumulate(received.begin(), received.end(), int64_t{0})},
                tensor.options());
  run(
      world, "all_to_all", name,
      [&] { return exchange_parts(world.groups().of(tensor), output, input, received, sent); },
      describe(tensor));
  return output;
}

void barrier(World& world, std::string_view name,
             std::optional<std::chrono::milliseconds> timeout) {
  if (!world.is_distributed()) return;
  c10d::BarrierOptions options;
  options.timeout = timeout.value_or(world.timeout());
  run(world, "barrier", name,
      [&] {
        // Not ProcessGroup::barrier: ranks in one process would share its static tensor.
        return world.groups().control->getBackend(at::kCPU)->barrier(options);
      },
      {});
}

}  // namespace lockstep::distributed
