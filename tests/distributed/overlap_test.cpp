// Overlap of gradient communication with the backward pass, verified by the order of events.
// bench/rows_links.py measures times.
#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <catch2/catch.hpp>

#include "lockstep/data_parallel.h"
#include "tests/distributed/delay_backend.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

constexpr int64_t kWidth = 32;
constexpr int kLayers = 4;

// A chain of matrices, each in its own bucket.
struct Chain : torch::nn::Module {
  Chain() {
    for (int i = 0; i < kLayers; ++i)
      layers.push_back(
          register_parameter("layer" + std::to_string(i), at::eye(kWidth).set_requires_grad(true)));
  }
  at::Tensor loss() const {
    auto x = at::ones({1, kWidth});
    for (const auto& layer : layers) x = at::relu(at::mm(x, layer));
    return x.sum();
  }
  std::vector<at::Tensor> layers;
};

const DataParallelConfig kBucketPerLayer{.bucket_cap_mb = 4.0 * kWidth * kWidth / (1 << 20),
                                         .gradient_as_bucket_view = true};

void step(DataParallel& parallel, const Chain& chain) {
  parallel.zero_gradients();
  parallel.before_forward(true);
  parallel.backward(chain.loss(), true);
}

// Runs `body(backend, parallel, chain)` on rank 0; rank 1 only joins the setup.
template <class Body>
auto run_on_slow_link(const Body& body) {
  const auto results = run_ranks(2, [&](World& world) {
    const auto backend = c10::make_intrusive<DelayBackend>(world.rank(), 2);
    use_for_gradients(world, backend);
    Chain chain;
    const auto parallel = DataParallel::create(world, chain, kBucketPerLayer);
    using Result = std::invoke_result_t<Body, DelayBackend&, DataParallel&, Chain&>;
    return world.rank() == 0 ? body(*backend, *parallel, chain) : Result{};
  });
  return results[0];
}

}  // namespace

TEST_CASE("overlap: a bucket is sent when its gradients are ready, before the next layer's") {
  const auto events =
      run_on_slow_link([](DelayBackend& backend, DataParallel& parallel, Chain& chain) {
        std::string seen;
        for (int i = 0; i < kLayers; ++i)
          chain.layers[static_cast<size_t>(i)].register_hook(
              [&seen, i](const at::Tensor&) { seen += "gradient " + std::to_string(i) + ", "; });
        backend.set_listener([&](const DelayBackend::Sent&) { seen += "sent, "; });
        backend.set_link({.latency = std::chrono::milliseconds(5)});
        for (int i = 0; i < 3; ++i) {  // one bucket in the first step: the order is not known yet
          seen.clear();
          step(parallel, chain);
        }
        return seen;
      });
  CHECK(events == "gradient 3, sent, gradient 2, sent, gradient 1, sent, gradient 0, sent, ");
}

TEST_CASE("overlap: a backward pass ends when the last bucket has arrived, and measures its wait") {
  constexpr std::chrono::milliseconds kLatency(40);
  const auto [took, waited] =
      run_on_slow_link([&](DelayBackend& backend, DataParallel& parallel, Chain& chain) {
        backend.set_link({.latency = kLatency});
        for (int i = 0; i < 2; ++i) step(parallel, chain);
        const auto begin = DelayBackend::Clock::now();
        step(parallel, chain);
        return std::pair<DelayBackend::Seconds, DelayBackend::Seconds>(
            DelayBackend::Clock::now() - begin, parallel.exposed_wait());
      });
  CHECK(took >= kLayers * kLatency);  // one link: they follow each other
  CHECK(waited >= kLatency);          // at least the last one cannot overlap
}
