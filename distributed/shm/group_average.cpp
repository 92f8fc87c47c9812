// Averages of gradients that are in several arrays.
#include <algorithm>
#include <vector>

#include "distributed/shm/copying.h"
#include "distributed/shm/group_windows.h"
#include "distributed/shm/reduction.h"

namespace lockstep::distributed::shm {
namespace {

// Iterates over the concatenation of `parts` in consecutive windows.
class Pieces {
 public:
  explicit Pieces(std::span<const Array> parts) : parts_(parts) {}

  // Calls visit(data, offset, size) for each piece of the next `size` bytes. `offset`: within them.
  template <class Visit>
  void next(size_t size, const Visit& visit) {
    for (size_t offset = 0; offset < size;) {
      const auto& part = parts_[part_];
      const auto piece = std::min(size - offset, part.bytes() - within_);
      visit(part.data + within_, offset, piece);
      offset += piece;
      within_ += piece;
      if (within_ == part.bytes()) {
        ++part_;
        within_ = 0;
      }
    }
  }

 private:
  std::span<const Array> parts_;
  size_t part_ = 0, within_ = 0;
};

}  // namespace

void Group::average_parts(std::span<const Array> parts, size_t count, const Averaging& averaging,
                          Clock::time_point deadline) {
  const auto type = parts.empty() ? ElementType::Float32 : parts.front().type;
  const auto bytes = count * size_of(type);
  const Call call{Collective::AllReduce, type, Reduction::Sum, 0, count};
  const Sum sum{call, {num_ranks_, count, size_of(type), averaging.kind}};
  Pieces to_write(parts), to_read(parts);
  for_each_window(
      call, {bytes, slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        to_write.next(window.size, [&](const std::byte* data, size_t offset, size_t size) {
          scale(slot + offset, data, size / size_of(type), type, averaging.factor);
        });
      },
      [&](const Window& window) {
        const bool one_pass = in_one_pass(bytes);
        if (!one_pass) reduce_own_slice(sum, window, deadline);
        to_read.next(window.size, [&](std::byte* data, size_t offset, size_t size) {
          // reduce_window adds the offset in the window to `out`.
          if (one_pass)
            return reduce_window(sum, window, {offset, size}, slot(rank_), data - offset);
          copy_slices(window, {offset, size}, data);
        });
      });
}

std::vector<Group::PerHostPart> Group::average_per_host(std::span<const PerHostPart> parts,
                                                        const Averaging& averaging,
                                                        Clock::time_point deadline) {
  const auto type = parts.empty() ? ElementType::Float32 : parts.front().in.type;
  const auto size = size_of(type);
  std::vector<Array> inputs;
  size_t count = 0;
  for (const auto& part : parts) {
    inputs.push_back(part.in);
    count += part.in.count;
  }
  const Call call{Collective::ReduceScatter, type, Reduction::Sum, 0, count};
  Pieces to_write(inputs);
  std::vector<PerHostPart> written;
  for_each_window(
      call, {count * size, slot_bytes_, deadline},
      [&](std::byte* slot, const Window& window) {
        to_write.next(window.size, [&](const std::byte* data, size_t offset, size_t bytes) {
          scale(slot + offset, data, bytes / size, type, averaging.factor);
        });
      },
      [&](const Window& window) {
        const auto own = slice(window, rank_);
        const Window wanted{window.begin + own.begin, own.size};
        size_t begin = 0;  // of a part in the concatenation, in bytes
        for (const auto& part : parts) {
          const auto from = std::max(begin, wanted.begin);
          const auto to = std::min(begin + part.in.bytes(), wanted.begin + wanted.size);
          if (from < to) {
            reduce_per_host(part, {from - begin, to - from}, from - window.begin, averaging.kind);
            auto* const out = part.out + (from - begin);
            written.push_back({{out, (to - from) / size, type},
                               out,
                               part.offset + (from - begin) / size,
                               part.whole});
          }
          begin += part.in.bytes();
        }
      });
  return written;
}

// Reduces `bytes` of `part` from the slots, where they begin at `in_slot`.
void Group::reduce_per_host(const PerHostPart& part, const Window& bytes, size_t in_slot,
                            SumKind kind) {
  const auto size = size_of(part.in.type);
  const SumOrder order(num_ranks_, part.whole, size, kind);
  const auto first = part.offset + bytes.begin / size, last = first + bytes.size / size;
  order.for_each_chunk(first, last, [&](int chunk, size_t begin, size_t end) {
    const auto done = (begin - first) * size;
    for (int i = 0; i < num_ranks_; ++i)
      sources_[static_cast<size_t>(i)] = slot(order.rank_at(chunk, i)) + in_slot + done;
    order.add(part.out + bytes.begin + done, sources_, end - begin, part.in.type);
  });
}

}  // namespace lockstep::distributed::shm
