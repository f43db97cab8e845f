// The largest few of many.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace kime {

/// Keeps the `most` items that come first by `Before`, an order in which no two are equal; memory is bounded by that.
template <class T, class Before>
class TopList {
 public:
  explicit TopList(std::size_t most) : most_(most) {}

  /// Whether `add` would keep it.
  [[nodiscard]] bool wants(const T& item) const { return items_.size() < most_ || (most_ > 0 && Before()(item, items_.front())); }
  void add(T item) {
    if (!wants(item)) {
      return;
    }
    items_.push_back(std::move(item));
    std::ranges::push_heap(items_, Before());  // the last one is in front
    if (items_.size() > most_) {
      std::ranges::pop_heap(items_, Before());
      items_.pop_back();
    }
  }
  /// In order.
  [[nodiscard]] std::vector<T> sorted() const {
    std::vector<T> all = items_;
    std::ranges::sort(all, Before());
    return all;
  }

 private:
  std::size_t most_;
  std::vector<T> items_;
};

}  // namespace kime
