#include "tracking/copies/run_receiver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/run_id.h"
#include "core/system/durable_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/log_copies.h"
#include "tracking/copies/run_files.h"
#include "tracking/log/event_frame.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr int kSender = 0;  // the owner of all logs of a run
constexpr auto kWatchEvery = std::chrono::seconds(1);
constexpr const char* kNewRunPrefix = ".receiving-";
constexpr const char* kStoreFolder = "artifacts";  // in a directory of runs; not a run

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

bool exists_at_all(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// Sender of a received run; nullopt for a run of this machine.
std::optional<std::string> sender_of(const fs::path& run_dir) {
  if (!is_folder(run_dir) || !is_received_run(run_dir)) return std::nullopt;
  const auto mark = parse_json(read_file(run_dir / kReceivedMark));
  if (!mark.is_object() || !mark.contains("sender") || !mark["sender"].is_string())
    return std::nullopt;
  return mark["sender"].get<std::string>();
}

void verify_sender(const fs::path& run_dir, const RunReceiver::Request& request) {
  const auto sender = sender_of(run_dir);
  if (!sender)
    throw Refusal(409, fmt::format("run {} was not received from another machine", request.run));
  if (*sender != request.sender)
    throw Refusal(409, fmt::format("run {} belongs to another sender", request.run));
  for (const auto* folder : {"events", "ends"})
    if (exists_at_all(run_dir / folder) && !is_folder(run_dir / folder))
      throw Refusal(409, fmt::format("{} of run {} is not a directory", folder, request.run));
}

void verify_name(bool is_valid, const std::string& name) {
  if (!is_valid)
    throw Refusal(400, fmt::format("'{}' is not a file that is received", printable(name)));
}

}  // namespace

struct RunReceiver::Run {
  explicit Run(fs::path directory) : dir(std::move(directory)), logs(dir / "events") {}

  void count() REQUIRES(mutex) {
    bytes = 0;
    num_files = 0;
    std::error_code error, ignored;
    for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
         it.increment(error)) {
      if (!it->is_regular_file(ignored)) continue;
      ++num_files;
      bytes += it->file_size(ignored);
    }
    is_counted = true;
  }

  void make_live() REQUIRES(mutex) {
    if (is_live) return;
    for (const auto& log : rank_logs(dir)) logs.open(log.filename().string(), kSender);
    is_live = true;
  }

  void require_space(const ReceiveLimits& limits, uint64_t more_bytes, bool is_new_file) const
      REQUIRES(mutex) {
    if (bytes + more_bytes > limits.max_run_bytes)
      throw Refusal(507, fmt::format("the run has {} bytes; at most {} are received", bytes,
                                     limits.max_run_bytes));
    if (is_new_file && num_files >= limits.max_files)
      throw Refusal(507, fmt::format("the run has {} files; at most {} are received", num_files,
                                     limits.max_files));
    struct statvfs space {};
    if (::statvfs(dir.c_str(), &space) == 0 &&
        space.f_bavail * space.f_frsize < limits.min_free_bytes + more_bytes)
      throw Refusal(507, "the disk is almost full");
  }

  // For a directory that was deleted.
  void start_again() REQUIRES(mutex) {
    logs.release(kSender);
    is_live = is_counted = false;
  }

  const fs::path dir;
  Mutex mutex;
  LogCopies logs GUARDED_BY(mutex);
  uint64_t bytes GUARDED_BY(mutex) = 0;  // of all files
  size_t num_files GUARDED_BY(mutex) = 0;
  // False during a change, and so after one that failed.
  bool is_counted GUARDED_BY(mutex) = false;
  bool is_live GUARDED_BY(mutex) = false;
  Clock::time_point last_seen = Clock::now();  // changed with the receiver's mutex held
};

RunReceiver::RunReceiver(fs::path runs, const ReceiveLimits& limits,
                         std::function<void(const Request&)> on_created)
    : runs_(std::move(runs)), limits_(limits), on_created_(std::move(on_created)) {
  // Of a process that was killed while it created a run.
  std::error_code error, ignored;
  std::vector<fs::path> incomplete;
  for (fs::directory_iterator it(runs_, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(kNewRunPrefix)) incomplete.push_back(it->path());
  for (const auto& path : incomplete) fs::remove_all(path, ignored);
  thread_ = std::thread([this] { watch(); });
}

RunReceiver::~RunReceiver() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void RunReceiver::watch() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    stopped_.wait_for(lock.native(), kWatchEvery);
    if (stopping_) return;
    lock.unlock();
    release_silent();
    lock.lock();
  }
}

// Releasing the locks shows that the sender is gone.
void RunReceiver::release_silent() {
  std::vector<std::shared_ptr<Run>> silent;  // destroyed without the lock: that closes files
  const MutexLock lock(mutex_);
  for (auto it = open_runs_.begin(); it != open_runs_.end();) {
    const bool is_silent = Clock::now() - it->second->last_seen > limits_.silence;
    if (is_silent) silent.push_back(it->second);
    it = is_silent ? open_runs_.erase(it) : std::next(it);
  }
}

// Complete, with its mark, when it appears under its name.
void RunReceiver::create(const Request& request) {
  const MutexLock lock(creation_);
  size_t num_runs = 0;
  std::error_code error;
  for (fs::directory_iterator it(runs_, error), end; !error && it != end; it.increment(error))
    num_runs += it->path().filename().string().starts_with('.') ? 0 : 1;
  if (num_runs >= limits_.max_runs)
    throw Refusal(507, fmt::format("the directory of runs has {} entries; at most {} are allowed",
                                   num_runs, limits_.max_runs));
  const auto fresh = runs_ / (kNewRunPrefix + request.run);
  fs::remove_all(fresh, error);
  make_directories(fresh / "events");
  write_file_durably(fresh / kReceivedMark, Json{{"sender", request.sender}}.dump() + "\n");
  fs::rename(fresh, runs_ / request.run, error);
  if (error)
    throw environment_error(
        fmt::format("cannot create {}: {}", (runs_ / request.run).string(), error.message()));
  sync_directory(runs_);
  if (on_created_) on_created_(request);
}

std::shared_ptr<RunReceiver::Run> RunReceiver::find(const std::string& run) {
  const MutexLock lock(mutex_);
  auto& known = open_runs_[run];
  if (!known) known = std::make_shared<Run>(runs_ / run);
  return known;
}

void RunReceiver::forget(const std::string& id, const std::shared_ptr<Run>& run) {
  const MutexLock lock(mutex_);
  const auto found = open_runs_.find(id);
  if (found != open_runs_.end() && found->second == run) open_runs_.erase(found);
}

// nullptr if the run does not exist and is not created.
std::shared_ptr<RunReceiver::Run> RunReceiver::open(const Request& request, bool creates) {
  if (!is_run_id(request.run) || request.run == kStoreFolder)
    throw Refusal(400, fmt::format("'{}' is not a run id", printable(request.run)));
  const auto run = find(request.run);
  {
    const MutexLock lock(run->mutex);
    if (!exists_at_all(run->dir)) {
      run->start_again();
      if (!creates) {
        forget(request.run, run);
        return nullptr;
      }
      create(request);
    }
    verify_sender(run->dir, request);
    if (!run->is_counted) run->count();
  }
  const MutexLock lock(mutex_);
  run->last_seen = Clock::now();
  return run;
}

std::map<std::string, std::string> RunReceiver::files(const Request& request) {
  std::map<std::string, std::string> sums;
  const auto run = open(request, false);
  if (!run) return sums;
  const MutexLock lock(run->mutex);
  for (const auto& name : run_files(run->dir))
    sums[name] = sha256_of(read_file(run->dir / name, kMaxRunFileBytes));
  return sums;
}

void RunReceiver::put_file(const Request& request, const std::string& name,
                           const std::string& bytes, const std::string& sha256) {
  verify_name(is_run_file_name(name), name);
  if (bytes.size() > kMaxRunFileBytes)
    throw Refusal(413, fmt::format("{} has {} bytes; at most {} are received", name, bytes.size(),
                                   kMaxRunFileBytes));
  if (sha256_of(bytes) != sha256)
    throw Refusal(422, fmt::format("{} does not match its checksum", name));
  if (!is_run_file_content(name, bytes)) throw Refusal(422, fmt::format("{} is not valid", name));
  const auto run = open(request, true);
  const MutexLock lock(run->mutex);
  const auto path = run->dir / name;
  const bool is_new = !exists_at_all(path);
  if (name == "tags.json" && !is_new) return;
  const uint64_t replaced = is_new ? 0 : fs::file_size(path);
  run->require_space(limits_, bytes.size() - std::min<uint64_t>(replaced, bytes.size()), is_new);
  run->is_counted = false;
  std::error_code ignored;  // the run itself, which may be deleted meanwhile, is not created again
  if (path.parent_path() != run->dir) fs::create_directory(path.parent_path(), ignored);
  write_file_durably(path, bytes);
  run->bytes += bytes.size() - replaced;  // wraps around for a smaller file
  run->num_files += is_new ? 1 : 0;
  run->is_counted = true;
}

void RunReceiver::remove_file(const Request& request, const std::string& name) {
  verify_name(is_removable_run_file(name), name);
  const auto run = open(request, false);
  if (!run) return;
  const MutexLock lock(run->mutex);
  std::error_code error;
  run->is_counted = false;
  fs::remove(run->dir / name, error);
  if (error)
    throw environment_error(
        fmt::format("cannot remove {}: {}", (run->dir / name).string(), error.message()));
}

LogCopy RunReceiver::log(const Request& request, const std::string& name) {
  verify_name(is_event_log_name(name), name);
  const auto run = open(request, false);
  if (!run) return {};
  const MutexLock lock(run->mutex);
  if (run->is_live) {
    std::error_code ignored;
    if (fs::exists(run->dir / "events" / name, ignored)) return run->logs.open(name, kSender);
    return {};
  }
  const auto path = run->dir / "events" / name;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() && errno == ENOENT) return {};
  const auto size = file.is_open() ? ::lseek(file.get(), 0, SEEK_END) : -1;
  if (size < 0) throw errno_error(fmt::format("cannot read {}", path.string()));
  return measure_copy(file.get(), static_cast<uint64_t>(size));
}

RunReceiver::Appended RunReceiver::append(const Request& request, const std::string& name,
                                          std::string_view bytes, uint64_t offset) {
  verify_name(is_event_log_name(name), name);
  const auto magic = kEventLogMagic.substr(0, bytes.size());
  if (offset == 0 && !bytes.starts_with(magic))
    throw Refusal(422, fmt::format("{} does not start as an event log", name));
  const auto run = open(request, offset == 0);
  if (!run) return {};
  const MutexLock lock(run->mutex);
  const bool is_new = !exists_at_all(run->dir / "events" / name);
  run->require_space(limits_, bytes.size(), is_new);
  run->is_counted = false;
  run->make_live();
  const bool fits = run->logs.append(name, kSender, bytes, offset);
  if (is_new) sync_directory(run->dir / "events");
  run->bytes += fits ? bytes.size() : 0;
  run->num_files += is_new ? 1 : 0;
  run->is_counted = true;
  return {.fits = fits, .copy = run->logs.open(name, kSender)};
}

void RunReceiver::keep_running() {
  const MutexLock lock(mutex_);
  for (const auto& [id, run] : open_runs_) run->last_seen = Clock::now();
}

void RunReceiver::end(const Request& request) {
  const auto run = open(request, false);
  if (!run) return;
  std::vector<FileDescriptor> files;
  {
    const MutexLock lock(run->mutex);
    files = run->logs.release(kSender);
    run->is_live = false;
  }
  for (const auto& file : files)
    if (::fdatasync(file.get()) != 0) throw errno_error("cannot store an event log");
  files.clear();
  forget(request.run, run);
}

}  // namespace lockstep::tracking
