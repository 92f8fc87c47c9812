#include "catalog/run_ending.h"

#include "core/error.h"

namespace lockstep {

RunEnd end_of_rank(const RunSummary& run, const SourceSummary* rank) {
  if (!rank) return resolve(run.end_facts);
  return resolve(run.end_facts, rank->end, rank->state == RunState::Running);
}

void add_end(RunSummary& run) {
  try {
    run.end_facts = read_end_facts(run.dir);
  } catch (const Error& error) {
    run.end_problem = error.what();
  }
  std::optional<RunEnd> worst;
  for (auto& source : run.sources) {
    if (source.is_node) continue;
    auto end = end_of_rank(run, &source);
    source.state = end.state;
    if (!worst || severity(end.state) > severity(worst->state)) worst = std::move(end);
  }
  if (!worst) worst = end_of_rank(run, nullptr);
  run.state = worst->state;
  if (has_ended(run.state)) run.end = std::move(worst);
}

}  // namespace lockstep
