#include "dashboard/api/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/json_text.h"
#include "dashboard/api/assets.h"
#include "dashboard/api/console_files.h"
#include "dashboard/api/handlers.h"
#include "dashboard/curves/curve_order.h"
#include "dashboard/curves/downsampling.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kReportColumns = 2000, kReportRanks = 8, kReportRuns = 50, kReportImages = 50;
constexpr size_t kReportHeatmaps = 8, kReportHeatColumns = 300;
constexpr size_t kReportHistograms = 50, kReportMedia = 50, kReportRows = 2000, kReportTexts = 200;
// Console output: the last lines of each stream, and the bytes of a run.
constexpr size_t kReportLines = 200, kReportLineBytes = 64u << 10, kReportConsoleBytes = 1u << 20;
constexpr std::string_view kDataPlaceholder = "__LOCKSTEP_DATA__";

// Called after each addition to a part of the report, so that no part becomes much larger.
void require_size(const Dashboard& dashboard, size_t bytes) {
  if (bytes > dashboard.max_report_bytes)
    throw ApiError(413, "too_large",
                   fmt::format("the report would exceed {} MiB: select fewer runs",
                               dashboard.max_report_bytes >> 20));
}

// Appends a curve with all axes, downsampled by step.
void append_report_curve(std::string& text, const std::string& run, const catalog::LogIndex& log,
                         uint32_t metric, const std::string& name) {
  auto curve = log.read(metric, {.step = true, .time = true, .epoch = true});
  order_by(curve, catalog::CurveAxis::Step);
  const auto sample = downsample(curve.step, curve.value, {.columns = kReportColumns});
  const auto column = [&](const char* title, const std::vector<double>& values) {
    std::vector<double> selected;
    for (const auto i : sample.points) selected.push_back(values[i]);
    text += fmt::format(",\"{}\":", title);
    catalog::append_numbers(text, selected);
  };
  const auto head = catalog::to_text({{"run", run},
                                      {"source", log.name().source()},
                                      {"metric", name},
                                      {"raw", sample.raw},
                                      {"total", curve.value.size()}});
  text.append(head, 0, head.size() - 1);
  column("step", curve.step);
  column("epoch", curve.epoch);
  column("time", curve.time);
  column("value", curve.value);
  text += '}';
}

std::string series_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  std::string text = "[";
  for (const auto& run : runs) {
    const auto logs = open_logs(dashboard, run->id);
    logs->look([&](const auto& all) {
      size_t num_ranks = 0;
      for (const auto& log : all) {
        if (!log->name().is_node && ++num_ranks > kReportRanks) continue;
        for (const auto& metric : log->summary().metrics) {
          if (metric.count == 0) continue;
          if (text.size() > 1) text += ',';
          append_report_curve(text, run->id, *log, metric.name,
                              dashboard.catalog.names().text(metric.name));
          require_size(dashboard, text.size());
        }
      }
    });
  }
  return text + "]";
}

// For runs with several ranks: all metrics of ranks. In a comparison, also metrics whose curve is
// downsampled, so that the band over the runs has the mean of all values.
std::string bands_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  std::string text = "[";
  for (const auto& run : runs) {
    if (run->num_ranks == 0) continue;
    for (const auto& metric : run->sources.front().metrics) {
      const bool is_complete = run->num_ranks == 1 && metric.count <= 2 * kReportColumns;
      if (is_complete || (run->num_ranks == 1 && runs.size() == 1)) continue;
      ApiRequest request{.path = "/api/band"};
      request.params = {{"run", run->id},
                        {"metric", dashboard.catalog.names().text(metric.name)},
                        {"points", std::to_string(kReportColumns)}};
      auto body = get_band(dashboard, request).body;  // {"x":"step","bands":[{...}]}
      const auto begin = body.find("[{") + 1;
      if (text.size() > 1) text += ',';
      text += "{\"run\":";
      catalog::append_text(text, run->id);
      text += ',' + body.substr(begin + 1, body.size() - begin - 3);
      require_size(dashboard, text.size());
    }
  }
  return text + "]";
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += kDigits[word >> (18 - 6 * k) & 63];
  }
  // Padding for the missing bytes of the last group of three.
  for (size_t k = 0; k < (3 - bytes.size() % 3) % 3; ++k) text[text.size() - 1 - k] = '=';
  return text;
}

Json images_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  auto images = Json::array();
  size_t bytes = 0;
  for (const auto& run : runs) {
    ApiRequest request;
    request.params = {{"limit", std::to_string(kReportImages)}};
    const auto list = Json::parse(get_images(dashboard, {request, run, {"images"}}).body);
    for (auto item : list["items"]) {
      const auto file = fmt::format("{}.png", item["at"].get<uint64_t>());
      const auto png =
          get_image(dashboard, {request, run, {"images", item["source"].get<std::string>(), file}});
      bytes += png.body.size() / 3 * 4;
      require_size(dashboard, bytes);
      item["run"] = run->id;
      item["url"] = "data:image/png;base64," + base64(png.body);
      images.push_back(std::move(item));
    }
  }
  return images;
}

// Appends the response to `request` with the members {"run": ID, `more`...} to a list, unless it is
// an error.
void append_response(Dashboard& dashboard, std::string& list, const std::string& run,
                     const ApiRequest& request, const std::string& more = "") {
  const auto response = handle_api_request(dashboard, request);
  if (response.status != 200) return;
  if (list.size() > 1) list += ',';
  list += "{\"run\":";
  catalog::append_text(list, run);
  list += ',' + more + response.body.substr(1);
  require_size(dashboard, list.size());
}

// Rank by step, for the metrics named rank/*.
std::string heatmaps_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  std::string list = "[";
  for (const auto& run : runs) {
    size_t num_maps = 0;
    if (run->num_ranks == 0) continue;
    for (const auto& metric : run->sources.front().metrics) {
      const auto& name = dashboard.catalog.names().text(metric.name);
      if (!name.starts_with("rank/") || metric.count == 0 || ++num_maps > kReportHeatmaps) continue;
      ApiRequest request{.path = "/api/heatmap"};
      request.params = {
          {"run", run->id}, {"metric", name}, {"columns", std::to_string(kReportHeatColumns)}};
      append_response(dashboard, list, run->id, request);
    }
  }
  return list + "]";
}

// Histograms over time, or the last version of each table.
std::string media_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs,
                     catalog::MediaTotals::Kind kind) {
  std::string list = "[";
  for (const auto& run : runs) {
    size_t num_media = 0;
    for (const auto& source : run->sources)
      for (const auto& media : source.media) {
        if (media.kind != kind || ++num_media > kReportMedia) continue;
        const auto& name = dashboard.catalog.names().text(media.name);
        ApiRequest request{
            .path =
                fmt::format("/api/runs/{}/{}", run->id,
                            kind == catalog::MediaTotals::Kind::Table ? "tables" : "histograms")};
        request.params = {{"name", name},
                          {"source", source.source},
                          {"rows", std::to_string(kReportRows)},
                          {"limit", std::to_string(kReportHistograms)}};
        std::string more = "\"name\":";
        catalog::append_text(more, name);
        append_response(dashboard, list, run->id, request,
                        more + fmt::format(",\"source\":\"{}\",", source.source));
      }
  }
  return list + "]";
}

std::string texts_of(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  std::string list = "[";
  for (const auto& run : runs) {
    ApiRequest request{.path = fmt::format("/api/runs/{}/texts", run->id)};
    request.params = {{"level", "debug"},
                      {"offset", fmt::format("-{}", kReportTexts)},
                      {"limit", std::to_string(kReportTexts)}};
    append_response(dashboard, list, run->id, request);
  }
  return list + "]";
}

// The last lines that fit into `budget` bytes; subtracts their size from it.
Json last_lines(const ConsoleStream& stream, size_t& budget) {
  auto lines = read_console_tail(stream, kReportLines, true).lines;
  const auto max = std::min(kReportLineBytes, budget);
  size_t bytes = 0, kept = 0;
  for (; kept < lines.size(); ++kept) {
    const auto more = lines[lines.size() - 1 - kept].size() + 1;
    if (bytes + more > max) break;
    bytes += more;
  }
  budget -= bytes;
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kept));
  return lines;
}

// Adds the last lines of each stream of the last attempt. Removes the other streams from `detail`.
void add_console(Dashboard& dashboard, const catalog::RunSummary& run, Json& detail,
                 Json& console) {
  auto budget = kReportConsoleBytes;
  const auto streams = console_streams(*open_logs(dashboard, run.id));
  int last_attempt = 0;
  for (const auto& stream : streams) last_attempt = std::max(last_attempt, stream.attempt);
  auto included = Json::array();
  for (auto& entry : detail["console"]) {
    const auto name = entry["stream"].get<std::string>();
    const auto stream = std::ranges::find(streams, name, &ConsoleStream::name);
    if (stream == streams.end()) continue;
    if (!stream->recorded && stream->attempt != last_attempt) continue;
    auto lines = last_lines(*stream, budget);
    if (lines.empty()) continue;
    console.push_back({{"run", run.id}, {"stream", stream->name}, {"lines", std::move(lines)}});
    included.push_back(std::move(entry));
  }
  detail["console"] = std::move(included);
}

// Escapes '<', so that the JSON cannot end its script element.
void append_escaped(std::string& html, const std::string& json) {
  html.reserve(html.size() + json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<')
      html += "\\u003c";
    else
      html += c;
  }
}

std::string report_data(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  std::string details = "[";
  auto console = Json::array();
  for (const auto& run : runs) {
    auto head = run_head(dashboard, *run);
    add_console(dashboard, *run, head, console);
    if (details.size() > 1) details += ',';
    details += run_detail(head, *run, dashboard.catalog.names());
    require_size(dashboard, details.size());
  }
  std::string data = "{\"exported\":";
  catalog::append_number(data, tracking::unix_now());
  data += ",\"version\":" + catalog::to_text(kVersion) + ",\"runs\":" + details + ']';
  const auto add = [&](const char* name, const std::string& json) {
    data += fmt::format(",\"{}\":", name);
    data += json;
    require_size(dashboard, data.size());
  };
  add("series", series_of(dashboard, runs));
  add("bands", bands_of(dashboard, runs));
  add("heatmaps", heatmaps_of(dashboard, runs));
  add("histograms", media_of(dashboard, runs, catalog::MediaTotals::Kind::Histogram));
  add("tables", media_of(dashboard, runs, catalog::MediaTotals::Kind::Table));
  add("texts", texts_of(dashboard, runs));
  add("console", catalog::to_text(console));
  add("images", catalog::to_text(images_of(dashboard, runs)));
  add("compare", runs.size() > 1 ? catalog::to_text(comparison(dashboard, runs)) : "null");
  data += '}';
  return data;
}

std::string make_report(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  const auto html_template = report_template();
  const auto place = html_template.find(kDataPlaceholder);
  if (place == std::string_view::npos) throw not_found("this build has no report template");
  std::string html(html_template.substr(0, place));
  append_escaped(html, report_data(dashboard, runs));
  return html.append(html_template.substr(place + kDataPlaceholder.size()));
}

}  // namespace

std::string report_html(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs) {
  try {
    return make_report(dashboard, runs);
  } catch (const ApiError& error) {
    throw config_error(error.what());
  }
}

ApiResponse get_report(Dashboard& dashboard, const ApiRequest& request) {
  try {
    const auto runs = requested_runs(dashboard, request);
    if (runs.empty() || runs.size() > kReportRuns)
      throw bad_request(
          fmt::format("expected 1 to {} runs for a report, got {}", kReportRuns, runs.size()));
    const auto name = runs.size() == 1 ? runs.front()->id : "comparison";
    return {.type = "text/html; charset=utf-8",
            .body = make_report(dashboard, runs),
            .download = name + ".html"};
  } catch (const ApiError& error) {
    return error.response();
  } catch (const std::exception& error) {
    return ApiError(500, "internal", error.what()).response();
  }
}

}  // namespace lockstep::dashboard
