// Driver of bench/compiled.py: alternates forward and backward passes of an eager MLP in C++ and of
// the same MLP compiled, with one thread.
//   lockstep_bench_compiled PACKAGE MODEL ROUNDS REPETITIONS
// MODEL: the eager model as in a run file, e.g. '{name: mlp, inputs: 64, hidden: [64]}'.
// Prints one line of JSON: microseconds per pass, one number per round.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/model.h"
#include "lockstep/part.h"

using namespace lockstep;

namespace {

constexpr int64_t kBatch = 32, kInputs = 64, kClasses = 10;

struct Models {
  Part<Model> eager{model_registry()}, compiled{model_registry()};
};

template <class V>
void fields(V& v, Models& m) {
  v("eager", m.eager, "the model in C++");
  v("compiled", m.compiled, "the same, compiled");
}

void pass_eager(Model& model, const Batch& batch) {
  for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
  model.forward(batch).loss.backward();
}

void pass_compiled(Model& model, const Batch& batch) {
  static const auto one = at::ones({});
  auto step = model.forward_backward(batch, one);
  auto parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() = std::move(step.gradients[i]);
}

template <class Pass>
double microseconds(int repetitions, const Pass& pass) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repetitions; ++i) pass();
  const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / repetitions;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 78;
  at::set_num_threads(1);
  const std::string text = std::string("eager: ") + argv[2] +
                           "\ncompiled: {name: compiled, package: '" + argv[1] + "'}\n";
  Models models;
  read_fields(parse_config(text, "arguments"), "", models);
  const auto eager = models.eager.build(), compiled = models.compiled.build();
  const Batch batch{.fields = {{"image", at::rand({kBatch, 1, 8, kInputs / 8})},
                               {"label", at::randint(kClasses, {kBatch}, at::kLong)}},
                    .indices = at::arange(kBatch)};
  const int rounds = std::stoi(argv[3]), repetitions = std::stoi(argv[4]);
  nlohmann::json result = {{"eager", nlohmann::json::array()},
                           {"compiled", nlohmann::json::array()}};
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    const auto one = microseconds(repetitions, [&] { pass_eager(*eager, batch); });
    const auto other = microseconds(repetitions, [&] { pass_compiled(*compiled, batch); });
    if (round < 0) continue;
    result["eager"].push_back(one);
    result["compiled"].push_back(other);
  }
  std::cout << result.dump() << std::endl;
}
