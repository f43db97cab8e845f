#include "kime/results/page.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "kime/results/chart.h"
#include "kime/results/markup.h"

using kime::Chart;
using kime::markup_text;

TEST_CASE("text in markup") {
  CHECK(markup_text("a<b>&\"'\t\n") == "a&lt;b&gt;&amp;&quot;&#39;\t\n");
  CHECK(markup_text("ü\xf0\x9f\x98\x80") == "ü\xf0\x9f\x98\x80");
  const std::string instead = "\xef\xbf\xbd";
  CHECK(markup_text(std::string_view("\0\x1f\x7f", 3)) == instead + instead + instead);
  CHECK(markup_text("\xff"
                    "a\xc3") == instead + "a" + instead);
  CHECK(markup_text("\xed\xa0\x80") == instead + instead + instead);  // half a surrogate pair
  CHECK(markup_text("\xef\xbf\xbe\xef\xbf\xbf") == instead + instead);
}

TEST_CASE("a linear axis has a few round ticks inside") {
  for (const auto& [low, high] : {std::pair(0.0, 1.0), {-18.7, 17.2}, {1e-9, 3e-9}, {-1e30, 1e30}, {5.0, 5.0}, {0.0, 0.0}}) {
    const auto axis = kime::linear_axis(low, high, "x");
    CHECK(axis.low <= low);
    CHECK(axis.high >= high);
    CHECK(axis.ticks.size() >= 2);
    CHECK(axis.ticks.size() <= 7);
    for (const auto& tick : axis.ticks) {
      CHECK(tick.at >= axis.low);
      CHECK(tick.at <= axis.high);
    }
  }
  CHECK(kime::linear_axis(0, 1, "x").ticks[1].label == "0.2");
  const auto counts = kime::count_axis(250, "n");
  REQUIRE(counts.ticks.size() == 4);
  CHECK(counts.ticks[3].at == Approx(std::log10(101.0)));
}

TEST_CASE("a chart puts points where they belong, and inside") {
  Chart chart({0, 10, {}, "across & on"}, {0, 1, {}, "up"}, "<label>");
  const kime::ChartPoint points[] = {{0, 0}, {10, 1}, {99, -99}};
  chart.dots(points, "a");
  chart.dot({5, 0.5}, "mark", "\"tip\"");
  const auto svg = chart.svg();
  CHECK(svg.find("M52.0 228.0h0M410.0 10.0h0M410.0 228.0h0") != std::string::npos);
  CHECK(svg.find(R"(cx="231.0" cy="119.0")") != std::string::npos);
  CHECK(svg.find("&quot;tip&quot;") != std::string::npos);
  CHECK(svg.find("aria-label=\"&lt;label&gt;\"") != std::string::npos);
  CHECK(svg.find("across &amp; on") != std::string::npos);
}

TEST_CASE("a page's tables") {
  kime::PageTable table({"id", "#n"});
  CHECK(table.empty());
  table.row({"<x>", "7"});
  CHECK(table.html(false).find(R"(<tr><td>&lt;x&gt;</td><td class="n">7</td></tr>)") != std::string::npos);
  CHECK(table.html(false).find("<input") == std::string::npos);
  CHECK(table.html(true).find("<th class=\"n\"><button>n</button></th>") != std::string::npos);
}
