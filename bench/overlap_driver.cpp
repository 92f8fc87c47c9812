// Measures how much communication overlaps with a backward pass: eight layers, a bucket each, over
// a simulated network (tests/distributed/delay_backend.h), so that communication needs no core.
//   lockstep_bench_overlap DIRECTORY ROUNDS
// Each round has one step without communication and one for each link. Rank 1 is a thread that only
// joins the process group. Prints one JSON object of medians in ms.
//
// The ideal schedule: bucket i is sent when it is ready and the link is free,
// end(i) = max(ready(i), end(i - 1)) + time(i); the step ends when the last bucket ends, but not
// before a step without communication would. `ready` is measured without communication.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "lockstep/data_parallel.h"
#include "tests/distributed/delay_backend.h"

namespace {

using namespace lockstep;
using namespace lockstep::distributed;

constexpr int64_t kLayers = 8, kWidth = 768, kSamples = 48;
constexpr double kBucketMiB = 4.0 * kWidth * kWidth / (1 << 20);

struct Chain : torch::nn::Module {
  Chain() {
    for (int64_t i = 0; i < kLayers; ++i)
      layers.push_back(
          register_parameter("layer" + std::to_string(i),
                             (at::randn({kWidth, kWidth}) * 0.05).set_requires_grad(true)));
  }
  at::Tensor loss(at::Tensor x) const {
    for (const auto& layer : layers) x = at::relu(at::mm(x, layer));
    return x.sum();
  }
  std::vector<at::Tensor> layers;
};

double ms(DelayBackend::Seconds time) { return 1e3 * time.count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Times of steps over one link, and when their buckets were ready.
struct Steps {
  DelayBackend::Link link;
  std::vector<double> whole;
  std::vector<std::vector<double>> ready = std::vector<std::vector<double>>(kLayers);
};

class Training {
 public:
  Training(World& world, c10::intrusive_ptr<distributed::DelayBackend> backend)
      : backend_(std::move(backend)),
        parallel_(DataParallel::create(
            world, chain_, {.bucket_cap_mb = kBucketMiB, .gradient_as_bucket_view = true})) {}

  void step(Steps& steps) {
    parallel_->zero_gradients();
    backend_->set_link(steps.link);
    backend_->take_sent();
    const auto begin = DelayBackend::Clock::now();
    parallel_->before_forward(true);
    parallel_->backward(chain_.loss(input_), true);
    steps.whole.push_back(ms(DelayBackend::Clock::now() - begin));
    const auto sent = backend_->take_sent();
    for (size_t i = 0; i < sent.size() && i < steps.ready.size(); ++i)
      steps.ready[i].push_back(ms(sent[i].begin - begin));
  }

 private:
  Chain chain_;
  c10::intrusive_ptr<distributed::DelayBackend> backend_;
  std::unique_ptr<DataParallel> parallel_;
  at::Tensor input_ = at::randn({kSamples, kWidth});
};

double ideal(const Steps& alone, const DelayBackend::Link& link) {
  double end = 0;
  for (const auto& ready : alone.ready)
    end = std::max(median(ready), end) + ms(link.time_of(4 * kWidth * kWidth));
  return std::max(median(alone.whole), end);
}

// A link that is busy for `share` of the time between the first bucket and the end of the backward
// pass; a fifth of that is latency.
DelayBackend::Link link_with(const Steps& alone, double share) {
  const double window = median(alone.whole) - median(alone.ready[0]);
  const DelayBackend::Seconds each(share * window / kLayers * 1e-3);
  return {each / 5, 0.8 * each.count() / (4 * kWidth * kWidth)};
}

nlohmann::json measure(World& world, int rounds) {
  const auto backend =
      c10::make_intrusive<distributed::DelayBackend>(world.rank(), world.world_size());
  distributed::use_for_gradients(world, backend);
  Training training(world, backend);
  if (world.rank() != 0) return {};
  Steps warm_up, alone;
  for (int i = 0; i < 10; ++i) training.step(warm_up);
  for (int i = 0; i < 20; ++i) training.step(alone);
  std::vector<Steps> linked;
  const std::vector<double> shares = {0.5, 0.9, 2};
  for (const auto share : shares) linked.push_back({.link = link_with(alone, share)});
  for (int i = 0; i < rounds; ++i) {
    training.step(alone);
    for (auto& steps : linked) training.step(steps);
  }
  auto rows = nlohmann::json::array();
  for (size_t i = 0; i < linked.size(); ++i) {
    const auto link_ms = kLayers * ms(linked[i].link.time_of(4 * kWidth * kWidth));
    rows.push_back({{"share", shares[i]},
                    {"link_ms", link_ms},
                    {"measured_ms", median(linked[i].whole)},
                    {"ideal_ms", ideal(alone, linked[i].link)},
                    {"sequential_ms", median(alone.whole) + link_ms}});
  }
  return {{"buckets", alone.ready.size()},
          {"alone_ms", median(alone.whole)},
          {"first_ready_ms", median(alone.ready.front())},
          {"links", rows}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  at::set_num_threads(1);
  nlohmann::json result;
  const auto run = [&](int rank) {
    const auto connected =
        World::connect({.rank = rank,
                        .local_rank = rank,
                        .world_size = 2,
                        .local_world_size = 2,
                        .rendezvous = FileRendezvous{std::string(argv[1]) + "/rendezvous"},
                        .device = DeviceChoice::Cpu});
    auto& world = *connected;
    auto mine = measure(world, std::stoi(argv[2]));
    if (rank == 0) result = std::move(mine);
    world.finish();
  };
  std::jthread other([&] { run(1); });
  run(0);
  other.join();
  std::printf("%s\n", result.dump().c_str());
}
