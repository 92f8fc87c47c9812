// JSON values as MessagePack, for payloads of the event log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

std::string to_message_pack(const Json& json);

// nullopt for anything but exactly one value, for nesting deeper than 64, and for a map of more
// than 10,000 keys: the bytes may come from a corrupt or foreign file, and decoding must be bounded
// in stack and time.
std::optional<Json> from_message_pack(std::string_view bytes);

}  // namespace lockstep::tracking
