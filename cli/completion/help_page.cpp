#include "cli/completion/help_page.h"

#include <regex>
#include <sstream>

#include "cli/trainer_program.h"
#include "dashboard/api/program_output.h"

namespace lockstep::cli {
namespace {

// "  -n, --nproc-per-node N   text", "      --json   text", or an option alone on its line.
void read_option(const std::string& line, HelpPage& page) {
  static const std::regex pattern(
      R"(^ +(?:(-\w)(?:, | (?=[A-Z])|(?= {2}|$)))?(--[a-z][\w-]*)?(?:[ =]([A-Z<[]\S*?|arg))?(?:, .*?)?(?: {2,}(.*))?$)");
  std::smatch found;
  if (!std::regex_match(line, found, pattern) || (!found[1].matched && !found[2].matched)) return;
  page.options.push_back(
      {found[2].matched ? found[2].str() : found[1].str(), found[3].str(), found[4].str()});
}

}  // namespace

HelpPage read_help(const std::string& command) {
  HelpPage page;
  for (const char* by_trainer : {"plan", "ckpt"})
    if (command == by_trainer)
      page.text =
          trainer_output({command == "plan" ? "--plan" : "--checkpoints", "--help"}, kHelpTimeout);
  if (command == "train") page.text = trainer_output({"--help"}, kHelpTimeout);
  if (page.text.empty())
    page.text = dashboard::program_output({own_program(), command, "--help"}, kHelpTimeout);
  page.text = page.text.substr(0, page.text.find(kRunFileKeys));
  std::istringstream lines(page.text);
  const auto usage = "  lockstep " + command;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(usage))
      page.usages.push_back(line.substr(2));
    else
      read_option(line, page);
  }
  return page;
}

}  // namespace lockstep::cli
