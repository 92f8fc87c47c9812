#include "tracking/copies/update_lock.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <optional>
#include <random>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

// The time of this file is that of the last progress of the process that holds it.
constexpr const char* kLockFile = ".lock";
constexpr const char* kRequestFolder = ".wanted";
constexpr auto kNoProgressTimeout = std::chrono::minutes(5);
constexpr int kAnswerPollMs = 100;

// A file that exists until this object is destroyed or another process has removed it.
class UpdateRequest {
 public:
  UpdateRequest(const fs::path& folder, const UpdateLock::Ids& ids)
      : file_(folder / fmt::format("{}-{:08x}", ::getpid(), std::random_device()())) {
    make_directories(folder);
    write_file_durably(file_, Json(ids).dump() + "\n");
  }
  ~UpdateRequest() {
    std::error_code error;
    fs::remove(file_, error);
  }
  UpdateRequest(const UpdateRequest&) = delete;
  UpdateRequest& operator=(const UpdateRequest&) = delete;

  bool is_answered() const {
    std::error_code error;
    return !fs::exists(file_, error) && !error;
  }

 private:
  const fs::path file_;
};

int64_t change_ns(const FileDescriptor& file) {
  constexpr int64_t kNsPerS = 1'000'000'000;
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return 0;
  return info.st_mtim.tv_sec * kNsPerS + info.st_mtim.tv_nsec;
}

Error end_of_process() { return environment_error("the process ends"); }

}  // namespace

bool UpdateLock::acquire(const Ids& ids) {
  if (is_held()) return true;
  auto file = open_lock_file(directory_ / kLockFile);
  std::optional<UpdateRequest> request;
  auto progress = change_ns(file);
  auto progress_at = std::chrono::steady_clock::now();
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (is_stopped_) throw end_of_process();
    if (!request) request.emplace(directory_ / kRequestFolder, ids);
    if (request->is_answered()) return false;
    const auto now = std::chrono::steady_clock::now();
    if (const auto latest = change_ns(file); latest != progress) {
      progress = latest;
      progress_at = now;
    }
    if (now - progress_at > kNoProgressTimeout)
      throw environment_error(fmt::format(
          "{} is being written by another process, which makes no progress", directory_.string()));
    ::poll(nullptr, 0, kAnswerPollMs);
  }
  file_ = std::move(file);
  return true;
}

// A file that cannot be read is one of a process that has ended.
std::map<fs::path, UpdateLock::Ids> UpdateLock::requests() const {
  std::map<fs::path, Ids> found;
  std::error_code error;
  for (fs::directory_iterator it(directory_ / kRequestFolder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().has_extension()) continue;  // not complete
    try {
      found[it->path()] = parse_json(read_file(it->path())).get<Ids>();
    } catch (const std::exception&) {
      continue;
    }
  }
  return found;
}

void UpdateLock::note_progress() {
  if (is_stopped_) throw end_of_process();
  ::futimens(file_.get(), nullptr);
}

}  // namespace lockstep::tracking
