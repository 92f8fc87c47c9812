#include "distributed/backends/hierarchical_backend.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "distributed/backends/backends.h"
#include "distributed/collectives.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

using Op = c10d::ReduceOp::RedOpType;
using Backend = c10::intrusive_ptr<c10d::Backend>;

// Ranks are threads; hosts are distinguished by the given names.
template <class Body>
std::vector<at::Tensor> run_on_hosts(const std::vector<std::string>& hosts, Body&& body) {
  const RendezvousDirectory directory;
  const int world_size = static_cast<int>(hosts.size());
  std::vector<at::Tensor> results(hosts.size());
  const auto errors = run_threads(world_size, [&](int rank) {
    auto store = c10::make_intrusive<c10d::FileStore>(directory.store().string(), world_size);
    auto backend = make_hierarchical_backend(store, {.rank = rank,
                                                     .world_size = world_size,
                                                     .timeout = std::chrono::seconds(20),
                                                     .address = "127.0.0.1",
                                                     .host = hosts[static_cast<size_t>(rank)]});
    results[static_cast<size_t>(rank)] = body(*backend, rank);
    backend->barrier(c10d::BarrierOptions())->wait();
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return results;
}

at::Tensor all_reduced(c10d::Backend& backend, at::Tensor tensor, Op op) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  backend.allreduce(tensors, options)->wait();
  return tensor;
}

at::Tensor numbers(int rank) { return (at::arange(1000, at::kFloat) * (rank + 2) + rank) / 7; }

const std::vector<std::vector<std::string>> kLayouts = {
    {"a", "a", "b", "b"},       // two hosts of two
    {"a", "b", "a", "b"},       // the same, interleaved
    {"a", "a", "a", "b"},       // one rank alone on its host
    {"a", "b", "c"},            // no shared host
    {"a", "a", "a"},            // one host
    {"", "", "b", "b"},         // no identity: alone
    {"a", "a", "b", "b", "c"},  // three hosts
};

}  // namespace

TEST_CASE("hierarchical: sums, means, minima and maxima are correct for every layout of hosts") {
  for (const auto& hosts : kLayouts) {
    const int world_size = static_cast<int>(hosts.size());
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < world_size; ++rank) all.push_back(numbers(rank));
    const auto stacked = at::stack(all);
    for (const auto op : {Op::SUM, Op::AVG, Op::MIN, Op::MAX}) {
      const auto expected = op == Op::SUM   ? stacked.sum(0)
                            : op == Op::AVG ? stacked.mean(0)
                            : op == Op::MIN ? stacked.amin(0)
                                            : stacked.amax(0);
      const auto results = run_on_hosts(hosts, [&](c10d::Backend& backend, int rank) {
        return all_reduced(backend, numbers(rank), op);
      });
      for (const auto& result : results) {
        CHECK(at::allclose(result, expected, 1e-6, 1e-4));
        CHECK(at::equal(result, results[0]));  // the same bits everywhere
      }
    }
  }
}

TEST_CASE("hierarchical: sums are computed in the documented order") {
  // Large and small numbers: (big + 1) + (-big + 1) loses both ones, big - big + 1 + 1 does not.
  const std::vector<float> values = {1e8F, 1.F, -1e8F, 1.F};
  const auto results = run_on_hosts({"a", "a", "b", "b"}, [&](c10d::Backend& backend, int rank) {
    return all_reduced(backend, at::full({8}, values[static_cast<size_t>(rank)]), Op::SUM);
  });
  for (const auto& result : results) CHECK(at::equal(result, at::zeros({8})));
  const auto other = run_on_hosts({"a", "b", "a", "b"}, [&](c10d::Backend& backend, int rank) {
    return all_reduced(backend, at::full({8}, values[static_cast<size_t>(rank)]), Op::SUM);
  });
  for (const auto& result : other) CHECK(at::equal(result, at::full({8}, 2.F)));
}

TEST_CASE("hierarchical: many pending all-reduces complete in the order in which they started") {
  const auto results = run_on_hosts({"a", "a", "b", "b"}, [](c10d::Backend& backend, int rank) {
    std::vector<at::Tensor> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(at::full({100 + 10 * i}, float(rank + i)));
      std::vector<at::Tensor> one = {tensors.back()};
      works.push_back(backend.allreduce(one, {}));
    }
    works.back()->wait();
    at::Tensor sums = at::zeros({50});
    for (int i = 0; i < 50; ++i) {
      if (!works[static_cast<size_t>(i)]->isCompleted())
        throw std::runtime_error(fmt::format("all-reduce {} is not complete after a later one", i));
      sums[i] = tensors[static_cast<size_t>(i)][0];
    }
    return sums;
  });
  for (const auto& sums : results) CHECK(at::equal(sums, 6 + 4 * at::arange(50)));
}

TEST_CASE("hierarchical: a World with this backend trains, votes and finishes") {
  const auto sums = run_ranks(
      3,
      [](World& world) {
        auto tensor = at::full({3}, double(world.rank() + 1));
        all_reduce(world, tensor, ReduceOp::Sum, "test");
        broadcast(world, tensor, 2, "test");
        return world.backend() == BackendChoice::Hierarchical ? tensor.sum().item<double>() : -1;
      },
      BackendChoice::Hierarchical);
  CHECK(sums == std::vector<double>{18, 18, 18});
}

TEST_CASE("hierarchical: a missing leader is an error on every rank, not a hang") {
  const RendezvousDirectory directory;
  std::vector<std::string> hosts = {"a", "a", "b", "b"};
  const auto errors = run_threads(4, [&](int rank) {
    auto store = c10::make_intrusive<c10d::FileStore>(directory.store().string(), 4);
    auto backend = make_hierarchical_backend(store, {.rank = rank,
                                                     .world_size = 4,
                                                     .timeout = std::chrono::seconds(20),
                                                     .address = "127.0.0.1",
                                                     .host = hosts[static_cast<size_t>(rank)]});
    backend->setTimeout(std::chrono::milliseconds(300));
    if (rank != 2) all_reduced(*backend, at::ones({4}), Op::SUM);
  });
  CHECK(text_of(errors[2]).empty());
  for (const int rank : {0, 1, 3}) CHECK_FALSE(text_of(errors[static_cast<size_t>(rank)]).empty());
  CHECK_THAT(text_of(errors[3]), Catch::Contains("among the ranks of this host"));
}
