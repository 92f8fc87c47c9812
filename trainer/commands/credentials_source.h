// Where the credentials of object stores come from.
#pragma once

#include <string>

#include "formats/store/object_store.h"

namespace lockstep::trainer {

// In words, where the client found this access key id, e.g. "profile 'work' of
// ~/.aws/credentials". Never contains a secret.
std::string source_of_credentials(const std::string& access_key_id);

// In words, the credentials of requests to Google, Azure or a hub. Never contains a secret.
std::string source_of_identity(const formats::BucketOptions& options);

}  // namespace lockstep::trainer
