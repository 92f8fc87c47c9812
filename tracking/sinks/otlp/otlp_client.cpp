#include "tracking/sinks/otlp/otlp_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/http/gzip_body.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/http/retry_later.h"

namespace lockstep::tracking {
namespace {

constexpr auto kOtlpType = "application/x-protobuf";
constexpr size_t kOtlpMessageBytes = 300;
constexpr std::array kRetryableOtlp = {429, 502, 503, 504};

std::string otlp_problem(const std::string& name, const HttpResponse& response) {
  const auto is_credentials = response.status == 401 || response.status == 403;
  auto reason = response.header("content-type").starts_with(kOtlpType)
                    ? otlp_status_message(response.body)
                    : response.body;
  reason = printable(reason, kOtlpMessageBytes);
  return fmt::format("{} rejected {} ({}){}{}", name,
                     is_credentials ? "the credentials" : "a request", response.status,
                     is_credentials ? ": check OTEL_EXPORTER_OTLP_HEADERS" : "",
                     is_credentials || reason.empty() ? "" : ": " + reason);
}

}  // namespace

OtlpClient::OtlpClient(const OtlpEndpoint& endpoint)
    : name_(endpoint.http.name),
      compresses_(endpoint.compresses),
      http_(endpoint.address, endpoint.http) {}

OtlpRejection OtlpClient::send(const std::string& request) {
  const auto response = http_.post("", compresses_ ? gzip_body(request) : request, kOtlpType);
  if (response.ok()) {
    const auto type = response.header("content-type");
    if (type.starts_with("text/html"))
      throw config_error(fmt::format("{} is not an OTLP receiver: it returned a web page", name_));
    return type.starts_with(kOtlpType) ? otlp_rejection(response.body) : OtlpRejection{};
  }
  const auto problem = otlp_problem(name_, response);
  if (std::ranges::find(kRetryableOtlp, response.status) != kRetryableOtlp.end())
    throw RetryLater(problem, pause_of(response));
  throw config_error(problem);
}

}  // namespace lockstep::tracking
