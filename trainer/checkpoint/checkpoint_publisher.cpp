#include "trainer/checkpoint/checkpoint_publisher.h"

#include <fmt/format.h>

#include <cmath>

#include "tracking/artifacts/store.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::trainer {
namespace {

constexpr const char* kEvalLoss = "eval/loss";

// Artifact names permit fewer characters than run names.
std::string artifact_name(const std::string& run_name) {
  std::string name = run_name;
  for (auto& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  const bool begins_well = !name.empty() && name.front() != '.' && name.front() != '-';
  return (begins_well ? name : "run" + name).substr(0, 120) + "-model";
}

bool is_best(const tracking::ArtifactStore& store, const std::string& name, double loss) {
  for (const auto& artifact : store.list()) {
    const auto other = artifact.metadata.find(kEvalLoss);
    const bool counts = artifact.name == name && other != artifact.metadata.end();
    if (counts && other->is_number() && !(loss < other->get<double>())) return false;
  }
  return std::isfinite(loss);
}

tracking::Artifact publish(const CheckpointToPublish& checkpoint) {
  const auto step = checkpoint.position.step;
  tracking::ArtifactDraft draft{
      .name = artifact_name(checkpoint.run_name),
      .type = "model",
      .source = tracking::checkpoints_path(checkpoint.run_dir) / std::to_string(step),
      .metadata = {{"step", step}, {"epoch", checkpoint.position.epoch}},
      .made_by = checkpoint.run_dir.filename().string(),
      .transfer = tracking::ArtifactDraft::Transfer::Link};
  for (const auto& [name, value] : checkpoint.evaluation) draft.metadata["eval/" + name] = value;
  const tracking::ArtifactStore store(checkpoint.run_dir.parent_path() / "artifacts");
  const auto loss = checkpoint.evaluation.find("loss");
  if (loss != checkpoint.evaluation.end() && is_best(store, draft.name, loss->second))
    draft.aliases.emplace_back("best");
  return store.publish(draft);
}

}  // namespace

Published publish_checkpoint(const CheckpointToPublish& checkpoint) noexcept {
  try {
    const auto artifact = publish(checkpoint);
    return {.artifact = ArtifactUse{.name = artifact.name,
                                    .type = artifact.type,
                                    .version = artifact.version,
                                    .digest = artifact.digest,
                                    .aliases = artifact.aliases,
                                    .metadata = artifact.metadata}};
  } catch (const std::exception& error) {
    return {.artifact = std::nullopt, .problem = error.what()};
  }
}

void record(const Published& published, Tracker& tracker) noexcept {
  if (published.artifact) return tracker.artifact(*published.artifact);
  tracker.text(TextLevel::Warning,
               "the checkpoint was not published as an artifact: " + published.problem);
}

}  // namespace lockstep::trainer
