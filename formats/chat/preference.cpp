#include "formats/chat/preference.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using PreferenceJson = nlohmann::ordered_json;

const PreferenceJson& answer_of(const PreferenceJson& record, const char* key) {
  const auto found = record.find(key);
  if (found == record.end() || found->is_null())
    throw config_error(
        fmt::format("'{}' is missing; a preference has prompt, chosen and rejected", key));
  return *found;
}

Conversation conversation_of(const PreferenceJson& record, const PreferenceJson& prompt,
                             const PreferenceJson& answer) {
  PreferenceJson completed = {{"prompt", prompt}, {"completion", answer}};
  if (record.contains("tools")) completed["tools"] = record["tools"];
  return parse_conversation(completed.dump());
}

// The messages that both conversations begin with.
PreferenceJson shared_prompt(const PreferenceJson& chosen, const PreferenceJson& rejected) {
  auto prompt = PreferenceJson::array();
  for (size_t i = 0; i < chosen.size() && i < rejected.size() && chosen[i] == rejected[i]; ++i)
    prompt.push_back(chosen[i]);
  return prompt;
}

PreferenceJson rest_of(const PreferenceJson& messages, size_t begin) {
  auto rest = PreferenceJson::array();
  for (size_t i = begin; i < messages.size(); ++i) rest.push_back(messages[i]);
  return rest;
}

}  // namespace

Preference parse_preference(std::string_view line) {
  const auto record = parse_record(line);
  const auto& chosen = answer_of(record, "chosen");
  const auto& rejected = answer_of(record, "rejected");
  if (chosen == rejected) throw config_error("'chosen' and 'rejected' are equal");
  const auto prompt = record.find("prompt");
  const bool has_prompt = prompt != record.end() && !prompt->is_null();
  if (chosen.is_array() && rejected.is_array()) {
    if (has_prompt)
      return {"", conversation_of(record, *prompt, chosen),
              conversation_of(record, *prompt, rejected)};
    const auto shared = shared_prompt(chosen, rejected);
    return {"", conversation_of(record, shared, rest_of(chosen, shared.size())),
            conversation_of(record, shared, rest_of(rejected, shared.size()))};
  }
  if (!has_prompt) throw config_error("'prompt' is missing");
  if (!prompt->is_string() || !chosen.is_string() || !rejected.is_string())
    throw config_error(
        "'prompt', 'chosen' and 'rejected' must be three texts or three lists of messages");
  return {.prompt = prompt->get<std::string>(),
          .chosen = {.text = chosen.get<std::string>()},
          .rejected = {.text = rejected.get<std::string>()}};
}

}  // namespace lockstep::formats
