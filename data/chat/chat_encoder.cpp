#include "data/chat/chat_encoder.h"

#include <fmt/format.h>

#include <optional>
#include <span>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxCharacterTokens = 8;

// The number of bytes that `tokens` stand for at the start of `text`, if they do. A tokenizer may add
// a space in front of text, or decode the first token of a text without its space.
std::optional<size_t> bytes_at(std::string_view text, std::string_view decoded) {
  if (text.starts_with(decoded)) return decoded.size();
  if (decoded.starts_with(' ') && text.starts_with(decoded.substr(1))) return decoded.size() - 1;
  if (text.starts_with(' ') && text.substr(1).starts_with(decoded)) return decoded.size() + 1;
  return std::nullopt;
}

// Marks the tokens that have bytes of the answers. The tokens of one character are taken together.
void mark_answers(const formats::ChatText& chat, const formats::Tokenizer& tokenizer,
                  EncodedChat& encoded) {
  const std::span<const int32_t> tokens = encoded.tokens;
  auto answer = chat.answers.begin();
  size_t at = 0;
  for (size_t begin = 0; begin < tokens.size();) {
    std::optional<size_t> bytes;
    size_t count = 0;
    while (!bytes && count < kMaxCharacterTokens && begin + count < tokens.size()) {
      ++count;
      bytes = bytes_at(std::string_view(chat.text).substr(at),
                       tokenizer.decode(tokens.subspan(begin, count), false));
    }
    if (!bytes)
      throw config_error(
          "the tokens do not have the text of the conversation: this tokenizer changes text, so "
          "that the tokens of answers are unknown");
    while (answer != chat.answers.end() && (answer->end <= at || answer->begin == answer->end))
      ++answer;
    const bool is_answer = answer != chat.answers.end() && answer->begin < at + *bytes;
    encoded.answers.insert(encoded.answers.end(), count, is_answer);
    begin += count;
    at += *bytes;
  }
}

}  // namespace

ChatEncoder::ChatEncoder(const std::filesystem::path& directory,
                         formats::ChatTemplateOptions options)
    : template_(directory, std::move(options)), tokenizer_(formats::read_tokenizer(directory)) {}

EncodedChat ChatEncoder::encode(const formats::Conversation& conversation) {
  const auto chat = template_.render(conversation);
  EncodedChat encoded;
  tokenizer_.encode(chat.text, encoded.tokens);
  mark_answers(chat, tokenizer_, encoded);
  const auto eos = tokenizer_.find(template_.token("eos_token"));
  if (conversation.is_text() && eos && !encoded.tokens.empty() && encoded.tokens.back() != *eos) {
    encoded.tokens.push_back(*eos);
    encoded.answers.push_back(true);
  }
  return encoded;
}

EncodedChat ChatEncoder::encode_answer(const std::string& prompt, const std::string& answer) {
  EncodedChat encoded;
  tokenizer_.encode(prompt, encoded.tokens);
  encoded.answers.assign(encoded.tokens.size(), false);
  tokenizer_.encode(answer, encoded.tokens);
  if (const auto eos = tokenizer_.find(template_.token("eos_token")))
    encoded.tokens.push_back(*eos);
  encoded.answers.resize(encoded.tokens.size(), true);
  return encoded;
}

int32_t ChatEncoder::padding() const {
  for (const auto* name : {"pad_token", "eos_token"})
    if (const auto found = tokenizer_.find(template_.token(name))) return *found;
  return 0;
}

std::optional<std::tm> parse_date(const std::optional<std::string>& text, const char* dataset) {
  if (!text) return std::nullopt;
  std::tm date = {};
  const auto* end = strptime(text->c_str(), "%Y-%m-%d", &date);
  if (!end || *end != '\0')
    throw config_error(
        fmt::format("dataset {}: date is '{}', expected YYYY-MM-DD", dataset, printable(*text)));
  return date;
}

}  // namespace lockstep::data
