#include "tracking/sinks/otlp/otlp_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/http/http_proxies.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "core/trimmed.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr auto kOtlpTimeout = std::chrono::seconds(10);
constexpr auto kOtlpAddress = "http://localhost:4318";

struct OtlpVariable {
  std::string name, value;
};

// The variable of the signal, else the one of all signals. As OpenTelemetry defines, an empty one
// is not set.
std::optional<OtlpVariable> otlp_variable(const Environment& environment, const std::string& signal,
                                          const std::string& what) {
  for (const auto& name :
       {"OTEL_EXPORTER_OTLP_" + signal + "_" + what, "OTEL_EXPORTER_OTLP_" + what})
    if (const auto value = environment(name); value && !value->empty())
      return OtlpVariable{name, *value};
  return std::nullopt;
}

bool is_header_name(std::string_view name) {
  constexpr std::string_view kSymbols = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kSymbols.find(c) != kSymbols.npos;
  });
}

// "a=1,b=two%20words". Values may be secrets, so that messages only have the number of an item.
std::map<std::string, std::string> otlp_pairs(const OtlpVariable& variable) {
  std::map<std::string, std::string> pairs;
  std::string_view rest = variable.value;
  for (int number = 1; !rest.empty(); ++number) {
    const auto item = trimmed(rest.substr(0, rest.find(',')), " \t");
    rest.remove_prefix(std::min(rest.find(','), rest.size() - 1) + 1);
    if (item.empty()) continue;
    const auto equals = item.find('=');
    const auto name = trimmed(item.substr(0, equals), " \t");
    if (equals == item.npos || !is_header_name(name))
      throw config_error(
          fmt::format("{}: item {}: expected NAME=VALUE,NAME=VALUE,...", variable.name, number));
    pairs[std::string(name)] = percent_decoded(trimmed(item.substr(equals + 1), " \t"));
  }
  return pairs;
}

// gRPC has another port, at which no HTTP request is answered.
void check_otlp_protocol(const Environment& environment, const std::string& signal) {
  const auto protocol = otlp_variable(environment, signal, "PROTOCOL");
  if (protocol && protocol->value == "grpc")
    throw config_error(fmt::format(
        "{} is grpc, but the otlp sink sends http/protobuf: set endpoint in the run file to the "
        "HTTP port of the collector (usually 4318)",
        protocol->name));
}

HttpAddress otlp_address(const OtlpConfig& config, const Environment& environment,
                         const std::string& signal, const char* path) {
  const auto append = [&](const std::string& url, const std::string& what) {
    auto address = parse_http_address(url, what);
    if (address.path.find('?') != std::string::npos)
      throw config_error(what + ": the address of a collector must not contain a query");
    address.path += path;
    return address;
  };
  if (config.endpoint) return append(config.endpoint->text, "otlp: endpoint");
  check_otlp_protocol(environment, signal);
  const auto own = "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT";
  const auto found = otlp_variable(environment, signal, "ENDPOINT");
  if (!found) return append(kOtlpAddress, "otlp");
  // The address of a single signal is complete.
  return found->name == own ? parse_http_address(found->value, own)
                            : append(found->value, found->name);
}

std::chrono::milliseconds otlp_timeout(const OtlpConfig& config, const Environment& environment,
                                       const std::string& signal) {
  if (config.timeout) return config.timeout->value;
  const auto found = otlp_variable(environment, signal, "TIMEOUT");
  if (!found) return kOtlpTimeout;
  const auto milliseconds = parse_number<int>(found->value);
  if (!milliseconds || *milliseconds <= 0)
    throw config_error(fmt::format("{}: expected a number of milliseconds, got \"{}\"", found->name,
                                   printable(found->value)));
  return std::chrono::milliseconds(*milliseconds);
}

bool otlp_compresses(const Environment& environment, const std::string& signal) {
  const auto found = otlp_variable(environment, signal, "COMPRESSION");
  if (!found || found->value == "gzip") return true;
  if (found->value == "none") return false;
  throw config_error(
      fmt::format("{}: expected gzip or none, got \"{}\"", found->name, printable(found->value)));
}

OtlpEndpoint otlp_endpoint(const OtlpConfig& config, const Environment& environment,
                           OtlpSignal kind) {
  const bool is_metrics = kind == OtlpSignal::Metrics;
  const std::string signal = is_metrics ? "METRICS" : "LOGS";
  OtlpEndpoint endpoint{
      .signal = kind,
      .address = otlp_address(config, environment, signal, is_metrics ? "/v1/metrics" : "/v1/logs"),
      .http = {}};
  endpoint.compresses = otlp_compresses(environment, signal);
  auto& http = endpoint.http;
  http.name = fmt::format("the OTLP endpoint for {} at {}", otlp_signal_name(kind),
                          endpoint.address.origin());
  http.timeout = otlp_timeout(config, environment, signal);
  if (const auto file = otlp_variable(environment, signal, "CERTIFICATE"))
    http.ca_file = file->value;
  if (const auto headers = otlp_variable(environment, signal, "HEADERS"))
    http.headers = otlp_pairs(*headers);
  http.proxy = proxy_for(environment, endpoint.address);
  if (endpoint.compresses) http.headers["Content-Encoding"] = "gzip";
  return endpoint;
}

}  // namespace

OtlpSettings otlp_settings(const OtlpConfig& config, const Environment& environment) {
  OtlpSettings settings;
  if (const auto attributes = environment("OTEL_RESOURCE_ATTRIBUTES"))
    settings.resource = otlp_pairs({"OTEL_RESOURCE_ATTRIBUTES", *attributes});
  settings.resource.emplace("service.name", "lockstep");
  if (const auto name = environment("OTEL_SERVICE_NAME"); name && !name->empty())
    settings.resource["service.name"] = *name;
  for (const auto signal : config.signals)
    (signal == OtlpSignal::Metrics ? settings.metrics : settings.logs) =
        otlp_endpoint(config, environment, signal);
  return settings;
}

}  // namespace lockstep::tracking
