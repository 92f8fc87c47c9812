// Dataset "chat": conversations in JSON Lines, for fine-tuning language models. They are rendered
// with the chat template of a tokenizer, and kept in memory as tokens. Fields: "tokens" int64 [B, T]
// and "targets" int64 [B, T], the next token if it belongs to an answer, else -100, which losses
// ignore. T is `length`, or the longest conversation of the batch. With `pack`, a window holds several
// conversations; "documents" int64 [B, T] numbers them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/printable.h"
#include "data/batch_memory.h"
#include "data/chat/chat_encoder.h"
#include "data/chat/chat_records.h"
#include "data/packing.h"
#include "data/padded_to.h"
#include "data/target_bytes.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kUnlearned = -100;
constexpr uint32_t kAnswerBit = uint32_t{1} << 31;

enum class LearnedTokens { Answers, All };
constexpr auto choices(LearnedTokens) { return std::array{"answers", "all"}; }

struct ChatConfig {
  std::string path, tokenizer;
  int64_t length = 1024;
  LearnedTokens loss = LearnedTokens::Answers;
  PaddedTo pad_to = PaddedTo::Length;
  bool pack = false;
  std::string chat_template = "default";
  std::optional<std::string> date;
  int64_t max_bad_samples = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, ChatConfig& c) {
  v("path", c.path,
    "the file of conversations, plain or compressed with gzip or zstd, or a folder of *.jsonl, "
    "*.jsonl.gz, *.jsonl.zst",
    required());
  v("tokenizer", c.tokenizer,
    "a directory with tokenizer.json and tokenizer_config.json, with a chat template", required());
  v("length", c.length, "tokens per sample; longer conversations are truncated", at_least(2),
    at_most(1 << 24));
  v("loss", c.loss, "which tokens are learned: those of answers, or all");
  v("pad_to", c.pad_to,
    "length to which shorter conversations are padded: length, or the longest of the batch");
  v("pack", c.pack,
    "whether a sample holds several conversations, each with its own positions and attention");
  v("template", c.chat_template, "the name of the chat template, of a tokenizer with several");
  v("date", c.date, "what a template that contains the date uses: YYYY-MM-DD");
  v("max_bad_samples", c.max_bad_samples,
    "skip up to this many records that cannot be used; one more is an error", at_least(0));
  v("limit", c.limit, "use only the first N conversations", at_least(1));
}

class ChatDataset final : public Dataset {
 public:
  using Config = ChatConfig;

  explicit ChatDataset(const Config& config)
      : config_(config),
        encoder_(config.tokenizer,
                 {.name = config.chat_template, .date = parse_date(config.date, "chat")}),
        padding_(encoder_.padding()) {
    const auto name = printable(config.path, 400);
    if (pads_to_longest() && config.pack)
      throw config_error(fmt::format(
          "dataset chat: {}: pad_to: longest has no effect with pack: all samples have the same "
          "length",
          name));
    ChatRecords records(config.max_bad_samples);
    records.read(config.path, [&](std::string_view line) {
      const auto conversation = formats::parse_conversation(line);
      verify_has_answer(conversation);
      add(encoder_.encode(conversation));
    });
    if (ends_.empty()) throw config_error(name + ": it has no conversations");
    if (config.limit && *config.limit > num_chats())
      throw config_error(fmt::format("{}: limit {} is larger than the number of conversations, {}",
                                     name, *config.limit, num_chats()));
    ends_.resize(static_cast<size_t>(config.limit.value_or(num_chats())));
    report(name);
    for (const auto& line : records.warnings(name)) warnings_.push_back(line);
    if (config.pack) windows_ = PackedWindows(lengths_of_chats(), config.length);
  }

  int64_t size() const override {
    return config_.pack ? static_cast<int64_t>(windows_.size()) : num_chats();
  }

  SampleInfo sample_info() const override {
    return {.lengths = [this] {
      const auto lengths = lengths_of_chats();
      return config_.pack ? std::vector<double>()
                          : std::vector<double>(lengths.begin(), lengths.end());
    }};
  }

  std::vector<FieldLayout> layout() const override {
    if (pads_to_longest()) return {};
    auto fields = layout_of(config_.length);
    if (config_.pack) fields.push_back({"documents", at::kLong, {config_.length}});
    return fields;
  }

  Batch get_batch(std::span<const int64_t> indices) const override {
    if (!pads_to_longest()) return Dataset::get_batch(indices);
    int64_t longest = 1;
    for (const auto index : indices) longest = std::max(longest, length_of(verified(index)));
    return gather(*this, {.indices = indices}, layout_of(longest));
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    const auto length = static_cast<size_t>(fields[0].size(1));
    const auto row = [&](size_t field, size_t place) {
      return std::span(fields[field].data_ptr<int64_t>() + place * length, length);
    };
    for (size_t i = 0; i < request.indices.size(); ++i) {
      const auto index = verified(request.indices[i]);
      const auto chats = config_.pack ? windows_.at(static_cast<size_t>(index))
                                      : std::span<const int64_t>(&index, 1);
      write(chats, row(0, i), row(1, i));
      if (!config_.pack) continue;
      std::vector<int64_t> lengths;
      for (const auto chat : chats) lengths.push_back(length_of(chat));
      write_document_numbers(lengths, row(2, i));
    }
  }

  std::optional<int64_t> count_target_bytes(const Batch& batch) const override {
    return data::count_target_bytes(encoder_.tokenizer(), batch);
  }

  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  static std::vector<FieldLayout> layout_of(int64_t length) {
    return {{"tokens", at::kLong, {length}}, {"targets", at::kLong, {length}}};
  }

  bool pads_to_longest() const { return config_.pad_to == PaddedTo::Longest; }
  int64_t verified(int64_t index) const {
    check(index >= 0 && index < size(), "sample index outside the dataset");
    return index;
  }
  int64_t num_chats() const { return static_cast<int64_t>(ends_.size()); }
  size_t begin_of(int64_t chat) const {
    return chat == 0 ? 0 : ends_[static_cast<size_t>(chat) - 1];
  }
  int64_t length_of(int64_t chat) const {
    return static_cast<int64_t>(ends_[static_cast<size_t>(chat)] - begin_of(chat));
  }
  std::vector<int64_t> lengths_of_chats() const {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < num_chats(); ++i) lengths.push_back(length_of(i));
    return lengths;
  }

  void verify_has_answer(const formats::Conversation& chat) const {
    if (config_.loss == LearnedTokens::All || !chat.messages.is_array()) return;
    if (std::ranges::none_of(chat.messages, formats::is_answer))
      throw config_error("it has no answer to learn: no message has the role 'assistant'");
  }

  // The first token has no target, so it does not count as learned.
  void add(const EncodedChat& chat) {
    const auto kept = std::min(chat.tokens.size(), static_cast<size_t>(config_.length));
    const auto learned = [&](size_t i) {
      return config_.loss == LearnedTokens::All || chat.answers[i];
    };
    bool has_targets = false, had_targets = false;
    for (size_t i = 1; i < chat.tokens.size(); ++i) {
      had_targets = had_targets || learned(i);
      has_targets = has_targets || (i < kept && learned(i));
    }
    if (!had_targets) throw config_error("it has no answer to learn");
    if (!has_targets)
      throw config_error(fmt::format(
          "its answer begins after the first {} tokens, which is the length", config_.length));
    num_truncated_ += kept < chat.tokens.size();
    for (size_t i = 0; i < kept; ++i)
      tokens_.push_back(static_cast<uint32_t>(chat.tokens[i]) | (learned(i) ? kAnswerBit : 0));
    ends_.push_back(tokens_.size());
  }

  void report(const std::string& name) {
    if (num_truncated_ > 0)
      warnings_.push_back(
          fmt::format("{}: {} of {} conversations are longer than {} tokens and "
                      "truncated",
                      name, num_truncated_, num_chats(), config_.length));
  }

  // One conversation after another, then padding.
  void write(std::span<const int64_t> chats, std::span<int64_t> tokens,
             std::span<int64_t> targets) const {
    size_t at = 0;
    for (const auto chat : chats) {
      const auto begin = begin_of(chat), end = ends_[static_cast<size_t>(chat)];
      for (auto i = begin; i < end; ++i, ++at) {
        const auto next = i + 1 < end ? tokens_[i + 1] : 0;
        tokens[at] = tokens_[i] & ~kAnswerBit;
        targets[at] = next & kAnswerBit ? static_cast<int64_t>(next & ~kAnswerBit) : kUnlearned;
      }
    }
    std::ranges::fill(tokens.subspan(at), padding_);
    std::ranges::fill(targets.subspan(at), kUnlearned);
  }

  ChatConfig config_;
  ChatEncoder encoder_;
  int64_t padding_, num_truncated_ = 0;
  std::vector<uint32_t> tokens_;  // of all conversations; with kAnswerBit: learned
  std::vector<size_t> ends_;      // of the conversations
  PackedWindows windows_;
  std::vector<std::string> warnings_;
};

REGISTER_DATASET("chat", ChatDataset, "conversations, for fine-tuning language models");

}  // namespace
}  // namespace lockstep::data
