#include "tracking/sinks/otlp/otlp_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/sinks/metric_series.h"
#include "tracking/sinks/protobuf_reader.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking {
namespace {

// Fields of messages, as far as they are not 1, 2, ... in the order of use.
constexpr int kGaugeOfMetric = 5;
constexpr int kTimeOfPoint = 3, kDoubleOfPoint = 4, kAttributesOfPoint = 7;
constexpr int kBodyOfLog = 5, kAttributesOfLog = 6, kObservedTimeOfLog = 11, kEventOfLog = 12;
constexpr size_t kUidDigits = 32, kPointDigits = 16;

uint64_t otlp_nanoseconds(double time) {
  constexpr double kLatest = 9e9;  // the year 2255
  if (!(time > 0) || time > kLatest) return 0;
  const double whole = std::floor(time);
  // In two parts, because the product would not be exact.
  return static_cast<uint64_t>(whole) * 1'000'000'000 +
         static_cast<uint64_t>(std::llround((time - whole) * 1e9));
}

// opentelemetry.proto.common.v1.AnyValue
ProtobufWriter otlp_value(const Json& value) {
  ProtobufWriter any;
  if (value.is_boolean())
    any.varint(2, value.get<bool>());
  else if (value.is_number_integer())
    any.int64(3, value.get<int64_t>());
  else if (value.is_number())
    any.float64(4, value.get<double>());
  else
    any.bytes(1, as_utf8(value.is_string() ? value.get<std::string>() : value.dump()));
  return any;
}

// opentelemetry.proto.common.v1.KeyValue
ProtobufWriter otlp_attribute(const std::string& name, const Json& value) {
  ProtobufWriter attribute;
  attribute.bytes(1, as_utf8(name));
  attribute.message(2, otlp_value(value));
  return attribute;
}

void write_otlp_attributes(ProtobufWriter& message, int field, const OtlpAttributes& attributes) {
  for (const auto& [name, value] : attributes.items())
    message.message(field, otlp_attribute(name, value));
}

// A request with one resource and one scope, whose items are the fields 2 of `scope`.
std::string otlp_request(const OtlpAttributes& resource, ProtobufWriter items) {
  ProtobufWriter request, of_resource, resource_message, scope;
  write_otlp_attributes(resource_message, 1, resource);
  scope.bytes(1, "lockstep");
  scope.bytes(2, kVersion);
  ProtobufWriter of_scope;
  of_scope.message(1, scope);
  auto content = of_scope.take() + items.take();
  of_resource.message(1, resource_message);
  of_resource.bytes(2, content);
  request.message(1, of_resource);
  return request.take();
}

std::string otlp_metric_name(std::string_view name) {
  std::string text = "lockstep.";
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    text += c == '/' ? '.' : plain ? c : '_';
  }
  return text;
}

std::string otlp_uid(std::string_view content) { return sha256_of(content).substr(0, kUidDigits); }

// SeverityNumber
int otlp_severity(TextLevel level) {
  switch (level) {
    case TextLevel::Debug: return 5;
    case TextLevel::Info: return 9;
    case TextLevel::Warning: return 13;
    case TextLevel::Error: return 17;
  }
  return 0;
}

const char* otlp_severity_text(TextLevel level) {
  switch (level) {
    case TextLevel::Debug: return "DEBUG";
    case TextLevel::Info: return "INFO";
    case TextLevel::Warning: return "WARN";
    case TextLevel::Error: return "ERROR";
  }
  return "";
}

}  // namespace

OtlpMetrics::OtlpMetrics(OtlpAttributes resource, OtlpAttributes common)
    : resource_(std::move(resource)), common_(std::move(common)) {}

size_t OtlpMetrics::series_of(const std::string& key, const std::string& name,
                              const OtlpAttributes& attributes) {
  Series series{.key = key, .name = name, .attributes = {}};
  for (const auto& [attribute, value] : attributes.items())
    series.attributes.push_back(otlp_attribute(attribute, value).take());
  series_.push_back(std::move(series));
  return numbers_[key] = series_.size() - 1;
}

void OtlpMetrics::add(std::string_view metric, double time, double value) {
  auto found = numbers_.find(metric);
  if (found == numbers_.end()) {
    const auto [name, labels] = metric_series(metric);
    auto attributes = common_;
    if (labels.contains("node") || labels.contains("rank")) attributes.erase("host");
    for (const auto& [label, text] : labels) {
      const bool is_number = label != "metric";
      attributes[label] = is_number ? Json(parse_number<int64_t>(text).value_or(0)) : Json(text);
    }
    series_of(std::string(metric), otlp_metric_name(name), attributes);
    found = numbers_.find(metric);
  }
  points_.push_back({found->second, time, value});
}

void OtlpMetrics::add(const std::string& name, double time, double value,
                      const OtlpAttributes& attributes) {
  auto all = common_;
  all.update(attributes);
  const auto key = '\0' + name;  // no metric is called this
  const auto found = numbers_.find(key);
  points_.push_back(
      {found == numbers_.end() ? series_of(key, name, all) : found->second, time, value});
}

std::string OtlpMetrics::request(size_t first, size_t count) const {
  std::map<std::string, ProtobufWriter> gauges;
  const auto end = std::min(points_.size(), first + count);
  for (size_t i = first; i < end; ++i) {
    const auto& series = series_[points_[i].series];
    ProtobufWriter point;
    point.fixed64(kTimeOfPoint, otlp_nanoseconds(points_[i].time));
    point.float64(kDoubleOfPoint, points_[i].value);
    for (const auto& attribute : series.attributes) point.bytes(kAttributesOfPoint, attribute);
    gauges[series.name].message(1, point);
  }
  ProtobufWriter metrics;
  for (const auto& [name, gauge] : gauges) {
    ProtobufWriter metric;
    metric.bytes(1, name);
    metric.message(kGaugeOfMetric, gauge);
    metrics.message(2, metric);
  }
  return otlp_request(resource_, std::move(metrics));
}

std::string OtlpMetrics::digest_of(const Point& point) const {
  ProtobufWriter content;
  content.bytes(1, series_[point.series].key);
  content.float64(2, point.time);
  content.float64(3, point.value);
  return sha256_of(content.view()).substr(0, kPointDigits);
}

std::vector<std::string> OtlpMetrics::digests(size_t first, size_t count) const {
  std::vector<std::string> digests;
  const auto end = std::min(points_.size(), first + count);
  for (size_t i = first; i < end; ++i) digests.push_back(digest_of(points_[i]));
  return digests;
}

void OtlpMetrics::remove(const std::set<std::string>& digests) {
  if (digests.empty()) return;
  std::erase_if(points_, [&](const Point& point) { return digests.contains(digest_of(point)); });
}

OtlpLogs::OtlpLogs(OtlpAttributes resource, OtlpAttributes common)
    : resource_(std::move(resource)), common_(std::move(common)) {}

void OtlpLogs::add(const OtlpLog& log) {
  const auto time = otlp_nanoseconds(log.time);
  auto attributes = common_;
  attributes.update(log.attributes);
  ProtobufWriter record;
  record.fixed64(1, time);
  record.varint(2, static_cast<uint64_t>(otlp_severity(log.level)));
  record.bytes(3, otlp_severity_text(log.level));
  record.message(kBodyOfLog, otlp_value(log.body));
  write_otlp_attributes(record, kAttributesOfLog, attributes);
  record.fixed64(kObservedTimeOfLog, time);
  record.bytes(kEventOfLog, log.event);
  auto uid = otlp_uid(record.view());
  if (const auto equal = num_equal_[uid]++; equal > 0)
    uid = otlp_uid(fmt::format("{} {}", uid, equal));
  record.message(kAttributesOfLog, otlp_attribute("log.record.uid", uid));
  records_.push_back({uid, record.take()});
}

std::string OtlpLogs::request(size_t first, size_t count) const {
  ProtobufWriter records;
  const auto end = std::min(records_.size(), first + count);
  for (size_t i = first; i < end; ++i) records.bytes(2, records_[i].content);
  return otlp_request(resource_, std::move(records));
}

std::vector<std::string> OtlpLogs::digests(size_t first, size_t count) const {
  std::vector<std::string> uids;
  const auto end = std::min(records_.size(), first + count);
  for (size_t i = first; i < end; ++i) uids.push_back(records_[i].uid);
  return uids;
}

void OtlpLogs::remove(const std::set<std::string>& digests) {
  std::erase_if(records_, [&](const LogRecord& record) { return digests.contains(record.uid); });
}

void OtlpLogs::clear() {
  records_.clear();
  num_equal_.clear();
}

OtlpRejection otlp_rejection(std::string_view response) {
  OtlpRejection rejection;
  ProtobufReader reader(response);
  while (const auto field = reader.next()) {
    if (field->number != 1) continue;
    ProtobufReader partial(field->bytes);
    while (const auto part = partial.next()) {
      if (part->number == 1) rejection.count = static_cast<int64_t>(part->value);
      if (part->number == 2) rejection.reason = part->bytes;
    }
  }
  return rejection;
}

std::string otlp_status_message(std::string_view body) {
  std::string message;
  try {
    ProtobufReader reader(body);
    while (const auto field = reader.next())
      if (field->number == 2) message = field->bytes;
  } catch (const Error&) {
    return "";
  }
  return message;
}

}  // namespace lockstep::tracking
