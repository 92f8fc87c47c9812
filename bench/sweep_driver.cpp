// Hands out the points of a sweep to bench/sweep.py: prints a point as a line of JSON, reads its value, for TRIALS
// points. Usage: lockstep_bench_sweep SWEEP.yaml SEED TRIALS
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "sweep/search.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 4) return 78;
  try {
    auto file = sweep::read_sweep_file(argv[1]);
    file.search.seed = std::atoi(argv[2]);
    std::vector<sweep::Trial> trials;
    for (int64_t number = 0; number < std::atoi(argv[3]); ++number) {
      const auto point = sweep::next_point(file, trials, number);
      if (!point) break;
      std::cout << point->dump() << std::endl;
      double value = 0;
      if (!(std::cin >> value)) break;
      trials.push_back({.number = number,
                        .parameters = *point,
                        .state = sweep::TrialState::Finished,
                        .values = {value}});
    }
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_code();
  }
}
