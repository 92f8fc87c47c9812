// What the ranks of a node print, from the files in which `lockstep launch` keeps their output:
// <logs>/attempt_<n>/<local rank>/stdout.log and stderr.log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "core/system/file_descriptor.h"
#include "lockstep/record.h"

namespace lockstep::tracking {

// Thread: one at a time.
class ConsoleWatch {
 public:
  using OnLine = std::function<void(const ConsoleLine&)>;

  // `logs`: of the node. Lines that `already_taken` counts (by rank and stream) were given to an
  // earlier watch and are passed over.
  using Counts = std::map<std::pair<int, bool>, uint64_t>;  // rank, is_error
  ConsoleWatch(std::filesystem::path logs, Counts already_taken);

  // Gives whole lines that were added since the last call, stamped `now` (unix seconds), each of at
  // most 8 KiB; returns whether there is more to read at once. `first_rank`: the rank whose local
  // rank is 0. `is_final`: also a last line without its line break. Throws Environment when a file
  // cannot be read.
  bool poll(int first_rank, double now, bool is_final, const OnLine& on_line);

 private:
  struct File {
    FileDescriptor file;
    int local_rank = 0;
    bool is_error = false;
    uint64_t taken = 0;  // bytes
    std::string rest;    // a line in the making
  };

  void find_files();
  bool read(File& file, int rank, double now, bool is_final, const OnLine& on_line);
  void give(File& file, int rank, double now, std::string line, const OnLine& on_line);

  std::filesystem::path logs_;
  Counts already_taken_;
  std::map<std::filesystem::path, File> files_;
};

}  // namespace lockstep::tracking
