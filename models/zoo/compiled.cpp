// Model "compiled": a Python model compiled by lockstep-compile, with forward pass, loss and
// gradients in one or more graphs and evaluation in others. Does not use Python at run time.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <set>
#include <type_traits>

#include "core/printable.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "models/classification.h"
#include "models/compiled/graph.h"
#include "models/compiled/pass.h"
#include "models/compiled/state.h"
#include "models/decoder/lora_config.h"
#include "models/language.h"
#include "models/package/package.h"
#include "models/package_reference.h"

namespace lockstep::models {
namespace {

struct CompiledConfig {
  std::string package;
};

template <class V>
void fields(V& v, CompiledConfig& c) {
  v("package", c.package, "a file written by lockstep-compile", required());
}

// "float32 [B, 3, 32, 32]"
std::string field_text(const std::string& type, at::IntArrayRef sample) {
  std::string text = type + " [B";
  for (const auto size : sample) text += fmt::format(", {}", size);
  return text + "]";
}

class CompiledModel final : public Model {
 public:
  using Config = CompiledConfig;

  explicit CompiledModel(const Config& config)
      : CompiledModel(std::make_shared<const CompiledPackage>(config.package)) {
    path_ = std::filesystem::absolute(config.package).lexically_normal().string();
  }

  // GPU code can only be loaded after the GPU of this process is selected.
  void to(at::Device device, bool non_blocking) override {
    Module::to(device, non_blocking);
    if (!training_) load_graphs(device);
  }

  Outputs forward(const Batch& batch) override {
    auto inputs = inputs_of(batch);
    verify_size(inputs.back().size(0), "data.eval_batch_size");
    const auto count = inputs.back().size(0);
    auto values = computed(batch, [&] {
      return CompiledPass::Run(*evaluation_, std::move(inputs), count)
          .run_to(evaluation_->size() - 1);
    });
    check(values.size() == num_scalars() + (manifest_.predictions ? 1 : 0),
          "number of outputs of the compiled evaluation does not match the manifest");
    auto outputs = outputs_of(values, count);
    if (manifest_.predictions) outputs.predictions = values.back();
    return outputs;
  }

  bool has_backward() const override { return true; }

  at::ScalarType compute_type() const override {
    return manifest_.precision == "bf16" ? at::kBFloat16 : at::kFloat;
  }

  StepOutputs forward_backward(const Batch& batch, const at::Tensor& weight) override {
    auto inputs = inputs_of(batch);
    const auto count = inputs.back().size(0);
    if (manifest_.dynamic_batch)
      verify_size(count, "data.per_rank_batch_size");
    else if (count != manifest_.batch_size)
      throw wrong_size(count);
    inputs.push_back(weight);
    const auto run = std::make_shared<CompiledPass::Run>(*training_, std::move(inputs), count);
    const auto first = training_->first_backward();
    auto values = computed(batch, [&] { return run->run_to(first); });
    check(values.size() == num_scalars() + num_gradients(first) + state_.changed.size(),
          "number of compiled outputs does not match the manifest");
    StepOutputs step{
        .outputs = outputs_of(values, count), .gradients = {}, .remaining_segments = {}};
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(num_scalars());
    const auto end = begin + static_cast<std::ptrdiff_t>(num_gradients(first));
    step.gradients = {begin, end};
    if (!is_verified_) verify_gradients(step.gradients);
    const std::vector<at::Tensor> buffers{end, values.end()};
    if (first + 1 == training_->size()) change_buffers(buffers);
    for (auto i = first + 1; i < training_->size(); ++i)
      step.remaining_segments.emplace_back([this, batch, run, i, buffers] {
        auto gradients = computed(batch, [&] { return run->run_to(i); });
        check(gradients.size() == num_gradients(i),
              "number of compiled outputs does not match the manifest");
        // Until now, segments may have used the old values.
        if (i + 1 == training_->size()) change_buffers(buffers);
        return gradients;
      });
    return step;
  }

  std::string target_name() const override { return manifest_.targets; }

  ExportedFiles exported_files() const override {
    Json reference = {{"package", path_}, {"manifest_crc32", manifest_crc32_}};
    if (manifest_.adapter && !manifest_.adapter->model_config.empty())
      reference["model_config"] = manifest_.adapter->model_config;
    auto text = reference.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    ExportedFiles files{
        .copies = {}, .texts = {{kPackageReference, std::move(text)}}, .tensors = {}};
    if (!manifest_.adapter) return files;
    files.texts[kAdapterConfig] = manifest_.adapter->config;
    files.tensors[kAdapterWeights] = manifest_.adapter->tensors;
    return files;
  }

  // With adapters, the package is the base model.
  InitialWeights initial_weights() const override {
    if (!manifest_.adapter) return {};
    return {.file = path_,
            .except = {},
            .is_base = true,
            .adapter = {},
            .adapter_names = manifest_.adapter->tensors,
            .computed = {},
            .names = {}};
  }

  at::Tensor count_targets(const Batch& batch) const override {
    const auto fields = fields_of(batch);
    return computed(batch, [&] { return count_->run(fields); }).at(0);
  }

  Batch example_sample() const override {
    Batch sample{.fields = {}, .indices = at::zeros({1}, at::kLong)};
    for (const auto& field : manifest_.fields) {
      auto shape = field.shape;
      shape.insert(shape.begin(), 1);
      sample.fields.emplace_back(field.name, at::zeros(shape, scalar_type_of(field, package_)));
    }
    return sample;
  }

  void verify(const ModelUse& use) const override {
    if (use.device != manifest_.device)
      throw config_error(
          fmt::format("{}: was compiled for device {}, this run computes on {}: set "
                      "distributed.device, or compile with --device {}",
                      package_, printable(manifest_.device), use.device, use.device));
    if (use.device == "cuda") verify_gpu(use.gpu());
    for (const auto& sample : use.first_samples())
      for (const auto& field : manifest_.fields) verify_field(field, sample.at(field.name));
    verify_size(use.eval_batch_size, "data.eval_batch_size");
    if (manifest_.dynamic_batch) verify_size(use.batch_size, "data.per_rank_batch_size");
    if (manifest_.dynamic_batch || use.batch_size == 0) return;
    if (use.may_skip_samples)
      throw config_error(fmt::format(
          "{}: trains on batches of {} samples, but with data.max_bad_samples some may be smaller: "
          "set it to 0, or compile with --dynamic-batch",
          package_, manifest_.batch_size));
    if (use.is_uneven)
      throw config_error(fmt::format(
          "{}: trains on batches of {} samples, but with data.batch_remainder: uneven ranks have "
          "batches of different sizes: set it to pad, or compile with --dynamic-batch",
          package_, manifest_.batch_size));
    if (use.batch_size != manifest_.batch_size) throw wrong_size(use.batch_size);
    if (use.last_batch_size != use.batch_size)
      throw config_error(fmt::format(
          "{}: trains on batches of {} samples, but the last one of an epoch has {}: set "
          "data.drop_last: true, or compile with --dynamic-batch",
          package_, manifest_.batch_size, use.last_batch_size));
  }

 private:
  explicit CompiledModel(const std::shared_ptr<const CompiledPackage>& package)
      : package_(package->name()),
        manifest_(package->manifest()),
        manifest_crc32_(package->manifest_crc32()) {
    package->verify_host(host_facts(TORCH_VERSION));
    if (manifest_.fields.empty())
      throw config_error(package_ + ": has no batch fields as inputs; recompile the model");
    state_ = register_state(*this, package);
    files_ = {package->training(), package->evaluation(),
              has_targets() ? package->graph("count") : GraphFiles()};
    if (manifest_.device == "cpu") load_graphs(at::kCPU);
  }

  void load_graphs(const at::Device& device) {
    const auto graph = [&](const GraphFiles& files, const std::string& kind) {
      return std::make_unique<CompiledGraph>(files, device.str(),
                                             fmt::format("{}: {}.pt2", package_, kind));
    };
    const auto pass = [&](const std::vector<GraphFiles>& files, const std::string& kind,
                          const std::vector<SegmentSpec>& segments, size_t num_inputs) {
      CompiledPass::Graphs graphs;
      for (const auto& each : files) graphs.push_back(graph(each, kind));
      return std::make_unique<CompiledPass>(std::move(graphs), segments, state_.blocks, num_inputs);
    };
    const auto num_inputs = state_.tensors.size() + manifest_.fields.size();
    training_ = pass(files_.training, "train", manifest_.segments, num_inputs + 1);
    evaluation_ = pass(files_.evaluation, "eval", manifest_.evaluation, num_inputs);
    if (has_targets()) count_ = graph(files_.count, "count");
    files_ = {};
  }

  void verify_gpu(const std::string& architecture) const {
    if (manifest_.gpu != architecture)
      throw config_error(
          fmt::format("{}: was compiled for a GPU of architecture {}, this machine's is {}: "
                      "compile it on a machine like this one",
                      package_, printable(manifest_.gpu), architecture));
  }

  // The compiler selected code that is only known to be correct up to this batch size.
  void verify_size(int64_t count, const char* key) const {
    if (manifest_.largest_batch == 0 || count <= manifest_.largest_batch) return;
    throw config_error(fmt::format("{}: supports batches of at most {} samples, not {}: set {}: {}",
                                   package_, manifest_.largest_batch, count, key,
                                   manifest_.largest_batch));
  }

  void change_buffers(const std::vector<at::Tensor>& values) {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < values.size(); ++i) state_.changed[i].copy_(values[i]);
  }

  bool has_targets() const { return !manifest_.targets.empty(); }
  size_t num_scalars() const { return 1 + manifest_.sums.size() + (has_targets() ? 1 : 0); }
  size_t num_gradients(size_t segment) const {
    return static_cast<size_t>(manifest_.segments[segment].gradients);
  }

  std::vector<at::Tensor> inputs_of(const Batch& batch) const {
    auto inputs = state_.tensors;
    inputs.reserve(inputs.size() + manifest_.fields.size() + 1);
    for (auto& field : fields_of(batch)) inputs.push_back(std::move(field));
    return inputs;
  }

  std::vector<at::Tensor> fields_of(const Batch& batch) const {
    std::vector<at::Tensor> fields;
    for (const auto& field : manifest_.fields) {
      const auto& tensor = batch.at(field.name);
      verify_field(field, tensor);
      fields.push_back(tensor.contiguous());
      if (field.name == manifest_.all_count) verify_all_count(fields.back());
      if (field.name == manifest_.class_field) verify_classes(fields.back());
    }
    return fields;
  }

  // Skipped on a GPU, because it would require synchronization.
  void verify_all_count(const at::Tensor& targets) const {
    if (!targets.is_cpu() || targets.scalar_type() != at::kLong) return;
    const auto* begin = targets.const_data_ptr<int64_t>();
    const auto* end = begin + targets.numel();
    if (std::find(begin, end, kIgnoredTarget) == end) return;
    throw config_error(fmt::format(
        "{}: '{}' has the ignored target {}, but the compiled loss averages over all samples: "
        "compile the model with an example batch that has one",
        package_, printable(manifest_.all_count), kIgnoredTarget));
  }

  // Compiled code would fail with a stack trace that names neither field nor value.
  void verify_classes(const at::Tensor& classes) const {
    if (!classes.is_cpu() || classes.scalar_type() != at::kLong) return;
    const auto* begin = classes.const_data_ptr<int64_t>();
    const auto* end = begin + classes.numel();
    const auto* wrong = std::find_if(begin, end, [&](int64_t label) {
      return (label < 0 || label >= manifest_.num_classes) && label != kIgnoredTarget;
    });
    if (wrong == end) return;
    throw config_error(
        fmt::format("{}: '{}' has {}, but the model has {} classes: 0 to {} are valid", package_,
                    printable(manifest_.class_field), *wrong, manifest_.num_classes,
                    manifest_.num_classes - 1));
  }

  // Compiled code prints what failed on stderr, and its exceptions say only that it failed. Those of
  // LibTorch are not from it.
  template <class Run>
  std::invoke_result_t<Run> computed(const Batch& batch, const Run& run) const {
    try {
      return run();
    } catch (const Error&) {
      throw;
    } catch (const c10::Error&) {
      throw;
    } catch (const std::exception&) {
      throw failed_on(batch);
    }
  }

  // Without an index, and on a GPU, whose driver may have failed, a restart can help.
  Error failed_on(const Batch& batch) const {
    std::string text;
    bool has_numbers = false, can_be_restarted = true;
    for (const auto& field : manifest_.fields) {
      const auto& tensor = batch.at(field.name);
      text += fmt::format("{}'{}'", text.empty() ? "" : ", ", printable(field.name));
      if (tensor.scalar_type() != at::kLong) continue;
      has_numbers = true;
      can_be_restarted = !tensor.is_cpu();
      if (tensor.is_cpu() && tensor.numel() > 0)
        text += fmt::format(" from {} to {}", tensor.min().item<int64_t>(),
                            tensor.max().item<int64_t>());
    }
    return Error(
        can_be_restarted ? ErrorKind::Environment : ErrorKind::Config,
        fmt::format(
            "{}: its code failed on a batch with {}: the reason is on the lines "
            "above{}",
            package_, text,
            has_numbers ? ", often a class or token that is out of range for the model" : ""));
  }

  void verify_field(const TensorSpec& field, const at::Tensor& tensor) const {
    const bool fits = tensor.dim() > 0 && tensor.sizes().slice(1) == at::IntArrayRef(field.shape) &&
                      tensor.scalar_type() == scalar_type_of(field, package_);
    if (fits) return;
    auto given = std::string(at::toString(tensor.scalar_type())) + " " + shape_text(tensor);
    if (tensor.dim() > 0)
      given = field_text(c10::getDtypeNames(tensor.scalar_type()).first, tensor.sizes().slice(1));
    throw config_error(fmt::format(
        "{}: expects '{}' as {}, but the dataset has {}: compile the model with an example batch "
        "of this dataset",
        package_, printable(field.name), field_text(field.dtype, field.shape), given));
  }

  Outputs outputs_of(const std::vector<at::Tensor>& values, int64_t count) const {
    Outputs outputs;
    outputs.loss = values[0];
    outputs.count = count;
    for (size_t i = 0; i < manifest_.sums.size(); ++i)
      outputs.sums[manifest_.sums[i]] = values[1 + i];
    if (has_targets()) outputs.targets = values[1 + manifest_.sums.size()];
    return outputs;
  }

  // Gradients are changed in place later: each must have separate memory.
  void verify_gradients(const std::vector<at::Tensor>& gradients) {
    std::set<const void*> places;
    for (const auto& gradient : gradients)
      check(gradient.is_contiguous() &&
                (gradient.numel() == 0 || places.insert(gradient.const_data_ptr()).second),
            "a compiled gradient has gaps or shares memory");
    is_verified_ = true;
  }

  Error wrong_size(int64_t count) const {
    return config_error(
        fmt::format("{}: trains on batches of {} samples per rank, not {}: set "
                    "data.per_rank_batch_size: {}, or compile with --dynamic-batch",
                    package_, manifest_.batch_size, count, manifest_.batch_size));
  }

  std::string package_, path_;  // its name in messages, its absolute path
  PackageManifest manifest_;
  uint32_t manifest_crc32_ = 0;
  struct Files {
    std::vector<GraphFiles> training, evaluation;
    GraphFiles count;
  } files_;  // until they are loaded
  std::unique_ptr<CompiledPass> training_, evaluation_;
  std::unique_ptr<CompiledGraph> count_;
  CompiledState state_;
  bool is_verified_ = false;
};

REGISTER_MODEL("compiled", CompiledModel, "a Python model compiled by lockstep-compile");

}  // namespace
}  // namespace lockstep::models
