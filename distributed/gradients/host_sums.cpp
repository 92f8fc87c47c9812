#include "distributed/gradients/host_sums.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "distributed/shm/reduction.h"
#include "distributed/torch_versions.h"

namespace lockstep::distributed {
namespace {

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

}  // namespace

void HostSums::start(std::vector<shm::Group::PerHostPart> own) {
  advance();
  if (own.empty()) return;
  Exchange exchange;
  if (!free_.empty()) {
    exchange = std::move(free_.back());
    free_.pop_back();
  }
  size_t count = 0;
  for (const auto& each : own) count += each.in.count;
  const auto num_hosts = static_cast<size_t>(peers_.getSize());
  exchange.share = (count + num_hosts - 1) / num_hosts * shm::size_of(own.front().in.type);
  const auto size = static_cast<int64_t>(num_hosts * exchange.share);
  for (auto* buffer : {&exchange.sent, &exchange.received}) {
    if (!buffer->defined()) *buffer = at::empty({0}, at::kByte);
    buffer->resize_({size});
  }
  auto* to = bytes_of(exchange.sent);
  for (const auto& each : own) {
    std::memcpy(to, each.in.data, each.in.bytes());
    to += each.in.bytes();
  }
  std::fill(to, bytes_of(exchange.sent) + size, std::byte{0});
  exchange.own = std::move(own);
  exchange.is_gathering = false;
  std::vector<int64_t> equal;
  exchange.work = exchange_parts(peers_, exchange.received, exchange.sent, equal, equal);
  pending_.push_back(std::move(exchange));
}

// The next stage of each exchange, after the current one.
void HostSums::advance() {
  while (!pending_.empty() && pending_.front().is_gathering) {
    auto& exchange = pending_.front();
    exchange.work->wait();
    const auto* from = bytes_of(exchange.received);
    for (const auto& each : exchange.own) {
      std::memcpy(each.in.data, from, each.in.bytes());
      from += each.in.bytes();
    }
    free_.push_back(std::move(exchange));
    pending_.pop_front();
  }
  for (auto& exchange : pending_) {
    exchange.work->wait();
    add_own_share(exchange);
    auto share = exchange.sent.narrow(0, peers_.getRank() * static_cast<int64_t>(exchange.share),
                                      static_cast<int64_t>(exchange.share));
    exchange.work = gather_into(peers_, exchange.received, share);
    exchange.is_gathering = true;
  }
}

// Adds this rank's share of what the hosts sent, in the order of their all-reduce of the bucket.
void HostSums::add_own_share(Exchange& exchange) const {
  const auto num_hosts = peers_.getSize();
  const auto share_begin = static_cast<size_t>(peers_.getRank()) * exchange.share;
  auto* const sums = bytes_of(exchange.sent) + share_begin;
  std::vector<const std::byte*> sources(static_cast<size_t>(num_hosts));
  size_t begin = 0;  // of the elements in the concatenation, in bytes
  for (const auto& part : exchange.own) {
    const auto size = shm::size_of(part.in.type);
    const auto from = std::max(begin, share_begin);
    const auto to = std::min(begin + part.in.bytes(), share_begin + exchange.share);
    const shm::SumOrder order(num_hosts, part.whole, size);
    const auto first = part.offset + (from - begin) / size;  // in the bucket
    const auto add = [&](int chunk, size_t chunk_begin, size_t chunk_end) {
      const auto in_share = from - share_begin + (chunk_begin - first) * size;
      for (int i = 0; i < num_hosts; ++i)
        sources[static_cast<size_t>(i)] =
            bytes_of(exchange.received) + in_share +
            static_cast<size_t>(order.rank_at(chunk, i)) * exchange.share;
      shm::combine(sums + in_share, sources, chunk_end - chunk_begin, part.in.type,
                   shm::Reduction::Sum);
    };
    if (from < to) order.for_each_chunk(first, first + (to - from) / size, add);
    begin += part.in.bytes();
  }
}

void HostSums::finish() {
  while (!pending_.empty()) advance();
}

}  // namespace lockstep::distributed
