#include "trainer/generation/text_samples.h"

#include "lockstep/error.h"

namespace lockstep::trainer {

namespace fs = std::filesystem;

fs::path model_directory(const RunConfig& config) {
  const auto settings = config.model.dump();
  if (!settings.is_object() || !settings.contains("path") || !settings["path"].is_string())
    return {};
  const fs::path path = settings["path"].get<std::string>();
  std::error_code error;
  return fs::is_directory(path, error) ? path : fs::path();
}

TextSamples::TextSamples(const RunConfig& config, Model& model, std::string_view title) {
  const auto& samples = config.train.samples;
  const auto& language = language_model_of(model, title);
  const auto directory = model_directory(config);
  const auto tokenizer = samples.tokenizer ? samples.tokenizer : tokenizer_of(directory);
  if (!tokenizer)
    throw config_error(
        "train.samples: there is no tokenizer; set train.samples.tokenizer to a tokenizer.json, or "
        "to bytes");
  codec_ = std::make_unique<TextCodec>(*tokenizer, "train.samples.tokenizer");
  for (const auto& stop : samples.stop)
    if (stop.empty()) throw config_error("train.samples.stop: an empty string");
  for (const auto& text : samples.prompts)
    prompts_.push_back({.number = static_cast<int64_t>(prompts_.size()),
                        .text = text,
                        .tokens = codec_->encode(text)});
  verify_prompts(language, prompts_, "train.samples.prompts: prompt");
  options_ = {.max_tokens = samples.max_tokens,
              .sampling = {.temperature = samples.temperature,
                           .top_k = samples.top_k,
                           .top_p = samples.top_p,
                           .min_p = samples.min_p,
                           .repetition_penalty = samples.repetition_penalty},
              .stops = samples.stop,
              .end_tokens = end_tokens_of(directory, codec_.get()),
              .seed = static_cast<uint64_t>(config.run.seed),
              .precision = config.train.precision};
}

void TextSamples::record(Model& model, at::Device device, Tracker& tracker, Moment at,
                         bool is_collective) const {
  if (!tracker.is_logging() && !is_collective) return;
  auto options = options_;
  options.is_collective = is_collective;
  const auto texts = generate(model, device, codec_.get(), prompts_, options);
  at.name = "samples";
  Table table{.at = std::move(at), .columns = {"prompt", "text"}};
  for (size_t i = 0; i < texts.size(); ++i) table.rows.push_back({prompts_[i].text, texts[i].text});
  tracker.table(std::move(table));
}

}  // namespace lockstep::trainer
