#include "kime/batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace kime {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();

Error bad(std::string message) {
  return {ErrorKind::batch, std::move(message)};
}

}  // namespace

Status Batch::check(std::size_t vocab, std::size_t types) const {
  if (cu.empty() || mcu.empty() || cu.front() != 0 || mcu.front() != 0) {
    return bad("cu and mcu must start at 0");
  }
  const std::size_t count = seqs();
  if (mcu.size() != cu.size() || qtype.size() != count) {
    return bad(fmt::format("{} sequences but {} mcu and {} qtype", count, mcu.size() - 1, qtype.size()));
  }
  if (cu.back() != ids.size() || mcu.back() != markers.size()) {
    return bad("cu and mcu must end at the totals");
  }
  // All of cu and mcu before anything is read through them: an offset in the middle may be past the end of the arrays.
  for (std::size_t s = 0; s < count; ++s) {
    if (cu[s + 1] < cu[s] || mcu[s + 1] < mcu[s]) {
      return bad(fmt::format("sequence {} ends before it starts", s));
    }
  }
  for (std::size_t s = 0; s < count; ++s) {
    if (qtype[s] >= types) {
      return bad(fmt::format("sequence {} has type {} of {}", s, qtype[s], types));
    }
    const std::uint32_t length = cu[s + 1] - cu[s];
    for (std::size_t m = mcu[s]; m < mcu[s + 1]; ++m) {
      if (markers[m] >= length) {
        return bad(fmt::format("marker {} is past sequence {} of {} tokens", markers[m], s, length));
      }
    }
  }
  const auto past = std::find_if(ids.begin(), ids.end(), [vocab](std::uint32_t id) { return id >= vocab; });
  if (past != ids.end()) {
    return bad(fmt::format("token id {} is past the vocabulary of {}", *past, vocab));
  }
  return {};
}

void BatchBuffer::clear() {
  ids_.clear();
  cu_.resize(1);
  markers_.clear();
  mcu_.resize(1);
  qtype_.clear();
}

Status BatchBuffer::push(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> markers, std::uint8_t qtype) {
  if (ids.size() > kMost - ids_.size()) {
    return bad(fmt::format("a batch holds at most {} tokens", kMost));
  }
  if (markers.size() > kMost - markers_.size()) {
    return bad(fmt::format("a batch holds at most {} markers", kMost));
  }
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  cu_.push_back(static_cast<std::uint32_t>(ids_.size()));
  markers_.insert(markers_.end(), markers.begin(), markers.end());
  mcu_.push_back(static_cast<std::uint32_t>(markers_.size()));
  qtype_.push_back(qtype);
  return {};
}

void BatchBuffer::reserve(std::size_t tokens, std::size_t seqs, std::size_t markers) {
  ids_.reserve(tokens);
  cu_.reserve(seqs + 1);
  markers_.reserve(markers);
  mcu_.reserve(seqs + 1);
  qtype_.reserve(seqs);
}

Batch BatchBuffer::batch() const {
  return {ids_, cu_, markers_, mcu_, qtype_};
}

}  // namespace kime
