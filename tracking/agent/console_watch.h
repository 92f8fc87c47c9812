// Follows the output of a node's ranks in the files to which `lockstep launch` writes it:
// <logs>/attempt_<n>/<local rank>/stdout.log and stderr.log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "core/system/file_descriptor.h"
#include "lockstep/record.h"

namespace lockstep::tracking {

// Thread: one at a time.
class ConsoleWatch {
 public:
  using OnLine = std::function<void(const ConsoleLine&)>;

  // `logs`: the log directory of the node. Skips as many lines as `already_read` counts (by rank
  // and stream); an earlier watch has reported them.
  using Counts = std::map<std::pair<int, bool>, uint64_t>;  // rank, is_error
  ConsoleWatch(std::filesystem::path logs, Counts already_read);

  // Reports whole lines added since the last call, with the time `now` (unix seconds), long ones in
  // pieces of 8 KiB. The pieces depend on the output alone, so that an earlier watch has counted the same.
  // Returns whether more output is available already. `first_rank`: the rank with local rank 0. A last line
  // without a line break is reported if `is_final`, or if the rank was started again since. Throws
  // Environment if a file cannot be read.
  bool poll(int first_rank, double now, bool is_final, const OnLine& on_line);

 private:
  struct File {
    FileDescriptor file;
    int local_rank = 0;
    bool is_error = false;
    bool is_over = false;  // the rank was started again
    uint64_t offset = 0;   // bytes read
    std::string partial_line;
  };

  void find_files();
  bool read(File& file, int rank, double now, bool is_final, const OnLine& on_line);
  void emit(File& file, int rank, double now, std::string line, const OnLine& on_line);

  std::filesystem::path logs_;
  Counts already_read_;
  // In the order of attempt, local rank, start in the attempt, and stream.
  std::map<std::tuple<int, int, int, bool>, File> files_;
};

}  // namespace lockstep::tracking
