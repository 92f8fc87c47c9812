// What the environment says about object stores.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace lockstep::formats {

// The value of a variable, if it is set and not empty.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// Sets the options of all stores (formats/store/store_path.h). Endpoint, region and certificates are
// those of the AWS tools: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION,
// AWS_CA_BUNDLE; of Google's clients: STORAGE_EMULATOR_HOST; of those of Azure:
// AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_ENDPOINT; those
// of hf:// paths are huggingface_hub's: HF_ENDPOINT, HF_TOKEN, or the file HF_TOKEN_PATH, token in
// HF_HOME. `request_timeout_s`: of buckets, of connecting and of an answer that stops. Throws Config.
void use_store_environment(const Variables& variables, double request_timeout_s);

}  // namespace lockstep::formats
