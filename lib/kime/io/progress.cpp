#include "kime/io/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "kime/base/counted.h"

namespace kime {

namespace {

constexpr std::size_t kBarWidth = 20;
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kPlain = "\x1b[0m";

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(std::max(value, 0.0));
}

// 75 as "1:15", 3700 as "1:01:40".
std::string clock(double seconds) {
  const std::uint64_t all = whole(std::ceil(std::min(seconds, 1e9)));
  const std::uint64_t hours = all / 3600;
  const std::uint64_t minutes = all / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, all % 60) : fmt::format("{}:{:02}", minutes, all % 60);
}

// A part of the line; those of a higher rank go first where there is no room.
struct Piece {
  int rank;
  std::string text;
  std::string_view colour = {};
};

std::string joined(const std::vector<Piece>& pieces, int most, bool colours) {
  std::string line;
  for (const Piece& piece : pieces) {
    if (piece.rank > most) {
      continue;
    }
    line += line.empty() ? "" : "  ";
    line += colours && !piece.colour.empty() ? fmt::format("{}{}{}", piece.colour, piece.text, kPlain) : piece.text;
  }
  return line;
}

std::vector<Piece> pieces_of(const Progress& now, const Outlook& outlook) {
  std::vector<Piece> pieces;
  if (outlook.records) {
    const double share = *outlook.records == 0 ? 1 : static_cast<double>(now.done()) / static_cast<double>(*outlook.records);
    const auto filled = std::min(kBarWidth, static_cast<std::size_t>(share * kBarWidth));
    pieces.push_back({0, fmt::format("{:3} %", std::min<std::uint64_t>(100, whole(100 * share)))});
    pieces.push_back({4, fmt::format("[{:#<{}}{:-<{}}]", "", filled, "", kBarWidth - filled), kGreen});
    pieces.push_back(
        {2, fmt::format("{} of {}{}", grouped(now.done()), outlook.exact ? "" : "about ", counted(*outlook.records, "record"))});
  } else {
    pieces.push_back({0, counted(now.done(), "record")});
  }
  pieces.push_back({3, fmt::format("{} records/s", grouped(whole(outlook.records_per_second)))});
  pieces.push_back({5, fmt::format("{} tokens/s", grouped(whole(outlook.tokens_per_second)))});
  if (outlook.seconds_left) {
    pieces.push_back({1, fmt::format("{} left", clock(*outlook.seconds_left))});
  }
  if (now.failed > 0) {
    pieces.push_back({1, counted(now.failed, "error"), kRed});
  }
  pieces.push_back({6, now.at_work.empty() ? "no device at work" : fmt::format("{} at work", fmt::join(now.at_work, ", "))});
  return pieces;
}

nlohmann::json or_null(const auto& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

Outlook ProgressFollower::at(const Progress& now) {
  if (moments_.empty()) {  // the run's begin, of which an earlier run's records are no part
    moments_.push_back({now.seconds, now.done(), now.tokens});
  }
  while (moments_.size() > 1 && moments_[1].seconds <= now.seconds - kWindowSeconds) {
    moments_.pop_front();
  }
  Outlook outlook;
  const Moment& since = moments_.front();
  if (const double seconds = now.seconds - since.seconds; seconds > 0) {
    outlook.records_per_second = static_cast<double>(now.done() - since.done) / seconds;
    outlook.tokens_per_second = static_cast<double>(now.tokens - since.tokens) / seconds;
  }
  moments_.push_back({now.seconds, now.done(), now.tokens});
  outlook.exact = now.all_read;
  if (outlook.exact) {
    outlook.records = now.read;
  } else if (now.part && *now.part > 0 && now.read > 0) {
    outlook.records = whole(std::round(static_cast<double>(now.read) / *now.part));
  }
  if (outlook.records && outlook.records_per_second > 0) {
    outlook.seconds_left = static_cast<double>(*outlook.records - std::min(*outlook.records, now.done())) / outlook.records_per_second;
  }
  return outlook;
}

std::string progress_line(const Progress& now, const Outlook& outlook, std::size_t columns, bool colours) {
  const std::vector<Piece> pieces = pieces_of(now, outlook);
  for (int most = 6; most > 0; --most) {
    if (joined(pieces, most, false).size() < columns) {
      return joined(pieces, most, colours);
    }
  }
  return joined(pieces, 0, false).substr(0, columns > 0 ? columns - 1 : 0);
}

std::string progress_json(const Progress& now, const Outlook& outlook, bool ended) {
  const nlohmann::ordered_json document{{"seconds", now.seconds},
                                        {"records", now.done()},
                                        {"errors", now.failed},
                                        {"tokens", now.tokens},
                                        {"records_per_second", outlook.records_per_second},
                                        {"tokens_per_second", outlook.tokens_per_second},
                                        {"records_in_all", or_null(outlook.records)},
                                        {"records_in_all_exact", outlook.exact},
                                        {"seconds_left", or_null(outlook.seconds_left)},
                                        {"at_work", now.at_work},
                                        {"ended", ended}};
  return document.dump();
}

}  // namespace kime
