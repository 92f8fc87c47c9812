#include "tracking/artifacts/artifact.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxArtifactName = 128, kMaxArtifactPath = 1024;

bool means_version(std::string_view text) {
  return text.size() > 1 && text.front() == 'v' &&
         text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// C0, DEL and, in UTF-8, C1: terminals interpret these as commands.
bool has_control_characters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && next < 0xA0)) return true;
  }
  return false;
}

}  // namespace

uint64_t Artifact::size() const {
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size;
  return bytes;
}

std::string Artifact::reference() const { return fmt::format("{}:v{}", name, version); }

bool is_artifact_name(std::string_view text) {
  constexpr auto kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !text.empty() && text.size() <= kMaxArtifactName && text.front() != '.' &&
         text.front() != '-' && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_artifact_alias(std::string_view text) {
  return is_artifact_name(text) && !means_version(text);
}

bool is_artifact_path(std::string_view text) {
  if (text.empty() || text.size() > kMaxArtifactPath || has_control_characters(text) ||
      find_invalid_utf8(text) != std::string_view::npos)
    return false;
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('/', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

std::string artifact_digest(const std::vector<ArtifactFile>& files) {
  Sha256 digest;
  for (const auto& file : files)
    digest.add(fmt::format("{} {} {}\n", file.sha256, file.size, file.path));
  return digest.hex();
}

}  // namespace lockstep::tracking
