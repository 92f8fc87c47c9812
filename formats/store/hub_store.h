// Files of a repository of the Hugging Face Hub, or of a server with its interface. Only files of
// formats/ include this.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/store/object_store.h"

namespace lockstep::formats {

// Keys are paths in the repository. The revision is resolved to a commit with the first request, and
// all requests are for this commit. Does not connect. Throws Config if the token is not valid.
//
// Source of the interface: huggingface_hub 1 and 2 (HfApi.list_repo_tree, get_hf_file_metadata,
// hf_raise_for_status).
std::unique_ptr<ObjectStore> open_hub_store(const BucketOptions& options);

// The files of a page of a listing, a JSON array: [{"type": "file", "path": ..., "size": ...}, ...].
// Entries of other types are left out. Throws a StoreError of kind Environment, whose message
// begins with `where`, for another text.
std::vector<ObjectInfo> files_of_hub_page(std::string_view text, const std::string& where);

}  // namespace lockstep::formats
