// Model "hf": a language model in Hugging Face's layout, a directory with config.json and weights in
// safetensors files, as written by save_pretrained(). Parameters have the same names, so checkpoints
// can be read by from_pretrained().
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/error.h"
#include "models/decoder/decoder.h"
#include "models/decoder/hf_config.h"
#include "models/hf/hf_directory.h"
#include "models/hf/hf_map.h"
#include "models/language.h"
#include "models/preference.h"

namespace lockstep::models {
namespace {

// Buffers that earlier versions of transformers saved: frequencies, and the causal masks of gpt_neox.
constexpr std::array kUnusedTensors = {"rotary_emb.inv_freq", "attention.bias",
                                       "attention.masked_bias"};

enum class BaseType { Float32, BFloat16 };
constexpr auto choices(BaseType) { return std::array{"fp32", "bf16"}; }

struct HfModelConfig {
  std::string path;
  bool weights = true;
  double z_loss = 0;
  LoraSettings lora;
  DpoConfig dpo;
  BaseType base_dtype = BaseType::Float32;
  std::optional<double> router_aux_loss_coef;
};

template <class V>
void fields(V& v, HfModelConfig& c) {
  v("path", c.path, "a directory with config.json and weights, as written by save_pretrained()",
    required());
  v("weights", c.weights,
    "whether to start with the weights of the directory; false: with random ones, for pretraining");
  v("z_loss", c.z_loss, kZLossHelp, at_least(0));
  v("lora", c.lora, "trains low-rank adapters, which are saved as PEFT reads them");
  v("dpo", c.dpo, "direct preference optimization, relative to the initial weights");
  v("base_dtype", c.base_dtype,
    "with lora: the type of the weights that are not trained; adapters are fp32",
    needs("lora.rank", "lora.path"));
  v("router_aux_loss_coef", c.router_aux_loss_coef,
    "weight of the load-balancing loss of the experts in the training loss; default: that of "
    "config.json if output_router_logits is true there, else 0",
    at_least(0));
}

DecoderConfig read_config(const HfModelConfig& settings) {
  const auto file = HfDirectory{"hf", settings.path}.config();
  auto config = parse_hf_config(file.text, file.name);
  if (!settings.router_aux_loss_coef) return config;
  if (config.experts.count == 0)
    throw config_error("model hf: router_aux_loss_coef has no effect: the model has no experts");
  config.experts.balance = *settings.router_aux_loss_coef;
  return config;
}

class HfModel final : public Decoder, public ReferencedModel {
 public:
  using Config = HfModelConfig;

  explicit HfModel(const Config& config) : HfModel(config, resolve_lora(config.lora, "hf")) {}

  Outputs forward(const Batch& batch) override {
    if (!needs_reference()) return Decoder::forward(batch);
    return preference_outputs(Decoder::forward(texts_of_pairs(batch)).predictions, batch, dpo_);
  }

  void verify(const ModelUse& use) const override {
    if (!needs_reference()) return Decoder::verify(use);
    auto texts = use;
    texts.first_samples = [&] {
      std::vector<Batch> samples;
      for (const auto& pair : use.first_samples()) samples.push_back(texts_of_pairs(pair));
      return samples;
    };
    Decoder::verify(texts);
  }

  // With dpo, the loss is a mean over pairs.
  bool needs_reference() const override { return dpo_.beta.has_value(); }
  std::string target_name() const override {
    return needs_reference() ? "" : Decoder::target_name();
  }

  Batch example_sample() const override {
    auto sample = Decoder::example_sample();
    for (auto& [name, field] : sample.fields)
      if (needs_reference()) field = at::stack({field, field}, 1);
    return sample;
  }

  InitialWeights initial_weights() const override {
    InitialWeights weights{.file = weights_, .except = {}};
    weights.unused = {kUnusedTensors.begin(), kUnusedTensors.end()};
    if (const auto& c = architecture(); c.tied_embeddings)
      weights.copies[c.names.head + ".weight"] =
          fmt::format("{}.{}.weight", c.names.root, c.names.embedding);
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
    if (lora_.rank > 0)
      return peft_files(lora_, adapters(), std::filesystem::absolute(directory_.path).string());
    ExportedFiles files{.copies = directory_.companions(), .texts = {}, .tensors = {}};
    const auto file = directory_.config();
    auto config = parse_hf_json(file.text, file.name);
    if (!set_fp32_weights(config)) return files;
    std::erase_if(files.copies, [](const auto& each) { return each.filename() == "config.json"; });
    files.texts["config.json"] = config.dump(2) + "\n";
    return files;
  }

 private:
  HfModel(const Config& config, const LoraConfig& lora)
      : Decoder(read_config(config), "hf",
                {.init = config.weights ? DecoderInit::Later : DecoderInit::Random,
                 .lora = lora,
                 .base_is_bf16 = config.base_dtype == BaseType::BFloat16,
                 .z_loss = config.z_loss}),
        directory_{"hf", config.path},
        lora_(lora),
        dpo_(config.dpo) {
    if (needs_reference() && config.z_loss > 0)
      throw config_error("model hf: z_loss has no effect with dpo: remove one");
    if (needs_reference() && config.router_aux_loss_coef.value_or(0) > 0)
      throw config_error("model hf: router_aux_loss_coef has no effect with dpo: remove one");
    if (config.weights) weights_ = directory_.weights();
    if (!config.lora.path) return;
    if (!config.weights)
      throw config_error(
          "model hf: lora.path has an adapter of the weights in model.path: remove weights: false");
    adapter_ = std::filesystem::path(*config.lora.path) / kAdapterWeights;
  }

  HfDirectory directory_;
  std::filesystem::path weights_, adapter_;  // empty: none
  LoraConfig lora_;
  DpoConfig dpo_;
};

REGISTER_MODEL("hf", HfModel, "a language model in Hugging Face's layout");

}  // namespace
}  // namespace lockstep::models
