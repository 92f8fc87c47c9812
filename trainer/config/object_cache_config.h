// Settings of data in buckets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/period.h"
#include "lockstep/config_fields.h"

namespace lockstep::trainer {

struct ObjectCacheConfig {
  std::optional<std::string> dir;
  int64_t max_mb = 20'000;
  int64_t connections = 16;
  std::optional<double> max_mb_per_s, max_requests_per_s;
  Duration request_timeout{std::chrono::seconds(10)};
  Duration timeout{std::chrono::minutes(5)};
  bool hedge = true;
};

template <class V>
void fields(V& v, ObjectCacheConfig& c) {
  v("dir", c.dir,
    "directory of the copies, on a local disk (default: lockstep/objects in XDG_CACHE_HOME or "
    "~/.cache)");
  v("max_mb", c.max_mb, "megabytes of copies; those used least recently are removed", at_least(1),
    at_most(int64_t{1} << 40));
  v("connections", c.connections, "requests at a time, of each process", at_least(1), at_most(256));
  v("max_mb_per_s", c.max_mb_per_s,
    "megabytes per second of each host, of data and checkpoints in both directions; its ranks have "
    "equal shares",
    above(0));
  v("max_requests_per_s", c.max_requests_per_s,
    "requests per second of each host; its ranks have equal shares", above(0));
  v("request_timeout", c.request_timeout,
    "how long a request waits to connect and for the next bytes, before it is repeated; an answer "
    "that stops in the middle is noticed up to 5 s later");
  v("timeout", c.timeout, "how long a failing request is repeated, with growing pauses");
  v("hedge", c.hedge,
    "send a request that takes much longer than others a second time, and use the first answer; at "
    "most one in 20");
}

}  // namespace lockstep::trainer
