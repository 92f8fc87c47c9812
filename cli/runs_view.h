// The pages of `lockstep runs`: what is known about runs, as JSON and as text for people.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/config_value.h"
#include "tracking/run_list.h"

namespace lockstep {

// JSON has no NaN and no infinities: they become the strings "nan", "inf" and "-inf".
Json number_json(double value);

// Last value of every metric; a value of the run as a whole goes before the logged one of the same
// name.
Json summary_json(const RunRecord& record);

// One element of `runs list --json`.
Json entry_json(const RunRecord& record);

// `runs show --json`. `records` are the entries of one job, or one entry; not empty.
Json page_json(const std::vector<RunRecord>& records);

// The state of a job: that of the entry that fared worst.
RunState job_state(const std::vector<RunRecord>& records);

// {"runs": [ids], "config": {key: {id: value}}, "metrics": {name: {id: {last, min, max, step,
// count}}}}: of the config only keys that differ, as "optimizer.lr". Throws Config when a run is
// given twice.
Json comparison_json(const std::vector<std::vector<RunRecord>>& runs);
void print_comparison(const Json& comparison, std::ostream& out);

void print_table(const std::vector<RunRecord>& records, double now, std::ostream& out);
void print_page(const std::vector<RunRecord>& records, double now, std::ostream& out);

// One CSV or JSONL row per value: metric, step, time (unix seconds), value, rank. Throws
// Environment when a log cannot be read.
void export_csv(const std::vector<RunRecord>& records, std::ostream& out);
void export_jsonl(const std::vector<RunRecord>& records, std::ostream& out);

// JSON text in which invalid UTF-8 is replaced.
std::string json_text(const Json& json, int indent);

}  // namespace lockstep
