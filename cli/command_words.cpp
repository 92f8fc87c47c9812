#include "cli/command_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/config/nearest_name.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

Error unexpected(const cxxopts::Options& options, const std::string& word) {
  if (!word.starts_with('-'))
    return config_error(fmt::format("{}: unexpected argument '{}'", options.program(), word));
  std::vector<std::string> valid;
  for (const auto& option : options.group_help("").options)
    valid.push_back("--" + option.l.front());
  return config_error(
      fmt::format("{}: unknown option '{}'{}", options.program(), word, suggest(word, valid)));
}

std::string plain(std::string text) {
  for (const auto& quote : {cxxopts::LQUOTE, cxxopts::RQUOTE})
    for (auto at = text.find(quote); at != text.npos; at = text.find(quote, at + 1))
      text.replace(at, quote.size(), "'");
  return text;
}

bool is_flag(const cxxopts::Options& options, const std::string& word) {
  return std::ranges::any_of(options.group_help("").options, [&](const auto& option) {
    return option.is_boolean && word == "--" + option.l.front();
  });
}

// The number of words up to the first value that is not of its option's type.
size_t end_of_wrong_type(cxxopts::Options& options, const std::vector<const char*>& argv) {
  for (size_t end = 2; end < argv.size(); ++end) {
    try {
      options.parse(static_cast<int>(end), argv.data());
    } catch (const cxxopts::exceptions::incorrect_argument_type&) {
      return end;
    } catch (const cxxopts::exceptions::exception&) {  // the value of the last option is missing
    }
  }
  return argv.size();
}

// cxxopts does not name the option whose value is not of its type.
std::string problem_of(const cxxopts::exceptions::exception& error, cxxopts::Options& options,
                       const std::vector<const char*>& argv) {
  const auto text = plain(error.what());
  if (!dynamic_cast<const cxxopts::exceptions::incorrect_argument_type*>(&error)) return text;
  const auto begin = text.find('\'') + 1;
  const auto value = text.substr(begin, text.rfind('\'') - begin);
  const auto end = end_of_wrong_type(options, argv);
  const std::string last = argv[end - 1];
  const bool is_separate = last == value && end > 2;
  if (!is_separate && !last.ends_with("=" + value)) return text;
  const auto option = is_separate ? argv[end - 2] : last.substr(0, last.find('='));
  return fmt::format("{} {}: {}", option, value,
                     is_flag(options, option) ? "takes no value" : "expected a whole number");
}

Error refused(const cxxopts::Options& options, const std::string& problem) {
  const auto& program = options.program();
  // "lockstep runs list" is described by lockstep runs --help.
  const bool is_nested = std::ranges::count(program, ' ') > 1;
  return config_error(fmt::format("{}: {}; see {} --help", program, problem,
                                  is_nested ? program.substr(0, program.rfind(' ')) : program));
}

// Commands count flags: --yes=false would mean --yes.
void verify_flags(const cxxopts::Options& options, const cxxopts::ParseResult& parsed) {
  for (const auto& argument : parsed.arguments())
    if (argument.value() != "true" && is_flag(options, "--" + argument.key()))
      throw refused(options,
                    fmt::format("--{} {}: takes no value", argument.key(), argument.value()));
}

}  // namespace

std::string problem_of(const cxxopts::exceptions::exception& error) { return plain(error.what()); }

cxxopts::ParseResult parse_words(cxxopts::Options& options, const std::vector<std::string>& words) {
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  options.allow_unrecognised_options();
  try {
    auto parsed = options.parse(static_cast<int>(argv.size()), argv.data());
    if (!parsed.unmatched().empty()) throw unexpected(options, parsed.unmatched().front());
    verify_flags(options, parsed);
    return parsed;
  } catch (const cxxopts::exceptions::exception& error) {
    throw refused(options, problem_of(error, options, argv));
  }
}

std::vector<std::string> all_values(const cxxopts::ParseResult& parsed, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& argument : parsed.arguments())
    if (argument.key() == name) values.push_back(argument.value());
  return values;
}

bool wants_help(const std::vector<std::string>& words) {
  const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
  return std::ranges::any_of(words, asks) || (!words.empty() && words.front() == "help");
}

Error missing_command(const std::string& program, const std::vector<std::string>& valid) {
  return config_error(fmt::format("{}: a command is missing{}", program, suggest("", valid)));
}

void verify_written() {
  // The error may be that of the call before, which left errno.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw errno_error("cannot write the output");
}

bool is_in_store(const std::string& dir) { return dir.find("://") != dir.npos; }

}  // namespace lockstep::cli
