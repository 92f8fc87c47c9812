#include "catalog/index/catalog_index.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "catalog/index/index_codec.h"
#include "core/number_text.h"
#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::catalog {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexMagic = "LSRUNIDX";
constexpr uint32_t kIndexVersion = 5;
constexpr size_t kMaxIndexBytes = size_t{1} << 30;

// Reads and writes: `archive` is an IndexReader, or an IndexWriter with constant values.
template <class A, class Info>
void visit_info(A& archive, Info& info) {
  archive.value(info.id);
  archive.value(info.name);
  archive.value(info.group);
  archive.value(info.job_type);
  archive.value(info.job_id);
  archive.value(info.rank);
  archive.value(info.world_size);
  archive.value(info.node_rank);
  archive.value(info.local_rank);
  archive.value(info.host);
  archive.value(info.pid);
  archive.value(info.created);
  archive.list(info.command, [](A& a, auto& word) { a.value(word); });
  archive.value(info.planned.steps);
  archive.value(info.planned.epochs);
}

template <class A, class End>
void visit_end(A& archive, End& end) {
  archive.choice(end.state, RunState::Lost);
  archive.value(end.exit_code);
  archive.value(end.signal);
  archive.value(end.rank);
  archive.value(end.reason);
}

void visit_end_if_any(IndexWriter& archive, const std::optional<RunEnd>& end) {
  archive.value(end.has_value());
  if (end) visit_end(archive, *end);
}

void visit_end_if_any(IndexReader& archive, std::optional<RunEnd>& end) {
  bool has = false;
  archive.value(has);
  if (has) visit_end(archive, end.emplace());
}

template <class A, class Metric>
void visit_metric(A& archive, Metric& metric) {
  archive.name(metric.name);
  archive.value(metric.last);
  archive.value(metric.min);
  archive.value(metric.max);
  archive.value(metric.sum);
  archive.value(metric.step);
  archive.value(metric.count);
  archive.value(metric.num_nan);
}

template <class A, class Media>
void visit_media(A& archive, Media& media) {
  archive.choice(media.kind, MediaTotals::Kind::Clip);
  archive.name(media.name);
  archive.value(media.count);
  archive.value(media.first_step);
  archive.value(media.last_step);
}

template <class A, class AlertType>
void visit_alert(A& archive, AlertType& alert) {
  archive.value(alert.time);
  archive.choice(alert.level, TextLevel::Error);
  archive.value(alert.title);
  archive.value(alert.text);
  archive.value(alert.step);
}

template <class A, class Source>
void visit_source(A& archive, Source& source) {
  archive.value(source.source);
  archive.value(source.is_node);
  archive.value(source.number);
  visit_info(archive, source.info);
  archive.choice(source.state, RunState::Lost);
  visit_end_if_any(archive, source.end);
  archive.value(source.updated);
  archive.value(source.step);
  archive.value(source.epoch);
  archive.list(source.metrics, [](A& a, auto& metric) { visit_metric(a, metric); });
  archive.list(source.media, [](A& a, auto& media) { visit_media(a, media); });
  archive.list(source.summary, [](A& a, auto& entry) {
    a.name(entry.first);
    a.value(entry.second);
  });
  archive.list(source.alerts, [](A& a, auto& alert) { visit_alert(a, alert); });
  archive.value(source.num_alerts);
  archive.value(source.num_texts);
  archive.value(source.problem);
}

template <class A, class Run>
void visit_run(A& archive, Run& run) {
  archive.value(run.id);
  visit_info(archive, run.written);
  archive.value(run.is_written);
  visit_info(archive, run.info);
  archive.choice(run.state, RunState::Lost);
  visit_end_if_any(archive, run.end);
  archive.list(run.end_facts, [](A& a, auto& fact) {
    a.choice(fact.by, tracking::Witness::Agent);
    a.value(fact.number);
    visit_end(a, fact.end);
    a.value(fact.is_consequence);
    a.value(fact.time);
  });
  archive.list(run.tags.tags, [](A& a, auto& tag) { a.value(tag); });
  archive.value(run.tags.note);
  archive.value(run.tags.problem);
  archive.list(run.sources, [](A& a, auto& source) { visit_source(a, source); });
  archive.list(run.config, [](A& a, auto& leaf) {
    a.name(leaf.first);
    a.choice(leaf.second.type, FieldValue::Type::Text);
    a.value(leaf.second.number);
    a.name(leaf.second.text);
  });
  archive.value(run.job_problem);
  archive.value(run.end_problem);
  archive.value(run.updated);
  archive.value(run.step);
  archive.value(run.epoch);
  archive.value(run.num_ranks);
  archive.value(run.num_alerts);
}

void append_block(std::string& file, std::string_view payload) {
  const std::array<uint32_t, 2> head = {static_cast<uint32_t>(payload.size()),
                                        crc32c(payload.data(), payload.size())};
  file.append(reinterpret_cast<const char*>(head.data()), sizeof(head));
  file += payload;
}

// The next block, or nullopt if there is no complete one.
std::optional<std::string_view> next_block(std::string_view& file) {
  tracking::PayloadReader reader(file);
  uint32_t size = 0, sum = 0;
  if (!reader.take(size) || !reader.take(sum) || size > reader.rest().size()) return std::nullopt;
  const auto payload = reader.rest().substr(0, size);
  if (crc32c(payload.data(), payload.size()) != sum) return std::nullopt;
  file = reader.rest().substr(size);
  return payload;
}

// Their numbers in `names`; nullopt if another version wrote the file.
std::optional<std::vector<uint32_t>> read_texts(std::string_view& file, NameTable& names) {
  std::string_view magic = file.substr(0, kIndexMagic.size());
  tracking::PayloadReader head(file.substr(magic.size()));
  uint32_t format = 0;
  if (magic != kIndexMagic || !head.take(format) || format != kIndexVersion) return std::nullopt;
  file = head.rest();
  const auto block = next_block(file);
  const std::vector<uint32_t> none;
  IndexReader reader(block.value_or(std::string_view()), none);
  std::string version;
  std::vector<std::string> texts;
  reader.value(version);
  if (version != kVersion) return std::nullopt;
  reader.list(texts, [](IndexReader& a, std::string& text) { a.value(text); });
  if (!reader.is_whole()) return std::nullopt;
  std::vector<uint32_t> places;
  for (const auto& text : texts) places.push_back(names.add(text));
  return places;
}

}  // namespace

fs::path catalog_index_path(const fs::path& runs) { return runs / ".dashboard" / "index"; }

void write_catalog_index(const fs::path& path,
                         const std::vector<std::pair<RunSnapshot, uint64_t>>& runs,
                         const NameTable& names) {
  IndexWriter writer(names);
  std::string blocks;
  for (const auto& [run, stamp] : runs)
    append_block(blocks, encode_indexed_run(writer, *run, stamp));
  const auto texts = writer.texts();
  writer.value(std::string(kVersion));
  writer.list(texts, [](IndexWriter& a, const std::string& text) { a.value(text); });
  std::string file(kIndexMagic);
  file.append(reinterpret_cast<const char*>(&kIndexVersion), sizeof(kIndexVersion));
  append_block(file, writer.take());
  make_directories(path.parent_path());
  file += blocks;
  write_file_durably(path, file);
}

void remove_unfinished_indexes(const fs::path& path) {
  const auto prefix = path.filename().string() + ".tmp-";  // as write_file_durably() names them
  std::error_code error, ignored;
  for (fs::directory_iterator it(path.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto digits = std::string_view(name).substr(prefix.size());
    const auto writer = parse_number<pid_t>(digits).value_or(0);
    if (writer <= 0) continue;
    const bool is_gone = ::kill(writer, 0) != 0 && errno == ESRCH;
    // A file with our pid is from an earlier process: this one has not written yet.
    if (is_gone || writer == ::getpid()) fs::remove(it->path(), ignored);
  }
}

std::vector<IndexedRun> read_catalog_index(const fs::path& path, NameTable& names) {
  std::vector<IndexedRun> runs;
  std::string bytes;
  try {
    bytes = read_file(path, kMaxIndexBytes);
  } catch (const Error&) {
    return runs;  // No index: the logs are read.
  }
  std::string_view file(bytes);
  const auto places = read_texts(file, names);
  if (!places) return runs;
  while (const auto block = next_block(file))
    if (auto run = decode_indexed_run(*block, *places)) runs.push_back(std::move(*run));
  return runs;
}

std::string encode_indexed_run(IndexWriter& writer, const RunSummary& run, uint64_t stamp) {
  writer.value(stamp);
  visit_run(writer, run);
  return writer.take();
}

std::optional<IndexedRun> decode_indexed_run(std::string_view bytes,
                                             const std::vector<uint32_t>& places) {
  IndexReader reader(bytes, places);
  IndexedRun run;
  reader.value(run.stamp);
  visit_run(reader, run.summary);
  if (!reader.is_whole()) return std::nullopt;
  return run;
}

}  // namespace lockstep::catalog
