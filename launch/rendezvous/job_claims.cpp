#include "launch/rendezvous/job_claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {

std::filesystem::path claims_directory(const std::filesystem::path& runs_dir,
                                       const std::string& run_id) {
  return runs_dir / run_id / "claims";
}

bool can_see_claim(const std::filesystem::path& directory, const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(directory / name, ignored)) return true;
  const auto run = directory.parent_path();
  for (const auto& above : {run.parent_path(), run, directory})
    std::filesystem::directory_iterator(above, ignored);  // revalidates the cache
  return false;
}

JobClaims::JobClaims(std::filesystem::path directory, std::string key, int node, int64_t num_claims)
    : directory_(std::move(directory)),
      key_(std::move(key)),
      node_(node),
      num_claims_(num_claims) {}

std::filesystem::path JobClaims::file() const {
  return directory_ / fmt::format("{}-{}", key_, num_claims_ + 1);
}

std::string JobClaims::newest() const { return fmt::format("{}-{}", key_, num_claims_); }

// A link to a complete file is atomic on network file systems, too, and fails if there is a file.
bool JobClaims::claim(const std::vector<int>& nodes) {
  make_directories(directory_);
  const auto own = directory_ / fmt::format("{}-node-{}", key_, node_);
  write_file_durably(own, fmt::format("{}\n", fmt::join(nodes, " ")));
  bool is_ours = true;
  int reason = 0;
  while (::link(own.c_str(), file().c_str()) != 0) {
    reason = errno;
    is_ours = reason == EEXIST && contains_this_node(file());
    if (!is_ours) break;
    ++num_claims_;  // by a coordinator that was lost before it could send it
  }
  ::unlink(own.c_str());
  if (is_ours) ++num_claims_;
  if (!is_ours && reason != EEXIST) {
    errno = reason;
    throw errno_error(fmt::format("cannot create {}", file().string()));
  }
  return is_ours;
}

bool JobClaims::contains_this_node(const std::filesystem::path& file) const {
  std::istringstream numbers(read_file(file));
  for (int number = 0; numbers >> number;)
    if (number == node_) return true;
  return false;
}

}  // namespace lockstep::launch
