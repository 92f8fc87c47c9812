// Sends a run directory to another place: to a collector (tracking/copies/collector_sender.h) or into
// a bucket (tracking/copies/bucket_sender.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tracking/copies/log_sender.h"

namespace lockstep::tracking {

// Thread: one at a time. Calls throw Environment if they should be retried, and Config if the other
// side rejects the run.
class RunSender {
 public:
  explicit RunSender(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {}
  virtual ~RunSender() = default;
  RunSender(const RunSender&) = delete;
  RunSender& operator=(const RunSender&) = delete;

  // Sends what the other side does not have. Files of a resumed run that are gone are removed there.
  void send();
  // The same for the files and these logs only; removes nothing.
  void send_part(const std::vector<std::filesystem::path>& logs);
  // The logs that were sent are over.
  void finish_logs() { logs().finish(); }
  // The run is over and sent.
  virtual void end() {}
  // Whether the other side has all files as they are now.
  bool is_sent();

 private:
  struct FileTime {
    std::filesystem::file_time_type time;
    uintmax_t size = 0;
    bool operator==(const FileTime&) const = default;
  };

  // The names of the files that the other side has, without logs.
  virtual std::vector<std::string> remote_files() = 0;
  // Whether it has the file with this content, or keeps another one.
  virtual bool has_file(const std::string& name, const std::string& bytes) = 0;
  virtual void put_file(const std::string& name, const std::string& bytes) = 0;
  virtual void remove_file(const std::string& name) = 0;
  virtual LogSender& logs() = 0;

  void send_file(const std::string& name);
  void remove_files_that_are_gone();
  void send_all(const std::vector<std::filesystem::path>& logs, bool removes);

  const std::filesystem::path run_dir_;
  std::map<std::string, FileTime> seen_;  // local files whose content the other side has
};

}  // namespace lockstep::tracking
