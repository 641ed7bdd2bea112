package intotolayout

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"

	"github.com/waybill-release/waybill/pkg/tool/pathend"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Request asks whether files came about as a layout demands.
type Request struct {
	Layout []byte
	// Keys are the layout's owners. Each of them must have signed it.
	Keys []crypto.PublicKey
	// Links holds STEP.KEYID.link for each step, where KEYID is the first eight
	// characters of the key's, and the directory STEP.KEYID for a step that is a
	// layout itself.
	Links fs.FS
	// Files are held against what the last step made.
	Files []File
	// Parameters are the values of {NAME} in the layout's rules.
	Parameters map[string]string
	// WithoutInspections accepts a layout that wants commands to be run on the
	// files. They never are; the verdict says which were left out.
	WithoutInspections bool
	// Now is the time of judgement: a layout expires.
	Now time.Time
}

// File is a file that came out of the last step.
type File struct {
	Name    string
	Digests digest.Set
}

// maxDepth is how deep layouts can stand in layouts.
const maxDepth = 4

// Judge holds files against a layout and its links.
func Judge(r Request) *verdict.Verdict {
	v := verdict.New("files against a layout", r.Now)
	v.Scope.Checks = []string{"signatures", "expiry", "thresholds", "rules", "products"}
	v.Counts.Required = max(1, len(r.Files))
	made, owners, err := r.ask(v)
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
			v.Note("%s: it is the product %s", f.Name, name)
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

// ask returns what the last step made, and who owns the layout.
func (r Request) ask(v *verdict.Verdict) (map[string]in_toto.HashObj, []key, error) {
	if len(r.Files) == 0 || len(r.Keys) == 0 || r.Links == nil || r.Now.IsZero() {
		return nil, nil, verdict.Refuse(verdict.Usage, "layout", "want files, the keys of the layout's owners, links and the time")
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
		return nil, nil, verdict.Refuse(verdict.MaterialKind, "layout", "it is a link: name the layout, and the directory of the links").
			Advise("give the layout, and the directory of the links by --links")
	}
	v.Inputs = append(v.Inputs, verdict.Input{Name: "layout", Digest: d.digest})
	w := &walk{Request: r, v: v}
	summary, err := w.layout(d, owners, place{links: r.Links, parameters: r.Parameters})
	return summary.Products, owners, err
}

// among finds a file among products, by its name and its bytes. It is the product
// whose path has most of its end in common with the file's: only where a file
// is given without its directory can it be any product of that base name.
func (f File) among(made map[string]in_toto.HashObj) (string, error) {
	var called []string // the products that the name can mean
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
		return called[0], verdict.Refuse(verdict.Tampered, f.Name, "the last step made other bytes of this name, as %q", called[0])
	case len(called) > 0:
		return called[0], verdict.Refuse(verdict.NameSwap, f.Name, "it has the bytes of the product %q and the name of %q", other, called[0])
	case other != "":
		return other, verdict.Refuse(verdict.NameSwap, f.Name, "the last step made these bytes under the name %q", other)
	}
	return "", verdict.Refuse(verdict.NotBound, f.Name, "the last step did not make it")
}

// is reports whether every digest that is known on both sides is the same, and
// there is one.
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

// walk judges a layout and the layouts in it.
type walk struct {
	Request
	v *verdict.Verdict
}

// place is where a layout stands.
type place struct {
	links      fs.FS
	step       string // the step that it is, below another layout
	depth      int
	parameters map[string]string
}

func (p place) name() string {
	if p.step == "" {
		return "layout"
	}
	return "layout of step " + p.step
}

// parameter is a parameter that has no value.
var parameter = regexp.MustCompile(`\{[a-zA-Z0-9_-]+\}`)

// layout judges one layout, and sums it up as if it were one step.
func (w *walk) layout(d Document, owners []key, p place) (in_toto.Link, error) {
	none := in_toto.Link{}
	if p.depth > maxDepth {
		return none, verdict.Refuse(verdict.Limit, p.name(), "more than %d layouts within each other", maxDepth)
	}
	for _, k := range owners {
		if !k.signed(d) {
			return none, verdict.Refuse(verdict.SignatureBad, p.name(), "the key %s did not sign it", k.public)
		}
	}
	expires, err := time.Parse(in_toto.ISO8601DateSchema, d.layout.Expires)
	switch {
	case err != nil:
		return none, verdict.Wrap(verdict.StatementParse, p.name(), err)
	case !w.Now.Before(expires):
		return none, verdict.Refuse(verdict.Expired, p.name(), "it expired at %s", d.layout.Expires).
			Advise("have the layout's owners sign a newer one")
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
		return none, verdict.Wrap(verdict.LayoutRule, p.name(), err)
	}
	w.inspections(layout, p)
	summary, err := in_toto.GetSummaryLink(layout, one, p.step, false)
	if err != nil {
		return none, verdict.Wrap(verdict.StatementParse, p.name(), err)
	}
	return summary.GetPayload().(in_toto.Link), nil
}

// substituted puts the values of parameters in place. One without a value would
// be a pattern that matches nothing.
func substituted(l in_toto.Layout, p place) (in_toto.Layout, error) {
	used := func(name string) bool { return textsOf(l).has("{" + name + "}") }
	for _, name := range slices.Sorted(maps.Keys(p.parameters)) {
		if !used(name) {
			return l, verdict.Refuse(verdict.Usage, "parameter "+name, "the layout has no {%s}", name)
		}
	}
	l, err := in_toto.SubstituteParameters(l, p.parameters)
	if err != nil {
		return l, verdict.Wrap(verdict.Usage, p.name(), err)
	}
	for _, s := range l.Steps {
		for _, rule := range slices.Concat(s.ExpectedMaterials, s.ExpectedProducts) {
			if open := parameter.FindString(strings.Join(rule, " ")); open != "" {
				return l, verdict.Refuse(verdict.Usage, "step "+s.Name, "its rule %q has the parameter %s, which has no value", strings.Join(rule, " "), open).
					Advise("give its value: --parameter NAME=VALUE")
			}
			if err := checkRule(rule); err != nil {
				return l, verdict.Wrap(verdict.Usage, "step "+s.Name, err)
			}
		}
	}
	return l, nil
}

// texts are the texts of a layout in which a parameter can stand.
type texts []string

func textsOf(l in_toto.Layout) (t texts) {
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

func (t texts) has(part string) bool {
	return slices.ContainsFunc(t, func(s string) bool { return strings.Contains(s, part) })
}

// step finds the links of a step: as many as the layout demands, each of it and
// signed by another key that it names.
func (w *walk) step(l in_toto.Layout, s in_toto.Step, p place) (map[string]in_toto.Metadata, error) {
	found, signers := map[string]in_toto.Metadata{}, map[digest.Digest]bool{}
	var why []string
	for _, id := range s.PubKeys {
		k, err := readKey(l.Keys[id])
		if _, known := l.Keys[id]; !known {
			err = fmt.Errorf("the layout does not have the key %s", id)
		}
		if err == nil && signers[k.public] {
			why = append(why, id+" is the same key under another id")
			continue
		}
		var link in_toto.Link
		if err == nil {
			link, err = w.link(s, k, p)
		}
		var down *verdict.UnavailableError
		if errors.As(err, &down) {
			return nil, err
		}
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		signers[k.public], found[id] = true, &in_toto.Metablock{Signed: link}
		w.v.Note("step %s: done by the key %s", s.Name, id)
	}
	if len(found) < s.Threshold {
		return nil, verdict.Refuse(verdict.Threshold, "step "+s.Name, "links that count: %d, want %d: %s", len(found), s.Threshold, strings.Join(why, "; ")).
			Advise("get the links of the step from those who are to do it")
	}
	return found, nil
}

// link reads what one key says of a step, which may be a layout of its own.
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
		return none, verdict.Refuse(verdict.SignatureBad, name, "the key %s did not sign it", k.KeyID)
	case d.IsLayout():
		below, err := fs.Sub(p.links, fmt.Sprintf(in_toto.SublayoutLinkDirFormat, s.Name, k.KeyID))
		if err != nil {
			return none, fmt.Errorf("%s: %w", name, err)
		}
		w.v.Inputs = append(w.v.Inputs, verdict.Input{Name: name, Digest: d.digest})
		return w.layout(d, []key{k}, place{links: below, step: s.Name, depth: p.depth + 1})
	case d.link.Name != s.Name:
		return none, verdict.Refuse(verdict.NotBound, name, "it is a link of the step %q", d.link.Name)
	}
	w.v.Inputs = append(w.v.Inputs, verdict.Input{Name: name, Digest: d.digest})
	return *d.link, nil
}

// read reads a file of links, bounded.
func read(from fs.FS, name string) ([]byte, error) {
	file, err := from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s", name)
	}
	var raw []byte
	if err == nil {
		defer file.Close()
		raw, err = io.ReadAll(io.LimitReader(file, MaxSize+1)) // Parse refuses what is longer
	}
	if err != nil {
		return nil, &verdict.UnavailableError{Place: name, Op: "reading", Err: err}
	}
	return raw, nil
}

// command notes where a step ran another command than the layout expects. The
// specification makes of it no more than a warning.
func (w *walk) command(s in_toto.Step, l in_toto.Link) {
	if len(s.ExpectedCommand) > 0 && !slices.Equal(s.ExpectedCommand, l.Command) {
		w.v.Note("step %s: it ran %q, and the layout expects %q", s.Name, strings.Join(l.Command, " "), strings.Join(s.ExpectedCommand, " "))
	}
}

// inspections says what the layout wants to be run on the files, and was not.
func (w *walk) inspections(l in_toto.Layout, p place) {
	for _, i := range l.Inspect {
		run := strings.Join(i.Run, " ")
		if w.WithoutInspections {
			w.v.Scope.Left = append(w.v.Scope.Left, fmt.Sprintf("inspection %s of the %s (%q was not run)", i.Name, p.name(), run))
			continue
		}
		w.v.Add(verdict.Find(verdict.LayoutInspection, "inspection "+i.Name, "the %s wants %q to be run, and no command of a layout is run here", p.name(), run))
	}
}
