// The kinds of sounds and videos: those that browsers play. Files of other types are not served, so
// that no browser interprets them as something else.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::tracking {

struct ClipType {
  std::string_view type;    // MIME type
  std::string_view ending;  // of a file name
  bool is_video = false;
};

inline constexpr std::array kClipTypes = {
    ClipType{"audio/wav", ".wav"},        ClipType{"audio/flac", ".flac"},
    ClipType{"audio/ogg", ".ogg"},        ClipType{"audio/mpeg", ".mp3"},
    ClipType{"audio/mp4", ".m4a"},        ClipType{"video/mp4", ".mp4", true},
    ClipType{"video/webm", ".webm", true}};

// nullptr for a type that is not in the list.
inline const ClipType* find_clip_type(std::string_view type) {
  const auto* it = std::ranges::find(kClipTypes, type, &ClipType::type);
  return it == kClipTypes.end() ? nullptr : it;
}

}  // namespace lockstep::tracking
