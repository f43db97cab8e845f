#include "kime/results/page.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "kime/results/markup.h"

namespace kime {
namespace {

constexpr std::string_view kStyle = R"CSS(
:root { color-scheme: light dark; --back: #fbfbfa; --card: #fff; --text: #1c1e21; --soft: #5f6570; --edge: #dcdfe4; --a: #2368c4; --b: #b4570b;
  --c: #39863f; --good: #2c7a37; --bad: #b3261e; --faint: #c3c8d0; }
@media (prefers-color-scheme: dark) { :root { --back: #15171a; --card: #1d2024; --text: #e6e8eb; --soft: #9aa1ac; --edge: #34383f; --a: #6ea8f7;
  --b: #f0a35a; --c: #7cc583; --good: #74c97f; --bad: #ff8a80; --faint: #565c66; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem clamp(.75rem, 3vw, 2rem) 3rem; max-width: 84rem; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; color: var(--soft); }
.verdict { display: inline-block; margin: .5rem 0; padding: .25rem .75rem; border-radius: .4rem; font-weight: 600; color: var(--card); }
.verdict.good { background: var(--good); } .verdict.bad { background: var(--bad); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(8rem, 1fr)); gap: .6rem; margin: .8rem 0; }
.facts div, figure, .table { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; }
.facts div { padding: .5rem .8rem; } .facts b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
.facts span { color: var(--soft); font-size: .85rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: .8rem; }
figure { margin: 0; padding: .6rem; overflow-x: auto; } figure:has(.wide) { grid-column: 1 / -1; }
figcaption { font-size: .9rem; color: var(--soft); margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; } svg.wide { min-width: 40rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .axis { fill: var(--text); }
svg .grid { stroke: var(--edge); stroke-width: 1; }
svg .line { fill: none; stroke-width: 1.5; } svg .dots { fill: none; stroke-width: 3; stroke-linecap: round; opacity: .55; }
svg rect.a { fill: var(--a); } svg rect.b { fill: var(--b); } svg rect.c { fill: var(--c); } svg rect.faint { fill: var(--faint); }
svg .l1 { opacity: .25; } svg .l2 { opacity: .5; } svg .l3 { opacity: .75; }
svg path.a { stroke: var(--a); } svg path.b { stroke: var(--b); } svg path.c { stroke: var(--c); } svg path.faint { stroke: var(--faint); }
svg circle.mark { fill: var(--card); stroke: var(--b); stroke-width: 2; } svg circle.a { fill: var(--a); }
.table { overflow: auto; max-height: 32rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--edge); }
th { position: sticky; top: 0; background: var(--card); white-space: nowrap; overflow-wrap: normal; } td:not(.n) { min-width: 4.5rem; } td:first-child:not(.n) { min-width: 9rem; }
.n { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--a); }
th[aria-sort=ascending] button::after { content: " \25B2"; } th[aria-sort=descending] button::after { content: " \25BC"; }
.filter { margin: .3rem 0 .5rem; padding: .35rem .6rem; width: min(100%, 22rem); font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--edge); border-radius: .4rem; }
)CSS";

constexpr std::string_view kScript = R"JS(
for (const box of document.querySelectorAll(".tools")) {
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")], shown = box.querySelector(".shown");
  const rows = [...body.rows];
  const key = (row, i) => { const text = row.cells[i].textContent, n = parseFloat(text.replace(/,/g, "")); return isNaN(n) ? text : n; };
  const order = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    rows.sort((a, b) => (down ? -1 : 1) * order(key(a, i), key(b, i)));
    body.append(...rows);
  }));
  box.querySelector(".filter").addEventListener("input", event => {
    const wanted = event.target.value.toLowerCase();
    let count = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = count === rows.length ? "" : count + " of " + rows.length + " rows";
  });
}
)JS";

bool is_number_column(const std::string& name) {
  return name.starts_with('#');
}

}  // namespace

void PageTable::row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    rows_ += is_number_column(names_[i]) ? R"(<td class="n">)" : "<td>";
    rows_ += markup_text(cells[i]) + "</td>";
  }
  rows_ += "</tr>\n";
}

std::string PageTable::html(bool tools) const {
  std::string out;
  if (tools) {
    out +=
        R"(<div class="tools"><input class="filter" type="search" placeholder="filter" aria-label="Filter the table"> <span class="shown"></span>)";
  }
  out += R"(<div class="table"><table><thead><tr>)";
  for (const std::string& name : names_) {
    const bool number = is_number_column(name);
    const std::string text = markup_text(std::string_view(name).substr(number ? 1 : 0));
    out += number ? R"(<th class="n">)" : "<th>";
    out += (tools ? "<button>" + text + "</button>" : text) + "</th>";
  }
  out += "</tr></thead><tbody>\n" + rows_ + "</tbody></table></div>";
  out += tools ? "</div>\n" : "\n";
  return out;
}

Page::Page(std::string_view title) : title_(markup_text(title)) {
}

void Page::paragraph(std::string_view text) {
  body_ += "<p>" + markup_text(text) + "</p>\n";
}

void Page::verdict(bool good, std::string_view text) {
  fmt::format_to(std::back_inserter(body_), "<div class=\"verdict {}\">{}</div>\n", good ? "good" : "bad", markup_text(text));
}

void Page::facts(const std::vector<Fact>& facts) {
  body_ += R"(<div class="facts">)";
  for (const Fact& fact : facts) {
    body_ += "<div><b>" + markup_text(fact.number) + "</b><span>" + markup_text(fact.what) + "</span></div>";
  }
  body_ += "</div>\n";
}

void Page::section(std::string_view title) {
  body_ += "<h2>" + markup_text(title) + "</h2>\n";
}

void Page::figures(std::string_view html) {
  body_ += R"(<div class="figures">)";
  body_ += html;
  body_ += "</div>\n";
}

std::string Page::finish() const {
  return fmt::format(R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{0}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>{1}</style></head><body>
<h1>{0}</h1>
{2}<script>{3}</script></body></html>
)",
                     title_, kStyle, body_, kScript);
}

void add_figure(std::string& html, std::string_view caption, std::string_view chart) {
  html += "<figure><figcaption>" + markup_text(caption) + "</figcaption>";
  html += chart;
  html += "</figure>\n";
}

}  // namespace kime
