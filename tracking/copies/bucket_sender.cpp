#include "tracking/copies/bucket_sender.h"

#include <algorithm>
#include <utility>

#include "core/system/crc32c.h"
#include "tracking/copies/log_pieces.h"
#include "tracking/copies/run_files.h"

namespace lockstep::tracking {
namespace {

using formats::ObjectFolder;

constexpr size_t kEndBytesCompared = kComparedBytes;

// Writes logs as pieces. Has the last piece of each in memory.
class LogPieceWriter final : public LogCopyStore {
 public:
  explicit LogPieceWriter(ObjectFolder& folder) : folder_(folder) {}

  LogCopy copy(const std::string& segment) override {
    auto& log = logs_[segment];
    log = read(segment);
    return log.state();
  }

  LogCopy append(const std::string& segment, uint64_t offset, const std::string& bytes) override {
    if (!logs_.contains(segment)) copy(segment);
    auto& log = logs_[segment];
    if (log.end() != offset) return log.state();
    for (size_t done = 0; done < bytes.size();) {
      if (log.piece.size() >= kLogPieceBytes) log.begin_piece();
      const auto count = std::min(bytes.size() - done, kLogPieceBytes - log.piece.size());
      extend(segment, log, bytes.substr(done, count));
      done += count;
    }
    return log.state();
  }

 private:
  struct Log {
    std::string head;    // the first bytes of the log
    std::string before;  // the last bytes before the piece
    uint64_t begin = 0;  // of the piece
    std::string piece;

    uint64_t end() const { return begin + piece.size(); }

    void begin_piece() {
      before = last_bytes();
      begin = end();
      piece.clear();
    }

    std::string last_bytes() const {
      const auto all = piece.size() < kEndBytesCompared ? before + piece : piece;
      return all.substr(all.size() - std::min(all.size(), kEndBytesCompared));
    }

    LogCopy state() const {
      const auto last = last_bytes();
      return {end(), crc32c(head.data(), head.size()), crc32c(last.data(), last.size())};
    }
  };

  void extend(const std::string& segment, Log& log, const std::string& more) {
    auto piece = log.piece + more;
    folder_.write_text(piece_name(segment, log.begin, log.begin + piece.size()), piece);
    const auto replaced = piece_name(segment, log.begin, log.end());
    const bool had_piece = !log.piece.empty();
    log.piece = std::move(piece);
    if (log.begin == 0) log.head = log.piece.substr(0, kEndBytesCompared);
    if (had_piece) folder_.remove(replaced);
  }

  // What the bucket has of a log. Removes what a kill has left of replaced pieces.
  Log read(const std::string& segment) {
    const auto pieces = log_pieces(folder_.list(folder_of_segment(segment)))[segment];
    const auto whole = without_replaced(pieces);
    Log log;
    for (const auto& piece : whole) {
      const auto size = static_cast<int64_t>(piece.end - piece.begin);
      const auto compared = std::min(size, static_cast<int64_t>(kEndBytesCompared));
      const bool is_last = piece.end == whole.back().end;
      const bool is_before_last = whole.size() > 1 && piece.end == whole.back().begin;
      if (piece.begin == 0) log.head = folder_.read(piece.object, 0, compared);
      if (is_before_last) log.before = folder_.read(piece.object, size - compared, compared);
      if (!is_last) continue;
      log.begin = piece.begin;
      log.piece = folder_.read(piece.object);
    }
    for (const auto& piece : pieces)
      if (piece.end <= log.end() && std::ranges::none_of(whole, [&](const auto& kept) {
            return kept.begin == piece.begin && kept.end == piece.end;
          }))
        folder_.remove(piece_name(segment, piece.begin, piece.end));
    return log;
  }

  ObjectFolder& folder_;
  std::map<std::string, Log> logs_;
};

}  // namespace

BucketSender::BucketSender(const std::filesystem::path& run_dir,
                           std::unique_ptr<ObjectFolder> folder)
    : RunSender(run_dir),
      folder_(std::move(folder)),
      logs_(std::make_unique<LogPieceWriter>(*folder_), folder_->path_of(""), kLogPieceBytes) {}

std::map<std::string, formats::ObjectInfo>& BucketSender::remote() {
  if (remote_) return *remote_;
  remote_.emplace();
  for (auto& object : folder_->list())
    if (is_run_file_name(object.key)) (*remote_)[object.key] = std::move(object);
  return *remote_;
}

std::vector<std::string> BucketSender::remote_files() {
  std::vector<std::string> names;
  for (const auto& [name, object] : remote()) names.push_back(name);
  return names;
}

bool BucketSender::has_file(const std::string& name, const std::string& bytes) {
  const auto object = remote().find(name);
  return object != remote().end() && object->second.size == static_cast<int64_t>(bytes.size()) &&
         folder_->read(object->second) == bytes;
}

void BucketSender::put_file(const std::string& name, const std::string& bytes) {
  folder_->write_text(name, bytes);
  remote()[name] = {.key = name, .size = static_cast<int64_t>(bytes.size())};
}

void BucketSender::remove_file(const std::string& name) {
  folder_->remove(name);
  remote().erase(name);
}

}  // namespace lockstep::tracking
