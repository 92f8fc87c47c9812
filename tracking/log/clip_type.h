// The kinds of files in clips: sounds and videos that browsers play, and HTML pages. Files of other types
// are not served, so that no browser interprets them as something else.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::tracking {

enum class ClipKind { Sound, Video, Page };

struct ClipType {
  std::string_view type;    // MIME type
  std::string_view ending;  // of a file name
  ClipKind kind = ClipKind::Sound;
};

inline constexpr std::array kClipTypes = {ClipType{"audio/wav", ".wav"},
                                          ClipType{"audio/flac", ".flac"},
                                          ClipType{"audio/ogg", ".ogg"},
                                          ClipType{"audio/mpeg", ".mp3"},
                                          ClipType{"audio/mp4", ".m4a"},
                                          ClipType{"video/mp4", ".mp4", ClipKind::Video},
                                          ClipType{"video/webm", ".webm", ClipKind::Video},
                                          ClipType{"text/html", ".html", ClipKind::Page}};

// nullptr for a type that is not in the list.
inline const ClipType* find_clip_type(std::string_view type) {
  const auto* it = std::ranges::find(kClipTypes, type, &ClipType::type);
  return it == kClipTypes.end() ? nullptr : it;
}

}  // namespace lockstep::tracking
