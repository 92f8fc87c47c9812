// A sink that stores its records in memory, as a server would, and fails on demand.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/sink.h"

namespace lockstep::tracking {

struct RecordedEntry {
  int num_starts = 0, num_ends = 0;
  std::vector<std::string> delivered;  // flushed, in order
  RunInfo info;
  RunEnd end;
  bool is_deleted = false;
};

// State shared by all recorder sinks of the process.
struct Recorder {
  std::mutex mutex;
  std::map<std::string, RecordedEntry> entries;  // by entry id; with a place, "id at place"
  std::function<void(int64_t step)> on_row;      // may throw, to simulate a failing server
  std::function<void()> on_flush;

  static Recorder& shared() {
    static Recorder* const recorder = new Recorder;  // a sink that hangs may outlive main()
    return *recorder;
  }
  void reset() {
    const std::lock_guard lock(mutex);
    entries.clear();
    on_row = nullptr;
    on_flush = nullptr;
  }
  // For sinks on threads of an agent, which may outlive their test.
  void flush_with(std::function<void()> function) {
    const std::lock_guard lock(mutex);
    on_flush = std::move(function);
  }
  auto row_function() {
    const std::lock_guard lock(mutex);
    return on_row;
  }
  auto flush_function() {
    const std::lock_guard lock(mutex);
    return on_flush;
  }
  RecordedEntry entry(const std::string& id) {
    const std::lock_guard lock(mutex);
    return entries[id];
  }
};

struct RecorderConfig {
  std::optional<std::string> place;
};
template <class V>
void fields(V& v, RecorderConfig& c) {
  v("place", c.place, "destination of the records");
}

class RecorderSink final : public Sink {
 public:
  using Config = RecorderConfig;
  RecorderSink(const Config& config, const SinkContext& context)
      : place_(config.place),
        committed_(context.state.is_null() ? 0 : context.state.get<size_t>()) {}

  Json destination() const override { return place_ ? Json(*place_) : Json(nullptr); }
  bool has_delivered(const RunInfo& info) const override {
    return !Recorder::shared().entry(name_of(info)).is_deleted;
  }

  void run_started(const RunInfo& info, const Json&) override {
    id_ = name_of(info);
    const std::lock_guard lock(Recorder::shared().mutex);
    auto& entry = Recorder::shared().entries[id_];
    entry.info = info;
    ++entry.num_starts;
    entry.delivered.resize(committed_);  // like a file truncated to its recorded length
  }
  void scalars(const ScalarRow& row) override {
    if (const auto on_row = Recorder::shared().row_function()) on_row(row.step);
    for (const auto& metric : row.values)
      add(std::to_string(row.step) + " " + std::string(metric.name) + " " +
          std::to_string(metric.value));
  }
  void text(const TextLine& text) override { add("text " + text.line); }
  void alert(const Alert& alert) override { add("alert " + alert.title); }
  void rewind(int64_t step) override { add("rewind " + std::to_string(step)); }
  Json flush() override {
    if (const auto on_flush = Recorder::shared().flush_function()) on_flush();
    const std::lock_guard lock(Recorder::shared().mutex);
    auto& entry = Recorder::shared().entries[id_];
    entry.delivered.insert(entry.delivered.end(), pending_.begin(), pending_.end());
    pending_.clear();
    committed_ = entry.delivered.size();
    return committed_;
  }
  void run_finished(const RunEnd& end) override {
    const std::lock_guard lock(Recorder::shared().mutex);
    ++Recorder::shared().entries[id_].num_ends;
    Recorder::shared().entries[id_].end = end;
  }

 private:
  std::string name_of(const RunInfo& info) const {
    return place_ ? info.id + " at " + *place_ : info.id;
  }
  void add(std::string text) { pending_.push_back(std::move(text)); }

  std::optional<std::string> place_;
  std::string id_;
  size_t committed_;
  std::vector<std::string> pending_;
};

}  // namespace lockstep::tracking
