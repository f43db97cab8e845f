// One HTML page that needs nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kime {

/// A table; texts are escaped.
class PageTable {
 public:
  /// `names` begin with '#' for columns of numbers, which stand to the right.
  explicit PageTable(std::vector<std::string> names) : names_(std::move(names)) {}
  void row(const std::vector<std::string>& cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// With `tools`, a click on a column's name sorts, and a field filters.
  [[nodiscard]] std::string html(bool tools) const;

 private:
  std::vector<std::string> names_;
  std::string rows_;
};

/// Gathers sections; its style is light or dark as the reader's is, and fits narrow and wide windows. It asks nothing of a network, and
/// forbids it. What is not called html is text, and escaped.
class Page {
 public:
  explicit Page(std::string_view title);

  void paragraph(std::string_view text);
  /// A line that tells how it ended.
  void verdict(bool good, std::string_view text);
  /// Large numbers with what they count, in a row.
  struct Fact {
    std::string number;
    std::string what;
  };
  void facts(const std::vector<Fact>& facts);
  void section(std::string_view title);
  /// Charts side by side, each with a caption: see add_figure.
  void figures(std::string_view html);
  void html(std::string_view html) { body_ += html; }

  /// The whole document.
  [[nodiscard]] std::string finish() const;

 private:
  std::string title_;
  std::string body_;
};

/// Adds one for Page::figures.
void add_figure(std::string& html, std::string_view caption, std::string_view chart);

}  // namespace kime
