// Sends a run directory to a collector (tracking/copies/run_receiver.h). Protocol: HTTP, each
// request with "Authorization: Bearer TOKEN", below /api/collect/RUN:
//   GET    /                        {"files": {NAME: SHA-256}}
//   PUT    /files/NAME?sha256=SUM   replaces a file; the names are in tracking/copies/run_files.h
//   DELETE /files/NAME              removes a file
//   GET, POST /logs/NAME            event logs, as in tracking/copies/log_copy.h
//   POST   /end                     everything was sent
// An error is {"error": {"code", "message"}}, with status 401 or 403 for a rejected token, 507 if the
// collector has no space, and 503 if it cannot verify tokens or use its files at present.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/http/http_client.h"
#include "tracking/copies/log_sender.h"

namespace lockstep::tracking {

struct CollectorAddress {
  HttpAddress address;
  HttpOptions options;  // with the token among its headers, and the name of the collector
};

// Thread: one at a time. Calls throw Environment if they should be retried, and Config if the
// collector rejects the token or the run.
class RunSender {
 public:
  RunSender(std::filesystem::path run_dir, const CollectorAddress& collector);

  // Sends what the collector does not have. Files of a resumed run that are gone are removed there.
  void send();
  // The same for the files and these logs only; removes nothing.
  void send_part(const std::vector<std::filesystem::path>& logs);
  // The run is over and sent.
  void end();
  // Whether the collector has all files as they are now.
  bool is_sent();

 private:
  struct FileTime {
    std::filesystem::file_time_type time;
    uintmax_t size = 0;
    bool operator==(const FileTime&) const = default;
  };
  void read_remote_files();
  bool is_same_file(const std::string& name);
  void send_file(const std::string& name);
  void remove_files_that_are_gone();
  void send_all(const std::vector<std::filesystem::path>& logs, bool removes);
  void require(const HttpResponse& response) const;

  const std::filesystem::path run_dir_;
  const std::string path_;
  const std::string name_;
  HttpClient client_;
  LogSender logs_;
  std::optional<std::map<std::string, std::string>> remote_;  // SHA-256 of the collector's files
  std::map<std::string, FileTime> seen_;  // local files whose content the collector has
};

}  // namespace lockstep::tracking
