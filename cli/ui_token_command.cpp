// `lockstep ui token`: changes the file of access tokens of the dashboard.
#include <fmt/format.h>

#include <cxxopts.hpp>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "dashboard/server/access_tokens.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kUiTokenHelp = R"(lockstep ui token: access tokens of the dashboard

  lockstep ui token add NAME --role read|write|send --tokens FILE
  lockstep ui token remove NAME --tokens FILE
  lockstep ui token list --tokens FILE

FILE stores names, roles and hashes. A running `lockstep ui --tokens FILE` applies changes
immediately. `add` prints the token, once.

  --role ROLE    read: see runs; write: also tag, stop and delete them; send: only send runs of
                 another machine (lockstep ui --receive)
  --tokens FILE  file of the tokens; created by the first add, readable by its owner only
)";

std::string required_word(const cxxopts::ParseResult& parsed, const char* name, const char* what) {
  if (!parsed.count(name))
    throw config_error(
        fmt::format("lockstep ui token: missing {}; see lockstep ui token --help", what));
  return parsed[name].as<std::string>();
}

}  // namespace

int ui_token_command(const std::vector<std::string>& words) {
  if (wants_help({words.begin() + 1, words.end()})) {
    fmt::print("{}", kUiTokenHelp);
    return 0;
  }
  cxxopts::Options known("lockstep ui token");
  const auto text = [] { return cxxopts::value<std::string>(); };
  known.add_options()("role", "", text())("tokens", "", text());
  known.add_options(kPositional)("action", "", text())("name", "", text());
  known.parse_positional({"action", "name"});
  const auto parsed = parse_words(known, words);
  const auto action = required_word(parsed, "action", "add, remove or list");
  const auto file = required_word(parsed, "tokens", "--tokens FILE");
  if (action == "add") {
    const auto name = required_word(parsed, "name", "the name");
    fmt::print("{}\n", dashboard::add_access_token(
                           file, name, required_word(parsed, "role", "--role read|write|send")));
  } else if (action == "remove") {
    dashboard::remove_access_token(file, required_word(parsed, "name", "the name"));
  } else if (action == "list") {
    for (const auto& token : dashboard::read_access_tokens(file))
      fmt::print("{} {}\n", token.name, dashboard::role_name(token.role));
  } else {
    throw config_error(
        fmt::format("lockstep ui token: unknown action; expected add, remove or list"));
  }
  return 0;
}

}  // namespace lockstep::cli
