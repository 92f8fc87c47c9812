// The bytes between launchers: frames of four bytes length (most significant first) and that many
// bytes of content. Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::launch {

std::string make_frame(std::string_view content);

class FrameReader {
 public:
  // `most`: the longest content that is accepted.
  explicit FrameReader(size_t most) : most_(most) {}
  void set_most(size_t most) { most_ = most; }

  void feed(std::string_view bytes) { bytes_.append(bytes); }
  // The next whole frame's content. Throws Environment for one that is too long: what follows
  // cannot be read any more.
  std::optional<std::string> next();

 private:
  size_t most_;
  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace lockstep::launch
