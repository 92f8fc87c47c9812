// Dataset "preferences": pairs of answers in JSON Lines, for model.dpo. Kept in memory as tokens.
// Fields: "tokens" int64 [B, 2, T], the chosen and the rejected answer, each after its prompt, and
// "targets" int64 [B, 2, T], the next token if it belongs to the answer, else -100. T is `length`, or
// the longest answer of the batch.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/printable.h"
#include "data/batch_memory.h"
#include "data/chat/chat_encoder.h"
#include "data/chat/chat_records.h"
#include "data/padded_to.h"
#include "formats/chat/preference.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct PreferencesConfig {
  std::string path, tokenizer;
  int64_t length = 1024;
  PaddedTo pad_to = PaddedTo::Length;
  std::string chat_template = "default";
  std::optional<std::string> date;
  int64_t max_bad_samples = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, PreferencesConfig& c) {
  v("path", c.path,
    "the file of preferences (prompt, chosen, rejected: texts or lists of messages), plain or "
    "compressed with gzip or zstd, or a folder of *.jsonl, *.jsonl.gz, *.jsonl.zst",
    required());
  v("tokenizer", c.tokenizer,
    "a directory with tokenizer.json and tokenizer_config.json, with a chat template", required());
  v("length", c.length, "tokens of a prompt with an answer; longer ones are truncated", at_least(2),
    at_most(1 << 24));
  v("pad_to", c.pad_to,
    "length to which shorter texts are padded: length, or the longest of the batch");
  v("template", c.chat_template, "the name of the chat template, of a tokenizer with several");
  v("date", c.date, "what a template that contains the date uses: YYYY-MM-DD");
  v("max_bad_samples", c.max_bad_samples,
    "skip up to this many records that cannot be used; one more is an error", at_least(0));
  v("limit", c.limit, "use only the first N pairs", at_least(1));
}

class PreferencesDataset final : public Dataset {
 public:
  using Config = PreferencesConfig;

  explicit PreferencesDataset(const Config& config) : config_(config) {
    ChatEncoder encoder(config.tokenizer, {.name = config.chat_template,
                                           .date = parse_date(config.date, "preferences")});
    padding_ = encoder.padding();
    ChatRecords records(config.max_bad_samples);
    records.read(config.path, [&](std::string_view line) {
      const auto preference = formats::parse_preference(line);
      Pair pair = {encoded(encoder, preference.prompt, preference.chosen, "chosen"),
                   encoded(encoder, preference.prompt, preference.rejected, "rejected")};
      const bool is_chosen_longer = truncate(pair[0]), is_rejected_longer = truncate(pair[1]);
      num_truncated_ += is_chosen_longer || is_rejected_longer;
      pairs_.push_back(std::move(pair));
    });
    const auto name = printable(config.path, 400);
    if (pairs_.empty()) throw config_error(name + ": it has no preferences");
    if (config.limit && *config.limit > size())
      throw config_error(fmt::format("{}: limit {} is larger than the number of pairs, {}", name,
                                     *config.limit, size()));
    if (config.limit) pairs_.resize(static_cast<size_t>(*config.limit));
    warnings_ = records.warnings(name);
    if (num_truncated_ > 0)
      warnings_.push_back(fmt::format("{}: {} pairs are longer than {} tokens and truncated", name,
                                      num_truncated_, config.length));
  }

  int64_t size() const override { return static_cast<int64_t>(pairs_.size()); }

  SampleInfo sample_info() const override {
    return {.lengths = [this] {
      std::vector<double> lengths;
      for (const auto& pair : pairs_) lengths.push_back(static_cast<double>(length_of(pair)));
      return lengths;
    }};
  }

  std::vector<FieldLayout> layout() const override {
    if (config_.pad_to == PaddedTo::Longest) return {};
    return layout_of(config_.length);
  }

  Batch get_batch(std::span<const int64_t> indices) const override {
    if (config_.pad_to == PaddedTo::Length) return Dataset::get_batch(indices);
    size_t longest = 1;
    for (const auto index : indices) longest = std::max(longest, length_of(pair_of(index)));
    return gather(*this, {.indices = indices}, layout_of(static_cast<int64_t>(longest)));
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    const auto length = static_cast<size_t>(fields[0].size(2));
    for (size_t i = 0; i < request.indices.size(); ++i) {
      const auto& pair = pair_of(request.indices[i]);
      for (size_t j = 0; j < 2; ++j) {
        const auto row = [&](size_t field) {
          return std::span(fields[field].data_ptr<int64_t>() + (2 * i + j) * length, length);
        };
        write(pair[j], row(0), row(1));
      }
    }
  }

  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  static std::vector<FieldLayout> layout_of(int64_t length) {
    return {{"tokens", at::kLong, {2, length}}, {"targets", at::kLong, {2, length}}};
  }

  using Pair = std::array<EncodedChat, 2>;
  static constexpr int64_t kNotLearned = -100;

  static size_t length_of(const Pair& pair) {
    return std::max(pair[0].tokens.size(), pair[1].tokens.size());
  }

  const Pair& pair_of(int64_t index) const {
    check(index >= 0 && index < size(), "sample index outside the dataset");
    return pairs_[static_cast<size_t>(index)];
  }

  EncodedChat encoded(ChatEncoder& encoder, const std::string& prompt,
                      const formats::Conversation& answer, const char* key) const {
    auto text =
        answer.is_text() ? encoder.encode_answer(prompt, answer.text) : encoder.encode(answer);
    const auto first =
        std::find(text.answers.begin(), text.answers.end(), true) - text.answers.begin();
    if (first == std::ssize(text.answers))
      throw config_error(fmt::format("'{}' has no answer to learn", key));
    if (std::max<int64_t>(first, 1) >= config_.length)
      throw config_error(
          fmt::format("the answer of '{}' begins after the first {} tokens, which is the length",
                      key, config_.length));
    return text;
  }

  bool truncate(EncodedChat& text) const {
    const auto length = static_cast<size_t>(config_.length);
    if (text.tokens.size() <= length) return false;
    text.tokens.resize(length);
    text.answers.resize(length);
    return true;
  }

  void write(const EncodedChat& text, std::span<int64_t> tokens, std::span<int64_t> targets) const {
    std::ranges::fill(tokens, padding_);
    std::ranges::fill(targets, kNotLearned);
    for (size_t i = 0; i < text.tokens.size(); ++i) {
      tokens[i] = text.tokens[i];
      if (i > 0 && text.answers[i]) targets[i - 1] = text.tokens[i];
    }
  }

  PreferencesConfig config_;
  int64_t padding_ = 0, num_truncated_ = 0;
  std::vector<Pair> pairs_;  // chosen, rejected
  std::vector<std::string> warnings_;
};

REGISTER_DATASET("preferences", PreferencesDataset,
                 "pairs of a chosen and a rejected answer, for model.dpo");

}  // namespace
}  // namespace lockstep::data
