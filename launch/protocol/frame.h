// Framing of the bytes between launchers: a length of four bytes (big-endian), then the content.
// Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

std::string make_frame(std::string_view content);

class FrameReader {
 public:
  // `max_bytes`: the longest content that is accepted.
  explicit FrameReader(size_t max_bytes) : max_bytes_(max_bytes) {}
  void set_max_bytes(size_t max_bytes) { max_bytes_ = max_bytes; }

  void feed(std::string_view bytes) { bytes_.append(bytes); }
  // The content of the next complete frame; nullopt: incomplete. Throws Environment if it is too
  // long; no later frame can be read then.
  std::optional<std::string> next();

 private:
  size_t max_bytes_;
  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace lockstep::launch
