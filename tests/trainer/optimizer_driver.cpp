// lockstep_optimizer_driver JOBS: runs optimizers and schedules on one thread, for
// optimizers_against_python.py and bench/optimizers.py. JOBS: a JSON file with a list of
//   {"optimizer": YAML, "shapes": {NAME: SIZES}, "steps": N, "out": FILE}: trains on gradients that
//     Python computes with the same bits, and writes the parameters (float32). At half of the steps,
//     the optimizer is replaced by one that loads its state.
//   {"optimizer": YAML, "shapes": {NAME: SIZES}, "steps": N, "timed": true}: prints the seconds of
//     each step.
//   {"schedule": YAML, "total_steps": N, "steps_per_epoch": N, "out": FILE}: writes the factors
//     (float64).
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "lockstep/schedule.h"
#include "trainer/config/optimizer_choice.h"

namespace {

using namespace lockstep;
using trainer::OptimizerChoice;

constexpr uint64_t kNumNoises = 17;

ConfigNode parse(const nlohmann::ordered_json& yaml) {
  return *parse_config("part: " + yaml.get<std::string>(), "job").find("part");
}

NamedTensors random_tensors(const nlohmann::ordered_json& shapes, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  NamedTensors tensors;
  for (const auto& [name, sizes] : shapes.items())
    tensors.emplace_back(name, at::randn(sizes.get<std::vector<int64_t>>(), generator));
  return tensors;
}

// Of a bowl whose minimum moves.
void set_gradients(NamedTensors& parameters, const NamedTensors& noise) {
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].second.mutable_grad() = parameters[i].second.mul(0.5).add_(noise[i].second);
}

std::shared_ptr<Optimizer> resumed(const OptimizerChoice& choice, const NamedTensors& parameters,
                                   Optimizer& old) {
  old.use_evaluation_weights();
  NamedTensors saved;
  for (const auto& [name, tensor] : old.state()) saved.emplace_back(name, tensor.clone());
  auto optimizer = choice.build(parameters);
  optimizer->load_state(saved);
  return optimizer;
}

template <class T>
void write(const std::string& path, const T* data, size_t count) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
}

void train(const nlohmann::ordered_json& job) {
  OptimizerChoice choice;
  choice.read(parse(job.at("optimizer")), "optimizer");
  auto parameters = random_tensors(job.at("shapes"), 1);
  std::vector<NamedTensors> noises;
  for (uint64_t i = 0; i < kNumNoises; ++i)
    noises.push_back(random_tensors(job.at("shapes"), 2 + i));
  auto optimizer = choice.build(parameters);
  const auto steps = job.at("steps").get<uint64_t>();
  for (uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) optimizer = resumed(choice, parameters, *optimizer);
    set_gradients(parameters, noises[step % kNumNoises]);
    optimizer->step(optimizer->base_lr() * (1.0 / (1.0 + 0.01 * static_cast<double>(step))));
  }
  optimizer->use_evaluation_weights();
  for (const auto& [name, parameter] : parameters)
    write(job.at("out"), parameter.const_data_ptr<float>(), static_cast<size_t>(parameter.numel()));
}

void measure(const nlohmann::ordered_json& job) {
  OptimizerChoice choice;
  choice.read(parse(job.at("optimizer")), "optimizer");
  auto parameters = random_tensors(job.at("shapes"), 1);
  const auto optimizer = choice.build(parameters);
  set_gradients(parameters, random_tensors(job.at("shapes"), 2));
  auto seconds = nlohmann::json::array();
  for (int step = 0; step < job.at("steps").get<int>(); ++step) {
    const auto begin = std::chrono::steady_clock::now();
    optimizer->step(optimizer->base_lr());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    seconds.push_back(taken.count());
  }
  std::cout << seconds << std::endl;
}

void print_schedule(const nlohmann::ordered_json& job) {
  Part<Schedule, const ScheduleSpan&> part(schedule_registry());
  part.read(parse(job.at("schedule")), "schedule");
  const ScheduleSpan span{.total_steps = job.at("total_steps"),
                          .steps_per_epoch = job.at("steps_per_epoch")};
  const auto schedule = part.build(span);
  std::vector<double> factors;
  for (int64_t step = 0; step < span.total_steps; ++step) factors.push_back(schedule->factor(step));
  write(job.at("out"), factors.data(), factors.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  at::set_num_threads(1);
  const at::NoGradGuard no_grad;
  std::ifstream file(argv[1]);
  try {
    for (const auto& job : nlohmann::ordered_json::parse(file)) {
      if (job.contains("schedule"))
        print_schedule(job);
      else if (job.value("timed", false))
        measure(job);
      else
        train(job);
    }
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
  return 0;
}
