#include "distributed/backends/shm_backend.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "distributed/backends/process_groups.h"
#include "distributed/collectives.h"
#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

using Op = c10d::ReduceOp::RedOpType;

// Small integers, so that every type and order gives exact results.
at::Tensor numbers(int rank, int64_t count, at::ScalarType type) {
  const auto values = (at::arange(count, at::kLong) * (rank + 2) + rank) % 5;
  return values.to(type);
}

at::Tensor brute_force(int world_size, int64_t count, at::ScalarType type, Op op) {
  auto result = numbers(0, count, type);
  for (int rank = 1; rank < world_size; ++rank) {
    const auto next = numbers(rank, count, type);
    switch (op) {
      case Op::SUM:
      case Op::AVG:
        result = type == at::kBool ? at::logical_or(result, next) : result + next;
        break;
      case Op::PRODUCT:
        result = type == at::kBool ? at::logical_and(result, next) : result * next;
        break;
      case Op::MIN: result = at::minimum(result, next); break;
      case Op::MAX: result = at::maximum(result, next); break;
      case Op::BAND: result = at::bitwise_and(result, next); break;
      case Op::BOR: result = at::bitwise_or(result, next); break;
      default: result = at::bitwise_xor(result, next); break;
    }
  }
  return op == Op::AVG ? result / world_size : result;
}

std::vector<Op> operations_on(at::ScalarType type) {
  if (at::isFloatingType(type)) return {Op::SUM, Op::AVG, Op::PRODUCT, Op::MIN, Op::MAX};
  return {Op::SUM, Op::PRODUCT, Op::MIN, Op::MAX, Op::BAND, Op::BOR, Op::BXOR};
}

const std::vector<at::ScalarType> kTypes = {at::kBool,  at::kByte,  at::kChar, at::kShort,
                                            at::kInt,   at::kLong,  at::kHalf, at::kBFloat16,
                                            at::kFloat, at::kDouble};

at::Tensor all_reduced(World& world, at::Tensor tensor, Op op) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  world.groups().control->allreduce(tensors, options)->wait();
  return tensor;
}

}  // namespace

TEST_CASE("shm backend: every type and operation agrees with a brute-force reference") {
  for (const int world_size : {2, 4}) {
    const auto problems = run_ranks(world_size, [&](World& world) {
      std::string wrong;
      for (const auto type : kTypes)
        for (const auto op : operations_on(type))
          for (const int64_t count : {0, 1, 37, 70'001}) {
            const auto result = all_reduced(world, numbers(world.rank(), count, type), op);
            const auto expected = brute_force(world_size, count, type, op);
            const bool equal = op == Op::AVG ? at::allclose(result, expected, 1e-2, 1e-2)
                                             : at::equal(result, expected);
            if (!equal) wrong += std::string(c10::toString(type)) + " " + std::to_string(op) + ", ";
          }
      return wrong;
    });
    for (const auto& text : problems) CHECK(text == "");
  }
}

TEST_CASE("shm backend: sums are bit-identical to Gloo's, for any number of ranks") {
  for (const int world_size : {2, 3, 4, 5}) {
    const auto sums = [&](BackendChoice backend) {
      return run_ranks(
          world_size,
          [](World& world) {
            std::vector<at::Tensor> results;
            for (const int64_t count : {1, 10, 1000, 99'991, 1'500'000}) {
              at::manual_seed(static_cast<uint64_t>(100 + world.rank()));
              const auto generator = at::arange(count, at::kDouble) * (world.rank() + 1.37);
              results.push_back(all_reduced(world, generator.sin().to(at::kFloat), Op::SUM));
              results.push_back(all_reduced(world, generator.cos(), Op::SUM));
            }
            return results;
          },
          backend);
    };
    const auto ours = sums(BackendChoice::Shm), gloos = sums(BackendChoice::Gloo);
    for (size_t i = 0; i < ours[0].size(); ++i) {
      CHECK(at::equal(ours[0][i], gloos[0][i]));
      CHECK(at::equal(ours.back()[i], gloos[0][i]));
    }
  }
}

TEST_CASE("shm backend: non-contiguous tensors, and types without reductions") {
  const auto results = run_ranks(3, [](World& world) {
    auto base = at::full({4, 6}, world.rank() + 1, at::kFloat);
    auto column = base.t();
    all_reduced(world, column, Op::SUM);
    auto every_second = at::full({10}, world.rank(), at::kComplexFloat).slice(0, 0, 10, 2);
    broadcast(world, every_second, 2, "strided");
    return std::pair{base, every_second};
  });
  for (const auto& [base, received] : results) {
    CHECK(at::equal(base, at::full({4, 6}, 6.0f)));
    CHECK(at::equal(received, at::full({5}, 2, at::kComplexFloat)));
  }
}

TEST_CASE("shm backend: many collectives are started before the first wait") {
  const auto results = run_ranks(3, [](World& world) {
    std::vector<std::vector<at::Tensor>> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> pending;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back({at::full({1000 + i}, world.rank() + i, at::kInt)});
      pending.push_back(world.groups().control->allreduce(tensors.back()));
    }
    int wrong = 0;
    for (int i = 99; i >= 0; --i) {
      pending[static_cast<size_t>(i)]->wait();
      wrong +=
          !at::equal(tensors[static_cast<size_t>(i)][0], at::full({1000 + i}, 3 + 3 * i, at::kInt));
    }
    return wrong;
  });
  CHECK(results == std::vector<int>{0, 0, 0});
}

TEST_CASE("shm backend: reduce_scatter, gathers and coalesced variants") {
  const auto results = run_ranks(2, [](World& world) {
    auto& group = *world.groups().control;
    const auto rank = world.rank();
    auto part = at::empty({3}), all = at::empty({2, 2}), own = at::full({2}, rank, at::kFloat);
    auto input = at::arange(6, at::kFloat) * (rank + 1);
    group._reduce_scatter_base(part, input)->wait();
    group._allgather_base(all, own)->wait();
    std::vector<at::Tensor> several = {at::full({3}, rank), at::full({2}, rank + 1)};
    group.allreduce_coalesced(several)->wait();
    std::vector<at::Tensor> parts = {at::empty({2}), at::empty({2})}, inputs = {own};
    std::vector<std::vector<at::Tensor>> lists = {parts};
    group.allgather(lists, inputs)->wait();
    std::vector<at::Tensor> sum = {at::empty({2})};
    std::vector<std::vector<at::Tensor>> addends = {
        {at::full({2}, rank + 1.0), at::full({2}, 10.0 * (rank + 1))}};
    addends[0][0] = addends[0][0].to(at::kFloat), addends[0][1] = addends[0][1].to(at::kFloat);
    group.reduce_scatter(sum, addends)->wait();
    return std::vector{part, all, several[0], several[1], parts[1], sum[0]};
  });
  CHECK(at::equal(results[0][0], at::tensor({0.0f, 3.0f, 6.0f})));
  CHECK(at::equal(results[1][0], at::tensor({9.0f, 12.0f, 15.0f})));
  for (const auto& result : results) {
    CHECK(at::equal(result[1], at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).view({2, 2})));
    CHECK(result[2].eq(1).all().item<bool>());
    CHECK(result[3].eq(3).all().item<bool>());
    CHECK(at::equal(result[4], at::ones({2})));
  }
  CHECK(at::equal(results[0][5], at::full({2}, 3.0f)));
  CHECK(at::equal(results[1][5], at::full({2}, 30.0f)));
}

TEST_CASE("shm backend: unsupported operations throw before waiting for a peer") {
  run_ranks(2, [](World& world) {
    auto complex = at::zeros({2}, at::kComplexFloat);
    std::string text;
    try {
      all_reduced(world, complex, Op::SUM);
    } catch (const std::exception& error) {
      text = error.what();
    }
    check(text.find("not supported for ComplexFloat tensors") != std::string::npos,
          ("unexpected error: " + text).c_str());
    return 0;
  });
}

TEST_CASE("shm backend: a collective mismatch is an error that names both calls") {
  const RendezvousDirectory directory;
  const auto errors = run_threads(2, [&](int rank) {
    const auto connected = World::connect(rank_options(rank, 2, directory));
    auto& world = *connected;
    auto tensor = at::zeros({4});
    if (rank == 0) all_reduce(world, tensor, ReduceOp::Sum, "gradients");
    if (rank == 1) broadcast(world, tensor, 0, "weights");
  });
  CHECK_THROWS_AS(std::rethrow_exception(errors[0]), PeerError);
  CHECK_THAT(text_of(errors[0]),
             Catch::Contains("all_reduce 'gradients': rank 0 of 2") &&
                 Catch::Contains("rank 1 called broadcast of 4 float32 with root 0"));
}
