// Converts names, texts and numbers to the form that W&B accepts. Records hold UTF-8 and JSON; one
// invalid byte makes wandb-core reject the whole file.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

// Returns `text` with U+FFFD for every invalid UTF-8 byte.
std::string wandb_text(std::string_view text);

// Returns a metric's name in the history. Names reserved by W&B or this sink ("_step", "step",
// "epoch", ...) and the empty name get the prefix "metric/".
std::string wandb_key(std::string_view name);

// The shortest text that reads back as `value`; NaN, Infinity and -Infinity as W&B writes them.
std::string wandb_number(double value);

// Any value; numbers that are not finite as above; invalid UTF-8 bytes become U+FFFD.
std::string wandb_json(const Json& value);

// The id of the entry `id` at W&B: unchanged if it has at most 64 characters of [a-z0-9_-], else
// sanitized and truncated, with a checksum of the original.
std::string wandb_run_id(const std::string& id);

// `name` as part of a file name: other characters than [A-Za-z0-9_.-] become '_'; at most 80
// characters.
std::string wandb_file_name(std::string_view name);

}  // namespace lockstep::tracking
