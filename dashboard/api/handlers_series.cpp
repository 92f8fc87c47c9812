// Handlers of curves, bands and heatmaps.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "catalog/json_text.h"
#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "dashboard/curves/curve_aggregate.h"
#include "dashboard/curves/curve_order.h"
#include "dashboard/curves/downsampling.h"
#include "dashboard/curves/heatmap.h"
#include "dashboard/filter/run_field.h"
#include "tracking/log/csv_field.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxBandCurves = 4096;
constexpr size_t kMaxCsvBytes = 1u << 30;

catalog::CurveAxis requested_axis(const ApiRequest& request) {
  const auto x = request.param("x").value_or("step");
  if (x == "step") return catalog::CurveAxis::Step;
  if (x == "epoch") return catalog::CurveAxis::Epoch;
  if (x == "time") return catalog::CurveAxis::Time;
  throw bad_request("x: expected step, epoch or time");
}

const char* axis_name(catalog::CurveAxis axis) {
  return axis == catalog::CurveAxis::Step    ? "step"
         : axis == catalog::CurveAxis::Epoch ? "epoch"
                                             : "time";
}

PointRange requested_range(const ApiRequest& request) {
  return {.from = request.number("from"),
          .to = request.number("to"),
          .columns = request.count("points", 1000, kMaxPoints, 1)};
}

bool has_metric(const catalog::SourceSummary& source, uint32_t metric) {
  const auto it = std::ranges::find(source.metrics, metric, &catalog::MetricTotals::name);
  return it != source.metrics.end() && it->count > 0;
}

// The sources of `run` that have `metric` and match one of `selectors`; without selectors, the
// first.
std::vector<std::string> select_sources(const catalog::RunSummary& run, uint32_t metric,
                                        const std::vector<std::string>& selectors) {
  std::vector<std::string> selected;
  for (const auto& source : run.sources) {
    if (!has_metric(source, metric)) continue;
    const bool matches =
        selectors.empty() || std::ranges::any_of(selectors, [&](const std::string& word) {
          return word == source.source || word == "*" || (word == "ranks" && !source.is_node);
        });
    if (matches) selected.push_back(source.source);
    if (matches && selectors.empty()) break;
  }
  return selected;
}

struct CurveName {
  catalog::RunSnapshot run;
  std::string metric, source;
  uint32_t number = 0;  // of the metric
};

std::vector<CurveName> requested_curves(Dashboard& dashboard, const ApiRequest& request,
                                        size_t max) {
  std::vector<CurveName> curves;
  const auto selectors = request.all("source");
  const auto metrics = request.all("metric");
  if (metrics.empty()) throw bad_request("missing parameter: metric=NAME");
  for (const auto& run : requested_runs(dashboard, request))
    for (const auto& metric : metrics) {
      const auto number = dashboard.catalog.names().find(metric);
      if (number == catalog::NameTable::kNone) continue;
      for (auto& source : select_sources(*run, number, selectors))
        curves.push_back({run, metric, std::move(source), number});
      if (curves.size() > max) throw bad_request(fmt::format("more than {} curves requested", max));
    }
  return curves;
}

catalog::Curve read_curve(Dashboard& dashboard, const CurveName& name, catalog::CurveParts parts) {
  const auto logs = open_logs(dashboard, name.run->id);
  return logs->look([&](const auto& all) {
    for (const auto& log : all)
      if (log->name().source() == name.source) return log->read(name.number, parts);
    return catalog::Curve();
  });
}

void append_points(std::string& text, const std::vector<double>& values,
                   const std::vector<size_t>& points) {
  std::vector<double> selected;
  selected.reserve(points.size());
  for (const auto i : points) selected.push_back(values[i]);
  catalog::append_numbers(text, selected);
}

// Returns the number of points.
size_t append_series(std::string& text, const CurveName& name, catalog::Curve& curve,
                     catalog::CurveAxis axis, const PointRange& range) {
  order_by(curve, axis);
  const auto& x = axis_of(curve, axis);
  const auto sample = downsample(x, curve.value, range);
  const auto head = catalog::to_text({{"run", name.run->id},
                                      {"version", name.run->version},
                                      {"source", name.source},
                                      {"metric", name.metric},
                                      {"raw", sample.raw},
                                      {"total", curve.value.size()},
                                      {"in_range", sample.in_range}});
  text.append(head, 0, head.size() - 1);
  text += ",\"range\":";
  if (x.empty())
    text += "[]";
  else
    catalog::append_numbers(text, std::vector{x.front(), x.back()});
  text += ",\"x\":";
  append_points(text, x, sample.points);
  text += ",\"y\":";
  append_points(text, curve.value, sample.points);
  if (!curve.smooth.empty()) {
    text += ",\"smooth\":";
    append_points(text, curve.smooth, sample.points);
  }
  text += '}';
  return sample.points.size();
}

void append_counts(std::string& text, const char* name, const auto& values) {
  text += fmt::format(",\"{}\":[", name);
  for (size_t i = 0; i < values.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i > 0 ? "," : "", values[i]);
  text += ']';
}

void append_column(std::string& text, const char* name, const std::vector<double>& values) {
  text += fmt::format(",\"{}\":", name);
  catalog::append_numbers(text, values);
}

struct BandGroup {
  std::optional<std::string> value;  // JSON; with `by`
  std::vector<catalog::RunSnapshot> runs;
};

std::vector<BandGroup> band_groups(Dashboard& dashboard, const ApiRequest& request) {
  auto runs = requested_runs(dashboard, request);
  const auto by = request.param("by");
  if (!by) return {{std::nullopt, std::move(runs)}};
  const auto field = RunField::parse(*by);
  if (!field) throw bad_request(fmt::format("by: unknown field '{}'", printable(*by)));
  std::vector<BandGroup> groups;
  for (const auto& run : runs) {
    const auto content = field->value(*run, dashboard.catalog.names(), tracking::unix_now());
    const auto value = std::visit(
        [](const auto& held) {
          if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
            return std::string("null");
          else
            return catalog::to_text(catalog::finite_value(Json(held)));
        },
        content);
    auto it = std::ranges::find(groups, value, &BandGroup::value);
    if (it == groups.end()) it = groups.insert(groups.end(), {value, {}});
    it->runs.push_back(run);
  }
  return groups;
}

struct BandRequest {
  std::string metric;
  catalog::CurveAxis axis;
  PointRange range;
};

std::vector<CurveName> band_curves(Dashboard& dashboard, const BandGroup& group,
                                   const std::string& metric) {
  std::vector<CurveName> names;
  const auto number = dashboard.catalog.names().find(metric);
  if (number == catalog::NameTable::kNone) return names;
  for (const auto& run : group.runs) {
    auto sources = select_sources(*run, number, {"ranks"});
    if (sources.empty()) sources = select_sources(*run, number, {"*"});
    for (auto& source : sources) names.push_back({run, metric, std::move(source), number});
  }
  if (names.size() > kMaxBandCurves)
    throw bad_request(fmt::format("more than {} curves requested", kMaxBandCurves));
  return names;
}

void append_band(std::string& text, Dashboard& dashboard, const BandGroup& group,
                 const BandRequest& band_request) {
  const auto names = band_curves(dashboard, group, band_request.metric);
  auto parts = parts_for(band_request.axis);
  parts.step = true;
  std::vector<AggregatedCurve> curves;
  auto list = Json::array();
  for (const auto& name : names) {
    curves.push_back({read_curve(dashboard, name, parts), name.run->info.created});
    list.push_back({{"run", name.run->id}, {"source", name.source}});
  }
  const auto band = aggregate_curves(curves, band_request.axis, band_request.range);
  text += "{\"metric\":";
  catalog::append_text(text, band_request.metric);
  if (group.value) {
    text += ",\"value\":" + *group.value + ",\"runs\":";
    auto ids = Json::array();
    for (const auto& run : group.runs) ids.push_back(run->id);
    text += catalog::to_text(ids);
  }
  text += ",\"curves\":" + catalog::to_text(list);
  text += fmt::format(",\"raw\":{},\"range\":", band.raw);
  catalog::append_numbers(
      text, band.empty ? std::vector<double>() : std::vector{band.first_x, band.last_x});
  append_column(text, "x", band.x);
  append_column(text, "mean", band.mean);
  append_column(text, "min", band.min);
  append_column(text, "max", band.max);
  append_column(text, "deviation", band.deviation);
  append_column(text, "p10", band.p10);
  append_column(text, "median", band.median);
  append_column(text, "p90", band.p90);
  append_counts(text, "count", band.count);
  append_counts(text, "min_curve", band.min_curve);
  append_counts(text, "max_curve", band.max_curve);
  text += '}';
}

// "RUN_train_loss.csv": the run and the metric, if there is only one of each.
std::string csv_name(const std::vector<CurveName>& names) {
  std::set<std::string> runs, metrics;
  for (const auto& name : names) {
    runs.insert(name.run->id);
    metrics.insert(name.metric);
  }
  std::string file;
  if (runs.size() == 1) file = *runs.begin();
  if (metrics.size() == 1) file += (file.empty() ? "" : "_") + *metrics.begin();
  return (file.empty() ? "series" : file) + ".csv";
}

void append_grid(std::string& text, const char* name,
                 const std::vector<std::vector<double>>& rows) {
  text += fmt::format(",\"{}\":[", name);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += ',';
    catalog::append_numbers_or_null(text, rows[i]);
  }
  text += ']';
}

}  // namespace

ApiResponse get_series(Dashboard& dashboard, const ApiRequest& request) {
  const auto axis = requested_axis(request);
  const auto range = requested_range(request);
  const auto weight = request.number("smooth");
  if (weight && (*weight <= 0 || *weight >= 1))
    throw bad_request("smooth: expected a number between 0 and 1, exclusive");
  std::string text = fmt::format("{{\"x\":\"{}\",\"series\":[", axis_name(axis));
  bool first = true;
  size_t num_points = 0;
  for (const auto& name : requested_curves(dashboard, request, kMaxCurves)) {
    auto curve = read_curve(dashboard, name, parts_for(axis));
    if (weight) add_smooth(curve, *weight);
    if (!first) text += ',';
    first = false;
    num_points += append_series(text, name, curve, axis, range);
    if (num_points > dashboard.max_series_points)
      throw ApiError(413, "too_large",
                     fmt::format("the response would have more than {} points: request fewer "
                                 "curves, or fewer points",
                                 dashboard.max_series_points));
  }
  return {.body = text + "]}"};
}

ApiResponse get_series_csv(Dashboard& dashboard, const ApiRequest& request) {
  std::string text = "run,source,metric,step,epoch,time,value\n";
  const auto axis = requested_axis(request);
  const auto range = requested_range(request);
  const auto names = requested_curves(dashboard, request, kMaxCurves);
  for (const auto& name : names) {
    const auto curve = read_curve(dashboard, name, {.step = true, .time = true, .epoch = true});
    const auto& x = axis_of(curve, axis);
    const auto head = fmt::format("{},{},{},", tracking::csv_field(name.run->id), name.source,
                                  tracking::csv_field(name.metric));
    for (size_t i = 0; i < curve.value.size(); ++i) {
      if ((range.from && !(x[i] >= *range.from)) || (range.to && !(x[i] <= *range.to))) continue;
      fmt::format_to(std::back_inserter(text), "{}{:.0f},{},{:.6f},{}\n", head, curve.step[i],
                     curve.epoch[i], curve.time[i], curve.value[i]);
    }
    if (text.size() > kMaxCsvBytes)
      throw ApiError(413, "too_large", "the CSV would exceed 1 GiB: request fewer curves");
  }
  return {.type = "text/csv; charset=utf-8", .body = std::move(text), .download = csv_name(names)};
}

ApiResponse get_band(Dashboard& dashboard, const ApiRequest& request) {
  const auto axis = requested_axis(request);
  const auto range = requested_range(request);
  const auto metrics = request.all("metric");
  if (metrics.empty()) throw bad_request("missing parameter: metric=NAME");
  std::string text = fmt::format("{{\"x\":\"{}\",\"bands\":[", axis_name(axis));
  bool first = true;
  for (const auto& group : band_groups(dashboard, request))
    for (const auto& metric : metrics) {
      if (!first) text += ',';
      first = false;
      append_band(text, dashboard, group, {metric, axis, range});
    }
  return {.body = text + "]}"};
}

ApiResponse get_heatmap(Dashboard& dashboard, const ApiRequest& request) {
  auto query = request;
  if (!query.params.contains("source")) query.params.emplace("source", "ranks");
  const auto names = requested_curves(dashboard, query, kMaxCurves);
  std::vector<catalog::Curve> curves;
  auto sources = Json::array();
  for (const auto& name : names) {
    curves.push_back(read_curve(dashboard, name, {.step = true}));
    sources.push_back(name.source);
  }
  const auto map = make_heatmap(curves, {.from = request.number("from"),
                                         .to = request.number("to"),
                                         .columns = request.count("columns", 300, 2000, 1)});
  std::string text = "{\"metric\":";
  catalog::append_text(text, request.param("metric").value_or(""));
  text += ",\"sources\":" + catalog::to_text(sources) + ",\"from\":";
  catalog::append_number(text, map.from);
  text += ",\"to\":";
  catalog::append_number(text, map.to);
  text += fmt::format(",\"columns\":{}", map.edges.empty() ? 0 : map.edges.size() - 1);
  append_column(text, "edges", map.edges);
  append_grid(text, "mean", map.mean);
  append_grid(text, "max", map.max);
  text += ",\"smallest\":";
  catalog::append_number(text, map.smallest);
  text += ",\"largest\":";
  catalog::append_number(text, map.largest);
  return {.body = text + "}"};
}

}  // namespace lockstep::dashboard
