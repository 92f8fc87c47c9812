#include "formats/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/models/model.h"
#include "formats/tokenizer/steps/decoder.h"
#include "formats/tokenizer/steps/normalizer.h"
#include "formats/tokenizer/steps/post_processor.h"
#include "formats/tokenizer/steps/pre_tokenizer.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

nlohmann::json parsed_tokenizer(std::string_view text, const std::string& name) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw JsonPart(json, name).refused("it is not a JSON object");
  return json;
}

EncodedText untyped(std::vector<int32_t> ids, int32_t type) {
  const auto count = ids.size();
  return {std::move(ids), std::vector<int32_t>(count, type)};
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const JsonPart& json)
      : normalizer(make_normalizer(json.part("normalizer"))),
        pre_tokenizer(make_pre_tokenizer(json.part("pre_tokenizer"))),
        model(make_model(json.part("model"))),
        post_processor(make_post_processor(json.part("post_processor"))),
        decoder(make_decoder(json.part("decoder"))),
        added(json, model->vocabulary(), normalizer.get()) {}

  // `is_start`: whether the whole text begins with `text`.
  void encode_part(std::string_view text, bool is_start, std::vector<int32_t>& out) const {
    if (!normalizer) return encode_normalized(text, is_start, out);
    NormalText normal{std::string(text), is_start};
    normalizer->apply(normal);
    encode_normalized(normal.text, normal.from_start, out);
  }

  void encode_normalized(std::string_view text, bool is_start, std::vector<int32_t>& out) const {
    const auto use = [&](const Piece& piece) { model->encode(piece.text, out); };
    added.split(
        text, /*normalized=*/true, [&](int32_t id) { out.push_back(id); },
        [&](size_t begin, size_t end) {
          const Piece piece{text.substr(begin, end - begin), is_start && begin == 0};
          if (pre_tokenizer)
            pre_tokenizer->split(piece, use);
          else
            use(piece);
        });
  }

  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<TokenDecoder> decoder;
  AddedTokens added;
};

Tokenizer::Tokenizer(std::string_view json, const std::string& name) {
  const auto root = parsed_tokenizer(json, name);
  parts_ = std::make_unique<const Parts>(JsonPart(root, name));
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  if (const auto at = find_invalid_utf8(text); at != text.npos)
    throw config_error(fmt::format("the text is not UTF-8: byte {} is invalid", at));
  parts_->added.split(
      text, /*normalized=*/false, [&](int32_t id) { out.push_back(id); },
      [&](size_t begin, size_t end) {
        parts_->encode_part(text.substr(begin, end - begin), begin == 0, out);
      });
}

EncodedText Tokenizer::encode_for_model(std::string_view text) const {
  std::vector<int32_t> ids;
  encode(text, ids);
  return finish({untyped(std::move(ids), 0)});
}

EncodedText Tokenizer::encode_for_model(std::string_view first, std::string_view second) const {
  std::vector<int32_t> first_ids, second_ids;
  encode(first, first_ids);
  encode(second, second_ids);
  return finish({untyped(std::move(first_ids), 0), untyped(std::move(second_ids), 1)});
}

EncodedText Tokenizer::finish(std::vector<EncodedText> texts) const {
  if (parts_->post_processor) parts_->post_processor->apply(texts);
  EncodedText whole;
  for (const auto& text : texts) {
    whole.ids.insert(whole.ids.end(), text.ids.begin(), text.ids.end());
    whole.type_ids.insert(whole.type_ids.end(), text.type_ids.begin(), text.type_ids.end());
  }
  return whole;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  return decoded(ids, skip_special, /*keeps_bytes=*/false);
}

std::string Tokenizer::decode_bytes(std::span<const int32_t> ids) const {
  return decoded(ids, /*skip_special=*/true, /*keeps_bytes=*/true);
}

std::string Tokenizer::decoded(std::span<const int32_t> ids, bool skip_special,
                               bool keeps_bytes) const {
  std::vector<std::string> parts;
  for (const auto id : ids) {
    const auto* added = parts_->added.find(id);
    const auto* token = added ? &added->content : parts_->model->vocabulary().find(id);
    if (!token) continue;
    if (skip_special) {  // by spelling: several ids may have it
      const auto* named = parts_->added.find(*token);
      if (named && named->special) continue;
    }
    parts.push_back(added ? added->decoded : *token);
  }
  if (parts_->decoder) parts_->decoder->apply(parts, keeps_bytes);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && !parts_->decoder) text += ' ';
    text += parts[i];
  }
  return text;
}

size_t Tokenizer::vocabulary_size() const {
  return std::max(parts_->model->vocabulary().end(), parts_->added.end());
}

std::optional<int32_t> Tokenizer::find(const std::string& token) const {
  if (const auto* added = parts_->added.find(token)) return added->id;
  const auto id = parts_->model->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto* added = parts_->added.find(id);
  return added && added->special;
}

std::vector<std::string> Tokenizer::special_tokens() const {
  std::vector<std::string> names;
  for (size_t id = 0; id < parts_->added.end(); ++id)
    if (is_special(static_cast<int32_t>(id)))
      names.push_back(parts_->added.find(static_cast<int32_t>(id))->content);
  return names;
}

std::filesystem::path tokenizer_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto file = std::filesystem::is_directory(path, ignored) ? path / kTokenizerFile : path;
  if (!std::filesystem::exists(file, ignored))
    throw config_error(fmt::format("{}: no such file; expected the {} of a model",
                                   printable(file.string(), 400), kTokenizerFile));
  return file;
}

Tokenizer read_tokenizer(const std::filesystem::path& path) {
  const auto file = tokenizer_file(path);
  return Tokenizer(read_file(file, kMaxTokenizerBytes), printable(file.string(), 400));
}

}  // namespace lockstep::formats
