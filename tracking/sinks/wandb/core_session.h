// One upload of a .wandb file by wandb-core: it reads the file while it grows, and ends behind the
// exit record.
//
// Several uploads of one file leave each value once at the server: wandb-core numbers the lines of
// the history, of the system metrics and of the console from 0, and the server keeps one line per
// number.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/sink.h"
#include "tracking/sinks/wandb/core_connection.h"
#include "tracking/sinks/wandb/core_process.h"

namespace lockstep::tracking {

struct UploadTarget {
  std::filesystem::path core;  // the program
  std::filesystem::path file;  // absolute
  std::filesystem::path
      scratch;  // a directory of its own for the program, if it starts it; is removed
  std::string base_url, app_url, api_key;
  int64_t upload_every = 15;  // seconds: wandb-core takes whole ones
};

class CoreSession {
 public:
  // Starts the upload, and wandb-core where this thread has none yet. Throws Config or Environment.
  CoreSession(const UploadTarget& target, const Environment& environment);

  // Waits up to `timeout` for the end of the upload, and reads what wandb-core reports. True once
  // everything is at the server. Throws Config when the server refused the run, Environment when
  // wandb-core ended, hangs or gave up.
  bool wait(std::chrono::milliseconds timeout);

  // What it was busy with when it was last asked: "retrying HTTP 500", "uploading history"; may be
  // empty.
  const std::string& activity() const { return activity_; }

 private:
  using Clock = std::chrono::steady_clock;

  void start(const UploadTarget& target);
  bool has_ended(std::chrono::milliseconds timeout);
  void ask_status();
  void read_answer(std::string_view answer);
  void read_status(std::string_view status);
  void read_operation(std::string_view operation);
  void read_message(std::string_view message);
  [[noreturn]] void fail() const;

  std::string base_url_;
  std::shared_ptr<CoreProcess> process_;
  CoreConnection connection_;
  std::string id_;                          // of the upload
  std::optional<Clock::time_point> asked_;  // an answer is due since then
  bool is_done_ = false, is_accepted_ = false, was_retrying_ = false;
  std::string activity_, error_;
};

}  // namespace lockstep::tracking
