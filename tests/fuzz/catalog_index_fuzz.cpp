// Arbitrary bytes as an entry of the dashboard's index: a run that is read from them is written
// back as the same bytes.

#include "catalog/index/catalog_index.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "catalog/index/index_codec.h"
#include "tests/fuzz/seeds.h"

using namespace lockstep;

namespace {

catalog::NameTable& names() {
  static catalog::NameTable table;
  for (const char* name : {"train/loss", "optimizer.lr", "adamw", "eval/errors"}) table.add(name);
  return table;
}

catalog::RunSummary some_run() {
  catalog::RunSummary run;
  run.id = "mnist-1";
  run.info.id = run.info.job_id = "mnist-1";
  run.info.group = "sweep";
  run.info.command = {"lockstep", "launch"};
  run.state = RunState::Failed;
  RunEnd end;
  end.state = RunState::Failed;
  end.exit_code = 78;
  end.rank = 1;
  run.end = end;
  run.tags.tags = {"good"};
  run.config = {{1, {.type = catalog::FieldValue::Type::Number, .number = 0.1}},
                {2, {.type = catalog::FieldValue::Type::Text, .text = 2}}};
  run.job_problem = "corrupt";
  run.written.name = "mnist";
  run.end_facts = {{.by = tracking::Witness::Launcher, .end = end}};
  auto& source = run.sources.emplace_back();
  source.source = "rank-0";
  source.end = end;
  source.metrics = {{.name = 0, .last = NAN, .min = 1, .count = 2, .num_nan = 1}};
  source.media = {{.kind = catalog::MediaTotals::Kind::Image, .name = 3, .count = 1}};
  source.summary = {{0, 1.5}};
  auto& alert = source.alerts.emplace_back();
  alert.title = "slow";
  alert.text = "rank 1";
  alert.step = 7;
  return run;
}

}  // namespace

std::vector<std::string> lockstep::fuzz_seeds() {
  catalog::IndexWriter writer(names());
  return {encode_indexed_run(writer, some_run(), 17),
          encode_indexed_run(writer, catalog::RunSummary(), 0)};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto run = catalog::decode_indexed_run(bytes, {0, 1, 2, 3});
  if (!run) return 0;
  // Indices may be renumbered, booleans may be any byte: the second round trip changes nothing.
  catalog::IndexWriter writer(names());
  const auto once = encode_indexed_run(writer, run->summary, run->stamp);
  std::vector<uint32_t> places;
  for (const auto& text : writer.texts()) places.push_back(names().find(text));
  const auto again = catalog::decode_indexed_run(once, places);
  if (!again || once.size() != size) std::abort();
  catalog::IndexWriter other(names());
  if (encode_indexed_run(other, again->summary, again->stamp) != once) std::abort();
  return 0;
}
