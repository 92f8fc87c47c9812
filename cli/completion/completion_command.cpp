// `lockstep completion SHELL`, and `lockstep complete`, which the scripts of all shells call.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/completion/completions.h"
#include "cli/trainer_program.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::cli {
namespace {

constexpr const char* kCompletionHelp =
    R"(lockstep completion: print a completion script for a shell

  lockstep completion bash|zsh|fish

bash: lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep
zsh:  lockstep completion zsh > "${fpath[1]}/_lockstep"
fish: lockstep completion fish > ~/.config/fish/completions/lockstep.fish

Completes commands, options, ids of runs, and keys of the run file with their choices.
)";

constexpr const char* kBash = R"(# bash completion of lockstep
_lockstep() {
  local line=${COMP_LINE:0:COMP_POINT} words program word
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current=${words[-1]}
  program=${words[0]}
  COMPREPLY=()
  if [[ ${program##*/} == lockstep-trainer ]]; then
    program=${program%-trainer}
    words=("$program" train "${words[@]:1}")
  fi
  while IFS=$'\t' read -r word _; do
    case $word in
      :files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
      :folders) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current") ;;
      *) COMPREPLY+=("$word") ;;
    esac
  done < <("$program" complete -- "${words[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  # bash completes only what follows the last '='.
  [[ $current == *=* && $COMP_WORDBREAKS == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${current%=*}="}")
  return 0
}
complete -F _lockstep lockstep lockstep-trainer
)";

constexpr const char* kZsh = R"(#compdef lockstep lockstep-trainer
# zsh completion of lockstep
_lockstep() {
  local line word help program=${words[1]}
  local -a typed plain keys
  typed=("${(@)words[2,CURRENT]}")
  if [[ ${program:t} == lockstep-trainer ]]; then
    program=${program%-trainer}
    typed=(train "${(@)typed}")
  fi
  for line in "${(@f)$(${~program} complete -- "${(@)typed}" 2>/dev/null)}"; do
    word=${line%%$'\t'*}
    help=${line#*$'\t'}
    case $word in
      '') ;;
      :files) _files ;;
      :folders) _files -/ ;;
      *=) keys+=("${word//:/\\:}:$help") ;;
      *) plain+=("${word//:/\\:}:$help") ;;
    esac
  done
  (( ${#plain} )) && _describe -t words word plain
  (( ${#keys} )) && _describe -t keys key keys -S ''
  return 0
}
if [[ $funcstack[1] == _lockstep ]]; then _lockstep "$@"; else compdef _lockstep lockstep lockstep-trainer; fi
)";

constexpr const char* kFish = R"(# fish completion of lockstep
function __lockstep_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    if string match -q '*lockstep-trainer' -- $program
        set program (string replace -r -- '-trainer$' '' $program)
        set -p words train
    end
    for line in ($program complete -- $words 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path (commandline -ct)
            case ':folders*'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c lockstep -f -a '(__lockstep_complete)'
complete -c lockstep-trainer -f -a '(__lockstep_complete)'
)";

std::vector<Completion> command_completions() {
  std::vector<Completion> found;
  for (const auto& command : listed_commands()) found.push_back({command.name, command.help});
  for (const char* option : {"--help", "--version", "--torch"}) found.push_back({option, ""});
  return found;
}

std::vector<RunFileKey> keys_of_run_file() {
  const auto schema = Json::parse(run_file_schema(), nullptr, false);
  return schema.is_discarded() ? std::vector<RunFileKey>() : keys_of_schema(schema);
}

}  // namespace

int complete_command(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.size() > 2 && words.front() == "--torch") words.erase(words.begin(), words.begin() + 2);
  const CompletionSources sources = {.commands = command_completions,
                                     .help = read_help,
                                     .run_ids = tracking::run_ids_in,
                                     .keys = keys_of_run_file};
  for (const auto& completion : complete(words, sources))
    fmt::print("{}\t{}\n", printable(completion.word, 400), printable(completion.help, 200));
  return 0;
}

int completion_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (wants_help(words)) {
    fmt::print("{}", kCompletionHelp);
    return 0;
  }
  if (words.empty()) throw config_error("lockstep completion: expected bash, zsh or fish");
  const auto& shell = words.front();
  if (words.size() == 1)
    for (const auto& [name, script] : {std::pair("bash", kBash), {"zsh", kZsh}, {"fish", kFish}})
      if (shell == name) {
        std::fputs(script, stdout);
        verify_written();
        return 0;
      }
  throw config_error(fmt::format("lockstep completion {}: expected bash, zsh or fish", shell));
}

}  // namespace lockstep::cli
