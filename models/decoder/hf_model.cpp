// Model "hf": a language model in Hugging Face's layout, a directory with config.json and weights in
// safetensors files, as written by save_pretrained(). Parameters have the same names, so checkpoints
// can be read by from_pretrained().
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "models/decoder/decoder.h"
#include "models/decoder/hf_config.h"

namespace lockstep::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 1u << 20;
constexpr std::array kWeightFiles = {"model.safetensors", "model.safetensors.index.json"};
// Files that transformers reads from a model directory, other than weights.
constexpr std::array kCompanions = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "tokenizer.model",
                                    "chat_template.jinja"};

struct HfModelConfig {
  std::string path;
  bool weights = true;
  LoraConfig lora;
};

template <class V>
void fields(V& v, HfModelConfig& c) {
  v("path", c.path, "a directory with config.json and weights, as written by save_pretrained()",
    required());
  v("weights", c.weights,
    "whether to start with the weights of the directory; false: with random ones, for pretraining");
  v("lora", c.lora, "trains low-rank adapters, which are saved as PEFT reads them");
}

DecoderConfig read_config(const fs::path& directory) {
  const auto file = directory / "config.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored))
    throw config_error(
        fmt::format("model hf: {} has no config.json: expected a directory written by "
                    "save_pretrained()",
                    printable(directory.string(), 400)));
  return parse_hf_config(read_file(file, kMaxConfigBytes), printable(file.string(), 400));
}

class HfModel final : public Decoder {
 public:
  using Config = HfModelConfig;

  explicit HfModel(const Config& config)
      : Decoder(read_config(config.path), "hf",
                {.init = config.weights ? DecoderInit::Later : DecoderInit::Random,
                 .lora = config.lora}),
        directory_(config.path),
        lora_(config.lora) {
    if (config.weights) weights_ = find_weights();
  }

  InitialWeights initial_weights() const override {
    InitialWeights weights{.file = weights_};
    for (const auto& projection : adapted())
      for (const auto* matrix : {".lora_A", ".lora_B"})
        weights.except.push_back(projection + matrix);
    return weights;
  }

  ExportedFiles exported_files() const override {
    if (lora_.rank > 0) return peft_files(lora_, adapted(), fs::absolute(directory_).string());
    ExportedFiles files;
    std::error_code ignored;
    for (const auto* name : kCompanions)
      if (fs::is_regular_file(directory_ / name, ignored))
        files.copies.push_back(directory_ / name);
    return files;
  }

 private:
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

  fs::path directory_, weights_;
  LoraConfig lora_;
};

REGISTER_MODEL("hf", HfModel, "a language model in Hugging Face's layout");

}  // namespace
}  // namespace lockstep::models
