// A text file of records to which a sink appends, with rewind: records after a step can be removed.
// Exactly once: an object created from the state of the last flush() continues there, whatever
// happened after it.
//
// Note [Rewinding a file with a committed length]
// flush() replaces the file by one with only the records to be kept, and appends the new ones. If
// the process is killed before the agent stored the new state, the old length does not match the
// file. The steps are therefore:
//   1. The kept part of the flushed records replaces the file. It is never longer: after a kill here,
// a new object continues after it, receives the same calls again, and rewinds again.
//   2. <note> {"rewinds": of the state before, "length": of the kept part} is written.
//   3. The new records are appended. After a kill here, the note has the length to truncate to.
// A note whose count differs from that of the state is outdated.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/committed_file.h"
#include "lockstep/config_value.h"

namespace lockstep::tracking {

// `text`, complete records, without those of a later step.
using KeepUpTo = std::string (*)(std::string_view text, int64_t step);

// Thread: one at a time. Every call may throw Environment.
class LineFile {
 public:
  struct Paths {
    std::filesystem::path file;
    std::filesystem::path note;  // next to the sink's state file
  };

  // `state`: the result of flush(), or null to start a new file.
  LineFile(Paths paths, const Json& state, KeepUpTo keep);

  bool is_empty() const { return file_->length() == 0; }
  void append(std::string_view record) { file_->append(record); }
  void rewind(int64_t step);
  Json flush();

 private:
  std::optional<uint64_t> noted_length();
  void rewind_file(int64_t step);

  Paths paths_;
  KeepUpTo keep_;
  int64_t rewinds_ = 0;  // of the last state
  bool noted_ = false;   // the note refers to the changes after that state
  std::optional<int64_t> rewind_to_;
  std::optional<CommittedFile> file_;
};

}  // namespace lockstep::tracking
