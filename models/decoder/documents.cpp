// Several documents in one sample.
#include <ATen/ATen.h>

#include "models/decoder/decoder_layer.h"

namespace lockstep::models {
namespace {

// The position of each token in its document.
at::Tensor positions_in(const at::Tensor& documents_BT) {
  const auto places = at::arange(documents_BT.size(1), documents_BT.options());
  const auto starts = at::ones_like(documents_BT, at::kBool);
  starts.narrow(1, 1, documents_BT.size(1) - 1)
      .copy_(documents_BT.narrow(1, 1, documents_BT.size(1) - 1)
                 .ne(documents_BT.narrow(1, 0, documents_BT.size(1) - 1)));
  const auto start = std::get<0>(at::cummax(places * starts, 1));
  return places - start;
}

}  // namespace

std::shared_ptr<const AttentionContext> within_documents(const AttentionContext& context,
                                                         const at::Tensor& documents) {
  const auto positions_BT = positions_in(documents);
  const auto starts_BT =
      at::arange(documents.size(1), documents.options()) - positions_BT;       // of each document
  auto mask = starts_BT.unsqueeze(2).eq(starts_BT.unsqueeze(1)).unsqueeze(1);  // [B, 1, T, T]
  mask = context.mask.defined() ? mask.logical_and(context.mask) : mask.tril();
  return std::make_shared<AttentionContext>(
      AttentionContext{context.rotary.at(positions_BT), mask});
}

}  // namespace lockstep::models
