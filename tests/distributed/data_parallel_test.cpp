#include "lockstep/data_parallel.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

// y = layer(x), with a buffer and, optionally, a parameter that the forward pass does not use.
struct Net : torch::nn::Module {
  explicit Net(int64_t width, bool with_unused = false) : layer(torch::nn::Linear(width, 2)) {
    register_module("layer", layer);
    offset = register_buffer("offset", at::zeros({2}));
    if (with_unused) register_parameter("unused", at::zeros({3}));
  }
  at::Tensor loss(const at::Tensor& x) { return (layer->forward(x) + offset).pow(2).mean(); }

  torch::nn::Linear layer{nullptr};
  at::Tensor offset;
};

at::Tensor samples(int rank) { return at::arange(8, at::kFloat).view({2, 4}) * 0.1 + rank; }

// Values whose sum depends on the order of summation.
at::Tensor waves(int rank, int step, int64_t width = 4001) {
  return (at::arange(2 * width, at::kFloat).view({2, width}) * (0.37 * (rank + 1) + step)).sin();
}

constexpr int64_t kWideEnough = 200'003;  // for gradients in the symmetric buffer

struct BitsCase {
  int world_size;
  int64_t width;
};

void fill(Net& net, double value) {
  const at::NoGradGuard no_grad;
  net.layer->weight.fill_(value);
  net.layer->bias.fill_(value);
  net.offset.fill_(value);
}

}  // namespace

TEST_CASE(
    "data parallel: parameters and buffers are broadcast from rank 0, gradients are the mean over "
    "ranks") {
  for (const auto& config :
       {DataParallelConfig{}, DataParallelConfig{.gradient_as_bucket_view = true},
        DataParallelConfig{.shard = ShardStrategy::Gradients},
        DataParallelConfig{.shard = ShardStrategy::Full},
        DataParallelConfig{.static_graph = true}}) {
    const auto results = run_ranks(2, [&](World& world) {
      Net net(4);
      fill(net, world.rank() == 0 ? 0.5 : 9);
      const auto parallel = DataParallel::create(world, net, config);
      at::Tensor first;  // a static graph's first step differs
      for (int step = 0; step < 3; ++step) {
        parallel->zero_gradients();
        parallel->before_forward(true);
        parallel->backward(net.loss(samples(world.rank())), true);
        if (step == 0) first = net.layer->weight.grad().clone();
      }
      return std::tuple{net.layer->weight.detach(), net.offset, net.layer->weight.grad().clone(),
                        first};
    });
    Net reference(4);
    fill(reference, 0.5);
    ((reference.loss(samples(0)) + reference.loss(samples(1))) / 2).backward();
    for (const auto& [weight, offset, gradient, first] : results) {
      CHECK(at::allclose(first, reference.layer->weight.grad()));
      CHECK(at::equal(weight, at::full({2, 4}, 0.5)));
      CHECK(at::equal(offset, at::full({2}, 0.5)));
      CHECK(at::allclose(gradient, reference.layer->weight.grad()));
    }
    CHECK(at::equal(std::get<2>(results[0]), std::get<2>(results[1])));
  }
}

TEST_CASE("data parallel: shared-memory averages are bit-identical to the Reducer over Gloo") {
  for (const BitsCase& with : {BitsCase{2, 4001}, BitsCase{3, 4001}, BitsCase{4, 4001},
                               BitsCase{2, kWideEnough}, BitsCase{3, kWideEnough}}) {
    const auto gradients = [&](BackendChoice backend, ShardStrategy shard = ShardStrategy::None) {
      return run_ranks(
          with.world_size,
          [&](World& world) {
            Net net(with.width);
            fill(net, 0.25);
            // Several buckets, so that the order matters.
            const auto parallel =
                DataParallel::create(world, net, {.bucket_cap_mb = 0.001, .shard = shard});
            std::vector<at::Tensor> seen;
            for (int step = 0; step < 3; ++step) {
              parallel->zero_gradients();
              parallel->before_forward(true);
              parallel->backward(net.loss(waves(world.rank(), step, with.width)), true);
              seen.push_back(net.layer->weight.grad().clone());
              seen.push_back(net.layer->bias.grad().clone());
            }
            return seen;
          },
          backend);
    };
    const auto reduced = gradients(BackendChoice::Gloo);
    for (const auto shard : {ShardStrategy::None, ShardStrategy::Gradients, ShardStrategy::Full}) {
      CAPTURE(name_of(shard));
      const auto shared = gradients(BackendChoice::Shm, shard);
      for (size_t rank = 0; rank < shared.size(); ++rank)
        for (size_t i = 0; i < shared[rank].size(); ++i)
          CHECK(at::equal(shared[rank][i], reduced[0][i]));
    }
  }
}

TEST_CASE("data parallel: gradients in the symmetric buffer accumulate in place and stay there") {
  const auto gradients = [](BackendChoice backend, const DataParallelConfig& config) {
    return run_ranks(
        2,
        [&](World& world) {
          Net net(kWideEnough);
          fill(net, 0.25);
          const auto parallel = DataParallel::create(world, net, config);
          std::vector<at::Tensor> seen;
          const auto pass = [&](int step, bool synchronize) {
            parallel->before_forward(synchronize);
            parallel->backward(net.loss(waves(world.rank(), step, kWideEnough)), synchronize);
            seen.push_back(net.layer->weight.grad().clone());
            seen.push_back(net.layer->bias.grad().clone());
          };
          pass(0, true);
          pass(1, true);  // on top of the mean
          parallel->zero_gradients();
          pass(2, false);
          const auto* const place = net.layer->weight.grad().const_data_ptr();
          pass(3, true);
          const bool has_stayed = net.layer->weight.grad().const_data_ptr() == place;
          return std::pair{seen, has_stayed};
        },
        backend);
  };
  const auto expected = gradients(BackendChoice::Gloo, {.bucket_cap_mb = 0.001});
  for (const auto& config :
       {DataParallelConfig{.bucket_cap_mb = 0.001},
        DataParallelConfig{.bucket_cap_mb = 0.001, .gradient_as_bucket_view = true},
        DataParallelConfig{.bucket_cap_mb = 0.001, .shard = ShardStrategy::Gradients}}) {
    const auto found = gradients(BackendChoice::Shm, config);
    for (size_t rank = 0; rank < 2; ++rank) {
      CHECK((found[rank].second || config.shard != ShardStrategy::None));
      for (size_t i = 0; i < expected[rank].first.size(); ++i)
        CHECK(at::equal(found[rank].first[i], expected[rank].first[i]));
    }
  }
}

TEST_CASE("data parallel: gradients after a resume are bit-identical to an uninterrupted run") {
  struct Way {
    BackendChoice backend;
    DataParallelConfig config;
    int64_t width = 4001;
  };
  const std::vector<Way> ways = {
      {BackendChoice::Shm, {.bucket_cap_mb = 0.001}},
      {BackendChoice::Shm, {.bucket_cap_mb = 0.001}, kWideEnough},
      {BackendChoice::Gloo, {.bucket_cap_mb = 0.001}},
      {BackendChoice::Gloo, {.bucket_cap_mb = 0.001, .static_graph = true}},
      {BackendChoice::Gloo,
       {.bucket_cap_mb = 0.001, .gradient_compression = GradientCompression::Bf16}},
      {BackendChoice::Shm,
       {.bucket_cap_mb = 0.001, .gradient_compression = GradientCompression::Fp16}},
      {BackendChoice::Gloo, {.bucket_cap_mb = 0.001, .gradient_as_bucket_view = true}},
      {BackendChoice::Gloo, {.bucket_cap_mb = 0.001, .find_unused_parameters = true}}};
  for (const auto& way : ways) {
    const auto gradients = [&](int first, const std::vector<std::string>& order) {
      return run_ranks(
          3,
          [&](World& world) {
            Net net(way.width);
            fill(net, 0.25);
            const auto parallel = DataParallel::create(world, net, way.config);
            parallel->restore_gradient_order(order);
            for (int step = first; step < 3; ++step) {
              parallel->zero_gradients();
              parallel->before_forward(true);
              parallel->backward(net.loss(waves(world.rank(), step, way.width)), true);
            }
            return std::tuple{net.layer->weight.grad().clone(), net.layer->bias.grad().clone(),
                              parallel->gradient_order()};
          },
          way.backend);
    };
    const auto [weight, bias, order] = gradients(0, {})[0];
    CHECK(order.empty() == way.config.find_unused_parameters);
    const auto [resumed_weight, resumed_bias, kept_order] = gradients(2, order)[0];
    CHECK(at::equal(resumed_weight, weight));
    CHECK(at::equal(resumed_bias, bias));
    CHECK(kept_order == order);
  }
}

TEST_CASE("data parallel: a static graph averages the first step too") {
  const auto gradients = run_ranks(
      2,
      [](World& world) {
        Net net(4, /*with_unused=*/true);
        fill(net, 0.5);
        const auto parallel = DataParallel::create(world, net, {.static_graph = true});
        std::vector<at::Tensor> seen;
        for (int step = 0; step < 3; ++step) {
          parallel->zero_gradients();
          parallel->before_forward(true);
          parallel->backward(net.loss(samples(world.rank())), true);
          seen.push_back(net.layer->weight.grad().clone());
        }
        return seen;
      },
      BackendChoice::Gloo);
  Net reference(4);
  fill(reference, 0.5);
  ((reference.loss(samples(0)) + reference.loss(samples(1))) / 2).backward();
  for (const auto& seen : gradients)
    for (const auto& gradient : seen) CHECK(at::allclose(gradient, reference.layer->weight.grad()));
}

TEST_CASE("data parallel: with shared memory, a missing gradient is an error with the parameter") {
  const RendezvousDirectory directory;
  const auto errors = run_threads(2, [&](int rank) {
    const auto connected = World::connect(rank_options(rank, 2, directory));
    auto& world = *connected;
    Net net(4, /*with_unused=*/true);
    const auto parallel = DataParallel::create(world, net, {});
    parallel->before_forward(true);
    parallel->backward(net.loss(samples(rank)), true);
  });
  for (const auto& error : errors)
    CHECK_THAT(text_of(error), Catch::Contains("parameter 'unused' got no gradient in this step"));
}

TEST_CASE("data parallel: without synchronization gradients stay local and accumulate") {
  const auto results = run_ranks(2, [](World& world) {
    Net net(4);
    fill(net, 0.5);
    const auto parallel = DataParallel::create(world, net, {});
    parallel->zero_gradients();
    parallel->before_forward(false);
    parallel->backward(net.loss(samples(world.rank())), false);
    const auto local = net.layer->bias.grad().clone();
    parallel->before_forward(true);
    parallel->backward(net.loss(samples(world.rank())), true);
    return std::pair{local, net.layer->bias.grad().clone()};
  });
  CHECK_FALSE(at::equal(results[0].first, results[1].first));
  CHECK(at::equal(results[0].second, results[1].second));
  CHECK(at::allclose(results[0].second, results[0].first + results[1].first));
}

TEST_CASE("data parallel: buffers are broadcast from rank 0 before the next forward pass") {
  const auto results = run_ranks(2, [](World& world) {
    Net net(4);
    const auto parallel = DataParallel::create(world, net, {});
    net.offset.fill_(world.rank() + 1);
    parallel->broadcast_buffers();
    return net.offset;
  });
  CHECK(at::equal(results[1], at::ones({2})));
}

TEST_CASE("data parallel: with find_unused_parameters, unused parameters have no gradient") {
  const auto results = run_ranks(2, [](World& world) {
    Net net(4, /*with_unused=*/true);
    const auto parallel = DataParallel::create(world, net, {.find_unused_parameters = true});
    for (int step = 0; step < 2; ++step) {
      parallel->zero_gradients();
      parallel->before_forward(true);
      parallel->backward(net.loss(samples(world.rank())), true);
    }
    return net.named_parameters()["unused"].grad().defined();
  });
  CHECK(results == std::vector<bool>{false, false});
}

TEST_CASE(
    "data parallel: models that differ are an error on every rank, with the first difference") {
  const RendezvousDirectory directory;
  const auto errors = run_threads(2, [&](int rank) {
    const auto connected = World::connect(rank_options(rank, 2, directory));
    auto& world = *connected;
    Net net(rank == 0 ? 4 : 5);
    const auto parallel = DataParallel::create(world, net, {});
  });
  for (const auto& error : errors)
    CHECK_THAT(text_of(error), Catch::Contains("parameter 0 is [layer.weight Float [2,4]] on rank "
                                               "0 and [layer.weight Float [2,5]] on rank 1"));
}

TEST_CASE("data parallel: a model without trainable parameters is an error") {
  const auto connected = World::connect({.device = DeviceChoice::Cpu});
  auto& world = *connected;
  torch::nn::Module empty;
  CHECK_THROWS_WITH(DataParallel::create(world, empty, {}),
                    "the model has no trainable parameters");
}

TEST_CASE("data parallel: a pass in segments has the weights of its units and of the next ones") {
  const auto held = run_ranks(
      2,
      [](World& world) {
        torch::nn::ModuleList net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2),
                                  torch::nn::Linear(2, 2));
        std::vector<ShardUnit> units;
        for (const auto& layer : *net) units.push_back({"layer", layer.get()});
        const auto parallel =
            DataParallel::create(world, *net, {.shard = ShardStrategy::Full}, units);
        std::string seen;
        const auto note = [&] {
          for (const auto& unit : units)
            seen += unit.module->parameters()[0].storage().nbytes() > 0 ? 'x' : '.';
          seen += ' ';
        };
        std::vector<at::Tensor> gradients;
        for (const auto& parameter : net->parameters())
          gradients.push_back(at::ones(parameter.sizes()));
        note();
        parallel->before_forward(true);
        parallel->hold_units({0}, {1});
        note();
        parallel->hold_units({1}, {2});
        note();
        parallel->hold_units({0, 2}, {});
        note();
        parallel->add_gradients(std::move(gradients), true);
        note();
        return seen;
      },
      BackendChoice::Gloo);
  for (const auto& seen : held) CHECK(seen == "... xx. .xx x.x ... ");
}
