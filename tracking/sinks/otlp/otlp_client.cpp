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
// About the content of a request, not about the receiver.
constexpr std::array kRejectedContent = {400, 413, 422};

std::string otlp_reason(const HttpResponse& response) {
  const auto reason = response.header("content-type").starts_with(kOtlpType)
                          ? otlp_status_message(response.body)
                          : response.body;
  return reason.empty() ? "" : ": " + printable(reason, kOtlpMessageBytes);
}

std::string otlp_problem(const std::string& name, OtlpSignal signal, const HttpResponse& response) {
  const auto status = response.status;
  if (status == 401 || status == 403)
    return fmt::format("{} rejected the credentials ({}): check OTEL_EXPORTER_OTLP_HEADERS", name,
                       status);
  if (status == 404) {
    const auto other = signal == OtlpSignal::Metrics ? OtlpSignal::Logs : OtlpSignal::Metrics;
    return fmt::format("{} rejected a request (404): set signals: [{}] if it takes no {}", name,
                       otlp_signal_name(other), otlp_signal_name(signal));
  }
  return fmt::format("{} rejected a request ({}){}", name, status, otlp_reason(response));
}

}  // namespace

OtlpClient::OtlpClient(const OtlpEndpoint& endpoint)
    : name_(endpoint.http.name),
      signal_(endpoint.signal),
      compresses_(endpoint.compresses),
      http_(endpoint.address, endpoint.http) {}

OtlpRejection OtlpClient::send(const std::string& request, size_t num_items, bool drops) {
  const auto response = http_.post("", compresses_ ? gzip_body(request) : request, kOtlpType);
  if (response.ok()) {
    const auto type = response.header("content-type");
    if (type.starts_with("text/html"))
      throw config_error(fmt::format("{} is not an OTLP receiver: it returned a web page", name_));
    return type.starts_with(kOtlpType) ? otlp_rejection(response.body) : OtlpRejection{};
  }
  const auto status = response.status;
  const auto problem = otlp_problem(name_, signal_, response);
  if (status == 408 || status == 429 || status >= 500)
    throw RetryLater(problem, pause_of(response));
  if (!drops || std::ranges::find(kRejectedContent, status) == kRejectedContent.end())
    throw config_error(problem);
  return {static_cast<int64_t>(num_items),
          fmt::format("status {}{}", status, otlp_reason(response))};
}

}  // namespace lockstep::tracking
