// Requests of OTLP 1.x in protobuf: ExportMetricsServiceRequest and ExportLogsServiceRequest.
// Source: https://github.com/open-telemetry/opentelemetry-proto (metrics.proto, logs.proto).
// Bytes of texts that are not UTF-8 are escaped.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_value.h"
#include "lockstep/record.h"

namespace lockstep::tracking {

// Attributes by name: an object of strings, integers, numbers and booleans.
using OtlpAttributes = Json;

// Values to send, as gauges. A metric is called "lockstep." and its name with "." for "/" and "_"
// for every other character than ASCII letters, digits, "_", "-" and ".". Ranks, nodes and GPUs in
// the name become attributes (tracking/sinks/metric_series.h).
class OtlpMetrics {
 public:
  // `resource`: what records. `common`: attributes of every value: run, rank, host. A metric of
  // another rank or node has no host.
  OtlpMetrics(OtlpAttributes resource, OtlpAttributes common);

  // `time`: Unix time, seconds; exact to a nanosecond.
  void add(std::string_view metric, double time, double value);
  // A gauge with this name and further attributes.
  void add(const std::string& name, double time, double value, const OtlpAttributes& attributes);

  size_t size() const { return points_.size(); }
  // The values from number `first`, at most `count`, as a request.
  std::string request(size_t first, size_t count) const;
  // Of the same values: what they are recognized by when they are added to another object.
  std::vector<std::string> digests(size_t first, size_t count) const;
  // Removes the values with these digests.
  void remove(const std::set<std::string>& digests);
  void clear() { points_.clear(); }

 private:
  struct Series {
    std::string key;  // in numbers_
    std::string name;
    std::vector<std::string> attributes;  // encoded
  };
  struct Point {
    size_t series;
    double time, value;
  };

  size_t series_of(const std::string& key, const std::string& name,
                   const OtlpAttributes& attributes);

  std::string digest_of(const Point& point) const;

  const OtlpAttributes resource_, common_;
  std::vector<Series> series_;
  std::map<std::string, size_t, std::less<>> numbers_;  // of series, by metric or name
  std::vector<Point> points_;
};

struct OtlpLog {
  double time = 0;  // Unix time, seconds
  TextLevel level = TextLevel::Info;
  std::string event;  // its type, such as "lockstep.alert"
  std::string body;
  OtlpAttributes attributes = OtlpAttributes::object();
};

// Log records to send.
class OtlpLogs {
 public:
  // As for metrics.
  OtlpLogs(OtlpAttributes resource, OtlpAttributes common);

  // The record gets the attribute log.record.uid, a digest of its content and of how many equal
  // records precede it since clear(): it is the same if the records are sent again.
  void add(const OtlpLog& log);

  size_t size() const { return records_.size(); }
  std::string request(size_t first, size_t count) const;
  // As for metrics.
  std::vector<std::string> digests(size_t first, size_t count) const;
  void remove(const std::set<std::string>& digests);
  void clear();

 private:
  struct LogRecord {
    std::string uid, content;
  };

  const OtlpAttributes resource_, common_;
  std::vector<LogRecord> records_;
  std::map<std::string, int64_t> num_equal_;  // by digest of the content
};

// What a receiver did not accept of a request that it accepted otherwise.
struct OtlpRejection {
  int64_t count = 0;  // values or log records
  std::string reason;
};

// Of an ExportMetricsServiceResponse or ExportLogsServiceResponse. Throws Environment if malformed.
OtlpRejection otlp_rejection(std::string_view response);

// The message of a google.rpc.Status; empty if `body` is something else.
std::string otlp_status_message(std::string_view body);

}  // namespace lockstep::tracking
