#include "trainer/checkpoint/checkpoint_mirror.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <utility>

#include "core/printable.h"
#include "core/run_id.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWrittenLast = "manifest.json";
constexpr const char* kWriteCheck = ".lockstep-write-check";

using Objects = std::vector<formats::ObjectInfo>;
using VerifyFetched = std::function<void(const fs::path&, int64_t)>;

bool is_step_name(const std::string& name) {
  return !name.empty() && name.size() < 19 &&
         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// By step; objects with other names do not belong to a checkpoint.
std::map<int64_t, Objects> mirrored_checkpoints(formats::ObjectFolder& folder) {
  std::map<int64_t, Objects> steps;
  for (auto& object : folder.list()) {
    const auto slash = object.key.find('/');
    const auto name = object.key.substr(0, slash);
    if (slash != object.key.npos && is_step_name(name))
      steps[std::stoll(name)].push_back(std::move(object));
  }
  return steps;
}

// Azure has an empty manifest while it is being written.
bool is_whole(int64_t step, const Objects& objects) {
  const auto key = fmt::format("{}/{}", step, kWrittenLast);
  const auto manifest = std::ranges::find(objects, key, &formats::ObjectInfo::key);
  return manifest != objects.end() && manifest->size > 0;
}

// The name of a file below the folder of its step. Throws Environment if it leads elsewhere.
fs::path name_in_step(const formats::ObjectInfo& object) {
  const fs::path name = object.key.substr(object.key.find('/') + 1);
  for (const auto& part : name)
    if (part == ".." || part == "." || part.is_absolute())
      throw environment_error("checkpoint.mirror: an object has an invalid name: " + object.key);
  return name;
}

// Fetches the files of a checkpoint to a temporary directory, from where it is renamed.
void fetch_files(formats::ObjectFolder& folder, int64_t step, const Objects& objects,
                 const fs::path& checkpoints, const VerifyFetched& verify) {
  const auto temporary = checkpoints / fmt::format("{}mirror", kTemporaryPrefix);
  const auto fetched = temporary / std::to_string(step);
  std::error_code error;
  fs::remove_all(temporary, error);
  for (const auto& object : objects) folder.fetch(object, fetched / name_in_step(object));
  sync_directory(fetched);
  try {
    if (verify) verify(temporary, step);
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  fs::rename(fetched, checkpoints / std::to_string(step), error);
  if (error) throw environment_error(fmt::format("{}: {}", fetched.string(), error.message()));
  sync_directory(checkpoints);
  fs::remove_all(temporary, error);
}

// The share that a file of a checkpoint belongs to; 0 if it belongs to none.
int share_of(const std::string& name, int count) {
  for (int index = 1; index < count; ++index)
    if (name.find(fmt::format("-{:05}-of-{:05}.", index + 1, count)) != name.npos) return index;
  return 0;
}

// The files of a checkpoint, of one share or (index 0) of all, the manifest last. They can be read
// even if the checkpoint is removed meanwhile. Empty: it was removed. Throws Environment.
OpenFiles open_files(const fs::path& directory, int index = 0, int count = 1) {
  OpenFiles files;
  std::error_code error;
  fs::recursive_directory_iterator entry(directory, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const auto name = entry->path().lexically_relative(directory).string();
    const bool is_wanted = index == 0 || name == kWrittenLast || share_of(name, count) == index;
    std::error_code unknown;
    if (!is_wanted || !entry->is_regular_file(unknown)) continue;
    FileDescriptor file(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open() && errno == ENOENT) return {};
    if (!file.is_open()) throw errno_error("cannot open " + entry->path().string());
    files.push_back({name, std::move(file)});
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw environment_error(fmt::format("cannot list {}: {}", directory.string(), error.message()));
  const auto manifest = std::ranges::find(files, kWrittenLast, &MirroredFile::name);
  if (error || manifest == files.end()) return {};
  std::iter_swap(manifest, files.end() - 1);
  return files;
}

std::set<int64_t> as_set(const std::vector<int64_t>& steps) { return {steps.begin(), steps.end()}; }

int64_t size_of(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error("cannot read a checkpoint");
  return status.st_size;
}

}  // namespace

std::unique_ptr<formats::ObjectFolder> mirror_of_run(const std::string& mirror,
                                                     const std::string& run_id,
                                                     std::chrono::milliseconds timeout) {
  if (!formats::has_scheme(mirror))
    throw config_error(fmt::format(
        "checkpoint.mirror: '{}' is not in a bucket; valid: s3://bucket/prefix", mirror));
  auto place = formats::parse_store_path(mirror);
  place.key += (place.key.empty() ? "" : "/") + run_id;
  return std::make_unique<formats::ObjectFolder>(std::move(place), timeout);
}

void verify_mirror(formats::ObjectFolder& folder) {
  folder.write_text(kWriteCheck, "");
  folder.remove(kWriteCheck);
}

std::optional<int64_t> fetch_mirrored(formats::ObjectFolder& folder, const fs::path& checkpoints) {
  if (!list_checkpoints(checkpoints).empty()) return std::nullopt;
  const auto steps = mirrored_checkpoints(folder);
  const auto latest = std::find_if(steps.rbegin(), steps.rend(), [](const auto& item) {
    return is_whole(item.first, item.second);
  });
  if (latest == steps.rend()) return std::nullopt;
  fetch_files(folder, latest->first, latest->second, checkpoints, {});
  return latest->first;
}

MirroredRun mirrored_run(const std::string& path, std::chrono::milliseconds timeout) {
  auto place = formats::parse_store_path(path);
  const auto take_last = [&place] {
    const auto slash = place.key.rfind('/');
    const auto name = slash == std::string::npos ? place.key : place.key.substr(slash + 1);
    place.key.erase(slash == std::string::npos ? 0 : slash);
    return name;
  };
  MirroredRun run;
  auto name = take_last();
  if (is_step_name(name)) {
    run.step = std::stoll(name);
    name = take_last();
  }
  if (!is_run_id(name))
    throw config_error(fmt::format("{}: expected s3://bucket/prefix/RUN or .../RUN/STEP",
                                   printable(path.substr(0, path.find('?')), 400)));
  run.id = name;
  place.key += (place.key.empty() ? "" : "/") + name;
  run.folder = std::make_unique<formats::ObjectFolder>(std::move(place), timeout);
  return run;
}

int64_t fetch_checkpoint(const MirroredRun& run, const fs::path& checkpoints,
                         const VerifyFetched& verify) {
  auto steps = mirrored_checkpoints(*run.folder);
  std::erase_if(steps, [](const auto& item) { return !is_whole(item.first, item.second); });
  const auto place = printable(run.folder->path_of(""), 400);
  if (steps.empty()) throw config_error(place + ": there is no whole checkpoint");
  const auto step = run.step.value_or(steps.rbegin()->first);
  const auto found = steps.find(step);
  if (found == steps.end())
    throw config_error(fmt::format("{}: there is no whole checkpoint {}; there are {} to {}", place,
                                   step, steps.begin()->first, steps.rbegin()->first));
  std::error_code error;
  if (const auto target = checkpoints / std::to_string(step); fs::exists(target, error))
    throw config_error(printable(target.string(), 400) +
                       " exists already: remove it, or choose another --dir");
  fetch_files(*run.folder, step, found->second, checkpoints, verify);
  return step;
}

Error in_bucket(const std::string& what, const std::string& path) {
  return config_error(fmt::format(
      "{}: '{}' is in a bucket: copy it to this machine first; a mirrored checkpoint with "
      "lockstep ckpt fetch s3://bucket/prefix/RUN/STEP",
      what, printable(path.substr(0, path.find('?')), 400)));
}

CheckpointMirror::CheckpointMirror(std::unique_ptr<formats::ObjectFolder> folder,
                                   fs::path checkpoints)
    : folder_(std::move(folder)),
      checkpoints_(std::move(checkpoints)),
      seen_(as_set(list_checkpoints(checkpoints_))),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  ::pthread_setname_np(thread_.native_handle(), "mirror");
}

CheckpointMirror::~CheckpointMirror() {
  thread_.request_stop();
  folder_->stop();
}

void CheckpointMirror::update(int64_t step) {
  {
    const MutexLock lock(mutex_);
    written_.insert(step);
    is_wanted_ = true;
  }
  changed_.notify_all();
}

void CheckpointMirror::start(std::function<void()> part) {
  {
    const MutexLock lock(mutex_);
    check(!part_, "an upload by several ranks has one part at a time");
    part_ = std::move(part);
  }
  changed_.notify_all();
}

void CheckpointMirror::clear(int64_t step) {
  start([this, step] {
    cleared_.reset();
    remove(step);
    cleared_ = step;
  });
}

void CheckpointMirror::upload_share(int64_t step, int index, int count) {
  // Opened here, before the checkpoint can be removed; a failure is one of the upload.
  auto files = std::make_shared<OpenFiles>();
  std::exception_ptr failure;
  try {
    *files = open_files(checkpoints_ / std::to_string(step), index, count);
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  start([this, step, index, count, files, failure] {
    if (failure) std::rethrow_exception(failure);
    for (const auto& [name, file] : *files)
      if (name != kWrittenLast && share_of(name, count) == index)
        folder_->write(fmt::format("{}/{}", step, name), file);
    if (index == 0 && cleared_ == step) shared_files_ = std::move(*files);
  });
}

bool CheckpointMirror::is_busy() const {
  const MutexLock lock(mutex_);
  return has_work() || is_busy_;
}

void CheckpointMirror::run(const std::stop_token& stop) {
  for (;;) {
    std::set<int64_t> written;
    std::function<void()> part;
    {
      MutexLock lock(mutex_);
      is_busy_ = false;
      changed_.notify_all();
      changed_.wait(lock.native(), stop, [this]() REQUIRES(mutex_) { return has_work(); });
      if (stop.stop_requested()) return;
      is_busy_ = true;
      part = std::exchange(part_, nullptr);
      if (!part) {
        is_wanted_ = false;
        written = std::exchange(written_, {});
      }
    }
    try {
      part ? part() : synchronize(written);
    } catch (const std::exception& error) {
      const MutexLock lock(mutex_);
      written_.merge(written);
      problems_.emplace_back(error.what());
    }
  }
}

// `written`: the bucket may have others of the same steps.
void CheckpointMirror::synchronize(const std::set<int64_t>& written) {
  auto mirrored = mirrored_checkpoints(*folder_);
  auto local = list_checkpoints(checkpoints_);
  std::ranges::reverse(local);
  seen_.insert(local.begin(), local.end());
  const auto shared = std::exchange(cleared_, std::nullopt);
  const auto files = std::exchange(shared_files_, {});
  if (shared) upload(*shared, files, mirrored[*shared]);
  for (const auto step : local) {
    if (step == shared && !files.empty()) continue;
    if (!written.empty() && step > *written.rbegin()) continue;  // its update() follows
    if (!written.contains(step) && is_whole(step, mirrored[step])) continue;
    if (!mirrored[step].empty()) remove(step);
    upload(step, open_files(checkpoints_ / std::to_string(step)), {});
  }
  // Others may be the only copies, of a run that was resumed from the bucket.
  for (const auto& [step, objects] : mirrored)
    if (step != shared && seen_.contains(step) && std::ranges::count(local, step) == 0)
      remove(step);
}

// `present`: what the bucket has of these files; in Azure, they are empty while they are written.
void CheckpointMirror::upload(int64_t step, const OpenFiles& files, const Objects& present) {
  for (const auto& [name, file] : files) {
    const auto key = fmt::format("{}/{}", step, name);
    const auto found = std::ranges::find(present, key, &formats::ObjectInfo::key);
    if (found == present.end() || found->size != size_of(file)) folder_->write(key, file);
  }
}

void CheckpointMirror::remove(int64_t step) {
  folder_->remove(fmt::format("{}/{}", step, kWrittenLast));
  folder_->remove_all(std::to_string(step));
}

std::vector<std::string> CheckpointMirror::take_problems() {
  const MutexLock lock(mutex_);
  return std::exchange(problems_, {});
}

void CheckpointMirror::report(Tracker& tracker) {
  for (const auto& problem : take_problems())
    tracker.text(TextLevel::Warning, "checkpoint.mirror: not uploaded: " + problem);
}

bool CheckpointMirror::wait(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  return changed_.wait_for(lock.native(), timeout,
                           [this]() REQUIRES(mutex_) { return !has_work() && !is_busy_; });
}

void CheckpointMirror::finish(std::chrono::milliseconds timeout, Tracker& tracker) {
  const bool is_done = wait(timeout);
  report(tracker);
  if (!is_done)
    tracker.text(
        TextLevel::Warning,
        fmt::format("checkpoint.mirror: the last checkpoint was not uploaded within {:.0f} s",
                    std::chrono::duration<double>(timeout).count()));
}

}  // namespace lockstep::trainer
