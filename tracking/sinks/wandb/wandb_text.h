// Names, texts and numbers in the form that W&B takes. Its records hold UTF-8 and JSON: one invalid
// byte would make wandb-core refuse the whole file.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

// `text` with U+FFFD for every byte that is no part of UTF-8.
std::string wandb_text(std::string_view text);

// A metric's name in the history. Names that W&B or this sink use themselves ("_step", "step",
// "epoch", ...) and the empty name get "metric/" in front.
std::string wandb_key(std::string_view name);

// The shortest text that reads back as `value`; NaN, Infinity and -Infinity as W&B writes them.
std::string wandb_number(double value);

// Any value; what is no UTF-8 becomes U+FFFD.
std::string wandb_json(const Json& value);

// The id of the entry `id` at W&B: the same where it has at most 64 characters of [a-z0-9_-], else
// like it, with a checksum of the whole.
std::string wandb_run_id(const std::string& id);

// `name` as part of a file name: what is not in [A-Za-z0-9_.-] becomes '_'; at most 80 characters.
std::string wandb_file_name(std::string_view name);

}  // namespace lockstep::tracking
