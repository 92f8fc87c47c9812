#include "tracking/agent/feed.h"

#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/log/system_metric.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFlushEvery = std::chrono::seconds(1);
// Sinks may keep in memory what is not flushed, and there may be many entries.
constexpr size_t kMaxPendingValues = 8'000;

// Passes a record to the matching call of the sink. Ignores records that are not for sinks.
struct Dispatch {
  Sink& sink;
  void operator()(const TextLine& text) { sink.text(text); }
  void operator()(const ConsoleLine& line) { sink.console(line); }
  void operator()(const Histogram& histogram) { sink.histogram(histogram); }
  void operator()(const Image& image) { sink.image(image); }
  void operator()(const Clip& clip) { sink.clip(clip); }
  void operator()(const Table& table) { sink.table(table); }
  void operator()(const Alert& alert) { sink.alert(alert); }
  void operator()(const ArtifactUse& artifact) { sink.artifact(artifact); }
  void operator()(const SummaryRecord& summary) { sink.summary(summary.values); }
  void operator()(const RewindRecord& rewind) { sink.rewind(rewind.step); }
  template <class Other>
  void operator()(const Other&) {}
};

// Memory use of a record, in units of a scalar.
struct CountValues {
  size_t operator()(const LoggedRow& row) const { return 1 + row.values.size(); }
  size_t operator()(const Histogram& histogram) const { return 1 + histogram.edges.size(); }
  size_t operator()(const Image& image) const { return 1 + image.png.size() / 64; }
  size_t operator()(const Clip& clip) const { return 1 + clip.bytes.size() / 64; }
  size_t operator()(const Table& table) const {
    return 1 + table.rows.size() * (1 + table.columns.size());
  }
  size_t operator()(const ConsoleLine& line) const { return 1 + line.line.size() / 64; }
  size_t operator()(const TextLine& text) const { return 1 + text.line.size() / 64; }
  template <class Other>
  size_t operator()(const Other&) const {
    return 1;
  }
};

// Does not reveal secrets of the destination.
std::string digest_of(const Json& destination) {
  constexpr size_t kShownDigits = 12;
  if (destination.is_null()) return "default";
  return sha256_of(destination.dump(-1, ' ', false, Json::error_handler_t::replace))
      .substr(0, kShownDigits);
}

std::optional<Moment> moment_of(const Record& record) {
  if (const auto* value = std::get_if<Histogram>(&record)) return value->at;
  if (const auto* value = std::get_if<Image>(&record)) return value->at;
  if (const auto* value = std::get_if<Clip>(&record)) return value->at;
  if (const auto* value = std::get_if<Table>(&record)) return value->at;
  return std::nullopt;
}

void set_name(Record& record, const std::string& name) {
  if (auto* value = std::get_if<Histogram>(&record)) value->at.name = name;
  if (auto* value = std::get_if<Image>(&record)) value->at.name = name;
  if (auto* value = std::get_if<Clip>(&record)) value->at.name = name;
  if (auto* value = std::get_if<Table>(&record)) value->at.name = name;
}

}  // namespace

Feed::Feed(const SinkPart& part, EntryPlan plan, Environment environment)
    : part_(part),
      plan_(std::move(plan)),
      environment_(std::move(environment)),
      dir_(plan_.run_dir / "sinks" / part_.name() / plan_.id) {}

Feed::~Feed() = default;

// Two processes would deliver the same records twice.
bool Feed::lock() {
  if (lock_.is_open()) return true;
  make_directories(dir_);
  auto file = open_lock_file(dir_ / "lock");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return false;
    throw errno_error(fmt::format("cannot lock {}", (dir_ / "lock").string()));
  }
  lock_ = std::move(file);
  return true;
}

void Feed::load() {
  const auto path = dir_ / "position.json";
  std::error_code ignored;
  stored_ = Json::object();
  if (std::filesystem::exists(path, ignored)) {
    stored_ = Json::parse(read_file(path), nullptr, false);
    const bool whole = stored_.is_object() && stored_.contains("positions") &&
                       stored_["positions"].is_object() && stored_.contains("state");
    if (!whole)
      throw config_error(
          fmt::format("{} is corrupt: remove the directory {} to send the run to the sink again",
                      path.string(), dir_.string()));
  }
  open_sources();
  loaded_ = true;
}

void Feed::open_source(const std::filesystem::path& log, bool is_own) {
  const auto name = log.filename().string();
  uint64_t offset = 0;
  if (stored_.contains("positions") && stored_["positions"].contains(name) &&
      stored_["positions"][name].is_number_unsigned())
    offset = stored_["positions"][name].get<uint64_t>();
  sources_.push_back(std::make_unique<Source>(Source{LogTail(log, offset), is_own}));
}

void Feed::open_sources() {
  sources_.clear();
  open_source(plan_.log, true);
  open_others();
}

// Those that are not open yet.
void Feed::open_others() {
  while (sources_.size() <= plan_.others.size())
    open_source(plan_.others[sources_.size() - 1], false);
}

void Feed::add_logs(const std::vector<std::filesystem::path>& logs) {
  for (const auto& log : logs)
    if (log != plan_.log && std::ranges::find(plan_.others, log) == plan_.others.end())
      plan_.others.push_back(log);
}

std::shared_ptr<Sink> Feed::make_sink() const {
  return part_.build({.run_dir = plan_.run_dir,
                      .dir = dir_,
                      .is_first_entry = plan_.is_first,
                      .environment = environment_,
                      .state = stored_.contains("state") ? stored_["state"] : Json(nullptr)});
}

// The stored position belongs to one destination. For another one, switches to its directory.
// Starts from the beginning if the delivered data is gone. False: another process feeds that
// destination.
bool Feed::resolve_destination() {
  auto sink = make_sink();
  destination_ = digest_of(sink->destination());
  destination_resolved_ = true;
  if (stored_.contains("destination") && stored_["destination"] != destination_) {
    sink.reset();
    dir_ = dir_.parent_path() / fmt::format("{}@{}", plan_.id, destination_.get<std::string>());
    lock_.close();
    loaded_ = false;
    if (!lock()) return false;
    load();
    sink = make_sink();
  }
  const bool has_state = stored_.contains("state") && !stored_["state"].is_null();
  if (has_state && sources_.front()->tail.identity() && !sink->has_delivered(info_of_entry())) {
    stored_ = Json::object();
    open_sources();
  }
  return true;
}

// Creates the sink once the log has the identity and config of the run. False if it has not yet.
bool Feed::prepare() {
  if (sink_) return true;
  auto& own = *sources_.front();
  while (!own.tail.identity() || own.tail.config().is_null()) {
    const auto record = own.tail.next();
    if (!record) return false;
    // Records before the config are not for sinks.
  }
  start_sink();
  return true;
}

// An entry that all ranks share does not carry the identity of one rank.
RunInfo Feed::info_of_entry() const {
  auto info = *sources_.front()->tail.identity();
  if (!plan_.labels) return info;
  info.id = plan_.id;
  info.job_type.reset();
  if (const auto job = read_job(plan_.run_dir)) {
    info.name = job->name;
    info.group = job->group;
  }
  return info;
}

void Feed::start_sink() {
  sink_ = make_sink();
  sink_->run_started(info_of_entry(), sources_.front()->tail.config());
  pending_ = true;
  run_is_over_ = false;
  flushed_at_ = Clock::now();
}

// Whether the entry has metrics of several ranks, or system metrics of several nodes.
bool Feed::has_labels(const Source& source) const {
  const auto& own = sources_.front()->tail.identity();
  const auto& other = source.tail.identity();
  return other && (plan_.labels || (own && other->node_rank != own->node_rank));
}

std::string Feed::label(const std::string& name, const Source& source) const {
  const auto& info = *source.tail.identity();
  if (!is_system_metric(name))
    return plan_.labels ? fmt::format("{}/rank-{}", name, info.rank) : name;
  if (info.node_rank == sources_.front()->tail.identity()->node_rank) return name;
  return fmt::format("{}node-{}/{}", kSystemPrefix, info.node_rank,
                     name.substr(kSystemPrefix.size()));
}

void Feed::deliver_row(const LoggedRow& row, const Source& source) {
  const auto& keys = source.tail.keys();
  std::vector<std::string> names;
  std::vector<Metric> metrics;
  metrics.reserve(row.values.size());
  if (has_labels(source))
    for (const auto& [key, value] : row.values) names.push_back(label(keys[key], source));
  for (size_t i = 0; i < row.values.size(); ++i) {
    const auto& [key, value] = row.values[i];
    metrics.push_back({names.empty() ? keys[key] : names[i], value});
  }
  sink_->scalars({.step = row.step, .time = row.time, .epoch = row.epoch, .values = metrics});
}

// The log of a node's agent has records of all its ranks.
bool Feed::is_wanted(const Record& record, const Source& source) const {
  if (source.is_own) return true;
  if (std::holds_alternative<RewindRecord>(record)) return false;
  const auto* line = std::get_if<ConsoleLine>(&record);
  const auto& only = plan_.only_consoles;
  if (!line) return only.empty();
  if (!only.empty()) return std::ranges::find(only, line->rank) != only.end();
  return std::ranges::find(plan_.excluded_consoles, line->rank) == plan_.excluded_consoles.end();
}

void Feed::deliver(const Record& record, Source& source) {
  if (!is_wanted(record, source)) return;
  if (const auto* row = std::get_if<LoggedRow>(&record)) return deliver_row(*row, source);
  if (const auto at = moment_of(record); at && has_labels(source)) {
    auto labeled = record;
    set_name(labeled, label(at->name, source));
    return std::visit(Dispatch{*sink_}, labeled);
  }
  std::visit(Dispatch{*sink_}, record);
}

// Returns false if the log has no more records for now. Where a new process resumes the run, a new sink object
// receives its records, and the next call begins soon; its rewind, which follows, comes before records of other logs.
bool Feed::read_source(Source& source) {
  bool has_new_sink = false;
  while (pending_values_ < kMaxPendingValues) {
    const auto record = source.tail.next();
    if (!record) return has_new_sink;
    pending_values_ += std::visit(CountValues{}, *record);
    pending_ = true;
    if (source.is_own && std::holds_alternative<ConfigRecord>(*record)) {
      flush(std::nullopt);
      sink_.reset();
      start_sink();
      has_new_sink = true;
      continue;
    }
    deliver(*record, source);
  }
  return true;
}

void Feed::flush(const std::optional<RunEnd>& finished) {
  auto state = sink_->flush();
  auto positions = Json::object();
  for (const auto& source : sources_)
    positions[source->tail.path().filename().string()] = source->tail.offset();
  stored_ = {{"positions", positions},
             {"state", std::move(state)},
             {"destination", destination_},
             {"finished", finished ? to_json(*finished) : Json(nullptr)}};
  write_file_durably(dir_ / "position.json",
                     stored_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  for (const auto& source : sources_) source->tail.commit();
  pending_ = false;
  pending_values_ = 0;
  flushed_at_ = Clock::now();
}

// The next sink object receives everything since the last flush. Earlier records are not read
// again, because a server that is down may be retried for hours.
void Feed::roll_back() {
  sink_.reset();
  pending_values_ = 0;
  if (!loaded_) return;
  for (const auto& source : sources_) source->tail.roll_back();
}

// Whether the sink has received the end of the run and no record has followed. A sink object that
// is created now would receive the end a second time.
bool Feed::is_complete(const std::optional<RunEnd>& end) {
  if (!stored_.contains("finished") || stored_["finished"].is_null()) return false;
  if (end && stored_["finished"] != to_json(*end)) return false;
  const bool has_more = std::ranges::any_of(
      sources_, [](const auto& source) { return source->tail.next().has_value(); });
  roll_back();
  return !has_more;
}

FeedState Feed::pump(const std::optional<RunEnd>& end) {
  if (!lock()) return FeedState::Waiting;
  try {
    if (!loaded_) load();
    open_others();
    try {
      if (!destination_resolved_ && !resolve_destination()) return FeedState::Waiting;
    } catch (const Error&) {
      if (!is_complete(end)) throw;  // otherwise the sink is not needed
    }
    if (!sink_ && is_complete(end)) return end ? FeedState::Done : FeedState::Waiting;
    if (!prepare()) return end ? FeedState::Done : FeedState::Waiting;  // a log without a run
    bool more = false;
    for (size_t i = 0; i < sources_.size(); ++i) more |= read_source(*sources_[i]);
    const bool ends = end && !more;
    if (ends && !run_is_over_) {
      sink_->run_finished(*end);
      run_is_over_ = true;
      pending_ = true;
    }
    if (pending_ && (ends || more || Clock::now() - flushed_at_ >= kFlushEvery))
      flush(ends ? end : std::nullopt);
    return ends ? FeedState::Done : more ? FeedState::More : FeedState::Waiting;
  } catch (...) {
    roll_back();
    throw;
  }
}

uint64_t Feed::backlog() const {
  uint64_t bytes = 0;
  for (const auto& source : sources_) bytes += source->tail.backlog();
  return bytes;
}

}  // namespace lockstep::tracking
