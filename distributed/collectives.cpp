#include "distributed/collectives.h"

#include <fmt/ranges.h>

#include "distributed/fence.h"
#include "distributed/process_groups.h"

namespace lockstep {
namespace {

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return c10d::ReduceOp::SUM;
    case ReduceOp::Min: return c10d::ReduceOp::MIN;
    case ReduceOp::Max: return c10d::ReduceOp::MAX;
  }
  return c10d::ReduceOp::SUM;
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "));
}

template <class Start>
void run(const World& world, const char* kind, const std::string& name, Start&& start,
         const std::string& detail) {
  fenced(
      world, fmt::format("{} '{}'", kind, name), [&] { start()->wait(); }, detail);
}

}  // namespace

void all_reduce(World& world, at::Tensor& tensor, ReduceOp op, const std::string& name) {
  if (!world.is_distributed()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  run(
      world, "all_reduce", name,
      [&] { return world.groups().of(tensor).allreduce(tensors, options); }, describe(tensor));
}

void reduce(World& world, at::Tensor& tensor, ReduceOp op, int root, const std::string& name) {
  if (!world.is_distributed()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::ReduceOptions options;
  options.reduceOp = to_c10d(op);
  options.rootRank = root;
  run(
      world, "reduce", name, [&] { return world.groups().of(tensor).reduce(tensors, options); },
      describe(tensor));
}

void broadcast(World& world, at::Tensor& tensor, int root, const std::string& name) {
  if (!world.is_distributed()) return;
  std::vector<at::Tensor> tensors = {tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  run(
      world, "broadcast", name,
      [&] { return world.groups().of(tensor).broadcast(tensors, options); }, describe(tensor));
}

at::Tensor all_gather(World& world, const at::Tensor& tensor, const std::string& name) {
  if (!world.is_distributed()) return tensor.unsqueeze(0).clone();
  std::vector<at::Tensor> inputs = {tensor.contiguous()};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < world.world_size(); ++rank)
    outputs[0].push_back(at::empty_like(inputs[0]));
  run(
      world, "all_gather", name,
      [&] { return world.groups().of(tensor).allgather(outputs, inputs); }, describe(inputs[0]));
  return at::stack(outputs[0]);
}

void barrier(World& world, const std::string& name,
             std::optional<std::chrono::milliseconds> timeout) {
  if (!world.is_distributed()) return;
  c10d::BarrierOptions options;
  options.timeout = timeout.value_or(world.timeout());
  run(world, "barrier", name,
      [&] {
        // Not ProcessGroup::barrier: it keeps a static tensor, which ranks in one process would
        // share.
        return world.groups().control->getBackend(at::kCPU)->barrier(options);
      },
      {});
}

}  // namespace lockstep
