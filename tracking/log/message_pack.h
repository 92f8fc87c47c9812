// JSON values as MessagePack, for payloads of the event log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

std::string to_message_pack(const Json& json);

// nullopt for anything that is not exactly one value, nests deeper than 64, or has a map of more
// than 10,000 keys: the bytes may come from a damaged or foreign file, and reading them must cost
// neither the stack nor minutes.
std::optional<Json> from_message_pack(std::string_view bytes);

}  // namespace lockstep::tracking
