#include "kime/results/id_log.h"

#include <bit>
#include <utility>

namespace kime {

Status IdLog::add(const KeyHash& hash, std::uint64_t line) {
  Part& part = parts_[hash.high % kParts];
  part.held.push_back({hash.low, (hash.high & ~(kParts - 1)) << (kLineBits - 8) | line});
  if (part.held.size() < kChunk) {
    return {};
  }
  const auto offset = file_.append({reinterpret_cast<const char*>(part.held.data()), kChunk * sizeof(Entry)});
  if (!offset) {
    return offset.error();
  }
  part.chunks.push_back(*offset);
  part.held.clear();
  return {};
}

Result<std::vector<IdLog::Entry>> IdLog::load(Part& part) {
  std::vector<Entry> entries(part.chunks.size() * kChunk);
  for (std::size_t i = 0; i < part.chunks.size(); ++i) {
    const std::span<Entry> chunk = std::span(entries).subspan(i * kChunk, kChunk);
    if (auto read = file_.read(part.chunks[i], {reinterpret_cast<char*>(chunk.data()), chunk.size_bytes()}); !read) {
      return read.error();
    }
  }
  entries.insert(entries.end(), part.held.begin(), part.held.end());
  return entries;
}

// Entries stand in the order of their lines.
void IdLog::find_twice(const std::vector<Entry>& entries, std::optional<Twice>& found) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const std::size_t mask = std::bit_ceil(2 * entries.size() + 1) - 1;
  table_.assign(mask + 1, kNone);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::size_t at = entries[i].low & mask;
    while (table_[at] != kNone && !entries[table_[at]].same_key(entries[i])) {
      at = (at + 1) & mask;
    }
    if (table_[at] == kNone) {
      table_[at] = static_cast<std::uint32_t>(i);
    } else if (!found || entries[i].line() < found->second) {
      found = Twice{entries[table_[at]].line(), entries[i].line()};
    }
  }
}

Result<std::optional<IdLog::Twice>> IdLog::first_twice() {
  std::optional<Twice> found;
  for (Part& part : parts_) {
    auto entries = load(part);
    if (!entries) {
      return std::move(entries).error();
    }
    find_twice(*entries, found);
  }
  return found;
}

}  // namespace kime
