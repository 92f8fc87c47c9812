// The wandb sink: writes the run to a .wandb file, as W&B's programs do, and uploads it with
// wandb-core during the run. If the upload fails, the file is still complete and can be uploaded
// later with `wandb sync` or `lockstep sync`.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/artifacts/store.h"
#include "tracking/sinks/wandb/find_core.h"
#include "tracking/sinks/wandb/wandb_digest.h"
#include "tracking/sinks/wandb/wandb_run_file.h"
#include "tracking/sinks/wandb/wandb_settings.h"
#include "tracking/sinks/wandb/wandb_text.h"
#include "tracking/sinks/wandb/wandb_upload.h"

namespace lockstep::tracking {
namespace {

// The tracking config takes precedence over the environment, which several entries may share.
WandbRun wandb_run_of(const RunInfo& info, const WandbSettings& settings) {
  WandbRun run{.id = wandb_run_id(info.id),
               .entity = settings.entity,
               .project = settings.project,
               .group = info.group.value_or(settings.group),
               .job_type = info.job_type.value_or(settings.job_type),
               .name = info.name,
               .notes = settings.notes,
               .host = info.host,
               .tags = settings.tags,
               .started = info.created};
  const bool is_single = info.id == info.job_id;
  if (!settings.name.empty())
    run.name = is_single ? settings.name : fmt::format("{}-rank-{}", settings.name, info.rank);
  return run;
}

// Returns the files of a version; empty if the version was removed from the store or is corrupt,
// which must not block other records.
std::vector<WandbArtifactFile> stored_files(const ArtifactUse& use,
                                            const std::filesystem::path& run_dir) {
  const ArtifactStore store(std::filesystem::absolute(run_dir).parent_path() / "artifacts");
  std::vector<WandbArtifactFile> files;
  try {
    for (const auto& file : store.find(fmt::format("{}:v{}", use.name, use.version)).files) {
      const auto blob = store.blob(file);
      files.push_back({.path = file.path,
                       .md5 = md5_base64(blob),
                       .size = static_cast<int64_t>(file.size),
                       .source = blob.string()});
    }
  } catch (const Error&) {
    return {};
  }
  return files;
}

class WandbSink final : public Sink {
 public:
  using Config = WandbConfig;
  WandbSink(const Config& config, const SinkContext& context)
      : config_(config),
        context_(context),
        settings_(wandb_settings(config, context.environment)) {}

  Json destination() const override {
    if (settings_.mode == WandbMode::Disabled) return "disabled";
    if (settings_.mode == WandbMode::Offline)
      return {settings_.root.value_or(""), settings_.project};
    return {settings_.base_url, settings_.entity, settings_.project};
  }
  bool has_delivered(const RunInfo&) const override {
    std::error_code ignored;
    return settings_.mode != WandbMode::Offline ||  // stored on a server
           std::filesystem::exists(context_.state.at("file").get<std::string>(), ignored);
  }

  void run_started(const RunInfo& info, const Json& config) override {
    if (settings_.mode == WandbMode::Disabled) return;
    label_ranks_ = info.world_size > 1;
    const auto root =
        settings_.root ? std::filesystem::path(*settings_.root) / "wandb" : context_.dir;
    file_ = std::make_unique<WandbRunFile>(std::filesystem::absolute(root),
                                           wandb_run_of(info, settings_), config, context_.state);
  }

  void scalars(const ScalarRow& row) override {
    if (file_) file_->scalars(row);
  }
  void text(const TextLine& text) override {
    if (file_) file_->console(text.time, text.level >= TextLevel::Warning, text.line);
  }
  void console(const ConsoleLine& line) override {
    if (!file_) return;
    const auto label = label_ranks_ ? fmt::format("[{}] ", line.rank) : "";
    file_->console(line.time, line.is_error, label + line.line);
  }
  void histogram(const Histogram& histogram) override {
    if (file_) file_->histogram(histogram);
  }
  void image(const Image& image) override {
    if (file_) file_->image(image);
  }
  void clip(const Clip& clip) override {
    if (file_) file_->clip(clip);
  }
  void table(const Table& table) override {
    if (file_) file_->table(table);
  }
  void alert(const Alert& alert) override {
    if (file_) file_->alert(alert);
  }
  void artifact(const ArtifactUse& artifact) override {
    if (!file_) return;
    const bool is_sent = artifact.made;
    file_->artifact(artifact, is_sent ? stored_files(artifact, context_.run_dir)
                                      : std::vector<WandbArtifactFile>{});
  }
  void summary(const Json& values) override {
    if (file_) file_->summary(values);
  }
  void run_finished(const RunEnd& end) override {
    if (file_) file_->finish(end);
    is_finished_ = true;
  }

  Json flush() override {
    if (!file_) return nullptr;
    auto state = file_->flush();
    if (settings_.mode != WandbMode::Online) return state;
    if (!upload_) start_upload();
    const std::chrono::duration<double> timeout(config_.finish_timeout);
    if (is_finished_)
      upload_->finish(std::chrono::ceil<std::chrono::milliseconds>(timeout));
    else
      upload_->poll();
    return state;
  }

 private:
  void start_upload() {
    const auto& environment = context_.environment;
    upload_ = std::make_unique<WandbUpload>(
        UploadTarget{.core = find_wandb_core(config_.core, environment),
                     .file = file_->path(),
                     .scratch = std::filesystem::absolute(context_.dir / "wandb-core"),
                     .base_url = settings_.base_url,
                     .app_url = settings_.app_url,
                     .api_key = wandb_api_key(settings_.base_url, environment),
                     .upload_every = config_.upload_every},
        environment);
  }

  WandbConfig config_;
  SinkContext context_;
  WandbSettings settings_;
  bool label_ranks_ = false, is_finished_ = false;
  std::unique_ptr<WandbRunFile> file_;
  std::unique_ptr<WandbUpload> upload_;
};

REGISTER_SINK("wandb", WandbSink, "Weights & Biases: a .wandb file, uploaded by wandb-core");

}  // namespace
}  // namespace lockstep::tracking
