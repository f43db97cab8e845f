#include "kime/io/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace kime {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr std::string_view kMark = "\xef\xbb\xbf";
constexpr std::string_view kSpace = " \t\r\v\f";

}  // namespace

Result<LineReader> LineReader::open(const std::string& path, std::size_t max_line, int wake_fd) {
  auto source = ByteSource::open(path, wake_fd);
  if (!source) {
    return source.error();
  }
  // Room for the sums below.
  return LineReader(*std::move(source), std::min(max_line, std::numeric_limits<std::size_t>::max() / 4));
}

Result<LineReader::Next> LineReader::keep_to(const LineRange& range) {
  const auto got = source_.skip_to(range.begin.offset);
  if (!got) {
    return got.error();
  }
  range_ = range;
  base_ = range.begin.offset;
  number_ = range.begin.line;
  discarding_ = range.begin.inside;
  return *got == ByteSource::Got::stopped ? Next::stopped : Next::line;
}

Result<LineReader::Next> LineReader::next(Line& line) {
  if (pending_) {
    line = *pending_;
    pending_.reset();
    return Next::line;
  }
  while (!take(line)) {
    if (failure_) {
      return *failure_;
    }
    if (ended_) {
      buffer_.reset();  // a job over many files has them all open
      capacity_ = 0;
      source_.give_back();
      return Next::end;
    }
    if (fill(true) == ByteSource::Got::stopped) {
      return Next::stopped;
    }
  }
  return Next::line;
}

bool LineReader::ready() {
  Line line;
  while (!pending_) {
    if (take(line)) {
      pending_ = line;
    } else if (failure_ || ended_) {
      return true;
    } else {
      const auto got = fill(false);
      if (got == ByteSource::Got::waiting || got == ByteSource::Got::stopped) {
        return got == ByteSource::Got::stopped;
      }
    }
  }
  return true;
}

/// Takes a line out of the buffer where a whole one, or the beginning of one that is too long, is there.
bool LineReader::take(Line& line) {
  line = {};
  while (begin_ < end_) {
    const char* data = buffer_.get();
    const auto* found = static_cast<const char*>(std::memchr(data + scan_, '\n', end_ - scan_));
    const std::size_t stop = found != nullptr ? static_cast<std::size_t>(found - data) : end_;
    const std::string_view text(data + begin_, stop - begin_);
    scan_ = stop;
    if (discarding_) {
      discarding_ = found == nullptr;
    } else if (base_ + begin_ >= range_.end_offset || number_ >= range_.end_line) {
      begin_ = scan_ = end_;
      ended_ = true;
      return false;
    } else if (found == nullptr && text.size() > max_line_ + kMark.size() + 1) {  // 1: what may be the \r of a line end.
      discarding_ = true;
      line = {{}, ++number_, true, {}};
    } else if (found == nullptr && !ended_) {
      return false;
    } else {
      finish(text, line);
    }
    begin_ = scan_ = std::min(stop + 1, end_);
    if (line.number > range_.skip) {
      line.after = {base_ + begin_, number_, discarding_};
      return true;
    }
    line = {};
  }
  return false;
}

/// A whole line; leaves `line` as it is where this one is blank.
void LineReader::finish(std::string_view text, Line& line) {
  ++number_;
  if (number_ == 1 && text.substr(0, kMark.size()) == kMark) {
    text.remove_prefix(kMark.size());
  }
  if (!text.empty() && text.back() == '\r') {
    text.remove_suffix(1);
  }
  if (text.size() > max_line_) {
    line = {{}, number_, true, {}};
  } else if (text.find_first_not_of(kSpace) != std::string_view::npos) {
    line = {text, number_, false, {}};
  }
}

/// Reads once. Sets ended_ or failure_ where there is no more.
ByteSource::Got LineReader::fill(bool may_wait) {
  if (!make_room()) {
    failure_ = Error(ErrorKind::input, fmt::format("{}: no memory for line {}", name(), number_ + 1));
    return ByteSource::Got::end;
  }
  const auto read = source_.read({buffer_.get() + end_, capacity_ - end_}, may_wait);
  if (!read) {
    failure_ = read.error();
    return ByteSource::Got::end;
  }
  end_ += read->count;
  ended_ = read->got == ByteSource::Got::end;
  return read->got;
}

/// Moves what is left to the front, and grows the buffer where a line fills it.
bool LineReader::make_room() {
  base_ += begin_;
  if (begin_ == end_) {
    begin_ = scan_ = end_ = 0;
    if (discarding_ && capacity_ > kBlock) {
      return resize(kBlock);  // Nothing of a line that was too long is needed any more.
    }
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    scan_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
  }
  if (capacity_ - end_ >= kBlock / 2) {
    return true;
  }
  return resize(capacity_ == 0 ? kBlock : std::min(capacity_ * 2, max_line_ + 2 * kBlock));
}

bool LineReader::resize(std::size_t capacity) {
  auto* grown = static_cast<char*>(std::realloc(buffer_.get(), capacity));
  if (grown == nullptr) {
    return false;
  }
  static_cast<void>(buffer_.release());  // realloc has taken it.
  buffer_.reset(grown);
  capacity_ = capacity;
  return true;
}

Result<std::vector<LineReader>> open_all(std::span<const std::string> paths, std::size_t max_line, int wake_fd) {
  std::vector<LineReader> readers;
  for (const std::string& path : paths) {
    auto reader = LineReader::open(path, max_line, wake_fd);
    if (!reader) {
      return std::move(reader).error();
    }
    readers.push_back(*std::move(reader));
  }
  return readers;
}

}  // namespace kime
