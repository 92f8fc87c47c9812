// Model "compiled": a Python model compiled by lockstep-compile, with forward pass, loss and
// gradients in one graph and evaluation in another. Does not use Python at run time.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <set>
#include <type_traits>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/classification.h"
#include "models/compiled/graph.h"
#include "models/compiled/step.h"
#include "models/language.h"
#include "models/package/package.h"

namespace lockstep::models {
namespace {

struct CompiledConfig {
  std::string package;
};

template <class V>
void fields(V& v, CompiledConfig& c) {
  v("package", c.package, "a file written by lockstep-compile", required());
}

at::ScalarType scalar_type_of(const TensorSpec& spec, const std::string& package) {
  constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kTypes = {
      {{"float32", at::kFloat},
       {"float64", at::kDouble},
       {"float16", at::kHalf},
       {"bfloat16", at::kBFloat16},
       {"int64", at::kLong},
       {"int32", at::kInt},
       {"int16", at::kShort},
       {"int8", at::kChar},
       {"uint8", at::kByte},
       {"bool", at::kBool}}};
  for (const auto& [name, type] : kTypes)
    if (spec.dtype == name) return type;
  throw config_error(fmt::format("{}: '{}' has unsupported type {}", package, printable(spec.name),
                                 printable(spec.dtype)));
}

// "float32 [B, 3, 32, 32]"
std::string field_text(const std::string& type, at::IntArrayRef sample) {
  std::string text = type + " [B";
  for (const auto size : sample) text += fmt::format(", {}", size);
  return text + "]";
}

void verify_name(const TensorSpec& spec, const std::string& package) {
  const bool has_all = !spec.name.empty() && spec.name.front() != '.' && spec.name.back() != '.' &&
                       spec.name.find("..") == std::string::npos;
  if (!has_all)
    throw config_error(
        fmt::format("{}: invalid parameter or buffer name '{}'", package, printable(spec.name)));
}

// The submodule of `root` that contains `name`, created if necessary, and the last component of the
// name.
std::pair<torch::nn::Module*, std::string> place_of(torch::nn::Module& root, std::string name) {
  auto* module = &root;
  for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.')) {
    const auto part = name.substr(0, dot);
    const auto children = module->named_children();
    module = children.contains(part)
                 ? children[part].get()
                 : module->register_module(part, std::make_shared<torch::nn::Module>()).get();
    name.erase(0, dot + 1);
  }
  return {module, name};
}

class CompiledModel final : public Model {
 public:
  using Config = CompiledConfig;

  explicit CompiledModel(const Config& config) : CompiledModel(CompiledPackage(config.package)) {}

  // GPU code can only be loaded after the GPU of this process is selected.
  void to(at::Device device, bool non_blocking) override {
    Module::to(device, non_blocking);
    if (!training_) load_graphs(device);
  }

  Outputs forward(const Batch& batch) override {
    auto inputs = inputs_of(batch);
    verify_size(inputs.back().size(0), "data.eval_batch_size");
    auto values = computed(batch, [&] { return evaluation_->run(inputs); });
    check(values.size() ==
              1 + manifest_.sums.size() + (has_targets() ? 1 : 0) + (manifest_.predictions ? 1 : 0),
          "number of outputs of the compiled evaluation does not match the manifest");
    auto outputs = outputs_of(values, inputs.back().size(0));
    if (manifest_.predictions) outputs.predictions = values.back();
    return outputs;
  }

  bool has_backward() const override { return true; }

  StepOutputs forward_backward(const Batch& batch, const at::Tensor& weight) override {
    auto inputs = inputs_of(batch);
    const auto count = inputs.back().size(0);
    if (manifest_.dynamic_batch)
      verify_size(count, "data.per_rank_batch_size");
    else if (count != manifest_.batch_size)
      throw wrong_size(count);
    inputs.push_back(weight);
    auto results = computed(batch, [&] { return training_->run(std::move(inputs)); });
    if (!is_verified_) verify_gradients(results.gradients);
    auto& remaining = results.remaining_segments;
    if (remaining.empty())
      change_buffers(results.buffers);
    else  // remaining segments may use the old values
      remaining.back() = [this, last = remaining.back(), buffers = results.buffers] {
        auto gradients = last();
        change_buffers(buffers);
        return gradients;
      };
    return {.outputs = outputs_of(results.scalars, count),
            .gradients = std::move(results.gradients),
            .remaining_segments = std::move(remaining)};
  }

  std::string target_name() const override { return manifest_.targets; }

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
  explicit CompiledModel(const CompiledPackage& package)
      : package_(package.name()), manifest_(package.manifest()) {
    package.verify_host(host_facts(TORCH_VERSION));
    if (manifest_.fields.empty())
      throw config_error(package_ + ": has no batch fields as inputs; recompile the model");
    for (const auto& spec : manifest_.parameters) add_parameter(spec, load(spec, package));
    for (const auto& spec : manifest_.buffers) add_buffer(spec, load(spec, package));
    files_ = {package.training(), package.graph("eval"),
              has_targets() ? package.graph("count") : GraphFiles()};
    if (manifest_.device == "cpu") load_graphs(at::kCPU);
  }

  void load_graphs(const at::Device& device) {
    const auto graph = [&](const GraphFiles& files, const std::string& kind) {
      return std::make_unique<CompiledGraph>(files, device.str(),
                                             fmt::format("{}: {}.pt2", package_, kind));
    };
    std::vector<std::unique_ptr<CompiledGraph>> segments;
    for (const auto& files : files_.training) segments.push_back(graph(files, "train"));
    training_ = std::make_unique<CompiledStep>(std::move(segments), manifest_);
    evaluation_ = graph(files_.evaluation, "eval");
    if (has_targets()) count_ = graph(files_.count, "count");
    files_ = {};
  }

  at::Tensor load(const TensorSpec& spec, const CompiledPackage& package) const {
    verify_name(spec, package_);
    auto tensor = at::empty(spec.shape, scalar_type_of(spec, package_));
    for (const auto& entry : package.weight_entries())
      if (entry.name == spec.name && entry.end > entry.begin)
        std::memcpy(tensor.mutable_data_ptr(), package.weights().data() + entry.begin,
                    entry.end - entry.begin);
    return tensor;
  }

  void add_parameter(const TensorSpec& spec, at::Tensor value) {
    const auto [module, name] = place_of(*this, spec.name);
    auto& parameter = module->register_parameter(name, std::move(value), spec.marked);
    state_.push_back(parameter);
    if (spec.marked) trained_.push_back(parameter);
  }

  void add_buffer(const TensorSpec& spec, at::Tensor value) {
    const auto [module, name] = place_of(*this, spec.name);
    auto& buffer = module->register_buffer(name, std::move(value));
    state_.push_back(buffer);
    if (spec.marked) changed_.push_back(buffer);
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
    for (size_t i = 0; i < changed_.size(); ++i) changed_[i].copy_(values[i]);
  }

  bool has_targets() const { return !manifest_.targets.empty(); }

  std::vector<at::Tensor> inputs_of(const Batch& batch) const {
    auto inputs = state_;
    inputs.reserve(state_.size() + manifest_.fields.size() + 1);
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

  // Compiled code reports an index out of range on stderr, with a stack trace but without the
  // index.
  template <class Run>
  std::invoke_result_t<Run> computed(const Batch& batch, const Run& run) const {
    try {
      return run();
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      const auto numbers = whole_numbers_of(batch);
      if (numbers.empty()) throw;
      throw config_error(
          fmt::format("{}: its code failed on a batch with {}: the usual reason is a class or "
                      "token that is out of range for the model",
                      package_, numbers));
    }
  }

  std::string whole_numbers_of(const Batch& batch) const {
    std::string text;
    for (const auto& field : manifest_.fields) {
      const auto& tensor = batch.at(field.name);
      if (!tensor.is_cpu() || tensor.scalar_type() != at::kLong || tensor.numel() == 0) continue;
      text += fmt::format("{}'{}' from {} to {}", text.empty() ? "" : ", ", printable(field.name),
                          tensor.min().item<int64_t>(), tensor.max().item<int64_t>());
    }
    return text;
  }

  void verify_field(const TensorSpec& field, const at::Tensor& tensor) const {
    const bool fits = tensor.dim() > 0 && tensor.sizes().slice(1) == at::IntArrayRef(field.shape) &&
                      tensor.scalar_type() == scalar_type_of(field, package_);
    if (fits) return;
    auto given = std::string(at::toString(tensor.scalar_type())) + " " + shape_text(tensor);
    if (tensor.dim() > 0)
      given = field_text(python_name(tensor.scalar_type()), tensor.sizes().slice(1));
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

  // Gradients are changed in place later: each must have separate memory and the parameter's
  // layout.
  void verify_gradients(const std::vector<at::Tensor>& gradients) {
    std::set<const void*> places;
    const auto first = trained_.size() - gradients.size();
    for (size_t i = 0; i < gradients.size(); ++i)
      check(gradients[i].sizes() == trained_[first + i].sizes() && gradients[i].is_contiguous() &&
                gradients[i].scalar_type() == trained_[first + i].scalar_type() &&
                (gradients[i].numel() == 0 || places.insert(gradients[i].const_data_ptr()).second),
            "a compiled gradient does not match its parameter or shares memory");
    is_verified_ = true;
  }

  static std::string python_name(at::ScalarType type) {
    auto name = std::string(c10::getDtypeNames(type).first);
    return name;
  }

  Error wrong_size(int64_t count) const {
    return config_error(
        fmt::format("{}: trains on batches of {} samples per rank, not {}: set "
                    "data.per_rank_batch_size: {}, or compile with --dynamic-batch",
                    package_, manifest_.batch_size, count, manifest_.batch_size));
  }

  std::string package_;
  PackageManifest manifest_;
  struct Files {
    std::vector<GraphFiles> training;
    GraphFiles evaluation, count;
  } files_;  // until they are loaded
  std::unique_ptr<CompiledStep> training_;
  std::unique_ptr<CompiledGraph> evaluation_, count_;
  std::vector<at::Tensor> state_;              // parameters and buffers, in the order of inputs
  std::vector<at::Tensor> trained_, changed_;  // parameters with gradients; buffers of training
  bool is_verified_ = false;
};

REGISTER_MODEL("compiled", CompiledModel, "a Python model compiled by lockstep-compile");

}  // namespace
}  // namespace lockstep::models
