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

  // `request`: a protobuf message. Returns what the receiver did not accept, which must not be sent
  // again. No response, 429, 502, 503 and 504 are Environment errors (RetryLater), everything else
  // is a Config error, as OTLP defines.
  OtlpRejection send(const std::string& request);

 private:
  const std::string name_;
  const bool compresses_;
  HttpClient http_;
};

}  // namespace lockstep::tracking
