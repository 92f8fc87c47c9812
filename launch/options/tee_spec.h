// Which output of which worker is shown on the console, in the notation of torchrun's --tee: 0
// nothing, 1 stdout, 2 stderr, 3 both, for all workers, or per local rank as in "0:3,1:2" (ranks
// that are not listed show nothing).
#pragma once

#include <map>
#include <string>

namespace lockstep::launch {

class TeeSpec {
 public:
  TeeSpec() = default;  // both, for all

  // Throws Config, naming `option`: invalid notation, or a local rank >= `num_workers`.
  static TeeSpec parse(const std::string& option, const std::string& text, int num_workers);
  // Shows exactly what this one hides.
  TeeSpec inverted(int num_workers) const;
  // Shows only the local ranks of a list "0,2". Throws Config like parse().
  TeeSpec limited_to(const std::string& option, const std::string& list, int num_workers) const;

  bool shows_stdout(int local_rank) const { return (bits_of(local_rank) & 1) != 0; }
  bool shows_stderr(int local_rank) const { return (bits_of(local_rank) & 2) != 0; }
  // Whether all output of the first `num_workers` workers is shown.
  bool shows_everything(int num_workers) const;

 private:
  int bits_of(int local_rank) const;

  int all_ = 3;
  std::map<int, int> by_local_rank_;
};

}  // namespace lockstep::launch
