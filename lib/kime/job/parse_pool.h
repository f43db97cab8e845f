// Lines parsed by several threads and handed out in their order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kime/job/line_parser.h"
#include "kime/job/where.h"

namespace kime {

/// Some lines that follow one another, and once they are parsed what they hold. Reused.
class LineChunk {
 public:
  /// Enough that handing a chunk over costs nothing beside parsing it, and so few that the threads end together.
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  static constexpr std::size_t kLines = 256;

  struct Entry {
    Where where;
    std::uint64_t position = 0;  ///< Bytes of the file that were read for this and all lines before it.
    std::size_t begin = 0;       ///< In the chunk's text.
    std::size_t length = 0;
    bool too_long = false;
    Record record;
    std::optional<RecordError> error;
  };

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] Entry& operator[](std::size_t i) { return entries_[i]; }
  /// Whether a line of so many bytes still goes in.
  [[nodiscard]] bool holds(std::size_t bytes) const { return count_ < kLines && text_.size() + bytes <= kBytes; }
  void add(std::string_view text, bool too_long, const Where& where, std::uint64_t position);
  void clear();
  void parse(LineParser& parser);

 private:
  std::string text_;
  std::vector<Entry> entries_;  ///< More than are in use: records that have grown allocate little.
  std::size_t count_ = 0;
};

/// Chunks on their way, first in, first out. The calls are for one thread, which parses too where it would else wait; the others start once
/// there is work for them.
class ParsePool {
 public:
  /// `threads` that parse, the caller's among them; at least 1.
  ParsePool(LineRules rules, std::size_t threads);
  ParsePool(const ParsePool&) = delete;
  ParsePool& operator=(const ParsePool&) = delete;
  ~ParsePool();

  [[nodiscard]] bool empty() const { return chunks_.empty(); }
  [[nodiscard]] bool full() const { return chunks_.size() >= most_; }
  /// Sends a chunk that is not empty on its way, and gives an empty one for it. Not when full.
  void push(std::unique_ptr<LineChunk>& chunk);
  /// Waits until the oldest chunk is parsed, and exchanges it for `chunk`, which is empty. Not when empty.
  void pop(std::unique_ptr<LineChunk>& chunk);
  /// For the caller's own lines.
  [[nodiscard]] LineParser& parser() { return parser_; }

 private:
  struct Job {
    enum class State { waiting, taken, done };
    std::unique_ptr<LineChunk> chunk;
    State state = State::waiting;
  };

  /// The oldest that nobody has taken, taken. With the mutex.
  Job* take();
  /// Parses what is taken. `lock` is open meanwhile.
  static void parse(Job& job, LineParser& parser, std::unique_lock<std::mutex>& lock);
  void help();

  LineRules rules_;
  LineParser parser_;
  std::size_t helpers_most_;
  std::size_t most_;
  std::vector<std::unique_ptr<LineChunk>> spare_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<Job> chunks_;  ///< Changed by the caller alone, with the mutex; what is in a job by who has taken it.
  bool ended_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace kime
