// The mlflow sink: writes a run to an MLflow server through its REST API.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "core/system/committed_file.h"
#include "lockstep/sink.h"
#include "tracking/log/clip_type.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/mlflow/mlflow_artifacts.h"
#include "tracking/sinks/mlflow/mlflow_batch.h"
#include "tracking/sinks/mlflow/mlflow_parent.h"
#include "tracking/sinks/mlflow/mlflow_session.h"
#include "tracking/sinks/mlflow/mlflow_text.h"

namespace lockstep::tracking {
namespace {

constexpr auto kMlflowConsoleFile = "logs/console.txt";
constexpr auto kMlflowConsoleEvery = std::chrono::seconds(30);
constexpr uint64_t kMlflowConsoleBytes = 8u << 20;  // the upload interval grows with size / this
constexpr int64_t kMlflowMaxAlerts = 100;           // stored as tags

const char* mlflow_status(RunState state) {
  switch (state) {
    case RunState::Finished: return "FINISHED";
    case RunState::Killed:
    case RunState::Preempted: return "KILLED";
    default: return "FAILED";
  }
}

std::string mlflow_user(const Environment& environment) {
  const auto login = environment("LOGNAME");
  return login ? *login : environment("USER").value_or("");
}

class MlflowSink final : public Sink {
 public:
  using Config = MlflowConfig;
  MlflowSink(const Config& config, const SinkContext& context)
      : settings_(mlflow_settings(config, context.environment)),
        client_(settings_),
        uploads_artifacts_(config.artifacts),
        run_dir_(context.run_dir),
        store_(context.run_dir.parent_path() / "artifacts"),
        user_(mlflow_user(context.environment)),
        state_(context.state),
        names_(kept("names", Json(nullptr))),
        console_path_(context.dir / "console.txt"),
        console_sent_at_(std::chrono::steady_clock::now()),
        time_(kept("time", 0.0)),
        step_(kept("step", int64_t{0})),
        alerts_(kept("alerts", int64_t{0})),
        rejected_(kept("rejected", int64_t{0})),
        tables_(kept("tables", Json::array())),
        last_files_(kept("last_files", Json::object())) {}

  Json destination() const override {
    const auto& address = settings_.address;
    return {address.origin() + address.path,
            settings_.experiment ? Json(*settings_.experiment) : Json(nullptr)};
  }

  void run_started(const RunInfo& info, const Json& config) override {
    console_.emplace(console_path_, kept("console_bytes", uint64_t{0}));
    time_ = std::max(time_, info.created);
    session_ = begin_mlflow_session(client_, settings_, {info, config, run_dir_, user_},
                                    kept("session", Json(nullptr)));
    add_mlflow_params(config, session_.run, batch_);
  }

  void scalars(const ScalarRow& row) override {
    time_ = row.time;
    for (const auto& [name, value] : row.values) {
      if (!is_system_metric(name)) step_ = row.step;
      const auto [theirs, converted] = mlflow_system_metric(name, value);
      batch_.add_metric(names_.of(theirs), converted, milliseconds(row.time), row.step);
    }
  }

  void text(const TextLine& text) override {
    time_ = text.time;
    const bool is_plain = text.level == TextLevel::Info;
    console_->append(is_plain ? text.line + "\n"
                              : fmt::format("{}: {}\n", level_name(text.level), text.line));
  }

  void console(const ConsoleLine& line) override {
    time_ = line.time;
    console_->append(fmt::format("[rank {}] {}\n", line.rank, line.line));
  }

  void histogram(const Histogram& histogram) override {
    at(histogram.at.time, histogram.at.step);
    artifacts_.add(path_of("histograms", histogram.at) + ".json", mlflow_histogram(histogram),
                   "application/json");
  }

  void image(const Image& image) override {
    at(image.at.time, image.at.step);
    const auto path = path_of("images", image.at);
    artifacts_.add(path + ".png", image.png, "image/png");
    if (!image.caption.empty())
      artifacts_.add(path + ".txt", image.caption, "text/plain; charset=utf-8");
  }

  void clip(const Clip& clip) override {
    const auto* type = find_clip_type(clip.type);
    if (!type) return;
    constexpr std::array kFolders = {"sounds", "videos", "pages"};  // by ClipKind
    at(clip.at.time, clip.at.step);
    const auto path = path_of(kFolders.at(static_cast<size_t>(type->kind)), clip.at);
    artifacts_.add(path + std::string(type->ending), clip.bytes, clip.type);
    if (!clip.caption.empty())
      artifacts_.add(path + ".txt", clip.caption, "text/plain; charset=utf-8");
  }

  void table(const Table& table) override {
    at(table.at.time, table.at.step);
    const auto path = fmt::format("tables/{}.json", names_.of(table.at.name));
    artifacts_.add(path, mlflow_table(table), "application/json");
    const Json entry = {{"path", path}, {"type", "table"}};
    if (std::ranges::find(tables_, entry) != tables_.end()) return;
    tables_.push_back(entry);
    if (const auto tag = tables_.dump(); tag.size() <= kMlflowTagBytes)
      batch_.add_tag("mlflow.loggedArtifacts", tag);
  }

  void alert(const Alert& alert) override {
    time_ = alert.time;
    ++alerts_;
    tag("lockstep.alerts", std::to_string(alerts_));
    const auto where = alert.step ? fmt::format(" (step {})", *alert.step) : "";
    if (alerts_ <= kMlflowMaxAlerts)
      tag(fmt::format("lockstep.alert.{}", alerts_),
          fmt::format("{}: {}: {}{}", level_name(alert.level), alert.title, alert.text, where));
  }

  void artifact(const ArtifactUse& artifact) override {
    time_ = artifact.time;
    const auto* role = artifact.made ? "artifact" : "used_artifact";
    tag(fmt::format("lockstep.{}.{}", role, artifact.name),
        fmt::format("{}:v{} {}", artifact.type, artifact.version, artifact.digest));
    if (artifact.made && uploads_artifacts_) artifacts_.add_version(store_, artifact);
  }

  void summary(const Json& values) override {
    for (const auto& [name, value] : values.items()) {
      if (value.is_number())
        batch_.add_metric(names_.of("summary/" + name), value.get<double>(), milliseconds(time_),
                          step_);
      else
        tag("lockstep.summary." + name,
            value.is_string() ? value.get<std::string>() : value.dump());
    }
  }

  // Later steps stay on the server: MLflow cannot delete metrics.
  void rewind(int64_t step) override {
    batch_.rewind(step);
    step_ = std::min(step_, step);
    for (auto& last : last_files_)  // files of later steps will be replaced
      if (last.is_object() && last["step"] > step) last = nullptr;
    tag("lockstep.rewound_to_step", std::to_string(step));
  }

  void run_finished(const RunEnd& end) override {
    end_ = end;
    tag("lockstep.end", fmt::format("{} (exit {}){}{}", state_name(end.state), end.exit_code,
                                    end.reason.empty() ? "" : ": ", end.reason));
  }

  Json flush() override {
    send_batch();
    send_console();
    if (const auto note = artifacts_.send(client_, session_.run))
      client_.set_tag(session_.run.id, "lockstep.artifacts_note",
                      mlflow_value(*note, kMlflowTagBytes));
    if (end_) finish();
    return {{"session", session_.state()},
            {"names", names_.state()},
            {"console_bytes", console_->flushed_length()},
            {"time", time_},
            {"step", step_},
            {"alerts", alerts_},
            {"rejected", rejected_},
            {"tables", tables_},
            {"last_files", last_files_}};
  }

 private:
  template <class T>
  T kept(const char* name, const T& otherwise) const {
    return state_.is_object() && state_.contains(name) ? state_[name].get<T>() : otherwise;
  }

  static int64_t milliseconds(double time) {
    return std::isfinite(time) ? std::max<int64_t>(0, std::llround(time * 1000)) : 0;
  }

  void at(double time, int64_t step) {
    time_ = time;
    step_ = step;
  }

  void tag(const std::string& name, const std::string& value) {
    batch_.add_tag(mlflow_name(name), mlflow_value(value, kMlflowTagBytes));
  }

  // Several files of the same name and step are named step-5, step-5-2, step-5-3, ...
  std::string path_of(const char* folder, const Moment& moment) {
    const auto name = fmt::format("{}/{}", folder, names_.of(moment.name));
    auto& last = last_files_[name];
    const bool is_next = last.is_object() && last["step"] == moment.step;
    const auto number = is_next ? last["number"].get<int64_t>() + 1 : 1;
    last = {{"step", moment.step}, {"number", number}};
    const auto path = fmt::format("{}/step-{}", name, moment.step);
    return number == 1 ? path : fmt::format("{}-{}", path, number);
  }

  void send_batch() {
    const auto rejected = batch_.send(client_, session_.run.id);
    if (rejected.empty()) return;
    rejected_ += static_cast<int64_t>(rejected.size());
    const auto note = fmt::format("{} records, the last one of {}", rejected_, rejected.back());
    client_.set_tag(session_.run.id, "lockstep.rejected", mlflow_value(note, kMlflowTagBytes));
  }

  // Uploads the whole file each time: MLflow cannot append.
  void send_console() {
    console_->flush();
    const auto now = std::chrono::steady_clock::now();
    const auto length = console_->flushed_length();
    const auto pause = kMlflowConsoleEvery * (1 + length / kMlflowConsoleBytes);
    const bool is_due =
        end_ ? length > 0 : length > console_sent_ && now - console_sent_at_ >= pause;
    if (!is_due) return;
    artifacts_.add_file(kMlflowConsoleFile, console_->path());
    console_sent_ = length;
    console_sent_at_ = now;
  }

  // Called last, so that a run with an end status is complete.
  void finish() {
    client_.set_status(session_.run.id, mlflow_status(end_->state), milliseconds(time_));
    if (session_.parent)
      update_mlflow_parent_status(client_, session_.experiment, *session_.parent,
                                  milliseconds(time_));
  }

  const MlflowSettings settings_;
  MlflowClient client_;
  const bool uploads_artifacts_;
  const std::filesystem::path run_dir_;
  const ArtifactStore store_;
  const std::string user_;
  const Json state_;
  MlflowSession session_;
  MlflowBatch batch_;
  MlflowArtifacts artifacts_;
  MlflowMetricNames names_;
  const std::filesystem::path console_path_;
  std::optional<CommittedFile> console_;
  uint64_t console_sent_ = 0;
  std::chrono::steady_clock::time_point console_sent_at_;
  double time_ = 0;  // of the last record
  int64_t step_ = 0;
  int64_t alerts_ = 0, rejected_ = 0;
  Json tables_;  // tables that the server displays
  // "images/NAME" to the step of its last file and the file's number within the step.
  Json last_files_;
  std::optional<RunEnd> end_;
};

REGISTER_SINK("mlflow", MlflowSink, "a run on an MLflow server");

}  // namespace
}  // namespace lockstep::tracking
