// Mutates valid inputs. Deterministic: the same seeds yield the same inputs on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lockstep {

class Mutator {
 public:
  // Requires at least one seed.
  explicit Mutator(std::vector<std::string> seeds);

  // Returns a seed with one to eight mutations, of at most 64 KiB.
  std::string next();

 private:
  void change(std::string& input);
  size_t below(size_t limit) { return static_cast<size_t>(random_() % limit); }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{20261121};
};

}  // namespace lockstep
