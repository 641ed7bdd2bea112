package signoff

import (
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Item is one box of a checklist. That it is ticked is somebody's claim.
type Item struct {
	Text     string
	Required bool // marked (R): before a milestone is targeted
	Ticked   bool
	Depth    int // how deep it is nested, 0 for none
	Line     int
}

// Checklist is the sign-off checklist of a document.
type Checklist struct {
	Items []Item
	// Flat says that how items are nested is not known: the text was copied
	// from a web page.
	Flat bool
}

// checklistTitle is the section that has the boxes.
const checklistTitle = "Release Signoff Checklist"

var (
	box  = regexp.MustCompile(`^(\s*)[-*+] +\[([ xX])\]\s+(.*)$`)
	mark = regexp.MustCompile(`^\(R\)\s*`)
)

// Checklist reads the boxes of the sign-off section. Boxes elsewhere are
// questions of the template, and no part of it.
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

// required is how many items are marked (R), and how many of those are ticked.
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

// ticked is how many items are.
func (c Checklist) ticked() (n int) {
	for _, it := range c.Items {
		if it.Ticked {
			n++
		}
	}
	return n
}
