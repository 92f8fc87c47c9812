// Addresses, headers and attributes of the otlp sink, from its config and OpenTelemetry's
// environment variables (https://opentelemetry.io/docs/specs/otel/protocol/exporter).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config/period.h"
#include "core/http/http_client.h"
#include "lockstep/sink.h"
#include "tracking/http/public_url.h"

namespace lockstep::tracking {

enum class OtlpSignal { Metrics, Logs };
constexpr auto choices(OtlpSignal) { return std::array{"metrics", "logs"}; }
inline std::string otlp_signal_name(OtlpSignal signal) {
  return choices(signal)[static_cast<size_t>(signal)];
}

struct OtlpConfig {
  std::optional<PublicUrl> endpoint;
  std::vector<OtlpSignal> signals = {OtlpSignal::Metrics, OtlpSignal::Logs};
  bool console = false;
  std::optional<Duration> timeout;
};
template <class V>
void fields(V& v, OtlpConfig& c) {
  v("endpoint", c.endpoint,
    "address of an OpenTelemetry collector for OTLP over HTTP, to which /v1/metrics and /v1/logs "
    "are appended; default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318");
  v("signals", c.signals, "what is sent: metrics, logs");
  v("console", c.console, "the logs include the lines that ranks print");
  v("timeout", c.timeout,
    "how long to wait for the collector; default: OTEL_EXPORTER_OTLP_TIMEOUT (milliseconds), else "
    "10 s");
}

// Where one signal is sent.
struct OtlpEndpoint {
  OtlpSignal signal;
  HttpAddress address;  // with the whole path
  HttpOptions http;
  bool compresses = true;  // gzip
};

struct OtlpSettings {
  std::optional<OtlpEndpoint> metrics, logs;    // nullopt: not sent
  std::map<std::string, std::string> resource;  // OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
};

// Throws Config, without the values of headers and addresses, for a variable that is invalid.
OtlpSettings otlp_settings(const OtlpConfig& config, const Environment& environment);

}  // namespace lockstep::tracking
