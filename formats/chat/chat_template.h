// The chat template of a model directory, and which parts of a rendered conversation are answers.
// No LibTorch.
#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/chat/conversation.h"
#include "formats/jinja/jinja_template.h"

namespace lockstep::formats {

struct ChatTemplateOptions {
  std::string name = "default";  // of several templates
  std::optional<std::tm> date;   // of strftime_now()
};

struct ChatText {
  std::string text;
  std::vector<jinja::TextSpan> answers;  // in order
};

// Thread: const, may be used by several threads at once.
class ChatTemplate {
 public:
  // Reads chat_template.jinja and additional_chat_templates/*.jinja, or "chat_template" of
  // tokenizer_config.json, in `directory`. Unless another one is chosen, "tool_use" is that of
  // conversations with tools. Throws Config: no template, a file that cannot be parsed, a template
  // that needs a date.
  ChatTemplate(const std::filesystem::path& directory, ChatTemplateOptions options);

  // The text of a conversation, and its answers: what {% generation %} marks; without marks, what
  // an assistant's message adds to the text with a prompt for it (add_generation_prompt). A
  // template may leave thoughts (up to </think>) out of earlier answers. Throws Config: an error of
  // the template, an answer that is not found.
  ChatText render(const Conversation& conversation) const;

  // The text of a conversation and of the beginning of its next answer. Throws Config: an error of
  // the template.
  std::string render_prompt(const Conversation& conversation) const;

  // "bos_token" and others of tokenizer_config.json; empty: none.
  std::string token(const std::string& name) const;

 private:
  void read_config(const std::filesystem::path& directory);
  jinja::Template parsed(std::string_view text, const std::string& where) const;
  const jinja::Template& template_for(const Conversation& conversation) const;
  std::string text_of(const Conversation& conversation, size_t messages, bool with_prompt) const;
  jinja::RenderedText rendered(const Conversation& conversation, size_t messages,
                               bool with_prompt) const;
  std::vector<jinja::TextSpan> marked(const Conversation& conversation,
                                      const std::vector<jinja::TextSpan>& marks) const;
  jinja::TextSpan answer_at(const Conversation& conversation, size_t message,
                            const std::string& text) const;

  ChatTemplateOptions options_;
  std::map<std::string, std::string> tokens_;
  std::optional<jinja::Template> template_, tool_template_;
  std::string tool_problem_;  // why the one for conversations with tools cannot be used
};

}  // namespace lockstep::formats
