// Embedding Lockstep in a program: the program defines a dataset, starts a training run and uses
// its result. It also works on several ranks:
//   lockstep launch -n 2 --program build-embedding/two_moons examples/embedding/run.yaml
#include <ATen/ATen.h>

#include <cstdio>
#include <numbers>

#include <lockstep/dataset.h>
#include <lockstep/error.h>
#include <lockstep/rank_env.h>
#include <lockstep/session.h>

namespace {

struct TwoMoonsConfig {
  int64_t samples = 1000;
};

template <class V>
void fields(V& v, TwoMoonsConfig& c) {
  v("samples", c.samples, "number of points", lockstep::at_least(2));
}

// Two interleaving half circles: "image" is float32 [B, 2], "label" int64 [B].
class TwoMoons final : public lockstep::Dataset {
 public:
  using Config = TwoMoonsConfig;

  explicit TwoMoons(const Config& config) {
    const auto angle = at::linspace(0, std::numbers::pi, config.samples);
    label_ = at::arange(config.samples).remainder(2);
    const auto sign = 1 - 2 * label_;
    point_ = at::stack({at::cos(angle) * sign + label_, at::sin(angle) * sign + 0.5 * label_}, 1)
                 .to(at::kFloat);
  }

  int64_t size() const override { return label_.size(0); }

  lockstep::Batch get_batch(std::span<const int64_t> indices) const override {
    const auto chosen = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()));
    return {.fields = {{"image", point_.index_select(0, chosen)},
                       {"label", label_.index_select(0, chosen)}},
            .indices = chosen};
  }

 private:
  at::Tensor point_, label_;
};

REGISTER_DATASET("two_moons", TwoMoons, "two half circles in the plane");

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: two_moons CONFIG [key=value ...]\n"), 78;
  try {
    const auto ranks = lockstep::read_rank_env();
    const auto result = lockstep::run_session({.config_path = argv[1],
                                               .overrides = {argv + 2, argv + argc},
                                               .ranks = ranks,
                                               .command = {argv, argv + argc}});
    if (ranks.rank == 0)
      std::printf("accuracy %.3f, run directory %s\n", result.evaluation.at("accuracy"),
                  result.run_dir.c_str());
    return 0;
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "two_moons: error: %s\n", error.what());
    return error.exit_code();
  }
}
