// The output of `lockstep runs`, as JSON and as text.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/json_text.h"
#include "catalog/run_list.h"

namespace lockstep::cli {

// Last value of every metric. Summary values of the run override logged values of the same name.
Json summary_json(const catalog::RunEntry& entry);

// One element of `runs list --json`.
Json entry_json(const catalog::RunEntry& entry);

// `runs show --json`. `entries` are those of one job, or one of them; not empty.
Json page_json(const std::vector<catalog::RunEntry>& entries);

// {"runs": [ids], "config": {key: {id: value}}, "metrics": {name: {id: {last, min, max, step,
// count}}}, "code": {"commit": {id: commit}, "uncommitted": {id: text}}}: only config keys that
// differ, such as "optimizer.lr"; "code" if a run has a record of it. Throws Config if a run is
// given twice.
Json comparison_json(const std::vector<std::vector<catalog::RunEntry>>& runs);
void print_comparison(const Json& comparison, std::ostream& out);

void print_table(const std::vector<catalog::RunEntry>& entries, double now, std::ostream& out);
void print_page(const std::vector<catalog::RunEntry>& entries, double now, std::ostream& out);
// Order of metrics in texts: evaluation 0, training 1, others 2, times 3, the machine 4.
int metric_order(std::string_view name);
// Prints what could not be read.
void print_notes(const std::vector<catalog::RunEntry>& entries, std::ostream& out);

// Throws Config if `file`, the value of `option` of `lockstep runs export`, is a directory, or in one
// that does not exist.
void verify_output(const std::string& option, const std::filesystem::path& file);

// One CSV or JSONL row per value: metric, step, time (unix seconds), value, rank. Throws
// Environment if a log cannot be read.
void export_csv(const std::vector<catalog::RunEntry>& entries, std::ostream& out);
void export_jsonl(const std::vector<catalog::RunEntry>& entries, std::ostream& out);

}  // namespace lockstep::cli
