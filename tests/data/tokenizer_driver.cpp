// tokenizer_driver TOKENIZER: answers the requests of standard input, one JSON object per line:
// {"text": T}, {"first": T, "second": T} or {"ids": [...], "skip_special": B}. Two threads answer
// all of them with one tokenizer, and must agree.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "formats/tokenizer/tokenizer.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using nlohmann::json;

json answer(const formats::Tokenizer& tokenizer, const json& request) {
  if (request.contains("ids"))
    return tokenizer.decode(request["ids"].get<std::vector<int32_t>>(), request["skip_special"]);
  if (request.contains("first")) {
    const auto pair = tokenizer.encode_for_model(request["first"].get<std::string>(),
                                                 request["second"].get<std::string>());
    return {{"ids", pair.ids}, {"type_ids", pair.type_ids}};
  }
  const auto text = request["text"].get<std::string>();
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  const auto single = tokenizer.encode_for_model(text);
  return {{"plain", ids}, {"ids", single.ids}, {"type_ids", single.type_ids}};
}

std::vector<std::string> answers(const formats::Tokenizer& tokenizer,
                                 const std::vector<json>& requests) {
  std::vector<std::string> lines;
  for (const auto& request : requests) {
    try {
      lines.push_back(answer(tokenizer, request).dump());
    } catch (const Error& error) {
      lines.push_back(json({{"error", error.what()}}).dump());
    }
  }
  return lines;
}

int run(const char* path) {
  const auto tokenizer = formats::read_tokenizer(path);
  std::vector<json> requests;
  for (std::string line; std::getline(std::cin, line);) requests.push_back(json::parse(line));
  std::vector<std::string> other;
  std::thread thread([&] { other = answers(tokenizer, requests); });
  const auto lines = answers(tokenizer, requests);
  thread.join();
  if (lines != other) std::abort();
  for (const auto& line : lines) std::cout << line << '\n';
  std::cout << tokenizer.vocabulary_size() << '\n';
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int, char** argv) {
  try {
    return lockstep::run(argv[1]);
  } catch (const lockstep::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
