#include "ui/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/version.h"
#include "tracking/unix_time.h"
#include "ui/api_pages.h"
#include "ui/assets.h"
#include "ui/curve_order.h"
#include "ui/json_text.h"
#include "ui/point_choice.h"

namespace lockstep {
namespace {

constexpr size_t kReportColumns = 2000, kReportRanks = 8, kReportRuns = 50, kReportImages = 50;
constexpr std::string_view kDataPlace = "__LOCKSTEP_DATA__";

// With all axes, of the points that a drawing by steps needs.
void append_report_curve(std::string& text, const std::string& run, const LogIndex& log,
                         uint32_t metric, const std::string& name) {
  auto curve = log.read(metric, {.step = true, .time = true, .epoch = true});
  order_by(curve, CurveAxis::Step);
  const auto choice = choose_points(curve.step, curve.value, {.columns = kReportColumns});
  const auto column = [&](const char* title, const std::vector<double>& values) {
    std::vector<double> chosen;
    for (const auto i : choice.points) chosen.push_back(values[i]);
    text += fmt::format(",\"{}\":", title);
    append_numbers(text, chosen);
  };
  const auto head = to_text({{"run", run},
                             {"source", log.name().source()},
                             {"metric", name},
                             {"raw", choice.raw},
                             {"total", curve.value.size()}});
  text.append(head, 0, head.size() - 1);
  column("step", curve.step);
  column("epoch", curve.epoch);
  column("time", curve.time);
  column("value", curve.value);
  text += '}';
}

std::string series_of(Dashboard& dashboard, const std::vector<RunSnapshot>& runs) {
  std::string text = "[";
  for (const auto& run : runs) {
    const auto logs = opened(dashboard, run->id);
    logs->look([&](const auto& all) {
      size_t num_ranks = 0;
      for (const auto& log : all) {
        if (!log->name().is_node && ++num_ranks > kReportRanks) continue;
        for (const auto& metric : log->summary().metrics) {
          if (metric.count == 0) continue;
          if (text.size() > 1) text += ',';
          append_report_curve(text, run->id, *log, metric.name,
                              dashboard.catalog.names().text(metric.name));
        }
      }
    });
  }
  return text + "]";
}

// Of runs with several ranks: all metrics of ranks.
std::string bands_of(Dashboard& dashboard, const std::vector<RunSnapshot>& runs) {
  std::string text = "[";
  for (const auto& run : runs) {
    if (run->num_ranks < 2) continue;
    for (const auto& metric : run->sources.front().metrics) {
      ApiRequest request{.path = "/api/band"};
      request.params = {{"run", run->id},
                        {"metric", dashboard.catalog.names().text(metric.name)},
                        {"points", std::to_string(kReportColumns)}};
      auto body = band_page(dashboard, request).body;  // {"x":"step","bands":[{...}]}
      const auto begin = body.find("[{") + 1;
      if (text.size() > 1) text += ',';
      text += "{\"run\":";
      append_text(text, run->id);
      text += ',' + body.substr(begin + 1, body.size() - begin - 3);
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
  // Padding: of the last three bytes those that are not there.
  for (size_t k = 0; k < (3 - bytes.size() % 3) % 3; ++k) text[text.size() - 1 - k] = '=';
  return text;
}

Json images_of(Dashboard& dashboard, const std::vector<RunSnapshot>& runs) {
  auto images = Json::array();
  for (const auto& run : runs) {
    ApiRequest request;
    request.params = {{"limit", std::to_string(kReportImages)}};
    const auto list = Json::parse(images_page(dashboard, {request, run, {"images"}}).body);
    for (auto item : list["items"]) {
      const auto file = fmt::format("{}.png", item["at"].get<uint64_t>());
      const auto png = image_page(
          dashboard, {request, run, {"images", item["source"].get<std::string>(), file}});
      item["run"] = run->id;
      item["url"] = "data:image/png;base64," + base64(png.body);
      images.push_back(std::move(item));
    }
  }
  return images;
}

// Within a script element nothing may look like a tag.
std::string without_tags(const std::string& json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

}  // namespace

std::string report_html(Dashboard& dashboard, const std::vector<RunSnapshot>& runs) {
  const auto page = report_template();
  const auto place = page.find(kDataPlace);
  if (place == std::string_view::npos) throw not_found("this build has no template for reports");
  auto details = Json::array();
  for (const auto& run : runs) details.push_back(run_detail(dashboard, *run));
  std::string data = "{\"exported\":";
  append_number(data, unix_now());
  data += ",\"version\":" + to_text(kVersion) + ",\"runs\":" + to_text(details);
  data += ",\"series\":" + series_of(dashboard, runs) + ",\"bands\":" + bands_of(dashboard, runs);
  data += ",\"images\":" + to_text(images_of(dashboard, runs)) + ",\"compare\":";
  data += runs.size() > 1 ? to_text(comparison(dashboard, runs)) : "null";
  data += '}';
  std::string html(page.substr(0, place));
  html += without_tags(data);
  return html.append(page.substr(place + kDataPlace.size()));
}

ApiAnswer report_page(Dashboard& dashboard, const ApiRequest& request) {
  try {
    const auto runs = runs_of(dashboard, request);
    if (runs.empty() || runs.size() > kReportRuns)
      throw bad_request(fmt::format("a report has 1 to {} runs", kReportRuns));
    const auto name = runs.size() == 1 ? runs.front()->id : "comparison";
    return {.type = "text/html; charset=utf-8",
            .body = report_html(dashboard, runs),
            .download = name + ".html"};
  } catch (const ApiError& error) {
    return error.answer();
  } catch (const std::exception& error) {
    return ApiError(500, "internal", error.what()).answer();
  }
}

}  // namespace lockstep
