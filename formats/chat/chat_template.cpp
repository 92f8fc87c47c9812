#include "formats/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "formats/jinja/characters.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kOnlyTemplate = "default", kToolTemplate = "tool_use";
constexpr std::string_view kEndOfThoughts = "</think>";
constexpr size_t kMaxConfigFile = size_t{1} << 24, kMaxTemplateFile = size_t{1} << 20;

struct NamedTemplate {
  std::string name, text, where;
};

NamedTemplate read_template(const fs::path& file, std::string name) {
  return {std::move(name), read_file(file, kMaxTemplateFile), printable(file.string(), 400)};
}

// Those of "chat_template": a text, or a list of named ones.
std::vector<NamedTemplate> templates_of(const Json& given, const std::string& where) {
  const auto place = where + ": chat_template";
  if (given.is_string()) return {{std::string(kOnlyTemplate), given.get<std::string>(), place}};
  std::vector<NamedTemplate> all;
  const auto list = given.is_array() ? given : Json::array();
  for (const auto& one : list) {
    if (!one.is_object() || !one.value("name", Json()).is_string() ||
        !one.value("template", Json()).is_string())
      throw config_error(where + ": 'chat_template' is neither a text nor a list of named ones");
    all.push_back({one["name"].get<std::string>(), one["template"].get<std::string>(), place});
  }
  if (all.empty())
    throw config_error(where + ": 'chat_template' is neither a text nor a list of named ones");
  return all;
}

// Those of the files of `directory`; empty: it has none.
std::vector<NamedTemplate> templates_in(const fs::path& directory) {
  std::error_code ignored;
  const auto own = directory / "chat_template.jinja";
  if (!fs::exists(own, ignored)) return {};
  std::vector<NamedTemplate> all = {read_template(own, std::string(kOnlyTemplate))};
  for (const auto& entry : fs::directory_iterator(directory / "additional_chat_templates", ignored))
    if (const auto& file = entry.path(); file.extension() == ".jinja")
      all.push_back(read_template(file, file.stem().string()));
  return all;
}

const NamedTemplate* find_template(const std::vector<NamedTemplate>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &NamedTemplate::name);
  return found == all.end() ? nullptr : &*found;
}

const NamedTemplate& template_named(const std::vector<NamedTemplate>& all,
                                    const std::string& name) {
  if (const auto* found = find_template(all, name)) return *found;
  const auto& where = all.front().where;
  if (all.size() == 1 && all.front().name == kOnlyTemplate)
    throw config_error(fmt::format(
        "{}: the tokenizer has one chat template, without a name; leave out template: {}", where,
        printable(name)));
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.name);
  throw config_error(
      fmt::format("{}: no chat template '{}'{}", where, printable(name), suggest(name, names)));
}

// What follows the thoughts of an answer.
std::string_view spoken(const Json& message) {
  const auto found = message.find("content");
  if (found == message.end() || !found->is_string()) return {};
  std::string_view text = found->get_ref<const std::string&>();
  if (const auto at = text.rfind(kEndOfThoughts); at != text.npos)
    text.remove_prefix(at + kEndOfThoughts.size());
  return jinja::strip(text);
}

// How much of `rest`, the text of the conversation from an answer on, is the answer, which is
// `alone` without what follows; or its longest end that contains `needed`: without its thoughts.
std::optional<size_t> answer_size(std::string_view alone, std::string_view rest,
                                  std::string_view needed) {
  auto last = alone.rfind(needed);
  if (needed.empty()) {
    const auto thoughts = alone.rfind(kEndOfThoughts);
    last =
        thoughts == alone.npos ? 0 : std::min(thoughts + kEndOfThoughts.size() + 2, alone.size());
  }
  for (size_t begin = 0; last != alone.npos && begin <= last; ++begin)
    if (rest.starts_with(alone.substr(begin))) return alone.size() - begin;
  return std::nullopt;
}

}  // namespace

ChatTemplate::ChatTemplate(const fs::path& directory, ChatTemplateOptions options)
    : options_(std::move(options)) {
  read_config(directory);
}

// Throws Config if the template needs a date that is not set.
jinja::Template ChatTemplate::parsed(std::string_view text, const std::string& where) const {
  jinja::Template made(text, where);
  if (made.uses_date() && !options_.date)
    throw config_error(
        fmt::format("{}: its chat template contains the date; set date: YYYY-MM-DD, so that every "
                    "rank and a resumed run use the same",
                    where));
  return made;
}

void ChatTemplate::read_config(const fs::path& directory) {
  const auto file = directory / "tokenizer_config.json";
  const auto where = printable(file.string(), 400);
  std::error_code ignored;
  if (!fs::exists(file, ignored))
    throw config_error(
        fmt::format("{} has no tokenizer_config.json: expected a directory with "
                    "tokenizer.json and tokenizer_config.json",
                    printable(directory.string(), 400)));
  const auto config = Json::parse(read_file(file, kMaxConfigFile), nullptr, false);
  if (!config.is_object()) throw config_error(where + ": not a JSON object");
  for (const auto& [key, value] : config.items()) {
    if (!key.ends_with("_token")) continue;
    const auto& content = value.is_object() ? value.value("content", Json()) : value;
    if (content.is_string()) tokens_[key] = content.get<std::string>();
  }
  auto all = templates_in(directory);
  const auto given = config.value("chat_template", Json());
  if (all.empty() && given.is_null())
    throw config_error(
        fmt::format("{}: it has no 'chat_template', and there is no chat_template.jinja: this is "
                    "not the tokenizer of a chat model; add a template",
                    where));
  if (all.empty()) all = templates_of(given, where);
  const auto& chosen = template_named(all, options_.name);
  template_.emplace(parsed(chosen.text, chosen.where));
  const auto* const for_tools = find_template(all, kToolTemplate);
  if (options_.name != kOnlyTemplate || !for_tools) return;
  try {
    tool_template_.emplace(parsed(for_tools->text, for_tools->where));
  } catch (const Error& error) {
    tool_problem_ = error.what();
  }
}

// As in transformers: a tokenizer may have a separate one for conversations with tools.
const jinja::Template& ChatTemplate::template_for(const Conversation& conversation) const {
  if (conversation.tools.is_null()) return *template_;
  if (!tool_problem_.empty()) throw config_error(tool_problem_);
  return tool_template_ ? *tool_template_ : *template_;
}

std::string ChatTemplate::token(const std::string& name) const {
  const auto found = tokens_.find(name);
  return found == tokens_.end() ? std::string() : found->second;
}

jinja::RenderedText ChatTemplate::rendered(const Conversation& conversation, size_t messages,
                                           bool with_prompt) const {
  const auto& all = conversation.messages;
  try {
    jinja::Values chosen;
    for (size_t i = 0; i < messages; ++i) chosen.push_back(jinja::Value::from_json(all[i]));
    jinja::Members variables;
    for (const auto& [name, token] : tokens_) variables.emplace_back(name, jinja::Value(token));
    variables.emplace_back("messages", jinja::Value::list(std::move(chosen)));
    variables.emplace_back("tools", jinja::Value::from_json(conversation.tools));
    variables.emplace_back("documents", jinja::Value::none());
    variables.emplace_back("add_generation_prompt", jinja::Value(with_prompt));
    const auto& chosen_template = template_for(conversation);
    return chosen_template.render(jinja::Value::map(std::move(variables)), options_.date);
  } catch (const jinja::Problem& problem) {
    throw config_error(problem.what());
  }
}

std::string ChatTemplate::text_of(const Conversation& conversation, size_t messages,
                                  bool with_prompt) const {
  return rendered(conversation, messages, with_prompt).text;
}

std::string ChatTemplate::render_prompt(const Conversation& conversation) const {
  return text_of(conversation, conversation.messages.size(), true);
}

ChatText ChatTemplate::render(const Conversation& conversation) const {
  if (conversation.is_text()) return {conversation.text, {{0, conversation.text.size()}}};
  auto whole = rendered(conversation, conversation.messages.size(), false);
  ChatText chat{.text = std::move(whole.text)};
  if (template_for(conversation).has_generation()) {
    chat.answers = marked(conversation, whole.generations);
    return chat;
  }
  for (size_t i = conversation.first_answer; i < conversation.messages.size(); ++i)
    if (is_answer(conversation.messages[i]))
      chat.answers.push_back(answer_at(conversation, i, chat.text));
  return chat;
}

// The marks of the answers after first_answer.
std::vector<jinja::TextSpan> ChatTemplate::marked(const Conversation& conversation,
                                                  const std::vector<jinja::TextSpan>& marks) const {
  if (conversation.first_answer == 0) return marks;
  const auto& messages = conversation.messages;
  const auto middle = messages.begin() + static_cast<ptrdiff_t>(conversation.first_answer);
  const auto before = static_cast<size_t>(std::count_if(messages.begin(), middle, is_answer));
  const auto all = static_cast<size_t>(std::count_if(messages.begin(), messages.end(), is_answer));
  if (marks.size() != all)
    throw config_error(
        fmt::format("the template marks {} answers of {}: which ones belong to the completion is "
                    "unknown",
                    marks.size(), all));
  return {marks.begin() + static_cast<ptrdiff_t>(before), marks.end()};
}

jinja::TextSpan ChatTemplate::answer_at(const Conversation& conversation, size_t message,
                                        const std::string& text) const {
  const auto before = text_of(conversation, message, true);
  const auto with = text_of(conversation, message + 1, false);
  const auto lost = [&] {
    return config_error(fmt::format(
        "the template renders answer {} of a whole conversation differently than alone, so that "
        "its tokens are unknown; mark answers in the template with {{% generation %}}",
        message));
  };
  if (!with.starts_with(before) || !text.starts_with(before)) throw lost();
  const auto rest = std::string_view(text).substr(before.size());
  auto alone = std::string_view(with).substr(before.size());
  const auto needed = spoken(conversation.messages[message]);
  const auto eos = token("eos_token");
  for (size_t i = 0; i < 2; ++i) {
    if (const auto size = answer_size(alone, rest, needed))
      return {before.size(), before.size() + *size};
    // A template may write eos_token only at the end of a conversation.
    if (eos.empty() || !alone.ends_with(eos)) break;
    alone.remove_suffix(eos.size());
  }
  throw lost();
}

}  // namespace lockstep::formats
