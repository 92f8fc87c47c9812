// Splits a stream of bytes into lines for display. Of a line that is rewritten with carriage
// returns (a progress bar), only the last state is kept. Memory is bounded: lines longer than
// kMaxLineLength bytes are split.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::launch {

class LineSplitter {
 public:
  static constexpr size_t kMaxLineLength = 64u << 10;
  // Called with each line, without its line ending.
  using OnLine = std::function<void(std::string_view)>;

  void feed(std::string_view bytes, const OnLine& on_line);
  // Passes on a last line without a newline.
  void finish(const OnLine& on_line);

 private:
  void append(std::string_view bytes, const OnLine& on_line);

  std::string line_;
  bool returned_ = false;  // after a carriage return: text overwrites the line, a newline does not
};

}  // namespace lockstep::launch
