#include "cli/completion/completions.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

namespace lockstep::cli {
namespace {

using Completions = std::vector<Completion>;

bool is_yaml_file(const std::string& word) {
  return !word.starts_with('-') && (word.ends_with(".yaml") || word.ends_with(".yml"));
}

bool takes_run_file(const std::string& command) {
  const std::set<std::string> commands = {"launch", "train", "plan", "verify-setup", "schema"};
  return commands.contains(command);
}

// "RUN", "ID", "RUN[:STEP]" in usages and options; but the ID of a new run does not exist yet.
bool names_run(const std::string& value) {
  return value == "ID" || value == "RUN_ID" || value.starts_with("RUN[") || value == "RUN";
}

class Line {
 public:
  Line(const std::vector<std::string>& words, const CompletionSources& sources)
      : words_(words), sources_(sources), page_(sources.help(words.front())) {}

  Completions complete() const {
    const auto& typed = words_.back();
    if (const auto option = option_before(); !option.value.empty()) return values_of(option);
    if (typed.starts_with('-')) return options();
    const auto verbs = subcommands();
    if (words_.size() == 2 && !verbs.empty()) return verbs;
    if (takes_run_file(words_.front()))
      return std::ranges::any_of(words_, is_yaml_file) ? keys() : Completions{{kFiles, ""}};
    if (words_.front() == "completion") return {{"bash", ""}, {"zsh", ""}, {"fish", ""}};
    if (words_.front() == "new" && words_.size() == 2)
      return {{"run", ""}, {"model", ""}, {"dataset", ""}, {"sink", ""}};
    if (words_.front() == "man") return sources_.commands();
    return takes_run() ? run_ids() : Completions{{kFiles, ""}};
  }

 private:
  // The usage line of the subcommand that is typed, else all of them.
  std::string usage() const {
    std::string all;
    for (const auto& line : page_.usages) {
      if (words_.size() > 2 && line.starts_with("lockstep " + words_[0] + " " + words_[1] + " "))
        return line;
      all += line + "\n";
    }
    return all;
  }

  Completions subcommands() const {
    Completions verbs;
    for (const auto& line : page_.usages) {
      std::istringstream words(line);
      std::string program, command, verb;
      words >> program >> command >> verb;
      const bool is_verb = !verb.empty() && std::ranges::all_of(verb, [](char letter) {
        return (letter >= 'a' && letter <= 'z') || letter == '-';
      });
      if (is_verb && !verb.starts_with('-') &&
          std::ranges::none_of(verbs, [&](const Completion& known) { return known.word == verb; }))
        verbs.push_back({verb, ""});
    }
    return verbs;
  }

  // Those of the list in the help, and those that only the usage names.
  std::vector<HelpOption> known_options() const {
    auto options = page_.options;
    static const std::regex pattern(R"((--?[a-z][\w-]*)(?: ([A-Z][^\]\s]*))?)");
    const auto text = usage();
    for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end;
         ++found) {
      const auto name = (*found)[1].str();
      if (found->position() == 0 ||
          (text[found->position() - 1] != '[' && text[found->position() - 1] != ' '))
        continue;
      if (std::ranges::none_of(options,
                               [&](const HelpOption& known) { return known.name == name; }))
        options.push_back({name, (*found)[2].str(), ""});
    }
    return options;
  }

  Completions options() const {
    Completions found;
    for (const auto& option : known_options()) found.push_back({option.name, option.help});
    if (std::ranges::none_of(found, [](const Completion& known) { return known.word == "--help"; }))
      found.push_back({"--help", "show the help"});
    return found;
  }

  // The option whose value is being completed; without a value if there is none.
  HelpOption option_before() const {
    if (words_.size() < 3) return {};
    const auto& before = words_[words_.size() - 2];
    for (const auto& option : known_options())
      if (option.name == before) return option;
    return {};
  }

  Completions values_of(const HelpOption& option) const {
    if (names_run(option.value) && option.name != "--run-id") return run_ids();
    if (option.value == "RUNS" || option.value == "DIR") return {{kFolders, ""}};
    static const std::regex choices(R"([a-z0-9_]+(\|[a-z0-9_]+)+)");
    if (std::regex_match(option.value, choices)) {
      Completions found;
      std::istringstream words(option.value);
      for (std::string word; std::getline(words, word, '|');) found.push_back({word, ""});
      return found;
    }
    return {{kFiles, ""}};
  }

  bool takes_run() const {
    std::istringstream words(usage());
    for (std::string word; words >> word;)
      if (names_run(word)) return true;
    return false;
  }

  Completions run_ids() const {
    std::string runs = "runs";
    for (size_t i = 0; i + 1 < words_.size(); ++i)
      if (words_[i] == "--dir") runs = words_[i + 1];
    Completions found;
    for (const auto& id : sources_.run_ids(runs)) found.push_back({id, ""});
    return found;
  }

  Completions keys() const {
    Completions found;
    const auto& typed = words_.back();
    const auto equals = typed.find('=');
    for (const auto& key : sources_.keys()) {
      if (equals == std::string::npos) {
        found.push_back({key.name + "=", key.help});
      } else if (key.name == typed.substr(0, equals)) {
        for (const auto& choice : key.choices) found.push_back({key.name + "=" + choice, ""});
      }
    }
    return found;
  }

  const std::vector<std::string>& words_;
  const CompletionSources& sources_;
  const HelpPage page_;
};

}  // namespace

std::vector<Completion> complete(const std::vector<std::string>& words,
                                 const CompletionSources& sources) {
  if (words.empty()) return {};
  auto found = words.size() == 1 ? sources.commands() : Line(words, sources).complete();
  const auto& typed = words.back();
  std::erase_if(found, [&](const Completion& completion) {
    return !completion.word.starts_with(':') && !completion.word.starts_with(typed);
  });
  return found;
}

}  // namespace lockstep::cli
