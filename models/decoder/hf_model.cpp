// Model "hf": a language model in Hugging Face's layout, a directory with config.json and weights in
// safetensors files, as written by save_pretrained(). Parameters have the same names, so checkpoints
// can be read by from_pretrained().
#include <filesystem>

#include "models/decoder/decoder.h"
#include "models/decoder/hf_config.h"
#include "models/hf/hf_directory.h"
#include "models/language.h"

namespace lockstep::models {
namespace {

struct HfModelConfig {
  std::string path;
  bool weights = true;
  double z_loss = 0;
  LoraConfig lora;
};

template <class V>
void fields(V& v, HfModelConfig& c) {
  v("path", c.path, "a directory with config.json and weights, as written by save_pretrained()",
    required());
  v("weights", c.weights,
    "whether to start with the weights of the directory; false: with random ones, for pretraining");
  v("z_loss", c.z_loss, kZLossHelp, at_least(0));
  v("lora", c.lora, "trains low-rank adapters, which are saved as PEFT reads them");
}

DecoderConfig read_config(const HfDirectory& directory) {
  const auto file = directory.config();
  return parse_hf_config(file.text, file.name);
}

class HfModel final : public Decoder {
 public:
  using Config = HfModelConfig;

  explicit HfModel(const Config& config)
      : Decoder(read_config({"hf", config.path}), "hf",
                {.init = config.weights ? DecoderInit::Later : DecoderInit::Random,
                 .lora = config.lora,
                 .z_loss = config.z_loss}),
        directory_{"hf", config.path},
        lora_(config.lora) {
    if (config.weights) weights_ = directory_.weights();
  }

  InitialWeights initial_weights() const override {
    InitialWeights weights{.file = weights_};
    for (const auto& projection : adapted())
      for (const auto* matrix : {".lora_A", ".lora_B"})
        weights.except.push_back(projection + matrix);
    return weights;
  }

  ExportedFiles exported_files() const override {
    if (lora_.rank > 0)
      return peft_files(lora_, adapted(), std::filesystem::absolute(directory_.path).string());
    ExportedFiles files{.copies = directory_.companions()};
    files.copies.push_back(directory_.path / "config.json");
    return files;
  }

 private:
  HfDirectory directory_;
  std::filesystem::path weights_;
  LoraConfig lora_;
};

REGISTER_MODEL("hf", HfModel, "a language model in Hugging Face's layout");

}  // namespace
}  // namespace lockstep::models
