// The tail of a growing event log: torn at any byte, with and without the zeros that a writer
// reserves, with a frame whose length is still missing, truncated as by a writer after a kill, and
// across segments. The input is the order of events. For any order, the tail returns each record
// once, like a reader of the complete log. If bytes of the log are replaced with input, the tail
// may stop or report an error, but must not crash.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/segmented_log.h"
#include "tracking/log/event_frame.h"

namespace {

using namespace lockstep;

constexpr int kMaxEvents = 150;

void require(bool holds) {
  if (!holds) std::abort();
}

// The order of events; zeros at its end.
class Script {
 public:
  explicit Script(std::string_view bytes) : bytes_(bytes) {}
  bool is_over() const { return at_ >= bytes_.size(); }
  size_t take() { return is_over() ? 0 : static_cast<uint8_t>(bytes_[at_++]); }
  std::string_view take_bytes(size_t size) {
    const auto found = bytes_.substr(std::min(at_, bytes_.size()), size);
    at_ += size;
    return found;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// A log of two processes: for each segment, its bytes and the ends of its frames.
struct Sample {
  explicit Sample(bool has_rewind) {
    const TemporaryDirectory directory;
    const auto path = directory / "log";
    std::vector<std::string> ignored;
    {
      tracking::EventLogWriter log(path, tracking::kSmall);
      write_process(log, 1, 1, 20, ignored);
    }
    {
      tracking::EventLogWriter log(path, tracking::kSmall);
      if (has_rewind) log.rewind(12);
      write_process(log, 2, has_rewind ? 13 : 21, 40, ignored);
    }
    lines = tracking::all_of(path);
    for (uint32_t i = 0; i <= tracking::last_segment(path); ++i) {
      segments.push_back(read_file(tracking::segment_path(path, i)));
      tracking::FrameCursor cursor(segments.back());
      frame_ends.push_back({tracking::kEventLogHeaderBytes});
      while (cursor.next()) frame_ends.back().push_back(cursor.offset());
      segments.back().resize(cursor.offset());
      const auto beginning = tracking::decode_beginning(segments.back());
      first_own_bytes.push_back(beginning ? beginning->bytes : tracking::kEventLogHeaderBytes);
    }
    require(segments.size() > 2);
  }

  std::vector<std::string> segments, lines;
  std::vector<std::vector<size_t>> frame_ends;
  std::vector<size_t> first_own_bytes;
};

// The part of a sample that is in the files so far.
class GrowingLog {
 public:
  GrowingLog(const Sample& sample, std::filesystem::path path)
      : sample_(sample), path_(std::move(path)) {
    for (uint32_t i = 0; i < sample.segments.size(); ++i)
      ::unlink(tracking::segment_path(path_, i).c_str());
  }

  bool is_whole() const {
    return number_ + 1 == sample_.segments.size() && visible_ == content().size();
  }
  void grow(size_t bytes, size_t zeros, bool length_last) {
    if (visible_ == content().size()) begin_next();
    visible_ = std::min(visible_ + bytes, content().size());
    auto shown = content().substr(0, visible_);
    if (length_last)
      std::fill_n(shown.begin() + static_cast<long>(frame_begin()), length_bytes(), 0);
    show(shown + std::string(zeros, '\0'));
  }
  // Bytes of a frame left by a killed writer, to be replaced.
  void tear(std::string_view bytes) {
    visible_ = frame_begin();
    show(content().substr(0, visible_) + std::string(bytes));
  }
  // The next process truncates them.
  void resume() {
    visible_ = frame_begin();
    show(content().substr(0, visible_));
  }
  void damage(size_t at, std::string_view bytes) const {
    const auto file = open_file();
    require(::pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) >= 0);
  }

 private:
  const std::string& content() const { return sample_.segments[number_]; }
  // Of the incomplete frame.
  size_t frame_begin() const {
    size_t begin = 0;
    for (const auto end : sample_.frame_ends[number_])
      if (end <= visible_) begin = end;
    return begin;
  }
  size_t length_bytes() const { return std::min(visible_ - frame_begin(), sizeof(uint32_t)); }

  void begin_next() {
    if (is_whole()) return;
    show(content());  // it has its exact length before the next one starts
    ++number_;
    visible_ = 0;
  }
  // A segment's magic is written last.
  void show(std::string bytes) const {
    if (visible_ < sample_.first_own_bytes[number_])
      std::fill_n(bytes.begin(), std::min(bytes.size(), tracking::kEventLogHeaderBytes), 0);
    damage(0, bytes);
    require(::ftruncate(open_file().get(), static_cast<off_t>(bytes.size())) == 0);
  }
  FileDescriptor open_file() const {
    FileDescriptor file(
        ::open(tracking::segment_path(path_, number_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    require(file.is_open());
    return file;
  }

  const Sample& sample_;
  std::filesystem::path path_;
  uint32_t number_ = 0;
  size_t visible_ = 0;
};

// A tail and its output: lines up to `num_settled_` are never returned again.
class Follower {
 public:
  explicit Follower(std::filesystem::path path) : path_(std::move(path)), tail_(path_) {}

  void read(size_t most) {
    for (size_t i = 0; i < most; ++i) {
      const auto before = tail_.offset();
      const auto record = tail_.next();
      require(tail_.offset() >= before);
      if (!record) return;
      std::visit(tracking::RecordLines{lines_, tail_.keys()}, *record);
    }
  }
  void keep() {
    tail_.commit();
    num_settled_ = lines_.size();
  }
  void go_back() {
    tail_.roll_back();
    lines_.resize(num_settled_);
  }
  void begin_again() {
    tail_ = tracking::LogTail(path_, tail_.offset());
    num_settled_ = lines_.size();
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::filesystem::path path_;
  tracking::LogTail tail_;
  std::vector<std::string> lines_;
  size_t num_settled_ = 0;
};

void follow(GrowingLog& log, Follower& follower, Script& script, bool may_damage) {
  for (int i = 0; i < kMaxEvents && !script.is_over(); ++i) {
    const auto what = script.take();
    if (what % 10 <= 2)
      log.grow(1 + script.take(), what & 64 ? script.take() : 0, (what & 128) != 0);
    else if (what % 10 == 3)
      log.tear(script.take_bytes(script.take() % 32));
    else if (what % 10 == 4)
      log.resume();
    else if (what % 10 == 5)
      follower.keep();
    else if (what % 10 == 6)
      follower.go_back();
    else if (what % 10 == 7)
      follower.begin_again();
    else if (what % 10 == 8 && may_damage)
      log.damage(script.take() * 8, script.take_bytes(script.take() % 64));
    else
      follower.read(script.take() % 16);
  }
}

// Each of `expected` is in `lines`, in that order.
bool has_all(const std::vector<std::string>& lines, const std::vector<std::string>& expected) {
  auto at = lines.begin();
  for (const auto& line : expected) {
    at = std::find(at, lines.end(), line);
    if (at == lines.end()) return false;
    ++at;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory directory;
  static const Sample straight(false), rewound(true);
  Script script({reinterpret_cast<const char*>(data), size});
  const auto mode = script.take();
  const bool has_rewind = (mode & 1) != 0, may_damage = (mode & 2) != 0;
  const auto& sample = has_rewind ? rewound : straight;
  GrowingLog log(sample, directory / "log");
  try {
    Follower follower(directory / "log");
    follow(log, follower, script, may_damage);
    while (!log.is_whole()) log.grow(1000, 0, false);
    follower.read(sample.lines.size() + 10);
    // Records that a later rewind removes may have been returned before it was written.
    if (!may_damage)
      require(has_rewind ? has_all(follower.lines(), sample.lines)
                         : follower.lines() == sample.lines);
  } catch (const Error&) {
    require(may_damage);  // not an event log
  }
  return 0;
}
