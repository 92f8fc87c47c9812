// What can follow on a command line of `lockstep`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/completion/help_page.h"
#include "cli/completion/run_file_keys.h"

namespace lockstep::cli {

struct Completion {
  std::string word;  // kFiles or kFolders: the shell completes names of files
  std::string help;  // may be empty
};
constexpr const char *kFiles = ":files", *kFolders = ":folders";

// Where the possible words come from; called only if they are needed.
struct CompletionSources {
  std::function<std::vector<Completion>()> commands;
  std::function<HelpPage(const std::string& command)> help;
  std::function<std::vector<std::string>(const std::string& runs)> run_ids;
  std::function<std::vector<RunFileKey>()> keys;
};

// `words`: those after `lockstep`, up to the one that is completed, which may be empty. The result
// begins with what is typed of it, in the order of the help.
std::vector<Completion> complete(const std::vector<std::string>& words,
                                 const CompletionSources& sources);

}  // namespace lockstep::cli
