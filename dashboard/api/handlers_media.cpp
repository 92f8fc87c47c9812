// Handlers of images, sounds, videos, pages, histograms, tables and messages, which are read from the
// event logs on request.
#include <fmt/format.h>

#include <algorithm>

#include "catalog/json_text.h"
#include "core/http/http_address.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "tracking/log/clip_type.h"

namespace lockstep::dashboard {
namespace {

struct PlacedRecord {
  std::string source;
  catalog::RecordPlace place;
};

// The records of a kind that the request selects, by time.
std::vector<PlacedRecord> requested_records(const catalog::RunLogs& logs,
                                            const catalog::NameTable& names,
                                            const ApiRequest& request,
                                            catalog::RecordPlace::Kind kind) {
  const auto source = request.param("source"), name = request.param("name");
  const auto number = name ? names.find(*name) : catalog::NameTable::kNone;
  std::vector<PlacedRecord> records;
  logs.look([&](const auto& all) {
    for (const auto& log : all) {
      if (source && log->name().source() != *source) continue;
      for (const auto& place : log->places())
        if (place.kind == kind && (!name || place.name == number))
          records.push_back({log->name().source(), place});
    }
  });
  std::ranges::stable_sort(records, {}, [](const auto& record) { return record.place.time; });
  return records;
}

template <class T>
std::optional<T> read_placed(const catalog::RunLogs& logs, const PlacedRecord& record) {
  return logs.look([&](const auto& all) -> std::optional<T> {
    for (const auto& log : all) {
      if (log->name().source() != record.source) continue;
      auto read = log->read_record(record.place);
      if (auto* value = read ? std::get_if<T>(&*read) : nullptr) return std::move(*value);
    }
    return std::nullopt;
  });
}

std::optional<catalog::ClipHead> clip_head(const catalog::RunLogs& logs,
                                           const PlacedRecord& record) {
  return logs.look([&](const auto& all) -> std::optional<catalog::ClipHead> {
    for (const auto& log : all)
      if (log->name().source() == record.source)
        if (const auto* head = log->clip_head(record.place)) return *head;
    return std::nullopt;
  });
}

Json moment_json(const PlacedRecord& record) {
  return {{"source", record.source},
          {"step", record.place.step},
          {"time", catalog::number_value(record.place.time)},
          {"epoch", catalog::number_value(record.place.epoch)},
          {"at", record.place.end}};
}

// Up to `limit` records at even distances, including the last.
std::vector<PlacedRecord> sample_evenly(const std::vector<PlacedRecord>& records, size_t limit) {
  if (records.size() <= limit) return records;
  std::vector<PlacedRecord> sample;
  for (size_t i = 0; i < limit; ++i)
    sample.push_back(records[(i + 1) * records.size() / limit - 1]);
  return sample;
}

uint64_t parse_position(const std::string& text) {
  if (const auto number = parse_number<uint64_t>(text)) return *number;
  throw bad_request(fmt::format("at: expected a position in the log, got '{}'", printable(text)));
}

TextLevel parse_level(const std::string& name) {
  for (const auto level : {TextLevel::Debug, TextLevel::Info, TextLevel::Warning, TextLevel::Error})
    if (name == level_name(level)) return level;
  throw bad_request("level: expected debug, info, warning or error");
}

// Those after the newest `offset`, the newest first.
std::vector<PlacedRecord> newest_records(const catalog::RunLogs& logs, Dashboard& dashboard,
                                         const ApiRequest& request,
                                         catalog::RecordPlace::Kind kind) {
  auto records = requested_records(logs, dashboard.catalog.names(), request, kind);
  records.resize(records.size() - request.count("offset", 0, records.size()));
  std::ranges::reverse(records);
  return records;
}

// The record of .../SOURCE/AT.ending; nullopt if there is none.
template <class T>
std::optional<T> record_of_path(Dashboard& dashboard, const RunRequest& request,
                                catalog::RecordPlace::Kind kind) {
  if (request.rest.size() != 3) return std::nullopt;
  const auto at = parse_position(request.rest[2].substr(0, request.rest[2].find('.')));
  const auto logs = open_logs(dashboard, request.run->id);
  ApiRequest query;
  query.params = {{"source", request.rest[1]}};
  for (const auto& record : requested_records(*logs, dashboard.catalog.names(), query, kind))
    if (record.place.end == at)
      if (auto value = read_placed<T>(*logs, record)) return value;
  return std::nullopt;
}

}  // namespace

ApiResponse get_images(Dashboard& dashboard, const RunRequest& request) {
  const auto logs = open_logs(dashboard, request.run->id);
  const auto records =
      newest_records(*logs, dashboard, request.request, catalog::RecordPlace::Kind::Image);
  const auto limit = request.request.count("limit", 100, 500);
  auto items = Json::array();
  for (size_t i = 0; i < std::min(limit, records.size()); ++i) {
    const auto image = read_placed<Image>(*logs, records[i]);
    if (!image) continue;
    auto item = moment_json(records[i]);
    item["name"] = image->at.name;
    item["width"] = image->width;
    item["height"] = image->height;
    item["caption"] = image->caption;
    item["url"] = fmt::format("/api/runs/{}/images/{}/{}.png", percent_encoded(request.run->id),
                              records[i].source, records[i].place.end);
    items.push_back(std::move(item));
  }
  return json_response({{"items", items}, {"more", records.size() > limit}});
}

ApiResponse get_image(Dashboard& dashboard, const RunRequest& request) {
  auto image = record_of_path<Image>(dashboard, request, catalog::RecordPlace::Kind::Image);
  if (!image || !request.rest[2].ends_with(".png")) throw not_found("image not found");
  return {.type = "image/png", .body = std::move(image->png)};
}

ApiResponse get_clips(Dashboard& dashboard, const RunRequest& request) {
  const auto& names = dashboard.catalog.names();
  const auto logs = open_logs(dashboard, request.run->id);
  const auto records =
      newest_records(*logs, dashboard, request.request, catalog::RecordPlace::Kind::Clip);
  const auto limit = request.request.count("limit", 100, 500);
  auto items = Json::array();
  for (size_t i = 0; i < std::min(limit, records.size()); ++i) {
    const auto clip = clip_head(*logs, records[i]);
    const auto* type = clip ? tracking::find_clip_type(clip->type) : nullptr;
    if (!type) continue;
    auto item = moment_json(records[i]);
    item["name"] = names.text(records[i].place.name);
    item["type"] = type->type;
    item["bytes"] = clip->num_bytes;
    item["caption"] = clip->caption;
    item["url"] = fmt::format("/api/runs/{}/clips/{}/{}{}", percent_encoded(request.run->id),
                              records[i].source, records[i].place.end, type->ending);
    items.push_back(std::move(item));
  }
  return json_response({{"items", items}, {"more", records.size() > limit}});
}

ApiResponse get_clip(Dashboard& dashboard, const RunRequest& request) {
  auto clip = record_of_path<Clip>(dashboard, request, catalog::RecordPlace::Kind::Clip);
  const auto* type = clip ? tracking::find_clip_type(clip->type) : nullptr;
  if (!type || !request.rest[2].ends_with(type->ending)) throw not_found("clip not found");
  if (type->kind == tracking::ClipKind::Page)
    return {.type = std::string(type->type) + "; charset=utf-8",
            .body = std::move(clip->bytes),
            .is_sandboxed = true};
  return {.type = std::string(type->type), .body = std::move(clip->bytes)};
}

ApiResponse get_histograms(Dashboard& dashboard, const RunRequest& request) {
  const auto logs = open_logs(dashboard, request.run->id);
  const auto records = requested_records(*logs, dashboard.catalog.names(), request.request,
                                         catalog::RecordPlace::Kind::Histogram);
  std::string text = fmt::format("{{\"total\":{},\"items\":[", records.size());
  bool first = true;
  for (const auto& record : sample_evenly(records, request.request.count("limit", 100, 1000, 1))) {
    const auto histogram = read_placed<Histogram>(*logs, record);
    if (!histogram) continue;
    if (!first) text += ',';
    first = false;
    const auto head = catalog::to_text(moment_json(record));
    text.append(head, 0, head.size() - 1);
    text += ",\"name\":";
    catalog::append_text(text, histogram->at.name);
    text += ",\"edges\":";
    catalog::append_numbers(text, histogram->edges);
    text += ",\"counts\":";
    catalog::append_numbers(text, histogram->counts);
    text += '}';
  }
  return {.body = text + "]}"};
}

ApiResponse get_tables(Dashboard& dashboard, const RunRequest& request) {
  const auto logs = open_logs(dashboard, request.run->id);
  const auto records = requested_records(*logs, dashboard.catalog.names(), request.request,
                                         catalog::RecordPlace::Kind::Table);
  if (records.empty()) throw not_found("table not found");
  auto versions = Json::array();
  for (const auto& record : sample_evenly(records, 1000)) versions.push_back(moment_json(record));
  auto chosen = records.end() - 1;
  if (const auto at = request.request.param("at"))
    chosen = std::ranges::find_if(records, [place = parse_position(*at)](const auto& record) {
      return record.place.end == place;
    });
  if (chosen == records.end()) throw not_found("table not found");
  const auto table = read_placed<Table>(*logs, *chosen);
  if (!table) throw not_found("table not found");
  const auto offset =
      std::min(request.request.count("offset", 0, SIZE_MAX / 2), table->rows.size());
  const auto limit = request.request.count("rows", 100, 10000);
  auto rows = Json::array();
  for (size_t i = offset; i < std::min(offset + limit, table->rows.size()); ++i)
    rows.push_back(catalog::finite_value(table->rows[i]));
  return json_response({{"versions", versions},
                        {"at", chosen->place.end},
                        {"columns", table->columns},
                        {"rows", rows},
                        {"num_rows", table->rows.size()}});
}

ApiResponse get_texts(Dashboard& dashboard, const RunRequest& request) {
  const auto logs = open_logs(dashboard, request.run->id);
  auto records = requested_records(*logs, dashboard.catalog.names(), request.request,
                                   catalog::RecordPlace::Kind::Text);
  if (const auto level = request.request.param("level"))
    std::erase_if(records, [min = static_cast<uint8_t>(parse_level(*level))](const auto& record) {
      return record.place.level < min;
    });
  const auto limit = request.request.count("limit", 200, 5000);
  const auto requested = request.request.number("offset").value_or(0);
  const auto total = static_cast<double>(records.size());
  const auto offset =
      static_cast<size_t>(std::clamp(requested < 0 ? total + requested : requested, 0.0, total));
  auto items = Json::array();
  for (size_t i = offset; i < std::min(offset + limit, records.size()); ++i)
    if (const auto text = read_placed<TextLine>(*logs, records[i]))
      items.push_back({{"source", records[i].source},
                       {"time", catalog::number_value(text->time)},
                       {"level", level_name(text->level)},
                       {"line", text->line}});
  return json_response({{"total", records.size()}, {"offset", offset}, {"items", items}});
}

}  // namespace lockstep::dashboard
