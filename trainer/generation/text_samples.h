// The texts of train.samples.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/model.h"
#include "lockstep/tracker.h"
#include "trainer/config/run_config.h"
#include "trainer/generation/generation.h"

namespace lockstep::trainer {

// The directory of a model in Hugging Face's layout: model.path, if it is a directory; else empty.
std::filesystem::path model_directory(const RunConfig& config);

// Thread: the training thread.
class TextSamples {
 public:
  // Reads tokenizer and prompts. Throws Config: no tokenizer, prompts that do not fit the model, or
  // a model that does not generate text.
  TextSamples(const RunConfig& config, Model& model, std::string_view title);

  // Generates the texts, on the device of the weights, and records them as the table "samples".
  // Does not change what is trained. `at`: its name is not used. `is_collective`: forward passes
  // are; call it on all ranks.
  void record(Model& model, at::Device device, Tracker& tracker, Moment at,
              bool is_collective) const;

 private:
  std::unique_ptr<TextCodec> codec_;
  std::vector<Prompt> prompts_;
  GenerationOptions options_;
};

}  // namespace lockstep::trainer
