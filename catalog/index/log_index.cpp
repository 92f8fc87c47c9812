#include "catalog/index/log_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "catalog/index/log_record.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/end_facts.h"

namespace lockstep::catalog {
namespace {

// Values per block: few for a log that grows, since an open block is in memory; many for a log that
// is already long, so that a curve is read in few blocks.
constexpr size_t kBlockValues = 16384, kLongBlockValues = 8 * kBlockValues;
constexpr size_t kMaxPlaces = 1u << 20;

uint64_t inode_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

void refuse_no_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  using Type = std::filesystem::file_type;
  if (type != Type::regular && type != Type::not_found && type != Type::none)
    throw environment_error(fmt::format("cannot read {}: not a file", path.string()));
}

// Why a log cannot be read, from its first bytes; empty if it can.
std::string header_problem_of(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return "";
  return tracking::log_header_problem(
      tracking::read_log_piece(file.get(), 0, tracking::kEventLogHeaderBytes));
}

std::string corruption_of(const tracking::LogTail& log) {
  const auto problem = header_problem_of(log.path());
  if (!problem.empty()) return problem;
  return fmt::format("corrupt after {} records ({} bytes); only those are shown", log.num_records(),
                     log.num_good_bytes());
}

}  // namespace

std::string LogName::source() const {
  return fmt::format("{}-{}", is_node ? "node" : "rank", number);
}

LogIndex::LogIndex(LogName log, NameTable& names, ColumnSpool* spool)
    : name_(std::move(log)), names_(names), spool_(spool) {
  restart();
}

LogIndex::~LogIndex() {
  for (const auto& block : blocks_) spool_->release(block.offset, block.num_bytes);
}

void LogIndex::restart() {
  for (const auto& block : blocks_) spool_->release(block.offset, block.num_bytes);
  blocks_.clear();
  open_ = {};
  places_.clear();
  clips_.clear();
  consoles_.clear();
  media_.clear();
  max_step_.reset();
  has_rows_ = false;
  config_ = nullptr;
  summary_ = {};
  summary_.source = name_.source();
  summary_.is_node = name_.is_node;
  summary_.number = name_.number;
  summary_.info.rank = name_.is_node ? 0 : name_.number;
  summary_.info.node_rank = name_.is_node ? name_.number : 0;
  tail_.reset();
}

bool LogIndex::was_replaced() { return tail_ && inode_of(name_.path) != inode_; }

bool LogIndex::catch_up() {
  const auto state = summary_.state;
  const auto problem = summary_.problem;
  const bool replaced = was_replaced();
  if (replaced) restart();
  const auto before = tail_ ? tail_->offset() : 0;
  const bool alive = tracking::has_writer(name_.path);  // first: see has_writer()
  summary_.problem.clear();
  try {
    read_appended();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Bug) throw;
    const auto name = name_.path.filename().string();
    summary_.problem = error.kind() == ErrorKind::Config
                           ? fmt::format("{}: {}", name, header_problem_of(name_.path))
                           : error.what();
  }
  finish_state(alive);
  return replaced || state != summary_.state || problem != summary_.problem ||
         (tail_ && tail_->offset() != before);
}

void LogIndex::read_appended() {
  for (int attempts = 0; attempts < 3; ++attempts) {
    if (!tail_) {
      refuse_no_file(name_.path);
      inode_ = inode_of(name_.path);
      tail_ = std::make_unique<tracking::LogTail>(name_.path);
    }
    bool went_back = false;
    auto begin = tail_->offset();
    while (auto record = tail_->next()) {
      went_back = !take(std::move(*record), begin);
      if (went_back) break;
      begin = tail_->offset();
    }
    if (!went_back) break;
    restart();
  }
  if (open_.num_values < kBlockValues) return;
  flush_block();
  open_ = {};  // releases the memory of a long block
}

void LogIndex::finish_state(bool alive) {
  if (tail_ && tail_->identity()) summary_.info = *tail_->identity();
  if (tail_) config_ = tail_->config();
  summary_.state = tracking::resolve({}, summary_.end, alive).state;
  if (!alive && summary_.problem.empty() && tail_ && tail_->is_corrupt())
    summary_.problem = fmt::format("{}: {}", name_.path.filename().string(), corruption_of(*tail_));
  if (!alive && open_.num_values > 0) flush_block();
  if (!alive) open_ = {};
}

bool LogIndex::take(tracking::Record&& record, uint64_t begin) {
  auto& s = summary_;
  if (const auto* row = std::get_if<tracking::LoggedRow>(&record)) {
    take_row(*row);
  } else if (const auto* rewind = std::get_if<tracking::RewindRecord>(&record)) {
    return !(max_step_ && *max_step_ > rewind->step);
  } else if (std::holds_alternative<tracking::KeyRecord>(record)) {
    declare_metrics(tail_->keys().size());
  } else if (std::holds_alternative<RunInfo>(record)) {
    s.end.reset();
  } else if (auto* end = std::get_if<RunEnd>(&record)) {
    s.end = std::move(*end);
  } else if (const auto* summary = std::get_if<tracking::SummaryRecord>(&record)) {
    for (const auto& [name, value] : summary->values.items()) {
      if (!value.is_number()) continue;
      const auto number = names_.add(name);
      const auto known =
          std::ranges::find(s.summary, number, [](const auto& one) { return one.first; });
      if (known == s.summary.end())
        s.summary.emplace_back(number, value.get<double>());
      else
        known->second = value.get<double>();
    }
  } else if (const auto* text = std::get_if<TextLine>(&record)) {
    take_text(*text, begin);
  } else if (const auto* line = std::get_if<ConsoleLine>(&record)) {
    take_console(*line, begin);
  } else if (auto* alert = std::get_if<Alert>(&record)) {
    ++s.num_alerts;
    s.updated = std::max(s.updated, alert->time);
    if (s.alerts.size() >= kKeptAlerts) s.alerts.erase(s.alerts.begin());
    s.alerts.push_back(std::move(*alert));
  } else if (const auto* beat = std::get_if<tracking::Heartbeat>(&record)) {
    s.updated = std::max(s.updated, beat->time);
  } else if (const auto* histogram = std::get_if<Histogram>(&record)) {
    take_media(MediaTotals::Kind::Histogram, histogram->at, begin);
  } else if (const auto* image = std::get_if<Image>(&record)) {
    take_media(MediaTotals::Kind::Image, image->at, begin);
  } else if (const auto* table = std::get_if<Table>(&record)) {
    take_media(MediaTotals::Kind::Table, table->at, begin);
  } else if (const auto* clip = std::get_if<Clip>(&record)) {
    take_clip(*clip, begin);
  }
  return true;
}

// A log with segments declares its names repeatedly; LogTail has all of them.
void LogIndex::declare_metrics(size_t count) {
  while (summary_.metrics.size() < count)
    summary_.metrics.push_back({.name = names_.add(tail_->keys()[summary_.metrics.size()])});
}

void LogIndex::add_total(uint32_t key, double value, int64_t step) {
  declare_metrics(key + 1);
  auto& metric = summary_.metrics[key];
  metric.last = value;
  metric.step = step;
  ++metric.count;
  if (std::isnan(value)) {
    ++metric.num_nan;
    return;
  }
  metric.min = std::fmin(metric.min, value);
  metric.max = std::fmax(metric.max, value);
  metric.sum += value;
}

void LogIndex::note_step(int64_t step) {
  if (!max_step_ || step > *max_step_) max_step_ = step;
}

void LogIndex::take_row(const tracking::LoggedRow& row) {
  auto& s = summary_;
  s.updated = std::max(s.updated, row.time);
  note_step(row.step);
  if (!has_rows_ || row.step > s.step) {
    s.step = row.step;
    s.epoch = row.epoch;
  }
  has_rows_ = true;
  for (const auto& [key, value] : row.values) add_total(key, value, row.step);
  if (!spool_) return;
  const auto number = static_cast<uint32_t>(open_.step.size());
  open_.step.push_back(row.step);
  open_.time.push_back(row.time);
  open_.epoch.push_back(row.epoch);
  for (const auto& [key, value] : row.values) {
    if (open_.columns.size() <= key) open_.columns.resize(key + 1);
    open_.columns[key].rows.push_back(number);
    open_.columns[key].values.push_back(value);
  }
  open_.num_values += row.values.size() + 1;
  if (open_.num_values >= kLongBlockValues) flush_block();
}

void LogIndex::take_media(MediaTotals::Kind kind, const Moment& at, uint64_t begin) {
  summary_.updated = std::max(summary_.updated, at.time);
  note_step(at.step);
  const auto name = names_.add(at.name);
  const auto [it, is_new] =
      media_.try_emplace(uint64_t{name} << 8 | static_cast<uint8_t>(kind), summary_.media.size());
  if (is_new) summary_.media.push_back({.kind = kind, .name = name, .first_step = at.step});
  auto& totals = summary_.media[it->second];
  ++totals.count;
  totals.last_step = at.step;
  if (!spool_ || places_.size() >= kMaxPlaces) return;
  places_.push_back({.kind = static_cast<RecordPlace::Kind>(kind),
                     .name = name,
                     .step = at.step,
                     .time = at.time,
                     .epoch = at.epoch,
                     .begin = begin,
                     .end = tail_->offset()});
}

void LogIndex::take_clip(const Clip& clip, uint64_t begin) {
  const auto num_places = places_.size();
  take_media(MediaTotals::Kind::Clip, clip.at, begin);
  if (places_.size() > num_places)
    clips_[places_.back().end] = {
        .type = clip.type, .caption = clip.caption, .num_bytes = clip.bytes.size()};
}

const ClipHead* LogIndex::clip_head(const RecordPlace& place) const {
  const auto it = clips_.find(place.end);
  return it == clips_.end() ? nullptr : &it->second;
}

void LogIndex::take_text(const TextLine& text, uint64_t begin) {
  ++summary_.num_texts;
  summary_.updated = std::max(summary_.updated, text.time);
  if (!spool_ || places_.size() >= kMaxPlaces) return;
  places_.push_back({.kind = RecordPlace::Kind::Text,
                     .level = static_cast<uint8_t>(text.level),
                     .time = text.time,
                     .begin = begin,
                     .end = tail_->offset()});
}

void LogIndex::take_console(const ConsoleLine& line, uint64_t begin) {
  summary_.updated = std::max(summary_.updated, line.time);
  if (!spool_) return;
  auto it = std::ranges::find_if(consoles_, [&](const auto& own) { return own.is_from(line); });
  if (it == consoles_.end())
    it = consoles_.insert(
        it, {.log = name_.path, .rank = line.rank, .is_error = line.is_error, .parts = {}});
  it->add(line, begin, tail_->offset());
}

std::optional<tracking::Record> LogIndex::read_record(const RecordPlace& place) const {
  return read_log_record(name_.path, place.begin, place.end);
}

}  // namespace lockstep::catalog
