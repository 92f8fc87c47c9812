// Records the code with which a run was started (tracking/runs/code_state.h), on a thread.
#pragma once

#include <memory>
#include <thread>

namespace lockstep::tracking {

struct AgentOptions;

class CodeRecorder {
 public:
  // Starts to record, if this agent is the one that does: that of rank 0's node, started by a
  // trainer or a program, whose working directory it has. Nothing is recorded twice for a start.
  explicit CodeRecorder(const AgentOptions& options);
  // Calls end().
  ~CodeRecorder();
  CodeRecorder(const CodeRecorder&) = delete;
  CodeRecorder& operator=(const CodeRecorder&) = delete;

  // Waits at most three seconds for the thread to end. false: it hangs, for example in a file
  // system that does not answer, and was left behind; the process must exit with std::_Exit.
  bool end();

 private:
  struct Progress;

  std::shared_ptr<Progress> progress_;  // null: nothing to record
  std::jthread thread_;
};

}  // namespace lockstep::tracking
