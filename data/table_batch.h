// Batches of encoded rows. Fields: "features" float32 [B, D]; "categories" int64 [B, C] if text is
// not one-hot encoded; "label" int64 [B] (classes) or float32 [B] (values).
#pragma once

#include <span>
#include <vector>

#include "formats/table/table_encoding.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// A dataset of a table, of any format: an evaluation set can be fitted to a training set of another
// format.
class EncodedTable : public Dataset {
 public:
  virtual const formats::TableEncoding& encoding() const = 0;  // after fit()
};

std::vector<FieldLayout> table_layout(const formats::TableEncoding& encoding);

// Copies row rows[i] of `block` to sample places[i] of `fields`, the tensors of table_layout().
void gather_rows(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
                 std::span<const int64_t> rows, std::span<const int64_t> places,
                 std::span<const at::Tensor> fields);

// Appends the labels of `block` to `labels`, as in SampleInfo::labels.
void add_labels(const formats::TableEncoding& encoding, const formats::EncodedRows& block,
                std::vector<double>& labels);

}  // namespace lockstep::data
