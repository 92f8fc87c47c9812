// The runs of other machines, received into a directory of runs (docs/howto/collect_runs.md). A
// received run directory has identical files, so everything that reads runs works on it.
//
// Event logs are copied as tracking/copies/log_copy.h describes; the other files, which are small,
// are replaced as a whole. A run belongs to the sender that created it: another one cannot change
// it, and neither can a sender change a run of this machine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "core/system/mutex.h"
#include "tracking/copies/log_copy.h"

namespace lockstep::tracking {

struct ReceiveLimits {
  size_t max_runs = 10'000;                   // in the directory
  size_t max_files = 4'096;                   // of a run
  uint64_t max_run_bytes = 64'000'000'000;    // of all files of a run
  uint64_t min_free_bytes = 1'000'000'000;    // of the disk
  std::chrono::milliseconds silence{60'000};  // after which a sender counts as gone
};

// Why a request was not carried out. `status`: of the HTTP response.
class Refusal : public std::runtime_error {
 public:
  Refusal(int status_, const std::string& message) : std::runtime_error(message), status(status_) {}
  int status;
};

// Thread: any. Calls throw Refusal, and Environment if the disk fails. `run` and `name` are
// untrusted. `sender`: the name of its token.
class RunReceiver {
 public:
  struct Request {
    std::string run, sender;
  };
  // `on_created` is called after a run was created, by the thread of the request.
  RunReceiver(std::filesystem::path runs, const ReceiveLimits& limits,
              std::function<void(const Request&)> on_created = {});
  ~RunReceiver();
  RunReceiver(const RunReceiver&) = delete;
  RunReceiver& operator=(const RunReceiver&) = delete;

  // SHA-256 of the files other than logs, by name. Empty for a run that does not exist.
  std::map<std::string, std::string> files(const Request& request);
  // Replaces the file. tags.json is only created: later tags are those of this machine.
  void put_file(const Request& request, const std::string& name, const std::string& bytes,
                const std::string& sha256);
  void remove_file(const Request& request, const std::string& name);

  LogCopy log(const Request& request, const std::string& name);
  struct Appended {
    bool fits = false;  // `offset` was the size of the copy
    LogCopy copy;
  };
  // From now on, the run counts as running, until end() or until the sender is silent. Creates the
  // run only for `offset` 0: a later one continues a run that was deleted here.
  Appended append(const Request& request, const std::string& name, std::string_view bytes,
                  uint64_t offset);
  // The senders of all runs that count as running are still there.
  void keep_running();
  // Everything was sent.
  void end(const Request& request);

 private:
  using Clock = std::chrono::steady_clock;
  struct Run;
  std::shared_ptr<Run> open(const Request& request, bool creates);
  void create(const Request& request);
  std::shared_ptr<Run> find(const std::string& run);
  void forget(const std::string& id, const std::shared_ptr<Run>& run);
  void watch();
  void release_silent();

  const std::filesystem::path runs_;
  const ReceiveLimits limits_;
  const std::function<void(const Request&)> on_created_;
  Mutex creation_;  // held while a run is created
  Mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Run>> open_runs_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace lockstep::tracking
