#include "tracking/sinks/otlp/otlp_settings.h"

#include <catch2/catch.hpp>
#include <map>

#include "lockstep/error.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

using Variables = std::map<std::string, std::string>;

OtlpSettings settings_of(const OtlpConfig& config, const Variables& variables) {
  return otlp_settings(config, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string url_of(const std::optional<OtlpEndpoint>& endpoint) {
  return endpoint ? endpoint->address.origin() + endpoint->address.path : "";
}

std::string config_error_of(const OtlpConfig& config, const Variables& variables) {
  try {
    settings_of(config, variables);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("otlp settings: addresses") {
  const auto standard = settings_of({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}});
  CHECK(url_of(standard.metrics) == "http://localhost:4318/v1/metrics");
  CHECK(url_of(standard.logs) == "http://localhost:4318/v1/logs");

  const Variables variables = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://all/otlp/"},
                               {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs:1/insert"}};
  const auto theirs = settings_of({}, variables);
  CHECK(url_of(theirs.metrics) == "https://all:443/otlp/v1/metrics");
  CHECK(url_of(theirs.logs) == "http://logs:1/insert");

  const auto ours = settings_of({.endpoint = PublicUrl{"http://here"}}, variables);
  CHECK(url_of(ours.metrics) == "http://here:80/v1/metrics");
  CHECK(url_of(ours.logs) == "http://here:80/v1/logs");

  const auto one = settings_of({.signals = {OtlpSignal::Logs}}, {});
  CHECK_FALSE(one.metrics);
  CHECK(one.logs);
}

TEST_CASE("otlp settings: the proxy of each address") {
  const auto settings = settings_of({}, {{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://far"},
                                         {"https_proxy", "http://proxy:3128"}});
  REQUIRE((settings.metrics && settings.logs));
  REQUIRE(settings.metrics->http.proxy);
  CHECK(settings.metrics->http.proxy->port == 3128);
  CHECK_FALSE(settings.logs->http.proxy);  // on this host
}

TEST_CASE("otlp settings: headers, timeout, compression, certificate, resource") {
  const Variables variables = {{"OTEL_EXPORTER_OTLP_HEADERS", "a=1,,b = x%20y=z ,"},
                               {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "c=3"},
                               {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
                               {"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "none"},
                               {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"},
                               {"OTEL_RESOURCE_ATTRIBUTES", "k=v"}};
  const auto settings = settings_of({}, variables);
  CHECK(settings.metrics->http.headers == HttpHeaders{{"c", "3"}, {"Content-Encoding", "gzip"}});
  CHECK(settings.logs->http.headers == HttpHeaders{{"a", "1"}, {"b", "x y=z"}});
  CHECK(settings.metrics->http.timeout == std::chrono::milliseconds(2500));
  CHECK(settings.metrics->http.ca_file == "/ca.pem");
  CHECK(settings.resource == Variables{{"k", "v"}, {"service.name", "lockstep"}});
  const auto ours = settings_of({.timeout = Duration{std::chrono::seconds(1)}}, variables);
  CHECK(ours.metrics->http.timeout == std::chrono::seconds(1));
  CHECK(settings_of({}, {}).metrics->http.timeout == std::chrono::seconds(10));
}

TEST_CASE("otlp settings: invalid settings are config errors, without secrets") {
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_HEADERS", "a=1,s3cret"}}) ==
        "OTEL_EXPORTER_OTLP_HEADERS: item 2: expected NAME=VALUE,NAME=VALUE,...");
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_HEADERS", "two words=1"}}) ==
        "OTEL_EXPORTER_OTLP_HEADERS: item 1: expected NAME=VALUE,NAME=VALUE,...");
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}}) ==
        "OTEL_EXPORTER_OTLP_ENDPOINT: neither http:// nor https://; expected "
        "http[s]://host[:port][/path]");
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://h/?key=s3cret"}}) ==
        "OTEL_EXPORTER_OTLP_ENDPOINT: the address of a collector must not contain a query");
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_TIMEOUT", "10 s"}}) ==
        "OTEL_EXPORTER_OTLP_TIMEOUT: expected a number of milliseconds, got \"10 s\"");
  CHECK(config_error_of({}, {{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}}) ==
        "OTEL_EXPORTER_OTLP_COMPRESSION: expected gzip or none, got \"zstd\"");
  const Variables grpc = {{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
  CHECK(config_error_of({}, grpc) ==
        "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but the otlp sink sends http/protobuf: set endpoint "
        "in the run file to the HTTP port of the collector (usually 4318)");
  CHECK(config_error_of({.endpoint = PublicUrl{"http://h:4318"}}, grpc).empty());
}
