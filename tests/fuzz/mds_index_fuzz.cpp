// Arbitrary bytes are either an index with files in its directory and columns of consistent sizes
// or a Config error.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "formats/mds/mds_index.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"version": 2, "shards": [{"version": 2, "format": "mds", "samples": 3,
    "column_names": ["a", "b", "c"], "column_encodings": ["int", "str", "ndarray:int16:2,3"],
    "column_sizes": [8, null, 12], "compression": "zstd:3", "hashes": ["sha1"], "size_limit": 99,
    "raw_data": {"basename": "0/shard.00000.mds", "bytes": 90, "hashes": {}},
    "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 40, "hashes": {}}}]})",
          R"({"version": 2, "shards": [{"version": 2, "format": "mds", "samples": 1,
    "column_names": ["x"], "column_encodings": ["jpeg:90"], "column_sizes": [null],
    "compression": null, "raw_data": {"basename": "../b", "bytes": 9}, "zip_data": null}]})"};
}

namespace {

bool is_inside(const std::filesystem::path& path) {
  return path.is_relative() && std::ranges::find(path, "..") == path.end() && path.has_filename() &&
         path.lexically_normal() == path;
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto index = formats::parse_mds_index({data, data + size}, "input");
    if (index.shards.empty() || index.columns.empty()) std::abort();
    for (const auto& column : index.columns)
      if (column.size < 0 || (column.kind == formats::MdsKind::Number &&
                              column.size != formats::bytes_of(column.number.value())))
        std::abort();
    for (const auto& shard : index.shards)
      for (const auto& name : {shard.raw_name, shard.zip_name})
        if (shard.samples < 0 || (!name.empty() && !is_inside(name))) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
