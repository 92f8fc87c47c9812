#include "launch/workers/line_splitter.h"

#include <algorithm>

namespace lockstep::launch {

void LineSplitter::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    append(bytes.substr(0, end), on_line);
    if (end == bytes.size()) return;
    if (bytes[end] == '\n') {
      on_line(line_);
      line_.clear();
    }
    returned_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::finish(const OnLine& on_line) {
  if (!line_.empty()) on_line(line_);
  line_.clear();
  returned_ = false;
}

void LineSplitter::append(std::string_view bytes, const OnLine& on_line) {
  if (bytes.empty()) return;
  if (returned_) line_.clear();
  returned_ = false;
  while (line_.size() + bytes.size() > kMaxLineLength) {
    const auto room = kMaxLineLength - line_.size();
    line_.append(bytes.substr(0, room));
    bytes.remove_prefix(room);
    on_line(line_);
    line_.clear();
  }
  line_.append(bytes);
}

}  // namespace lockstep::launch
