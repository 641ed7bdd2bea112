package signoff

import (
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Item is one box of a checklist. A tick is a claim.
type Item struct {
	Text     string
	Required bool // marked (R): required before a milestone is targeted
	Ticked   bool
	Depth    int // nesting depth, 0 at the top
	Line     int
}

// Checklist is the sign-off checklist of a document.
type Checklist struct {
	Items []Item
	// Flat says that the nesting is unknown, because the text was copied from a web
	// page.
	Flat bool
}

// checklistTitle is the title of the section with the boxes.
const checklistTitle = "Release Signoff Checklist"

var (
	box  = regexp.MustCompile(`^(\s*)[-*+] +\[([ xX])\]\s+(.*)$`)
	mark = regexp.MustCompile(`^\(R\)\s*`)
)

// Checklist reads the boxes of the sign-off section. Boxes elsewhere are questions of the
// template, and not part of the checklist.
func (d *Document) Checklist() (Checklist, error) {
	list := Checklist{Flat: d.page.scraped}
	s, there := d.find(checklistTitle)
	if !there {
		return list, nil
	}
	var indents []int
	inItem := false
	for _, l := range d.lines(s.from, s.end) {
		m := box.FindStringSubmatch(l.text)
		if m == nil || l.fenced {
			text := strings.TrimSpace(l.text)
			if inItem = inItem && text != "" && !list.Flat && strings.HasPrefix(l.text, " "); inItem {
				list.Items[len(list.Items)-1].Text += " " + text
			}
			continue
		}
		if len(list.Items) == maxItems {
			return Checklist{}, verdict.Refuse(verdict.Limit, "checklist", "more than %d items", maxItems)
		}
		indent := len(strings.ReplaceAll(m[1], "\t", "    "))
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			indents = indents[:len(indents)-1]
		}
		text := strings.TrimSpace(m[3])
		list.Items = append(list.Items, Item{
			Text: mark.ReplaceAllString(text, ""), Required: mark.MatchString(text),
			Ticked: m[2] != " ", Line: l.number,
		})
		if !list.Flat {
			list.Items[len(list.Items)-1].Depth = len(indents)
		}
		indents = append(indents, indent)
		inItem = true
	}
	return list, nil
}

// required counts the items marked (R), and those of them that are ticked.
func (c Checklist) required() (all, ticked int) {
	for _, it := range c.Items {
		if it.Required {
			all++
			if it.Ticked {
				ticked++
			}
		}
	}
	return all, ticked
}

// ticked counts the ticked items.
func (c Checklist) ticked() (n int) {
	for _, it := range c.Items {
		if it.Ticked {
			n++
		}
	}
	return n
}
