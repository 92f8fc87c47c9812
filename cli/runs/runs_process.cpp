// Entry point of `lockstep runs`: asks at the terminal, and dispatches watch and export --html.
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/runs/runs_command.h"
#include "cli/runs/runs_report.h"
#include "cli/runs/runs_watch.h"
#include "cli/runs_place.h"

namespace lockstep::cli {
namespace {

bool ask_at_terminal(const std::string& question) {
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

bool is_report(const std::vector<std::string>& words) {
  return words.front() == "export" && std::ranges::any_of(words, [](const std::string& word) {
           return word == "--html" || word.starts_with("--html=");
         });
}

}  // namespace

int runs_command(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool reads_runs = !words.empty() && !wants_help(words);
  if (reads_runs && words.front() == "watch") return watch_run(words, std::cout);
  const auto place = !reads_runs ? nullptr : replace_bucket(words, [](const auto& problem) {
    std::cerr << "lockstep runs: warning: " << problem << "\n";
  });
  const auto run = [&words, reads_runs] {
    if (reads_runs && is_report(words)) return write_report(words, std::cout);
    const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
    return run_runs_command(words, std::cout, std::cerr,
                            terminal ? AskUser(ask_at_terminal) : AskUser());
  };
  return place ? place->call(run) : run();
}

}  // namespace lockstep::cli
