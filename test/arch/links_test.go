package arch_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	// fenced and coded are parts of a page in which nothing is a link.
	fenced = regexp.MustCompile("(?s)\n```.*?\n```")
	coded  = regexp.MustCompile("`[^`\n]*`")
	linked = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	// heading is a heading, without the marks of links and code in it.
	heading = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	// unanchored is what GitHub leaves out of the anchor of a heading.
	unanchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// linksLead refuses a link from one page to a file or heading of the repository
// that does not exist. Pages in testdata belong to others.
func linksLead(tr *tree) (refusals []string) {
	for _, name := range tr.names {
		if path.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		text := coded.ReplaceAllString(fenced.ReplaceAllString("\n"+readText(tr, name), "\n"), "")
		for _, m := range linked.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				continue // of another site
			}
			target := name
			if to != "" {
				target = path.Join(path.Dir(name), to)
			}
			switch {
			case !slices.ContainsFunc(tr.names, func(n string) bool { return under(n, target) }):
				refusals = append(refusals, fmt.Sprintf("%s links to %s, which does not exist", name, m[1]))
			case anchor != "" && !slices.Contains(anchors(readText(tr, target)), anchor):
				refusals = append(refusals, fmt.Sprintf("%s links to %s, which has no such heading", name, m[1]))
			}
		}
	}
	return refusals
}

// anchors lists the anchors of the headings of a page.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString("\n"+page, "\n"), -1) {
		plain := unanchored.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// TestDocsLinks: every link between pages leads somewhere, and one that does not
// is found.
func TestDocsLinks(t *testing.T) {
	for _, r := range linksLead(parseTree(t, os.DirFS(root))) {
		t.Error(r)
	}
	const page = "# A: `b` & c\n[self](#a-b--c) [dir](x) [file](x/y.md#z-1) [out](https://example.test/#no)\n```\n# No\n[no](no)\n```\n`[no](no)`\n"
	files := func(page string) fstest.MapFS {
		return fstest.MapFS{"a.md": {Data: []byte(page)}, "x/y.md": {Data: []byte("## Z 1\n[up](../a.md)\n")}}
	}
	if r := linksLead(parseTree(t, files(page))); len(r) > 0 {
		t.Error(r)
	}
	for _, row := range [][2]string{{"#a-b--c", "#no"}, {"(x)", "(w)"}, {"x/y.md#z-1", "x/w.md"}, {"#z-1", "#z-2"}} {
		bad := strings.Replace(page, row[0], row[1], 1)
		if r := linksLead(parseTree(t, files(bad))); bad == page || len(r) != 1 {
			t.Errorf("%q in place of %q: %q", row[1], row[0], r)
		}
	}
}
