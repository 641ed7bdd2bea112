package explain

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
)

//go:embed head.md
var head string

// Markdown is the page of all codes, docs/codes.md, with a heading for each.
func Markdown() string {
	var b strings.Builder
	b.WriteString(head)
	group := ""
	for _, e := range All() {
		if e.Group != group {
			group = e.Group
			at := strings.TrimPrefix(e.Read, home)
			fmt.Fprintf(&b, "\n## %s\n\nRead on: [%s](%s).\n", group, at, path.Join("..", at))
		}
		fmt.Fprintf(&b, "\n### %s\n\n**%s**\n\n", e.Code, e.Title)
		e.each(func(label, text string) { fmt.Fprintf(&b, "- %s: %s\n", label, text) })
		if e.Try != "" {
			fmt.Fprintf(&b, "\nTry it:\n\n    %s\n", e.Try)
		}
	}
	return b.String()
}
