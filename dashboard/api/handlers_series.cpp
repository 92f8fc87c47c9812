// Curves, bands and heatmaps.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "catalog/json_text.h"
#include "dashboard/api/handlers.h"
#include "dashboard/curves/curve_aggregate.h"
#include "dashboard/curves/curve_order.h"
#include "dashboard/curves/heatmap.h"
#include "dashboard/curves/downsampling.h"
#include "dashboard/filter/run_field.h"
#include "tracking/log/csv_field.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxBandCurves = 4096;
constexpr size_t kMaxCsvBytes = 1u << 30;

catalog::CurveAxis axis_named(const ApiRequest& request) {
  const auto x = request.param("x").value_or("step");
  if (x == "step") return catalog::CurveAxis::Step;
  if (x == "epoch") return catalog::CurveAxis::Epoch;
  if (x == "time") return catalog::CurveAxis::Time;
  throw bad_request("x is step, epoch or time");
}

const char* axis_name(catalog::CurveAxis axis) {
  return axis == catalog::CurveAxis::Step    ? "step"
         : axis == catalog::CurveAxis::Epoch ? "epoch"
                                             : "time";
}

PointRange range_of(const ApiRequest& request) {
  return {.from = request.number("from"),
          .to = request.number("to"),
          .columns = request.count("points", 1000, kMaxPoints, 1)};
}

bool has_metric(const catalog::SourceSummary& source, uint32_t metric) {
  const auto it = std::ranges::find(source.metrics, metric, &catalog::MetricTotals::name);
  return it != source.metrics.end() && it->count > 0;
}

// The sources of `run` whose curve of `metric` is asked for.
std::vector<std::string> chosen_sources(const catalog::RunSummary& run, uint32_t metric,
                                        const std::vector<std::string>& asked) {
  std::vector<std::string> chosen;
  for (const auto& source : run.sources) {
    if (!has_metric(source, metric)) continue;
    const bool wanted =
        asked.empty() || std::ranges::any_of(asked, [&](const std::string& word) {
          return word == source.source || word == "*" || (word == "ranks" && !source.is_node);
        });
    if (wanted) chosen.push_back(source.source);
    if (wanted && asked.empty()) break;
  }
  return chosen;
}

struct CurveName {
  catalog::RunSnapshot run;
  std::string metric, source;
  uint32_t number = 0;  // of the metric
};

std::vector<CurveName> asked_curves(Dashboard& dashboard, const ApiRequest& request, size_t most) {
  std::vector<CurveName> curves;
  const auto asked = request.all("source");
  const auto metrics = request.all("metric");
  if (metrics.empty()) throw bad_request("which metric? Give metric=NAME");
  for (const auto& run : runs_of(dashboard, request))
    for (const auto& metric : metrics) {
      const auto number = dashboard.catalog.names().find(metric);
      if (number == catalog::NameTable::kNone) continue;
      for (auto& source : chosen_sources(*run, number, asked))
        curves.push_back({run, metric, std::move(source), number});
      if (curves.size() > most)
        throw bad_request(fmt::format("more than {} curves are asked for", most));
    }
  return curves;
}

catalog::Curve read_curve(Dashboard& dashboard, const CurveName& name, catalog::CurveParts parts) {
  const auto logs = opened(dashboard, name.run->id);
  return logs->look([&](const auto& all) {
    for (const auto& log : all)
      if (log->name().source() == name.source) return log->read(name.number, parts);
    return catalog::Curve();
  });
}

void append_chosen(std::string& text, const std::vector<double>& values,
                   const std::vector<size_t>& points) {
  std::vector<double> chosen;
  chosen.reserve(points.size());
  for (const auto i : points) chosen.push_back(values[i]);
  catalog::append_numbers(text, chosen);
}

void append_series(std::string& text, const CurveName& name, catalog::Curve& curve,
                   catalog::CurveAxis axis, const PointRange& range) {
  order_by(curve, axis);
  const auto& x = axis_of(curve, axis);
  const auto choice = downsample(x, curve.value, range);
  const auto head = catalog::to_text({{"run", name.run->id},
                                      {"version", name.run->version},
                                      {"source", name.source},
                                      {"metric", name.metric},
                                      {"raw", choice.raw},
                                      {"total", curve.value.size()},
                                      {"in_range", choice.in_range}});
  text.append(head, 0, head.size() - 1);
  text += ",\"range\":";
  if (x.empty())
    text += "[]";
  else
    catalog::append_numbers(text, std::vector{x.front(), x.back()});
  text += ",\"x\":";
  append_chosen(text, x, choice.points);
  text += ",\"y\":";
  append_chosen(text, curve.value, choice.points);
  if (!curve.smooth.empty()) {
    text += ",\"smooth\":";
    append_chosen(text, curve.smooth, choice.points);
  }
  text += '}';
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
  auto runs = runs_of(dashboard, request);
  const auto by = request.param("by");
  if (!by) return {{std::nullopt, std::move(runs)}};
  const auto field = RunField::parse(*by);
  if (!field) throw bad_request("`by` is no field");
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
    auto sources = chosen_sources(*run, number, {"ranks"});
    if (sources.empty()) sources = chosen_sources(*run, number, {"*"});
    for (auto& source : sources) names.push_back({run, metric, std::move(source), number});
  }
  if (names.size() > kMaxBandCurves)
    throw bad_request(fmt::format("more than {} curves are asked for", kMaxBandCurves));
  return names;
}

void append_band(std::string& text, Dashboard& dashboard, const BandGroup& group,
                 const BandRequest& asked) {
  const auto names = band_curves(dashboard, group, asked.metric);
  auto parts = parts_for(asked.axis);
  parts.step = true;
  std::vector<AggregatedCurve> curves;
  auto list = Json::array();
  for (const auto& name : names) {
    curves.push_back({read_curve(dashboard, name, parts), name.run->info.created});
    list.push_back({{"run", name.run->id}, {"source", name.source}});
  }
  const auto band = make_band(curves, asked.axis, asked.range);
  text += "{\"metric\":";
  catalog::append_text(text, asked.metric);
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

// "RUN_train_loss.csv": the run and the metric, where there is only one of it.
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

ApiResponse series_page(Dashboard& dashboard, const ApiRequest& request) {
  const auto axis = axis_named(request);
  const auto range = range_of(request);
  const auto weight = request.number("smooth");
  if (weight && (*weight <= 0 || *weight >= 1)) throw bad_request("smooth is between 0 and 1");
  std::string text = fmt::format("{{\"x\":\"{}\",\"series\":[", axis_name(axis));
  bool first = true;
  for (const auto& name : asked_curves(dashboard, request, kMaxCurves)) {
    auto curve = read_curve(dashboard, name, parts_for(axis));
    if (weight) add_smooth(curve, *weight);
    if (!first) text += ',';
    first = false;
    append_series(text, name, curve, axis, range);
  }
  return {.body = text + "]}"};
}

ApiResponse series_csv_page(Dashboard& dashboard, const ApiRequest& request) {
  std::string text = "run,source,metric,step,epoch,time,value\n";
  const auto axis = axis_named(request);
  const auto range = range_of(request);
  const auto names = asked_curves(dashboard, request, kMaxCurves);
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
      throw ApiError(413, "too_large", "more than 1 GiB: ask for fewer curves");
  }
  return {.type = "text/csv; charset=utf-8", .body = std::move(text), .download = csv_name(names)};
}

ApiResponse band_page(Dashboard& dashboard, const ApiRequest& request) {
  const auto axis = axis_named(request);
  const auto range = range_of(request);
  const auto metrics = request.all("metric");
  if (metrics.empty()) throw bad_request("which metric? Give metric=NAME");
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

ApiResponse heatmap_page(Dashboard& dashboard, const ApiRequest& request) {
  auto asked = request;
  if (!asked.params.contains("source")) asked.params.emplace("source", "ranks");
  const auto names = asked_curves(dashboard, asked, kMaxCurves);
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
