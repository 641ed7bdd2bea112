package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The kinds of JSON documents, besides a feature itself.
const (
	kindList   = "FeatureList"
	kindPasses = "FeaturePasses"
)

// Writer writes features, as a table for people or as JSON.
type Writer struct {
	// Format is table or json.
	Format string
	// Known has the features that the program knows, for descriptions in tables.
	// Default: none.
	Known feature.Registry
}

func (w Writer) table() bool { return w.Format == string(render.Table) }

// List writes features, a line each, and what each is waiting for. Forgotten
// features are left out.
func (w Writer) List(to io.Writer, all []feature.Feature) error {
	listed := slices.DeleteFunc(slices.Clone(all), func(f feature.Feature) bool { return f.Status.Forgotten })
	if !w.table() {
		return render.WriteJSON(to, struct {
			APIVersion string            `json:"apiVersion"`
			Kind       string            `json:"kind"`
			Items      []feature.Feature `json:"items"`
		}{feature.APIVersion, kindList, append([]feature.Feature{}, listed...)})
	}
	p := newPage(to)
	if len(listed) > 0 {
		p.row("FEATURE", "STATE", "DESIRED", "DEFAULT", "STAGE", "WHERE")
	}
	for _, f := range listed {
		p.row(f.Key().String(), string(f.Status.State), desired(f), string(f.Status.Default), f.Status.Stage, w.scopes(f))
	}
	for _, f := range listed {
		for _, left := range lefts(f) {
			p.line("%s: %s", f.Key(), left.text)
			p.indented("  ", left.few())
		}
	}
	if n := len(all) - len(listed); n > 0 {
		p.line("not listed: %d that no program has known for three minor versions; waybill feature get NAMESPACE/Name shows one", n)
	}
	if len(all) == 0 {
		p.line("no features yet; waybill feature reconcile announces them")
	}
	return p.w.Flush()
}

// Feature writes everything about one feature.
func (w Writer) Feature(to io.Writer, f feature.Feature) error {
	if !w.table() {
		return render.WriteJSON(to, f)
	}
	p, s := newPage(to), f.Status
	p.line("%s", f.Key())
	if d, known := w.Known.Definition(f.Key()); known {
		p.row("  on means", meaning(d))
	}
	p.row("  state", fmt.Sprintf("%s since transition %d", s.State, s.Number))
	p.row("  desired", desired(f))
	p.row("  default", string(s.Default))
	p.row("  stage", s.Stage)
	p.row("  where", w.scopes(f))
	p.row("  set by", setBy(f))
	p.row("  data", fmt.Sprintf("of %s, schema %d", s.Version, s.Schema))
	p.row("  last known by", s.LastKnownVersion)
	if f.Spec.PrepareFor != "" {
		p.row("  prepared for", f.Spec.PrepareFor)
	}
	p.tasks(f)
	p.uses(s.Uses)
	p.conditions(s.Conditions)
	p.history(s.History)
	return p.w.Flush()
}

// Passes writes what one pass did to each feature, and what remains.
func (w Writer) Passes(to io.Writer, passes []reconcile.Pass) error {
	if w.table() {
		p := newPage(to)
		for _, text := range Lines(passes) {
			p.line("%s", text)
		}
		return p.w.Flush()
	}
	type said struct {
		Name   string           `json:"name"`
		Before feature.State    `json:"before,omitempty"`
		After  feature.State    `json:"after,omitempty"`
		Did    string           `json:"did,omitempty"`
		Left   []string         `json:"left,omitempty"`
		Names  []string         `json:"names,omitempty"` // objects that remain in the first task
		Error  *verdict.Finding `json:"error,omitempty"`
	}
	all := []said{}
	for _, p := range passes {
		one := said{Name: p.Key.String(), Before: p.Before, After: p.After, Did: p.Did, Names: names(p)}
		one.Left = slice.Map(lefts(p.Feature), func(l left) string { return l.text })
		if p.Err != nil {
			f := verdict.FindingOf(p.Key.String(), p.Err)
			one.Error = &f
		}
		all = append(all, one)
	}
	return render.WriteJSON(to, struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Passes     []said `json:"passes"`
	}{feature.APIVersion, kindPasses, all})
}

// names are the objects that remain in the task that a pass ran, or else in the task
// of an earlier pass.
func names(p reconcile.Pass) []string {
	if tasks := p.Feature.Status.Tasks; len(p.Names) == 0 && len(tasks) > 0 {
		return tasks[0].Names
	}
	return p.Names
}

// Lines describe what one pass did to each feature, and what remains: the reporters
// it waits for, and the first of the objects that tasks name, a line each.
func Lines(passes []reconcile.Pass) (lines []string) {
	for _, p := range passes {
		text := p.Did
		switch {
		case text == "" && p.Err == nil && p.After.IsSteady():
			text = "nothing to do"
		case text == "":
			text = "nothing was done"
		}
		if p.After != "" {
			text = string(p.After) + ": " + text
		}
		lines = append(lines, p.Key.String()+"  "+text)
		for _, left := range lefts(p.Feature) {
			lines = append(lines, "  "+left.text)
			for _, name := range left.few() {
				lines = append(lines, "    "+name)
			}
		}
		if p.Err != nil {
			lines = append(lines, failure(p.Key, p.Err)...)
		}
	}
	for i, text := range lines {
		lines[i] = safe(text)
	}
	return lines
}

// failure is the error of a feature, and what to do next.
func failure(k feature.Key, err error) []string {
	f := verdict.FindingOf(k.String(), err)
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if !strings.Contains(text, string(f.Code)) {
		text = string(f.Code) + " " + text
	}
	return []string{"  " + text, "  → " + f.Fix}
}

// News filters the passes of a loop for changes: something was done, failed, or newly
// remains. The zero News has seen no pass.
type News struct{ left map[feature.Key]string }

// Of returns the features of one pass with changes.
func (n *News) Of(passes []reconcile.Pass) (fresh []reconcile.Pass) {
	if n.left == nil {
		n.left = map[feature.Key]string{}
	}
	for _, p := range passes {
		left := fmt.Sprint(lefts(p.Feature))
		others := p.After == "" // its leader reports it
		if p.Err != nil || !others && p.Did != "" || !others && left != n.left[p.Key] {
			fresh = append(fresh, p)
		}
		if !others {
			n.left[p.Key] = left
		}
	}
	return fresh
}

// left is something that remains to be done, and the objects concerned.
type left struct {
	text  string
	names []string
	of    int // number of all names; names has the first of them
}

// shown is how many names a table shows. JSON has more.
const shown = 20

// few are the names to show, and the number of the others.
func (l left) few() []string {
	n := min(len(l.names), shown)
	few := slices.Clone(l.names[:n])
	if more := max(l.of, len(l.names)) - n; more > 0 && n > 0 {
		few = append(few, fmt.Sprintf("and %d more", more))
	}
	return few
}

// lefts lists what remains before the state of a feature changes, and the objects that
// refer to a feature that is off.
func lefts(f feature.Feature) (list []left) {
	for i, t := range f.Status.Tasks {
		text := "then " + t.Name
		if i == 0 {
			text = "left " + t.Name
		}
		if t.Message != "" {
			text += ": " + t.Message
		}
		list = append(list, left{text, t.Names, t.Remaining})
	}
	if s := f.Status.State; s.IsSteady() && len(f.Status.Tasks) == 0 && f.Wants() != s {
		list = append(list, left{text: fmt.Sprintf("next: the desired state is %s; the next pass of the reconciler begins the transition", f.Wants())})
	}
	if c := f.Condition(feature.Dangling); c.Status == "True" {
		list = append(list, left{fmt.Sprintf("dangling: the feature is Off, but objects still refer to it: %d", c.Count), c.Sample, c.Count})
	}
	return list
}

func desired(f feature.Feature) string {
	if f.Spec.Desired == "" {
		return "its default"
	}
	return string(f.Spec.Desired)
}

func setBy(f feature.Feature) string {
	switch {
	case f.Spec.Dynamic:
		return "waybill feature set"
	case f.Spec.Desired != "":
		return "FEATURES.yaml"
	}
	return "its default"
}

// meaning describes what On means for a feature.
func meaning(d feature.Definition) string {
	if d.Requirement {
		return d.About + "; otherwise refused"
	}
	return d.About
}

// scopes describes where a feature applies, and how: a requirement in transition
// warns, and any other feature is being switched.
func (w Writer) scopes(f feature.Feature) string {
	s := f.Status
	d, _ := w.Known.Definition(f.Key())
	here, soon := "on at ", "being switched on at "
	switch {
	case d.Requirement:
		here, soon = "enforced at ", "warned about at "
	case s.State == feature.TurningOff:
		soon = "being switched off at "
	}
	var parts []string
	if !s.Enforced.IsNone() {
		parts = append(parts, here+where(s.Enforced))
	}
	if !s.Preparing.IsNone() {
		parts = append(parts, soon+where(s.Preparing))
	}
	if len(parts) == 0 {
		return "nowhere"
	}
	return strings.Join(parts, ", ")
}

func where(s feature.Scope) string {
	const few = 3
	switch {
	case s.Everything:
		return "everything"
	case s.IsNone():
		return "nothing"
	case len(s.Repositories) > few:
		return fmt.Sprintf("%s and %d more", strings.Join(s.Repositories[:few], " "), len(s.Repositories)-few)
	}
	return strings.Join(s.Repositories, " ")
}

// page is text in columns, with control characters escaped.
type page struct{ w *tabwriter.Writer }

// safe redacts secrets and escapes control characters, without shortening: people
// look up the names in it.
func safe(text string) string {
	words := strings.SplitAfter(redact.Secrets(text), " ")
	for i, w := range words {
		words[i] = render.Safe(w)
	}
	return strings.Join(words, "")
}

func newPage(to io.Writer) page { return page{tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)} }

func (p page) row(cells ...string) {
	for i, c := range cells {
		cells[i] = safe(c)
	}
	fmt.Fprintln(p.w, strings.Join(cells, "\t"))
}

func (p page) line(format string, args ...any) {
	fmt.Fprintln(p.w, safe(fmt.Sprintf(format, args...)))
}

func (p page) indented(by string, lines []string) {
	for _, text := range lines {
		p.line("%s%s", by, text)
	}
}

func (p page) tasks(f feature.Feature) {
	for _, left := range lefts(f) {
		p.line("  %s", left.text)
		p.indented("    ", left.few())
	}
	for _, d := range f.Status.Done {
		p.line("  done %s: %s", d.Name, d.Message)
	}
}

func (p page) uses(all []feature.Use) {
	for i, u := range all {
		if i == 0 {
			p.line("")
			p.row("  USED BY", "VERSION", "VALUE", "ASKED", "LAST SEEN")
		}
		value, asked := string(feature.Off), "no"
		if u.Value {
			value = string(feature.On)
		}
		if u.Checked {
			asked = "yes"
		}
		p.row("  "+u.Identity, u.Version, value, asked, u.LastSeen.Format(time.RFC3339))
	}
}

func (p page) conditions(all []feature.Condition) {
	for i, c := range all {
		if i == 0 {
			p.line("")
			p.row("  CONDITION", "STATUS", "WHY")
		}
		text := c.Message
		if c.Count > 0 {
			text += fmt.Sprintf(" (%d: %s)", c.Count, strings.Join(c.Sample, ", "))
		}
		p.row("  "+c.Type, c.Status, text)
	}
}

func (p page) history(all []feature.Entry) {
	for i, e := range all {
		if i == 0 {
			p.line("")
			p.row("  NUMBER", "TIME", "CHANGE", "REASON", "STATEMENT")
		}
		t := e.Transition
		statement := e.Statement
		if statement == "" {
			statement = "not signed yet"
		}
		p.row(fmt.Sprintf("  %d", t.Number), t.At.Format(time.RFC3339), t.From+" to "+t.To, t.Reason, statement)
	}
}
