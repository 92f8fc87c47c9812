// Cuts a stream of bytes into lines for display. Of a line that was rewritten with carriage returns
// (a progress bar) only the last state is kept. Memory is bounded: a line of more than kMaxLineLength
// bytes is passed on in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lockstep::launch {

class LineSplitter {
 public:
  static constexpr size_t kMaxLineLength = 64u << 10;
  // Gets each line without its end.
  using OnLine = std::function<void(std::string_view)>;

  void feed(std::string_view bytes, const OnLine& on_line);
  // Passes on a last line that has no end.
  void finish(const OnLine& on_line);

 private:
  void append(std::string_view bytes, const OnLine& on_line);

  std::string line_;
  bool returned_ = false;  // a carriage return came last: what follows overwrites the line, unless
                           // it is a newline
};

}  // namespace lockstep::launch
