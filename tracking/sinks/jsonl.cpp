// The jsonl sink: writes every record as a JSON object on one line, with a `type`.

#include <cmath>

#include "lockstep/sink.h"
#include "tracking/log/line_file.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/file_path.h"

namespace lockstep::tracking {
namespace {

struct JsonlConfig {
  std::optional<std::string> path;
};
template <class V>
void fields(V& v, JsonlConfig& c) {
  v("path", c.path,
    "file to write; {id} is replaced by the ID of the entry; default: records.jsonl in the "
    "sink's directory of the run");
}

// JSON cannot represent NaN and infinities: they become strings.
Json jsonl_finite(Json value) {
  if (value.is_structured())
    for (auto& member : value) member = jsonl_finite(std::move(member));
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return value;
  const auto number = value.get<double>();
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

std::string jsonl_line(const Json& record) {
  using Handler = nlohmann::detail::error_handler_t;
  return jsonl_finite(record).dump(-1, ' ', false, Handler::replace) + "\n";
}

Json jsonl_moment(const char* type, const Moment& at) {
  return {
      {"type", type}, {"name", at.name}, {"step", at.step}, {"epoch", at.epoch}, {"time", at.time}};
}

// Records with values of steps are removed by a rewind; texts, alerts and metrics of the machine, which are
// numbered by samples, are kept.
bool jsonl_belongs_to_step(const Json& record) {
  const auto type = record.value("type", "");
  if (type == "scalars" && !record["values"].empty())
    return !is_system_metric(record["values"].begin().key());
  return type == "scalars" || type == "histogram" || type == "image" || type == "clip" ||
         type == "table";
}

std::string jsonl_up_to(std::string_view text, int64_t last_step) {
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const auto line = text.substr(begin, end - begin);
    const auto record = Json::parse(line, nullptr, false);
    const bool is_later = record.is_object() && jsonl_belongs_to_step(record) &&
                          record.value("step", int64_t{0}) > last_step;
    if (!is_later) kept += line;
    begin = end;
  }
  return kept;
}

class JsonlSink final : public Sink {
 public:
  using Config = JsonlConfig;
  JsonlSink(const Config& config, const SinkContext& context)
      : config_(config), dir_(context.dir), state_(context.state) {}

  Json destination() const override { return file_destination(config_.path); }
  bool has_delivered(const RunInfo& info) const override {
    std::error_code ignored;
    return std::filesystem::exists(place(info), ignored);
  }

  void run_started(const RunInfo& info, const Json& config) override {
    file_.emplace(LineFile::Paths{.file = place(info), .note = dir_ / "rewind.json"}, state_,
                  jsonl_up_to);
    if (file_->is_empty()) add({{"type", "config"}, {"run", to_json(info)}, {"config", config}});
  }

  void scalars(const ScalarRow& row) override {
    auto values = Json::object();
    for (const auto& [name, value] : row.values) values[std::string(name)] = value;
    add({{"type", "scalars"},
         {"step", row.step},
         {"epoch", row.epoch},
         {"time", row.time},
         {"values", values}});
  }
  void text(const TextLine& text) override {
    add({{"type", "text"},
         {"time", text.time},
         {"level", level_name(text.level)},
         {"line", text.line}});
  }
  void console(const ConsoleLine& console) override {
    add({{"type", "console"},
         {"time", console.time},
         {"rank", console.rank},
         {"stream", console.is_error ? "stderr" : "stdout"},
         {"line", console.line}});
  }
  void histogram(const Histogram& histogram) override {
    auto record = jsonl_moment("histogram", histogram.at);
    record["edges"] = histogram.edges;
    record["counts"] = histogram.counts;
    add(record);
  }
  // Without the pixels, to keep lines readable.
  void image(const Image& image) override {
    auto record = jsonl_moment("image", image.at);
    record.update({{"width", image.width}, {"height", image.height}, {"caption", image.caption}});
    add(record);
  }
  void clip(const Clip& clip) override {
    auto record = jsonl_moment("clip", clip.at);
    record.update(
        {{"media_type", clip.type}, {"bytes", clip.bytes.size()}, {"caption", clip.caption}});
    add(record);
  }
  void table(const Table& table) override {
    auto record = jsonl_moment("table", table.at);
    record.update({{"columns", table.columns}, {"rows", table.rows}});
    add(record);
  }
  void alert(const Alert& alert) override {
    add({{"type", "alert"},
         {"time", alert.time},
         {"level", level_name(alert.level)},
         {"title", alert.title},
         {"text", alert.text},
         {"step", alert.step ? Json(*alert.step) : Json(nullptr)}});
  }
  void artifact(const ArtifactUse& artifact) override {
    add({{"type", "artifact"},
         {"time", artifact.time},
         {"name", artifact.name},
         {"artifact_type", artifact.type},
         {"version", artifact.version},
         {"digest", artifact.digest},
         {"aliases", artifact.aliases},
         {"metadata", artifact.metadata},
         {"made", artifact.made}});
  }
  void summary(const Json& values) override { add({{"type", "summary"}, {"values", values}}); }
  void rewind(int64_t step) override { file_->rewind(step); }
  Json flush() override { return file_->flush(); }
  void run_finished(const RunEnd& end) override {
    auto record = Json{{"type", "end"}};
    record.update(to_json(end));
    add(record);
  }

 private:
  std::filesystem::path place(const RunInfo& info) const {
    return sink_file(config_.path, dir_, "records.jsonl", info);
  }
  void add(const Json& record) { file_->append(jsonl_line(record)); }

  Config config_;
  std::filesystem::path dir_;
  Json state_;
  std::optional<LineFile> file_;
};

REGISTER_SINK("jsonl", JsonlSink, "every record as a line of JSON, for scripts");

}  // namespace
}  // namespace lockstep::tracking
