#include "distributed/backends/shm_backend.h"

#include <ATen/ATen.h>

#include <utility>

#include "distributed/backends/done_work.h"

namespace lockstep::distributed {
namespace {

// Smaller tensors gain nothing: all_reduce copies them through the slots.
constexpr size_t kMinSymmetricBytes = 256 << 10;

using Tensors = ShmBackend::Tensors;

ShmBackend::Pending done(c10d::OpType type, Tensors results = {}) {
  return c10::make_intrusive<DoneWork>(type, std::move(results));
}

shm::ElementType element_type(const at::Tensor& tensor) {
  return element_type_of(tensor.scalar_type());
}

shm::Reduction reduction(const c10d::ReduceOp& op) {
  using Op = c10d::ReduceOp::RedOpType;
  switch (static_cast<Op>(op)) {
    case Op::SUM: return shm::Reduction::Sum;
    case Op::AVG: return shm::Reduction::Average;
    case Op::PRODUCT: return shm::Reduction::Product;
    case Op::MIN: return shm::Reduction::Min;
    case Op::MAX: return shm::Reduction::Max;
    case Op::BAND: return shm::Reduction::BitAnd;
    case Op::BOR: return shm::Reduction::BitOr;
    case Op::BXOR: return shm::Reduction::BitXor;
    default: return shm::Reduction::None;
  }
}

shm::Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const auto result = reduction(op);
  TORCH_CHECK(shm::is_defined(result, element_type(tensor)),
              "shared memory: this reduction is not supported for ", tensor.scalar_type(),
              " tensors");
  return result;
}

void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.layout() == at::kStrided,
              "shared memory: expected a dense CPU tensor");
}

at::Tensor& only(Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "shared memory: expected one tensor, got ", tensors.size());
  check_tensor(tensors[0]);
  return tensors[0];
}

// A contiguous view of `tensor`: itself, or a copy, which write_back() copies back.
class Contiguous {
 public:
  explicit Contiguous(const at::Tensor& tensor) : tensor_(tensor), dense_(tensor.contiguous()) {}

  std::byte* data() const { return static_cast<std::byte*>(dense_.data_ptr()); }
  shm::Array array() const {
    const auto type = element_type(dense_);
    return {data(), type == shm::ElementType::Bytes ? dense_.nbytes() : size_t(dense_.numel()),
            type};
  }
  void write_back() {
    if (!dense_.is_same(tensor_)) tensor_.copy_(dense_);
  }

 private:
  at::Tensor tensor_, dense_;
};

std::vector<Contiguous> contiguous(const Tensors& tensors, const at::Tensor& like) {
  std::vector<Contiguous> all;
  for (const auto& tensor : tensors) {
    check_tensor(tensor);
    TORCH_CHECK(tensor.numel() == like.numel() && tensor.scalar_type() == like.scalar_type(),
                "shared memory: expected parts of the same size and type as the rank's own tensor");
    all.emplace_back(tensor);
  }
  return all;
}

std::vector<std::byte*> pointers(const std::vector<Contiguous>& parts) {
  std::vector<std::byte*> all;
  for (const auto& part : parts) all.push_back(part.data());
  return all;
}

std::vector<const std::byte*> const_pointers(const std::vector<Contiguous>& parts) {
  std::vector<const std::byte*> all;
  for (const auto& part : parts) all.push_back(part.data());
  return all;
}

const Tensors& parts_of(const std::vector<Tensors>& parts, int num_ranks) {
  TORCH_CHECK(parts.size() == 1 && parts[0].size() == static_cast<size_t>(num_ranks),
              "shared memory: expected one list with one tensor per rank");
  return parts[0];
}

}  // namespace

shm::ElementType element_type_of(at::ScalarType type) {
  using Type = shm::ElementType;
  switch (type) {
    case at::kBool: return Type::Bool;
    case at::kByte: return Type::UInt8;
    case at::kChar: return Type::Int8;
    case at::kShort: return Type::Int16;
    case at::kInt: return Type::Int32;
    case at::kLong: return Type::Int64;
    case at::kHalf: return Type::Float16;
    case at::kBFloat16: return Type::BFloat16;
    case at::kFloat: return Type::Float32;
    case at::kDouble: return Type::Float64;
    default: return Type::Bytes;
  }
}

ShmBackend::ShmBackend(std::unique_ptr<shm::Group> group, std::chrono::milliseconds timeout)
    : Backend(group->rank(), group->num_ranks()), group_(std::move(group)), timeout_(timeout) {}

shm::Clock::time_point ShmBackend::deadline(std::chrono::milliseconds timeout) const {
  return shm::Clock::now() + (timeout == c10d::kUnsetTimeout ? timeout_ : timeout);
}

ShmBackend::Pending ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const MutexLock lock(one_at_a_time_);
  const at::NoGradGuard no_grad;
  Contiguous tensor(only(tensors));
  group_->broadcast(tensor.array(), static_cast<int>(options.rootRank), deadline(options.timeout));
  tensor.write_back();
  return done(c10d::OpType::BROADCAST, tensors);
}

void ShmBackend::reduce_by(shm::Clock::time_point latest, at::Tensor& tensor,
                           const c10d::ReduceOp& op) {
  check_tensor(tensor);
  const at::NoGradGuard no_grad;
  Contiguous dense(tensor);
  group_->all_reduce(dense.array(), reduction_of(op, tensor), latest);
  dense.write_back();
}

ShmBackend::Pending ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const MutexLock lock(one_at_a_time_);
  reduce_by(deadline(options.timeout), only(tensors), options.reduceOp);
  return done(c10d::OpType::ALLREDUCE, tensors);
}

ShmBackend::Pending ShmBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const MutexLock lock(one_at_a_time_);
  for (auto& tensor : tensors) reduce_by(deadline(options.timeout), tensor, options.reduceOp);
  return done(c10d::OpType::ALLREDUCE_COALESCED, tensors);
}

ShmBackend::Pending ShmBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const MutexLock lock(one_at_a_time_);
  const at::NoGradGuard no_grad;
  Contiguous tensor(only(tensors));
  group_->reduce(tensor.array(), reduction_of(options.reduceOp, tensors[0]),
                 static_cast<int>(options.rootRank), deadline(options.timeout));
  if (options.rootRank == rank_) tensor.write_back();
  return done(c10d::OpType::REDUCE, tensors);
}

ShmBackend::Pending ShmBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  const MutexLock lock(one_at_a_time_);
  const at::NoGradGuard no_grad;
  const Contiguous in(only(inputs));
  auto parts = contiguous(parts_of(outputs, size_), inputs[0]);
  group_->all_gather(in.array(), pointers(parts), deadline(options.timeout));
  for (auto& part : parts) part.write_back();
  return done(c10d::OpType::ALLGATHER, outputs[0]);
}

void ShmBackend::gather_rows(at::Tensor& output, const at::Tensor& input,
                             shm::Clock::time_point latest) {
  check_tensor(input);
  check_tensor(output);
  TORCH_CHECK(
      output.numel() == input.numel() * size_ && output.scalar_type() == input.scalar_type(),
      "shared memory: output size does not match the inputs of all ranks");
  const at::NoGradGuard no_grad;
  const Contiguous in(input);
  Contiguous all(output);
  std::vector<std::byte*> rows;
  for (int rank = 0; rank < size_; ++rank)
    rows.push_back(all.data() + static_cast<size_t>(rank) * input.nbytes());
  group_->all_gather(in.array(), rows, latest);
  all.write_back();
}

ShmBackend::Pending ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& options) {
  const MutexLock lock(one_at_a_time_);
  gather_rows(output, input, deadline(options.timeout));
  return done(c10d::OpType::_ALLGATHER_BASE, {output});
}

ShmBackend::Pending ShmBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const MutexLock lock(one_at_a_time_);
  for (size_t i = 0; i < outputs.size(); ++i)
    gather_rows(outputs[i], inputs.at(i), deadline(options.timeout));
  return done(c10d::OpType::COALESCED, outputs);
}

ShmBackend::Pending ShmBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const c10d::GatherOptions& options) {
  const MutexLock lock(one_at_a_time_);
  const at::NoGradGuard no_grad;
  const Contiguous in(only(inputs));
  const bool is_root = options.rootRank == rank_;
  auto parts =
      is_root ? contiguous(parts_of(outputs, size_), inputs[0]) : std::vector<Contiguous>();
  group_->gather(in.array(), pointers(parts), static_cast<int>(options.rootRank),
                 deadline(options.timeout));
  for (auto& part : parts) part.write_back();
  return done(c10d::OpType::GATHER, is_root ? outputs[0] : Tensors());
}

ShmBackend::Pending ShmBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                        const c10d::ScatterOptions& options) {
  const MutexLock lock(one_at_a_time_);
  const at::NoGradGuard no_grad;
  Contiguous out(only(outputs));
  const bool is_root = options.rootRank == rank_;
  const auto parts =
      is_root ? contiguous(parts_of(inputs, size_), outputs[0]) : std::vector<Contiguous>();
  group_->scatter(const_pointers(parts), out.array(), static_cast<int>(options.rootRank),
                  deadline(options.timeout));
  out.write_back();
  return done(c10d::OpType::SCATTER, outputs);
}

void ShmBackend::scatter_sums(at::Tensor& output, const Tensors& inputs, const c10d::ReduceOp& op,
                              shm::Clock::time_point latest) {
  check_tensor(output);
  const at::NoGradGuard no_grad;
  Contiguous out(output);
  const auto parts = contiguous(inputs, output);
  group_->reduce_scatter(const_pointers(parts), out.array(), reduction_of(op, output), latest);
  out.write_back();
}

ShmBackend::Pending ShmBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const MutexLock lock(one_at_a_time_);
  scatter_sums(only(outputs), parts_of(inputs, size_), options.reduceOp, deadline(options.timeout));
  return done(c10d::OpType::REDUCE_SCATTER, outputs);
}

ShmBackend::Pending ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  const MutexLock lock(one_at_a_time_);
  scatter_sums(output, input.contiguous().view({-1}).chunk(size_), options.reduceOp,
               deadline(options.timeout));
  return done(c10d::OpType::_REDUCE_SCATTER_BASE, {output});
}

ShmBackend::Pending ShmBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const MutexLock lock(one_at_a_time_);
  for (size_t i = 0; i < outputs.size(); ++i)
    scatter_sums(outputs[i], inputs.at(i).contiguous().view({-1}).chunk(size_), options.reduceOp,
                 deadline(options.timeout));
  return done(c10d::OpType::COALESCED, outputs);
}

ShmBackend::Pending ShmBackend::barrier(const c10d::BarrierOptions& options) {
  const MutexLock lock(one_at_a_time_);
  group_->barrier(deadline(options.timeout));
  return done(c10d::OpType::BARRIER);
}

void ShmBackend::reduce_to_all(at::Tensor& tensor, const c10d::ReduceOp& op) {
  const MutexLock lock(one_at_a_time_);
  reduce_by(deadline(c10d::kUnsetTimeout), tensor, op);
}

void ShmBackend::gather_chunks(at::Tensor& whole) {
  const MutexLock lock(one_at_a_time_);
  group_->all_gather_chunks(Contiguous(whole).array(), deadline(c10d::kUnsetTimeout));
}

std::shared_ptr<shm::SymmetricBuffer> ShmBackend::allocate(size_t bytes) {
  const MutexLock lock(one_at_a_time_);
  return group_->allocate(bytes, deadline(c10d::kUnsetTimeout));
}

std::shared_ptr<const shm::Segment> ShmBackend::allocate_per_host(size_t bytes) {
  const MutexLock lock(one_at_a_time_);
  return shm::allocate_per_host(*group_, bytes, deadline(c10d::kUnsetTimeout));
}

at::Tensor ShmBackend::allocateTensor(long size, at::TensorOptions options) {
  const auto bytes = static_cast<size_t>(size) * options.dtype().itemsize();
  const auto buffer = bytes < kMinSymmetricBytes ? nullptr : allocate(bytes);
  if (!buffer) return at::empty({size}, options);
  return at::from_blob(
      buffer->data(), {size}, [buffer](void*) {}, options);
}

}  // namespace lockstep::distributed
