// A score file, read and parsed ahead by a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kime/base/error.h"
#include "kime/io/line_reader.h"
#include "kime/results/id_log.h"
#include "kime/results/score_block.h"

namespace kime {

/// What keeps results from being compared or reported.
struct ResultsTrouble {
  enum class Kind {
    unusable,  ///< What a file says.
    lost,      ///< It could not be read to its end, or there is no room.
    stopped,   ///< The wake descriptor became readable.
  };
  Kind kind = Kind::unusable;
  std::string message;
};

/// Gives the lines of a score file one after the other, from a few blocks that are reused.
class ScoreReader {
 public:
  /// Reads `lines` from now on. `unique`: a key that comes twice is a trouble, told at the end.
  ScoreReader(std::string path, LineReader lines, bool unique);
  ScoreReader(const ScoreReader&) = delete;
  ScoreReader& operator=(const ScoreReader&) = delete;
  ~ScoreReader();

  /// Goes to the next line, the first one at first; false at the end, or in trouble.
  bool next();
  /// The line, until the next call of next().
  [[nodiscard]] const ScoreView& line() const { return view_; }
  /// After next() gave false: why, unless the file has just ended.
  [[nodiscard]] const std::optional<ResultsTrouble>& trouble() const { return trouble_; }

 private:
  void read_all();
  std::optional<ResultsTrouble> read_into(ScoreBlock& block, bool& ended);
  std::optional<ResultsTrouble> check_unique();
  std::string text_of_id(std::uint64_t number) const;
  std::unique_ptr<ScoreBlock> free_block();

  std::string path_;
  LineReader lines_;
  bool unique_;
  IdLog log_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<ScoreBlock>> full_;
  std::vector<std::unique_ptr<ScoreBlock>> free_;
  bool done_ = false;      ///< Nothing more comes into `full_`.
  bool unwanted_ = false;  ///< Nobody asks for more.
  std::optional<ResultsTrouble> trouble_;

  std::unique_ptr<ScoreBlock> block_;
  std::size_t at_ = 0;
  ScoreView view_;
  std::thread thread_;  ///< The last member, so that it starts when all else is there.
};

}  // namespace kime
