#include "cli/runs/artifacts_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "catalog/json_text.h"
#include "cli/aligned_text.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/config/size_text.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/artifacts/store.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArtifactsHelp =
    R"(lockstep artifacts: store and retrieve versioned files of runs

  lockstep artifacts list [--dir RUNS] [--json]
        list all versions
  lockstep artifacts show ARTIFACT [--used-by RUN_ID] [--dir RUNS] [--json]
        show one version: the runs that made and used it, its metadata and files
  lockstep artifacts get ARTIFACT [-o DIR] [--used-by RUN_ID] [--dir RUNS] [--json]
        copy its files into a new directory (default: NAME-vN)
  lockstep artifacts put NAME PATH [--type T] [--alias A]... [--metadata K=V]... [--made-by RUN_ID]
          [--dir RUNS] [--json]
        store a file, or all files of a directory, as the next version
  lockstep artifacts alias ARTIFACT ALIAS [--remove] [--dir RUNS] [--json]
        set an alias to this version, or remove the alias
  lockstep artifacts verify [ARTIFACT] [--dir RUNS] [--json]
        check every file against its SHA-256; exit code 75 if one is corrupt
  lockstep artifacts gc [--dry-run] [--dir RUNS] [--json]
        remove files that no version references

--made-by: the run that produced the version
--used-by: a run that uses it

ARTIFACT is NAME (its latest version), NAME:ALIAS, NAME:v3, or NAME@DIGEST_PREFIX. Artifacts are
stored in RUNS/artifacts (default of RUNS: runs).
)";

using ArtifactsOptions = cxxopts::ParseResult;

cxxopts::Options make_options(const std::string& command) {
  cxxopts::Options options("lockstep artifacts " + command);
  const auto text = [] { return cxxopts::value<std::string>(); };
  auto add = options.add_options();
  add("dir", "directory of the runs", text()->default_value(kRunsDir))("json", "as JSON");
  if (command == "get") add("o,output", "new directory", text());
  if (command == "show" || command == "get") add("used-by", "the ID of a run that uses it", text());
  if (command == "put")
    add("type", "such as model, dataset", text()->default_value("file"))("alias", "alias", text())(
        "metadata", "K=V", text())("made-by", "the ID of the run that made it", text());
  if (command == "alias") add("remove", "remove the alias");
  if (command == "gc") add("dry-run", "list what would be removed, without removing it");
  auto words = options.add_options(kPositional);
  std::vector<std::string> places;
  if (command != "list" && command != "gc") places.emplace_back("artifact");
  if (command == "put") places.emplace_back("path");
  if (command == "alias") places.emplace_back("alias-name");
  for (const auto& place : places) words(place, "", text());
  options.parse_positional(places.begin(), places.end());
  return options;
}

class ArtifactsCommand {
 public:
  ArtifactsCommand(std::string command, const ArtifactsOptions& options, std::ostream& out,
                   std::ostream& notes)
      : command_(std::move(command)),
        options_(options),
        store_(fs::path(options["dir"].as<std::string>()) / "artifacts"),
        out_(out),
        notes_(notes) {}

  int run() {
    if (command_ == "list") return list();
    if (command_ == "show") return show(found());
    if (command_ == "get") return get();
    if (command_ == "put") return put();
    if (command_ == "alias") return alias();
    if (command_ == "verify") return verify();
    return gc();
  }

 private:
  std::string word(const char* place) const {
    if (options_.count(place)) return options_[place].as<std::string>();
    throw config_error(fmt::format(
        "lockstep artifacts {}: missing {}; see lockstep artifacts --help", command_, place));
  }
  void print(const Json& json) { out_ << catalog::to_text(json, 2) << "\n"; }
  bool as_json() const { return options_.count("json") > 0; }

  // The value of an option that names a run.
  std::optional<std::string> run_of(const std::string& option) const;
  // The named artifact; --used-by is recorded.
  tracking::Artifact found() const;

  int list();
  int show(const tracking::Artifact& artifact);
  int get();
  int put();
  int alias();
  int verify();
  int gc();

  std::string command_;
  const ArtifactsOptions& options_;
  tracking::ArtifactStore store_;
  std::ostream& out_;
  std::ostream& notes_;
};

std::string artifact_age(const tracking::Artifact& artifact) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return age_text(now.count() - artifact.created);
}

Json artifact_json(const tracking::Artifact& artifact) {
  return {{"name", artifact.name},
          {"type", artifact.type},
          {"version", artifact.version},
          {"aliases", artifact.aliases},
          {"digest", artifact.digest},
          {"files", artifact.files.size()},
          {"bytes", artifact.size()},
          {"created", artifact.created},
          {"made_by", artifact.made_by ? Json(*artifact.made_by) : Json(nullptr)},
          {"used_by", artifact.used_by},
          {"metadata", artifact.metadata}};
}

Json artifact_page_json(const tracking::Artifact& artifact) {
  auto json = artifact_json(artifact);
  json["files"] = Json::array();
  for (const auto& file : artifact.files)
    json["files"].push_back({{"path", file.path}, {"sha256", file.sha256}, {"size", file.size}});
  return json;
}

int ArtifactsCommand::list() {
  std::vector<std::string> problems;
  const auto artifacts = store_.list(&problems);
  for (const auto& problem : problems) notes_ << "note: " << problem << "\n";
  const auto code = problems.empty() ? 0 : static_cast<int>(ErrorKind::Environment);
  if (as_json()) {
    auto json = Json::array();
    for (const auto& artifact : artifacts) json.push_back(artifact_json(artifact));
    print(json);
    return code;
  }
  if (artifacts.empty()) {
    out_ << fmt::format(
        "no artifacts in '{}' yet; add one with: lockstep artifacts put NAME PATH\n",
        store_.directory().string());
    return code;
  }
  std::vector<TextRow> rows = {{"ARTIFACT", "TYPE", "FILES", "SIZE", "AGE", "ALIASES"}};
  for (const auto& artifact : artifacts)
    rows.push_back({artifact.reference(), artifact.type, std::to_string(artifact.files.size()),
                    size_text(artifact.size()), artifact_age(artifact),
                    fmt::format("{}", fmt::join(artifact.aliases, ","))});
  print_aligned(rows, out_);
  return code;
}

std::optional<std::string> ArtifactsCommand::run_of(const std::string& option) const {
  if (options_.count(option) == 0) return std::nullopt;
  return options_[option].as<std::string>();
}

tracking::Artifact ArtifactsCommand::found() const {
  const auto artifact = store_.find(word("artifact"));
  const auto run = run_of("used-by");
  if (!run) return artifact;
  store_.record_use(artifact, *run);
  return store_.find(artifact.reference());
}

int ArtifactsCommand::show(const tracking::Artifact& artifact) {
  if (as_json()) {
    print(artifact_page_json(artifact));
    return 0;
  }
  std::vector<TextRow> rows = {{"artifact", artifact.reference()},
                               {"type", artifact.type},
                               {"aliases", fmt::format("{}", fmt::join(artifact.aliases, ", "))},
                               {"digest", artifact.digest},
                               {"age", artifact_age(artifact)},
                               {"made by", artifact.made_by.value_or("-")},
                               {"used by", fmt::format("{}", fmt::join(artifact.used_by, ", "))}};
  for (const auto& [key, value] : artifact.metadata.items())
    rows.push_back({printable(key, 200), value.is_string()
                                             ? printable(value.get<std::string>(), 1000)
                                             : printable(catalog::to_text(value), 1000)});
  print_aligned(rows, out_);
  std::vector<TextRow> files = {{"file", "size", "sha256"}};
  for (const auto& file : artifact.files)
    files.push_back({file.path, size_text(file.size), file.sha256});
  out_ << "\n";
  print_aligned(files, out_);
  return 0;
}

int ArtifactsCommand::get() {
  const auto artifact = found();
  const auto output = options_.count("output")
                          ? options_["output"].as<std::string>()
                          : fmt::format("{}-v{}", artifact.name, artifact.version);
  store_.get(artifact, output);
  if (as_json())
    print({{"artifact", artifact.reference()}, {"directory", output}});
  else
    out_ << fmt::format("copied {} to {}\n", artifact.reference(), output);
  return 0;
}

// Values that are numbers or booleans are stored as such, others as strings.
Json metadata_of(const std::vector<std::string>& words) {
  auto metadata = Json::object();
  for (const auto& word : words) {
    const auto at = word.find('=');
    if (at == 0 || at == std::string::npos)
      throw config_error(fmt::format("lockstep artifacts put: --metadata '{}': expected KEY=VALUE",
                                     printable(word)));
    const auto value = Json::parse(word.substr(at + 1), nullptr, false);
    const bool plain = value.is_number() || value.is_boolean();
    metadata[word.substr(0, at)] = plain ? value : Json(word.substr(at + 1));
  }
  return metadata;
}

int ArtifactsCommand::put() {
  const auto artifact = store_.publish({.name = word("artifact"),
                                        .type = options_["type"].as<std::string>(),
                                        .source = word("path"),
                                        .aliases = all_values(options_, "alias"),
                                        .metadata = metadata_of(all_values(options_, "metadata")),
                                        .made_by = run_of("made-by")});
  if (as_json())
    print(artifact_page_json(artifact));
  else
    out_ << fmt::format("{} ({} file{}, {}): {}\n", artifact.reference(), artifact.files.size(),
                        artifact.files.size() == 1 ? "" : "s", size_text(artifact.size()),
                        fmt::join(artifact.aliases, ", "));
  return 0;
}

int ArtifactsCommand::alias() {
  const auto artifact = store_.find(word("artifact"));
  const auto name = word("alias-name");
  if (options_.count("remove"))
    store_.remove_alias(artifact.name, name);
  else
    store_.set_alias(artifact, name);
  const auto now = store_.find(artifact.reference());
  if (as_json())
    print(artifact_json(now));
  else
    out_ << fmt::format("{}: {}\n", now.reference(), fmt::join(now.aliases, ", "));
  return 0;
}

int ArtifactsCommand::verify() {
  std::vector<std::string> problems;
  const auto artifacts = options_.count("artifact")
                             ? std::vector<tracking::Artifact>{store_.find(word("artifact"))}
                             : store_.list(&problems);
  for (const auto& artifact : artifacts)
    std::ranges::move(store_.verify(artifact), std::back_inserter(problems));
  if (as_json()) {
    print({{"verified", artifacts.size()}, {"problems", problems}});
  } else {
    for (const auto& problem : problems) out_ << problem << "\n";
    if (problems.empty())
      out_ << fmt::format("verified {} version{}: no problems\n", artifacts.size(),
                          artifacts.size() == 1 ? "" : "s");
  }
  return problems.empty() ? 0 : static_cast<int>(ErrorKind::Environment);
}

int ArtifactsCommand::gc() {
  const bool dry_run = options_.count("dry-run") > 0;
  const auto garbage = store_.gc(dry_run);
  if (as_json()) {
    auto paths = Json::array();
    for (const auto& path : garbage.paths) paths.push_back(path.string());
    print({{"dry_run", dry_run}, {"removed", paths}, {"bytes", garbage.bytes}});
    return 0;
  }
  for (const auto& path : garbage.paths) out_ << printable(path.string(), 4096) << "\n";
  out_ << fmt::format("{}: {} in {}\n", dry_run ? "would be removed" : "removed",
                      size_text(garbage.bytes), garbage.paths.size());
  return 0;
}

}  // namespace

int run_artifacts_command(const std::vector<std::string>& words, std::ostream& out,
                          std::ostream& notes) {
  const std::vector<std::string> commands = {"list", "show", "get", "put", "alias", "verify", "gc"};
  if (wants_help(words)) {
    out << kArtifactsHelp;
    return 0;
  }
  if (words.empty()) throw missing_command("lockstep artifacts", commands);
  const auto& command = words.front();
  if (std::ranges::count(commands, command) == 0)
    throw config_error(fmt::format("lockstep artifacts: unknown command '{}'{}", command,
                                   suggest(command, commands)));
  auto known = make_options(command);
  const auto options = parse_words(known, words);
  if (const auto dir = options["dir"].as<std::string>(); is_in_store(dir))
    throw config_error(fmt::format(
        "lockstep artifacts {}: --dir {}: the sink `bucket` sends no artifacts; valid: the "
        "directory of the runs on the machine that has them",
        command, printable(dir, 200)));
  const int code = ArtifactsCommand(command, options, out, notes).run();
  if (!out.flush())
    throw environment_error(fmt::format("lockstep artifacts {}: cannot write the output", command));
  return code;
}

int artifacts_command(int argc, char** argv) {
  return run_artifacts_command({argv + 1, argv + argc}, std::cout, std::cerr);
}

}  // namespace lockstep::cli
