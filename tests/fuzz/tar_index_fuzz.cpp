// Arbitrary bytes are either no index, one with plain names and numbers of samples that are read again as
// they are written, or a Config error.
#include <cstdlib>

#include "formats/path_list.h"
#include "formats/tar/tar_index.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": "train", "shardlist": [
    {"url": "train-0000.tar", "nsamples": 100, "filesize": 4096, "md5sum": "0"},
    {"url": "https://example.org/a/train-0001.tar", "nsamples": 1}]})",
          R"({"shardlist": [{"url": "../b.tar", "nsamples": 9}]})", R"({"0.tar": 100})"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto index = formats::parse_tar_index({data, data + size}, "input");
    if (!index) return 0;
    for (const auto& [name, shard] : *index)
      if (!formats::is_plain_name(name) || shard.samples < 0 || shard.bytes < 0) std::abort();
    if (formats::parse_tar_index(formats::tar_index_text(*index), "written") != index) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
