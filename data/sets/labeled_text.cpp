// Dataset "labeled_text": texts with labels, for encoders. Fields: "tokens" int64 [B, T],
// "attention_mask" bool [B, T], false for padding, and "label": int64 [B] for classes, float [B, K]
// for several classes per sample, float [B] or [B, K] for values. For classes of words and for masked
// tokens instead "targets" int64 [B, T], -100 where there is none.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/printable.h"
#include "data/batch_memory.h"
#include "data/padded_to.h"
#include "data/sets/text_encoder.h"
#include "data/target_bytes.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/sample_random.h"

namespace lockstep::data {
namespace {

constexpr int64_t kNotATarget = -100;
constexpr double kMaxClass = 1e6;

enum class LabelKind { Class, Classes, Value, Words, Masked };
constexpr auto choices(LabelKind) {
  return std::array{"class", "classes", "value", "words", "masked"};
}

struct LabeledTextConfig {
  std::string path, tokenizer;
  std::string text = "text", label = "label";
  std::optional<std::string> text_pair;
  LabelKind kind = LabelKind::Class;
  std::vector<std::string> classes;
  int64_t length = 128;
  PaddedTo pad_to = PaddedTo::Longest;
  double mask_share = 0.15;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, LabeledTextConfig& c) {
  v("path", c.path, "a JSON Lines or CSV file, plain or compressed with gzip or zstd", required());
  v("tokenizer", c.tokenizer, "a tokenizer.json, or the directory of a model with one", required());
  v("text", c.text, "the key or column with the text; for kind: words a list of words");
  v("text_pair", c.text_pair,
    "the key or column with a second text, e.g. an answer to a question; adds the field "
    "token_types");
  v("label", c.label, "the key or column with the label; not read for kind: masked");
  v("kind", c.kind,
    "class: the label is a class; classes: a list of classes; value: a number or a list of "
    "numbers; words: a class for each word; masked: there is no label, some tokens are masked and "
    "predicted");
  v("classes", c.classes,
    "the names of the classes in the order of their numbers; default: those of the training data, "
    "sorted");
  v("length", c.length, "maximum number of tokens of a sample; longer texts are cut", at_least(3),
    at_most(1 << 20));
  v("pad_to", c.pad_to,
    "length to which shorter samples are padded: the longest of the batch, or length");
  v("mask_share", c.mask_share,
    "share of the tokens that are predicted: 80 % of them are masked, 10 % random, 10 % unchanged",
    above(0), at_most(1), needs("kind: masked"));
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

class LabeledTextDataset final : public Dataset {
 public:
  using Config = LabeledTextConfig;

  explicit LabeledTextDataset(const Config& config)
      : config_(config), encoder_(config.tokenizer), padding_(encoder_.padding()) {
    if (config.kind == LabelKind::Masked) encoder_.mask();
    if (config.kind == LabelKind::Masked) config_.label.clear();
    rows_ = formats::read_labeled_texts(
        config.path, {config_.text, config_.label, config.text_pair.value_or(""), config_.classes});
    if (config.text_pair && config.kind == LabelKind::Words)
      throw config_error("dataset labeled_text: text_pair has no effect with kind: words");
    if (config.limit && *config.limit < std::ssize(rows_))
      rows_.resize(static_cast<size_t>(*config.limit));
    for (auto& row : rows_) {
      verify_row(row);
      texts_.push_back(encoder_.encode(row, config.length));
      if (config.kind != LabelKind::Words) row.words.clear();
    }
    classes_ = config.classes;
  }

  int64_t size() const override { return std::ssize(rows_); }

  void fit(const Dataset& train_set, std::span<const int64_t> training) override {
    const auto* train = dynamic_cast<const LabeledTextDataset*>(&train_set);
    if (train && train != this && config_.classes.empty()) {
      classes_ = train->classes_;
      greatest_ = train->greatest_;
    }
    if (train == this && config_.classes.empty()) find_classes(training);
    for (size_t i = 0; i < classes_.size(); ++i) numbers_[classes_[i]] = static_cast<int64_t>(i);
    for (const auto& row : rows_) verify_label(row);
  }

  SampleInfo sample_info() const override {
    return {.labels =
                [this] {
                  std::vector<double> labels;
                  if (config_.kind != LabelKind::Class) return labels;
                  for (const auto& row : rows_)
                    labels.push_back(static_cast<double>(classes_of(row).front()));
                  return labels;
                },
            .lengths =
                [this] {
                  std::vector<double> lengths;
                  for (const auto& text : texts_)
                    lengths.push_back(static_cast<double>(text.tokens.size()));
                  return lengths;
                }};
  }

  Json metadata() const override {
    Json json = {{"vocabulary", encoder_.vocabulary()}};
    if (!classes_.empty()) json["classes"] = classes_;
    return json;
  }

  std::optional<int64_t> count_target_bytes(const Batch& batch) const override {
    if (config_.kind != LabelKind::Masked) return std::nullopt;
    return count_masked_bytes(encoder_.tokenizer(), batch, padding_);
  }

  std::vector<FieldLayout> layout() const override {
    if (config_.pad_to == PaddedTo::Longest) return {};
    return layout_of(config_.length);
  }

  Batch get_batch(std::span<const int64_t> indices) const override {
    return get_samples({.indices = indices});
  }

  Batch get_samples(const SampleRequest& request) const override {
    size_t longest = 1;
    for (const auto index : request.indices) longest = std::max(longest, text(index).tokens.size());
    const auto length =
        config_.pad_to == PaddedTo::Length ? config_.length : static_cast<int64_t>(longest);
    return gather(*this, request, layout_of(length));
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    const auto length = fields[0].size(1);
    for (size_t i = 0; i < request.indices.size(); ++i) {
      const auto index = request.indices[i];
      const auto& encoded = text(index);
      const auto place = static_cast<int64_t>(i);
      auto* tokens = fields[0].data_ptr<int64_t>() + place * length;
      auto* mask = fields[1].data_ptr<bool>() + place * length;
      std::fill_n(tokens, length, padding_);
      std::ranges::copy(encoded.tokens, tokens);
      for (int64_t t = 0; t < length; ++t) mask[t] = t < std::ssize(encoded.tokens);
      if (config_.text_pair) {
        const auto types = target_row(fields[3], place);
        std::ranges::fill(types, 0);
        std::ranges::copy(encoded.types, types.begin());
      }
      if (config_.kind == LabelKind::Words)
        fill_word_classes(index, target_row(fields[2], place));
      else if (config_.kind == LabelKind::Masked)
        mask_tokens(SampleRandom(request.seed, request.epoch, index), encoded, tokens,
                    target_row(fields[2], place));
      else
        fill_label(index, fields[2].select(0, place));
    }
  }

 private:
  static std::span<int64_t> target_row(const at::Tensor& targets, int64_t place) {
    const auto length = static_cast<size_t>(targets.size(1));
    return std::span(targets.data_ptr<int64_t>(), targets.numel()).subspan(place * length, length);
  }

  const EncodedText& text(int64_t index) const {
    check(index >= 0 && index < size(), "sample index outside the dataset");
    return texts_[static_cast<size_t>(index)];
  }

  Error wrong(const formats::LabeledText& row, const std::string& problem) const {
    return config_error(fmt::format("dataset labeled_text: {}: line {}: {}",
                                    printable(config_.path, 400), row.place, problem));
  }

  void verify_row(const formats::LabeledText& row) const {
    if ((config_.kind == LabelKind::Words) != row.is_words)
      throw wrong(row, row.is_words ? "a list of words needs kind: words"
                                    : "kind: words needs a list of words and one of their labels");
    if (config_.kind == LabelKind::Masked) return;
    const auto count = row.names.size() + row.numbers.size();
    const bool needs_list = config_.kind == LabelKind::Words || config_.kind == LabelKind::Classes;
    if (needs_list && !row.is_list)
      throw wrong(row, fmt::format("kind: {} needs a list as label", name_of(config_.kind)));
    if (config_.kind == LabelKind::Class && row.is_list)
      throw wrong(row, "a list of labels needs kind: classes or kind: words");
    if (config_.kind == LabelKind::Words && count != row.words.size())
      throw wrong(row, fmt::format("{} labels for {} words", count, row.words.size()));
    if (config_.kind != LabelKind::Value) return;
    if (!row.names.empty() || count == 0) throw wrong(row, "kind: value needs numbers as label");
    if (row.is_list != rows_.front().is_list || count != rows_.front().numbers.size())
      throw wrong(row, "it has another number of values than the first sample");
  }

  void find_classes(std::span<const int64_t> training) {
    std::map<std::string, int64_t> found;
    const auto add = [&](const formats::LabeledText& row) {
      for (const auto& name : row.names) found.emplace(name, 0);
      for (const auto number : row.numbers)
        greatest_ = std::max(greatest_, static_cast<int64_t>(std::min(number, kMaxClass)));
    };
    if (config_.kind == LabelKind::Value) return;
    if (training.empty()) std::ranges::for_each(rows_, add);
    for (const auto index : training) add(rows_[static_cast<size_t>(index)]);
    for (const auto& [name, unused] : found) classes_.push_back(name);
  }

  std::vector<FieldLayout> layout_of(int64_t length) const {
    std::vector<FieldLayout> layout = {{"tokens", at::kLong, {length}},
                                       {"attention_mask", at::kBool, {length}}};
    switch (config_.kind) {
      case LabelKind::Class: layout.push_back({"label", at::kLong, {}}); break;
      case LabelKind::Classes: layout.push_back({"label", at::kFloat, {num_classes()}}); break;
      case LabelKind::Value: layout.push_back({"label", at::kFloat, shape_of_value()}); break;
      default: layout.push_back({"targets", at::kLong, {length}});
    }
    if (config_.text_pair) layout.push_back({"token_types", at::kLong, {length}});
    return layout;
  }

  int64_t num_classes() const { return classes_.empty() ? greatest_ + 1 : std::ssize(classes_); }

  std::vector<int64_t> shape_of_value() const {
    if (!rows_.front().is_list) return {};
    return {std::ssize(rows_.front().numbers)};
  }

  void verify_label(const formats::LabeledText& row) const {
    if (config_.kind == LabelKind::Value || config_.kind == LabelKind::Masked) return;
    for (const auto number : classes_of(row))
      if (config_.kind == LabelKind::Classes && number >= num_classes())
        throw wrong(row, fmt::format("class {} is not in the training data", number));
  }

  // The numbers of a sample's classes.
  std::vector<int64_t> classes_of(const formats::LabeledText& row) const {
    std::vector<int64_t> classes;
    for (const auto& name : row.names) {
      const auto found = numbers_.find(name);
      if (found == numbers_.end())
        throw wrong(row,
                    fmt::format("class '{}' is not {}", printable(name),
                                config_.classes.empty() ? "in the training data" : "in classes"));
      classes.push_back(found->second);
    }
    for (const auto number : row.numbers) {
      const auto end =
          config_.classes.empty() ? kMaxClass : static_cast<double>(config_.classes.size()) - 1;
      if (number < 0 || number > end || std::floor(number) != number)
        throw wrong(row, fmt::format("label {} is not the number of a class", number));
      classes.push_back(static_cast<int64_t>(number));
    }
    return classes;
  }

  void fill_label(int64_t index, const at::Tensor& label) const {
    const auto& row = rows_[static_cast<size_t>(index)];
    if (config_.kind == LabelKind::Class) {
      label.fill_(classes_of(row).front());
    } else if (config_.kind == LabelKind::Value) {
      for (size_t i = 0; i < row.numbers.size(); ++i)
        label.data_ptr<float>()[i] = static_cast<float>(row.numbers[i]);
    } else {
      label.zero_();
      for (const auto number : classes_of(row)) label.data_ptr<float>()[number] = 1;
    }
  }

  // The first token of a word has its class.
  void fill_word_classes(int64_t index, std::span<int64_t> targets) const {
    std::ranges::fill(targets, kNotATarget);
    const auto classes = classes_of(rows_[static_cast<size_t>(index)]);
    const auto& words = text(index).words;
    for (size_t t = 0; t < words.size(); ++t)
      if (words[t] >= 0) targets[t] = classes[static_cast<size_t>(words[t])];
  }

  void mask_tokens(SampleRandom random, const EncodedText& encoded, int64_t* tokens,
                   std::span<int64_t> targets) const {
    std::ranges::fill(targets, kNotATarget);
    for (size_t t = 0; t < encoded.tokens.size(); ++t) {
      const bool is_special = encoder_.is_special(encoded.tokens[t]);
      if (is_special || random.uniform() >= config_.mask_share) continue;
      targets[t] = encoded.tokens[t];
      const auto choice = random.uniform();
      if (choice < 0.8)
        tokens[t] = encoder_.mask();
      else if (choice < 0.9)
        tokens[t] = random.below(static_cast<uint32_t>(encoder_.vocabulary()));
    }
  }

  LabeledTextConfig config_;
  TextEncoder encoder_;
  int64_t padding_;
  std::vector<formats::LabeledText> rows_;
  std::vector<EncodedText> texts_;
  std::vector<std::string> classes_;        // names; empty: labels are numbers
  std::map<std::string, int64_t> numbers_;  // of the classes
  int64_t greatest_ = 0;                    // number of a class in the training data
};

REGISTER_DATASET("labeled_text", LabeledTextDataset, "texts with labels, or masked, for encoders");

}  // namespace
}  // namespace lockstep::data
