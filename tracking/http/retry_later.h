// Servers that are busy and say for how long.
#pragma once

#include <chrono>
#include <string>

#include "core/http/http_client.h"
#include "lockstep/error.h"

namespace lockstep::tracking {

// An Environment error of a sink whose server requests a pause. The agent does not call the sink
// for any entry before it is over.
class RetryLater : public Error {
 public:
  RetryLater(const std::string& message, std::chrono::seconds pause)
      : Error(ErrorKind::Environment, message), pause_(pause) {}

  std::chrono::seconds pause() const { return pause_; }

 private:
  std::chrono::seconds pause_;
};

// The pause that the header Retry-After requests, as a number of seconds or as a date, at most ten
// minutes. 0: none.
std::chrono::seconds pause_of(const HttpResponse& response);

}  // namespace lockstep::tracking
