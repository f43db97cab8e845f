// Tables of the rotary embedding's cosines and sines, shared by all plans over the same weights.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kime/base/error.h"
#include "kime/base/memory.h"
#include "kime/graph/rope.h"

namespace kime::cpu {

/// Reserved for many positions, filled for as many as have been asked for: pages that are not reached cost nothing.
class RopeTable {
 public:
  /// Errors: `device` without memory.
  static Result<std::unique_ptr<RopeTable>> make(float theta, std::size_t head_width, std::size_t capacity);

  /// Sees to it that positions [0, positions) are there; positions <= capacity(). Allocates nothing. From any thread.
  void fill(std::size_t positions);

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] bool is_for(float theta, std::size_t head_width) const { return angles_.is_for(theta, head_width); }
  /// [position][head_width / 2]
  [[nodiscard]] const float* cosine() const { return memory_.floats().data(); }
  [[nodiscard]] const float* sine() const { return cosine() + capacity_ * angles_.half(); }

 private:
  RopeTable(float theta, std::size_t head_width, std::size_t capacity, Pages memory);

  RopeAngles angles_;
  std::size_t capacity_;
  Pages memory_;
  std::mutex filling_;
  std::atomic<std::size_t> filled_{0};
};

/// The tables there are, by theta and head width.
class RopeTables {
 public:
  /// A table of at least `positions`; a larger one than the one there is takes its place, and who holds the old one keeps it.
  /// Errors: `device` without memory.
  Result<std::shared_ptr<RopeTable>> get(float theta, std::size_t head_width, std::size_t positions);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<RopeTable>> tables_;
};

}  // namespace kime::cpu
