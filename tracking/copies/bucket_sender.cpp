#include "tracking/copies/bucket_sender.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/system/crc32c.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tracking/copies/log_pieces.h"
#include "tracking/copies/run_files.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::tracking {
namespace {

using formats::ObjectFolder;

constexpr size_t kEndBytesCompared = kComparedBytes;
constexpr int kMaxLogListings = 5;  // while another agent writes the same log

// Writes logs as pieces. The bytes of a piece that is replaced are read from the local log, as
// LogSender has verified that the copy is one of it.
class LogPieceWriter final : public LogCopyStore {
 public:
  LogPieceWriter(ObjectFolder& folder, std::filesystem::path events)
      : folder_(folder), events_(std::move(events)) {}

  // The agent of another node that has the same file system may replace pieces meanwhile.
  LogCopy copy(const std::string& segment) override {
    for (int listing = 1;; ++listing) {
      try {
        const auto log = read(segment);
        logs_[segment] = log;
        return log.state();
      } catch (const formats::StoreError& failure) {
        if (failure.failure() != formats::StoreFailure::NoKey) throw;
        if (listing == kMaxLogListings) throw environment_error(failure.what());
      }
    }
  }

  LogCopy append(const std::string& segment, uint64_t offset, const std::string& bytes) override {
    if (!logs_.contains(segment)) copy(segment);
    auto& log = logs_[segment];
    if (log.end != offset) return log.state();
    remove_replaced(log);
    for (size_t done = 0; done < bytes.size();) {
      if (log.end - log.begin >= kLogPieceBytes) log.begin = log.end;  // the next piece
      const auto count =
          std::min<uint64_t>(bytes.size() - done, kLogPieceBytes - (log.end - log.begin));
      extend(segment, log, std::string_view(bytes).substr(done, count));
      done += count;
    }
    return log.state();
  }

  void finish() override {
    for (auto& [segment, log] : logs_) remove_replaced(log);
  }

 private:
  struct Log {
    std::string first, last;      // bytes of the log
    uint64_t begin = 0, end = 0;  // of the last piece
    std::string replaced;         // the piece that the last append has replaced; "": none

    LogCopy state() const {
      return {end, crc32c(first.data(), first.size()), crc32c(last.data(), last.size())};
    }
  };

  std::string local_bytes(const std::string& segment, uint64_t begin, uint64_t end) const {
    if (begin == end) return {};
    const auto path = events_ / segment;
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) throw errno_error("cannot read " + path.string());
    auto bytes = read_log_piece(file.get(), begin, end - begin);
    if (bytes.size() < end - begin)
      throw environment_error(path.string() + " has become shorter than its copy");
    return bytes;
  }

  void remove_replaced(Log& log) {
    const auto name = std::exchange(log.replaced, {});
    if (!name.empty()) folder_.remove(name);
  }

  // A piece that is replaced stays until the next append: a listing, which takes a while, contains it or
  // the longer one, and there is time to read it.
  void extend(const std::string& segment, Log& log, std::string_view more) {
    const auto piece = local_bytes(segment, log.begin, log.end).append(more);
    folder_.write_text(piece_name(segment, log.begin, log.end + more.size()), piece);
    if (log.end > log.begin) log.replaced = piece_name(segment, log.begin, log.end);
    log.end += more.size();
    if (log.begin == 0) log.first = piece.substr(0, kEndBytesCompared);
    log.last.append(more);
    log.last.erase(0, log.last.size() - std::min(log.last.size(), kEndBytesCompared));
  }

  // The last bytes of a log of these pieces.
  std::string read_last(const std::vector<LogPiece>& pieces) {
    std::string last;
    for (auto piece = pieces.rbegin(); piece != pieces.rend() && last.size() < kEndBytesCompared;
         ++piece) {
      const auto size = piece->end - piece->begin;
      const auto count = std::min<uint64_t>(size, kEndBytesCompared - last.size());
      last.insert(0, folder_.read(piece->object, static_cast<int64_t>(size - count),
                                  static_cast<int64_t>(count)));
    }
    return last;
  }

  // What the bucket has of a log. Removes what a kill has left of replaced pieces.
  Log read(const std::string& segment) {
    const auto pieces = log_pieces(folder_.list(folder_of_segment(segment)))[segment];
    const auto whole = without_replaced(pieces);
    Log log;
    if (!whole.empty()) {
      const auto& first = whole.front();
      log = {.first = folder_.read(first.object, 0,
                                   std::min<int64_t>(first.object.size, kEndBytesCompared)),
             .last = read_last(whole),
             .begin = whole.back().begin,
             .end = whole.back().end};
    }
    for (const auto& piece : pieces)
      if (piece.end <= log.end && std::ranges::none_of(whole, [&](const auto& kept) {
            return kept.begin == piece.begin && kept.end == piece.end;
          }))
        folder_.remove(piece_name(segment, piece.begin, piece.end));
    return log;
  }

  ObjectFolder& folder_;
  const std::filesystem::path events_;
  std::map<std::string, Log> logs_;
};

}  // namespace

BucketSender::BucketSender(const std::filesystem::path& run_dir,
                           std::unique_ptr<ObjectFolder> folder)
    : RunSender(run_dir),
      folder_(std::move(folder)),
      logs_(std::make_unique<LogPieceWriter>(*folder_, run_dir / "events"), folder_->path_of(""),
            kLogPieceBytes) {}

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
