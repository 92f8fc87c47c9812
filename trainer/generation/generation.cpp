#include "trainer/generation/generation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "lockstep/error.h"
#include "models/autocast.h"
#include "trainer/generation/text_stream.h"

namespace lockstep::trainer {
namespace {

using models::KeyValueCache;
using models::LanguageModel;

// The model in evaluation mode, for a scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(Model& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Model& model_;
  bool was_training_;
};

// The maximum number of tokens of a text; the last one is not processed.
int64_t max_tokens_of(const GenerationOptions& options, const LanguageModel& model,
                      const Prompt& prompt) {
  const auto length = static_cast<int64_t>(prompt.tokens.size());
  return std::min(options.max_tokens, model.context_size() - length + 1);
}

at::Tensor logits_of(LanguageModel& model, at::Device device, Precision precision,
                     const at::Tensor& tokens, const std::vector<int64_t>& counts,
                     KeyValueCache& cache) {
  std::optional<models::Autocast> autocast;
  if (precision != Precision::Float32)
    autocast.emplace(device.type(), precision == Precision::Float16 ? at::kHalf : at::kBFloat16);
  return model.next_logits(tokens.to(device), counts, cache).to(at::kCPU, at::kFloat);
}

// A text in progress.
struct Sequence {
  size_t index;  // of the prompt
  const Prompt& prompt;
  int64_t max_tokens;
  at::Generator generator;
  TextStream stream;
  GeneratedText result = {};
};

// Texts that are generated together. Those that are finished leave the batch.
class TextBatch {
 public:
  TextBatch(LanguageModel& model, at::Device device, const TextCodec* codec,
            const GenerationOptions& options, const OnText& on_text)
      : model_(model), device_(device), codec_(codec), options_(options), on_text_(on_text) {}

  void add(size_t index, const Prompt& prompt) {
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    const auto max_tokens = max_tokens_of(options_, model_, prompt);
    max_passes_ = std::max(max_passes_, max_tokens);
    capacity_ = std::max({capacity_, length, length + max_tokens - 1});
    longest_ = std::max(longest_, length);
    sequences_.push_back({index, prompt, max_tokens,
                          models::generator_of(options_.seed, prompt.number, prompt.sample),
                          TextStream(codec_, prompt.tokens, options_.stops)});
  }

  void run(std::vector<GeneratedText>& results) {
    // While sequences are processed together, the longest prompt may be of another one.
    KeyValueCache cache(static_cast<int64_t>(sequences_.size()), capacity_);
    for (size_t i = 0; i < sequences_.size(); ++i) active_.push_back(i);
    for (int64_t pass = 0; pass < max_passes_; ++pass) {
      if (active_.empty() && !options_.is_collective) break;
      if (active_.empty())
        pass_for_others();
      else
        take_tokens(pass == 0 ? first_pass(cache) : next_pass(cache), cache);
    }
    for (auto& sequence : sequences_) results[sequence.index] = std::move(sequence.result);
  }

 private:
  at::Tensor pass(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                  KeyValueCache& cache) {
    return logits_of(model_, device_, options_.precision, tokens, counts, cache);
  }

  at::Tensor first_pass(KeyValueCache& cache) {
    auto tokens = at::zeros({static_cast<int64_t>(active_.size()), longest_}, at::kLong);
    std::vector<int64_t> counts;
    for (const auto i : active_) {
      const auto& prompt = sequences_[i].prompt.tokens;
      const auto row = tokens[static_cast<int64_t>(counts.size())];
      row.narrow(0, 0, static_cast<int64_t>(prompt.size())).copy_(at::tensor(prompt, at::kLong));
      counts.push_back(static_cast<int64_t>(prompt.size()));
    }
    return pass(tokens, counts, cache);
  }

  at::Tensor next_pass(KeyValueCache& cache) {
    std::vector<int64_t> last;
    for (const auto i : active_) last.push_back(sequences_[i].result.tokens.back());
    return pass(at::tensor(last, at::kLong).unsqueeze(1), std::vector<int64_t>(active_.size(), 1),
                cache);
  }

  void pass_for_others() {
    KeyValueCache spare(1, 1);
    pass(at::zeros({1, 1}, at::kLong), {1}, spare);
  }

  void take_tokens(const at::Tensor& logits, KeyValueCache& cache) {
    std::vector<int64_t> kept;
    std::vector<size_t> active;
    for (size_t row = 0; row < active_.size(); ++row) {
      auto& sequence = sequences_[active_[row]];
      const auto at = static_cast<int64_t>(row);
      const auto token = models::choose_token(penalized(logits[at], sequence), options_.sampling,
                                              sequence.generator);
      if (is_finished_by(token, sequence)) continue;
      kept.push_back(at);
      active.push_back(active_[row]);
    }
    if (active.size() == active_.size()) return;
    active_ = std::move(active);
    if (!kept.empty()) cache.keep(kept);
  }

  at::Tensor penalized(const at::Tensor& logits, const Sequence& sequence) const {
    const auto penalty = options_.sampling.repetition_penalty.value_or(1);
    if (penalty == 1) return logits;
    auto tokens = sequence.prompt.tokens;
    tokens.insert(tokens.end(), sequence.result.tokens.begin(), sequence.result.tokens.end());
    return models::penalize_repetition(logits, tokens, penalty);
  }

  bool is_finished_by(int64_t token, Sequence& sequence) {
    auto& result = sequence.result;
    result.tokens.push_back(token);
    bool is_finished = static_cast<int64_t>(result.tokens.size()) == sequence.max_tokens;
    if (std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end()) {
      result.finish = FinishReason::End;
      is_finished = true;
    } else if (sequence.stream.add(std::span(&token, 1))) {
      result.finish = FinishReason::Stop;
      is_finished = true;
    }
    if (is_finished) result.text = sequence.stream.text();
    if (on_text_) on_text_(sequence.index, sequence.stream.take(is_finished));
    return is_finished;
  }

  LanguageModel& model_;
  at::Device device_;
  const TextCodec* codec_;
  const GenerationOptions& options_;
  const OnText& on_text_;
  std::vector<Sequence> sequences_;
  std::vector<size_t> active_;
  int64_t max_passes_ = 0, capacity_ = 0, longest_ = 0;
};

GeneratedText found_text(const TextCodec* codec, const Prompt& prompt,
                         const GenerationOptions& options, std::vector<int64_t> tokens) {
  GeneratedText result;
  result.tokens = std::move(tokens);
  TextStream stream(codec, prompt.tokens, options.stops);
  const auto end = std::ranges::find_first_of(result.tokens, options.end_tokens);
  if (end != result.tokens.end()) result.finish = FinishReason::End;
  if (stream.add(std::span(result.tokens.begin(), end))) result.finish = FinishReason::Stop;
  result.text = stream.text();
  return result;
}

// By beam search. Prompts with the same number are samples of one prompt, which is searched once.
std::vector<GeneratedText> search_texts(LanguageModel& model, at::Device device,
                                        const TextCodec* codec, const std::vector<Prompt>& prompts,
                                        const GenerationOptions& options, const OnText& on_text) {
  const auto pass = [&](const at::Tensor& tokens, const std::vector<int64_t>& counts,
                        KeyValueCache& cache) {
    return logits_of(model, device, options.precision, tokens, counts, cache);
  };
  const Prompt* searched = nullptr;
  const IsStopped is_stopped = [&](const std::vector<int64_t>& tokens) {
    return !options.stops.empty() && TextStream(codec, searched->tokens, options.stops).add(tokens);
  };
  auto beams = options.beams;
  beams.repetition_penalty = options.sampling.repetition_penalty.value_or(1);
  std::vector<GeneratedText> results;
  std::vector<std::vector<int64_t>> found;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto& prompt = prompts[i];
    if (i == 0 || prompt.number != prompts[i - 1].number) {
      searched = &prompt;
      found = best_texts(prompt.tokens, max_tokens_of(options, model, prompt), options.end_tokens,
                         beams, pass, is_stopped);
    }
    results.push_back(
        found_text(codec, prompt, options, found.at(static_cast<size_t>(prompt.sample))));
    if (on_text) on_text(i, results.back().text);
  }
  return results;
}

}  // namespace

LanguageModel& language_model_of(Model& model, std::string_view title) {
  if (auto* const language = dynamic_cast<LanguageModel*>(&model)) return *language;
  throw config_error(
      fmt::format("{} does not generate text; the models gpt, decoder and hf do", title));
}

void verify_prompts(const LanguageModel& model, const std::vector<Prompt>& prompts,
                    std::string_view what) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto& tokens = prompts[i].tokens;
    const auto refuse = [&](const std::string& problem) {
      throw config_error(fmt::format("{} {} {}", what, prompts[i].number + 1, problem));
    };
    if (tokens.empty()) refuse("is empty: the model needs at least one token to continue");
    if (static_cast<int64_t>(tokens.size()) > model.context_size())
      refuse(fmt::format("has {} tokens, but the model takes up to {}; shorten it", tokens.size(),
                         model.context_size()));
    for (const auto token : tokens)
      if (token < 0 || token >= model.vocabulary_size())
        refuse(fmt::format(
            "has token {}, but the model has a vocabulary of {}: use the tokenizer that the model "
            "was trained with",
            token, model.vocabulary_size()));
  }
}

std::vector<GeneratedText> generate(Model& model, at::Device device, const TextCodec* codec,
                                    const std::vector<Prompt>& prompts,
                                    const GenerationOptions& options, const OnText& on_text) {
  const at::InferenceMode inference;
  const EvaluationMode evaluation(model);
  auto& language = language_model_of(model, "the model");
  if (options.beams.count > 1)
    return search_texts(language, device, codec, prompts, options, on_text);
  std::vector<GeneratedText> results(prompts.size());
  const auto size = static_cast<size_t>(options.batch_size);
  for (size_t first = 0; first < prompts.size(); first += size) {
    TextBatch batch(language, device, codec, options, on_text);
    for (size_t i = first; i < std::min(first + size, prompts.size()); ++i)
      batch.add(i, prompts[i]);
    batch.run(results);
  }
  return results;
}

}  // namespace lockstep::trainer
