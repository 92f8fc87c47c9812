// The receiving side of copies of event logs (tracking/copies/log_copy.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/file_descriptor.h"
#include "tracking/copies/log_copy.h"

namespace lockstep::tracking {

// To readers, a log has a writer from the first call with its name until it is released.
//
// Thread: one at a time. All calls may throw Environment (full disk, another process writes the
// log); the next call then determines how much was written.
class LogCopies {
 public:
  // `events`: the existing directory of the logs, not a symbolic link.
  explicit LogCopies(std::filesystem::path events) : events_(std::move(events)) {}

  // Opens or creates the log. `name`: is_event_log_name(). `owner`: who sends it.
  const LogCopy& open(const std::string& name, int owner);
  // Appends `bytes` if `offset` is the size of the copy; otherwise returns false.
  bool append(const std::string& name, int owner, std::string_view bytes, uint64_t offset);
  // Closing the returned descriptors makes the logs of `owner` logs without a writer.
  std::vector<FileDescriptor> release(int owner);

 private:
  struct Copy {
    FileDescriptor file;
    LogCopy content;
    int owner = 0;
  };
  Copy& find(const std::string& name, int owner);

  const std::filesystem::path events_;
  std::map<std::string, Copy> copies_;  // by file name
};

}  // namespace lockstep::tracking
