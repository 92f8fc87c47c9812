// Sends the requests of one signal to an OTLP receiver over HTTP.
#pragma once

#include <string>

#include "core/http/http_client.h"
#include "tracking/sinks/otlp/otlp_messages.h"
#include "tracking/sinks/otlp/otlp_settings.h"

namespace lockstep::tracking {

class OtlpClient {
 public:
  explicit OtlpClient(const OtlpEndpoint& endpoint);

  // `request`: a protobuf message with `num_items` values or log records. Returns what the receiver
  // did not accept, which must not be sent again. No response is an Environment error; 408, 429 and
  // 5xx are too (RetryLater). 400, 413 and 422 reject all items if `drops`. Everything else is a
  // Config error.
  OtlpRejection send(const std::string& request, size_t num_items, bool drops);

 private:
  const std::string name_;
  const OtlpSignal signal_;
  const bool compresses_;
  HttpClient http_;
};

}  // namespace lockstep::tracking
