// Differences between the supported versions of LibTorch, 2.11 to 2.15 (cmake/LibTorch.cmake). Each is found by what the headers
// declare, not by a version number, so that it also holds for LibTorch built from source.
#pragma once

#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::distributed {

// Gathers `own` of every rank into `whole`, in the order of ranks. 2.15 renamed _allgather_base of c10d::ProcessGroup.
template <typename Group>
auto gather_into(Group& group, at::Tensor& whole, at::Tensor& own) {
  if constexpr (requires { group.all_gather_single(whole, own); })
    return group.all_gather_single(whole, own);
  else
    return group._allgather_base(whole, own);
}

// Sends the parts of `sent` to the ranks, and receives theirs; sizes are rows, empty if all are equal. 2.15 renamed alltoall_base.
template <typename Group>
auto exchange_parts(Group& group, at::Tensor& received, at::Tensor& sent,
                    std::vector<int64_t>& received_sizes, std::vector<int64_t>& sent_sizes) {
  if constexpr (requires { group.all_to_all_single(received, sent, received_sizes, sent_sizes); })
    return group.all_to_all_single(received, sent, received_sizes, sent_sizes);
  else
    return group.alltoall_base(received, sent, received_sizes, sent_sizes);
}

// A node of the autograd graph. 2.15 counts its references in the node itself.
template <typename Node, typename... Arguments>
auto make_node(Arguments&&... arguments) {
  using Pointer = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
  else
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
}

}  // namespace lockstep::distributed
