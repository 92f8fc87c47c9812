// A simulation that trains a model while it runs: the program has the main loop, and passes each batch
// that it simulates. On two ranks, each with its own samples:
//   lockstep launch -n 2 --program build-embedding/pendulum examples/embedding/pendulum.yaml
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <random>

#include <lockstep/batch.h>
#include <lockstep/error.h>
#include <lockstep/rank_env.h>
#include <lockstep/session.h>

namespace {

// Damped pendulums with random starts. "image": angle, velocity and damping, float32 [B, 3]. "label":
// whether it goes over the top, int64 [B].
class Pendulums {
 public:
  explicit Pendulums(int rank) : random_(static_cast<uint64_t>(rank)) {}

  lockstep::Batch simulate(int64_t count) {
    const auto start = at::empty({count, 3});
    const auto label = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) {
      const auto angle = uniform(-2, 2), velocity = uniform(-4, 4), damping = uniform(0, 0.5);
      start[i] = at::tensor({angle, velocity, damping}, at::kFloat);
      label[i] = goes_over(angle, velocity, damping) ? 1 : 0;
    }
    return {.fields = {{"image", start}, {"label", label}}, .indices = {}};
  }

 private:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  static bool goes_over(double angle, double velocity, double damping) {
    constexpr double kStep = 0.01, kTop = 3.14159265358979;
    for (int i = 0; i < 1000; ++i) {
      velocity -= kStep * (std::sin(angle) + damping * velocity);
      angle += kStep * velocity;
      if (std::abs(angle) > kTop) return true;
    }
    return false;
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: pendulum CONFIG [key=value ...]\n"), 78;
  try {
    const auto ranks = lockstep::read_rank_env();
    Pendulums pendulums(ranks.rank);
    lockstep::TrainingLoop loop({.config_path = argv[1],
                                 .overrides = {argv + 2, argv + argc},
                                 .ranks = ranks,
                                 .command = {argv, argv + argc}},
                                pendulums.simulate(1));
    while (!loop.is_done()) loop.step(pendulums.simulate(32));
    const auto loss = loop.loss();
    const auto result = loop.finish();
    if (ranks.rank == 0)
      std::printf("step %ld, loss %.3f, run directory %s\n", static_cast<long>(loop.steps()), loss,
                  result.run_dir.c_str());
    return 0;
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "pendulum: error: %s\n", error.what());
    return error.exit_code();
  }
}
