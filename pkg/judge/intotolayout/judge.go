package intotolayout

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"

	"github.com/waybill-release/waybill/pkg/tool/pathend"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Request asks whether files were made as a layout requires.
type Request struct {
	Layout []byte
	// Keys are the layout's owners. Each of them must have signed it.
	Keys []crypto.PublicKey
	// Links contains STEP.KEYID.link for each step, where KEYID is the first
	// eight characters of the key id, and the directory STEP.KEYID for a step
	// that is itself a layout.
	Links fs.FS
	// Files are compared with the products of the last step.
	Files []File
	// Parameters are the values of {NAME} in the layout's rules.
	Parameters map[string]string
	// WithoutInspections accepts a layout with inspections: commands to be run
	// on the files. They are never run; the verdict lists those that were
	// skipped.
	WithoutInspections bool
	// Now is the time of verification, compared with the layout's expiry.
	Now time.Time
}

// File is a file that came out of the last step.
type File struct {
	Name    string
	Digests digest.Set
}

// maxDepth limits how deep layouts can be nested.
const maxDepth = 4

// Judge verifies files against a layout and its links.
func Judge(r Request) *verdict.Verdict {
	v := verdict.New("files against a layout", r.Now)
	v.Scope.Checks = []string{"signatures", "expiry", "thresholds", "rules", "products"}
	v.Counts.Required = max(1, len(r.Files))
	made, owners, err := r.products(v)
	if err != nil {
		v.AddError("layout", err)
		return v
	}
	if len(v.Findings) > 0 {
		return v
	}
	given := map[string]bool{}
	for _, f := range r.Files {
		name, err := f.among(made)
		given[name] = true
		if err != nil {
			v.AddError(f.Name, err)
			continue
		}
		if name != f.Name {
			v.Note("%s: matched to the product %s", f.Name, name)
		}
		v.Counts.Verified++
		v.Inputs = append(v.Inputs, verdict.Input{Name: f.Name, Digest: f.Digests.SHA256})
		for _, k := range owners {
			v.Proofs = append(v.Proofs, verdict.Proof{
				Subject: f.Name, Statement: "in-toto layout", Role: "layout owner", Key: k.public, Bundle: digest.Of(digest.SHA256, r.Layout),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !given[name] {
			v.Scope.Left = append(v.Scope.Left, "product "+name+" (not given)")
		}
	}
	return v
}

// products returns the products of the last step, and the keys of the layout's
// owners.
func (r Request) products(v *verdict.Verdict) (map[string]in_toto.HashObj, []key, error) {
	if len(r.Files) == 0 || len(r.Keys) == 0 || r.Links == nil || r.Now.IsZero() {
		return nil, nil, verdict.Refuse(verdict.Usage, "layout", "files, the keys of the layout's owners, links and the time are required")
	}
	var owners []key
	for _, public := range r.Keys {
		k, err := keyOf(public)
		if err != nil {
			return nil, nil, err
		}
		owners = append(owners, k)
	}
	d, err := Parse(r.Layout)
	if err != nil {
		return nil, nil, err
	}
	if !d.IsLayout() {
		return nil, nil, verdict.Refuse(verdict.MaterialKind, "layout", "the file is a link, want a layout").
			Advise("give the layout, and the directory of the links by --links")
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: "layout", Digest: d.digest})
	w := &walk{Request: r, v: v}
	summary, err := w.layout(d, owners, place{links: r.Links, parameters: r.Parameters})
	return summary.Products, owners, err
}

// among finds a file among the products, by name and bytes. The product is the
// one whose path shares the most trailing elements with the file's path. A file
// that is given without a directory can therefore be any product with that base
// name.
func (f File) among(made map[string]in_toto.HashObj) (string, error) {
	var called []string // the products that the name can refer to
	most, other := 0, ""
	for _, name := range slices.Sorted(maps.Keys(made)) {
		switch n := pathend.Common(f.Name, name); {
		case n > most:
			most, called = n, []string{name}
		case n > 0 && n == most:
			called = append(called, name)
		}
		if f.is(made[name]) && other == "" {
			other = name
		}
	}
	if i := slices.IndexFunc(called, func(name string) bool { return f.is(made[name]) }); i >= 0 {
		return called[i], nil
	}
	switch {
	case len(called) > 0 && other == "":
		return called[0], verdict.Refuse(verdict.Tampered, f.Name, "the last step made %q with other bytes", called[0])
	case len(called) > 0:
		return called[0], verdict.Refuse(verdict.NameSwap, f.Name, "has the bytes of the product %q, but the name of %q", other, called[0])
	case other != "":
		return other, verdict.Refuse(verdict.NameSwap, f.Name, "the last step made these bytes under the name %q", other)
	}
	return "", verdict.Refuse(verdict.NotBound, f.Name, "not a product of the last step")
}

// is reports whether at least one digest is known on both sides, and all such
// digests are equal.
func (f File) is(said in_toto.HashObj) bool {
	n := 0
	for algorithm, value := range f.Digests.Map() {
		if said[algorithm] == "" {
			continue
		}
		if n++; said[algorithm] != value {
			return false
		}
	}
	return n > 0
}

// walk verifies a layout and the layouts nested in it.
type walk struct {
	Request
	v *verdict.Verdict
}

// place is where a layout was found.
type place struct {
	links      fs.FS
	step       string // name of the step, for a nested layout
	depth      int
	parameters map[string]string
}

func (p place) name() string {
	if p.step == "" {
		return "layout"
	}
	return "layout of step " + p.step
}

// parameter matches a parameter that was not substituted.
var parameter = pattern.Lazy(`\{[a-zA-Z0-9_-]+\}`)

// layout verifies one layout and summarizes it as the link of a single step.
func (w *walk) layout(d Document, owners []key, p place) (in_toto.Link, error) {
	none := in_toto.Link{}
	if p.depth > maxDepth {
		return none, verdict.Refuse(verdict.Limit, p.name(), "layouts are nested more than %d deep", maxDepth)
	}
	for _, k := range owners {
		if !k.signed(d) {
			return none, verdict.Refuse(verdict.SignatureBad, p.name(), "not signed by the key %s", k.public)
		}
	}
	expires, err := time.Parse(in_toto.ISO8601DateSchema, d.layout.Expires)
	switch {
	case err != nil:
		return none, verdict.Wrap(verdict.StatementParse, p.name(), err)
	case !w.Now.Before(expires):
		return none, verdict.Refuse(verdict.Expired, p.name(), "the layout expired at %s", d.layout.Expires).
			Advise("ask the layout's owners to sign a newer layout")
	}
	layout, err := substituted(*d.layout, p)
	if err != nil {
		return none, err
	}
	links := map[string]map[string]in_toto.Metadata{}
	for _, s := range layout.Steps {
		if links[s.Name], err = w.step(layout, s, p); err != nil {
			return none, err
		}
	}
	one, err := in_toto.ReduceStepsMetadata(layout, links)
	if err != nil {
		return none, verdict.Wrap(verdict.Conflict, p.name(), err)
	}
	items := make([]any, len(layout.Steps))
	for i, s := range layout.Steps {
		items[i] = s
		w.command(s, one[s.Name].GetPayload().(in_toto.Link))
	}
	if err := in_toto.VerifyArtifacts(items, one); err != nil {
		return none, verdict.Wrap("LAYOUT_RULE", p.name(), err)
	}
	w.inspections(layout, p)
	summary, err := in_toto.GetSummaryLink(layout, one, p.step, false)
	if err != nil {
		return none, verdict.Wrap(verdict.StatementParse, p.name(), err)
	}
	return summary.GetPayload().(in_toto.Link), nil
}

// substituted replaces the parameters with their values. A parameter without a
// value would remain as a pattern that matches nothing.
func substituted(l in_toto.Layout, p place) (in_toto.Layout, error) {
	for _, name := range slices.Sorted(maps.Keys(p.parameters)) {
		if !slices.ContainsFunc(textsOf(l), func(text string) bool { return strings.Contains(text, "{"+name+"}") }) {
			return l, verdict.Refuse(verdict.Usage, "parameter "+name, "the layout does not use the parameter {%s}", name)
		}
	}
	l, err := in_toto.SubstituteParameters(l, p.parameters)
	if err != nil {
		return l, verdict.Wrap(verdict.Usage, p.name(), err)
	}
	for _, s := range l.Steps {
		for _, rule := range slices.Concat(s.ExpectedMaterials, s.ExpectedProducts) {
			if open := parameter().FindString(strings.Join(rule, " ")); open != "" {
				return l, verdict.Refuse(verdict.Usage, "step "+s.Name, "rule %q uses the parameter %s, which has no value", strings.Join(rule, " "), open).
					Advise("set the parameter: --parameter NAME=VALUE")
			}
			if err := checkRule(rule); err != nil {
				return l, verdict.Wrap(verdict.Usage, "step "+s.Name, err)
			}
		}
	}
	return l, nil
}

// textsOf returns the strings of a layout that can contain a parameter.
func textsOf(l in_toto.Layout) (t []string) {
	for _, s := range l.Steps {
		t = append(t, s.ExpectedCommand...)
		t = append(t, slices.Concat(slices.Concat(s.ExpectedMaterials, s.ExpectedProducts)...)...)
	}
	for _, i := range l.Inspect {
		t = append(t, i.Run...)
		t = append(t, slices.Concat(slices.Concat(i.ExpectedMaterials, i.ExpectedProducts)...)...)
	}
	return t
}

// step collects the links of a step: as many as its threshold, each for this
// step and signed by a different key that the layout allows.
func (w *walk) step(l in_toto.Layout, s in_toto.Step, p place) (map[string]in_toto.Metadata, error) {
	found, signers := map[string]in_toto.Metadata{}, map[digest.Digest]bool{}
	var why []string
	for _, id := range s.PubKeys {
		k, err := readKey(l.Keys[id])
		if _, known := l.Keys[id]; !known {
			err = fmt.Errorf("the layout lists the key id %s for this step, but not the key", id)
		}
		if err == nil && signers[k.public] {
			why = append(why, id+" is the same key under another id")
			continue
		}
		var link in_toto.Link
		if err == nil {
			link, err = w.link(s, k, p)
		}
		if _, is := errors.AsType[*verdict.UnavailableError](err); is {
			return nil, err
		}
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		signers[k.public], found[id] = true, &in_toto.Metablock{Signed: link}
		w.v.Note("step %s: link signed by the key %s", s.Name, id)
	}
	if len(found) < s.Threshold {
		return nil, verdict.Refuse(verdict.Threshold, "step "+s.Name, "valid links: %d, want %d: %s", len(found), s.Threshold, strings.Join(why, "; ")).
			Advise("get the missing links from the people or systems that perform the step")
	}
	return found, nil
}

// link reads the link that one key signed for a step. It may be a nested
// layout.
func (w *walk) link(s in_toto.Step, k key, p place) (in_toto.Link, error) {
	none, name := in_toto.Link{}, fmt.Sprintf(in_toto.LinkNameFormat, s.Name, k.KeyID)
	raw, err := read(p.links, name)
	if err != nil {
		return none, err
	}
	d, err := Parse(raw)
	switch {
	case err != nil:
		return none, fmt.Errorf("%s: %w", name, err)
	case !k.signed(d):
		return none, verdict.Refuse(verdict.SignatureBad, name, "not signed by the key %s", k.KeyID)
	case d.IsLayout():
		below, err := fs.Sub(p.links, fmt.Sprintf(in_toto.SublayoutLinkDirFormat, s.Name, k.KeyID))
		if err != nil {
			return none, fmt.Errorf("%s: %w", name, err)
		}
		w.v.Inputs = append(w.v.Inputs, verdict.Input{Name: name, Digest: d.digest})
		return w.layout(d, []key{k}, place{links: below, step: s.Name, depth: p.depth + 1})
	case d.link.Name != s.Name:
		return none, verdict.Refuse(verdict.NotBound, name, "the link is for the step %q", d.link.Name)
	}
	w.v.Inputs = append(w.v.Inputs, verdict.Input{Name: name, Digest: d.digest})
	return *d.link, nil
}

// read reads one file of the links directory, up to the size limit.
func read(from fs.FS, name string) (raw []byte, err error) {
	file, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("link %s not found", name)
	}
	if err == nil {
		defer file.Close()
		raw, err = io.ReadAll(io.LimitReader(file, MaxSize+1)) // Parse refuses more than MaxSize
	}
	if err != nil {
		return nil, &verdict.UnavailableError{Place: name, Op: "reading", Err: err}
	}
	return raw, nil
}

// command notes a step that ran another command than the layout expects. The
// specification asks for a warning only.
func (w *walk) command(s in_toto.Step, l in_toto.Link) {
	if len(s.ExpectedCommand) > 0 && !slices.Equal(s.ExpectedCommand, l.Command) {
		w.v.Note("step %s ran %q, but the layout expects %q", s.Name, strings.Join(l.Command, " "), strings.Join(s.ExpectedCommand, " "))
	}
}

// inspections reports the inspections of the layout, which are never run.
func (w *walk) inspections(l in_toto.Layout, p place) {
	for _, i := range l.Inspect {
		run := strings.Join(i.Run, " ")
		if w.WithoutInspections {
			w.v.Scope.Left = append(w.v.Scope.Left, fmt.Sprintf("inspection %s of the %s (%q was not run)", i.Name, p.name(), run))
			continue
		}
		w.v.Add(verdict.Find("LAYOUT_INSPECTION", "inspection "+i.Name, "the %s requires %q to be run, but commands of layouts are never run", p.name(), run).
			Advise("run the inspection yourself where it can do no harm, then add --without-inspections"))
	}
}
