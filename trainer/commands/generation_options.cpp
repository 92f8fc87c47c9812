#include "trainer/commands/generation_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::trainer {
namespace {

struct OptionValue {
  const std::string &option, &text;

  [[noreturn]] void refuse(const std::string& expected) const {
    throw config_error(fmt::format("{}: '{}': expected {}", option, printable(text), expected));
  }

  int64_t integer(int64_t low, int64_t high) const {
    int64_t number = 0;
    const auto* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end || number < low || number > high)
      refuse(fmt::format("an integer from {} to {}", low, high));
    return number;
  }

  // Above `low`, or at least `low` if `includes_low`.
  double real(double low, bool includes_low, double high, const char* expected) const {
    double number = 0;
    const auto* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool is_valid = error == std::errc() && rest == end && std::isfinite(number) &&
                          number <= high && (number > low || (includes_low && number == low));
    if (!is_valid) refuse(expected);
    return number;
  }

  double share() const { return real(0, false, 1, "a number above 0, at most 1"); }

  const std::string& not_empty() const {
    if (text.empty()) refuse("text that is not empty");
    return text;
  }
};

struct GenerationOption {
  const char* what;  // its value; null: it has none
  std::function<void(const OptionValue&, GenerationArguments&)> store;
};

const std::map<std::string, GenerationOption>& generation_options() {
  using Value = OptionValue;
  using Out = GenerationArguments;
  static const std::map<std::string, GenerationOption> options = {
      {"--generate", {"a file", [](const Value& v, Out& o) { o.prompts_file = v.not_empty(); }}},
      {"--prompt", {"a text", [](const Value& v, Out& o) { o.prompts.push_back(v.not_empty()); }}},
      {"--beams", {"a number", [](const Value& v, Out& o) { o.beams.count = v.integer(1, 1024); }}},
      {"--length-penalty",
       {"a number",
        [](const Value& v, Out& o) {
          o.beams.length_penalty = v.real(-1e6, true, 1e6, "a number");
          o.has_length_penalty = true;
        }}},
      {"--early-stopping", {nullptr, [](const Value&, Out& o) { o.beams.ends_early = true; }}},
      {"--chat", {nullptr, [](const Value&, Out& o) { o.is_chat = true; }}},
      {"--tokenizer",
       {"a tokenizer.json", [](const Value& v, Out& o) { o.tokenizer = v.not_empty(); }}},
      {"--out", {"a file", [](const Value& v, Out& o) { o.out = v.not_empty(); }}},
      {"--stop", {"a text", [](const Value& v, Out& o) { o.stops.push_back(v.not_empty()); }}},
      {"--max-tokens",
       {"a number", [](const Value& v, Out& o) { o.max_tokens = v.integer(1, 1 << 20); }}},
      {"--batch-size",
       {"a number",
        [](const Value& v, Out& o) {
          o.batch_size = v.integer(1, 1 << 20);
          o.has_batch_size = true;
        }}},
      {"--seed", {"a number", [](const Value& v, Out& o) { o.seed = v.integer(0, INT64_MAX); }}},
      {"--samples",
       {"a number", [](const Value& v, Out& o) { o.samples = v.integer(1, 1 << 20); }}},
      {"--repetition-penalty",
       {"a number",
        [](const Value& v, Out& o) {
          o.sampling.repetition_penalty = v.real(0, false, 1e6, "a number above 0");
        }}},
      {"--top-k",
       {"a number", [](const Value& v, Out& o) { o.sampling.top_k = v.integer(1, INT32_MAX); }}},
      {"--temperature",
       {"a number",
        [](const Value& v, Out& o) {
          o.sampling.temperature = v.real(0, true, 1e6, "a number from 0");
        }}},
      {"--top-p", {"a number", [](const Value& v, Out& o) { o.sampling.top_p = v.share(); }}},
      {"--min-p", {"a number", [](const Value& v, Out& o) { o.sampling.min_p = v.share(); }}},
  };
  return options;
}

void verify_beams(const GenerationArguments& arguments) {
  const auto refuse = [](bool is_given, const char* option, const char* problem) {
    if (is_given) throw config_error(fmt::format("{} {}", option, problem));
  };
  const auto& beams = arguments.beams;
  if (beams.count == 1) {
    const auto* const problem = "has no effect without --beams N, of at least 2";
    refuse(arguments.has_length_penalty, "--length-penalty", problem);
    return refuse(beams.ends_early, "--early-stopping", problem);
  }
  const auto* const problem = "cannot be combined with --beams";
  refuse(arguments.sampling.temperature != 0, "--temperature", problem);
  refuse(arguments.has_batch_size, "--batch-size", problem);
  if (arguments.samples > beams.count)
    throw config_error(fmt::format("--samples: {}: --beams {} finds {} texts of a prompt",
                                   arguments.samples, beams.count, beams.count));
}

}  // namespace

bool read_generation_option(const std::string& argument,
                            const std::function<std::string(const char* what)>& next,
                            GenerationArguments& out) {
  const auto equals = argument.find('=');
  const auto name = argument.substr(0, equals);
  const auto found = generation_options().find(name);
  if (found == generation_options().end()) return false;
  if (out.first_option.empty() && name != "--out") out.first_option = name;
  const auto* const what = found->second.what;
  if (!what && equals != argument.npos) throw config_error(fmt::format("{} takes no value", name));
  const auto text = equals != argument.npos ? argument.substr(equals + 1) : what ? next(what) : "";
  found->second.store({name, text}, out);
  return true;
}

void verify_generation_options(const GenerationArguments& arguments) {
  if (!arguments.has_prompts() && !arguments.first_option.empty())
    throw config_error(fmt::format("{} has no effect without --generate FILE or --prompt TEXT",
                                   arguments.first_option));
  verify_beams(arguments);
  const auto& sampling = arguments.sampling;
  if (sampling.temperature != 0) return;
  const auto refuse = [](bool is_given, const char* option) {
    if (is_given)
      throw config_error(
          fmt::format("{} has no effect with --temperature 0, which is the default", option));
  };
  refuse(sampling.top_k.has_value(), "--top-k");
  refuse(sampling.top_p.has_value(), "--top-p");
  refuse(sampling.min_p.has_value(), "--min-p");
  refuse(arguments.samples > arguments.beams.count, "--samples");
}

void verify_out(const std::optional<std::string>& out, const RankEnv& ranks) {
  if (!out || !tracking::is_main(ranks.rank)) return;
  std::error_code error;
  const std::filesystem::path path = *out;
  if (std::filesystem::is_directory(path, error))
    throw config_error(fmt::format("--out: {} is a directory", printable(path.string(), 400)));
  if (path.has_parent_path() && !std::filesystem::is_directory(path.parent_path(), error))
    throw config_error(fmt::format("--out: the directory {} does not exist",
                                   printable(path.parent_path().string(), 400)));
}

std::vector<std::string> generation_option_names() {
  std::vector<std::string> names;
  for (const auto& [name, option] : generation_options()) names.push_back(name);
  return names;
}

}  // namespace lockstep::trainer
