package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// testCase is one test case of a policy: unverified evidence, a question, and
// the expected answer.
type testCase struct {
	Name string              `yaml:"-"`
	Want []string            `yaml:"want"` // "accepted", or the codes of a refusal
	Ask  caseQuestion        `yaml:"ask"`
	Said map[string]caseFact `yaml:"evidence"`
	// Like names another case to copy. Set and Without then change and remove
	// values, by paths with dots such as evidence.signature.by.
	Like    string         `yaml:"like"`
	Set     map[string]any `yaml:"set"`
	Without []string       `yaml:"without"`
}

type caseQuestion struct {
	Stage   Stage               `yaml:"stage"`
	Class   plan.Class          `yaml:"class"`
	Subject string              `yaml:"subject"`
	Text    string              `yaml:"text"` // the artifact's bytes
	Version string              `yaml:"version"`
	Commit  string              `yaml:"commit"`
	Image   string              `yaml:"image"` // REPOSITORY@DIGEST
	SBOM    string              `yaml:"sbom"`  // the text whose digest its SBOM describes
	Omitted []string            `yaml:"omitted"`
	Lacks   map[string][]string `yaml:"lacks"`
	At      string              `yaml:"at"`
}

type caseFact struct {
	// Type is a predicate type, blob for a plain signature, or simple-signing.
	Type   string            `yaml:"type"`
	By     identity.Identity `yaml:"by"`
	Claims map[string]string `yaml:"claims"`
	Signed string            `yaml:"signed"`
	// Of is the text of the bytes that it covers; the artifact's text if empty.
	Of   string `yaml:"of"`
	Name string `yaml:"name"`
	// Revision is the commit that a summary of the source is about, in place of
	// the artifact.
	Revision  string         `yaml:"revision"`
	Predicate map[string]any `yaml:"predicate"`
}

// CaseReport is the result of all cases. It is not a Verdict and cannot become
// one.
type CaseReport struct {
	Policy string        `json:"policy"`
	Digest digest.Digest `json:"digest"`
	Cases  []caseResult  `json:"cases"`
}

type caseResult struct {
	Name string   `json:"name"`
	Want []string `json:"want"`
	Got  []string `json:"got"`
	OK   bool     `json:"ok"`
	// Why lists the findings, for people.
	Why []string `json:"why,omitempty"`
}

// The limits of a file of cases.
const (
	maxArchive  = 256 << 10
	maxCases    = 1000
	maxRepeated = 512 << 10
)

// accepted is the answer of a case without findings.
const accepted = "accepted"

// Failed counts the cases with another answer than expected.
func (r CaseReport) Failed() int {
	return slice.Count(r.Cases, func(c caseResult) bool { return !c.OK })
}

// Rehearse runs every case of a txtar archive against a policy. The archive
// must begin with refusals and end with at least one accepted case: a policy
// that refuses everything would pass any other archive.
func Rehearse(p Policy, archive []byte) (CaseReport, error) {
	cases, err := parseCases(archive)
	if err != nil {
		return CaseReport{}, err
	}
	report := CaseReport{Policy: p.name, Digest: p.digest}
	for _, c := range cases {
		result, err := c.rehearse(&p)
		if err != nil {
			return CaseReport{}, malformed("case %q: %v", c.Name, err)
		}
		report.Cases = append(report.Cases, result)
	}
	return report, nil
}

func malformed(format string, args ...any) error {
	return verdict.Refuse(verdict.ConfigParse, "cases", format, args...)
}

// parseCases reads a txtar archive with one case in each file.
func parseCases(archive []byte) ([]testCase, error) {
	if len(archive) > maxArchive {
		return nil, malformed("%d bytes, the limit is %d", len(archive), maxArchive)
	}
	files := txtar.Parse(archive).Files
	if len(files) > maxCases {
		return nil, malformed("%d cases, the limit is %d", len(files), maxCases)
	}
	raw := map[string]map[string]any{}
	for _, f := range files {
		var tree map[string]any
		if err := strictyaml.Unmarshal(f.Data, &tree); err != nil {
			return nil, malformed("case %q: %v", f.Name, err)
		}
		if raw[f.Name] != nil {
			return nil, malformed("case %q occurs twice", f.Name)
		}
		raw[f.Name] = tree
	}
	if err := checkRepeated(raw, files); err != nil {
		return nil, err
	}
	var cases []testCase
	for _, f := range files {
		c, err := resolve(raw, f.Name)
		if err != nil {
			return nil, malformed("case %q: %v", f.Name, err)
		}
		cases = append(cases, c)
	}
	return cases, checkOrder(cases)
}

// checkRepeated limits the total size after all copies by "like".
func checkRepeated(raw map[string]map[string]any, files []txtar.File) error {
	sizes, total := map[string]int{}, 0
	for _, f := range files {
		sizes[f.Name] = len(f.Data)
	}
	for _, f := range files {
		like, _ := raw[f.Name]["like"].(string)
		if total += len(f.Data) + sizes[like]; total > maxRepeated {
			return malformed("the cases expand to more than %d bytes through \"like\"", maxRepeated)
		}
	}
	return nil
}

func checkOrder(cases []testCase) error {
	refusals := slices.IndexFunc(cases, testCase.accepts)
	switch {
	case len(cases) == 0:
		return malformed("no cases; want files such as -- no evidence --")
	case refusals < 0:
		return malformed("no case is accepted, so a policy that refuses everything would pass; add an accepted case at the end")
	case refusals == 0:
		return malformed("the first case %q is accepted; put refusals first", cases[0].Name)
	}
	for _, c := range cases[refusals:] {
		if !c.accepts() {
			return malformed("case %q is refused but comes after an accepted one; put refusals first", c.Name)
		}
	}
	return nil
}

func (c testCase) accepts() bool { return slices.Equal(c.Want, []string{accepted}) }

// resolve copies the case named by "like", then applies the changes.
func resolve(raw map[string]map[string]any, name string) (testCase, error) {
	own := raw[name]
	tree := own
	if like, is := own["like"].(string); is {
		if raw[like] == nil || raw[like]["like"] != nil {
			return testCase{}, fmt.Errorf("like %q: no such case, or that case itself uses like", like)
		}
		data, err := json.Marshal(raw[like]) // to change a copy
		if err == nil {
			tree = nil
			err = strictyaml.Unmarshal(data, &tree)
		}
		if err != nil {
			return testCase{}, err
		}
		tree["want"] = own["want"]
		if err := change(tree, own); err != nil {
			return testCase{}, err
		}
	}
	text, err := json.Marshal(tree) // JSON is YAML with all texts quoted
	if err != nil {
		return testCase{}, err
	}
	var c testCase
	if err := strictyaml.Unmarshal(text, &c); err != nil {
		return testCase{}, err
	}
	c.Name = name
	if len(c.Want) == 0 || c.Like == "" && (c.Set != nil || c.Without != nil) {
		return testCase{}, fmt.Errorf("want is empty, or set or without is given without like")
	}
	return c, nil
}

func change(tree, own map[string]any) error {
	for key := range own {
		if !slices.Contains([]string{"want", "like", "set", "without"}, key) {
			return fmt.Errorf("%q is not allowed beside like; write it under set", key)
		}
	}
	set, _ := own["set"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(set)) {
		if err := put(tree, strings.Split(path, "."), set[path]); err != nil {
			return fmt.Errorf("set %s: %w", path, err)
		}
	}
	without, _ := own["without"].([]any)
	for _, path := range without {
		if err := drop(tree, strings.Split(fmt.Sprint(path), ".")); err != nil {
			return fmt.Errorf("without %v: %w", path, err)
		}
	}
	if len(set)+len(without) == 0 {
		return fmt.Errorf("set and without are empty, so the case equals the one it copies")
	}
	return nil
}

// enter returns the map that contains the last element of a path.
func enter(tree map[string]any, path []string) (map[string]any, string, error) {
	for _, step := range path[:len(path)-1] {
		next, is := tree[step].(map[string]any)
		if !is {
			return nil, "", fmt.Errorf("no object %q", step)
		}
		tree = next
	}
	return tree, path[len(path)-1], nil
}

func put(tree map[string]any, path []string, value any) error {
	holder, last, err := enter(tree, path)
	if err == nil {
		holder[last] = value
	}
	return err
}

func drop(tree map[string]any, path []string) error {
	holder, last, err := enter(tree, path)
	if err != nil {
		return err
	}
	if _, there := holder[last]; !there {
		return fmt.Errorf("no field %q", last)
	}
	delete(holder, last)
	return nil
}

// rehearse runs the case against a policy.
func (c testCase) rehearse(p *Policy) (caseResult, error) {
	q, err := c.question()
	if err != nil {
		return caseResult{}, err
	}
	m := &judgement{policy: p, q: q}
	for _, name := range slices.Sorted(maps.Keys(c.Said)) {
		f, err := c.Said[name].fact(q)
		if err != nil {
			return caseResult{}, fmt.Errorf("evidence %q: %w", name, err)
		}
		if c.Said[name].Revision != "" {
			m.sources = append(m.sources, sourceEvidence{fact: f})
			continue
		}
		m.facts = append(m.facts, f)
	}
	result := caseResult{Name: c.Name, Want: slices.Sorted(slices.Values(c.Want))}
	codes := map[string]bool{}
	results := m.rehearseSignoff()
	if results == nil {
		results = m.decide()
	}
	for _, r := range results {
		if r.mode == Require && !r.met {
			f := verdict.FindingOf(q.Subject, r.err)
			codes[string(f.Code)] = true
			result.Why = append(result.Why, r.err.Error())
		}
	}
	if result.Got = slices.Sorted(maps.Keys(codes)); len(codes) == 0 {
		result.Got = []string{accepted}
	}
	result.OK = slices.Equal(result.Want, result.Got)
	return result, nil
}

func (c testCase) question() (Question, error) {
	at, err := time.Parse(time.RFC3339, c.Ask.At)
	if err != nil {
		return Question{}, fmt.Errorf("ask.at: %w", err)
	}
	q := Question{
		Stage: c.Ask.Stage, Class: c.Ask.Class, Subject: c.Ask.Subject, Bytes: digest.SetOf([]byte(c.Ask.Text)),
		Version: c.Ask.Version, Commit: c.Ask.Commit, Image: c.Ask.Image, Omitted: c.Ask.Omitted, Lacks: c.Ask.Lacks, At: at,
	}
	if c.Ask.SBOM != "" {
		q.SBOM = digest.Of(digest.SHA256, []byte(c.Ask.SBOM))
	}
	return q, nil
}

// fact builds the fact that the case describes, as if it were signed.
func (c caseFact) fact(q Question) (*fact, error) {
	signed, err := time.Parse(time.RFC3339, c.Signed)
	if err != nil {
		return nil, fmt.Errorf("signed: %w", err)
	}
	if err := c.By.Check(); err != nil {
		return nil, err
	}
	bytes := q.Bytes
	if c.Of != "" {
		bytes = digest.SetOf([]byte(c.Of))
	}
	claims := identity.ClaimsOf(c.Claims)
	f := &fact{who: c.By, claims: &claims, saying: &saying{kind: c.Type, signedAt: signed}}
	f.bundle = digest.Of(digest.SHA256, []byte(fmt.Sprint(c.Type, c.By, c.Signed, bytes, c.Predicate)))
	f.coversBytes = func(d digest.Digest) bool { return bytes.SHA256.Equal(d) }
	f.covers = func(_ string, b digest.Set) bool { return bytes.SHA256.Equal(b.SHA256) }
	if c.Type == kindBlob || c.Type == verify.KindImage {
		return f, nil
	}
	name := q.Subject
	if c.Name != "" {
		name = c.Name
	}
	if f.said, err = c.statement(intoto.Subject{Name: name, Digests: bytes}); err != nil {
		return nil, err
	}
	f.covers = f.said.Names
	f.reached = func(t slsa.Trust, q slsa.Question) (slsa.Report, error) { return t.Suppose(q, c.By, f.said) }
	f.remember()
	return f, nil
}

// statement is what was signed: about an artifact, or about a revision.
func (c caseFact) statement(of intoto.Subject) (intoto.Statement, error) {
	if c.Revision == "" {
		return intoto.New(c.Type, []intoto.Subject{of}, c.Predicate)
	}
	raw, err := json.Marshal(map[string]any{
		"_type": intoto.TypeV1, "predicateType": c.Type, "predicate": c.Predicate,
		"subject": []any{map[string]any{"digest": map[string]string{"gitCommit": c.Revision}}},
	})
	if err != nil {
		return intoto.Statement{}, err
	}
	return intoto.ParseOpen(raw)
}
