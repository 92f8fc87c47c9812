#include "tracking/sinks/wandb/wandb_run_file.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/log/clip_type.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/wandb/wandb_text.h"

namespace lockstep::tracking {
namespace {

// Folder and type of clips, by ClipKind.
constexpr std::array<std::pair<const char*, const char*>, 3> kWandbClips = {
    {{"audio", "audio-file"}, {"videos", "video-file"}, {"html", "html-file"}}};
constexpr size_t kMediaDigits = 20;  // of the digest in a file's name, as in W&B's programs

uint32_t sum_of(const Json& config) {
  const auto text = wandb_json(config);
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (const auto value : values) {
    if (!text.empty()) text += ',';
    text += wandb_number(value);
  }
  return fmt::format("[{}]", text);
}

// Returns a member of a stored state. Throws Config if it is missing or malformed.
template <class T>
T state_member(const Json& state, const char* name) {
  try {
    return state.at(name).get<T>();
  } catch (const Json::exception&) {
    throw config_error(fmt::format("the stored state of the wandb sink has no valid '{}'", name));
  }
}

}  // namespace

WandbRunFile::WandbRunFile(const std::filesystem::path& root, WandbRun run, const Json& config,
                           const Json& state)
    : run_(std::move(run)), config_sum_(sum_of(config)), last_time_(run_.started) {
  open(root, config, state);
}

void WandbRunFile::open(const std::filesystem::path& root, const Json& config, const Json& state) {
  const auto name = fmt::format("run-{}.wandb", run_.id);
  const auto started = fmt::gmtime(static_cast<std::time_t>(run_.started));
  const auto fresh = root / fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", started, run_.id) / name;
  const bool is_new = state.is_null();
  const auto path =
      is_new ? fresh : std::filesystem::path(state_member<std::string>(state, "file"));
  make_directories(path.parent_path() / "files");
  file_ = std::make_unique<WandbFile>(path, is_new ? 0 : state_member<uint64_t>(state, "length"));
  if (is_new) {
    put(WandbRecord::Header, wandb_header());
    put(WandbRecord::Run, wandb_run(run_, config));
    define("step");
    return;
  }
  num_records_ = state_member<int64_t>(state, "records");
  num_rows_ = state_member<int64_t>(state, "rows");
  if (state_member<uint32_t>(state, "config") != config_sum_)
    put(WandbRecord::Config, wandb_config(config));
}

void WandbRunFile::put(WandbRecord kind, const ProtobufWriter& body) {
  file_->append(wandb_record(++num_records_, kind, body));
}

void WandbRunFile::define(const std::string& key) {
  if (defined_.insert(key).second) put(WandbRecord::Metric, wandb_metric(key));
}

void WandbRunFile::row(int64_t step, double time, double epoch,
                       const std::vector<WandbItem>& items) {
  last_time_ = std::max(last_time_, time);
  auto columns = items;
  columns.push_back({"step", std::to_string(step)});
  columns.push_back({"epoch", wandb_number(epoch)});
  columns.push_back({"_step", std::to_string(num_rows_)});
  columns.push_back({"_timestamp", wandb_number(time)});
  columns.push_back({"_runtime", wandb_number(std::max(time - run_.started, 0.0))});
  for (const auto& [key, json] : columns) {
    if (!key.starts_with('_')) define(key);
    summary_[key] = json;
  }
  put(WandbRecord::History, wandb_history(num_rows_, columns));
  ++num_rows_;
}

void WandbRunFile::scalars(const ScalarRow& row) {
  std::vector<WandbItem> items, system;
  for (const auto& [name, value] : row.values) {
    if (is_system_metric(name))
      system.push_back({wandb_text(name.substr(kSystemPrefix.size())), wandb_number(value)});
    else
      items.push_back({wandb_key(name), wandb_number(value)});
  }
  if (!items.empty()) this->row(row.step, row.time, row.epoch, items);
  if (!system.empty()) put(WandbRecord::Stats, wandb_stats(row.time, system));
}

void WandbRunFile::value(const Moment& at, const std::string& json) {
  row(at.step, at.time, at.epoch, {{wandb_key(at.name), json}});
}

void WandbRunFile::console(double time, bool is_error, std::string_view line) {
  put(WandbRecord::Console, wandb_console(time, is_error, line));
}

void WandbRunFile::histogram(const Histogram& histogram) {
  value(histogram.at, fmt::format(R"({{"_type":"histogram","values":{},"bins":{}}})",
                                  numbers(histogram.counts), numbers(histogram.edges)));
}

std::string WandbRunFile::media_path(const char* folder, const std::string& name,
                                     const std::string& digest, const char* ending) const {
  return fmt::format("media/{}/{}_{}_{}{}", folder, wandb_file_name(name), num_rows_,
                     digest.substr(0, kMediaDigits), ending);
}

void WandbRunFile::store(const std::string& path, const std::string& content) {
  const auto file = this->path().parent_path() / "files" / path;
  make_directories(file.parent_path());
  write_file_durably(file, content);
  put(WandbRecord::Files, wandb_files(path));
}

void WandbRunFile::image(const Image& image) {
  const auto digest = sha256_of(image.png);
  const auto path = media_path("images", image.at.name, digest, ".png");
  store(path, image.png);
  Json json = {{"_type", "image-file"}, {"sha256", digest}, {"size", image.png.size()},
               {"path", path},          {"format", "png"},  {"width", image.width},
               {"height", image.height}};
  if (!image.caption.empty()) json["caption"] = image.caption;
  value(image.at, wandb_json(json));
}

void WandbRunFile::clip(const Clip& clip) {
  const auto* type = find_clip_type(clip.type);
  if (!type) return;
  const auto digest = sha256_of(clip.bytes);
  const auto [folder, file_type] = kWandbClips.at(static_cast<size_t>(type->kind));
  const auto path = media_path(folder, clip.at.name, digest, std::string(type->ending).c_str());
  store(path, clip.bytes);
  Json json = {
      {"_type", file_type}, {"sha256", digest}, {"size", clip.bytes.size()}, {"path", path}};
  if (!clip.caption.empty()) json["caption"] = clip.caption;
  value(clip.at, wandb_json(json));
}

void WandbRunFile::table(const Table& table) {
  const auto content = wandb_json({{"columns", table.columns}, {"data", table.rows}});
  const auto digest = sha256_of(content);
  const auto path = media_path("table", table.at.name, digest, ".table.json");
  store(path, content);
  value(table.at, wandb_json({{"_type", "table-file"},
                              {"sha256", digest},
                              {"size", content.size()},
                              {"path", path},
                              {"ncols", table.columns.size()},
                              {"nrows", table.rows.size()}}));
}

void WandbRunFile::alert(const Alert& alert) { put(WandbRecord::Alert, wandb_alert(alert)); }

void WandbRunFile::artifact(const ArtifactUse& artifact, std::vector<WandbArtifactFile> files) {
  if (files.empty()) {
    const auto* verb = artifact.made ? "made_artifact/" : "used_artifact/";
    const Json fact = {
        {"version", artifact.version}, {"type", artifact.type}, {"digest", artifact.digest}};
    return put(WandbRecord::Config, wandb_config({{wandb_text(verb + artifact.name), fact}}));
  }
  const auto identity = fmt::format("{}/{}/v{}", run_.id, artifact.name, artifact.version);
  auto metadata = artifact.metadata;
  if (metadata.is_object()) metadata["lockstep_version"] = fmt::format("v{}", artifact.version);
  put(WandbRecord::Artifact, wandb_artifact({.run_id = run_.id,
                                             .entity = run_.entity,
                                             .project = run_.project,
                                             .type = artifact.type,
                                             .name = artifact.name,
                                             .aliases = artifact.aliases,
                                             .metadata = std::move(metadata),
                                             .files = std::move(files),
                                             .client_id = wandb_client_id(identity),
                                             .sequence_id = wandb_client_id(artifact.name)}));
}

void WandbRunFile::summary(const Json& values) {
  if (!values.is_object()) return;
  for (const auto& [name, json] : values.items()) summary_[wandb_key(name)] = wandb_json(json);
}

void WandbRunFile::write_summary() {
  if (summary_.empty()) return;
  std::vector<WandbItem> items;
  for (const auto& [key, json] : summary_) items.push_back({key, json});
  put(WandbRecord::Summary, wandb_summary(items));
  summary_.clear();
}

void WandbRunFile::finish(const RunEnd& end) {
  write_summary();
  state_at_end_ = state();
  if (end.state == RunState::Preempted) put(WandbRecord::Preempting, {});
  put(WandbRecord::Exit, wandb_exit(end, last_time_ - run_.started));
}

Json WandbRunFile::state() const {
  return {{"file", path().string()},
          {"length", file_->length()},
          {"records", num_records_},
          {"rows", num_rows_},
          {"config", config_sum_}};
}

Json WandbRunFile::flush() {
  write_summary();
  file_->flush();
  // The marker with which `wandb sync` records a complete upload.
  std::error_code ignored;
  std::filesystem::remove(path().string() + ".synced", ignored);
  return state_at_end_.is_null() ? state() : state_at_end_;
}

}  // namespace lockstep::tracking
