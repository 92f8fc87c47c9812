// Directories of MDS shards as columnar files. No LibTorch.
#pragma once

#include <string>

#include "formats/table/hive_partitions.h"

namespace lockstep::formats {

// The shards of a directory with an index.json, in the order of the index. A shard is read from its
// raw file, which is mapped, or else from the file compressed with zstd, which is decompressed for
// each read and so has no access to single rows. Its rows are known before it is opened. Throws Config: no index.json, shards that are
// missing, and what parse_mds_index() throws.
PartitionedFiles mds_shards(const std::string& path);

}  // namespace lockstep::formats
