#include "dashboard/api/audit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "catalog/json_text.h"
#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "core/system/file_lock.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxChangeBytes = 8192, kMaxAuditBytes = 16u << 20;
constexpr auto kRotateTimeout = std::chrono::seconds(5);

bool is_full(const std::filesystem::path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return !error && size >= kMaxAuditBytes;
}

// The lock keeps another dashboard from renaming the next file, too.
void rotate(const std::filesystem::path& path) {
  if (!is_full(path)) return;
  const FileLock lock(path.parent_path() / ".audit-lock", FileLock::Kind::Exclusive,
                      kRotateTimeout);
  std::error_code ignored;  // the file then grows further
  if (is_full(path)) std::filesystem::rename(path, path.parent_path() / "audit.1.jsonl", ignored);
}

}  // namespace

// One write() to a file opened for appending: lines of several dashboards do not mix.
void record_change(const std::filesystem::path& runs, const ApiRequest& request,
                   const std::string& action, const std::string& run) {
  const auto path = runs / ".dashboard" / "audit.jsonl";
  const auto body = request.body.size() <= kMaxChangeBytes ? parse_json(request.body)
                                                           : Json({{"bytes", request.body.size()}});
  const Json record = {{"time", tracking::unix_now()},
                       {"user", request.user},
                       {"action", action},
                       {"run", run},
                       {"change", body.is_discarded() ? Json(nullptr) : body}};
  make_directories(path.parent_path());
  rotate(path);
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto line = catalog::to_text(record) + "\n";
  const auto size = file.is_open() ? ::write(file.get(), line.data(), line.size()) : -1;
  if (size != static_cast<ssize_t>(line.size()))
    throw errno_error(fmt::format("the change was made, but not recorded in {}", path.string()));
}

}  // namespace lockstep::dashboard
