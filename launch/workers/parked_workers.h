// The workers of a warm start (launch/warm/warm_template.h) that are children of this launcher and wait
// for their command. Thread: one, see ChildProcess.
#pragma once

#include <deque>
#include <string>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"

namespace lockstep::launch {

// The environment variable of a launcher that has them: "PID:FD,PID:FD".
inline constexpr const char* kParkedVariable = "LOCKSTEP_PARKED_WORKERS";

class ParkedWorkers {
 public:
  // `text`: the value of kParkedVariable. Processes that are not children of this one are ignored.
  explicit ParkedWorkers(const std::string& text);

  // Starts `command`, a trainer, in a parked worker; if there is none, or its environment was another
  // when it loaded LibTorch, as a new process. Throws as ChildProcess.
  ChildProcess start(const ChildCommand& command);

 private:
  struct Parked {
    FileDescriptor link;
    ChildProcess process;
  };

  std::deque<Parked> parked_;
};

}  // namespace lockstep::launch
