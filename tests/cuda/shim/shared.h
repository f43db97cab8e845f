// Shared memory through a view that watches it.
#pragma once

#include <cstddef>
#include <string>

#include "tests/cuda/shim/block.h"

namespace kime::cuda::shim {

/// An element of shared memory: each use of it is a read or a write that the block's shadow learns of.
template <class T>
class SharedRef {
 public:
  explicit SharedRef(T* at) : at_(at) {}
  SharedRef(const SharedRef&) = default;

  // NOLINTNEXTLINE(google-explicit-constructor): it stands for a T
  operator T() const {
    Block::current().read_shared(at_, sizeof(T), alignof(T));
    return *at_;
  }
  const SharedRef& operator=(const T& value) const {
    Block::current().write_shared(at_, sizeof(T), alignof(T));
    *at_ = value;
    return *this;
  }
  const SharedRef& operator=(const SharedRef& other) const { return *this = static_cast<T>(other); }
  const SharedRef& operator+=(const T& value) const { return *this = static_cast<T>(*this) + value; }
  T* operator&() const { return at_; }

 private:
  T* at_;
};

/// Stands for a T* into an array in shared memory, and knows the array's ends.
template <class T>
class SharedPtr {
 public:
  static_assert(sizeof(T) > 1, "the shadow tells pieces of two bytes apart");

  SharedPtr() = default;
  SharedPtr(T* begin, std::size_t count) : at_(begin), begin_(begin), end_(begin + count) {}

  template <class Index>
  [[nodiscard]] SharedRef<T> operator[](Index i) const {
    T* const p = at_ + static_cast<std::ptrdiff_t>(i);
    if (p < begin_ || p >= end_) {
      Block::current().fault("element " + std::to_string(p - begin_) + " of an array of " + std::to_string(end_ - begin_) +
                             " in shared memory");
    }
    return SharedRef<T>(p);
  }
  [[nodiscard]] SharedRef<T> operator*() const { return (*this)[0]; }
  template <class Index>
  [[nodiscard]] SharedPtr operator+(Index i) const {
    SharedPtr moved = *this;
    moved.at_ += static_cast<std::ptrdiff_t>(i);
    return moved;
  }
  /// For cp_async and ldmatrix, which watch for themselves.
  [[nodiscard]] T* get() const { return at_; }

 private:
  T* at_ = nullptr;
  T* begin_ = nullptr;
  T* end_ = nullptr;
};

}  // namespace kime::cuda::shim
