#include "trainer/generation/text_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSettingsBytes = 16u << 20;
constexpr int64_t kEndOfBytes = 256;
constexpr const char* kEndOfText = "<|endoftext|>";

formats::Tokenizer read_tokenizer_of(const std::string& path, const std::string& option) {
  std::error_code error;
  const auto file =
      fs::is_directory(path, error) ? fs::path(path) / formats::kTokenizerFile : fs::path(path);
  if (!fs::exists(file, error))
    throw config_error(fmt::format(
        "{}: {} does not exist; expected a tokenizer.json, a directory with one, or bytes", option,
        printable(file.string(), 400)));
  return formats::read_tokenizer(file);
}

// An empty object if there is no such file.
nlohmann::json settings_in(const fs::path& directory, const char* name) {
  std::error_code error;
  const auto file = directory / name;
  if (directory.empty() || !fs::is_regular_file(file, error)) return nlohmann::json::object();
  auto json = nlohmann::json::parse(read_file(file, kMaxSettingsBytes), nullptr,
                                    /*allow_exceptions=*/false);
  if (!json.is_object())
    throw config_error(fmt::format("{}: not a JSON object", printable(file.string(), 400)));
  return json;
}

// A number, or a list of numbers; anything else is none.
std::vector<int64_t> numbers_in(const nlohmann::json& settings, const char* key) {
  std::vector<int64_t> numbers;
  const auto found = settings.find(key);
  if (found == settings.end()) return numbers;
  const auto all = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const auto& number : all)
    if (number.is_number_integer()) numbers.push_back(number.get<int64_t>());
  return numbers;
}

// "</s>", or {"content": "</s>"}.
std::string token_in(const nlohmann::json& settings, const char* key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  return found->is_object() && content != found->end() && content->is_string()
             ? content->get<std::string>()
             : "";
}

}  // namespace

namespace {

// What the post-processor of tokenizer.json puts in front of a text.
std::vector<int32_t> tokens_in_front(const formats::Tokenizer& tokenizer) {
  constexpr const char* kText = "a";
  std::vector<int32_t> text;
  tokenizer.encode(kText, text);
  auto whole = tokenizer.encode_for_model(kText).ids;
  whole.resize(static_cast<size_t>(std::ranges::search(whole, text).begin() - whole.begin()));
  return whole;
}

std::vector<int32_t> beginning_of_prompts(const formats::Tokenizer& tokenizer,
                                          const fs::path& directory) {
  const auto settings = settings_in(directory, "tokenizer_config.json");
  const auto adds = settings.find("add_bos_token");
  if (adds == settings.end() || !adds->is_boolean()) return tokens_in_front(tokenizer);
  const auto token = tokenizer.find(token_in(settings, "bos_token"));
  return adds->get<bool>() && token ? std::vector<int32_t>{*token} : std::vector<int32_t>{};
}

}  // namespace

TextCodec::TextCodec(const std::string& tokenizer, const std::string& option) {
  if (tokenizer == "bytes") return;
  tokenizer_.emplace(read_tokenizer_of(tokenizer, option));
  std::error_code error;
  const fs::path path = tokenizer;
  beginning_ =
      beginning_of_prompts(*tokenizer_, fs::is_directory(path, error) ? path : path.parent_path());
}

std::vector<int32_t> TextCodec::narrow_tokens(const std::string& text) {
  std::vector<int32_t> tokens;
  if (tokenizer_)
    tokenizer_->encode(text, tokens);
  else
    for (const auto byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

std::vector<int64_t> TextCodec::encode_chat(const std::string& text) {
  const auto tokens = narrow_tokens(text);
  return {tokens.begin(), tokens.end()};
}

std::vector<int64_t> TextCodec::encode(const std::string& text) {
  auto narrow = narrow_tokens(text);
  const bool has_beginning = narrow.size() >= beginning_.size() &&
                             std::equal(beginning_.begin(), beginning_.end(), narrow.begin());
  if (!has_beginning) narrow.insert(narrow.begin(), beginning_.begin(), beginning_.end());
  return {narrow.begin(), narrow.end()};
}

std::string TextCodec::decode(const std::vector<int64_t>& tokens) const {
  if (tokenizer_)
    return tokenizer_->decode(std::vector<int32_t>(tokens.begin(), tokens.end()),
                              /*skip_special=*/false);
  std::string text;
  for (const auto token : tokens)
    if (token >= 0 && token < kEndOfBytes) text += static_cast<char>(token);
  return text;
}

std::optional<int64_t> TextCodec::find(const std::string& token) const {
  const auto found = tokenizer_ ? tokenizer_->find(token) : std::nullopt;
  return found ? std::optional<int64_t>(*found) : std::nullopt;
}

std::optional<int64_t> TextCodec::separator() const {
  return tokenizer_ ? find(kEndOfText) : std::optional(kEndOfBytes);
}

std::optional<std::string> tokenizer_of(const fs::path& model_directory) {
  std::error_code error;
  const auto file = model_directory / formats::kTokenizerFile;
  if (model_directory.empty() || !fs::exists(file, error)) return std::nullopt;
  return file.string();
}

std::vector<int64_t> end_tokens_of(const fs::path& model_directory, const TextCodec* codec) {
  for (const auto* file : {"generation_config.json", "config.json"})
    if (auto numbers = numbers_in(settings_in(model_directory, file), "eos_token_id");
        !numbers.empty())
      return numbers;
  if (!codec) return {};
  const auto token = token_in(settings_in(model_directory, "tokenizer_config.json"), "eos_token");
  auto end = token.empty() ? std::nullopt : codec->find(token);
  if (!end) end = codec->separator();
  return end ? std::vector<int64_t>{*end} : std::vector<int64_t>{};
}

}  // namespace lockstep::trainer
