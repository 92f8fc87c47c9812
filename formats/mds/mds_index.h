// The index.json of a directory of MDS shards, as MosaicML Streaming writes it. No LibTorch.
// Source: streaming.base.format.mds of the package mosaicml-streaming, version 2 of the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::formats {

enum class MdsNumber { U8, I8, U16, I16, F16, U32, I32, F32, U64, I64, F64 };

// Bytes: also images. Opaque: not used, such as json.
enum class MdsKind { Number, NumberText, Text, Array, Bytes, Opaque };

struct MdsColumn {
  std::string name, encoding;
  MdsKind kind = MdsKind::Opaque;
  std::optional<MdsNumber> number;  // of a number or an array; else stored with each array
  std::vector<int64_t> shape;       // of an array; empty: stored with each array
  int64_t size = 0;                 // bytes of each value; 0: stored with each sample
  bool operator==(const MdsColumn&) const = default;
};

struct MdsShard {
  // Relative paths: merged indices name shards in folders. The latter, of the compressed file, may
  // be empty.
  std::string raw_name, zip_name;
  int64_t raw_bytes = 0;
  int64_t samples = 0;
};

struct MdsIndex {
  std::vector<MdsColumn> columns;  // of all shards
  std::vector<MdsShard> shards;
};

int64_t bytes_of(MdsNumber type);
// Of a number in an array whose type is stored with it. nullopt: unknown.
std::optional<MdsNumber> mds_number(int code);

// `name`: of the index, for messages. Throws Config: not such an index, another version or format,
// compression other than zstd, shards with different columns, file names that leave the directory.
MdsIndex parse_mds_index(const std::string& text, const std::string& name);

}  // namespace lockstep::formats
