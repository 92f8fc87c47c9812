#include "tracking/runs/end_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr std::array kWitnesses = {"launcher", "trainer", "agent"};  // in the order of Witness

const char* name_of(Witness witness) { return kWitnesses[static_cast<size_t>(witness)]; }
fs::path facts_path(const fs::path& run_dir) { return run_dir / "ends"; }
fs::path end_path(const fs::path& run_dir) { return run_dir / "end.json"; }
Json read_json(const fs::path& path) { return parse_json(read_file(path)); }

void write_json(const fs::path& path, const Json& json) {
  write_file_durably(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

EndFacts read_files(const fs::path& run_dir) {
  EndFacts facts;
  std::error_code error;
  for (fs::directory_iterator it(facts_path(run_dir), error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".json")
      if (auto fact = end_fact_from_json(read_json(it->path()))) facts.push_back(std::move(*fact));
  return facts;
}

// Witnesses write concurrently: the last one to write end.json has read all facts.
void publish(const fs::path& run_dir) {
  EndFacts before, facts = read_files(run_dir);
  do {
    if (facts.empty()) {
      if (::unlink(end_path(run_dir).c_str()) != 0 && errno != ENOENT)
        throw errno_error(fmt::format("cannot remove {}", end_path(run_dir).string()));
    } else {
      auto json = to_json(resolve(facts));
      // Agents of earlier versions wait for this key.
      if (std::ranges::count(facts, Witness::Launcher, &EndFact::by) > 0) json["confirmed"] = true;
      write_json(end_path(run_dir), json);
    }
    before = std::exchange(facts, read_files(run_dir));
  } while (facts != before);
}

int standing(const EndFact& fact) {
  if (fact.is_consequence) return fact.by == Witness::Launcher ? 5 : 4;
  switch (fact.by) {
    case Witness::Launcher: return 0;
    case Witness::Trainer: return fact.end.state == RunState::Finished ? 3 : 1;
    case Witness::Agent: return 2;
  }
  return 5;
}

}  // namespace

std::optional<EndFact> end_fact_from_json(const Json& json) {
  auto end = run_end_from_json(json);
  if (!end) return std::nullopt;
  const auto by = json.value("by", Json()), number = json.value("number", Json()),
             time = json.value("time", Json());
  const auto* const witness =
      std::ranges::find_if(kWitnesses, [&](const char* name) { return by == name; });
  if (witness == kWitnesses.end()) return std::nullopt;
  return EndFact{.by = static_cast<Witness>(witness - kWitnesses.begin()),
                 .number = number.is_number_integer() ? number.get<int>() : 0,
                 .end = std::move(*end),
                 .is_consequence = json.value("consequence", Json()) == true,
                 .time = time.is_number() ? time.get<double>() : 0};
}

Json to_json(const EndFact& fact) {
  auto json = to_json(fact.end);
  json.update({{"by", name_of(fact.by)},
               {"number", fact.number},
               {"consequence", fact.is_consequence},
               {"time", fact.time}});
  return json;
}

const EndFact* decisive_fact(const EndFacts& facts) {
  const auto it = std::ranges::min_element(facts, {}, [](const EndFact& fact) {
    return std::make_tuple(standing(fact), fact.time, fact.number);
  });
  return it == facts.end() ? nullptr : &*it;
}

RunEnd resolve(const EndFacts& facts, const std::optional<RunEnd>& logged, bool has_writer) {
  const auto* fact = decisive_fact(facts);
  const bool ends_by_rank =
      !fact || (fact->by == Witness::Trainer && fact->end.state == RunState::Finished);
  if (fact && !(ends_by_rank && logged)) return fact->end;
  return logged.value_or(RunEnd{.state = has_writer ? RunState::Running : RunState::Lost});
}

EndFacts read_end_facts(const fs::path& run_dir) {
  auto facts = read_files(run_dir);
  std::error_code ignored;
  if (facts.empty() && fs::exists(end_path(run_dir), ignored))
    if (const auto end = run_end_from_json(read_json(end_path(run_dir))))
      facts.push_back({.by = Witness::Launcher, .end = *end});
  return facts;
}

std::optional<RunEnd> read_run_end(const fs::path& run_dir) {
  const auto facts = read_end_facts(run_dir);
  return facts.empty() ? std::nullopt : std::optional(resolve(facts));
}

void record_end(const fs::path& run_dir, const EndFact& fact) {
  std::error_code error;
  fs::create_directory(facts_path(run_dir), error);
  write_json(facts_path(run_dir) / fmt::format("{}-{:05}.json", name_of(fact.by), fact.number),
             to_json(fact));
  // There may be one of these per rank, including rank 0.
  const bool is_one_of_many =
      fact.by == Witness::Trainer && fact.is_consequence && !is_main(fact.number);
  if (!is_one_of_many) publish(run_dir);
}

void clear_end(const fs::path& run_dir) {
  const auto facts = facts_path(run_dir).string(), old = facts + fmt::format(".tmp-{}", ::getpid());
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (::rename(facts.c_str(), old.c_str()) != 0 && errno != ENOENT)
    throw errno_error(fmt::format("cannot remove {}", facts));
  publish(run_dir);
  fs::remove_all(old, ignored);
}

}  // namespace lockstep::tracking
