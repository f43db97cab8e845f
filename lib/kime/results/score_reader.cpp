#include "kime/results/score_reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "kime/io/json_text.h"
#include "kime/results/score_line_parser.h"

namespace kime {
namespace {

constexpr std::size_t kBlocks = 4;
constexpr std::size_t kBlockBytes = std::size_t{1} << 18;  // of lines
constexpr std::size_t kBlockLines = 1024;

}  // namespace

ScoreReader::ScoreReader(std::string path, LineReader lines, bool unique)
    : path_(std::move(path)), lines_(std::move(lines)), unique_(unique) {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    free_.push_back(std::make_unique<ScoreBlock>());
  }
  thread_ = std::thread([this] { read_all(); });
}

ScoreReader::~ScoreReader() {
  {
    const std::lock_guard lock(mutex_);
    unwanted_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<ScoreBlock> ScoreReader::free_block() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return unwanted_ || !free_.empty(); });
  if (unwanted_) {
    return nullptr;
  }
  auto block = std::move(free_.back());
  free_.pop_back();
  return block;
}

std::optional<ResultsTrouble> ScoreReader::read_into(ScoreBlock& block, bool& ended) {
  block.clear();
  Line line;
  for (std::size_t bytes = 0; bytes < kBlockBytes && block.entries.size() < kBlockLines; bytes += line.text.size()) {
    const auto next = lines_.next(line);
    if (!next) {
      return ResultsTrouble{ResultsTrouble::Kind::lost, next.error().text()};
    }
    if (*next == LineReader::Next::stopped) {
      return ResultsTrouble{ResultsTrouble::Kind::stopped, ""};
    }
    if (*next == LineReader::Next::end) {
      ended = true;
      return unique_ ? check_unique() : std::nullopt;
    }
    const auto problem = line.too_long ? "it is longer than --max-line allows" : parse_score_line(line.text, line.number, block);
    if (problem) {
      return ResultsTrouble{ResultsTrouble::Kind::unusable, fmt::format("{}: line {}: {}", lines_.name(), line.number, *problem)};
    }
    if (unique_) {
      if (auto added = log_.add(block.entries.back().hash, line.number); !added) {
        return ResultsTrouble{ResultsTrouble::Kind::lost, added.error().text()};
      }
    }
  }
  return std::nullopt;
}

std::optional<ResultsTrouble> ScoreReader::check_unique() {
  const auto twice = log_.first_twice();
  if (!twice) {
    return ResultsTrouble{ResultsTrouble::Kind::lost, twice.error().text()};
  }
  if (!*twice) {
    return std::nullopt;
  }
  const auto [first, second] = **twice;
  return ResultsTrouble{ResultsTrouble::Kind::unusable, fmt::format("{}: lines {} and {} have the same id{}: records are matched by it",
                                                                    lines_.name(), first, second, text_of_id(first))};
}

// Of a line that was read before: ", \"t-17\"" where the file can be read again.
std::string ScoreReader::text_of_id(std::uint64_t number) const {
  std::error_code error;
  if (path_ == "-" || !std::filesystem::is_regular_file(path_, error)) {
    return "";
  }
  auto again = LineReader::open(path_, std::size_t{1} << 30);
  Line line;
  while (again) {
    const auto next = again->next(line);
    if (!next || *next != LineReader::Next::line) {
      break;
    }
    ScoreBlock block;
    if (line.number == number && !parse_score_line(line.text, number, block)) {
      return fmt::format(" {}", shortened(block.view(0).id));
    }
  }
  return "";
}

void ScoreReader::read_all() {
  for (bool ended = false; !ended;) {
    auto block = free_block();
    if (block == nullptr) {
      return;
    }
    auto trouble = read_into(*block, ended);
    ended = ended || trouble;
    {
      const std::lock_guard lock(mutex_);
      full_.push_back(std::move(block));
      done_ = ended;
      trouble_ = std::move(trouble);
    }
    changed_.notify_all();
  }
}

bool ScoreReader::next() {
  if (block_ != nullptr && ++at_ < block_->entries.size()) {
    view_ = block_->view(at_);
    return true;
  }
  do {
    std::unique_lock lock(mutex_);
    if (block_ != nullptr) {
      free_.push_back(std::move(block_));
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return done_ || !full_.empty(); });
    if (full_.empty()) {
      return false;
    }
    block_ = std::move(full_.front());
    full_.pop_front();
  } while (block_->entries.empty());
  at_ = 0;
  view_ = block_->view(0);
  return true;
}

}  // namespace kime
