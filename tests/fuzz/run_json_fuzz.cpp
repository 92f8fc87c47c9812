// Arbitrary bytes as run.json, end.json and facts of a run directory yield a RunInfo, a RunEnd, an
// EndFact or nothing. Values survive a round trip.
#include <cstdlib>
#include <string>

#include "lockstep/run_info.h"
#include "tests/fuzz/seeds.h"
#include "tracking/runs/end_facts.h"

namespace lockstep {
namespace {

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

template <class Read>
void verify(const Json& json, const Read& read) {
  const auto first = read(json);
  if (!first) return;
  const auto written = text_of(to_json(*first));
  const auto second = read(Json::parse(written));
  if (!second || text_of(to_json(*second)) != written) std::abort();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const RunInfo info{.id = "mnist-1",
                     .name = "mnist",
                     .group = "sweep",
                     .job_id = "mnist-1",
                     .rank = 1,
                     .world_size = 2,
                     .host = "node1",
                     .pid = 42,
                     .created = 1.7e9,
                     .command = {"lockstep-trainer", "mnist.yaml"}};
  const RunEnd end{
      .state = RunState::Failed, .exit_code = 78, .signal = 9, .rank = 1, .reason = "gone"};
  return {text_of(to_json(info)), text_of(to_json(end)), text_of(to_json(RunEnd{})),
          text_of(to_json(
              tracking::EndFact{.by = tracking::Witness::Agent, .end = end, .time = 1.7e9}))};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const auto json = Json::parse(data, data + size, nullptr, false);
  verify(json, run_info_from_json);
  verify(json, run_end_from_json);
  verify(json, tracking::end_fact_from_json);
  return 0;
}
