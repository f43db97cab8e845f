"""The comparison as a Markdown table and as an SVG bar chart."""
from statistics import median
from xml.sax.saxutils import escape

NAMES = {"f32": "float32", "bf16": "bfloat16", "int8": "int8"}


def table(pairs, facts):
    """`facts`: lines about the machine and the run."""
    lines = ["# kime beside its peers", "", *facts, "",
             "| precision | peer | kime, tokens/s | peer, tokens/s | kime is | in each round | peer's batch |", "| - | - | -: | -: | -: | -: | - |"]
    for pair in pairs:
        low, high = pair.range
        lines.append(f"| {NAMES[pair.precision]} | {pair.peer} | {pair.kime:,.0f} | {pair.other:,.0f} | {pair.ratio:.2f} times as fast | "
                     f"{low:.2f} to {high:.2f} | {pair.detail} |")
    lines += ["", "Their scores:", ""]
    for pair in pairs:
        if pair.precision == "f32":
            lines.append(f"- float32, kime and {pair.peer}: {pair.peer_scores.text(True)}")
            continue
        for name, scores in (("kime", pair.kime_scores), (pair.peer, pair.peer_scores)):
            lines.append(f"- {NAMES[pair.precision]}, {name} against kime's float32: {scores.text(False)}")
    return "\n".join(lines) + "\n"


def bars(pairs):
    """By precision, in order: the programs and their rates, kime first with the median over all of its runs."""
    groups = {}
    for pair in pairs:
        groups.setdefault(pair.precision, []).append(pair)
    return [(precision, [("kime", median(rate for pair in group for rate in pair.kime_rates)), *((pair.peer, pair.other) for pair in group)])
            for precision, group in groups.items()]


STYLE = """
  .page { fill: #ffffff } text { fill: #1f2328; font: 14px system-ui, sans-serif } .head { font-weight: 600 } .dim { fill: #59636e; font-size: 12px }
  .kime { fill: #0969da } .peer { fill: #8c959f } .axis { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } text { fill: #f0f6fc } .dim { fill: #9198a1 } .kime { fill: #4493f8 } .peer { fill: #6e7681 } .axis { stroke: #3d444d }
  }
"""
WIDTH, LEFT, RIGHT = 720, 130, 80
BAR, GAP, HEAD = 22, 6, 26


def svg(pairs, note):
    """Horizontal bars of tokens a second, grouped by precision; `note` is a line below."""
    groups = bars(pairs)
    most = max((rate for _, programs in groups for _, rate in programs), default=1)
    told = "; ".join(f"{NAMES[precision]}: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in programs) for precision, programs in groups)
    body, y = [], 44
    for precision, programs in groups:
        y += HEAD
        body.append(f'<text class="head" x="16" y="{y - 8}">{escape(NAMES[precision])}</text>')
        for name, rate in programs:
            width = (WIDTH - LEFT - RIGHT) * rate / most
            body.append(f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>')
            body.append(f'<rect class="{"kime" if name == "kime" else "peer"}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>')
            body.append(f'<text x="{LEFT + width + 8:.1f}" y="{y + 16}">{rate:,.0f}</text>')
            y += BAR + GAP
        y += GAP
    height = y + 34
    axis = f'<line class="axis" x1="{LEFT - 0.5}" y1="44" x2="{LEFT - 0.5}" y2="{y}"/>'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'aria-labelledby="title desc">',
        '<title id="title">Useful tokens a second: kime and its peers</title>',
        f'<desc id="desc">{escape(told)}. {escape(note)}</desc>', f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        '<text class="head" x="16" y="30">Useful tokens a second (longer is faster)</text>', axis, *body,
        f'<text class="dim" x="16" y="{height - 14}">{escape(note)}</text>', "</svg>"]) + "\n"
