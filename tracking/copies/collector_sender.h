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
#include "tracking/copies/run_sender.h"

namespace lockstep::tracking {

struct CollectorAddress {
  HttpAddress address;
  HttpOptions options;  // with the token among its headers, and the name of the collector
};

// Calls throw Config if the collector rejects the token or the run.
class CollectorSender final : public RunSender {
 public:
  CollectorSender(const std::filesystem::path& run_dir, const CollectorAddress& collector);

  void end() override;

 private:
  std::vector<std::string> remote_files() override;
  bool has_file(const std::string& name, const std::string& bytes) override;
  void put_file(const std::string& name, const std::string& bytes) override;
  void remove_file(const std::string& name) override;
  LogSender& logs() override { return logs_; }

  std::map<std::string, std::string>& remote();
  void require(const HttpResponse& response) const;

  const std::string path_;
  const std::string name_;
  HttpClient client_;
  LogSender logs_;
  std::optional<std::map<std::string, std::string>> remote_;  // SHA-256 of the collector's files
};

}  // namespace lockstep::tracking
