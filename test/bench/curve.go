package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Curve is one panel of the picture: how long one work takes as something grows.
type Curve struct {
	Title string   `json:"title"`
	X     string   `json:"x"` // what grows
	Y     string   `json:"y"`
	Ways  []OneWay `json:"ways"`
}

// OneWay is one line of a panel.
type OneWay struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

// Of a panel, in pixels.
const (
	panelWidth, panelHeight = 300, 220
	panelLeft, panelTop     = 56, 56
	panelStep               = panelWidth + panelLeft + 24
)

// Draw draws the panels side by side; both axes are logarithmic.
func Draw(curves []Curve) string {
	var b strings.Builder
	width, height := panelStep*len(curves)+16, panelTop+panelHeight+44+20*4
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title">
<title id="title">How time grows with size, with the distance of a registry, and with its quota</title>
<style>
  .page { fill: #ffffff } .axis { fill: none; stroke: #57606a } .grid { stroke: #d0d7de; stroke-width: 0.6 }
  text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a } .head { font-weight: 600; font-size: 13px; fill: #1f2328 }
  .mid { text-anchor: middle } .end { text-anchor: end }
  .w0 { stroke: #0969da; fill: #0969da } .w1 { stroke: #9a6700; fill: #9a6700 } .w2 { stroke: #cf222e; fill: #cf222e } .w3 { stroke: #1a7f37; fill: #1a7f37 }
  polyline.w0, polyline.w1, polyline.w2, polyline.w3 { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .axis { stroke: #9198a1 } .grid { stroke: #3d444d } text { fill: #9198a1 } .head { fill: #f0f6fc }
    .w0 { stroke: #4493f8; fill: #4493f8 } .w1 { stroke: #d29922; fill: #d29922 } .w2 { stroke: #f85149; fill: #f85149 } .w3 { stroke: #3fb950; fill: #3fb950 }
  }
</style>
<rect class="page" width="%d" height="%d"/>
`, width, height, width, height, width, height)
	for i, c := range curves {
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\">\n", i*panelStep+panelLeft, panelTop)
		c.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// decades are the powers of ten that hold a coordinate of all points.
func (c Curve) decades(axis int) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, w := range c.Ways {
		for _, p := range w.Points {
			low, high = min(low, math.Log10(p[axis])), max(high, math.Log10(p[axis]))
		}
	}
	return math.Floor(low), max(math.Ceil(high), math.Floor(low)+1)
}

func (c Curve) draw(b *strings.Builder) {
	fmt.Fprintf(b, `<text class="head" x="0" y="-32">%s</text><text x="0" y="-12">%s</text>`+"\n", html.EscapeString(c.Title), html.EscapeString(c.Y))
	x0, x1 := c.decades(0)
	y0, y1 := c.decades(1)
	at := func(p [2]float64) (x, y float64) {
		return panelWidth * (math.Log10(p[0]) - x0) / (x1 - x0), panelHeight * (1 - (math.Log10(p[1])-y0)/(y1-y0))
	}
	for d := x0; d <= x1; d++ {
		x, _ := at([2]float64{math.Pow(10, d), 1})
		fmt.Fprintf(b, `<path class="grid" d="M%.1f 0V%d"/><text class="mid" x="%.1f" y="%d">%s</text>`+"\n", x, panelHeight, x, panelHeight+16, power(d))
	}
	for d := y0; d <= y1; d++ {
		_, y := at([2]float64{1, math.Pow(10, d)})
		fmt.Fprintf(b, `<path class="grid" d="M0 %.1fH%d"/><text class="end" x="-6" y="%.1f">%s</text>`+"\n", y, panelWidth, y+4, power(d))
	}
	fmt.Fprintf(b, `<path class="axis" d="M0 0V%dH%d"/><text class="mid" x="%d" y="%d">%s</text>`+"\n", panelHeight, panelWidth, panelWidth/2, panelHeight+34, html.EscapeString(c.X))
	for i, w := range c.Ways {
		var points strings.Builder
		for _, p := range w.Points {
			x, y := at(p)
			fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
			fmt.Fprintf(b, `<circle class="w%d" cx="%.1f" cy="%.1f" r="3"/>`, i, x, y)
		}
		fmt.Fprintf(b, `<polyline class="w%d" points="%s"/>`+"\n", i, strings.TrimSpace(points.String()))
		below := panelHeight + 54 + 18*i
		fmt.Fprintf(b, `<rect class="w%d" x="0" y="%d" width="10" height="10"/><text x="16" y="%d">%s</text>`+"\n", i, below-9, below, html.EscapeString(w.Name))
	}
}

// power is a power of ten as people write it.
func power(d float64) string {
	switch {
	case d < 0:
		return fmt.Sprintf("%.*f", int(-d), math.Pow(10, d))
	case d < 4:
		return fmt.Sprintf("%.0f", math.Pow(10, d))
	case d < 6:
		return fmt.Sprintf("%.0fk", math.Pow(10, d-3))
	}
	return fmt.Sprintf("%.0fM", math.Pow(10, d-6))
}
