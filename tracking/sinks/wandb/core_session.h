// One upload of a .wandb file by wandb-core, which reads the file while it grows, up to the exit
// record.
//
// Uploading a file again is idempotent: wandb-core numbers the lines of the history, system metrics
// and console from 0, and the server stores one line per number.
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
  std::filesystem::path core;     // the program
  std::filesystem::path file;     // absolute
  std::filesystem::path scratch;  // directory for a new wandb-core process; removed at exit
  std::string base_url, app_url, api_key;
  int64_t upload_every = 15;  // seconds; wandb-core accepts only integers
};

class CoreSession {
 public:
  // Starts the upload, and wandb-core if this thread has none. Throws Config or Environment.
  CoreSession(const UploadTarget& target, const Environment& environment);

  // Waits up to `timeout` for the end of the upload and processes status reports. Returns true once
  // everything is uploaded. Throws Config if the server rejected the run, Environment if wandb-core
  // exited, hangs or gave up.
  bool wait(std::chrono::milliseconds timeout);

  // Activity at the last status poll: "retrying HTTP 500", "uploading history"; may be empty.
  const std::string& activity() const { return activity_; }

 private:
  using Clock = std::chrono::steady_clock;

  void start(const UploadTarget& target);
  bool has_ended(std::chrono::milliseconds timeout);
  void request_status();
  void read_response(std::string_view response);
  void read_status(std::string_view status);
  void read_operation(std::string_view operation);
  void read_message(std::string_view message);
  [[noreturn]] void fail() const;

  std::string base_url_;
  std::shared_ptr<CoreProcess> process_;
  CoreConnection connection_;
  std::string id_;                                 // of the upload
  std::optional<Clock::time_point> requested_at_;  // of the pending status request
  bool is_done_ = false, is_accepted_ = false, was_retrying_ = false;
  std::string activity_, error_;
};

}  // namespace lockstep::tracking
