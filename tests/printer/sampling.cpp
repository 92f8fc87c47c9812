// The logits that may be chosen: sampling CASES. CASES: a file with a list of {"logits",
// "temperature", "top_k", "top_p", "min_p", "penalty", "tokens"}, the numbers after the temperature
// possibly null; prints a list of lists, in which null is -inf. For sampling_against_python.py.
#include "models/sampling.h"

#include <ATen/ATen.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/printer/commands.h"

namespace lockstep::printer {

int print_sampling(const Arguments& arguments) {
  if (arguments.size() != 1) return 64;
  std::ifstream file(arguments[0]);
  auto results = nlohmann::json::array();
  for (const auto& given : nlohmann::json::parse(file)) {
    models::Sampling sampling{.temperature = given["temperature"].get<double>()};
    if (!given["top_k"].is_null()) sampling.top_k = given["top_k"].get<int64_t>();
    if (!given["top_p"].is_null()) sampling.top_p = given["top_p"].get<double>();
    if (!given["min_p"].is_null()) sampling.min_p = given["min_p"].get<double>();
    auto logits = at::tensor(given["logits"].get<std::vector<float>>());
    if (!given["penalty"].is_null())
      logits = models::penalize_repetition(logits, given["tokens"].get<std::vector<int64_t>>(),
                                           given["penalty"].get<double>());
    const auto filtered = models::filter_logits(logits, sampling);
    auto row = nlohmann::json::array();
    for (int64_t i = 0; i < filtered.size(0); ++i) {
      const auto value = filtered[i].item<float>();
      row.push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
    }
    results.push_back(row);
  }
  std::cout << results.dump() << '\n';
  return 0;
}

}  // namespace lockstep::printer
