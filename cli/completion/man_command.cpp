// `lockstep man`: the help as man pages.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <sstream>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/completion/help_page.h"
#include "cli/trainer_program.h"
#include "core/config/nearest_name.h"
#include "dashboard/api/program_output.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::cli {
namespace {

constexpr const char* kManHelp = R"(lockstep man: print a man page

  lockstep man [COMMAND]

COMMAND is a command of lockstep, 'trainer', 'data' or 'run-file' (default: lockstep itself). To read
one: lockstep man launch | man -l -
)";

// Text as it is, for troff.
std::string verbatim(const std::string& text) {
  std::string page = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('.') || line.starts_with('\'')) page += "\\&";
    for (const char letter : line) {
      if (letter == '\\')
        page += "\\e";
      else if (letter == '-')
        page += "\\-";
      else
        page += letter;
    }
    page += '\n';
  }
  return page + ".fi\n";
}

std::string page_of(const std::string& name, int section, const std::string& help,
                    const std::string& text) {
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string page =
      fmt::format(".TH {} {} \"\" \"Lockstep {}\" \"Lockstep\"\n.SH NAME\n{} \\- {}\n", title,
                  section, kVersion, name, help);
  page += ".SH DESCRIPTION\n" + verbatim(text) + ".SH SEE ALSO\n";
  for (const auto& command : listed_commands())
    page += fmt::format(".BR lockstep\\-{} (1),\n", command.name);
  return page +
         ".BR lockstep\\-trainer (1),\n.BR lockstep\\-data (1),\n.BR lockstep\\-run\\-file (5)\n";
}

std::string trainer_help() {
  auto text = trainer_output({"--help"}, kHelpTimeout);
  if (text.empty())
    throw environment_error("lockstep man: 'lockstep-trainer --help' fails: see lockstep version");
  return text;
}

std::string man_page(const std::string& name) {
  if (name.empty()) {
    const auto text = dashboard::program_output({own_program(), "--help"}, kHelpTimeout);
    return page_of("lockstep", 1, "distributed training with LibTorch", text);
  }
  if (name == "trainer") {
    const auto text = trainer_help();
    return page_of("lockstep-trainer", 1, "one rank of a training",
                   text.substr(0, text.find(kRunFileKeys)));
  }
  if (name == "run-file") {
    const auto text = trainer_help();
    const auto keys = text.find(kRunFileKeys);
    return page_of("lockstep-run-file", 5, "keys of a run file",
                   keys == std::string::npos ? "" : text.substr(keys + 1));
  }
  if (name == "data") {
    const auto program = own_program() + "-data";
    return page_of("lockstep-data", 1, "tokenizers and token files from texts",
                   dashboard::program_output({program, "--help"}, kHelpTimeout));
  }
  std::vector<std::string> names = {"trainer", "data", "run-file"};
  for (const auto& command : listed_commands()) {
    if (name == command.name)
      return page_of("lockstep-" + name, 1, command.help, read_help(name).text);
    names.emplace_back(command.name);
  }
  throw config_error(
      fmt::format("lockstep man: unknown command '{}'{}", name, suggest(name, names)));
}

}  // namespace

int man_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (wants_help(words)) {
    fmt::print("{}", kManHelp);
    return 0;
  }
  if (words.size() > 1)
    throw config_error(fmt::format("lockstep man: unexpected argument '{}'", words[1]));
  std::fputs(man_page(words.empty() ? "" : words.front()).c_str(), stdout);
  verify_written();
  return 0;
}

}  // namespace lockstep::cli
