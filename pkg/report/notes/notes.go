// Package notes writes release notes from a release that was verified in this
// run: its artifacts with digests and sizes, how to verify them, the SLSA level,
// and what limits the answer.
//
//	n, err := notes.Of(decided, "profile.yaml")
//	err = n.Markdown(os.Stdout)
//
// Nothing is written about a release that is not accepted, or about an artifact
// that is not verified.
//
// Other projects should not import this package: it changes without notice.
package notes

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed notes.md.tmpl
var files embed.FS

// Notes are the notes of one release.
type Notes struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	Source    string         `json:"source"`
	Commit    string         `json:"commit"`
	Files     string         `json:"files"`
	Images    string         `json:"images,omitempty"`
	Verified  time.Time      `json:"verified"` // when
	Answer    string         `json:"answer"`
	Manifest  digest.Digest  `json:"manifest"`
	Policy    digest.Digest  `json:"policy"`
	Profile   string         `json:"profile"`
	Artifacts []Artifact     `json:"artifacts"`
	Signed    []Signed       `json:"signed,omitempty"` // an example for each class
	Sums      bool           `json:"sums"`             // whether SHA256SUMS is one of the files
	Level     *verdict.Least `json:"level,omitempty"`
	Levels    []string       `json:"levels,omitempty"` // sentences, one for each track
	Limits    []string       `json:"limits,omitempty"`
}

// Artifact is one verified artifact. The size of an image is that of its index.
type Artifact struct {
	Name     string        `json:"name"`
	Class    plan.Class    `json:"class"`
	Platform string        `json:"platform,omitempty"`
	Size     int64         `json:"size"`
	Digest   digest.Digest `json:"digest"`
}

// Signed is an artifact with who signed it, and its bundle if it is a file.
type Signed struct {
	Class    plan.Class `json:"class"`
	Name     string     `json:"name"` // of an image, its reference by digest
	Bundle   string     `json:"bundle,omitempty"`
	Identity string     `json:"identity"`
	Issuer   string     `json:"issuer"`
}

// Of makes the notes of an accepted release with a manifest, which was decided
// under a profile.
func Of(d gate.Decided, profile string) (Notes, error) {
	v := d.Verdict
	if err := v.Err(); err != nil {
		return Notes{}, err
	}
	m := d.Verified()
	if len(m.Artifacts) == 0 {
		return Notes{}, verdict.Refuse(verdict.Usage, v.Question, "the release has no manifest, so no notes can be written about it")
	}
	n := Notes{
		Name: m.Name, Version: m.Version.String(), Source: m.Source.Repository, Commit: m.Source.Commit, Files: m.FilesURI, Images: m.ImagesURI,
		Verified: v.Time, Answer: v.Headline(), Policy: v.Policy, Profile: profile, Level: v.Least,
	}
	n.Levels, n.Limits = limits(*v)
	if i := slices.IndexFunc(v.Inputs, func(i verdict.Input) bool { return i.Name == releasemanifest.Name }); i >= 0 {
		n.Manifest = v.Inputs[i].Digest
	}
	for _, a := range m.Artifacts {
		n.Sums = n.Sums || a.Name == "SHA256SUMS"
		if slices.Contains(shown(), a.Class) {
			n.Artifacts = append(n.Artifacts, Artifact{a.Name, a.Class, a.Platform, a.Size, a.Digests.SHA256})
		}
		n.example(a, v.Proofs)
	}
	return n, nil
}

// shown are the classes of what a release is made for.
func shown() []plan.Class { return []plan.Class{plan.Binary, plan.Archive, plan.Other, plan.Image} }

// example adds the first signed artifact of each class.
func (n *Notes) example(a manifest.Artifact, proofs []verdict.Proof) {
	if !slices.Contains(append(shown(), plan.Sums), a.Class) || slices.ContainsFunc(n.Signed, func(s Signed) bool { return s.Class == a.Class }) {
		return
	}
	for _, p := range proofs {
		if p.Subject != a.Name || p.Role != "release" || p.Identity == "" {
			continue
		}
		s := Signed{Class: a.Class, Name: a.Name, Bundle: a.Signature, Identity: p.Identity, Issuer: p.Issuer}
		if a.IsImage() {
			s.Name, s.Bundle = n.Images+"/"+a.Repository+"@"+a.Digests.SHA256.String(), ""
		}
		n.Signed = append(n.Signed, s)
		return
	}
}

// aboutLevel matches the notes of a verdict that say which level a track has.
var aboutLevel = pattern.Lazy(`\A[A-Za-z0-9. -]+ level [0-9]+ of [0-9]+ for `)

// limits are what the verdict says of levels, and what the acceptance does not
// cover, once each.
func limits(v verdict.Verdict) (levels, list []string) {
	if lab := v.Lab(); lab != "" {
		list = append(list, lab)
	}
	for _, left := range v.Scope.Left {
		list = append(list, "not checked: "+left)
	}
	for _, f := range v.Warnings {
		list = append(list, fmt.Sprintf("warning %s of %s: %s", f.Code, f.Subject, f.Message))
	}
	for _, w := range v.Waived {
		list = append(list, fmt.Sprintf("set aside %s of %s: %s", w.Finding.Code, w.Finding.Subject, w.Reason))
	}
	for _, note := range v.Notes {
		if aboutLevel().MatchString(note) {
			levels = append(levels, note)
		} else if !slices.Contains(list, "not checked: "+note) {
			list = append(list, note)
		}
	}
	return levels, list
}

// JSON writes the notes as JSON.
func (n Notes) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(n)
}

// Markdown writes the notes as a page. Texts of others are code spans, in which
// mentions, links and tags have no effect.
func (n Notes) Markdown(w io.Writer) error {
	t, err := template.New("notes.md.tmpl").Funcs(template.FuncMap{"code": code, "word": word}).ParseFS(files, "notes.md.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, n)
}

// code is a code span that cannot end a cell of a table.
func code(s any) string {
	text := strings.NewReplacer("`", "'", "|", "¦").Replace(render.Safe(fmt.Sprint(s)))
	return "`" + text + "`"
}

// word is an argument of a command line, in quotes where a shell needs them.
func word(s string) string { return render.Shell(render.Safe(s)) }
