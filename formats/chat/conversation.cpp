#include "formats/chat/conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/printable.h"
#include "formats/table/json_lines.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormats =
    "valid are messages, conversations, prompt and completion, instruction and output, or text";
constexpr std::array<std::pair<std::string_view, const char*>, 7> kSpeakers = {{
    {"human", "user"},
    {"user", "user"},
    {"gpt", "assistant"},
    {"chatgpt", "assistant"},
    {"assistant", "assistant"},
    {"model", "assistant"},
    {"system", "system"},
}};

const Json* member_of(const Json& map, const char* key) {
  const auto found = map.find(key);
  return found == map.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const Json& map, const char* key) {
  const auto* value = member_of(map, key);
  if (!value) throw config_error(fmt::format("'{}' is missing", key));
  if (!value->is_string())
    throw config_error(fmt::format("'{}' is {}, expected a text", key, value->type_name()));
  return value->get<std::string>();
}

Json message(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

void verify_messages(const Json& messages, const char* key) {
  if (!messages.is_array() || messages.empty())
    throw config_error(fmt::format("'{}' is not a list of messages", key));
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto* role = messages[i].is_object() ? member_of(messages[i], "role") : nullptr;
    if (!role || !role->is_string())
      throw config_error(fmt::format("'{}[{}]' is not a message with a 'role'", key, i));
  }
}

Json shared_messages(const Json& record, const Json& turns) {
  if (!turns.is_array() || turns.empty())
    throw config_error("'conversations' is not a list of messages");
  auto messages = Json::array();
  if (member_of(record, "system")) messages.push_back(message("system", text_at(record, "system")));
  for (const auto& turn : turns) {
    if (!turn.is_object())
      throw config_error("'conversations' is not a list of objects with 'from' and 'value'");
    const auto from = text_at(turn, "from");
    const auto speaker =
        std::ranges::find_if(kSpeakers, [&](const auto& one) { return one.first == from; });
    if (speaker == kSpeakers.end())
      throw config_error(fmt::format(
          "'from' is '{}'; valid are human, gpt, system, user, assistant, model and chatgpt",
          printable(from)));
    messages.push_back(message(speaker->second, text_at(turn, "value")));
  }
  return messages;
}

Conversation completed(const Json& prompt, const Json& completion) {
  Conversation conversation;
  if (prompt.is_string() && completion.is_string()) {
    conversation.messages = {message("user", prompt.get<std::string>()),
                             message("assistant", completion.get<std::string>())};
    return conversation;
  }
  verify_messages(prompt, "prompt");
  verify_messages(completion, "completion");
  conversation.first_answer = prompt.size();
  conversation.messages = prompt;
  for (const auto& one : completion) conversation.messages.push_back(one);
  return conversation;
}

Json instruction(const Json& record) {
  auto question = text_at(record, "instruction");
  if (member_of(record, "input") && !text_at(record, "input").empty())
    question += "\n\n" + text_at(record, "input");
  auto messages = Json::array();
  if (member_of(record, "system")) messages.push_back(message("system", text_at(record, "system")));
  messages.push_back(message("user", question));
  messages.push_back(message("assistant", text_at(record, "output")));
  return messages;
}

// Null: none. Datasets whose columns have one type store the list as its JSON.
Json tools_of(const Json& record) {
  const auto* given = member_of(record, "tools");
  if (!given) return {};
  auto tools = *given;
  if (given->is_string()) {
    const auto& text = given->get_ref<const std::string&>();
    if (text.find_first_not_of(" \t\r\n") == text.npos) return {};
    tools = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  if (!tools.is_array() && !tools.is_null())
    throw config_error("'tools' is neither a list nor the JSON of a list");
  return tools;
}

std::string keys_of(const Json& record) {
  std::string keys;
  for (const auto& [key, value] : record.items()) keys += (keys.empty() ? "" : ", ") + key;
  return keys.empty() ? "nothing" : printable(keys, 100);
}

}  // namespace

bool is_answer(const nlohmann::ordered_json& message) { return message.at("role") == "assistant"; }

nlohmann::ordered_json parse_record(std::string_view line) {
  auto record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (record.is_discarded() && find_invalid_utf8(line) != line.npos) throw config_error(kNotUtf8);
  if (record.is_discarded())
    throw config_error(begins_json_document(line) ? kNotJsonLines : "not valid JSON");
  if (!record.is_object())
    throw config_error(fmt::format("expected a JSON object, got {}", record.type_name()));
  return record;
}

Conversation parse_conversation(std::string_view line) {
  const auto record = parse_record(line);
  Conversation conversation;
  if (const auto* messages = member_of(record, "messages")) {
    verify_messages(*messages, "messages");
    conversation.messages = *messages;
  } else if (const auto* turns = member_of(record, "conversations")) {
    conversation.messages = shared_messages(record, *turns);
  } else if (member_of(record, "prompt") && member_of(record, "completion")) {
    conversation = completed(record["prompt"], record["completion"]);
  } else if (member_of(record, "instruction")) {
    conversation.messages = instruction(record);
  } else if (member_of(record, "text")) {
    conversation.text = text_at(record, "text");
  } else {
    throw config_error(
        fmt::format("the record has no conversation: it has {}; {}", keys_of(record), kFormats));
  }
  if (!conversation.is_text()) conversation.tools = tools_of(record);
  return conversation;
}

}  // namespace lockstep::formats
