// The samples of an MDS shard in memory. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/mds/mds_index.h"
#include "formats/table/table.h"
#include "lockstep/error.h"

namespace lockstep::formats {

// Safe for untrusted bytes, which may also change while they are read.
//
// Thread: const functions are safe to call from several threads concurrently.
class MdsRows {
 public:
  // `bytes` and `columns` must outlive this. `samples`: as in the index. Throws Config if the shard
  // has another number of samples, or is truncated. `name`: for messages.
  MdsRows(std::span<const uint8_t> bytes, const std::vector<MdsColumn>& columns, int64_t samples,
          std::string name);

  // A column of these rows: one, or one per element of an array. Throws Config for encodings that
  // are neither numbers, strings nor arrays, arrays of different sizes, and corrupt samples.
  std::vector<TableColumn> column(size_t number, std::span<const int64_t> rows) const;

  // The stored value, such as an encoded image. Throws Config for a corrupt sample.
  std::span<const uint8_t> value(size_t column, int64_t row) const;

  // The same in two parts: the first byte and the bytes of a sample, and the value in its bytes.
  std::pair<size_t, size_t> place_of(int64_t row) const;
  std::span<const uint8_t> value_in(std::span<const uint8_t> sample, size_t column,
                                    int64_t row) const;

 private:
  struct Numbers {
    MdsNumber type;
    std::span<const uint8_t> bytes;
  };

  uint32_t word_at(size_t place) const { return word_in(bytes_, place); }
  static uint32_t word_in(std::span<const uint8_t> bytes, size_t place);
  Numbers numbers_of(const MdsColumn& column, std::span<const uint8_t> value, int64_t row) const;
  std::vector<TableColumn> arrays(size_t number, std::span<const int64_t> rows) const;
  TableColumn texts(size_t number, std::span<const int64_t> rows) const;
  TableColumn numbers(size_t number, std::span<const int64_t> rows) const;
  Error corrupt(int64_t row, const std::string& why) const;

  std::span<const uint8_t> bytes_;
  const std::vector<MdsColumn>& columns_;
  int64_t samples_;
  std::string name_;
  size_t head_ = 0;  // bytes of a sample before its values: the sizes that are stored there
};

}  // namespace lockstep::formats
