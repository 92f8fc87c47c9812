// What the environment and the run file say about data in buckets and of other servers.
#pragma once

#include "trainer/config/object_cache_config.h"

namespace lockstep::trainer {

// Sets the options of formats::object_cache(), which is not used yet. Endpoint, region and
// certificates are those of the AWS tools: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION,
// AWS_DEFAULT_REGION, AWS_CA_BUNDLE; of Google's clients: STORAGE_EMULATOR_HOST; of those of Azure:
// AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_ENDPOINT; those of hf://
// paths are huggingface_hub's: HF_ENDPOINT, HF_TOKEN, or the file HF_TOKEN_PATH, token in HF_HOME.
// Throws Config.
void use_object_stores(const ObjectCacheConfig& config);

}  // namespace lockstep::trainer
