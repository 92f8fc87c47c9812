// Dataset "tokens": windows of a text tokenized by `lockstep-data tokenize` (or llm.c, or nanoGPT).
// The files are mapped, so they may be larger than memory; those of a store are opened when their first
// sample is needed, unless documents have to be found. Fields: "tokens" int64 [B, T] and
// "targets" int64 [B, T], shifted by one; shorter documents are padded with the separator, and
// their targets with -100, which losses ignore; T is `length`, or the longest sample of the batch.
// With `pack`, a sample holds several documents, which "documents" int64 [B, T] numbers.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/printable.h"
#include "data/batch_memory.h"
#include "data/block_cache.h"
#include "data/packing.h"
#include "data/padded_to.h"
#include "data/row_prefetch.h"
#include "data/sample_runs.h"
#include "data/shard_error.h"
#include "data/target_bytes.h"
#include "data/unchanged_files.h"
#include "formats/path_list.h"
#include "formats/tokens/token_windows.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kNoTarget = -100;
// Maximum number of mapped files kept open: below the limit of a process.
constexpr int64_t kMaxTokenFiles = 256;

enum class TokenDtype { UInt16, UInt32 };
constexpr auto choices(TokenDtype) { return std::array{"uint16", "uint32"}; }

struct TokensConfig {
  std::string path;
  int64_t length = 256;
  std::optional<int64_t> separator;
  PaddedTo pad_to = PaddedTo::Length;
  bool pack = false;
  std::optional<std::string> tokenizer;
  std::optional<int64_t> vocab_size;
  TokenDtype dtype = TokenDtype::UInt16;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, TokensConfig& c) {
  v("path", c.path, "a file of tokens, or a folder of *.bin files", required());
  v("length", c.length, "tokens per sample", at_least(1), at_most(1 << 24));
  v("separator", c.separator,
    "the token that ends a document: each sample is then one document; without it, windows cross "
    "document boundaries",
    at_least(0));
  v("pad_to", c.pad_to,
    "length to which shorter documents are padded: length, or the longest sample of the batch");
  v("pack", c.pack,
    "whether a sample holds several documents, each with its own positions and attention",
    needs("separator"));
  v("tokenizer", c.tokenizer,
    "the tokenizer.json that the text was tokenized with, or a directory with one: for the metric "
    "bits_per_byte");
  v("vocab_size", c.vocab_size, "tokens must be below this; default: the vocabulary of tokenizer",
    at_least(1));
  v("dtype", c.dtype, "type of the tokens in files without a header");
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

formats::ElementType element_type_of(TokenDtype dtype) {
  return dtype == TokenDtype::UInt16 ? formats::ElementType::U16 : formats::ElementType::U32;
}

class TokensDataset final : public Dataset {
 public:
  using Config = TokensConfig;

  explicit TokensDataset(const Config& config)
      : config_(config),
        files_(formats::token_files(config.path)),
        unchanged_(files_.size()),
        windows_(static_cast<size_t>(config.length), config.separator),
        shards_([this](size_t number, SharedWork&) { return open(number); }) {
    if (config.tokenizer) {
      tokenizer_ = formats::read_tokenizer(*config.tokenizer);
      if (!config.vocab_size)
        config_.vocab_size = static_cast<int64_t>(tokenizer_->vocabulary_size());
    }
    add_files();
    max_open_ = formats::max_open_files(files_, kMaxTokenFiles);
    size_ = static_cast<int64_t>(windows_.size());
    const auto refused = [&](const std::string& why) {
      return config_error(fmt::format("dataset tokens: {}: {}", printable(config.path, 400), why));
    };
    if (pads_to_longest() && !config.separator)
      throw refused(
          "pad_to: longest has no effect without separator: all samples have the same length");
    if (pads_to_longest() && config.pack)
      throw refused("pad_to: longest has no effect with pack: all samples have the same length");
    if (config.pack) pack_windows();
    if (size_ == 0)
      throw refused(
          fmt::format("no file has the {} tokens that a sample needs", config.length + 1));
    if (config.limit && *config.limit > size_)
      throw refused(
          fmt::format("limit {} is larger than the number of samples, {}", *config.limit, size_));
    size_ = config.limit.value_or(size_);
    if (!config.pack) ends_.assign(windows_.ends().begin(), windows_.ends().end());
    for (auto& end : ends_) end = std::min(end, size_);
  }

  int64_t size() const override { return size_; }
  SampleInfo sample_info() const override {
    SampleInfo info{.shards = files_.size() > 1 ? ends_ : std::vector<int64_t>(),
                    .lengths = [this] { return lengths(); }};
    if (!is_lazy_) return info;
    info.fetch_ahead = [this](const auto& shards) { formats::fetch_ahead(files_, shards); };
    info.labels = [this] { return open_all(); };
    return info;
  }

  std::vector<FieldLayout> layout() const override {
    if (pads_to_longest()) return {};
    auto fields = layout_of(config_.length);
    if (config_.pack) fields.push_back({"documents", at::kLong, {config_.length}});
    return fields;
  }

  std::optional<int64_t> count_target_bytes(const Batch& batch) const override {
    if (!tokenizer_) return std::nullopt;
    return data::count_target_bytes(*tokenizer_, batch);
  }

  Batch get_batch(std::span<const int64_t> indices) const override {
    if (!pads_to_longest()) return Dataset::get_batch(indices);
    size_t longest = 1;
    for (const auto index : indices) longest = std::max(longest, windows_of(index)[0].tokens - 1);
    return gather(*this, {.indices = indices}, layout_of(static_cast<int64_t>(longest)));
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    const auto length = fields[0].size(1);
    for (const auto index : request.indices) windows_of(index);  // verifies it
    for_each_shard(ends_, request.indices, [&](size_t number, auto rows, auto places) {
      const auto first = number == 0 ? 0 : ends_[number - 1];
      shards_.use(number, max_open_, [&](const formats::TokenShard& shard) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto place = [&](const at::Tensor& field) {
            return std::span(field.data_ptr<int64_t>() + places[i] * length,
                             static_cast<size_t>(length));
          };
          if (i + kRowsAhead < rows.size()) {
            for (const auto& next : windows_of(first + rows[i + kRowsAhead])) {
              const auto bytes = shard.bytes_at(next.begin, next.tokens);
              prefetch_bytes(bytes.data(), bytes.size());
            }
          }
          const auto windows = windows_of(first + rows[i]);
          copy_all(shard, windows, place(fields[0]), place(fields[1]));
          if (config_.pack) write_document_numbers(lengths_of(windows), place(fields[2]));
        }
        shard.verify_unchanged();
      });
    });
  }

 private:
  std::vector<double> lengths() const {
    std::vector<double> lengths;
    if (config_.pack) return lengths;
    lengths.reserve(static_cast<size_t>(size_));
    for (int64_t i = 0; i < size_; ++i)
      lengths.push_back(static_cast<double>(windows_.at(static_cast<size_t>(i)).tokens - 1));
    return lengths;
  }

  static std::vector<int64_t> lengths_of(const std::vector<formats::TokenWindow>& windows) {
    std::vector<int64_t> lengths;
    for (const auto& window : windows) lengths.push_back(static_cast<int64_t>(window.tokens) - 1);
    return lengths;
  }

  // Packs the documents of each file, which remains a unit of reading.
  void pack_windows() {
    size_ = 0;
    size_t begin = 0;
    for (const auto end : windows_.ends()) {
      std::vector<formats::TokenWindow> windows;
      for (auto i = begin; i < end; ++i) windows.push_back(windows_.at(i));
      packed_.emplace_back(lengths_of(windows), config_.length);
      size_ += static_cast<int64_t>(packed_.back().size());
      ends_.push_back(size_);
      begin = end;
    }
  }

  static std::vector<FieldLayout> layout_of(int64_t length) {
    return {{"tokens", at::kLong, {length}}, {"targets", at::kLong, {length}}};
  }

  bool pads_to_longest() const { return config_.pad_to == PaddedTo::Longest; }

  std::vector<formats::TokenWindow> windows_of(int64_t index) const {
    check(index >= 0 && index < size_, "sample index outside the dataset");
    if (!config_.pack) return {windows_.at(static_cast<size_t>(index))};
    const auto file = static_cast<size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const auto first_sample = file == 0 ? 0 : ends_[file - 1];
    const auto first_window = file == 0 ? 0 : windows_.ends()[file - 1];
    std::vector<formats::TokenWindow> windows;
    for (const auto item : packed_[file].at(static_cast<size_t>(index - first_sample)))
      windows.push_back(windows_.at(first_window + static_cast<size_t>(item)));
    return windows;
  }

  // A file of a store is not opened if its size gives its number of samples: if it has the form of the
  // first.
  void add_files() {
    const bool are_stored = formats::has_scheme(files_[0]) && !config_.separator;
    if (are_stored)
      formats::pin_versions(files_);
    else
      formats::fetch_ahead(files_);
    std::optional<formats::TokenLayout> form;
    for (size_t number = 0; number < files_.size(); ++number) {
      if (form && are_stored) {
        const auto bytes = formats::stored_bytes(files_[number]);
        if (const auto layout = formats::layout_like(*form, bytes)) {
          is_lazy_ = true;
          windows_.add(layout->tokens);
          tokens_.push_back(layout->tokens);
          continue;
        }
      }
      const auto shard = open_first(number);
      windows_.add(shard);
      tokens_.push_back(shard.size());
      if (!form) form = shard.layout();
    }
  }

  formats::TokenShard open_first(size_t number) const {
    return unchanged_.open(number, files_[number], [&] {
      return formats::TokenShard(files_[number], element_type_of(config_.dtype));
    });
  }

  formats::TokenShard open(size_t number) const {
    try {
      auto shard = open_first(number);
      if (shard.size() == tokens_[number]) return shard;
      throw config_error(fmt::format(
          "{}: it has {} tokens, but its size is that of {}: the files of a folder need the same "
          "dtype, and all of them a header, or none",
          shard.name(), shard.size(), tokens_[number]));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) throw;
      throw ShardError(error.what());
    }
  }

  // Tokens have no labels: an order that needs all shards waits for them here.
  std::vector<double> open_all() const {
    formats::fetch_ahead(files_);
    for (size_t number = 0; number < files_.size(); ++number) open(number);
    return {};
  }

  // One window after another, then padding.
  void copy_all(const formats::TokenShard& shard, const std::vector<formats::TokenWindow>& windows,
                std::span<int64_t> tokens, std::span<int64_t> targets) const {
    for (const auto& window : windows) {
      copy(shard, window, tokens, targets);
      tokens = tokens.subspan(window.tokens - 1);
      targets = targets.subspan(window.tokens - 1);
    }
    std::ranges::fill(tokens, config_.separator.value_or(0));
    std::ranges::fill(targets, kNoTarget);
  }

  void copy(const formats::TokenShard& shard, const formats::TokenWindow& window,
            std::span<int64_t> tokens, std::span<int64_t> targets) const {
    const auto count = window.tokens - 1;
    shard.copy(window.begin, tokens.first(count));
    std::copy_n(tokens.begin() + 1, count - 1, targets.begin());
    shard.copy(window.begin + count, targets.subspan(count - 1, 1));
    verify_vocabulary(shard, window, tokens.first(count), targets[count - 1]);
  }

  void verify_vocabulary(const formats::TokenShard& shard, const formats::TokenWindow& window,
                         std::span<const int64_t> tokens, int64_t last) const {
    if (!config_.vocab_size) return;
    const auto greatest = std::max(std::ranges::max(tokens), last);
    if (greatest < *config_.vocab_size) return;
    shard.verify_unchanged();
    throw config_error(fmt::format(
        "{}: token {} among the tokens {} to {} is outside the vocabulary of {}; was it "
        "created with another tokenizer?",
        shard.name(), greatest, window.begin, window.begin + window.tokens - 1,
        *config_.vocab_size));
  }

  TokensConfig config_;
  std::vector<std::filesystem::path> files_;
  bool is_lazy_ = false;
  std::vector<size_t> tokens_;  // of each file
  UnchangedFiles unchanged_;
  std::optional<formats::Tokenizer> tokenizer_;
  formats::TokenWindows windows_;
  std::vector<PackedWindows> packed_;  // of each file, with `pack`
  int64_t size_ = 0, max_open_ = 0;
  std::vector<int64_t> ends_;  // of the files' samples
  mutable BlockCache<formats::TokenShard> shards_;
};

REGISTER_DATASET("tokens", TokensDataset, "windows of tokenized text, for language models");

}  // namespace
}  // namespace lockstep::data
