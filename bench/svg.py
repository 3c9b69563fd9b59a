"""What our charts share: legible on a light and on a dark page, by the reader's own setting, and no script."""

from typing import Final

#: Text, quiet text, lines of a grid, and six colours that differ in lightness too.
STYLE: Final = """<style>
svg{--ground:#ffffff;--ink:#1f2328;--quiet:#57606a;--rule:#d0d7de;
--c0:#1f6feb;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#7d8794;--c5:#9a6700}
@media(prefers-color-scheme:dark){svg{--ground:#0d1117;--ink:#e6edf3;--quiet:#9198a1;--rule:#30363d;
--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;--c4:#8b949e;--c5:#d29922}}
.ground{fill:var(--ground)}.ink{fill:var(--ink)}.quiet{fill:var(--quiet)}.rule{stroke:var(--rule)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}
.s5{stroke:var(--c5)}polyline{fill:none;stroke-width:1.6}
</style>"""


def opening(*, width: int, height: int, title: str) -> str:
    """The element, its title for who can't see it, and a ground; `title` is escaped already."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="title" font-family="system-ui, sans-serif" font-size="13">'
        f'<title id="title">{title}</title>{STYLE}<rect width="{width}" height="{height}" class="ground"/>'
    )
