// Arbitrary text as a filter of the list of runs either selects runs or is rejected with a column
// inside the text, in bounded time.

#include <cmath>
#include <cstdlib>
#include <string>

#include "dashboard/filter/run_filter.h"
#include "tests/fuzz/seeds.h"

namespace {

lockstep::catalog::RunSummary sample_run(lockstep::catalog::NameTable& names) {
  lockstep::catalog::RunSummary run{.id = "mnist-1"};
  run.info.name = "MNIST";
  run.info.created = 1000;
  run.tags.tags = {"baseline"};
  run.config = lockstep::catalog::flatten_config(
      lockstep::Json::parse(R"({"optimizer": {"name": "sgd", "lr": 0.1}, "amp": true})"), names);
  run.sources.emplace_back();
  run.sources[0].metrics.push_back(
      {.name = names.add("eval/accuracy"), .last = std::nan(""), .count = 1});
  return run;
}

}  // namespace

std::vector<std::string> lockstep::fuzz_seeds() {
  return {"state = failed and config.optimizer.lr >= 0.1 and (tag = baseline or created > 7d)",
          "max(eval/accuracy) < 0.9 or not has group",
          "name = \"MN*ST\" 'quoted \\' text' state in (finished, lost, \"x\")",
          "config.optimizer.name !~ sg duration > 2h created < \"2026-11-21 06:03\"",
          "not not (((a)))"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static lockstep::catalog::NameTable names;
  static const auto run = sample_run(names);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    lockstep::dashboard::RunFilter(text, 1e9).matches(run, names);
  } catch (const lockstep::dashboard::FilterError& error) {
    if (error.column < 1 || error.column > size + 1) std::abort();
  }
  return 0;
}
