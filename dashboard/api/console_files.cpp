#include "dashboard/api/console_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/lower_case.h"
#include "core/system/file_descriptor.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"
#include "tracking/runs/rank_losses.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxLineLength = 64u << 10, kReadBytes = 1u << 20, kMaxSearchedBytes = 64u << 20;

struct NodeOutputs {
  int node = 0;
  std::vector<tracking::RankOutput> outputs;
};

std::vector<NodeOutputs> outputs_of_nodes(const fs::path& dir) {
  std::vector<NodeOutputs> nodes = {{0, tracking::rank_outputs(dir)}};
  for (const auto& [node, node_dir] : tracking::numbered_directories(dir, "node_"))
    nodes.push_back({node, tracking::rank_outputs(node_dir)});
  return nodes;
}

// The number of processes, by attempt and node.
using NodeSizes = std::map<std::pair<int, int>, int>;

NodeSizes sizes_of(const std::vector<NodeOutputs>& nodes) {
  NodeSizes sizes;
  for (const auto& [node, outputs] : nodes)
    for (const auto& output : outputs) sizes[{output.attempt, node}] = output.num_ranks;
  return sizes;
}

// Of each node, as of the last attempt. The number of ranks is that before any was lost.
int count_spares(const catalog::RunLogs& logs, const NodeSizes& sizes) {
  int ranks = 0;
  for (const auto& loss : tracking::read_rank_losses(logs.run_dir()))
    ranks = std::max(ranks, loss.before);
  logs.look([&](const auto& all) {
    for (const auto& log : all)
      if (!log->name().is_node) ranks = std::max(ranks, log->summary().info.world_size);
  });
  if (ranks == 0 || sizes.empty()) return 0;
  const auto begin = sizes.lower_bound({sizes.rbegin()->first.first, 0});
  int processes = 0, nodes = 0;
  for (auto size = begin; size != sizes.end(); ++size, ++nodes) processes += size->second;
  return std::max(0, processes - ranks) / nodes;
}

// A lower node whose files are not here counts like this one.
int first_rank_of(const NodeSizes& sizes, int attempt, int node, int num_spares) {
  const auto own = sizes.find({attempt, node});
  int64_t first = 0, not_here = node;
  for (auto lower = sizes.lower_bound({attempt, 0}); lower != own; ++lower, --not_here)
    first += lower->second - num_spares;
  return static_cast<int>(first + not_here * (own->second - num_spares));
}

void add_files(const std::vector<tracking::RankOutput>& outputs, int node, const NodeSizes& sizes,
               int num_spares, std::vector<ConsoleStream>& streams) {
  for (const auto& output : outputs) {
    const auto& [path, attempt, local_rank, start, num_ranks, is_error] = output;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    streams.push_back(
        {.name = fmt::format("{}-{}-{}{}-{}", attempt, node, local_rank,
                             start > 0 ? fmt::format(".{}", start) : "", is_error ? "err" : "out"),
         .path = path,
         .attempt = attempt,
         .node = node,
         .local_rank = local_rank,
         .start = start,
         .rank = first_rank_of(sizes, attempt, node, num_spares) + local_rank,
         .is_error = is_error,
         .bytes = static_cast<uint64_t>(info.st_size),
         .modified = static_cast<double>(info.st_mtim.tv_sec)});
  }
}

void add_recorded(const catalog::RunLogs& logs, std::vector<ConsoleStream>& streams) {
  const std::vector<ConsoleStream> files = streams;
  const auto has_file = [&](const catalog::RecordedConsole& console) {
    return std::ranges::any_of(files, [&](const ConsoleStream& file) {
      return std::pair(file.rank, file.is_error) == std::pair(console.rank, console.is_error);
    });
  };
  logs.look([&](const auto& all) {
    for (const auto& log : all)
      for (const auto& console : log->consoles()) {
        if (has_file(console)) continue;
        streams.push_back({.name = fmt::format("{}-{}-{}", log->name().source(), console.rank,
                                               console.is_error ? "err" : "out"),
                           .path = {},
                           .recorded = std::make_shared<const catalog::RecordedConsole>(console),
                           .node = log->summary().info.node_rank,
                           .rank = console.rank,
                           .is_error = console.is_error,
                           .bytes = console.bytes,
                           .modified = console.modified});
      }
  });
}

class ConsoleFile {
 public:
  explicit ConsoleFile(const ConsoleStream& stream)
      : path_(stream.path), recorded_(stream.recorded) {
    if (recorded_) {
      size_ = recorded_->bytes;
      return;
    }
    file_ =
        FileDescriptor(::open(stream.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file_.is_open()) throw errno_error(fmt::format("cannot read {}", path_.string()));
    struct stat info {};
    if (::fstat(file_.get(), &info) == 0) size_ = static_cast<uint64_t>(info.st_size);
  }

  uint64_t size() const { return size_; }

  std::string read(uint64_t from, size_t max_bytes) const {
    if (recorded_) return recorded_->read(from, max_bytes);
    const auto size = std::min<uint64_t>(max_bytes, size_ - std::min(from, size_));
    auto bytes = read_text_at(file_.get(), size, from);
    if (!bytes) throw errno_error(fmt::format("cannot read {}", path_.string()));
    return std::move(*bytes);
  }

 private:
  fs::path path_;
  std::shared_ptr<const catalog::RecordedConsole> recorded_;
  FileDescriptor file_;
  uint64_t size_ = 0;
};

// The last state of a line that was rewritten with carriage returns.
std::string final_line(std::string line) {
  while (line.ends_with('\r')) line.pop_back();
  if (const auto at = line.rfind('\r'); at != std::string::npos) line.erase(0, at + 1);
  if (line.size() > kMaxLineLength) line.resize(kMaxLineLength);
  return line;
}

// Calls visit(offset within bytes, line) for each complete line until it returns false. Returns the
// number of visited bytes.
template <class Visit>
size_t visit_lines(const std::string& bytes, const Visit& visit) {
  size_t begin = 0;
  for (size_t end = 0; (end = bytes.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (!visit(begin, final_line(bytes.substr(begin, end - begin)))) return end + 1;
  return begin;
}

}  // namespace

std::vector<ConsoleStream> console_streams(const catalog::RunLogs& logs) {
  std::vector<ConsoleStream> streams;
  const auto dir = tracking::logs_path(logs.run_dir());
  std::error_code ignored;
  if (fs::symlink_status(dir, ignored).type() == fs::file_type::directory) {
    const auto nodes = outputs_of_nodes(dir);
    const auto sizes = sizes_of(nodes);
    const int num_spares = count_spares(logs, sizes);
    for (const auto& [node, outputs] : nodes) add_files(outputs, node, sizes, num_spares, streams);
  }
  add_recorded(logs, streams);
  return streams;
}

ConsoleChunk read_console(const ConsoleStream& stream, uint64_t from, size_t max_bytes,
                          bool is_over) {
  const ConsoleFile file(stream);
  ConsoleChunk chunk{.begin = std::min(from, file.size()), .size = file.size()};
  const auto bytes = file.read(chunk.begin, max_bytes);
  auto used = visit_lines(bytes, [&](size_t, std::string line) {
    chunk.lines.push_back(std::move(line));
    return true;
  });
  const bool at_end = chunk.begin + bytes.size() == chunk.size;
  const bool too_long = used == 0 && bytes.size() == max_bytes;
  if (used < bytes.size() && ((at_end && is_over) || too_long)) {
    chunk.lines.push_back(final_line(bytes.substr(used)));
    used = bytes.size();
  }
  chunk.end = chunk.begin + used;
  return chunk;
}

ConsoleChunk read_console_before(const ConsoleStream& stream, uint64_t to, size_t max_bytes) {
  const ConsoleFile file(stream);
  const auto end = std::min(to, file.size());
  auto begin = end - std::min<uint64_t>(end, max_bytes);
  auto bytes = file.read(begin, end - begin);
  if (begin > 0) {  // skip the partial first line
    const auto first = bytes.find('\n');
    const auto cut = first == std::string::npos || first + 1 == bytes.size() ? 0 : first + 1;
    bytes.erase(0, cut);
    begin += cut;
  }
  ConsoleChunk chunk{.begin = begin, .end = end, .size = file.size()};
  const auto used = visit_lines(bytes, [&](size_t, std::string line) {
    chunk.lines.push_back(std::move(line));
    return true;
  });
  if (used < bytes.size()) chunk.lines.push_back(final_line(bytes.substr(used)));
  return chunk;
}

ConsoleChunk read_console_tail(const ConsoleStream& stream, size_t num_lines, bool is_over) {
  const ConsoleFile file(stream);
  uint64_t begin = file.size();
  size_t breaks = 0;
  while (begin > 0 && breaks <= num_lines && file.size() - begin < kMaxSearchedBytes) {
    const auto step = std::min<uint64_t>(begin, kReadBytes);
    const auto bytes = file.read(begin - step, step);
    auto at = bytes.size();
    for (; at > 0; --at)
      if (bytes[at - 1] == '\n' && begin - step + at < file.size() && ++breaks >= num_lines) break;
    begin = begin - step + at;
    if (breaks >= num_lines) break;
  }
  return read_console(stream, begin, kMaxSearchedBytes, is_over);
}

ConsoleMatches search_console(const ConsoleStream& stream, const std::string& text, uint64_t from,
                              size_t max_matches) {
  const ConsoleFile file(stream);
  const auto pattern = lower_case(text);
  ConsoleMatches result{.end = std::min(from, file.size()), .size = file.size()};
  const auto last = std::min(result.size, result.end + kMaxSearchedBytes);
  while (result.end < last) {
    auto bytes = file.read(result.end, kReadBytes);
    if (result.end + bytes.size() == result.size && !bytes.ends_with('\n')) bytes += '\n';
    const auto used = visit_lines(bytes, [&](size_t offset, std::string line) {
      if (lower_case(line).find(pattern) != std::string::npos)
        result.matches.push_back({result.end + offset, std::move(line)});
      return result.matches.size() < max_matches;
    });
    // A line longer than kReadBytes is skipped in several reads.
    result.end = std::min(result.size, result.end + (used > 0 ? used : bytes.size()));
    if (result.matches.size() >= max_matches || bytes.empty()) break;
  }
  return result;
}

}  // namespace lockstep::dashboard
