#include "cli/runs/runs_changes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <vector>

#include "catalog/json_text.h"
#include "catalog/run_list.h"
#include "cli/aligned_text.h"
#include "core/config/nearest_name.h"
#include "core/config/size_text.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/artifacts/store.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_trash.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMinIdleSeconds = 3600;  // a file this old is not being written

// "30d", "12 h", "0s", in seconds.
double parse_age(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 7> kUnits = {{{"s", 1},
                                                                     {"min", 60},
                                                                     {"h", 3600},
                                                                     {"d", 86400},
                                                                     {"day", 86400},
                                                                     {"days", 86400},
                                                                     {"w", 7 * 86400.0}}};
  double count = 0;
  const auto* end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, count, std::chars_format::fixed);
  auto unit = std::string(number.ptr, end);
  if (unit.starts_with(' ')) unit.erase(0, 1);
  if (number.ec == std::errc{} && count >= 0 && std::isfinite(count))
    for (const auto& [name, seconds] : kUnits)
      if (unit == name) return count * seconds;
  throw config_error(fmt::format(
      "lockstep runs gc: --older-than '{}': expected an age such as 30d, 12h, 90min, 2w",
      printable(text)));
}

std::set<RunState> parse_states(const std::string& text) {
  const std::vector<std::string> valid = {"finished", "failed", "killed", "preempted", "lost"};
  std::set<RunState> states;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto state = parse_state(word);
    if (!state || *state == RunState::Running)
      throw config_error(fmt::format("lockstep runs gc: --state '{}' is unknown{}", printable(word),
                                     suggest(word, valid)));
    states.insert(*state);
  }
  if (states.empty()) throw config_error("lockstep runs gc: --state is empty");
  return states;
}

// Performs the removals of gc and collects its report.
class Removals {
 public:
  Removals(bool dry_run, std::ostream& notes) : dry_run_(dry_run), notes_(notes) {}

  template <class Remove>
  void remove(const char* kind, const fs::path& path, const Remove& remove) {
    const auto bytes = tracking::tree_bytes(path);
    attempt([&] {
      if (!dry_run_) remove();
      add(kind, path, bytes);
    });
  }
  template <class Call>
  void attempt(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      notes_ << "note: " << error.what() << "\n";
      complete_ = false;
    }
  }
  void add(const char* kind, const fs::path& path, uint64_t bytes) {
    removed_.push_back({{"kind", kind}, {"path", path.string()}, {"bytes", bytes}});
    bytes_ += bytes;
  }
  void print(bool json, std::ostream& out) const {
    if (json) {
      out << catalog::to_text({{"dry_run", dry_run_}, {"removed", removed_}, {"bytes", bytes_}}, 2)
          << "\n";
      return;
    }
    std::vector<TextRow> rows;
    for (const auto& entry : removed_)
      rows.push_back({entry["kind"], size_text(entry["bytes"].get<uint64_t>()),
                      printable(entry["path"].get<std::string>(), 4096)});
    if (!rows.empty()) print_aligned(rows, out);
    out << fmt::format("{}: {} in {}\n", dry_run_ ? "would be removed" : "removed",
                       size_text(bytes_), removed_.size());
  }
  bool complete() const { return complete_; }

 private:
  bool dry_run_;
  std::ostream& notes_;
  Json removed_ = Json::array();
  uint64_t bytes_ = 0;
  bool complete_ = true;
};

std::map<fs::path, catalog::RunSnapshot> jobs_of(catalog::RunList& runs) {
  std::map<fs::path, catalog::RunSnapshot> jobs;
  for (const auto& entry : runs.all()) jobs.emplace(entry.run->dir, entry.run);
  return jobs;
}

void remove_artifact_garbage(const CollectGarbage& request, Removals& removals) {
  const tracking::ArtifactStore store(request.runs / "artifacts");
  removals.attempt([&] {
    const auto garbage = store.gc(true);
    std::vector<uint64_t> sizes;
    for (const auto& path : garbage.paths)
      sizes.push_back(tracking::tree_bytes(store.directory() / path));
    if (!request.dry_run) store.gc(false);
    for (size_t i = 0; i < garbage.paths.size(); ++i)
      removals.add("artifact", store.directory() / garbage.paths[i], sizes[i]);
  });
}

std::string confirmation(const std::string& id, const catalog::RunSummary& run) {
  return fmt::format("delete run '{}' ({}, {}, in {})?", id, state_name(run.state),
                     size_text(tracking::tree_bytes(run.dir)), run.dir.string());
}

}  // namespace

int delete_run(const DeleteRun& request, const RunsStreams& streams) {
  catalog::RunList runs(request.runs);
  const auto found = runs.find(request.id);
  catalog::NameTable names;
  const auto run = read_run(found.front().run->dir, names);  // its current state
  const auto& dir = run->dir;
  const auto& id = found.front().info().job_id;
  if (found.size() < entries_of(run, names).size())
    throw config_error(
        fmt::format("lockstep runs delete: '{}' is one entry of run '{}'; delete the whole run",
                    found.front().info().id, id));
  if (const auto reason = why_in_use(*run); !reason.empty())
    throw config_error(fmt::format("lockstep runs delete: run '{}' is in use: {}", id, reason));
  if (!request.yes && !streams.ask)
    throw config_error(fmt::format(
        "lockstep runs delete: cannot ask for confirmation without a terminal; to delete run '{}', "
        "use --yes",
        id));
  const auto bytes = tracking::tree_bytes(dir);
  const bool confirmed = request.yes || streams.ask(confirmation(id, *run));
  if (confirmed) tracking::remove_run(request.runs, dir);
  if (request.json)
    streams.out << catalog::to_text(
                       {{"id", id}, {"deleted", confirmed}, {"bytes", confirmed ? bytes : 0}}, 2)
                << "\n";
  else
    streams.out << (confirmed ? fmt::format("deleted {}, {}\n", id, size_text(bytes))
                              : fmt::format("kept {}\n", id));
  return 0;
}

int collect_garbage(const CollectGarbage& request, const RunsStreams& streams) {
  const bool choose = request.older_than || request.state;
  const auto age = request.older_than ? parse_age(*request.older_than) : kMinIdleSeconds;
  const auto states = request.state ? parse_states(*request.state) : std::set<RunState>();
  const auto now = tracking::unix_now();
  catalog::RunList runs(request.runs);
  Removals removals(request.dry_run, streams.notes);
  for (const auto& path : tracking::trash_of(request.runs))
    removals.remove("trash", path, [&] { tracking::remove_tree(path); });
  for (const auto& [dir, run] : jobs_of(runs)) {
    if (!why_in_use(*run).empty()) continue;
    const bool in_state = states.empty() || states.contains(run->state);
    if (choose && in_state && now - last_written(*run) >= age) {
      removals.remove("run", dir, [&, &dir = dir] { tracking::remove_run(request.runs, dir); });
      continue;
    }
    for (const auto& path : tracking::temporaries_of(dir, now - kMinIdleSeconds))
      removals.remove("temporary", path, [&] { tracking::remove_tree(path); });
  }
  remove_artifact_garbage(request, removals);
  removals.print(request.json, streams.out);
  return removals.complete() ? 0 : static_cast<int>(ErrorKind::Environment);
}

}  // namespace lockstep::cli
