// Limits the size of JSON that a program reads whole.
#pragma once

#include "lockstep/config_value.h"

namespace lockstep::dashboard {

// `json`, an object, with its largest lists, objects and texts cut until it has at most `max_bytes`
// as text. A member "cut" describes each cut: "metrics: the first 125 of 1000". Lists named "lines"
// keep their end, others their beginning.
Json shortened(Json json, size_t max_bytes);

}  // namespace lockstep::dashboard
