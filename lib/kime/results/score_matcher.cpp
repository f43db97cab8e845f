#include "kime/results/score_matcher.h"

#include "kime/results/pending_scores.h"

namespace kime {
namespace {

ResultsTrouble lost(const Error& error) {
  return {ResultsTrouble::Kind::lost, error.text()};
}

class Matcher {
 public:
  Matcher(ScoreReader& before, ScoreReader& after, ScoreComparer& comparer) : old_{before, {}}, new_{after, {}}, comparer_(comparer) {}

  std::optional<ResultsTrouble> run() {
    advance(old_);
    if (!trouble_) {  // else the other file may be a pipe that still waits
      advance(new_);
    }
    while (!trouble_ && (old_.more || new_.more)) {
      step();
    }
    if (!trouble_) {
      leave(old_, ScoreFailure::only_old);
      leave(new_, ScoreFailure::only_new);
    }
    return trouble_;
  }

 private:
  struct Side {
    ScoreReader& reader;
    PendingScores pending;
    bool more = false;
  };

  void advance(Side& side) {
    side.more = side.reader.next();
    if (!side.more) {
      trouble_ = side.reader.trouble();
    } else if (&side == &old_) {
      comparer_.saw_old(side.reader.line());
    } else {
      comparer_.saw_new(side.reader.line());
    }
  }

  // Two lines that match go on together. Else one whose counterpart waits is taken alone, so that a line that only one file has puts the
  // two out of step for no longer than itself; and where neither's does, both wait.
  void step() {
    if (old_.more && new_.more && old_.reader.line().hash == new_.reader.line().hash && old_.reader.line().key == new_.reader.line().key) {
      comparer_.pair(old_.reader.line(), new_.reader.line());
      advance(old_);
      if (!trouble_) {
        advance(new_);
      }
      return;
    }
    if ((old_.more && match(old_, new_)) || trouble_ || (new_.more && match(new_, old_)) || trouble_) {
      return;
    }
    for (Side* side : {&old_, &new_}) {
      if (!trouble_ && side->more) {
        if (auto added = side->pending.add(side->reader.line()); !added) {
          trouble_ = lost(added.error());
          return;
        }
        advance(*side);
      }
    }
  }

  // Whether the other side's line was waiting.
  bool match(Side& side, Side& other) {
    const auto taken = other.pending.take(side.reader.line(), block_);
    if (!taken) {
      trouble_ = lost(taken.error());
      return false;
    }
    if (!*taken) {
      return false;
    }
    const ScoreView waited = block_.view(0);
    comparer_.pair(&side == &old_ ? side.reader.line() : waited, &side == &old_ ? waited : side.reader.line());
    advance(side);
    return true;
  }

  void leave(Side& side, ScoreFailure failure) {
    comparer_.only_one_side(failure, side.pending.size());
    auto shown = side.pending.first(comparer_.limits().failures, [&](const ScoreView& line) { comparer_.show_one_side(failure, line); });
    if (!shown) {
      trouble_ = lost(shown.error());
    }
  }

  Side old_;
  Side new_;
  ScoreComparer& comparer_;
  ScoreBlock block_;
  std::optional<ResultsTrouble> trouble_;
};

}  // namespace

std::optional<ResultsTrouble> match_scores(ScoreReader& before, ScoreReader& after, ScoreComparer& comparer) {
  return Matcher(before, after, comparer).run();
}

}  // namespace kime
