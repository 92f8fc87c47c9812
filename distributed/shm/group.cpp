#include "distributed/shm/group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "distributed/shm/reduction.h"

namespace lockstep::shm {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;
// Up to here one pass over all slots by every rank is quicker than a slice each and a second
// meeting.
constexpr int kFewRanks = 3;
constexpr size_t kSmallBytes = 16 << 10;

size_t up_to(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t front_bytes(int num_ranks) {
  return up_to(sizeof(SegmentHeader) + static_cast<size_t>(num_ranks) * sizeof(RankLine), kPage);
}

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

SegmentHeader& header_of(const Segment& segment) {
  return *reinterpret_cast<SegmentHeader*>(segment.data());
}

RankLine* lines_of(const Segment& segment) {
  return reinterpret_cast<RankLine*>(segment.data() + sizeof(SegmentHeader));
}

size_t Group::segment_bytes(int num_ranks, size_t slot_bytes) {
  return front_bytes(num_ranks) + 2 * static_cast<size_t>(num_ranks) * slot_bytes;
}

Group::Group(Segment segment, int rank, int num_ranks, size_t slot_bytes)
    : segment_(std::move(segment)),
      rank_(rank),
      num_ranks_(num_ranks),
      slot_bytes_(slot_bytes),
      rounds_({.rank = rank, .num_ranks = num_ranks, .lines = lines_of(segment_)}),
      sources_(static_cast<size_t>(num_ranks)) {
  check(slot_bytes % kLine == 0 && slot_bytes / static_cast<size_t>(num_ranks) >= kLine,
        "slots hold at least 64 bytes per rank");
}

std::byte* Group::slot(int rank) const {
  const auto number = 2 * static_cast<size_t>(rank) + turn_ % 2;
  return segment_.data() + front_bytes(num_ranks_) + number * slot_bytes_;
}

template <class Write, class Read>
void Group::go_through(const Call& call, const Pass& pass, const Write& write, const Read& read) {
  size_t begin = 0;
  do {  // an empty array makes one round too
    ++turn_;
    const Window window{begin, std::min(pass.window, pass.bytes - begin)};
    write(slot(rank_), window);
    rounds_.meet(call, pass.deadline);
    read(window);
    begin += window.size;
  } while (begin < pass.bytes);
}

void Group::barrier(Clock::time_point deadline) { rounds_.meet({}, deadline); }

void Group::broadcast(const Array& array, int root, Clock::time_point deadline) {
  const Call call{Collective::Broadcast, array.type, Reduction::None, root, array.count};
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        if (rank_ == root) copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        if (rank_ != root) copy_bytes(array.data + window.begin, slot(root), window.size);
      });
}

// `part` of `window`, whose first byte belongs at `out`.
void Group::combine_slots(const SumOrder& order, const Call& call, const Window& window,
                          const Window& part, std::byte* out) {
  const auto size = size_of(call.type);
  const auto begin = (window.begin + part.begin) / size;
  order.for_each_chunk(begin, begin + part.size / size, [&](int chunk, size_t from, size_t to) {
    const auto offset = from * size - window.begin;
    for (int i = 0; i < num_ranks_; ++i)
      sources_[static_cast<size_t>(i)] = slot(order.rank_at(chunk, i)) + offset;
    combine(out + offset, sources_, to - from, call.type, call.reduction);
  });
}

void Group::all_reduce(const Array& array, Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::AllReduce, array.type, reduction, 0, array.count};
  const SumOrder order(num_ranks_, array.count, size_of(array.type));
  const bool in_one_pass = num_ranks_ <= kFewRanks || array.bytes() <= kSmallBytes;
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        auto* const out = array.data + window.begin;
        if (in_one_pass) return combine_slots(order, call, window, {0, window.size}, out);
        combine_slots(order, call, window, slice(window, rank_), slot(rank_));
        rounds_.meet(call, deadline);
        for (int rank = 0; rank < num_ranks_; ++rank) {
          const auto part = slice(window, rank);
          copy_bytes(out + part.begin, slot(rank) + part.begin, part.size);
        }
      });
}

// The part of a window that `rank` reduces for all.
Group::Window Group::slice(const Window& window, int rank) const {
  const auto step = up_to(window.size / static_cast<size_t>(num_ranks_) + 1, kLine);
  const auto begin = std::min(window.size, static_cast<size_t>(rank) * step);
  return {begin, std::min(step, window.size - begin)};
}

void Group::reduce(const Array& array, Reduction reduction, int root, Clock::time_point deadline) {
  const Call call{Collective::Reduce, array.type, reduction, root, array.count};
  const SumOrder order(num_ranks_, array.count, size_of(array.type));
  go_through(
      call, {array.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, array.data + window.begin, window.size);
      },
      [&](const Window& window) {
        if (rank_ == root)
          combine_slots(order, call, window, {0, window.size}, array.data + window.begin);
      });
}

void Group::all_gather(const Array& mine, std::span<std::byte* const> out,
                       Clock::time_point deadline) {
  const Call call{Collective::AllGather, mine.type, Reduction::None, 0, mine.count};
  collect(call, mine, out, deadline);
}

void Group::gather(const Array& mine, std::span<std::byte* const> out, int root,
                   Clock::time_point deadline) {
  const Call call{Collective::Gather, mine.type, Reduction::None, root, mine.count};
  collect(call, mine, out, deadline);
}

void Group::collect(const Call& call, const Array& mine, std::span<std::byte* const> out,
                    Clock::time_point deadline) {
  go_through(
      call, {mine.bytes(), slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        copy_bytes(slot, mine.data + window.begin, window.size);
      },
      [&](const Window& window) {
        for (size_t rank = 0; rank < out.size(); ++rank)
          copy_bytes(out[rank] + window.begin, slot(static_cast<int>(rank)), window.size);
      });
}

// With a part for every rank in one slot.
size_t Group::part_bytes() const {
  return slot_bytes_ / static_cast<size_t>(num_ranks_) / kLine * kLine;
}

void Group::scatter(std::span<const std::byte* const> in, const Array& mine, int root,
                    Clock::time_point deadline) {
  const Call call{Collective::Scatter, mine.type, Reduction::None, root, mine.count};
  const auto part = part_bytes();
  go_through(
      call, {mine.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        copy_bytes(mine.data + window.begin, slot(root) + static_cast<size_t>(rank_) * part,
                   window.size);
      });
}

void Group::reduce_scatter(std::span<const std::byte* const> in, const Array& mine,
                           Reduction reduction, Clock::time_point deadline) {
  const Call call{Collective::ReduceScatter, mine.type, reduction, 0, mine.count};
  const auto part = part_bytes();
  const SumOrder order(num_ranks_, mine.count, size_of(mine.type));
  go_through(
      call, {mine.bytes(), part, deadline},
      [&](std::byte* slot, const Window& window) {
        for (size_t rank = 0; rank < in.size(); ++rank)
          copy_bytes(slot + rank * part, in[rank] + window.begin, window.size);
      },
      [&](const Window& window) {
        for (int i = 0; i < num_ranks_; ++i)
          sources_[static_cast<size_t>(i)] =
              slot(order.rank_at(rank_, i)) + static_cast<size_t>(rank_) * part;
        combine(mine.data + window.begin, sources_, window.size / size_of(mine.type), mine.type,
                reduction);
      });
}

}  // namespace lockstep::shm
