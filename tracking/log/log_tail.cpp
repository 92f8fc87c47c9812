#include "tracking/log/log_tail.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kFirstTailPiece = 16u << 10, kMaxTailPieceBytes = 256u << 10;

uint64_t size_of_open_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// The step of a record that a rewind can replace.
struct StepOf {
  std::optional<int64_t> operator()(const LoggedRow& row) const { return row.step; }
  std::optional<int64_t> operator()(const Histogram& value) const { return value.at.step; }
  std::optional<int64_t> operator()(const Image& value) const { return value.at.step; }
  std::optional<int64_t> operator()(const Clip& value) const { return value.at.step; }
  std::optional<int64_t> operator()(const Table& value) const { return value.at.step; }
  template <class Other>
  std::optional<int64_t> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

LogTail::LogTail(std::filesystem::path path, uint64_t offset)
    : path_(std::move(path)), offset_(kEventLogHeaderBytes), read_size_(kFirstTailPiece) {
  skip_segments(offset);
  while (offset_ < offset) {
    const auto record = read();
    if (!record) break;
    note(*record);
  }
  commit();
}

void LogTail::commit() {
  committed_ = {segment_, segment_begin_, offset_,   num_records_, num_skipped_,
                has_gap_, keys_.size(),   identity_, config_};
  std::erase_if(rewinds_, [this](const Rewind& rewind) { return rewind.offset <= offset_; });
}

void LogTail::roll_back() {
  if (segment_ != committed_.segment) {
    file_.close();
    next_.reset();
  }
  segment_ = committed_.segment;
  segment_begin_ = committed_.segment_begin;
  offset_ = committed_.offset;
  num_records_ = committed_.num_records;
  num_skipped_ = committed_.num_skipped;
  has_gap_ = committed_.has_gap;
  keys_.resize(committed_.num_keys);
  identity_ = committed_.identity;
  config_ = committed_.config;
  release_buffer();
}

// An idle tail holds no buffer.
void LogTail::release_buffer() {
  std::string().swap(buffer_);
  buffer_begin_ = offset_;
  read_size_ = kFirstTailPiece;
}

bool LogTail::open() {
  if (file_.is_open()) return true;
  FileDescriptor file(::open(segment_path(path_, segment_).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno != ENOENT)
    throw errno_error(fmt::format("cannot read {}", path_.string()));
  if (!file.is_open()) return false;
  const auto header = read_log_piece(file.get(), 0, kEventLogHeaderBytes);
  if (header.size() < kEventLogHeaderBytes) return false;
  const auto magic = std::string_view(header).substr(0, kEventLogMagic.size());
  if (magic.find_first_not_of('\0') == std::string_view::npos) return false;  // not written yet
  if (const auto problem = log_header_problem(header); !problem.empty())
    throw config_error(fmt::format("{}: {}", path_.string(), problem));
  file_ = std::move(file);
  return true;
}

uint64_t LogTail::backlog() const {
  if (!file_.is_open()) return 0;
  const auto end = segment_begin_ + size_of_open_file(file_.get());
  uint64_t bytes = end > offset_ ? end - offset_ : 0;
  for (auto next = next_segment(path_, segment_); next;
       next = next_segment(path_, next->beginning.number))
    bytes += size_of_open_file(next->file.get()) - next->beginning.bytes;
  return bytes;
}

// A quick check for an idle tail: false if nothing was appended.
bool LogTail::has_more() {
  if (!open()) return false;
  const auto head = read_log_piece(file_.get(), offset_ - segment_begin_, kFrameHeadBytes);
  if (head.find_first_not_of('\0') != std::string::npos) return true;
  if (!next_) next_ = next_segment(path_, segment_);
  return next_.has_value();
}

// Called at the end of this segment. True if reading should be tried again: records that were
// appended before the next segment was created are read first, then the next one is entered.
bool LogTail::advance() {
  if (next_) {
    has_gap_ = has_gap_ || has_rest();
    num_skipped_ += segment_begin_ + size_of_open_file(file_.get()) - offset_;
    enter_next();
    return true;
  }
  next_ = next_segment(path_, segment_);
  return next_.has_value();
}

void LogTail::enter_next() {
  segment_begin_ += size_of_open_file(file_.get());
  segment_ = next_->beginning.number;
  offset_ = segment_begin_ + next_->beginning.bytes;
  file_ = std::move(next_->file);
  buffer_.clear();
  auto& state = next_->beginning.state;
  if (state.info) identity_ = std::move(state.info);
  if (!state.config.is_null()) config_ = std::move(state.config);
  if (state.keys.size() >= keys_.size()) keys_ = std::move(state.keys);
  next_.reset();
}

bool LogTail::has_rest() const {
  constexpr size_t kRestPiece = 64u << 10;
  // A file with an incomplete header was not opened.
  const FileDescriptor other(file_.is_open() ? -1 : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  const int file = file_.is_open() ? file_.get() : other.get();
  if (file < 0) return false;
  auto at = file_.is_open() ? offset_ - segment_begin_ : 0;
  at += unfinished_frame_bytes(read_log_piece(file, at, kFrameHeadBytes));
  for (;; at += kRestPiece) {
    const auto bytes = read_log_piece(file, at, kRestPiece);
    if (bytes.find_first_not_of('\0') != std::string::npos) return true;
    if (bytes.size() < kRestPiece) return false;
  }
}

bool LogTail::is_corrupt() const {
  return has_gap_ || has_rest() || has_log_magic(segment_path(path_, segment_ + 1));
}

// Segments before the one that contains `offset` are not read: it repeats the state.
void LogTail::skip_segments(uint64_t offset) {
  while (segment_begin_ < offset && open()) {
    next_ = next_segment(path_, segment_);
    if (!next_ || segment_begin_ + size_of_open_file(file_.get()) > offset) return;
    enter_next();
  }
}

// Fills the buffer with `wanted` bytes from offset_ on. False if the segment does not have them
// yet.
bool LogTail::fill(size_t wanted) {
  if (offset_ < buffer_begin_ || offset_ > buffer_begin_ + buffer_.size()) {
    buffer_.clear();
    buffer_begin_ = offset_;
  }
  buffer_.erase(0, offset_ - buffer_begin_);
  buffer_begin_ = offset_;
  const auto have = buffer_.size();
  if (have >= wanted) return true;
  const auto size = std::max(wanted - have, read_size_);
  read_size_ = std::min(2 * read_size_, kMaxTailPieceBytes);
  buffer_ += read_log_piece(file_.get(), offset_ - segment_begin_ + have, size);
  return buffer_.size() >= wanted;
}

// Zeros in the buffer may have become a frame since, so an incomplete frame in the buffer is read
// once more from the file.
std::optional<Frame> LogTail::frame() {
  for (const bool fresh : {false, true}) {
    const auto begin = static_cast<size_t>(offset_ - buffer_begin_);
    if (fresh) {
      buffer_.clear();
      buffer_begin_ = offset_;
      uint32_t length = 0;
      if (!fill(kFrameHeadBytes)) return std::nullopt;
      std::memcpy(&length, buffer_.data(), sizeof(length));
      length &= ~kZlibChecksum;
      if (length == 0 || length > kMaxFrameLength || !fill(kFrameHeadBytes + length))
        return std::nullopt;
    } else if (offset_ < buffer_begin_ || begin >= buffer_.size()) {
      continue;
    }
    FrameCursor cursor(buffer_, fresh ? 0 : begin);
    if (auto frame = cursor.next()) {
      offset_ = buffer_begin_ + cursor.offset();
      return frame;
    }
  }
  return std::nullopt;
}

std::optional<Record> LogTail::read() {
  if (!open()) return std::nullopt;
  while (true) {
    if (auto record = read_here()) return record;
    if (!advance()) return std::nullopt;
  }
}

std::optional<Record> LogTail::read_here() {
  const auto before = offset_;
  const auto found = frame();
  if (!found) return std::nullopt;
  auto record = decode_record(*found, keys_.size());
  if (!record)
    offset_ = before;  // corrupt: the segment ends here
  else
    ++num_records_;
  return record;
}

void LogTail::note(const Record& record) {
  if (const auto* key = std::get_if<KeyRecord>(&record)) keys_.push_back(key->name);
  if (const auto* info = std::get_if<RunInfo>(&record))
    identity_ = continued_from(identity_, *info);
  if (const auto* config = std::get_if<ConfigRecord>(&record)) config_ = config->config;
}

// Scans from where it last stopped to the current end of the log, each time the tail catches up.
void LogTail::scan_for_rewinds() {
  LogTail ahead(path_);
  ahead.segment_ = segment_;
  ahead.segment_begin_ = segment_begin_;
  ahead.offset_ = offset_;
  if (!ahead.open()) return;
  do {
    while (const auto found = ahead.frame()) {
      if (found->type != static_cast<uint8_t>(FrameType::Rewind)) continue;
      if (const auto record = decode_record(*found, 0))
        rewinds_.push_back({ahead.offset_, std::get<RewindRecord>(*record).step});
    }
  } while (ahead.advance());
  scanned_to_ = ahead.offset_;
}

bool LogTail::is_rewound(const Record& record) const {
  const auto step = std::visit(StepOf{}, record);
  return step && std::ranges::any_of(rewinds_, [&](const Rewind& rewind) {
           return offset_ < rewind.offset && rewind.step < *step;
         });
}

std::optional<Record> LogTail::next() {
  while (true) {
    const bool has_caught_up = offset_ >= scanned_to_;
    const bool is_worth_it = !has_caught_up || has_more();
    if (has_caught_up && is_worth_it) scan_for_rewinds();
    auto record = is_worth_it ? read() : std::nullopt;
    if (!record) {
      release_buffer();
      return std::nullopt;
    }
    note(*record);
    if (!is_rewound(*record)) return record;
  }
}

}  // namespace lockstep::tracking
