// A text file of records that a sink appends to, and from which the records behind a step can be
// taken back. Exactly once: with the state of the last flush() a new object goes on, whatever
// happened after it.
//
// Note [Taking back in a file whose length is agreed upon]
// flush() replaces the file by one that has only the records to be kept, and appends what is new.
// A process that is killed before the agent stored the new state leaves a file that the old length
// does not fit. So the steps are:
//   1. what is kept of the flushed part replaces the file. It is at most as long as before: killed
//      here, a new object goes on behind it, gets the same calls again, and takes back again.
//   2. <note> {"rewinds": of the state before, "length": of the kept part} is written.
//   3. what is new is appended. Killed here, the note says where to cut.
// A note whose count is not that of the state is of the past.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/system/committed_file.h"
#include "lockstep/config_value.h"

namespace lockstep::tracking {

// `text`, whole records, without those of a later step.
using KeepUpTo = std::string (*)(std::string_view text, int64_t step);

// Thread: one at a time. Every call may throw Environment.
class LineFile {
 public:
  struct Places {
    std::filesystem::path file;
    std::filesystem::path note;  // beside the state of the sink
  };

  // `state`: of flush(), or null: the file begins anew.
  LineFile(Places places, const Json& state, KeepUpTo keep);

  bool is_empty() const { return file_->length() == 0; }
  void append(std::string_view record) { file_->append(record); }
  void rewind(int64_t step);
  Json flush();

 private:
  std::optional<uint64_t> noted_length();
  void take_back(int64_t step);

  Places places_;
  KeepUpTo keep_;
  int64_t rewinds_ = 0;  // of the last state
  bool noted_ = false;   // the note is about what follows that state
  std::optional<int64_t> rewind_to_;
  std::optional<CommittedFile> file_;
};

}  // namespace lockstep::tracking
