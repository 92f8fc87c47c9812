// Access tokens with roles: a file with a name, a role and a hash per line, for `lockstep ui
// --tokens FILE`. The tokens themselves are not stored.
//   # comment
//   ada write 5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/mutex.h"

namespace lockstep::dashboard {

// Write: read, and change runs. Send: only send runs of other machines.
enum class Role { Read, Write, Send };
constexpr auto choices(Role) { return std::array{"read", "write", "send"}; }
const char* role_name(Role role);

struct AccessToken {
  std::string name;
  Role role = Role::Read;
  std::string sha256;  // of the token

  bool operator==(const AccessToken&) const = default;
};

// Throws Config, with `file` and the line.
std::vector<AccessToken> parse_access_tokens(std::string_view text, const std::string& file);
// Throws Config if the file does not exist or is not valid, or if others can read it.
std::vector<AccessToken> read_access_tokens(const std::filesystem::path& file);

// Adds a token to the file, which is created, and returns it. Throws Config for a name or role that
// is not valid or exists already, Environment if the file cannot be written.
std::string add_access_token(const std::filesystem::path& file, const std::string& name,
                             const std::string& role);
// Throws Config if there is no such token.
void remove_access_token(const std::filesystem::path& file, const std::string& name);

// The file of a running server, which follows its changes. Thread: any.
class AccessTokenFile {
 public:
  // Throws as read_access_tokens() does. `warn` is called with the reason when the file is no longer
  // valid, by the thread of the request that finds it.
  explicit AccessTokenFile(std::filesystem::path file,
                           std::function<void(const std::string&)> warn = {});

  // Empty while the file is missing or not valid.
  std::shared_ptr<const std::vector<AccessToken>> tokens();
  // Why there are no tokens now; empty if the file is valid.
  std::string problem();

 private:
  struct Version {
    uint64_t inode = 0, size = 0;
    int64_t time_ns = 0;
    bool operator==(const Version&) const = default;
  };
  Version version() const;  // with the time of the last change, also of permissions
  void update() REQUIRES(mutex_);

  const std::filesystem::path file_;
  const std::function<void(const std::string&)> warn_;
  Mutex mutex_;
  Version read_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<AccessToken>> tokens_ GUARDED_BY(mutex_);
  std::string problem_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::dashboard
