#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "lockstep/data_parallel.h"
#include "lockstep/error.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;

namespace {

// Two parameters, and gradients as a compiled step would compute them.
struct Pair : torch::nn::Module {
  explicit Pair(int64_t width) {
    wide = register_parameter("wide", at::zeros({2, width}));
    narrow = register_parameter("narrow", at::zeros({3}));
  }
  at::Tensor wide, narrow;
};

constexpr double kTinyBuckets = 1e-5;  // MiB: one bucket per parameter

std::vector<at::Tensor> made_by(int rank, int step, int64_t width = 4001) {
  const auto scale = 0.37 * (rank + 1) + step;
  return {(at::arange(2 * width, at::kFloat).view({2, width}) * scale).sin(),
          (at::arange(3, at::kFloat) * scale).cos()};
}

struct Cut {
  bool in_two = false;
  std::function<void(const Pair&, int step)> between = {};  // before the gradient of `wide` is made
};

// The gradients after each of three steps. `batches`: whether each one synchronizes.
std::vector<at::Tensor> train(World& world, const DataParallelConfig& config,
                              const std::vector<bool>& batches, int64_t width = 4001,
                              const Cut& cut = {}) {
  Pair pair(width);
  const auto parallel = DataParallel::create(world, pair, config);
  std::vector<at::Tensor> seen;
  for (int step = 0; step < 3; ++step) {
    parallel->zero_gradients();
    for (const bool synchronize : batches) {
      parallel->before_forward(synchronize);
      auto made = made_by(world.rank(), step, width);
      if (!cut.in_two) {
        parallel->add_gradients(std::move(made), synchronize);
        continue;
      }
      parallel->add_gradients({made[1]}, synchronize, {[&, wide = made[0]] {
                                if (cut.between) cut.between(pair, step);
                                return std::vector<at::Tensor>{wide};
                              }});
    }
    seen.push_back(pair.wide.grad().clone());
    seen.push_back(pair.narrow.grad().clone());
  }
  return seen;
}

struct GivenCase {
  int world_size;
  int64_t width;
};

// Polls memory that another thread writes until it has the value, or times out.
bool becomes(const at::Tensor& tensor, double value) {
  const volatile float* const first = tensor.const_data_ptr<float>();
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < latest) {
    if (std::abs(*first - value) < 1e-6) return true;
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("given gradients: they accumulate and become the mean over ranks, in all synchronizers") {
  // From 200,003 on, gradients are in the symmetric buffer.
  for (const GivenCase& with :
       {GivenCase{1, 4001}, GivenCase{2, 4001}, GivenCase{3, 4001}, GivenCase{3, 200'003}}) {
    const auto world_size = with.world_size;
    std::vector<std::vector<at::Tensor>> all;
    for (const auto backend : {BackendChoice::Shm, BackendChoice::Gloo})
      for (auto& seen : run_ranks(
               world_size,
               [&](World& world) {
                 return train(world, {.bucket_cap_mb = 0.001}, {false, true}, with.width);
               },
               backend))
        all.push_back(std::move(seen));
    for (size_t i = 0; i < 6; ++i) {
      auto mean = at::zeros_like(all[0][i]);
      for (int rank = 0; rank < world_size; ++rank)
        mean += made_by(rank, static_cast<int>(i / 2), with.width)[i % 2] * 2 / world_size;
      CHECK(at::allclose(all[0][i], mean, 1e-5, 1e-6));
      for (const auto& seen : all) CHECK(at::equal(seen[i], all[0][i]));
    }
  }
}

TEST_CASE("given gradients: two segments are bit-identical to one") {
  const DataParallelConfig config{.bucket_cap_mb = kTinyBuckets};
  // From 200,003 on, gradients are in the symmetric buffer.
  for (const GivenCase& with :
       {GivenCase{1, 4001}, GivenCase{2, 4001}, GivenCase{3, 4001}, GivenCase{2, 200'003}})
    for (const auto backend : {BackendChoice::Shm, BackendChoice::Gloo}) {
      const auto run = [&](bool in_two) {
        return run_ranks(
            with.world_size,
            [&](World& world) {
              return train(world, config, {false, true}, with.width, {.in_two = in_two});
            },
            backend);
      };
      const auto one = run(false), two = run(true);
      for (size_t rank = 0; rank < one.size(); ++rank)
        for (size_t i = 0; i < 6; ++i) CHECK(at::equal(one[rank][i], two[rank][i]));
    }
}

TEST_CASE("given gradients: a segment is averaged while the next one is computed") {
  for (const bool shared : {true, false}) {
    DataParallelConfig config{.bucket_cap_mb = kTinyBuckets};
    config.gradient_as_bucket_view = !shared;  // where the Reducer's results can be seen
    const auto results = run_ranks(
        2,
        [&](World& world) {
          int seen = 0;
          const auto look = [&](const Pair& pair, int step) {
            if (step == 0) return;  // all in one bucket
            const auto mean = (made_by(0, step)[1] + made_by(1, step)[1]) / 2;
            seen += becomes(pair.narrow.grad()[2], mean[2].item<double>()) ? 1 : 0;
          };
          train(world, config, {true}, 4001, {.in_two = true, .between = look});
          return seen;
        },
        shared ? BackendChoice::Shm : BackendChoice::Gloo);
    for (const int seen : results) CHECK(seen == 2);
  }
}

TEST_CASE("given gradients: options of the Reducer apply to them") {
  for (const auto& config : {DataParallelConfig{.find_unused_parameters = true},
                             DataParallelConfig{.static_graph = true},
                             DataParallelConfig{.gradient_as_bucket_view = true}}) {
    const auto results = run_ranks(
        2, [&](World& world) { return train(world, config, {true}); }, BackendChoice::Gloo);
    const auto mean = (made_by(0, 2)[0] + made_by(1, 2)[0]) / 2;
    for (const auto& seen : results) CHECK(at::allclose(seen[4], mean, 1e-5, 1e-6));
  }
}

TEST_CASE("given gradients: others than of the parameters are one clear error on every rank") {
  struct WrongCase {
    std::vector<at::Tensor> last, first;
    std::string text;
  };
  const auto wide = at::ones({2, 4001}), narrow = at::ones({3});
  const std::string prefix = "forward_backward() returned ";
  const std::vector<WrongCase> cases = {
      {{wide, narrow.to(at::kHalf)},
       {},
       prefix + "Half [3] on cpu as the gradient of 'narrow', "
                "expected Float [3] on cpu"},
      {{wide, at::ones({1})},
       {},
       prefix + "Float [1] on cpu as the gradient of 'narrow', "
                "expected Float [3] on cpu"},
      {{at::ones({4001}), narrow},
       {},
       prefix + "Float [4001] on cpu as the gradient of 'wide', "
                "expected Float [2, 4001] on cpu"},
      {{narrow},
       {at::ones({2, 1})},
       prefix + "Float [2, 1] on cpu as the gradient of 'wide', "
                "expected Float [2, 4001] on cpu"},
      {{wide, at::Tensor()},
       {},
       prefix + "an undefined tensor as the gradient of 'narrow', "
                "expected Float [3] on cpu"},
      {{wide, narrow, narrow},
       {},
       "forward_backward() or one of its segments returned 3 gradients, "
       "expected 1 to 2: 2 of 2 trainable parameters have none yet"},
      {{narrow},
       {},
       "forward_backward() and its segments returned 1 gradients, but there are 2 "
       "trainable parameters"}};
  for (const auto& with : cases)
    for (const int world_size : {1, 2})
      for (const auto backend : {BackendChoice::Shm, BackendChoice::Gloo}) {
        const auto messages = run_ranks(
            world_size,
            [&](World& world) {
              Pair pair(4001);
              const auto parallel = DataParallel::create(world, pair, {});
              parallel->before_forward(true);
              std::vector<std::function<std::vector<at::Tensor>()>> segments;
              if (!with.first.empty()) segments.emplace_back([&] { return with.first; });
              try {
                parallel->add_gradients(with.last, true, std::move(segments));
              } catch (const Error& error) {
                return std::string(kind_name(error.kind())) + ": " + error.what();
              }
              return std::string("none");
            },
            backend);
        for (const auto& message : messages) CHECK(message == "config: " + with.text);
      }
}
