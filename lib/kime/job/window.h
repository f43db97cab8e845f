// The records that wait to be packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kime/batch/packer.h"

namespace kime {

/// Records in order of arrival, each with a number, until they are packed. Reused.
class Window {
 public:
  /// `streams` streams take its batches of about `target` tokens; it is full at some batches' worth for each, so that few are uneven.
  explicit Window(std::size_t streams, std::size_t target = CostModel{}.target) : Window(streams, 8 * target * streams, false) {
    cost_.target = target;
  }
  /// Full at `most` tokens; `padded`: there is a device on which padding to the bucket costs time.
  Window(std::size_t streams, std::size_t most, bool padded) : streams_(streams), most_(most) { cost_.padded = padded; }

  void add(std::uint64_t number, RecordSize size) {
    sizes_.push_back(size);
    numbers_.push_back(number);
    tokens_ += size.tokens;
  }
  [[nodiscard]] bool empty() const { return sizes_.empty(); }
  [[nodiscard]] bool full() const { return tokens_ >= most_; }
  [[nodiscard]] std::size_t records() const { return sizes_.size(); }
  [[nodiscard]] std::size_t tokens() const { return tokens_; }

  /// Packs what it holds into batches of `buckets`, calls fn(numbers) for each until that returns false, and empties it.
  template <class Fn>
  void pack_all(std::span<const Bucket> buckets, const Fn& fn) {
    pack(sizes_, buckets, cost_, streams_, packing_);
    std::size_t begin = 0;
    for (const auto end : packing_.ends) {
      std::vector<std::uint64_t> batch;
      batch.reserve(end - begin);
      for (; begin < end; ++begin) {
        batch.push_back(numbers_[packing_.order[begin]]);
      }
      if (!fn(std::move(batch))) {
        break;
      }
    }
    sizes_.clear();
    numbers_.clear();
    tokens_ = 0;
  }

 private:
  std::size_t streams_;
  std::size_t most_;
  CostModel cost_;
  std::vector<RecordSize> sizes_;
  std::vector<std::uint64_t> numbers_;
  std::size_t tokens_ = 0;
  Packing packing_;
};

}  // namespace kime
