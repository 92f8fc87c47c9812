// The tensorboard sink: event files for `tensorboard --logdir runs`, updated during the run.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/sink.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/file_path.h"
#include "tracking/sinks/tensorboard/event_file.h"
#include "tracking/sinks/tensorboard/hparams.h"
#include "tracking/sinks/tensorboard/summary.h"

namespace lockstep::tracking {
namespace {

struct TensorboardConfig {
  std::optional<std::string> dir;
};
template <class V>
void fields(V& v, TensorboardConfig& c) {
  v("dir", c.dir,
    "directory for event files, with a subdirectory per entry; default: tensorboard in "
    "the run directory");
}

class TensorboardSink final : public Sink {
 public:
  using Config = TensorboardConfig;
  TensorboardSink(const Config& config, const SinkContext& context)
      : config_(config),
        dir_(config.dir ? std::filesystem::path(*config.dir) : context.run_dir / "tensorboard"),
        state_(context.state) {}

  Json destination() const override { return file_destination(config_.dir); }
  bool has_delivered(const RunInfo& info) const override {
    std::error_code ignored;
    return std::filesystem::exists(dir_ / info.id / state_.at("file").get<std::string>(), ignored);
  }

  void run_started(const RunInfo& info, const Json& config) override {
    file_.emplace(dir_ / info.id, info, state_);
    time_ = info.created;
    if (state_.is_object()) {
      step_ = state_.at("step");
      time_ = state_.at("time");
      text_steps_ = state_.at("texts");
      bands_ = state_.at("bands").get<std::vector<std::string>>();
    }
    if (!file_->is_new()) return;
    file_->add(info.created, 0, tensorboard::session_start_value(info, config));
    if (!bands_.empty()) file_->add(time_, 0, tensorboard::layout_value(bands_));
  }

  void scalars(const ScalarRow& row) override {
    const bool is_of_system = !row.values.empty() && is_system_metric(row.values[0].name);
    now(row.time, is_of_system ? step_ : row.step);  // a sample of the machine has no step
    for (const auto& [name, value] : row.values)
      file_->add(row.time, row.step, tensorboard::scalar_value(name, value));
    chart_bands(row);
  }

  void text(const TextLine& text) override {
    time_ = text.time;
    const bool is_plain = text.level == TextLevel::Info;
    const auto level = is_plain ? "" : fmt::format("{}: ", level_name(text.level));
    add_text("log", step_, level + text.line);
  }

  void histogram(const Histogram& histogram) override {
    add(histogram.at, tensorboard::histogram_value(histogram));
  }

  void image(const Image& image) override {
    add(image.at, tensorboard::image_value(image));
    if (!image.caption.empty())
      add(image.at, tensorboard::text_value(image.at.name + "/caption", image.caption));
  }

  // It shows no videos, and plays no other sounds.
  void clip(const Clip& clip) override {
    if (clip.type != "audio/wav") return;
    add(clip.at, tensorboard::audio_value(clip));
    if (!clip.caption.empty())
      add(clip.at, tensorboard::text_value(clip.at.name + "/caption", clip.caption));
  }

  void table(const Table& table) override {
    add(table.at, tensorboard::text_value(table.at.name, tensorboard::markdown(table)));
  }

  void alert(const Alert& alert) override {
    time_ = alert.time;
    add_text("alerts", alert.step.value_or(step_), tensorboard::markdown(alert));
  }

  // Written as scalars, which the HParams tab shows as metrics.
  void summary(const Json& values) override {
    for (const auto& [name, value] : values.items())
      if (value.is_number())
        file_->add(time_, step_, tensorboard::scalar_value("summary/" + name, value.get<double>()));
  }

  void rewind(int64_t step) override {
    file_->restart(time_, step + 1);
    step_ = std::min(step_, step);
    for (auto& [tag, last] : text_steps_.items()) last = std::min(last.get<int64_t>(), step);
  }

  void run_finished(const RunEnd& end) override {
    file_->add_end(time_, tensorboard::session_end_value(end, time_));
  }

  Json flush() override {
    auto state = file_->flush();
    state.update({{"step", step_}, {"time", time_}, {"texts", text_steps_}, {"bands", bands_}});
    return state;
  }

 private:
  void now(double time, int64_t step) {
    time_ = time;
    step_ = step;
  }

  void add(const Moment& at, const ProtobufWriter& value) {
    now(at.time, at.step);
    file_->add(at.time, at.step, value);
  }

  // TensorBoard shows one text per step, so each gets a unique step, `step` or a later one.
  void add_text(const char* tag, int64_t step, std::string_view markdown) {
    if (text_steps_.contains(tag)) step = std::max(step, text_steps_[tag].get<int64_t>() + 1);
    text_steps_[tag] = step;
    file_->add(time_, step, tensorboard::text_value(tag, markdown));
  }

  // A metric with "name", "name/min" and "name/max" gets a chart that shows it as a band.
  void chart_bands(const ScalarRow& row) {
    constexpr std::string_view kMin = "/min";
    const auto has = [&](const std::string& name) {
      return std::ranges::find(row.values, name, &Metric::name) != row.values.end();
    };
    const auto before = bands_.size();
    for (const auto& metric : row.values) {
      if (!metric.name.ends_with(kMin)) continue;
      const std::string name(metric.name.substr(0, metric.name.size() - kMin.size()));
      if (has(name) && has(name + "/max") && std::ranges::find(bands_, name) == bands_.end())
        bands_.push_back(name);
    }
    if (bands_.size() > before) file_->add(row.time, 0, tensorboard::layout_value(bands_));
  }

  Config config_;
  std::filesystem::path dir_;
  Json state_;
  std::optional<tensorboard::EventFile> file_;
  int64_t step_ = 0;  // the last one
  double time_ = 0;
  Json text_steps_ = Json::object();  // tag to the last step of its texts
  std::vector<std::string> bands_;    // metrics that have a chart
};

REGISTER_SINK("tensorboard", TensorboardSink, "event files for TensorBoard");

}  // namespace
}  // namespace lockstep::tracking
