#include "trainer/generation/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

formats::Conversation conversation_of(std::string_view line, const std::string& where) {
  try {
    auto conversation = formats::parse_conversation(line);
    if (conversation.is_text()) throw config_error("its \"messages\" are not a list");
    if (formats::is_answer(conversation.messages.back()))
      throw config_error("the last message is an answer already");
    return conversation;
  } catch (const Error& error) {
    throw config_error(fmt::format("{}: {}", where, error.what()));
  }
}

GivenPrompt prompt_of(std::string_view line, const std::string& where) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto refuse = [&](const char* problem) {
    throw config_error(
        fmt::format("{}: {}; expected an object with \"prompt\", a string, \"tokens\", a list "
                    "of integers, or \"messages\", those of a conversation",
                    where, problem));
  };
  if (!json.is_object()) refuse("not a JSON object");
  const auto text = json.find("prompt"), tokens = json.find("tokens");
  const auto keys = json.count("prompt") + json.count("tokens") + json.count("messages");
  if (keys != 1) refuse("it needs one of these keys");
  if (json.contains("messages")) return {.where = where, .chat = conversation_of(line, where)};
  if (text != json.end()) {
    if (!text->is_string()) refuse("its \"prompt\" is not a string");
    return {.where = where, .text = text->get<std::string>()};
  }
  const auto is_token = [](const auto& number) {
    return number.is_number_unsigned() && number.template get<uint64_t>() <= INT32_MAX;
  };
  if (!tokens->is_array() || !std::all_of(tokens->begin(), tokens->end(), is_token))
    refuse("its \"tokens\" are not a list of integers from 0");
  return {.where = where, .tokens = tokens->get<std::vector<int64_t>>()};
}

}  // namespace

std::vector<GivenPrompt> parse_prompts(std::string_view text, bool is_json,
                                       const std::string& name) {
  std::vector<GivenPrompt> prompts;
  for (int64_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const auto where = fmt::format("{}:{}", name, number);
    if (find_invalid_utf8(line) != line.npos)
      throw config_error(fmt::format("{}: the line is not valid UTF-8", where));
    prompts.push_back(is_json ? prompt_of(line, where)
                              : GivenPrompt{.where = where, .text = std::string(line)});
  }
  if (prompts.empty()) throw config_error(fmt::format("{}: there is no prompt", name));
  return prompts;
}

void make_conversation(GivenPrompt& prompt) {
  if (prompt.tokens || prompt.chat) return;
  const nlohmann::ordered_json message = {{"role", "user"}, {"content", prompt.text}};
  prompt.chat = {.messages = nlohmann::ordered_json::array({message})};
}

}  // namespace lockstep::trainer
