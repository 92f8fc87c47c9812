#include "launch/rendezvous/moved_rendezvous.h"

#include <fmt/format.h>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {

namespace {
constexpr size_t kMaxFileBytes = 4096;
}

MovedRendezvous::MovedRendezvous(const std::filesystem::path& runs_dir, const Endpoint& endpoint)
    : file_(runs_dir / fmt::format(".lockstep-{}-{}.coordinator", endpoint.host, endpoint.port)) {}

void MovedRendezvous::write(const Endpoint& moved_to) const {
  write_file_durably(file_, fmt::format("[{}]:{}", moved_to.host, moved_to.port));
}

void MovedRendezvous::remove() const {
  std::error_code ignored;
  std::filesystem::remove(file_, ignored);
}

std::optional<Endpoint> MovedRendezvous::find() {
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored)) return std::nullopt;
  try {
    found_ = read_file(file_, kMaxFileBytes);
    if (found_ == ignored_) return std::nullopt;
    return parse_endpoint(found_, 0, file_.string());
  } catch (const Error&) {  // removed meanwhile, or not such a file
    return std::nullopt;
  }
}

}  // namespace lockstep::launch
