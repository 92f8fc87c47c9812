// Model "hf": a language model in Hugging Face's layout, a directory with config.json and weights in
// safetensors files, as written by save_pretrained(). Parameters have the same names, so checkpoints
// can be read by from_pretrained().
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "models/decoder/decoder.h"
#include "models/decoder/hf_config.h"
#include "models/decoder/hf_files.h"

namespace lockstep::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 1u << 20;
constexpr std::array kWeightFiles = {"model.safetensors", "model.safetensors.index.json"};

enum class BaseType { Float32, BFloat16 };
constexpr auto choices(BaseType) { return std::array{"fp32", "bf16"}; }

struct HfModelConfig {
  std::string path;
  bool weights = true;
  LoraSettings lora;
  BaseType base_dtype = BaseType::Float32;
  std::optional<double> router_aux_loss_coef;
};

template <class V>
void fields(V& v, HfModelConfig& c) {
  v("path", c.path, "a directory with config.json and weights, as written by save_pretrained()",
    required());
  v("weights", c.weights,
    "whether to start with the weights of the directory; false: with random ones, for pretraining");
  v("lora", c.lora, "trains low-rank adapters, which are saved as PEFT reads them");
  v("base_dtype", c.base_dtype,
    "with lora: the type of the weights that are not trained; adapters are fp32",
    needs("lora.rank", "lora.path"));
  v("router_aux_loss_coef", c.router_aux_loss_coef,
    "weight of the load-balancing loss of the experts in the training loss; default: that of "
    "config.json if output_router_logits is true there, else 0",
    at_least(0));
}

DecoderConfig read_config(const HfModelConfig& settings) {
  const fs::path directory = settings.path;
  const auto file = directory / "config.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored))
    throw config_error(
        fmt::format("model hf: {} has no config.json: expected a directory written by "
                    "save_pretrained()",
                    printable(directory.string(), 400)));
  auto config = parse_hf_config(read_file(file, kMaxConfigBytes), printable(file.string(), 400));
  if (!settings.router_aux_loss_coef) return config;
  if (config.experts.count == 0)
    throw config_error("model hf: router_aux_loss_coef has no effect: the model has no experts");
  config.experts.balance = *settings.router_aux_loss_coef;
  return config;
}

class HfModel final : public Decoder {
 public:
  using Config = HfModelConfig;

  explicit HfModel(const Config& config) : HfModel(config, resolve_lora(config.lora, "hf")) {}

  InitialWeights initial_weights() const override {
    InitialWeights weights{.file = weights_, .except = {}};
    if (lora_.rank < 1 || weights_.empty()) return weights;
    weights.is_base = true;
    for (const auto& projection : adapters().projections) {
      for (const auto* matrix : {".lora_A", ".lora_B"})
        weights.except.push_back(projection + matrix);
      if (!lora_.dora) continue;
      const auto magnitude = projection + ".lora_magnitude_vector";
      weights.except.push_back(magnitude);
      weights.computed[magnitude + ".weight"] = {
          projection + ".weight",
          [](const at::Tensor& weight) { return at::linalg_vector_norm(weight, 2, 1); }};
    }
    if (adapter_.empty()) return weights;
    weights.adapter = adapter_;
    weights.adapter_names = names_in_peft(lora_, adapters());
    return weights;
  }

  ExportedFiles exported_files() const override {
    if (lora_.rank > 0) return peft_files(lora_, adapters(), fs::absolute(directory_).string());
    return {.copies = companions_of(directory_), .texts = {}, .tensors = {}};
  }

 private:
  HfModel(const Config& config, const LoraConfig& lora)
      : Decoder(read_config(config), "hf",
                {.init = config.weights ? DecoderInit::Later : DecoderInit::Random,
                 .lora = lora,
                 .base_is_bf16 = config.base_dtype == BaseType::BFloat16}),
        directory_(config.path),
        lora_(lora) {
    if (config.weights) weights_ = find_weights();
    if (!config.lora.path) return;
    if (!config.weights)
      throw config_error(
          "model hf: lora.path has an adapter of the weights in model.path: remove weights: false");
    adapter_ = fs::path(*config.lora.path) / kAdapterWeights;
  }

  fs::path find_weights() const {
    std::error_code ignored;
    for (const auto* name : kWeightFiles)
      if (fs::exists(directory_ / name, ignored)) return directory_ / name;
    throw config_error(
        fmt::format("model hf: {} has neither {} nor {}; other formats of weights are not "
                    "supported: convert them "
                    "with save_pretrained(), or set weights: false to start with random ones",
                    printable(directory_.string(), 400), kWeightFiles[0], kWeightFiles[1]));
  }

  fs::path directory_, weights_, adapter_;  // empty: none
  LoraConfig lora_;
};

REGISTER_MODEL("hf", HfModel, "a language model in Hugging Face's layout");

}  // namespace
}  // namespace lockstep::models
