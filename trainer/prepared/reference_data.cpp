#include "trainer/prepared/reference_data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lockstep/error.h"
#include "models/preference.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {
namespace {

constexpr int64_t kAnswersOfPair = 2;

}  // namespace

void ReferenceData::set(const at::Tensor& values) {
  check(values.sizes() == at::IntArrayRef({size(), kAnswersOfPair}), "a reference per sample");
  values_ = values.to(at::kCPU, at::kFloat).contiguous();
}

std::vector<FieldLayout> ReferenceData::layout() const {
  auto fields = data_->layout();
  if (fields.empty()) return {};  // samples of different lengths
  fields.push_back({"reference", at::kFloat, {kAnswersOfPair}});
  return fields;
}

void ReferenceData::fill(const SampleRequest& request, std::span<const at::Tensor> fields) const {
  data_->fill(request, fields.first(fields.size() - 1));
  fill_reference(request.indices, fields.back());
}

Batch ReferenceData::get_batch(std::span<const int64_t> indices) const {
  return get_samples({.indices = indices});
}

Batch ReferenceData::get_samples(const SampleRequest& request) const {
  auto batch = data_->get_samples(request);
  auto reference = at::empty({std::ssize(request.indices), kAnswersOfPair}, at::kFloat);
  fill_reference(request.indices, reference);
  batch.fields.emplace_back("reference", reference);
  return batch;
}

void ReferenceData::fill_reference(std::span<const int64_t> indices,
                                   const at::Tensor& reference) const {
  auto* to = reference.mutable_data_ptr<float>();
  for (const auto index : indices) {
    if (values_.defined())
      std::memcpy(to, values_.const_data_ptr<float>() + kAnswersOfPair * index,
                  kAnswersOfPair * sizeof(float));
    else
      std::fill_n(to, kAnswersOfPair, 0.0f);
    to += kAnswersOfPair;
  }
}

void add_references(PreparedRun& run) {
  const auto* const model = dynamic_cast<const models::ReferencedModel*>(run.model.get());
  if (!model || !model->needs_reference()) return;
  const auto wrap = [](std::shared_ptr<const Dataset>& data) {
    auto references = std::make_shared<ReferenceData>(data);
    data = references;
    return references;
  };
  run.train_references = wrap(run.data.train);
  if (run.data.eval) run.eval_references = wrap(run.data.eval);
}

std::filesystem::path reference_path(const std::filesystem::path& run_dir) {
  return run_dir / "reference.safetensors";
}

void save_references(const std::filesystem::path& file, const ReferenceData& train,
                     const ReferenceData* eval) {
  NamedTensors tensors = {{"train", train.values()}};
  if (eval) tensors.push_back({"eval", eval->values()});
  const std::filesystem::path part = file.string() + ".part";
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  write_safetensors(part, tensors);
  std::error_code error;
  std::filesystem::rename(part, file, error);
  if (error)
    throw environment_error(
        fmt::format("{}: cannot be written: {}", file.string(), error.message()));
}

void load_references(const std::filesystem::path& file, ReferenceData& train, ReferenceData* eval) {
  size_t num_found = 0;
  for (const auto& [name, values] : read_safetensors(file)) {
    auto* data = name == "train" ? &train : eval;
    if (!data || values.sizes() != at::IntArrayRef({data->size(), kAnswersOfPair}))
      throw config_error(fmt::format(
          "{}: the log-probabilities of the initial weights are those of other data: resume with "
          "the data that the run began with",
          file.string()));
    data->set(values);
    ++num_found;
  }
  if (num_found < (eval ? size_t{2} : size_t{1}))
    throw config_error(
        fmt::format("{}: it has no log-probabilities of data.eval: resume with the "
                    "data that the run began with",
                    file.string()));
}

}  // namespace lockstep::trainer
