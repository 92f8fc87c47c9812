// Continues prompts with a language model.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model.h"
#include "models/language_model.h"
#include "models/sampling.h"
#include "trainer/config/precision.h"
#include "trainer/generation/beam_search.h"
#include "trainer/generation/text_codec.h"

namespace lockstep::trainer {

struct Prompt {
  int64_t number = 0;  // among all prompts, for its random numbers
  int64_t sample = 0;  // of the texts of this prompt, for its random numbers; of beams: its rank
  std::string text;    // empty if the prompt was given as tokens
  std::vector<int64_t> tokens;
};

struct GenerationOptions {
  int64_t max_tokens = 128;  // of each text; also ends at the model's context
  int64_t batch_size = 8;
  models::Sampling sampling;
  BeamOptions beams;               // more than one: without temperature, and not collective
  std::vector<std::string> stops;  // not empty ones
  std::vector<int64_t> end_tokens;
  uint64_t seed = 0;
  Precision precision = Precision::Float32;
  // Whether forward passes are collective. Their number then depends on the prompts only, not on
  // the tokens that are generated.
  bool is_collective = false;
};

enum class FinishReason { Length, End, Stop };
constexpr auto choices(FinishReason) { return std::array{"length", "end", "stop"}; }

struct GeneratedText {
  std::vector<int64_t> tokens;  // with the end token, if there is one
  std::string text;             // without the end token and the stop string
  FinishReason finish = FinishReason::Length;
};

// Called with the parts of each text as they are generated; `prompt`: an index.
using OnText = std::function<void(size_t prompt, std::string_view part)>;

// Throws Config if `model` does not generate text. `title`: of the model, for messages.
models::LanguageModel& language_model_of(Model& model, std::string_view title);

// Throws Config unless each prompt has between one token and as many as the context of `model`, all
// of its vocabulary. `what`: of the prompts, for messages, e.g. "prompt".
void verify_prompts(const models::LanguageModel& model, const std::vector<Prompt>& prompts,
                    std::string_view what);

// Returns the texts, in the order of the prompts. Changes neither weights nor gradients nor the
// random state of training; `model` is in the same mode afterwards. `codec`: null: texts are empty.
std::vector<GeneratedText> generate(Model& model, at::Device device, const TextCodec* codec,
                                    const std::vector<Prompt>& prompts,
                                    const GenerationOptions& options, const OnText& on_text = {});

}  // namespace lockstep::trainer
