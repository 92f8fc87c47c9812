// chat FILE: for each line of FILE, {"template": ..., "variables": {...}} or {"tokenizer":
// DIRECTORY, "record": {...}, "name": ..., "date": "YYYY-MM-DD"}, prints {"text", "spans"} or
// {"text", "spans", "tokens", "answers"}, or {"error"}. For chat_against_python.py.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "data/chat/chat_encoder.h"
#include "formats/chat/chat_template.h"
#include "formats/jinja/jinja_template.h"
#include "lockstep/error.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson spans_of(const std::vector<formats::jinja::TextSpan>& spans) {
  auto all = OrderedJson::array();
  for (const auto& span : spans) all.push_back({span.begin, span.end});
  return all;
}

std::optional<std::tm> date_of(const OrderedJson& request) {
  std::tm date = {};
  if (!request.contains("date")) return std::nullopt;
  strptime(request["date"].get<std::string>().c_str(), "%Y-%m-%d", &date);
  return date;
}

OrderedJson response_to(const OrderedJson& request) {
  if (request.contains("template")) {
    const formats::jinja::Template parsed(request["template"].get<std::string>(), "template");
    const auto out =
        parsed.render(formats::jinja::Value::from_json(request["variables"]), date_of(request));
    return {{"text", out.text}, {"spans", spans_of(out.generations)}};
  }
  const std::string directory = request["tokenizer"];
  const formats::ChatTemplateOptions options = {.name = request.value("name", "default"),
                                                .date = date_of(request)};
  const auto chat = formats::parse_conversation(request["record"].dump());
  const auto text = formats::ChatTemplate(directory, options).render(chat);
  const auto encoded = data::ChatEncoder(directory, options).encode(chat);
  return {{"text", text.text},
          {"spans", spans_of(text.answers)},
          {"tokens", encoded.tokens},
          {"answers", encoded.answers}};
}

}  // namespace

int print_chat(const Arguments& arguments) {
  if (arguments.size() != 1) return 64;
  std::ifstream file(arguments[0]);
  for (std::string line; std::getline(file, line);) {
    OrderedJson response;
    try {
      response = response_to(OrderedJson::parse(line));
    } catch (const Error& error) {
      response = {{"error", error.what()}};
    }
    std::cout << response.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  }
  return 0;
}

}  // namespace lockstep::printer
