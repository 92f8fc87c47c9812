#include "launch/protocol/frame.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

std::string make_frame(std::string_view content) {
  std::string frame;
  frame.reserve(kLengthBytes + content.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    frame += static_cast<char>((content.size() >> shift) & 0xff);
  return frame.append(content);
}

std::optional<std::string> FrameReader::next() {
  if (bytes_.size() - at_ < kLengthBytes) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length = length << 8 | static_cast<unsigned char>(bytes_[at_ + i]);
  if (length > max_bytes_)
    throw environment_error(
        fmt::format("message of {} bytes exceeds the limit of {}", length, max_bytes_));
  if (bytes_.size() - at_ < kLengthBytes + length) return std::nullopt;
  auto content = bytes_.substr(at_ + kLengthBytes, length);
  at_ += kLengthBytes + length;
  if (at_ == bytes_.size()) {
    bytes_.clear();
    at_ = 0;
  }
  return content;
}

}  // namespace lockstep::launch
