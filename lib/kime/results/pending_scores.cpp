#include "kime/results/pending_scores.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace kime {
namespace {

// How a line stands in the file: this, its text (key, error, label), its numbers.
struct StoredHead {
  ScoreBlock::Entry entry;
  std::uint32_t text = 0;
  std::uint32_t numbers = 0;
};
static_assert(std::is_trivially_copyable_v<StoredHead>);

StoredHead head_of(const ScoreView& line) {
  StoredHead head;
  ScoreBlock::Entry& entry = head.entry;
  entry.line = line.line;
  entry.hash = line.hash;
  entry.fields = line.fields;
  const auto place = [](std::uint32_t& end, std::size_t size) {
    const ScoreBlock::Slice slice{end, static_cast<std::uint32_t>(size)};
    end += slice.count;
    return slice;
  };
  entry.key = place(head.text, line.key.size());
  entry.id = {0, static_cast<std::uint32_t>(line.id.size())};
  entry.error = place(head.text, line.error.size());
  entry.label = place(head.text, line.label.size());
  for (std::size_t f = 0; f < kScoreFields; ++f) {
    entry.values[f] = place(head.numbers, line.values[f].size());
  }
  return head;
}

}  // namespace

std::size_t PendingScores::Table::home(std::uint64_t hash) const {
  return static_cast<std::size_t>(((hash << 8U >> 32U) * slots.size()) >> 32U);  // ascends with the hash
}

void PendingScores::Table::insert(Slot slot) {
  std::size_t at = home(slot.hash);
  while (slots[at].offset != kEmpty) {
    at = at + 1 == slots.size() ? 0 : at + 1;
  }
  slots[at] = slot;
  ++used;
}

void PendingScores::Table::grow() {
  std::vector<Slot> before(std::max<std::size_t>(8, slots.size() + slots.size() / 2));
  before.swap(slots);
  used = 0;
  for (const Slot& slot : before) {
    if (slot.offset != kEmpty) {
      insert(slot);
    }
  }
}

// Leaves no gap between a slot that follows and its home.
void PendingScores::Table::erase(std::size_t at) {
  std::size_t next = at;
  for (;;) {
    next = next + 1 == slots.size() ? 0 : next + 1;
    if (slots[next].offset == kEmpty) {
      break;
    }
    const std::size_t wanted = home(slots[next].hash);
    const bool stays = at < next ? wanted > at && wanted <= next : wanted > at || wanted <= next;
    if (!stays) {
      slots[at] = slots[next];
      at = next;
    }
  }
  slots[at] = {};
  --used;
}

Status PendingScores::add(const ScoreView& line) {
  const StoredHead head = head_of(line);
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += line.key;
  bytes += line.error;
  bytes += line.label;
  for (const auto& values : line.values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  const auto offset = file_.append(bytes);
  if (!offset) {
    return offset.error();
  }
  Table& table = table_of(line.hash.low);
  if ((table.used + 1) * 5 > table.slots.size() * 4) {
    table.grow();
  }
  table.insert({line.hash.low, *offset});
  ++size_;
  return {};
}

Status PendingScores::load(std::uint64_t offset, ScoreBlock& block) {
  StoredHead head;
  bytes_.resize(std::min<std::uint64_t>(1024, file_.size() - offset));  // most lines in one read
  if (auto read = file_.read(offset, bytes_); !read) {
    return read;
  }
  std::memcpy(&head, bytes_.data(), sizeof head);
  const std::size_t first = bytes_.size();
  bytes_.resize(sizeof head + head.text + head.numbers * sizeof(double));
  if (bytes_.size() > first) {
    if (auto read = file_.read(offset + first, std::span(bytes_).subspan(first)); !read) {
      return read;
    }
  }
  block.clear();
  block.entries.push_back(head.entry);
  block.text.assign(bytes_.data() + sizeof head, head.text);
  block.numbers.resize(head.numbers);
  if (head.numbers > 0) {
    std::memcpy(block.numbers.data(), bytes_.data() + sizeof head + head.text, head.numbers * sizeof(double));
  }
  return {};
}

Result<bool> PendingScores::take(const ScoreView& like, ScoreBlock& block) {
  Table& table = table_of(like.hash.low);
  if (table.used == 0) {
    return false;
  }
  for (std::size_t at = table.home(like.hash.low); table.slots[at].offset != kEmpty; at = at + 1 == table.slots.size() ? 0 : at + 1) {
    if (table.slots[at].hash != like.hash.low) {
      continue;
    }
    if (auto loaded = load(table.slots[at].offset, block); !loaded) {
      return loaded.error();
    }
    if (block.view(0).key == like.key) {
      table.erase(at);
      --size_;
      return true;
    }
  }
  return false;
}

Status PendingScores::first(std::size_t most, const std::function<void(const ScoreView&)>& see) {
  std::vector<std::uint64_t> offsets;  // a heap of the smallest
  for (const Table& table : tables_) {
    for (const Slot& slot : table.slots) {
      if (slot.offset == kEmpty) {
        continue;
      }
      offsets.push_back(slot.offset);
      std::ranges::push_heap(offsets);
      if (offsets.size() > most) {
        std::ranges::pop_heap(offsets);
        offsets.pop_back();
      }
    }
  }
  std::ranges::sort_heap(offsets);
  ScoreBlock block;
  for (const std::uint64_t offset : offsets) {
    if (auto loaded = load(offset, block); !loaded) {
      return loaded;
    }
    see(block.view(0));
  }
  return {};
}

}  // namespace kime
