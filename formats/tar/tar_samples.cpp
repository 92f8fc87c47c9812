#include "formats/tar/tar_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxSampleMembers = 1000;
constexpr size_t kMaxShownKey = 400;
constexpr size_t kMaxShownMembers = 10;

bool is_metadata(std::string_view name) {
  const auto first = name.substr(0, name.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

// The length of the key at the start of a member's name; nullopt: not a part of a sample.
std::optional<size_t> key_length(std::string_view name) {
  const auto slash = name.rfind('/');
  const auto begin = slash == name.npos ? 0 : slash + 1;
  const auto dot = name.find('.', begin);
  if (dot == name.npos || dot == begin || is_metadata(name)) return std::nullopt;
  return dot;
}

class SampleGroups {
 public:
  SampleGroups(const std::string& name, const std::function<void(const TarSample&)>& use)
      : name_(name), use_(use) {}

  void add(const TarMember& member) {
    const auto length = key_length(member.name);
    if (!length) return;
    const auto key = std::string_view(member.name).substr(0, *length);
    if (sample_.members.empty() || key != sample_.key) begin(key);
    auto extension = member.name.substr(*length + 1);
    for (auto& c : extension)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (sample_.find(extension))
      throw refused(fmt::format("it has two members '{}'", printable(extension)));
    if (sample_.members.size() == kMaxSampleMembers)
      throw refused(fmt::format("it has more than {} members", kMaxSampleMembers));
    sample_.members.push_back({std::move(extension), member});
  }

  void finish() {
    if (!sample_.members.empty()) use_(sample_);
    if (keys_.empty())
      throw config_error(name_ +
                         ": it has no samples: no members with an extension, such as 0001.jpg");
  }

 private:
  Error refused(const std::string& why) const {
    return config_error(
        fmt::format("{}: sample '{}': {}", name_, printable(sample_.key, kMaxShownKey), why));
  }

  void begin(std::string_view key) {
    if (!sample_.members.empty()) use_(sample_);
    sample_.key = key;
    sample_.members.clear();
    if (!keys_.insert(sample_.key).second)
      throw refused(
          "it occurs twice: members of a sample must follow each other; create the archive with "
          "tar --sort=name");
  }

  const std::string& name_;
  const std::function<void(const TarSample&)>& use_;
  TarSample sample_;
  std::unordered_set<std::string> keys_;
};

}  // namespace

const TarMember* TarSample::find(std::string_view extension) const {
  const auto found = std::ranges::find(members, extension, &TarSampleMember::extension);
  return found == members.end() ? nullptr : &found->file;
}

std::string TarSample::extensions() const {
  std::string all;
  for (size_t i = 0; i < std::min(members.size(), kMaxShownMembers); ++i)
    all += (i == 0 ? "" : ", ") + printable(members[i].extension);
  return members.size() > kMaxShownMembers ? all + ", ..." : all;
}

void for_each_tar_sample(std::span<const uint8_t> archive, const std::string& name,
                         const std::function<void(const TarSample&)>& use) {
  SampleGroups groups(name, use);
  for_each_tar_member(archive, name, [&](const TarMember& member) { groups.add(member); });
  groups.finish();
}

}  // namespace lockstep::formats
